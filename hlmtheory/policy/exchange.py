"""Single decisions of a few rows, exchanged while the rate rises and the limit holds.

Rows with equal hulls keep one message at each place: they may be drafts of one position.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from hlmtheory._array import Array
from hlmtheory.policy.columns import FINE, ROUNDING, Column, keeps, over_limit, rate_of
from hlmtheory.policy.costs import Numbers
from hlmtheory.policy.rounds import Choice, Decisions, Rounds

SMALL = 16
"""Rows up to which single decisions are exchanged. With more, the gap is smaller than one row's part."""

_TRIED = 4  # exchanges of skipped rows that are completed
_RARE = 1e-9  # share of rounds that reach a later place: below it such places hardly count


def exchanged(found: Column, limit: float) -> Column:
    """Improve the decisions of a few rows: skip others, fit the messages to the limit, and change them one by one."""
    messages = _Messages(found.model)
    best, seen = messages.spent(found, limit), {found.choice.made.skip.tobytes()}
    while True:
        tried = []
        for skip in _other_skips(found.model, best.choice.made.skip):
            if skip.tobytes() not in seen and (column := messages.fitted(best, skip, limit)):
                tried.append(column)
        tried = sorted(tried, key=lambda column: rate_of(column.totals))[-_TRIED:]
        seen |= {column.choice.made.skip.tobytes() for column in tried}
        ends = [messages.spent(column, limit) for column in tried]
        top = max(ends, key=lambda column: rate_of(column.totals), default=best)
        if not _faster(top, best):
            return best
        best = top


def _faster(column: Column, other: Column) -> bool:
    """Whether the rate differs by more than a rounding; rates less their toll may be negative."""
    rate = rate_of(other.totals)
    return rate_of(column.totals) > rate + FINE * abs(rate)


def _other_skips(model: Rounds, skip: Array) -> Iterable[Array]:
    """Sets of skipped rows that differ in one row, or in one that comes for another."""
    rows: list[int] = list(range(len(skip))) if model.may_skip else []
    for n in rows:
        changed = _changed(skip, [n], not skip[n])
        yield changed
        yield from (_changed(changed, [m], not skip[m]) for m in rows if m > n and skip[m] != skip[n])


def _changed(values: Array, places: Iterable[int], value: float) -> Array:
    other = values.copy()
    other[list(places)] = value
    return other


class _Messages:
    """Other messages of the rows of a model."""

    def __init__(self, model: Rounds) -> None:
        self.model = model
        hulls = model.hulls
        groups: dict[bytes, list[int]] = {}
        for n in range(hulls.positions):
            own = slice(int(hulls.start[n]), int(hulls.start[n + 1]))
            groups.setdefault(hulls.bits[own].tobytes() + hulls.risk[own].tobytes(), []).append(n)
        # Every other message of each group: its rows, and the number of the corner
        self.groups = list(groups.values())
        count = np.diff(hulls.start)
        self.options = [(g, c) for g, rows in enumerate(self.groups) for c in range(int(count[rows[0]]))]
        self._mask = np.zeros((len(self.options), hulls.positions))
        self._bits, self._risk = self._mask.copy(), self._mask.copy()
        for n, (group, number) in enumerate(self.options):
            rows = self.groups[group]
            new = hulls.start[rows] + number
            self._mask[n, rows], self._bits[n, rows], self._risk[n, rows] = 1.0, hulls.bits[new], hulls.risk[new]

    @cached_property
    def _steps(self) -> Numbers:
        """The prices of risk, for a bit, at which the corner of a row changes at some place."""
        steps, reach = self.model.priced.prices(), self._kept * self.model.reached
        places = [steps / part for part in reach.tolist() if part > _RARE]
        return np.unique(np.concatenate([[0.0], steps, *places])) * (1.0 + ROUNDING)

    @cached_property
    def _kept(self) -> float:
        return float(self.model.weight @ self.model.kept)

    def _at(self, skip: Array, price: float) -> Decisions:
        """The corners at a price of risk."""
        priced = self.model.priced
        later = [priced.corners(1.0, price * self._kept * part) for part in self.model.reached.tolist()]
        first = priced.corners(1.0, price)
        return Decisions(skip, first, np.asarray(later, dtype=np.int64).reshape(len(later), len(first)))

    def fitted(self, found: Column, skip: Array, limit: float) -> Column | None:
        """The lowest price of risk at which the limit on risk holds."""
        model, low, high = self.model, 0, len(self._steps) - 1
        while low < high:
            middle = (low + high) // 2
            good = over_limit(model.totals(self._at(skip, float(self._steps[middle]))), limit) <= 0.0
            low, high = (low, middle) if good else (middle + 1, high)
        made = self._at(skip, float(self._steps[low]))
        totals = model.totals(made)
        return Column(model, Choice(made, found.choice.rule), totals) if keeps(totals, limit) else None

    def spent(self, found: Column, limit: float) -> Column:
        """Change one message after the other while the rate rises and the limit holds."""
        best = found
        while (other := self._changed_message(best, limit)) is not None and _faster(other, best):
            best = other
        return best

    def _changed_message(self, found: Column, limit: float) -> Column | None:
        """The fastest decisions within the limit with one other message; None if no other keeps them."""
        model, (made, rule), totals = self.model, found.choice, found.totals
        bits, risk = self._differences(made)
        more = totals._replace(  # arrays in place of numbers
            band_s=totals.band_s + model.costs.seconds_per_bit * bits,  # type: ignore[arg-type]
            risk=totals.risk + risk,  # type: ignore[arg-type]
        )
        rates = np.where(over_limit(more, limit) <= 0.0, (totals.tokens - totals.toll) / more.seconds, -np.inf)
        place, option = np.unravel_index(int(np.argmax(rates)), rates.shape)
        if rates[place, option] == -np.inf:
            return None
        group, number = self.options[option]
        rows = self.groups[group]
        changed = [made.first, *made.later]
        changed[place] = changed[place].copy()
        changed[place][rows] = model.hulls.start[rows] + number
        other = made._replace(first=changed[0], later=np.asarray(changed[1:], dtype=np.int64).reshape(made.later.shape))
        column = Column(model, Choice(other, rule), model.totals(other))
        return column if keeps(column.totals, limit) else None

    def _differences(self, made: Decisions) -> tuple[Numbers, Numbers]:
        """By how much the bits and the risk of a round change with each other message, (places, options)."""
        model, hulls = self.model, self.model.hulls
        sent = model.weight * ~made.skip
        share, kept = float(sent.sum()), float(sent @ model.kept)
        each = [(sent, model.weight if share > 0 else sent, made.first)]
        each += [
            (share * model.weight, kept * part * model.weight, corners)
            for part, corners in zip(model.reached.tolist(), made.later, strict=True)
        ]
        bits = [self._bits @ use - self._mask @ (use * hulls.bits[corners]) for use, _, corners in each]
        risk = [self._risk @ use - self._mask @ (use * hulls.risk[corners]) for _, use, corners in each]
        return np.asarray(bits), np.asarray(risk)
