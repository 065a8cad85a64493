"""Functions on probability rows that every module uses: validate, normalise, compare, convert back.

Rows of any floating type are divided by their sum in float64 on entry and computed there; the answer goes back to the
caller's type. In float32 a sum misses 1 by 1e-6 at V = 32,000, which a residual magnifies by 1/TV(q, p).
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory._array import NUMPY, Array, arrays, every, in_kind, is_kind, sort_descending, take, to_numpy, widest
from hlmtheory._domains import SIMPLEX, UNIT_INTERVAL, DomainError, leading_dimensions, same_vocabulary
from hlmtheory._remember import remembered

EXACT = 2.0**-50
"""Rows whose sum misses 1 by no more than this were divided before, and are not divided again."""


def distributions(**rows: Any) -> tuple[Any, ...]:
    """The namespace, the type of the answer, and the validated rows in float64, each summing to 1."""
    xp, *values = arrays(**rows)
    named = dict(zip(rows, values, strict=True))
    whole = [_whole(xp, name, value) for name, value in named.items()]
    same_vocabulary(**named)
    leading_dimensions(**{name: tuple(value.shape[:-1]) for name, value in named.items()})
    return (xp, widest(xp, *values), *whole)


def chains(**given: Any) -> tuple[Any, ...]:
    """The namespace and rows (..., V, V) of Markov chains, for each token before; every text begins after token 0."""
    xp, _, *rows = distributions(**given)
    for name, value in zip(given, rows, strict=True):
        if value.ndim < 2 or value.shape[-1] != value.shape[-2]:
            shape = tuple(value.shape)
            raise DomainError(f"{name} must be square; got shape {shape}; give a row for each token before")
    return (xp, *rows)


def text_law(xp: Any, rows: Array, tokens: int) -> Array:
    """Probabilities (..., V^tokens) of all texts of a chain."""
    law, size = rows[..., 0, :], rows.shape[-1]
    for _ in range(tokens - 1):
        parts = xp.reshape(law, (*law.shape[:-1], -1, size, 1)) * rows[..., None, :, :]
        law = xp.reshape(parts, (*law.shape[:-1], -1))
    return law


@remembered
def _whole(xp: Any, name: str, rows: Array) -> Array:
    """The rows divided by their sum; rows that were divided before are returned as they are."""
    exact = rows.dtype == xp.float64 and rows.ndim > 0 and rows.shape[-1] > 0
    if exact:
        total = xp.sum(rows, axis=-1, keepdims=True)
        whole = xp.abs(total - 1.0) <= EXACT
        if every(xp, whole) and every(xp, xp.min(rows, axis=-1) >= 0):
            return rows
    wide = in_kind(xp, SIMPLEX.check(xp, name, rows), xp.float64)
    total = xp.where(whole, 1.0, total) if exact else xp.sum(wide, axis=-1, keepdims=True)
    return wide / total


def skip_probabilities(xp: Any, skip: Any, draft: Array, name: str = "skip") -> Array:
    """s_v in float64, one for each draft or one for all; booleans become 1 and 0."""
    _, _, s = arrays(draft=draft, **{name: skip})
    s = in_kind(xp, s, xp.float64) if is_kind(xp, s.dtype, "bool") else s
    UNIT_INTERVAL.check(xp, name, s)
    leading_dimensions(draft=tuple(draft.shape), **{name: tuple(s.shape)})
    return in_kind(xp, s, xp.float64)


def canonical(name: str, rows: Any) -> NDArray[np.float64]:
    """Distributions on the host over their exact sums: the values that are rounded to the levels that are sent.

    They depend only on the values, not on library, type, order in memory or batch; a second call changes nothing.
    """
    xp, given = arrays(**{name: rows})
    wide = in_kind(xp, SIMPLEX.check(xp, name, given), xp.float64)
    return over_exact_sums(np.ascontiguousarray(to_numpy(wide)))


def exact_sums(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sums of rows (..., V) of non-negative numbers, exact and rounded once, as ``math.fsum`` gives them.

    In extended precision 32 terms miss by at most 31 · 2^-64; where both ends of that interval round alike, so does the
    exact sum. The others, and machines without extended precision, go to ``math.fsum``.
    """
    flat = rows.reshape(-1, rows.shape[-1])
    found = np.empty(len(flat))
    unsure = np.ones(len(flat), dtype=bool)
    if np.finfo(np.longdouble).nmant >= 63 and flat.shape[-1] > 1 and len(flat):
        sums, levels = flat, 0
        while sums.shape[-1] > 1:
            if missing := -sums.shape[-1] % 32:
                sums = np.pad(sums, ((0, 0), (0, missing)))
            sums = sums.reshape(len(flat), -1, 32).sum(axis=-1, dtype=np.longdouble)
            levels += 1
        error = sums[:, 0] * np.longdouble(2.0**-64 * 32 * (levels + 1))
        found[:] = (sums[:, 0] - error).astype(np.float64)
        unsure = found != (sums[:, 0] + error).astype(np.float64)
    for index in np.flatnonzero(unsure):
        found[index] = math.fsum(flat[index].tolist())
    return found.reshape(rows.shape[:-1])


