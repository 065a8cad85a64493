"""The search for the least k in one row of numpy, in so few calls that they take less than the sort of the row.

What :func:`hlmtheory.truncation.tails.least_size` does for many rows at once, in a library's own arrays, takes some
sixty calls, and for one row of V = 32,000 as long as its sort; a device that drafts a token at a time has one row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory._array import BLOCK

Row = NDArray[np.float64]
Mask = NDArray[np.bool_]
FINE = 2.0**-20
"""A rounding of Δ_k up to this share of a limit is left out, so that it costs no entry where the two are equal."""
TRIES = 4
"""So many blocks are looked into."""


def rounding(size: int, tail: Any, count: Any, xp: Any = np) -> Any:
    """By how much Δ_k may be rounded down for tails of ``count`` > 0 entries with that sum, in rows of V = ``size``.

    Two sums of at most V terms, and their mean, each of which rounds to half a unit of what is at most the tail; and
    the entries themselves, by their division at the door. Where the tail is subnormal its sums are exact, and so is by
    how much the mean, times its entries, exceeds it: what Δ_k is too small by at most. Elsewhere the share is more.
    """
    return xp.maximum((size + 4) * 2.0**-52 * tail, tail / count * count - tail)


def block_sums(within: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sums of the first blocks (R, blocks + 1) of rows that are cut into blocks (R, blocks, n)."""
    sums = np.zeros((within.shape[0], within.shape[1] + 1))
    np.einsum("rbn->rb", within).cumsum(axis=-1, out=sums[:, 1:])  # in half the time of a sum over the last axis
    return sums


def least_in_row(ascending: Row, before: Row, limit: float, sure: bool) -> int | None:
    """The least k with Δ_k ≤ limit for a sorted row (V,) with the sums before its blocks (blocks + 1,).

    If ``sure``, with its rounding, where that matters to the limit.
    None where it is not in the block that the borders tell, nor in those beside it, or may not be.
    """

    def meets(first: int, last: int) -> Mask:
        tail, above, even = _tails(ascending, before, first, last)
        if sure and limit < rounding(ascending.size, 1.0, 1) / FINE:  # a tail is at most 1
            slack = rounding(ascending.size, tail, np.maximum(np.arange(first, last + 1), 1))
            above = above + np.where(slack > FINE * limit, slack, 0.0)
        good: Mask = (above <= limit) | even
        return good

    return _least(meets, int(np.count_nonzero(_rough(ascending, before) <= limit)) - 1, ascending.size)


def least_mean(rows: Sequence[tuple[Row, Row]], gaps: Sequence[float], limit: float, factor: float) -> int | None:
    """The least k with mean_t factor Δ_k / gap_t ≤ limit over some sorted rows, each with the sums before its blocks.

    None as in :func:`least_in_row`.
    """
    size, apart = rows[0][0].size, np.asarray(gaps)[:, None]

    def mean(deviations: list[Row]) -> Row:
        each = np.asarray(deviations)
        each *= factor
        each /= apart
        found: Row = each.mean(axis=0) if len(rows) > 1 else each[0]
        return found

    def meets(first: int, last: int) -> Mask:
        met: Mask = mean([_deviations(*row, first, last) for row in rows]) <= limit
        return met

    return _least(meets, int(np.count_nonzero(mean([_rough(*row) for row in rows]) <= limit)) - 1, size)


def deviation_in_row(ascending: Row, before: Row, k: int) -> tuple[float, float]:
    """Δ_k, and by how much it may be rounded: by nothing where the tail is even."""
    count = ascending.size - k
    if count <= 0 or ascending[count - 1] == ascending[0]:
        return 0.0, 0.0
    tail = mass_of(ascending, before, count)
    mean = tail / count
    below = min(int(ascending.searchsorted(mean, side="right")), count)
    above = tail - mass_of(ascending, before, below) - (count - below) * mean
    return max(above, 0.0) if below < count else 0.0, float(rounding(ascending.size, tail, count))


def _least(meets: Callable[[int, int], Mask], block: int, size: int) -> int | None:
    """The least k whose tail, of V - k entries, meets a condition: looked for in a block and beside it."""
    for _ in range(TRIES):
        first, last = BLOCK * block, min(BLOCK * (block + 1), size)
        good = meets(first, last).nonzero()[0]
        if not good.size:
            if block == 0:
                return None
            block -= 1
        elif first + good[-1] == last < size:
            block += 1
        else:
            return min(size - first - int(good[-1]), size - 1)
    return None


def _tails(ascending: Row, before: Row, first: int, last: int) -> tuple[Row, Row, Mask]:
    """Of the tails of ``first`` to ``last`` entries: sum, Σ (q_i - μ)⁺, whether all are equal.

    Where all are equal the second is not exact.
    """
    count = np.arange(first, last + 1)
    tail = _masses(ascending, before, first, last)[first % BLOCK :]
    mean = tail / np.maximum(count, 1)
    below = np.minimum(ascending.searchsorted(mean, side="right"), count)
    least = int(below.min())
    under = _masses(ascending, before, least, int(below.max())).take(below - (least - least % BLOCK))
    above = tail - under - (count - below) * mean
    return tail, above, count <= ascending.searchsorted(ascending[0], side="right")


def _deviations(ascending: Row, before: Row, first: int, last: int) -> Row:
    """Σ (q_i - μ)⁺ over each tail: 0 where all are equal, whether or not something is spread with them."""
    _, above, even = _tails(ascending, before, first, last)
    np.maximum(above, 0.0, out=above)
    above[even] = 0.0
    return above


def mass_of(ascending: Row, before: Row, count: int) -> float:
    """The sum of the ``count`` smallest entries."""
    block = count // BLOCK
    return float(before[block]) + float(ascending[BLOCK * block : count].sum())


def _rough(ascending: Row, before: Row) -> Row:
    """At most Δ_k, and near it, for the k = V - 64 j, by sums over whole blocks."""
    j = np.arange(before.size)
    width = BLOCK * j
    mean = before / np.maximum(width, 1)
    below = np.minimum(ascending[BLOCK - 1 :: BLOCK].searchsorted(mean, side="right"), j)
    rough: Row = before - before.take(below) - (width - BLOCK * below) * mean
    return rough


def _masses(ascending: Row, before: Row, first: int, last: int) -> Row:
    """Sums of the smallest entries: of so many as begin the block of ``first``, and one more each up to ``last``."""
    block = first // BLOCK
    return np.concatenate((before[block : block + 1], ascending[BLOCK * block : last])).cumsum()
