"""The dual problem: the smallest total deviation of many tokens for a budget of bits.

cu-hlm (oh2025cuhlm) leaves it for future work at the end of Section IV. By ``truncation.certificate`` the total of
2 Δ_k bounds the summed Bias. Δ_k is not convex in k: (½, ½, 0, 0) has ½, ⅓, 0. A greedy choice, entry by entry, is
therefore not optimal. Greedy steps along the lower convex hull of each token's Δ are optimal, up to one token's last
step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from hlmtheory._array import Array, arrays, to_numpy
from hlmtheory._domains import COUNT, DomainError, flag, number, size_up_to
from hlmtheory._simplex import distributions
from hlmtheory.truncation.reconstruction import tail_deviation, truncate
from hlmtheory.verification import total_variation

Numbers = NDArray[np.float64]
Sizes = NDArray[np.int64]

BITS = 8
"""b_prob of cu-hlm V-A."""


@dataclass(frozen=True, slots=True)
class SizeAllocation:
    """How many entries each of T tokens sends.

    Attributes
    ----------
    k : int64 array, shape (T,)
    total : float
        Σ_t Δ_{k(t)}.
    lower_bound : float
        A lower bound on the total of every allocation within the budget; equals ``total`` for the exact method.
    bits : int
        The bits spent, at most the budget.
    """

    k: Array
    total: float
    lower_bound: float
    bits: int

    @property
    def gap(self) -> float:
        """How far ``total`` can be from the optimum."""
        return self.total - self.lower_bound


def optimal_sizes(
    draft_rows: Array, budget_bits: int, *, bits_per_probability: int = BITS, exact: bool = False
) -> SizeAllocation:
    """The k of each of T tokens with the smallest total Δ within a budget of bits.

    An entry costs b_prob + ⌈log₂ V⌉ bits. The drafts' own entries, which are always sent, are not counted.

    Parameters
    ----------
    draft_rows : array, shape (T, V)
        Distributions over the vocabulary.
    budget_bits : int
        0 or more, for all tokens together.
    bits_per_probability : int
        b_prob, 1 or more. It sets the price only: Δ is that of unrounded values.
    exact : bool
        By dynamic programming over tokens and entries, O(T N min(N, V)) for a budget of N entries. Otherwise by the
        lower hulls, O(T V log V), at most one token's last hull step from the optimum.

    Returns
    -------
    SizeAllocation

    Raises
    ------
    ValueError
        If a row is not a distribution, the shape is not (T, V), or the budget or b_prob is out of range.

    Examples
    --------
    >>> rows = [[0.5, 0.5, 0.0, 0.0], [0.55, 0.15, 0.15, 0.15]]
    >>> optimal_sizes(rows, 20, exact=True).k.tolist(), optimal_sizes(rows, 30, exact=True).k.tolist()
    ([2, 0], [2, 1])
    """
    xp, rows = arrays(draft_rows=draft_rows)
    q = distributions(draft_rows=rows)[2]
    if q.ndim != 2:
        raise DomainError(f"draft_rows must have shape (T, V); got {tuple(q.shape)}; give one row for each token")
    budget = _whole("budget_bits", budget_bits, 0)
    price = _whole("bits_per_probability", bits_per_probability, 1) + (q.shape[-1] - 1).bit_length()
    solve = solve_exactly if flag("exact", exact) else solve_by_hull
    deviation = to_numpy(tail_deviation(q))
    k, bound = solve(deviation, budget // price)
    total = _total(deviation, k)
    sizes = xp.asarray(k, device=q.device)
    return SizeAllocation(sizes, total, min(bound, total), int(k.sum()) * price)


def _total(deviation: Numbers, sizes: Sizes) -> float:
    return float(np.sum(np.take_along_axis(deviation, sizes[:, None], axis=1)))


def solve_by_hull(deviation: Numbers, entries: int) -> tuple[Sizes, float]:
    """The k of each token and the lower bound, from deviations (T, V + 1)."""
    # Step 1: the hull steps of all tokens, by falling gain per entry
    steps = [(*step, token) for token, row in enumerate(deviation) for step in _hull_steps(row)]
    steps.sort(key=lambda step: -step[1] / step[0])  # stable, so that each token's own steps stay in order
    # Step 2: take steps while they fit; the relaxation takes a part of the first step that does not fit
    sizes = np.zeros(len(deviation), dtype=np.int64)
    left, saved = entries, 0.0
    for length, gain, token in steps:
        if length > left:
            saved += gain * left / length
            break
        sizes[token] += length
        left -= length
        saved += gain
    bound = max(float(np.sum(deviation[:, 0])) - saved, 0.0)  # a total is not negative, whatever the rounding
    # Step 3: spend the remaining entries on the token that they help most
    if left and len(sizes):
        now = np.take_along_axis(deviation, sizes[:, None], axis=1)[:, 0]
        more = np.minimum(sizes + left, deviation.shape[1] - 1)
        helped = now - np.take_along_axis(deviation, more[:, None], axis=1)[:, 0]
        token = int(np.argmax(helped))
        sizes[token] = more[token] if helped[token] > 0 else sizes[token]
    return sizes, bound


def solve_exactly(deviation: Numbers, entries: int) -> tuple[Sizes, float]:
    """The k of each token for the smallest total, and that total, by a knapsack with one choice of k for each token."""
    useful = [int(np.argmin(row > 0)) for row in deviation]  # no token needs more than its first k with Δ_k = 0
    entries = min(entries, sum(useful))
    # Step 1: forward over the tokens, the smallest total for every number of entries
    best, choices = np.zeros(entries + 1), []
    for row, last in zip(deviation, useful, strict=True):
        totals = np.full(entries + 1, np.inf)
        chosen = np.zeros(entries + 1, dtype=np.int64)
        for k in range(min(last, entries) + 1):
            better = best[: entries + 1 - k] + row[k] < totals[k:]
            totals[k:] = np.where(better, best[: entries + 1 - k] + row[k], totals[k:])
            chosen[k:] = np.where(better, k, chosen[k:])
        best = totals
        choices.append(chosen)
    # Step 2: back over the tokens, the choices that lead there
    sizes = np.zeros(len(deviation), dtype=np.int64)
    left = entries
    for token in range(len(deviation) - 1, -1, -1):
        sizes[token] = choices[token][left]
        left -= int(sizes[token])
    return sizes, float(best[entries])


def _hull_steps(row: Numbers) -> list[tuple[int, float]]:
    """(length, gain) of each step of the lower convex hull of (k, Δ_k), up to the first zero."""
    hull: list[int] = []
    for k in range(int(np.argmin(row > 0)) + 1):
        while len(hull) > 1 and _above(row, hull[-2], hull[-1], k):
            hull.pop()
        hull.append(k)
    return [(b - a, float(row[a] - row[b])) for a, b in pairwise(hull) if row[a] > row[b]]


def _above(row: Numbers, a: int, b: int, c: int) -> bool:
    """Whether b lies on or above the line from a to c."""
    return bool((row[b] - row[a]) * (c - a) >= (row[c] - row[a]) * (b - a))


def _whole(name: str, value: int, least: int) -> int:
    """A Python integer from ``least`` on."""
    bits = int(number(COUNT, name, value))
    if bits < least:
        raise DomainError(f"{name} must be one whole number, {least} or more; got {value!r}; give a number of bits")
    return bits


# --------------------------------------------------------------------------------------------- claims
#


def _totals(of: Callable[[Numbers, Sizes], float], drafts: Array, top_k: Array) -> Array:
    """One number for each instance, computed on the host from its rows (T, V) and its competitor's top-k (T,)."""
    xp, rows, top_k = arrays(drafts=drafts, top_k=top_k)
    q = distributions(drafts=rows)[2]
    top_k = size_up_to(q.shape[-1]).check(xp, "top_k", top_k)
    each = np.reshape(to_numpy(q), (-1, *q.shape[-2:]))
    competitors = np.reshape(to_numpy(top_k), (-1, top_k.shape[-1]))
    found = [of(*both) for both in zip(each, competitors, strict=True)]
    return xp.reshape(xp.asarray(found, dtype=xp.float64, device=q.device), tuple(top_k.shape[:-1]))


