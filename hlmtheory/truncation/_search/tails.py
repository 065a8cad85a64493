"""Distributions in ascending order with running sums: Δ_k at any k, and the smallest k with Δ_k below a limit.

To compute Δ_k for every k = 0..V, :func:`hlmtheory.truncation.tail_deviation` takes V binary searches for each
distribution. Here one sort is followed by log₂ V binary searches. Symbols are those of :mod:`hlmtheory.truncation`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import is_torch_namespace

from hlmtheory._array import NUMPY, Array, back, on_host, running, sort_ascending, spread, take
from hlmtheory._domains import leading_dimensions
from hlmtheory._remember import remembered

FINE = 2.0**-20
"""A rounding error of Δ_k below this share of the limit is not added to Δ_k, so that it costs no entry in a tie."""


@dataclass(frozen=True, slots=True)
class Tails:
    """Sorted distributions of one batch; the tail of k holds the V - k smallest entries.

    Attributes
    ----------
    caller, xp : namespace
        Of the caller's arrays, and of the arrays below: numpy for torch on the CPU, which sorts 30 times faster.
    batch : tuple of int
        Leading dimensions, R entries in all.
    ascending : array, shape (R, V)
    sums : array, shape (R, V + 1)
        Sums of the 0..V smallest entries. A small tail keeps its digits, since it is summed from its smallest entry.
    """

    caller: Any
    xp: Any
    batch: tuple[int, ...]
    ascending: Array
    sums: Array

    @classmethod
    def of(cls, caller: Any, rows: Array) -> Tails:
        """Sort distributions (..., V) in float64."""
        xp, flat = on_host(caller, caller.reshape(rows, (-1, rows.shape[-1])))
        ascending = sort_ascending(xp, flat)
        return cls(caller, xp, tuple(rows.shape[:-1]), ascending, _sums(xp, ascending))

    def spread(self, batch: tuple[int, ...]) -> Tails:
        """The same distributions, broadcast to a batch."""
        if self.batch == batch:
            return self
        wide = [
            self.xp.reshape(
                self.xp.broadcast_to(self.xp.reshape(values, (*self.batch, -1)), (*batch, values.shape[-1])),
                (-1, values.shape[-1]),
            )
            for values in (self.ascending, self.sums)
        ]
        return Tails(self.caller, self.xp, batch, *wide)

    def least(self, limit: Array, name: str, *, sure: bool = False) -> Array:
        """The smallest k with Δ_k ≤ limit, for limits (...) that broadcast with the batch.

        With ``sure``, the rounding error of Δ_k counts as part of it, unless it is below ``FINE`` of the limit. A limit
        whose shape does not fit is refused by the ``name`` of the argument it comes from.
        """
        batch = leading_dimensions(draft=self.batch, **{name: tuple(limit.shape)})
        limits = (batch[-1] or 1) if batch and self.batch[-1:] in ((), (1,)) else 1  # of one row, which is not repeated
        tails = self.spread(batch if limits == 1 else (*batch[:-1], 1))
        limit = self._column(limit, batch, limits)

        def meets(k: Array) -> Array:
            deviation, slack = tails.deviation(k)
            if sure:
                deviation = deviation + self.xp.where(slack > FINE * limit, slack, 0.0)
            return deviation <= limit

        return tails._answer(tails._least(meets, limit.shape), batch)

    def least_mean(self, weight: Array, limit: Array) -> Array:
        """The smallest k with mean_t weight_t Δ_k(t) ≤ limit, for weights (..., T) and limits (...)."""
        batch, tokens = tuple(weight.shape[:-1]), weight.shape[-1]
        tails, xp = self.spread(tuple(weight.shape)), self.xp
        weight = xp.reshape(tails._column(weight), (-1, tokens))
        limit = tails._column(limit, batch)

        def meets(k: Array) -> Array:
            each = xp.reshape(xp.broadcast_to(k, weight.shape), (-1, 1))
            deviation = xp.reshape(tails.deviation(each)[0], weight.shape)
            with np.errstate(invalid="ignore"):  # an infinite weight times 0 is 0 here
                weighted = xp.where(deviation > 0, weight * deviation, 0.0)
            return xp.mean(weighted, axis=-1, keepdims=True) <= limit

        return tails._answer(tails._least(meets, limit.shape), batch)

    def leaving(self, mass: Array) -> Array:
        """The smallest k whose tail holds at most this mass (...), which has the shape of the batch."""
        count = up_to(self.xp, self.sums, self._column(mass)) - 1  # the empty tail is always among the sums
        return self._answer(self.ascending.shape[-1] - count)

    def deviation(self, k: Array) -> tuple[Array, Array]:
        """Δ_k for k (R, C), and a bound on its rounding error; both are 0 if the tail's entries are equal."""
        xp, size = self.xp, self.ascending.shape[-1]
        count = size - k
        divisor = xp.astype(xp.where(count > 0, count, 1), xp.float64)
        tail = take(xp, self.sums, count)
        mean = tail / divisor
        below = xp.minimum(up_to(xp, self.ascending, mean), count)
        above = tail - take(xp, self.sums, below) - xp.astype(count - below, xp.float64) * mean
        even = take(xp, self.ascending, xp.where(count > 0, count - 1, 0)) == self.ascending[:, :1]
        deviation = xp.where(even | (above < 0), 0.0, above)
        return deviation, xp.where(even, 0.0, _rounding(xp, size, tail, divisor))

    def _least(self, meets: Callable[[Array], Array], shape: tuple[int, ...]) -> Array:
        """The smallest k (R, C) that meets a condition, by bisection: both bounds fall with k (truncation.monotone)."""
        xp, size = self.xp, self.ascending.shape[-1]
        low = xp.zeros(tuple(shape), dtype=xp.int64, device=self.ascending.device)
        high = xp.full_like(low, size - 1)
        for _ in range(size.bit_length()):
            middle = (low + high) // 2
            good = meets(middle)
            low, high = xp.where(good, low, xp.minimum(middle + 1, high)), xp.where(good, middle, high)
        return high

    def _column(self, values: Array, batch: tuple[int, ...] | None = None, each: int = 1) -> Array:
        """The caller's values, ``each`` for each row: (R, each)."""
        wide = spread(self.caller, values, self.batch if batch is None else batch)
        return on_host(self.caller, self.caller.reshape(wide, (-1, each)))[1]

    def _answer(self, column: Array, batch: tuple[int, ...] | None = None) -> Array:
        """The result for each row and column, in the caller's library and shape."""
        return self.caller.reshape(back(self.caller, column), self.batch if batch is None else batch)


