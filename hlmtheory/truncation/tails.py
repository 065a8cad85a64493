"""Tails of a sorted row: Δ_k where it is asked for, and the least k that meets a bound, from one sort.

All k at once cost V binary searches a row. A search for the least k looks at the borders of the blocks, which is nearly
free, and then at the sizes within one: both together take less than the sort, for one row and for many.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from array_api_compat import is_torch_namespace

from hlmtheory._array import BLOCK, NUMPY, Array, running, take
from hlmtheory.truncation.lean import FINE, block_sums, least_in_row, rounding

BRANCHES = BLOCK
"""Steps of one round of a search: all sizes of a block that is known."""
SINGLE = 8
"""So many rows are quicker one by one than together."""


@dataclass(frozen=True, slots=True)
class Tails:
    """Rows (R, V) in ascending order, and the sums of their first whole blocks (R, blocks + 1)."""

    xp: Any
    ascending: Array
    before: Array

    @classmethod
    def of(cls, xp: Any, ascending: Array) -> Tails:
        """Of rows (R, V) that are sorted."""
        rows, whole = ascending.shape[0], ascending.shape[-1] // BLOCK
        within = xp.reshape(ascending[:, : whole * BLOCK], (rows, whole, BLOCK))
        if xp is NUMPY:
            return cls(xp, ascending, block_sums(within))
        before = running(xp, xp.sum(within, axis=-1))
        return cls(xp, ascending, xp.concat([xp.zeros_like(ascending[:, :1]), before], axis=-1))

    @property
    def size(self) -> int:
        """V."""
        return int(self.ascending.shape[-1])

    @property
    def lean(self) -> bool:
        """Whether the rows are few, and numpy's: each is then looked at by itself."""
        return self.xp is NUMPY and self.ascending.shape[0] <= SINGLE

    def rows(self) -> list[tuple[Array, Array]]:
        """Each row by itself, and the sums of its blocks."""
        return list(zip(self.ascending, self.before, strict=True))

    def mass(self, count: Array) -> Array:
        """Sum of the ``count`` smallest entries (R, C), from the smallest on: a small tail keeps its digits."""
        first = self.xp.min(count, axis=-1, keepdims=True) // BLOCK
        width = int(self.xp.max(self.xp.max(count, axis=-1, keepdims=True) - BLOCK * first)) if count.shape[0] else 0
        return self._near(count, first, width) if width <= BLOCK * count.shape[-1] else self._apart(count)

    def _near(self, count: Array, first: Array, width: int) -> Array:
        """The same where the counts lie within ``width`` entries of the border of the row's ``first`` block (R, 1)."""
        xp = self.xp
        base = BLOCK * first
        place = base + xp.arange(width, device=count.device)
        inside = take(xp, self.ascending, xp.where(place < self.size, place, self.size - 1))
        sums = running(xp, xp.concat([take(xp, self.before, first), inside], axis=-1))
        return take(xp, sums, count - base)

    def _apart(self, count: Array) -> Array:
        """The same where they are spread over the row, each from the border of its own block."""
        xp = self.xp
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
        tail = take(xp, self.before, j) + running(xp, inside)
        more = xp.count_nonzero((tail <= mass) & (place < self.size), axis=-1)
        return self.size - BLOCK * j[:, 0] - more

    def rough(self) -> Array:
        """At most Δ_k, and near it, for the k = V - 64 j at the blocks' borders, (R, blocks + 1)."""
        j = self.xp.arange(self.before.shape[-1], device=self.before.device)
        return self.rough_excess(j, self.before / self.xp.astype(self.xp.where(j > 0, BLOCK * j, 1), self.xp.float64))

    def rough_excess(self, j: Array, mean: Array) -> Array:
        """At most Σ_{i>k} (q_i - μ)⁺, and near it, for the k = V - 64 j, j (C,), and any numbers μ (R, C).

        Any part of the tail, less as many means, is at most the sum: taken is what begins at a border.
        """
        xp = self.xp
        below = counts_up_to(xp, self.ascending[:, min(BLOCK - 1, self.size) :: BLOCK], mean)
        below = xp.where(below < j, below, j)
        means = xp.astype(BLOCK * (j - below), xp.float64) * mean
        return xp.take(self.before, j, axis=-1) - take(xp, self.before, below) - means

    def near(self, met: Array) -> Array:
        """A size (R, 1) just below the least that meets a condition, from where the blocks' borders meet it."""
        return self.size - BLOCK * self.xp.count_nonzero(met, axis=-1, keepdims=True)

    def least(self, limit: Array, *, sure: bool = False) -> Array:
        """The least k (R,) with Δ_k ≤ limit (R, 1).

        If ``sure``, the rounding of Δ_k is added to it where that is more than a millionth of the limit.
        """
        if self.lean:
            pairs = zip(self.rows(), limit[:, 0].tolist(), strict=True)
            found = [least_in_row(*row, each, sure) for row, each in pairs]
            if None not in found:
                return self.xp.asarray(found, dtype=self.xp.int64)
        near = self.near(self.rough() <= limit)
        if not sure or bool(self.xp.all(limit >= float(rounding(self.size, 1.0, 1)) / FINE)):  # a tail is at most 1
            return least_size(self.xp, lambda sizes: self.deviation(sizes) <= limit, near, self.size - 1)

        def surely(sizes: Array) -> Array:
            deviation, slack = self.measured(sizes)
            return deviation + self.xp.where(slack > FINE * limit, slack, 0.0) <= limit

        return least_size(self.xp, surely, near, self.size - 1)

    def deviation(self, k: Array) -> Array:
        """Δ_k for sizes k (R, C): Σ_{i>k} (q_i - μ)⁺, μ the mean of the tail."""
        tail = self.mass(self.size - k)
        return self.excess(k, tail, tail)

    def measured(self, k: Array) -> tuple[Array, Array]:
        """Δ_k for sizes k (R, C), and by how much it may be rounded: by nothing where the tail is even."""
        tail = self.mass(self.size - k)
        count = self.xp.astype(self.xp.where(k < self.size, self.size - k, 1), self.xp.float64)
        return self.excess(k, tail, tail), self.xp.where(self.even(k), 0.0, rounding(self.size, tail, count, self.xp))

    def even(self, k: Array) -> Array:
        """Whether all entries that k (R, C) leave are equal."""
        last = self.xp.where(k < self.size, self.size - 1 - k, 0)
        return take(self.xp, self.ascending, last) == self.ascending[:, :1]

    def excess(self, k: Array, tail: Array, rest: Array) -> Array:
        """Σ_{i>k} (q_i - μ)⁺, μ = rest/(V - k), for tails of mass ``tail`` over which the server spreads ``rest``.

        Where all entries are equal, tail less rest has no rounding.
        """
        xp, count = self.xp, self.size - k
        mean = rest / xp.astype(xp.where(count > 0, count, 1), xp.float64)
        below = counts_up_to(xp, self.ascending, mean)
        below = xp.where(below < count, below, count)
        above = tail - self.mass(below) - xp.astype(count - below, xp.float64) * mean
        above = xp.where(self.even(k), tail - rest, above)
        return xp.where((below < count) & (above > 0), above, 0.0)


