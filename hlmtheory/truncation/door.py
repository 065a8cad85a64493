"""Draft rows at the door of a rule that looks at their sorted entries: one sort validates and serves.

A plain check of a row passes over it some ten times, which for one row takes as long as the sort. The two ends of the
sorted row tell whether all of it is finite and not negative.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory._array import NUMPY, Array, back, every, in_kind, is_kind, on_host, row_sums, spread, to_numpy
from hlmtheory._domains import SIMPLEX, leading_dimensions, same_vocabulary
from hlmtheory._simplex import distance
from hlmtheory.truncation.lean import deviation_in_row
from hlmtheory.truncation.softplus import draft_probability
from hlmtheory.truncation.tails import Tails

SURE = 1e-4
"""The least slack that the check of a row has, whatever its type."""
EXACT = 2.0**-50
"""Rows that miss 1 by no more than this come from another module, and are not divided again."""


@dataclass(frozen=True, slots=True)
class Sorted:
    """Draft rows that were validated by being sorted.

    Attributes
    ----------
    rows : array, shape (..., V)
        As they came.
    total : array, shape (..., 1), or float
        What they are divided by: their sums in float64, or 1.0.
    tails : Tails
        Of rows / total, each row once; torch's on the CPU as numpy's.
    """

    xp: Any
    rows: Array
    total: Array | float
    tails: Tails

    @classmethod
    def of(cls, xp: Any, rows: Array) -> Sorted:
        """Sort and validate; refuses them by the name ``draft``.

        Sorted in the type they have, and divided after that: division keeps the order, so that the numbers are those
        of sorting what was divided.
        """
        refuse_shapeless(xp, "draft", rows)
        narrow = _sortable(xp, rows)
        size = rows.shape[-1]
        host, flat = on_host(xp, xp.reshape(narrow, (-1, size)))
        ascending = host.sort(flat, axis=-1, stable=False)
        total = whole_sums(xp, "draft", rows, back(xp, ascending[:, 0]))
        ascending = in_kind(host, ascending, host.float64)
        if not isinstance(total, float):
            ascending /= on_host(xp, xp.reshape(total, (-1, 1)))[1]
        return cls(xp, rows, total, Tails.of(host, ascending))

    @property
    def batch(self) -> tuple[int, ...]:
        """The rows' leading dimensions."""
        return tuple(self.rows.shape[:-1])

    @property
    def divided(self) -> Array:
        """The rows in float64, each summing to 1, in the order they came in."""
        return _over(self.xp, self.rows, self.total)

    def spread(self, batch: tuple[int, ...]) -> Tails:
        """The tails of a batch that the rows' leading dimensions broadcast to."""
        if self.batch == batch:
            return self.tails
        xp = self.tails.xp
        wide = [
            xp.reshape(
                xp.broadcast_to(xp.reshape(a, (*self.batch, a.shape[-1])), (*batch, a.shape[-1])), (-1, a.shape[-1])
            )
            for a in (self.tails.ascending, self.tails.before)
        ]
        return Tails(xp, *wide)

    def least(self, limit: Array, name: str, *, sure: bool = False) -> Array:
        """The least k with Δ_k ≤ limit (...), of the broadcast shape; if ``sure``, with its rounding.

        A limit whose shape does not fit is refused by the ``name`` of the tolerance it comes from.
        """
        batch = leading_dimensions(draft=self.batch, **{name: tuple(limit.shape)})
        tails = self.spread(batch)
        limit = on_host(self.xp, self.xp.reshape(spread(self.xp, limit, batch), (-1, 1)))[1]
        least = tails.least(limit, sure=sure)
        return self.xp.reshape(back(self.xp, least), batch)

    def probability(self, token: Array) -> Array:
        """q_d of each row, of the broadcast shape."""
        drafted = in_kind(self.xp, draft_probability(self.xp, self.rows, token), self.xp.float64)
        return drafted if isinstance(self.total, float) else drafted / self.total[..., 0]

    def most_deviation(self, k: Array) -> Array:
        """At least Δ_k for k (...), by its rounding above what is computed; 0 where the tail is even."""
        xp, batch = self.xp, tuple(k.shape)
        tails, sizes = self.spread(batch), on_host(xp, xp.reshape(k, (-1, 1)))[1]
        if tails.lean:
            each = zip(tails.rows(), sizes[:, 0].tolist(), strict=True)
            most = np.asarray([sum(deviation_in_row(*row, size)) for row, size in each], dtype=np.float64)
        else:
            deviation, slack = tails.measured(sizes)
            most = deviation + slack
        return xp.reshape(back(xp, most), batch)


