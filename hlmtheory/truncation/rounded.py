"""The least size of a message whose values are rounded: all sizes of a narrow one, a wide one block by block.

Symbols are those of :mod:`hlmtheory.truncation.message`; E_k is what the rounding of the k largest entries loses.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hlmtheory._array import BLOCK, NUMPY, Array, running, take
from hlmtheory.truncation.lean import lost_in_rounding, message_in_row
from hlmtheory.truncation.tails import Tails, counts_up_to

FEW = 256
"""So many sizes are all looked at."""
SLACK = 2.0**-40
"""By so much the bounds of the blocks are lowered, so that a rounding rules none out."""


@dataclass(frozen=True, slots=True)
class Rounded:
    """Sorted rows (R, V), of which the ``count`` largest entries may round to something else than 0."""

    tails: Tails
    levels: int
    count: int

    @classmethod
    def of(cls, tails: Tails, levels: int) -> Rounded:
        """Values are rounded down to multiples of 1/levels; ``count`` is of the row with the most such entries."""
        xp = tails.xp
        zeros = counts_up_to(xp, tails.ascending, xp.full_like(tails.before[:, :1], (1.0 - SLACK) / levels))
        return cls(tails, levels, max(1, tails.size - int(xp.min(zeros))) if zeros.shape[0] else 1)

    def row(self, index: int) -> Rounded:
        """One of them."""
        rows = (values[index : index + 1, :] for values in (self.tails.ascending, self.tails.before))
        return Rounded(Tails(self.tails.xp, *rows), self.levels, self.count)

    def rounding(self, values: Array) -> Array:
        """What they lose."""
        if self.tails.xp is NUMPY:
            return lost_in_rounding(values, self.levels)
        return values - self.tails.xp.floor(values * self.levels) / self.levels

    def deviations(self, start: Array, lost: Array, width: int) -> tuple[Array, Array]:
        """Sizes from ``start`` (R, 1) on, ``width`` more at most, and their Δ_k; ``lost`` (R, 1) is E at the start."""
        xp, tails = self.tails.xp, self.tails
        k = start + xp.arange(width + 1, device=start.device)
        place = tails.size - 1 - k[:, :-1]
        inside = take(xp, tails.ascending, xp.where(place > 0, place, 0))
        each = running(xp, xp.concat([lost, self.rounding(inside)], axis=-1))
        most = min(self.count, tails.size - 1)  # the size V is another matter: see everything
        k = xp.where(k < most, k, most)
        each = take(xp, each, k - start)
        tail = tails.mass(tails.size - k)
        return k, each + tails.excess(k, tail, tail + each)

    def everything(self) -> Array:
        """Δ_V (R, 1): what is lost in all goes to every entry. Those beyond the count lose all that they are."""
        xp, tails = self.tails.xp, self.tails
        rounding = self.rounding(tails.ascending[:, tails.size - self.count :])
        left = xp.full_like(tails.before[:, :1], tails.size - self.count)
        none = xp.astype(left, xp.int64)
        tail = tails.mass(none)
        share = (xp.sum(rounding, axis=-1, keepdims=True) + tail) / tails.size
        unrounded = tails.excess(tails.size - none, tail, share * left)
        above = rounding - share
        return unrounded + xp.sum(xp.where(above > 0, above, 0.0), axis=-1, keepdims=True)

    def least(self, bias: Array) -> tuple[Array, Array]:
        """The least size (R, 1) below V with 2 Δ_k ≤ bias (R, 1), and where there is one."""
        xp = self.tails.xp
        if self.count > FEW:
            return self._least_by_blocks(bias)
        if self.tails.lean:
            nothing = np.zeros((len(bias), 1))
            return self._least_by_rows(np.zeros(1, np.int64), nothing, nothing == 0.0, bias)
        none = xp.zeros_like(bias)
        return self._first(*self.deviations(xp.astype(none, xp.int64), none, self.count), bias)

    def _first(self, k: Array, deviation: Array, bias: Array) -> tuple[Array, Array]:
        xp, good = self.tails.xp, 2.0 * deviation <= bias
        first = xp.argmax(xp.astype(good, xp.int8), axis=-1, keepdims=True)
        return take(xp, k, first), xp.any(good, axis=-1, keepdims=True)

    def _least_by_blocks(self, bias: Array) -> tuple[Array, Array]:
        """The same, looking into the blocks of sizes that may have one."""
        xp = self.tails.xp
        starts, lost, bound = self.blocks()
        candidate = 2.0 * (bound - SLACK) <= bias
        if self.tails.lean:
            return self._least_by_rows(starts, lost, candidate, bias)
        starts = xp.broadcast_to(starts, lost.shape)
        k, found = xp.zeros_like(starts[:, :1]), xp.zeros_like(candidate[:, :1])
        while True:
            open_ = ~found & xp.any(candidate, axis=-1, keepdims=True)
            if not bool(xp.any(open_)):
                return k, found
            block = xp.argmax(xp.astype(candidate, xp.int8), axis=-1, keepdims=True)
            first, met = self._first(*self.deviations(take(xp, starts, block), take(xp, lost, block), BLOCK), bias)
            k, found = xp.where(open_ & met, first, k), found | (open_ & met)
            candidate = candidate & (xp.arange(candidate.shape[-1], device=block.device) > block)

    def _least_by_rows(self, starts: Array, lost: Array, candidate: Array, bias: Array) -> tuple[Array, Array]:
        """The same in each of a few rows by itself."""
        k, found = np.zeros((len(bias), 1), np.int64), np.zeros((len(bias), 1), np.bool_)
        most = min(self.count, self.tails.size - 1)
        for row, (ascending, before) in enumerate(self.tails.rows()):
            stop = -1
            for block in candidate[row].nonzero()[0].tolist():
                start = int(starts[block])
                if start > most:
                    break
                if start + BLOCK <= stop:
                    continue
                stop = min(start + FEW, most)
                deviation = message_in_row(ascending, before, self.levels, start, stop, float(lost[row, block]))
                good = (2.0 * deviation <= bias[row, 0]).nonzero()[0]
                if good.size:
                    k[row, 0], found[row, 0] = start + good[0], True
                    break
        return k, found

    def blocks(self) -> tuple[Array, Array, Array]:
        """Where blocks of sizes begin (C,), E there (R, C), and a lower bound (R, C) on Δ_k for their sizes.

        The first block ends where the blocks of the tails do, the others have 64 sizes. For s ≤ k ≤ t: E_k ≥ E_s. What
        is spread, 1 less the values sent, is at most that at s, over at least V - t entries: so μ_k is at most the
        quotient of the two, and Σ_{i>k} (q_i - μ_k)⁺ is at least the sum over i > t with that in the place of μ_k.
        """
        xp, tails = self.tails.xp, self.tails
        size, whole = tails.size, tails.size // BLOCK
        last = (size - self.count) // BLOCK  # the border beyond the entries that count
        rows, odd = tails.ascending.shape[0], tails.ascending[:, BLOCK * whole :]
        rounding = self.rounding(tails.ascending[:, BLOCK * last : BLOCK * whole])
        each = xp.reshape(rounding, (rows, whole - last, BLOCK))
        each = xp.flip(np.einsum("rbn->rb", each) if xp is NUMPY else xp.sum(each, axis=-1), axis=-1)
        zero = xp.zeros_like(tails.before[:, :1])
        first = xp.sum(self.rounding(odd), axis=-1, keepdims=True)
        lost = running(xp, xp.concat([zero, first, each[:, :-1]], axis=-1))
        j = whole - xp.arange(whole - last + 1, device=zero.device)  # the block ends with the size V - 64 j
        masses = xp.take(tails.before, j, axis=-1)
        everything = masses[:, :1] + xp.sum(odd, axis=-1, keepdims=True)
        spread = xp.concat([everything, masses[:, :-1]], axis=-1) + lost
        mean = spread / xp.astype(xp.where(j > 0, BLOCK * j, 1), xp.float64)
        starts = xp.where(j < whole, size - BLOCK * (j + 1), 0)
        above = tails.rough_excess(j, mean)
        return starts, lost, lost + xp.where(above > 0, above, 0.0)