def counts_up_to(xp: Any, ascending: Array, thresholds: Array) -> Array:
    """How many entries of each row (R, V) are at most the thresholds (R, C)."""
    if is_torch_namespace(xp):
        import torch

        return torch.searchsorted(ascending.contiguous(), thresholds.contiguous(), right=True)
    if xp is NUMPY and thresholds.shape[0] == 1:
        return ascending[0].searchsorted(thresholds[0], side="right")[None]
    counts = [xp.searchsorted(ascending[i, :], thresholds[i, :], side="right") for i in range(thresholds.shape[0])]
    return xp.stack(counts) if counts else xp.zeros(thresholds.shape, dtype=xp.int64)


def least_size(xp: Any, meets: Callable[[Array], Array], near: Array, size: int) -> Array:
    """The least k in 0..V that meets a condition, for rows of V = ``size``, shape (R,); V is taken to.

    ``meets`` takes sizes (R, C) to truth values (R, C), false up to some k and true from there on. By rounding it may
    waver there: what is returned was found to meet it. It is looked for in the block after ``near`` (R, 1) first.
    """
    low, high = xp.zeros_like(near), xp.full_like(near, size)
    ladder = xp.arange(BRANCHES + 1, device=near.device)
    sizes = near + ladder
    sizes = xp.where(sizes > 0, xp.where(sizes < size, sizes, size), 0)
    while True:
        good = meets(sizes) | (sizes == high)
        first = xp.where(xp.any(good, axis=-1), xp.argmax(xp.astype(good, xp.int8), axis=-1), BRANCHES + 1)[:, None]
        last_bad = take(xp, sizes, xp.where(first > 0, first - 1, 0))
        high = xp.where(first <= BRANCHES, take(xp, sizes, xp.where(first <= BRANCHES, first, BRANCHES)), high)
        low = xp.minimum(xp.where(first > 0, last_bad + 1, low), high)
        if not bool(xp.any(low < high)):
            return high[:, 0]
        sizes = xp.minimum(low + (high - low + BRANCHES - 1) // BRANCHES * ladder, high)