def _total_of(rows: Numbers, sizes: Sizes) -> float:
    """Σ_t TV(q, q̂_{k(t)}), from the rows that are rebuilt."""
    return float(np.sum(total_variation(rows, truncate(rows, sizes))))


def _found(rows: Numbers, competitor: Sizes, *, exact: bool) -> SizeAllocation:
    """The public answer for a budget of the competitor's number of entries."""
    price = BITS + (rows.shape[-1] - 1).bit_length()
    return optimal_sizes(rows, int(competitor.sum()) * price, exact=exact)


def _spent(rows: Numbers, competitor: Sizes, *, exact: bool) -> float:
    """The rebuilt total of the public answer; infinite if it sends more entries than the competitor."""
    sizes = _found(rows, competitor, exact=exact).k
    return _total_of(rows, sizes) if sizes.sum() <= competitor.sum() else math.inf


def _least(rows: Numbers, competitor: Sizes) -> float:
    return _spent(rows, competitor, exact=True)


def _bound(rows: Numbers, competitor: Sizes) -> float:
    return _found(rows, competitor, exact=False).lower_bound


def _by_hull(rows: Numbers, competitor: Sizes) -> float:
    return _spent(rows, competitor, exact=False)


def _with_one_step(rows: Numbers, competitor: Sizes) -> float:
    """The bound and the largest gain of any token's hull step."""
    gains = [gain for row in tail_deviation(rows) for _, gain in _hull_steps(row)]
    return _bound(rows, competitor) + max(gains, default=0.0)


def _side(of: Callable[[Numbers, Sizes], float]) -> Callable[..., Array]:
    return lambda drafts, top_k: _totals(of, drafts, top_k)


_HALVES = [0.5, 0.5, 0.0, 0.0]

CLAIMS = ()
