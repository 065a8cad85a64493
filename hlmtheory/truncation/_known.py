"""Two distributions of which only some entries and the remaining mass are known: the extremes of their distance.

p is known on A: every other entry is in [0, c_p] and their sum is R_p. q is known on B, with c_q and R_q. The arrays
have one column for each token of A or B; of the tokens outside both, only their number is given.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from hlmtheory._array import Array, running, take
from hlmtheory._remember import remembered
from hlmtheory._simplex import largest


class Known(NamedTuple):
    """What is known of one distribution, in float64."""

    value: Array  # known entries, 0 elsewhere, shape (..., C)
    mask: Array  # which are known, shape (..., C)
    rest: Array  # mass of the others, shape (...)
    cap: Array  # largest possible value of each of the others, shape (...)


@remembered
def known_of(xp: Any, row: Array, k: Array) -> Known:
    """Return the k largest entries of a whole row as known entries; the row and k have one batch shape."""
    mask = largest(xp, row, k[..., None])
    value = xp.where(mask, row, 0.0)
    least = xp.min(xp.where(mask, row, 1.0), axis=-1)
    return Known(value, mask, xp.sum(xp.where(mask, 0.0, row), axis=-1), least)


def outside_both(xp: Any, p: Known, q: Known) -> Array:
    """Return how many columns are unknown in both rows, as float64."""
    return xp.astype(xp.count_nonzero(~p.mask & ~q.mask, axis=-1), p.value.dtype)


@remembered
def least_distance(xp: Any, p: Known, q: Known, outside: Array) -> Array:
    """Return the smallest TV(q, p): the closed form of a box, with [0, c] for every unknown entry."""
    over, under = (_entries_over(xp, *pair) for pair in ((p, q), (q, p)))
    both, one, other = p.mask & q.mask, p.mask & ~q.mask, q.mask & ~p.mask
    overlap = xp.sum(
        xp.where(both, xp.minimum(p.value, q.value), 0.0)
        + xp.where(one, xp.minimum(p.value, q.cap[..., None]), 0.0)
        + xp.where(other, xp.minimum(q.value, p.cap[..., None]), 0.0),
        axis=-1,
    )
    apart = 1.0 - overlap - outside * xp.minimum(p.cap, q.cap)
    filled = xp.sum(xp.maximum(p.value, q.value), axis=-1) - 1.0
    return xp.clip(xp.maximum(xp.maximum(over, under), xp.maximum(apart, filled)), max=1.0)


def _entries_over(xp: Any, p: Known, q: Known) -> Array:
    """Return Σ (p - the largest possible q)⁺."""
    ceiling = xp.where(q.mask, q.value, q.cap[..., None])
    return xp.sum(xp.where(p.mask, xp.clip(p.value - ceiling, min=0.0), 0.0), axis=-1)


@remembered
def most_distance(xp: Any, p: Known, q: Known, outside: Array) -> Array:
    """Return the largest TV(q, p) = p(S) - q(S), by bisection over the number m of unlisted tokens in S."""
    fixed = xp.sum(xp.where(p.mask & q.mask, xp.clip(p.value - q.value, min=0.0), 0.0), axis=-1)
    fixed = fixed + xp.sum(xp.where(p.mask & ~q.mask, p.value, 0.0), axis=-1)
    ours = _Slots.of(xp, q.value, q.mask & ~p.mask, p)  # where p's rest may lie, at the cost of q's known entries
    theirs = _Slots.of(xp, p.value, p.mask & ~q.mask, q)
    low, high = xp.zeros_like(outside), outside
    for _ in range(_steps(xp, outside)):
        middle = xp.floor(0.5 * (low + high))
        rises = ours.gain(xp, xp.stack([middle + 1.0, middle], axis=-1))
        beyond = outside - middle
        falls = theirs.gain(xp, xp.stack([beyond, xp.clip(beyond - 1.0, min=0.0)], axis=-1))
        up = (rises[..., 0] - rises[..., 1] > falls[..., 0] - falls[..., 1]) & (middle < outside)
        low, high = xp.where(up, xp.minimum(middle + 1.0, high), low), xp.where(up, high, middle)
    gained = ours.gain(xp, low[..., None])[..., 0] + theirs.gain(xp, (outside - low)[..., None])[..., 0]
    return xp.clip(fixed + gained - q.rest, min=0.0, max=1.0)


def _steps(xp: Any, outside: Array) -> int:
    """Return the number of bisection steps that leave a single number of 0..outside."""
    return int(xp.max(outside)).bit_length() + 1 if 0 not in outside.shape else 0


class _Slots(NamedTuple):
    """Places for the remaining mass of one row: free places, and columns that each have a cost, cheapest first."""

    cost: Array  # ascending, infinite behind the last, shape (..., c) with the largest number c of finite ones
    before: Array  # sums of the costs before each place, shape (..., c + 1)
    rest: Array
    cap: Array

    @classmethod
    def of(cls, xp: Any, values: Array, at: Array, row: Known) -> _Slots:
        most = int(xp.max(xp.count_nonzero(at, axis=-1))) if 0 not in at.shape else 0
        cost = xp.sort(xp.where(at, values, xp.inf), axis=-1, stable=False)[..., :most]
        sums = running(xp, xp.where(cost < xp.inf, cost, 0.0))
        before = xp.concat([xp.zeros_like(row.rest)[..., None], sums], axis=-1)
        return cls(cost, before, row.rest, row.cap)

    def gain(self, xp: Any, free: Array) -> Array:
        """Return max_j min(R, c (free + j)) - (the j smallest costs) for each number in ``free`` (..., F)."""
        rest, cap = self.rest[..., None], self.cap[..., None]
        low = xp.zeros(free.shape, dtype=xp.int64, device=free.device)
        high = low + self.cost.shape[-1]
        last = xp.full_like(high, max(self.cost.shape[-1] - 1, 0))
        for _ in range(self.cost.shape[-1].bit_length()):
            middle = (low + high) // 2
            filled = cap * (free + xp.astype(middle, free.dtype))
            at = xp.minimum(middle, last)
            worth = (take(xp, self.cost, at) < xp.minimum(cap, rest - filled)) & (low < high)
            low, high = xp.where(worth, middle + 1, low), xp.where(worth, high, middle)
        return xp.minimum(rest, cap * (free + xp.astype(low, free.dtype))) - take(xp, self.before, low)
