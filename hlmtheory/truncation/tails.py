"""Tails of a sorted row: Δ_k where it is asked for, and the least k that meets a bound, from one sort.

All k at once cost V binary searches a row. A search for the least k looks at the borders of the blocks, which is nearly
free, and then at the sizes within one: on the host that takes less than the sort for many rows, but more for one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from array_api_compat import is_torch_namespace

from hlmtheory._array import BLOCK, Array, tail_sums, take
from hlmtheory.truncation.reconstruction import EVEN

BRANCHES = BLOCK
"""Steps of one round of a search: all sizes of a block that is known."""


@dataclass(frozen=True, slots=True)
class Tails:
    """Rows (R, V) in ascending order, and the sums of their first whole blocks (R, blocks + 1).

    ``sums`` (R, V + 1), if there: of all but the k largest, for a search that looks at many sizes.
    """

    xp: Any
    ascending: Array
    before: Array
    sums: Array | None = None

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

    def summed(self) -> Tails:
        """With the sums of all tails."""
        return replace(self, sums=tail_sums(self.xp, self.xp.flip(self.ascending, axis=-1)))

    def mass(self, count: Array) -> Array:
        """Sum of the ``count`` smallest entries (R, C), from the smallest on: a small tail keeps its digits."""
        xp = self.xp
        if self.sums is not None:
            return take(xp, self.sums, self.size - count)
        block = count // BLOCK
        place = block[..., None] * BLOCK + xp.arange(BLOCK, device=count.device)
        flat = (count.shape[0], count.shape[1] * BLOCK)
        inside = xp.reshape(place < count[..., None], flat)
        place = xp.reshape(xp.where(place < self.size, place, self.size - 1), flat)
        rest = xp.where(inside, take(xp, self.ascending, place), 0.0)
        rest = xp.sum(xp.reshape(rest, (*count.shape, BLOCK)), axis=-1)
        return take(xp, self.before, block) + rest

    def leaving(self, mass: Array) -> Array:
        """The least k (R,) whose tail has at most this mass (R, 1): its block by the borders, then one by one."""
        xp = self.xp
        j = xp.count_nonzero(self.before <= mass, axis=-1, keepdims=True) - 1  # 0 or more: the empty tail has no mass
        place = BLOCK * j + xp.arange(BLOCK, device=mass.device)
        inside = take(xp, self.ascending, xp.where(place < self.size, place, self.size - 1))
        tail = take(xp, self.before, j) + xp.cumulative_sum(inside, axis=-1)
        more = xp.count_nonzero((tail <= mass) & (place < self.size), axis=-1)
        return self.size - BLOCK * j[:, 0] - more

    def rough(self) -> Array:
        """At most Δ_k, and near it, for the k = V - 64 j at the blocks' borders, (R, blocks + 1).

        Any part of the tail, less as many means, is at most Σ_{i>k} (q_i - μ)⁺: taken is what begins at a border.
        """
        xp, blocks = self.xp, self.before.shape[-1] - 1
        j = xp.arange(blocks + 1, device=self.before.device)
        mean = self.before / xp.astype(xp.where(j > 0, BLOCK * j, 1), xp.float64)
        rows = self.ascending.shape[0]
        largest = xp.reshape(self.ascending[:, : blocks * BLOCK], (rows, blocks, BLOCK))[:, :, -1]
        below = xp.minimum(Tails(xp, largest, self.before).up_to(mean), j)
        return self.before - take(xp, self.before, below) - xp.astype(BLOCK * (j - below), xp.float64) * mean

    def near(self, met: Array) -> Array:
        """A size (R, 1) just below the least that meets a condition, from where the blocks' borders meet it."""
        return self.size - BLOCK * self.xp.count_nonzero(met, axis=-1, keepdims=True)

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
        return xp.where((below < count) & (above > EVEN * tail), above, 0.0)


def sorted_batch(xp: Any, q: Array, batch: tuple[int, ...]) -> Tails:
    """The rows q sorted, once each, and spread over the batch."""
    size = q.shape[-1]
    tails = Tails.of(xp, xp.reshape(q, (-1, size)))
    if tuple(q.shape[:-1]) == batch:
        return tails
    spread = [
        xp.reshape(
            xp.broadcast_to(xp.reshape(a, (*q.shape[:-1], a.shape[-1])), (*batch, a.shape[-1])), (-1, a.shape[-1])
        )
        for a in (tails.ascending, tails.before)
    ]
    return Tails(xp, *spread)


def least_size(xp: Any, meets: Callable[[Array], Array], near: Array, size: int) -> Array:
    """The least k in 0..V that meets a condition, for rows of V = ``size``, shape (R,); V is taken to.

    ``meets`` takes sizes (R, C) to truth values (R, C), false up to some k and true from there on. By rounding it may
    waver there: what is returned was found to meet it. It is looked for in the block after ``near`` (R, 1) first.
    """
    low, high = xp.zeros_like(near), xp.full_like(near, size)
    ladder = xp.arange(BRANCHES + 1, device=near.device)
    sizes = xp.clip(near + ladder, 0, size)
    while True:
        good = meets(sizes) | (sizes == high)
        first = xp.where(xp.any(good, axis=-1), xp.argmax(xp.astype(good, xp.int8), axis=-1), BRANCHES + 1)[:, None]
        last_bad = take(xp, sizes, xp.where(first > 0, first - 1, 0))
        high = xp.where(first <= BRANCHES, take(xp, sizes, xp.where(first <= BRANCHES, first, BRANCHES)), high)
        low = xp.minimum(xp.where(first > 0, last_bad + 1, low), high)
        if not bool(xp.any(low < high)):
            return high[:, 0]
        sizes = xp.minimum(low + (high - low + BRANCHES - 1) // BRANCHES * ladder, high)