@dataclass(frozen=True, slots=True)
class Host:
    """Validated rows (R, V) on the host as they came, and what they are divided by, (R,): one at a time in float64."""

    rows: np.ndarray[Any, Any]
    total: np.ndarray[Any, Any] | None

    @classmethod
    def of(cls, xp: Any, rows: Array, total: Array | float) -> Host:
        """Half types, some of which numpy lacks, in float64."""
        rows = to_numpy(_sortable(xp, rows)).reshape(-1, rows.shape[-1])
        return cls(rows, None if isinstance(total, float) else to_numpy(total).reshape(-1))

    def row(self, index: int, work: NDArray[np.float64]) -> NDArray[np.float64]:
        """The row over its sum, in ``work`` (V,) where it is not as it came."""
        row: NDArray[np.float64] = self.rows[index]
        if self.total is not None:
            row = np.divide(row, self.total[index], out=work, dtype=np.float64)
        return row


def refuse_shapeless(xp: Any, name: str, rows: Array) -> None:
    """Rows must be rows of numbers."""
    if not rows.ndim or not rows.shape[-1] or not is_kind(xp, rows.dtype, ("real floating", "integral")):
        SIMPLEX.check(xp, name, rows)


def sums_of(xp: Any, name: str, rows: Array) -> Array | float:
    """What rows that need not be sorted are divided by, (..., 1), or 1.0; validates them."""
    refuse_shapeless(xp, name, rows)
    return whole_sums(xp, name, rows, xp.min(rows, axis=-1))


def apart(xp: Any, target: Array, rows: Sorted) -> Array:
    """TV(q, p) of the rows and a target (..., V), validated; on the host row by row."""
    total = sums_of(xp, "target", target)
    same_vocabulary(target=target, draft=rows.rows)
    leading_dimensions(target=tuple(target.shape[:-1]), draft=rows.batch)
    if rows.tails.xp is NUMPY and tuple(target.shape[:-1]) == rows.batch:
        p, q = Host.of(xp, target, total), Host.of(xp, rows.rows, rows.total)
        gap = np.empty(len(p.rows))
        one, other = np.empty((2, target.shape[-1]))
        for i in range(gap.size):  # a row stays in the cache from one pass to the next
            np.subtract(p.row(i, one), q.row(i, other), out=one)
            gap[i] = min(0.5 * float(np.abs(one, out=one).sum()), 1.0)
        return xp.reshape(back(xp, gap), rows.batch)
    return distance(xp, _over(xp, target, total), rows.divided)


def _sortable(xp: Any, rows: Array) -> Array:
    """In a type that is sorted fast."""
    return rows if rows.dtype in (xp.float32, xp.float64) else in_kind(xp, rows, xp.float64)


def _over(xp: Any, rows: Array, total: Array | float) -> Array:
    wide = in_kind(xp, rows, xp.float64)
    return wide if isinstance(total, float) else wide / total


def whole_sums(xp: Any, name: str, rows: Array, least: Array) -> Array | float:
    """What the rows are divided by, (..., 1), or 1.0 if they sum to 1, given each one's least entry.

    What does not pass at a glance is looked at in full: the half types have a wider slack. An entry that is not finite
    makes the sum so.
    """
    total = row_sums(xp, in_kind(xp, rows, xp.float64))
    defect = xp.abs(total - 1.0)
    if not (every(xp, least >= 0) and every(xp, defect <= SURE)):
        SIMPLEX.check(xp, name, rows)
    if rows.dtype != xp.float64:
        return total
    whole = defect <= EXACT
    return 1.0 if every(xp, whole) else xp.where(whole, xp.ones_like(total), total)
