"""Which settings of edge-sd's cell give the percentages that it prints: a search, and the nearest by number of changes.

Table II's constants give none of them. The search tries every change alone, and combinations of what the text leaves
most open; it tunes the nearest few, and then tries every further change. It is a fit of our model to their numbers and
no evidence of what they ran: the more is changed, the less it means.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np

from hlmtheory._domains import DomainError
from validation.claims.scenarios.cellsearch import BANDWIDTH_GOALS, BATCHING_GOALS, CHOICES, Goal, Setting, percentages

Move = Callable[[Any, float], Any]

MEMORIES = (16e9, 32e9, 34e9, 36e9)
ANSWERS = (32, 64, 128, 256, 512, 1024, 2048)
GAINS_DB = (-30.0, -40.0, -50.0, -60.0)
EXPONENTS = (2.0, 3.0, 4.0)
STARTS = 3
"""Starts that are tuned."""

STEPS, FINE_STEPS = (1.0, 0.5, 0.25, 0.125), (0.5, 0.25, 0.125, 0.0625, 0.03)
FINE_STARTS = 4

POINT = 1.0
"""Percentage points within which a setting is said to give a printed percentage."""


@dataclass(frozen=True, slots=True)
class Knob:
    """Something that can be changed.

    Attributes
    ----------
    field : str
        Of :class:`Setting`.
    values : tuple
        Tried at first.
    move : callable, optional
        (value, step) to another value, for tuning; None if there is nothing between the values.
    """

    field: str
    values: tuple[Any, ...]
    move: Move | None = None

    def __post_init__(self) -> None:
        if self.field not in Setting.__dataclass_fields__:
            raise DomainError(f"field must be one of Setting; got {self.field!r}")


def _ratio(value: float, step: float) -> float:
    return float(value * 1.25**step)


def _count(value: int, step: float) -> int:
    return max(1, int(value * 1.25**step + 0.5))


def _sum(unit: float, value: float, step: float) -> float:
    return float(value + unit * step)


def _acceptance(value: float, step: float) -> float:
    """By the share rejected, which stays between 0 and 1."""
    return float(1.0 - min((1.0 - value) * 1.25**step, 0.99))


KNOBS = (
    Knob("memory", (8e9, 12e9, 24e9, 32e9, 36e9, 40e9, 64e9), _ratio),
    Knob("acceptance", (0.5, 0.6, 0.7, 0.9, 0.95), _acceptance),
    Knob("draft_rate", (0.1, 0.3, 0.5, 2.0, 3.0, 10.0), _ratio),
    Knob("draft_start", (0.1, 3.0, 10.0), _ratio),
    Knob("verify_rate", (0.1, 0.3, 0.5, 2.0, 3.0), _ratio),
    Knob("upload", (0.0, 0.5, 0.8, 1.25, 2.0, 4.0, 8.0, 16.0), _ratio),
    Knob("gain_db", (-40.0, -50.0, -60.0), partial(_sum, 3.0)),
    Knob("exponent", (3.0, 4.0), partial(_sum, 0.2)),
    Knob("pair", (0, 2)),
    Knob("longest_draft", (5, 20)),
    Knob("longest_output", (32, 64, 128, 256, 512, 1024), _count),
    Knob("longest_input", (256, 1024, 2048), _count),
    *(Knob(field, words[1:]) for field, words in CHOICES.items()),
    Knob("padded", (False,)),
    Knob("sorted_arrival", (True,)),
    Knob("printed_objective", (True,)),
)
"""Everything that is varied. One processor for both stages is not: nothing would overlap, so Fig. 7's saving were 0."""


@dataclass(frozen=True, slots=True)
class ScannedSetting:
    """One setting and what it gives, in percent, in the order of the goals."""

    setting: Setting
    savings: tuple[float, ...]

    def distance(self, printed: Sequence[float]) -> float:
        """The largest difference from the printed ones, in percentage points."""
        return max(abs(ours - theirs) for ours, theirs in zip(self.savings, printed, strict=True))

    @property
    def words(self) -> str:
        """The setting."""
        return "; ".join(self.setting.changes) or "Table II"


