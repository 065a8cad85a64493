"""Draft rows at the door of a rule that looks at their sorted entries: one sort validates and serves.

A plain check of a row passes over it some ten times, which for one row takes as long as the sort. The two ends of the
sorted row tell whether all of it is finite and not negative.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hlmtheory._array import NUMPY, Array, back, in_kind, is_kind, on_host
from hlmtheory._domains import SIMPLEX, leading_dimensions, same_vocabulary
from hlmtheory.truncation.softplus import draft_probability
from hlmtheory.truncation.tails import Tails

SURE = 1e-4
"""The least slack that the check of a row has, whatever its type."""
EXACT = 2.0**-50
"""Rows that miss 1 by no more than this come from another room, and are not divided again."""


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
        narrow = rows if rows.dtype in (xp.float32, xp.float64) else in_kind(xp, rows, xp.float64)
        size = rows.shape[-1]
        host, flat = on_host(xp, xp.reshape(narrow, (-1, size)))
        ascending = host.sort(flat, axis=-1, stable=False)
        total = whole_sums(xp, "draft", rows, back(xp, ascending[:, 0]), back(xp, ascending[:, -1]))
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

    def least(self, limit: Array, *, sure: bool = False) -> Array:
        """The least k with Δ_k ≤ limit (...), of the broadcast shape; if ``sure``, with its rounding."""
        batch = leading_dimensions(draft=self.batch, limit=tuple(limit.shape))
        tails = self.spread(batch)
        limit = on_host(self.xp, self.xp.reshape(self.xp.broadcast_to(limit, batch), (-1, 1)))[1]
        least = tails.least(limit, sure=sure)
        return self.xp.reshape(back(self.xp, least), batch)

    def probability(self, token: Array) -> Array:
        """q_d of each row, of the broadcast shape."""
        drafted = in_kind(self.xp, draft_probability(self.xp, self.rows, token), self.xp.float64)
        return drafted if isinstance(self.total, float) else drafted / self.total[..., 0]

    def most_deviation(self, k: Array) -> Array:
        """At least Δ_k for k (...), by its rounding above what is computed; 0 where the tail is even."""
        xp, batch = self.xp, tuple(k.shape)
        deviation, slack = self.spread(batch).measured(on_host(xp, xp.reshape(k, (-1, 1)))[1])
        return xp.reshape(back(xp, deviation + slack), batch)


def refuse_shapeless(xp: Any, name: str, rows: Array) -> None:
    """Rows must be rows of numbers."""
    if not rows.ndim or not rows.shape[-1] or not is_kind(xp, rows.dtype, ("real floating", "integral")):
        SIMPLEX.check(xp, name, rows)


def divided(xp: Any, name: str, rows: Array) -> Array:
    """Rows that need not be sorted, validated, in float64, each summing to 1."""
    refuse_shapeless(xp, name, rows)
    least, most = xp.min(rows, axis=-1), xp.max(rows, axis=-1)  # NaN if there is one
    return _over(xp, rows, whole_sums(xp, name, rows, least, most))


def apart(xp: Any, target: Array, rows: Sorted) -> Array:
    """TV(q, p) of the rows and a target (..., V), validated; in one array where the library lets it."""
    p = divided(xp, "target", target)
    same_vocabulary(target=p, draft=rows.rows)
    leading_dimensions(target=tuple(p.shape[:-1]), draft=rows.batch)
    gap = rows.divided
    if p.shape == gap.shape and gap is not rows.rows:
        gap -= p
    else:
        gap = gap - p
    size = np.abs(gap, out=gap) if xp is NUMPY else xp.abs(gap)
    return xp.clip(0.5 * xp.sum(size, axis=-1), max=1.0)


def _over(xp: Any, rows: Array, total: Array | float) -> Array:
    wide = in_kind(xp, rows, xp.float64)
    return wide if isinstance(total, float) else wide / total


def whole_sums(xp: Any, name: str, rows: Array, least: Array, most: Array) -> Array | float:
    """What the rows are divided by, (..., 1), or 1.0 if they sum to 1, given each one's least and largest entry or NaN.

    What does not pass at a glance is looked at in full: the half types have a wider slack.
    """
    total = xp.sum(in_kind(xp, rows, xp.float64), axis=-1, keepdims=True)
    defect = xp.abs(total - 1.0)
    bounded = bool(xp.all(least >= 0)) and bool(xp.all(most < xp.inf))
    if not (bounded and bool(xp.all(defect <= SURE))):
        SIMPLEX.check(xp, name, rows)
    return 1.0 if rows.dtype == xp.float64 and bool(xp.all(defect <= EXACT)) else total
