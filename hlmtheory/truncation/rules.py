"""The k that top-p, min-p and top-nσ sampling keep, and for each rule the parameter that keeps a given k.

Paper: cu-hlm (oh2025cuhlm), end of Section IV, names the first two and refers to the third. Symbols are those of
:mod:`hlmtheory.truncation`. The rules do not compute Δ_k. But each rule bounds Δ_k, and so bounds the Bias.
"""

from __future__ import annotations

from typing import Any

from hlmtheory._array import Array, arrays, in_kind, spread
from hlmtheory._domains import UNIT_INTERVAL, check_logits, leading_dimensions
from hlmtheory._quantities import not_negative
from hlmtheory._simplex import distributions
from hlmtheory.truncation._search.tails import Tails

WIDTH = not_negative("give the number of standard deviations below the largest logit, such as 1")


def size_from_top_p(draft: Array, p: Array) -> Array:
    """The k of nucleus sampling: the smallest whose k largest entries have a mass of at least p.

    Parameters
    ----------
    draft : array, shape (..., V)
        Distributions over the vocabulary.
    p : array, shape (...) or broadcastable to it
        In [0, 1].

    Returns
    -------
    int64 array, shape (...)
        In 0..V: 0 for p = 0, and for p = 1 the number of entries that are not 0. The remaining mass is compared with
        1 - p in float64. If p is within (V + 4) 2^-52 of the mass of k entries, rounding may give k or k + 1.

    Raises
    ------
    ValueError
        If a row is not a distribution or p is outside [0, 1].

    Examples
    --------
    >>> size_from_top_p([0.5, 0.25, 0.25, 0.0], [0.0, 0.5, 0.6, 1.0]).tolist()
    [0, 1, 2, 3]
    """
    xp, q, p, batch = _checked(draft, p)
    p = spread(xp, p, batch)
    size = Tails.of(xp, q).spread(batch).leaving(1.0 - p)
    at_least_one = xp.where(size > 0, size, 1)  # rounding can make the remaining mass at k = 0 differ from 1
    return xp.where(p > 0, at_least_one, 0)


def size_from_min_p(draft: Array, p: Array) -> Array:
    """The k of min-p sampling: the number of entries that are at least p times the largest.

    Parameters
    ----------
    draft : array, shape (..., V)
        Distributions over the vocabulary.
    p : array, shape (...) or broadcastable to it
        In [0, 1].

    Returns
    -------
    int64 array, shape (...)
        In 1..V.

    Raises
    ------
    ValueError
        If a row is not a distribution or p is outside [0, 1].

    Examples
    --------
    >>> size_from_min_p([0.5, 0.25, 0.25, 0.0], [0.0, 0.5, 0.6]).tolist()
    [4, 3, 1]
    """
    xp, q, p, _ = _checked(draft, p)
    return xp.count_nonzero(q >= p[..., None] * xp.max(q, axis=-1, keepdims=True), axis=-1)


def size_from_top_n_sigma(logits: Array, n: Array) -> Array:
    """The k of top-nσ sampling: the number of logits at most n standard deviations below the largest.

    It is min-p with p = e^{-nσ}, σ taken over all entries that are not masked.

    Parameters
    ----------
    logits : array, shape (..., V)
        Finite, or -inf for a masked entry, which is never kept.
    n : array, shape (...) or broadcastable to it
        0 or more.

    Returns
    -------
    int64 array, shape (...)
        In 1..V.

    Raises
    ------
    ValueError
        If a logit is NaN or +inf, a row is all -inf, or n is negative or not finite.

    Examples
    --------
    >>> size_from_top_n_sigma([4.0, 3.0, 0.0, 1.0], [0.0, 1.0, 2.0]).tolist()
    [1, 2, 3]
    """
    xp, logits, n = arrays("logits", "n", logits=logits, n=n)
    z = _with_squares(xp, in_kind(xp, check_logits(xp, logits), xp.float64))
    n = in_kind(xp, WIDTH.check(xp, "n", n), xp.float64)
    leading_dimensions(logits=tuple(z.shape[:-1]), n=tuple(n.shape))
    reach = n[..., None] * _deviation_of_logits(xp, z)[..., None]
    return xp.count_nonzero(xp.max(z, axis=-1, keepdims=True) - z <= reach, axis=-1)


def _checked(draft: Array, p: Array) -> tuple[Any, Array, Array, tuple[int, ...]]:
    """Return the namespace, q and p in float64, and their batch dimensions."""
    xp, draft, p = arrays("draft", "p", draft=draft, p=p)
    q = distributions(draft=draft)[2]
    p = in_kind(xp, UNIT_INTERVAL.check(xp, "p", p), xp.float64)
    return xp, q, p, leading_dimensions(draft=tuple(q.shape[:-1]), p=tuple(p.shape))


def _deviation_of_logits(xp: Any, logits: Array) -> Array:
    """Standard deviation σ of the unmasked logits of each row, shape (...)."""
    finite = xp.isfinite(logits)
    count = xp.astype(xp.count_nonzero(finite, axis=-1, keepdims=True), logits.dtype)
    mean = xp.sum(xp.where(finite, logits, 0.0), axis=-1, keepdims=True) / count
    away = xp.where(finite, logits - mean, 0.0)
    return xp.sqrt(xp.sum(away * away, axis=-1, keepdims=True) / count)[..., 0]


def _with_squares(xp: Any, z: Array) -> Array:
    """The logits, scaled down if their squares would overflow; neither n nor k depends on the scale."""
    large = xp.max(xp.where(xp.isfinite(z), xp.abs(z), 0.0), axis=-1, keepdims=True) > 1e150
    return xp.where(large, z * 2.0**-600, z)


#
# rules_top_n_sigma is rules_min_p: q_i/q_max = e^{-(z_max - z_i)}, and the entries left have z_max - z_i > n σ.