@dataclass(frozen=True, slots=True)
class Ladder:
    """What a search found.

    Attributes
    ----------
    goals : tuple of Goal
    tried : tuple of ScannedSetting
        All settings, in order, Table II first.
    """

    goals: tuple[Goal, ...]
    tried: tuple[ScannedSetting, ...]

    @property
    def rungs(self) -> tuple[ScannedSetting, ...]:
        """The nearest by number of changes, from none on, each nearer than all with fewer."""
        found: list[ScannedSetting] = []
        for count in sorted({len(one.setting.changes) for one in self.tried}):
            alike = [one for one in self.tried if len(one.setting.changes) == count]
            nearest = min(alike, key=lambda one: one.distance(self.printed))
            if not found or nearest.distance(self.printed) < found[-1].distance(self.printed):
                found.append(nearest)
        return tuple(found)

    @property
    def printed(self) -> tuple[float, ...]:
        """Of the goals."""
        return tuple(goal.printed for goal in self.goals)

    @property
    def best(self) -> ScannedSetting:
        """The nearest of all."""
        return self.rungs[-1]

    @property
    def within_a_point(self) -> int:
        """How many settings give all the percentages."""
        return sum(found.distance(self.printed) <= POINT for found in self.tried)


@cache
def climb(
    goals: tuple[Goal, ...],
    seed: int,
    runs: int,
    *,
    most: int,
    starts: tuple[Setting, ...] = (),
    knobs: tuple[Knob, ...] = KNOBS,
) -> Ladder:
    """From Table II to the printed percentages.

    Parameters
    ----------
    goals : tuple of Goal
    seed, runs : int
        The same draws of the users for every setting.
    most : int
        Further changes tried, beside those of the starts: the first from Table II on.
    starts : tuple of Setting, optional
        Combinations, of which the nearest few are tuned.
    knobs : tuple of Knob
        What may be changed.

    Returns
    -------
    Ladder

    Raises
    ------
    ValueError
        If there are no goals, knobs, runs or changes.

    Examples
    --------
    >>> from validation.claims.scenarios.cellsearch import BANDWIDTH_GOALS
    >>> counted = (Knob("upload", (4.0, 8.0, 16.0), _ratio),)
    >>> ladder = climb(BANDWIDTH_GOALS[:1], 1, 1, most=1, knobs=counted)
    >>> ladder.rungs[0].words, ladder.best.distance(ladder.printed) < 0.5
    ('Table II', True)
    """
    for name, value in (("goals", len(goals)), ("knobs", len(knobs)), ("runs", runs), ("most", most)):
        if value < 1:
            raise DomainError(f"{name} must be 1 or more; got {value}")
    search = _Search(goals, seed, runs)
    best = search.at(Setting())
    alone = [search.of_values(knob, best) for knob in knobs]
    nearest = search.nearest([*starts, min([best, *alone], key=search.miss).setting])
    best = min([best, *(search.tuned(start, _changed(start.setting, knobs)) for start in nearest)], key=search.miss)
    for _ in range(most - 1):
        changed = _changed(best.setting, knobs)
        reached = [search.of_values(knob, best) for knob in knobs if knob not in changed]
        better = min([best, *reached], key=search.miss)
        if better is best:
            break
        best = search.tuned(better, _changed(better.setting, knobs))
    return Ladder(goals, tuple(search.tried.values()))


def _changed(setting: Setting, knobs: Sequence[Knob]) -> list[Knob]:
    """What differs from Table II."""
    return [knob for knob in knobs if getattr(setting, knob.field) != getattr(Setting(), knob.field)]


