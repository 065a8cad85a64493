"""Settings of edge-sd's cell whose savings are nearest to the printed ones: run by hand, writes ``settings.json``.

Table II's constants give none of the eight printed savings. The search tries every change alone, and combinations of
what the text leaves open. It tunes the nearest few, and then tries every further change. The result is a fit of our
model to the printed numbers. It is no evidence of what the authors ran: the more changes, the weaker it is.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from savings import CHOICES, Setting, percentages

from hlmtheory._domains import DomainError
from validation.plots.common.record import plain
from validation.plots.edge_sd.beside import STORED, interval
from validation.plots.edge_sd.printed import ALL_SAVINGS, BANDWIDTH_SAVINGS, BATCHING_SAVINGS, Saving

BATCHING_RUNS, BANDWIDTH_RUNS, ALL_RUNS = 4, 8, 3
"""Draws of the users on which settings are searched."""

REFINING_RUNS = 40
"""Draws, the first ones included, on which the nearest single changes are tuned."""

CONFIRMING_RUNS = 60
"""Draws of another seed, on which the found settings are measured. No choice depends on them."""

FIRST_DRAWS = 2
"""Single confirming draws that are stored, so that a quick test can repeat them with the planner."""

Move = Callable[[Any, float], Any]

MEMORIES = (16e9, 32e9, 34e9, 36e9)
ANSWERS = (32, 64, 128, 256, 512, 1024, 2048)
GAINS_DB = (-30.0, -40.0, -50.0, -60.0)
EXPONENTS = (2.0, 3.0, 4.0)
STARTS = 3
"""Number of starts that are tuned."""

STEPS, FINE_STEPS = (1.0, 0.5, 0.25, 0.125), (0.5, 0.25, 0.125, 0.0625, 0.03)
FINE_STARTS = 4

POINT = 1.0
"""A setting gives a printed saving if it comes within this many percentage points."""


@dataclass(frozen=True, slots=True)
class Knob:
    """One field of a setting that can be changed.

    Attributes
    ----------
    field : str
        Of :class:`Setting`.
    values : tuple
        Values that are tried first.
    move : callable, optional
        From (value, step) to another value, for tuning; None if there are no values in between.
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
    """Scale the rejected share, so that the acceptance stays between 0 and 1."""
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
"""Everything that is varied. One processor for both stages is excluded: nothing would overlap, so nothing is saved."""


@dataclass(frozen=True, slots=True)
class Found:
    """One setting and its savings in percent, in the order of the goals."""

    setting: Setting
    savings: tuple[float, ...]

    def distance(self, printed: Sequence[float]) -> float:
        """The largest difference from the printed savings, in percentage points."""
        return max(abs(ours - theirs) for ours, theirs in zip(self.savings, printed, strict=True))

    @property
    def words(self) -> str:
        """The changes of the setting in words."""
        return "; ".join(self.setting.changes) or "Table II"


@dataclass(frozen=True, slots=True)
class Ladder:
    """The result of a search.

    Attributes
    ----------
    goals : tuple of Saving
    tried : tuple of Found
        All settings that were tried, in order, Table II first.
    """

    goals: tuple[Saving, ...]
    tried: tuple[Found, ...]

    @property
    def rungs(self) -> tuple[Found, ...]:
        """The nearest setting by number of changes, as long as one more change comes nearer."""
        found: list[Found] = []
        for count in sorted({len(one.setting.changes) for one in self.tried}):
            alike = [one for one in self.tried if len(one.setting.changes) == count]
            nearest = min(alike, key=lambda one: one.distance(self.printed))
            if not found or nearest.distance(self.printed) < found[-1].distance(self.printed):
                found.append(nearest)
        return tuple(found)

    @property
    def printed(self) -> tuple[float, ...]:
        """The printed savings."""
        return tuple(goal.percent for goal in self.goals)

    @property
    def best(self) -> Found:
        """The nearest setting of all."""
        return self.rungs[-1]

    @property
    def within_a_point(self) -> int:
        """Number of settings that give all printed savings."""
        return sum(found.distance(self.printed) <= POINT for found in self.tried)


