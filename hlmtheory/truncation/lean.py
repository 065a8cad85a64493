"""The search for the least k in one row of numpy, in so few calls that they take less than the sort of the row.

What :func:`hlmtheory.truncation.tails.least_size` does for many rows at once, in a library's own arrays, takes some
sixty calls, and for one row of V = 32,000 as long as its sort; a device that drafts a token at a time has one row.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hlmtheory._array import BLOCK

Row = NDArray[np.float64]
FINE = 2.0**-20
"""A rounding of Δ_k up to this share of a limit is left out, so that it costs no entry where the two are equal."""


def rounding(size: int) -> float:
    """By what share of its tail Δ_k may be rounded, for rows of V = ``size``.

    Two sums of at most V terms, and their mean, each of which rounds to half a unit of what is at most the tail; and
    the entries themselves, by their division at the door.
    """
    return (size + 4) * 2.0**-52


def least_in_row(ascending: Row, before: Row, limit: float, rounded: float) -> int | None:
    """The least k with Δ_k ≤ limit for a sorted row (V,) with the sums before its blocks (blocks + 1,).

    With so much of its tail counted as ``rounded``, where that matters to the limit.
    None where it is not in the block that the borders tell, or may not be.
    """
    last = _block(ascending, before, limit)
    tail = np.concatenate((before[last : last + 1], ascending[BLOCK * last : BLOCK * (last + 1)])).cumsum()
    count = np.arange(BLOCK * last, BLOCK * last + tail.size)
    mean = tail / np.maximum(count, 1)
    below = np.minimum(ascending.searchsorted(mean, side="right"), count)
    above = tail - _masses(ascending, before, below) - (count - below) * mean
    if limit < rounded / FINE:  # a tail is at most 1
        slack = rounded * tail
        above += np.where(slack > FINE * limit, slack, 0.0)
    even = ascending.take(np.maximum(count - 1, 0)) == ascending[0]
    good = ((above <= limit) | even).nonzero()[0]
    if not good.size or (good[-1] == tail.size - 1 and count[-1] < ascending.size):
        return None  # the least is beyond the block on the one side or on the other
    return min(ascending.size - int(count[good[-1]]), ascending.size - 1)


def _block(ascending: Row, before: Row, limit: float) -> int:
    """The last block border with a tail that surely may meet the limit, by sums over whole blocks."""
    j = np.arange(before.size)
    width = BLOCK * j
    mean = before / np.maximum(width, 1)
    below = np.minimum(ascending[BLOCK - 1 :: BLOCK].searchsorted(mean, side="right"), j)
    rough = before - before.take(below) - (width - BLOCK * below) * mean
    return int(np.count_nonzero(rough <= limit)) - 1


def _masses(ascending: Row, before: Row, count: NDArray[np.int64]) -> Row:
    """Sums of the ``count`` smallest entries, for counts that lie near each other."""
    first = int(count.min()) // BLOCK
    sums = np.concatenate((before[first : first + 1], ascending[BLOCK * first : int(count.max())])).cumsum()
    return sums.take(count - BLOCK * first)