@remembered
def over_exact_sums(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows (..., V) of non-negative numbers over their exact sums; unchanged if they sum to 1 up to rounding."""
    total = exact_sums(rows)[..., None]
    whole = (np.abs(total - 1.0) <= EXACT) & (rows.max(axis=-1, keepdims=True) <= 1.0)
    divided: NDArray[np.float64] = rows / np.where(whole, 1.0, total)
    return divided


@remembered
def distance(xp: Any, p: Array, q: Array) -> Array:
    """Total variation of two rows, clipped to 1."""
    half = 0.5 * xp.sum(xp.abs(p - q), axis=-1)
    return xp.clip(half, max=1.0)


def law_overlap(law: Array, target: Array) -> Array:
    """1 - ½ Σ |law - p|, which is 1 exactly where the law is p, even for a "law" that does not sum to 1."""
    xp, law, p = arrays(law=law, target=target)
    return 1.0 - 0.5 * xp.sum(xp.abs(law - p), axis=-1)


@remembered
def excess(xp: Any, p: Array, q: Array) -> Array:
    """(p - q)⁺."""
    return np.maximum(p - q, 0.0) if xp is NUMPY else xp.clip(p - q, min=0.0)


@remembered
def normalised(xp: Any, rows: Array) -> tuple[Array, Array]:
    """Rows over their sum, and that sum (...); a row of zeros stays as it is."""
    mass = xp.sum(rows, axis=-1)
    return rows / xp.where(mass > 0, mass, 1.0)[..., None], mass


@remembered
def largest(xp: Any, values: Array, count: Array) -> Array:
    """Mask of the ``count`` (..., 1) largest entries of each row (..., V), equal ones by lowest index."""
    ordered = xp.broadcast_to(sort_descending(xp, values), (*count.shape[:-1], values.shape[-1]))
    threshold = take(xp, ordered, xp.where(count > 0, count - 1, count))
    chosen = (values >= threshold) & (count > 0)
    # Entries equal to the threshold may be too many: keep the first of them.
    spare = xp.count_nonzero(chosen, axis=-1, keepdims=True) - count
    if bool(xp.any(spare > 0)):
        tied = chosen & (values == threshold)
        rank = xp.cumulative_sum(xp.astype(tied, xp.int64), axis=-1)
        chosen = chosen & (~tied | (rank <= xp.count_nonzero(tied, axis=-1, keepdims=True) - spare))
    return chosen


@remembered
def rejection_by_token(xp: Any, p: Array, q: Array) -> Array:
    """β_v = (1 - p_v/q_v)⁺."""
    lost = q > p
    return xp.where(lost, (q - p) / xp.where(lost, q, 1.0), 0.0)


def quotient(xp: Any, numerator: Array, denominator: Array) -> Array:
    """Numerator over denominator; 0/0 is 0, and an overflow is infinite."""
    inside = denominator > numerator * 2.0**-1000  # in this order nothing overflows
    if every(xp, inside):
        return numerator / denominator
    beyond = xp.where(numerator > 0, xp.full_like(numerator, xp.inf), xp.zeros_like(numerator))
    return xp.where(inside, numerator / xp.where(inside, denominator, 1.0), beyond)
