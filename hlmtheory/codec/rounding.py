"""A draft distribution in descending order, its rounding to a lattice, and the distance that the rounding costs.

One arithmetic for the choice of a codec, the message and the certificate. Rows are on the host, float64, and canonical
(:func:`hlmtheory._simplex.canonical`). The first entries of the order are the K tokens of the support; the others are
the rest. Units are the counts of a row on a lattice; ℓ of them are the mass 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hlmtheory._array import NUMPY, tail_sums
from hlmtheory.truncation.levels import levels_of, slack, values_of

BINS = 64
"""Bins of remainders, for the bound that needs no sort."""

Row = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SortedRow:
    """One distribution in descending order, with sums of its heads and tails (V + 1,).

    ``slack`` is added to each distance, so that rounding never makes it too small; 0 for a row with a single 1, which
    has no rounding. A distance has at most 15 sums of at most V terms each, and of size 1 at most.
    """

    source: Row
    values: Row
    heads: Row
    tails: Row
    slack: float

    @classmethod
    def of(cls, row: Row) -> SortedRow:
        """Sort a canonical row (V,): the only sort of all its entries."""
        values = np.ascontiguousarray(np.sort(row)[::-1])
        heads = np.concatenate(([0.0], np.cumsum(values)))
        certain = values[0] == 1.0 and np.count_nonzero(values) == 1
        return cls(row, values, heads, tail_sums(NUMPY, values[None])[0], 0.0 if certain else slack(len(values)))

    @property
    def vocabulary(self) -> int:
        """V."""
        return len(self.values)

    def above(self, level: float | Row) -> Integers:
        """How many entries exceed the level, or each of the levels."""
        return np.asarray(np.searchsorted(-self.values, -np.asarray(level), side="left"), dtype=np.int64)

    def rest_excess(self, size: Integers, level: Row) -> Row:
        """Σ_{i > k} (q_i - level)⁺ for each size k and level."""
        last = np.maximum(self.above(level), size)
        found: Row = self.tails[size] - self.tails[last] - (last - size) * level
        return np.maximum(found, 0.0)

    def flat_rest(self, size: Integers) -> Row:
        """Δ_k for each k: the distance if the first k entries are exact and the rest is even."""
        found = self.rest_excess(size, self.tails[size] / np.maximum(self.vocabulary - size, 1))
        return np.where(size < self.vocabulary, found, 0.0)


@dataclass(frozen=True, slots=True)
class Rounding:
    """How the K largest entries and the rest become ℓ units.

    The m entries of at least one unit are rounded down to ``whole``, and the others to 0. The units that are left over
    go one by one to the largest remainders, which makes the support's part of the row nearest to q: one each to
    ``raised`` of the m and to the ``first`` of the others. If every entry of the support has one, the ``extra`` units
    go to the largest entry.
    """

    whole: Integers
    remainders: Row
    raised: int
    first: int
    extra: int
    spread: int
    distance: float


class Bounds:
    """Lower bounds on the distances of many roundings of one row, without a sort.

    The sum of the n largest remainders is at most n θ + Σ (f - θ)⁺ for every θ; the best of some θ is near, since only
    one bin of remainders is off. What depends on ℓ alone is computed once; if all K entries have a unit, on ℓ and K.
    """

    def __init__(self, row: SortedRow) -> None:
        self._row = row
        self._levels = np.arange(BINS) / BINS
        self._known: dict[tuple[int, int], tuple[int, float, float, Row, Integers]] = {}

    def _of(self, resolution: int, most: int) -> tuple[int, float, float, Row, Integers]:
        """m, the units rounded down, Σ remainders, Σ (f - θ)⁺ of them, and the entries above each θ."""
        key = resolution, most
        if key not in self._known:
            row, level = self._row, self._levels
            many = min(most, int(np.searchsorted(-row.values, -1.0 / resolution, side="right")))
            scaled = resolution * row.values[:many]
            whole = np.floor(scaled)
            remainders = scaled - whole
            place = (remainders * BINS).astype(np.int64)
            counts = np.bincount(place, minlength=BINS)[::-1].cumsum()[::-1]
            sums = np.bincount(place, weights=remainders, minlength=BINS)[::-1].cumsum()[::-1]
            total = float(remainders.sum())
            found = many, float(whole.sum()), total, sums - counts * level, row.above(level / resolution)
            self._known[key] = found
        return self._known[key]

    def distances(self, size: Integers, resolution: Integers, mixture: NDArray[np.bool_]) -> Row:
        """A lower bound for each rounding."""
        row, level = self._row, self._levels
        whole_unit = np.searchsorted(-row.values, -1.0 / resolution, side="right")
        keys = list(zip(resolution.tolist(), np.where(size < whole_unit, size, row.vocabulary).tolist(), strict=True))
        different = list(dict.fromkeys(keys))
        parts = [self._of(*key) for key in different]
        at = {key: n for n, key in enumerate(different)}
        place = np.asarray([at[key] for key in keys])
        many, whole, total = (np.asarray([part[n] for part in parts])[place] for n in range(3))
        spare, above = (np.stack([part[n] for part in parts])[place] for n in (3, 4))
        mass = row.tails[size]
        spread = np.where(mixture, np.floor(resolution * mass), 0.0)
        up = np.minimum(resolution - spread - whole, size)
        last = np.clip(above, many[:, None], size[:, None])
        small = resolution[:, None] * (row.heads[last] - row.heads[many][:, None]) - (last - many[:, None]) * level
        filled = np.min(up[:, None] * level + spare + small, axis=1)
        lost = (total + resolution * (row.heads[size] - row.heads[many]) - filled) / resolution
        even = row.rest_excess(size, spread / resolution / np.maximum(row.vocabulary - size, 1))
        found: Row = np.maximum(lost, 0.0) + np.where(mixture, even, mass) - row.slack
        return found


def rounding(row: SortedRow, size: int, resolution: int, *, mixture: bool) -> Rounding:
    """Round the ``size`` largest entries and, in a mixture, the rest as one entry, spread evenly by the server."""
    # Step 1: round down
    spread = int(resolution * float(row.tails[size])) if mixture else 0
    many = min(size, int(np.searchsorted(-row.values, -1.0 / resolution, side="right")))
    scaled = resolution * row.values[:many]
    floor = np.floor(scaled)
    remainders, missing = scaled - floor, resolution - spread - int(floor.sum())
    # Step 2: of the units left over, some go to the m entries rounded down, the others to the first of those below one
    up = min(missing, size)
    sums = np.concatenate(([0.0], np.cumsum(np.sort(remainders)[::-1])))
    raised = np.arange(max(0, up - (size - many)), min(many, up) + 1)
    filled = sums[raised] + resolution * (row.heads[many + up - raised] - row.heads[many])
    best = int(np.argmax(filled))
    chosen = int(raised[best])
    # Step 3: the support loses what is not filled, and the rest what it has above its even share of its units
    small = resolution * (row.heads[size] - row.heads[many])
    distance = max(float(remainders.sum() + small - float(filled[best])) / resolution, 0.0)
    others = row.vocabulary - size
    if mixture and others:
        distance += float(row.rest_excess(np.asarray(size), np.asarray(spread / resolution / others)))
    else:
        distance += float(row.tails[size])
    return Rounding(floor.astype(np.int64), remainders, chosen, up - chosen, missing - up, spread, distance)


def units_of(found: Rounding, size: int) -> Integers:
    """Units of the ``size`` largest entries, in descending order of the entries."""
    units = np.zeros(size, dtype=np.int64)
    many = len(found.whole)
    units[:many] = found.whole
    units[np.argsort(-found.remainders, kind="stable")[: found.raised]] += 1
    units[many : many + found.first] += 1
    units[0] += found.extra
    return units


def least_distance(row: SortedRow, size: Integers, resolution: Integers, mixture: NDArray[np.bool_]) -> Row:
    """A lower bound on the distance of each rounding, without rounding anything.

    The rest loses at least what it has above its mean, or all its mass. Of the support, m entries have at least one
    unit. They take ℓ Σ - m units or more, and m or more. A remaining unit serves at most one other entry. An entry
    without a unit loses all its mass.
    """
    rest = np.where(mixture, row.flat_rest(size), row.tails[size])
    many = np.minimum(size, np.searchsorted(-row.values, -1.0 / resolution, side="right"))
    taken = np.maximum(many, resolution * row.heads[many] - many) + np.where(mixture, resolution * row.tails[size], 0.0)
    left = np.maximum(np.floor(resolution - taken + 2.0), 0.0).astype(np.int64)  # 2 more than by the bound: rounding
    lost = row.heads[size] - row.heads[np.minimum(size, many + left)]
    bound: Row = rest + np.maximum(lost, 0.0) - row.slack
    return bound


def top_k_losses(row: SortedRow, most: int, bits: int) -> Row:
    """E_k for k = 0..``most``: what rounding the k largest entries down to b bits loses."""
    sent = row.values[:most]
    return np.concatenate(([0.0], np.cumsum(sent - values_of(levels_of(sent, bits), bits))))


def top_k_distance(row: SortedRow, size: Integers, losses: Row) -> Row:
    """TV(q, q̂) of the ``size`` largest entries, which lose E_k, and an even rest, but for rounding."""
    lost = losses[size]
    mean = (row.tails[size] + lost) / np.maximum(row.vocabulary - size, 1)
    found = lost + row.rest_excess(size, mean)
    if len(losses) > row.vocabulary:  # all may be sent: what is lost is then spread over all of them
        each = np.diff(losses)
        found = np.where(size < row.vocabulary, found, np.maximum(each - each.mean(), 0.0).sum())
    return np.asarray(found)


def certified(row: SortedRow, distance: float) -> float:
    """The certificate of a distance: twice it, and no more than 2, with the slack for rounding."""
    return min(2.0 * (distance + row.slack), 2.0)