@cache
def climb(
    goals: tuple[Saving, ...],
    seed: int,
    runs: int,
    *,
    most: int,
    starts: tuple[Setting, ...] = (),
    knobs: tuple[Knob, ...] = KNOBS,
) -> Ladder:
    """Search from Table II towards the printed savings.

    Parameters
    ----------
    goals : tuple of Saving
    seed, runs : int
        Pick the draws of the users; they are the same for every setting.
    most : int
        Number of changes that are tried, besides those of the starts.
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
    """The fields that differ from Table II."""
    return [knob for knob in knobs if getattr(setting, knob.field) != getattr(Setting(), knob.field)]


class _Search:
    """Settings that were tried, and their distance from the printed savings."""

    def __init__(self, goals: tuple[Saving, ...], seed: int, runs: int) -> None:
        self.goals, self.seed, self.runs = goals, seed, runs
        self.tried: dict[Setting, Found] = {}
        self.refused: set[Setting] = set()

    def at(self, setting: Setting) -> Found:
        """The savings at a setting."""
        if setting not in self.tried:
            values, _ = percentages(setting, self.goals, self.seed, self.runs)
            self.tried[setting] = Found(setting, tuple(float(value) for value in values))
        return self.tried[setting]

    def miss(self, found: Found) -> float:
        """The 4-norm of the differences: the largest counts most, but a step that improves another one counts too."""
        differences = [ours - goal.percent for ours, goal in zip(found.savings, self.goals, strict=True)]
        return float(np.linalg.norm(differences, 4))

    def allowed(self, settings: Sequence[Setting]) -> list[Found]:
        """The savings at the settings whose memory holds every task."""
        found = []
        for setting in settings:
            if setting not in self.refused:
                try:
                    found.append(self.at(setting))
                except DomainError:
                    self.refused.add(setting)
        return found

    def nearest(self, settings: Sequence[Setting]) -> list[Found]:
        """The nearest few settings."""
        return sorted(self.allowed(settings), key=self.miss)[:STARTS]

    def of_values(self, knob: Knob, start: Found) -> Found:
        """The start with this field at its best value, or slightly moved."""
        here = getattr(start.setting, knob.field)
        values = [
            *knob.values,
            *([] if knob.move is None else [knob.move(here, step) for step in (-1, -0.25, 0.25, 1)]),
        ]
        settings = [replace(start.setting, **{knob.field: value}) for value in values]
        return min([start, *self.allowed(settings)], key=self.miss)

    def tuned(self, found: Found, changed: Sequence[Knob], steps: Sequence[float] = STEPS) -> Found:
        """Move the changed fields in smaller and smaller steps while the distance falls."""
        for step in steps:
            for _ in range(2):
                before = found
                for knob in changed:
                    found = self._moved(found, knob, step)
                if found is before:
                    break
        return found

    def _moved(self, found: Found, knob: Knob, step: float) -> Found:
        value = getattr(found.setting, knob.field)
        others = knob.values if knob.move is None else [knob.move(value, sign * step) for sign in (-1.0, 1.0)]
        settings = [replace(found.setting, **{knob.field: other}) for other in others]
        return min([found, *self.allowed(settings)], key=self.miss)


@cache
def of_batching(seed: int, runs: int) -> Ladder:
    """Search for Figs. 7b to 8c together. Starts: combinations of memory, models, acceptance and channel."""
    starts = tuple(
        Setting(memory=memory, pair=pair, acceptance=acceptance, gain_db=gain)
        for memory, pair, acceptance, gain in product(MEMORIES, (1, 2), (0.8, 0.9), GAINS_DB)
    )
    return climb(BATCHING_SAVINGS, seed, runs, most=2, starts=starts)


@cache
def of_bandwidth(seed: int, runs: int) -> Ladder:
    """Search for Figs. 9a, 9b and 9c together. Starts: all combinations of answers, channels and payloads."""
    combined = product(ANSWERS, CHOICES["answers"], GAINS_DB, EXPONENTS, CHOICES["payload"])
    starts = tuple(
        Setting(longest_output=longest, answers=answers, gain_db=gain, exponent=exponent, payload=payload)
        for longest, answers, gain, exponent, payload in combined
    )
    return climb(BANDWIDTH_SAVINGS, seed, runs, most=2, starts=starts)


@cache
def of_all(seed: int, runs: int) -> Ladder:
    """Search for all eight together. Starts: the result for Figs. 7 and 8 under every channel."""
    found = [rung.setting for rung in of_batching(seed, runs).rungs]
    starts = tuple(
        replace(one, gain_db=gain, exponent=exponent) for one, gain, exponent in product(found, GAINS_DB, EXPONENTS)
    )
    return climb(ALL_SAVINGS, seed, runs, most=1, starts=starts)


def of_one(goal: Saving, seed: int, runs: int) -> Ladder:
    """Search for one printed saving by a single change."""
    return climb((goal,), seed, runs, most=1)


def refined(ladder: Ladder, seed: int, runs: int) -> Ladder:
    """The nearest single changes of a search, one of each field, tuned further on more runs."""
    search, starts = _Search(ladder.goals, seed, runs), {}
    for found in sorted(ladder.tried, key=lambda one: one.distance(ladder.printed)):
        changed = _changed(found.setting, KNOBS)
        if len(changed) == 1:
            starts.setdefault(changed[0].field, (found.setting, [knob for knob in changed if knob.move is not None]))
    for setting, changed in list(starts.values())[:FINE_STARTS]:
        search.tuned(search.at(setting), changed, FINE_STEPS)
    return Ladder(ladder.goals, tuple(search.tried.values()))


# ---------------------------------------------------------------------------------------------------- the result


@cache
def confirmed(setting: Setting, goals: tuple[Saving, ...], seed: int) -> dict[str, Any]:
    """The savings at a setting on draws of the users that the search did not use."""
    value, single = percentages(setting, goals, seed + 1, CONFIRMING_RUNS)
    first = single[:, :FIRST_DRAWS]
    printed = [goal.percent for goal in goals]
    centred = single - single.mean(axis=1, keepdims=True) + value[:, None]  # differs if measure is "means"
    mean, low, high = (list(column) for column in zip(*map(interval, centred), strict=True))
    ends = np.quantile(centred, [0.05, 0.95], axis=1).T  # the paper does not say how many runs it averages
    differing = [one.name for one in fields(Setting) if getattr(setting, one.name) != one.default]
    return {
        "setting": Found(setting, ()).words,
        "fields": {name: getattr(setting, name) for name in differing},
        "first_draws": plain(first, 5),
        "changes": len(differing),
        "printed": printed,
        "percent": mean,
        "low": low,
        "high": high,
        "largest_difference": plain(max(abs(a - b) for a, b in zip(mean, printed, strict=True)), 3),
        "inside": [bool(a <= b <= c) for a, b, c in zip(low, printed, high, strict=True)],
        "of_single_runs": plain(ends, 4),
        "inside_single_runs": [bool(a <= b <= c) for (a, c), b in zip(ends, printed, strict=True)],
    }


def group_result(ladder: Ladder, runs: int, seed: int) -> dict[str, Any]:
    """The nearest settings to several printed savings at once."""
    return {
        "figures": [goal.figure for goal in ladder.goals],
        "draws_searched": runs,
        "settings_searched": len(ladder.tried),
        "settings_within_a_point": ladder.within_a_point,
        "nearest_by_changes": [confirmed(rung.setting, ladder.goals, seed) for rung in ladder.rungs],
    }


def single_result(goal: Saving, runs: int, seed: int) -> dict[str, Any]:
    """The single change that is nearest to one printed saving."""
    coarse = of_one(goal, seed, runs)
    fine = refined(coarse, seed, REFINING_RUNS)
    nearest = min(fine.tried, key=lambda one: one.distance((goal.percent,)), default=coarse.best)
    return {
        "settings_searched": len({found.setting for one in (coarse, fine) for found in one.tried}),
        "nearest": confirmed(nearest.setting, (goal,), seed),
    }


def result(seed: int) -> dict[str, Any]:
    """All searches, as ``settings.json`` holds them."""
    ladders = {
        "batching": (of_batching(seed, BATCHING_RUNS), BATCHING_RUNS),
        "bandwidth": (of_bandwidth(seed, BANDWIDTH_RUNS), BANDWIDTH_RUNS),
        "all": (of_all(seed, ALL_RUNS), ALL_RUNS),
    }
    runs = dict.fromkeys(BATCHING_SAVINGS, BATCHING_RUNS) | dict.fromkeys(BANDWIDTH_SAVINGS, BANDWIDTH_RUNS)
    return {
        "seed": seed,
        "seed_confirmed": seed + 1,
        "draws_refined": REFINING_RUNS,
        "draws_confirmed": CONFIRMING_RUNS,
        "groups": {name: group_result(ladder, draws, seed) for name, (ladder, draws) in ladders.items()},
        "single_changes": {goal.figure: single_result(goal, draws, seed) for goal, draws in runs.items()},
    }


def main() -> None:
    """Search, and write the result to the file that the figures read."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=STORED)
    given = parser.parse_args()
    begun = time.perf_counter()
    found = result(given.seed)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    about = {
        "command": f"python3 figures/studies/edge_sd_settings/search.py --seed {given.seed}",
        "commit": commit,
        "seconds": round(time.perf_counter() - begun),
    }
    given.out.write_text(json.dumps(about | found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