@remembered
def _sums(xp: Any, ascending: Array) -> Array:
    """The sums of the 0..V first entries of each row (R, V)."""
    return running(xp, xp.concat([xp.zeros_like(ascending[:, :1]), ascending], axis=-1))


def _rounding(xp: Any, size: int, tail: Array, count: Array) -> Array:
    """Bound on the rounding error of Δ_k, for tails of ``count`` > 0 entries with that sum, out of V = ``size``.

    Two sums of at most V terms and their mean round by half a unit of at most the tail each; the division of the
    entries by their sum adds a unit. For a subnormal tail the sums are exact, so Δ_k is underestimated by at most
    count · mean - tail.
    """
    return xp.maximum((size + 4) * 2.0**-52 * tail, tail / count * count - tail)


def up_to(xp: Any, ascending: Array, thresholds: Array) -> Array:
    """How many entries of each row (R, V) are at most the thresholds (R, C)."""
    if is_torch_namespace(xp):
        import torch

        return torch.searchsorted(ascending.contiguous(), thresholds.contiguous(), right=True)
    if not thresholds.shape[0]:
        return xp.zeros(thresholds.shape, dtype=xp.int64)
    rows = range(thresholds.shape[0])
    if xp is NUMPY:  # its method takes half the time of its function
        return np.asarray([ascending[i].searchsorted(thresholds[i], side="right") for i in rows])
    return xp.stack([xp.searchsorted(ascending[i, :], thresholds[i, :], side="right") for i in rows])
