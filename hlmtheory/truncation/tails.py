"""Tails of a sorted row: Δ_k where it is asked for, and the least k that meets a bound, from one sort.

All k at once cost V binary searches a row; the few that a search for the least k looks at cost much less than the sort.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from array_api_compat import is_torch_namespace

from hlmtheory._array import BLOCK, Array, take

BRANCHES = 32
"""Sizes looked at in one round of a search: V = 32,000 takes three."""


@dataclass(frozen=True, slots=True)
class Tails:
    """Rows (R, V) in ascending order, and the sums of their first whole blocks (R, blocks + 1)."""

    xp: Any
    ascending: Array
    before: Array

    @classmethod
    def of(cls, xp: Any, rows: Array) -> Tails:
        """Sort the rows (R, V)."""
        size = rows.shape[-1]
        ascending = xp.sort(rows, axis=-1, stable=False)
        whole = size // BLOCK
        blocks = xp.sum(xp.reshape(ascending[:, : whole * BLOCK], (rows.shape[0], whole, BLOCK)), axis=-1)
        before = xp.concat([xp.zeros_like(ascending[:, :1]), xp.cumulative_sum(blocks, axis=-1)], axis=-1)
        return cls(xp, ascending, before)

    @property
    def size(self) -> int:
        """V."""
        return int(self.ascending.shape[-1])

    def mass(self, count: Array) -> Array:
        """Sum of the ``count`` smallest entries (R, C), from the smallest on: a small tail keeps its digits."""
        xp = self.xp
        block = count // BLOCK
        place = block[..., None] * BLOCK + xp.arange(BLOCK, device=count.device)
        inside = xp.reshape(place < count[..., None], (count.shape[0], -1))
        place = xp.reshape(xp.where(place < self.size, place, self.size - 1), (count.shape[0], -1))
        rest = xp.where(inside, take(xp, self.ascending, place), 0.0)
        rest = xp.sum(xp.reshape(rest, (*count.shape, BLOCK)), axis=-1)
        return take(xp, self.before, block) + rest

    def up_to(self, threshold: Array) -> Array:
        """How many entries are at most the threshold (R, C)."""
        if is_torch_namespace(self.xp):
            import torch

            return torch.searchsorted(self.ascending.contiguous(), threshold.contiguous(), right=True)
        counts = [
            self.xp.searchsorted(self.ascending[i, :], threshold[i, :], side="right") for i in range(threshold.shape[0])
        ]
        return self.xp.stack(counts) if counts else self.xp.zeros(threshold.shape, dtype=self.xp.int64)

    def deviation(self, k: Array) -> Array:
        """Δ_k for sizes k (R, C): Σ_{i>k} (q_i - μ)⁺, μ the mean of the tail."""
        tail = self.mass(self.size - k)
        return self.excess(k, tail, tail)

    def excess(self, k: Array, tail: Array, rest: Array) -> Array:
        """Σ_{i>k} (q_i - μ)⁺, μ = rest/(V - k), for tails of mass ``tail`` over which the server spreads ``rest``."""
        xp, count = self.xp, self.size - k
        mean = rest / xp.astype(xp.where(count > 0, count, 1), xp.float64)
        below = self.up_to(mean)
        below = xp.where(below < count, below, count)
        above = tail - self.mass(below) - xp.astype(count - below, xp.float64) * mean
        return xp.where((below < count) & (above > 0), above, 0.0)


def least_size(xp: Any, meets: Callable[[Array], Array], count: int, size: int, device: Any = None) -> Array:
    """The least k in 0..V that meets a condition, for R = ``count`` rows of V = ``size``, shape (R,); V is taken to.

    ``meets`` takes sizes (R, C) to truth values (R, C), false up to some k and true from there on. By rounding it may
    waver there: what is returned was found to meet it.
    """
    low = xp.zeros((count, 1), dtype=xp.int64, device=device)
    high = xp.full((count, 1), size, dtype=xp.int64, device=device)
    ladder = xp.arange(BRANCHES, device=device)
    while bool(xp.any(low < high)):
        sizes = xp.minimum(low + (high - low + BRANCHES - 1) // BRANCHES * ladder, high)
        good = meets(sizes) | (sizes == high)
        first = xp.where(xp.any(good, axis=-1), xp.argmax(xp.astype(good, xp.int8), axis=-1), BRANCHES)[:, None]
        last_bad = take(xp, sizes, xp.where(first > 0, first - 1, 0))
        high = xp.where(first < BRANCHES, take(xp, sizes, xp.where(first < BRANCHES, first, BRANCHES - 1)), high)
        low = xp.minimum(xp.where(first > 0, last_bad + 1, low), high)
    return high[:, 0]
