"""Single decisions of a few rows, exchanged while the rate rises and the limits hold."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from hlmtheory._array import Array
from hlmtheory.policy.columns import FINE, ROUNDING, Column, keeps, over_limits, rate_of
from hlmtheory.policy.costs import Integers
from hlmtheory.policy.rounds import Decisions, Limits, Prices, Rounds

_SMALL, _TRIED = 16, 4  # rows up to which single decisions are exchanged, and how many exchanges are completed
_RARE = 1e-9  # share of rounds that reach a later place: below it such places hardly count


def exchange(model: Rounds, found: Column, limits: Limits) -> Column:
    """Improve the decisions of a few rows: skip others, fit the messages to the limits, and change them one by one.

    With many rows the gap is smaller than one row's part, so that this is not needed.
    """
    if len(model.weight) > _SMALL or model.length == 0:
        return found
    ladder = _ladder(model)
    best, seen = _spent(model, found, limits), {found.made.skip.tobytes()}
    while True:
        tried = []
        for skip in _other_skips(model, best.made.skip):
            if skip.tobytes() not in seen and (one := _fitted(model, skip, ladder, best.prices, limits)):
                tried.append(one)
        tried = sorted(tried, key=lambda one: rate_of(one.totals))[-_TRIED:]
        seen |= {one.made.skip.tobytes() for one in tried}
        top = max((_spent(model, one, limits) for one in tried), key=lambda one: rate_of(one.totals), default=best)
        if not _faster(top, best):
            return best
        best = top


def _faster(one: Column, other: Column) -> bool:
    """Whether the rate differs by more than a rounding; rates less their toll may be negative."""
    rate = rate_of(other.totals)
    return rate_of(one.totals) > rate + FINE * abs(rate)


def _ladder(model: Rounds) -> list[tuple[Integers, Integers]]:
    """The corners of all rows at each price of risk, from the fewest bits on."""
    steps = model.priced.prices()
    later = model.reached / (model.length - 1) if model.length > 1 else 0.0
    at = np.unique(np.concatenate([[0.0], steps, steps / later if later > _RARE else []])) * (1.0 + ROUNDING)
    return [(model.priced.corners(1.0, price), model.priced.corners(1.0, price * later)) for price in at.tolist()]


def _other_skips(model: Rounds, skip: Array) -> Iterable[Array]:
    """Sets of skipped rows that differ in one row, or in one that comes for another."""
    rows: list[int] = np.flatnonzero(~model.blocked).tolist() if model.may_skip else []
    for n in rows:
        one = _changed(skip, n, not skip[n])
        yield one
        yield from (_changed(one, m, not skip[m]) for m in rows if m > n and skip[m] != skip[n])


def _fitted(
    model: Rounds, skip: Array, ladder: list[tuple[Integers, Integers]], prices: Prices, limits: Limits
) -> Column | None:
    """The lowest rung of the ladder that keeps the limit on risk."""
    low, high = 0, len(ladder) - 1
    while low < high:
        middle = (low + high) // 2
        good = over_limits(model.totals(Decisions(skip, *ladder[middle])), limits)[0] <= 0.0
        low, high = (low, middle) if good else (middle + 1, high)
    made = Decisions(skip, *ladder[low])
    totals = model.totals(made)
    return Column(made, totals, prices) if keeps(totals, limits) else None


def _spent(model: Rounds, found: Column, limits: Limits) -> Column:
    """Change one message after the other while the rate rises and the limits hold."""
    best = found
    while True:
        tried = [Column(made, model.totals(made), best.prices) for made in _other_messages(model, best.made)]
        good = [one for one in tried if keeps(one.totals, limits)]
        top = max(good, key=lambda one: rate_of(one.totals), default=best)
        if not _faster(top, best):
            return best
        best = top


def _other_messages(model: Rounds, made: Decisions) -> Iterable[Decisions]:
    """All decisions that differ in one message."""
    for n in range(len(model.weight)):
        for corner in range(int(model.hulls.start[n]), int(model.hulls.start[n + 1])):
            if corner != made.first[n] and not made.skip[n]:
                yield made._replace(first=_changed(made.first, n, corner))
            if corner != made.later[n] and model.length > 1:
                yield made._replace(later=_changed(made.later, n, corner))


def _changed(values: Array, place: int, value: float) -> Array:
    other = values.copy()
    other[place] = value
    return other