class _Search:
    """Settings tried, and how far they are from the printed percentages."""

    def __init__(self, goals: tuple[Goal, ...], seed: int, runs: int) -> None:
        self.goals, self.seed, self.runs = goals, seed, runs
        self.tried: dict[Setting, ScannedSetting] = {}
        self.refused: set[Setting] = set()

    def at(self, setting: Setting) -> ScannedSetting:
        """What a setting gives."""
        if setting not in self.tried:
            values, _ = percentages(setting, self.goals, self.seed, self.runs)
            self.tried[setting] = ScannedSetting(setting, tuple(float(value) for value in values))
        return self.tried[setting]

    def miss(self, found: ScannedSetting) -> float:
        """The largest differences count most, but the others do: else a step that mends one of two is lost."""
        differences = [ours - goal.printed for ours, goal in zip(found.savings, self.goals, strict=True)]
        return float(np.linalg.norm(differences, 4))

    def allowed(self, settings: Sequence[Setting]) -> list[ScannedSetting]:
        """What those give whose memory holds every task."""
        found = []
        for setting in settings:
            if setting not in self.refused:
                try:
                    found.append(self.at(setting))
                except DomainError:
                    self.refused.add(setting)
        return found

    def nearest(self, settings: Sequence[Setting]) -> list[ScannedSetting]:
        """The nearest few."""
        return sorted(self.allowed(settings), key=self.miss)[:STARTS]

    def of_values(self, knob: Knob, start: ScannedSetting) -> ScannedSetting:
        """The start with the knob at its best value, or a little moved."""
        here = getattr(start.setting, knob.field)
        values = [
            *knob.values,
            *([] if knob.move is None else [knob.move(here, step) for step in (-1, -0.25, 0.25, 1)]),
        ]
        settings = [replace(start.setting, **{knob.field: value}) for value in values]
        return min([start, *self.allowed(settings)], key=self.miss)

    def tuned(self, found: ScannedSetting, changed: Sequence[Knob], steps: Sequence[float] = STEPS) -> ScannedSetting:
        """What has been changed so far, moved in ever smaller steps while that helps."""
        for step in steps:
            for _ in range(2):
                before = found
                for knob in changed:
                    found = self._moved(found, knob, step)
                if found is before:
                    break
        return found

    def _moved(self, found: ScannedSetting, knob: Knob, step: float) -> ScannedSetting:
        value = getattr(found.setting, knob.field)
        others = knob.values if knob.move is None else [knob.move(value, sign * step) for sign in (-1.0, 1.0)]
        settings = [replace(found.setting, **{knob.field: other}) for other in others]
        return min([found, *self.allowed(settings)], key=self.miss)


@cache
def of_batching(seed: int, runs: int) -> Ladder:
    """The search for Figs. 7b, 7c, 8a, 8b and 8c, from combinations of memory, models, acceptance and channel on."""
    starts = tuple(
        Setting(memory=memory, pair=pair, acceptance=acceptance, gain_db=gain)
        for memory, pair, acceptance, gain in product(MEMORIES, (1, 2), (0.8, 0.9), GAINS_DB)
    )
    return climb(BATCHING_GOALS, seed, runs, most=2, starts=starts)


@cache
def of_bandwidth(seed: int, runs: int) -> Ladder:
    """The search for Figs. 9a, 9b and 9c, from all combinations of answers, channels and payloads on."""
    combined = product(ANSWERS, CHOICES["answers"], GAINS_DB, EXPONENTS, CHOICES["payload"])
    starts = tuple(
        Setting(longest_output=longest, answers=answers, gain_db=gain, exponent=exponent, payload=payload)
        for longest, answers, gain, exponent, payload in combined
    )
    return climb(BANDWIDTH_GOALS, seed, runs, most=2, starts=starts)


@cache
def of_all(seed: int, runs: int) -> Ladder:
    """The search for all eight, from what was found for Figs. 7 and 8, under every channel, on."""
    found = [rung.setting for rung in of_batching(seed, runs).rungs]
    starts = tuple(
        replace(one, gain_db=gain, exponent=exponent) for one, gain, exponent in product(found, GAINS_DB, EXPONENTS)
    )
    return climb(BANDWIDTH_GOALS + BATCHING_GOALS, seed, runs, most=1, starts=starts)


@cache
def of_one(goal: Goal, seed: int, runs: int) -> Ladder:
    """The search for one percentage by a single change."""
    return climb((goal,), seed, runs, most=1)


def refined(ladder: Ladder, seed: int, runs: int) -> Ladder:
    """The nearest single changes of a search, one of each knob, tuned further on so many runs."""
    search, starts = _Search(ladder.goals, seed, runs), {}
    for found in sorted(ladder.tried, key=lambda one: one.distance(ladder.printed)):
        changed = _changed(found.setting, KNOBS)
        if len(changed) == 1:
            starts.setdefault(changed[0].field, (found.setting, [knob for knob in changed if knob.move is not None]))
    for setting, changed in list(starts.values())[:FINE_STARTS]:
        search.tuned(search.at(setting), changed, FINE_STEPS)
    return Ladder(ladder.goals, tuple(search.tried.values()))
