"""The percentages that edge-sd (zhu2025edgesd) prints in Section IV, beside ours and beside settings that give them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from validation.claims.scenarios.cellscan import (
    Ladder,
    ScannedSetting,
    of_all,
    of_bandwidth,
    of_batching,
    of_one,
    refined,
)
from validation.claims.scenarios.cellsearch import BANDWIDTH_GOALS, BATCHING_GOALS, Goal, percentages
from validation.plots.common.record import Printed, Table, plain

Row = np.ndarray[Any, Any]

BATCHING_RUNS, BANDWIDTH_RUNS, ALL_RUNS = 4, 8, 3
"""Draws of the users on which settings are searched."""

REFINING_RUNS = 40
"""Draws, those searched on among them, on which the nearest single changes are tuned."""

CONFIRMING_RUNS = 60
"""Other draws, on which what was found is measured; nothing is decided by them."""

PAIR_NAMES = ("68M, 7B", "1.1B, 7B", "1.1B, 13B")
FIGURES = ("9a", "9b", "9c", "7b", "7c", "8a", "8b", "8c")
HEADS = ("saving of the total latency", "printed", "ours, Table II", "nearest with one change", "there", "note")

BANDWIDTH_PRINTED = tuple(
    Printed(
        f"saving of the total latency against equal shares, {name}, K = 100, 25 MHz, in percent", goal.printed, place
    )
    for name, goal, place in zip(
        PAIR_NAMES, BANDWIDTH_GOALS, ("Section IV-C, abstract", *["Section IV-C"] * 2), strict=True
    )
)
_BASELINES = (
    ("SD without pipeline at I_max = 512", "Section IV-A, Fig. 7(b)"),
    ("SD without pipeline at O_max = 1792", "Section IV-A, Fig. 7(c)"),
    ("max batching at K = 90", "Section IV-B, Fig. 8(a)"),
    ("heuristic batching at I_max = 1792", "Section IV-B, Fig. 8(b)"),
    ("heuristic batching at O_max = 1024", "Section IV-B, Fig. 8(c)"),
)
BATCHING_PRINTED = tuple(
    Printed(f"saving against {what}, in percent", goal.printed, place)
    for goal, (what, place) in zip(BATCHING_GOALS, _BASELINES, strict=True)
)


def interval(values: Row) -> tuple[float, float, float]:
    """Mean of the last axis and its 95% interval by Student's t.

    >>> interval(np.array([1.0, 3.0]))
    (2.0, -10.706, 14.706)
    """
    from scipy.special import stdtrit

    count = values.shape[-1]
    mean = float(values.mean())
    half = float(stdtrit(count - 1, 0.975) * values.std(ddof=1) / np.sqrt(count)) if count > 1 else 0.0
    return plain(mean, 5), plain(mean - half, 5), plain(mean + half, 5)


def spread(savings: Row) -> dict[str, Any]:
    """Mean, interval and range over the runs, in percent."""
    mean, low, high = interval(savings)
    ends = np.quantile(savings, [0.05, 0.95])
    return {
        "mean": mean,
        "low": low,
        "high": high,
        "of_single_runs": plain(ends, 4),
        "largest": plain(savings.max(), 4),
    }


def percent(found: dict[str, Any]) -> str:
    """Mean and interval of savings."""
    return f"{found['mean']:.1f}% [{found['low']:.1f}, {found['high']:.1f}]"


def listed(values: Sequence[float]) -> str:
    """Percentages in a row.

    >>> listed([44.9, 29.3])
    '44.9, 29.3'
    """
    return ", ".join(f"{value:.1f}" for value in values)


# ------------------------------------------------------------------------------------------ numbers and tables


@cache
def on_other_draws(found: ScannedSetting, goals: tuple[Goal, ...], seed: int) -> dict[str, Any]:
    """A setting on draws of the users that it was not found on."""
    value, single = percentages(found.setting, goals, seed + 1, CONFIRMING_RUNS)
    printed = [goal.printed for goal in goals]
    single = single - single.mean(axis=1, keepdims=True) + value[:, None]  # of mean latencies it is not the same
    there = [interval(row) for row in single]
    mean, low, high = (list(column) for column in zip(*there, strict=True))
    ends = np.quantile(single, [0.05, 0.95], axis=1).T  # the paper says neither how many runs, nor which
    return {
        "setting": found.words,
        "changes": len(found.setting.changes),
        "printed": printed,
        "percent": mean,
        "low": low,
        "high": high,
        "largest_difference": plain(max(abs(a - b) for a, b in zip(mean, printed, strict=True)), 3),
        "inside": [bool(a <= b <= c) for a, b, c in zip(low, printed, high, strict=True)],
        "of_single_runs": plain(ends, 4),
        "inside_single_runs": [bool(a <= b <= c) for (a, c), b in zip(ends, printed, strict=True)],
    }


def search(kind: str, seed: int) -> Ladder:
    """The search for what is printed of "batching", of "bandwidth", or of "all"."""
    find, runs = {
        "batching": (of_batching, BATCHING_RUNS),
        "bandwidth": (of_bandwidth, BANDWIDTH_RUNS),
        "all": (of_all, ALL_RUNS),
    }[kind]
    return find(seed, runs)


def beside(kind: str, index: int, ours: Row, seed: int) -> dict[str, Any]:
    """A printed percentage, ours, and the settings nearest to it, to all of its kind, and to all eight.

    Parameters
    ----------
    kind : str
        "batching" or "bandwidth".
    index : int
        Of the goal in its kind.
    ours : array, shape (runs,)
        With Table II's constants, in percent.
    seed : int

    Returns
    -------
    dict
    """
    ladder, all_eight = search(kind, seed), search("all", seed)
    goal = ladder.goals[index]
    alone = of_one(goal, seed, BATCHING_RUNS if kind == "batching" else BANDWIDTH_RUNS)
    finely = refined(alone, seed, REFINING_RUNS)
    near = min(finely.tried, key=lambda one: one.distance((goal.printed,)), default=alone.best)
    return {
        "printed_percent": goal.printed,
        "ours_percent": spread(ours),
        "closest": on_other_draws(near, (goal,), seed),
        "closest_together": on_other_draws(ladder.best, ladder.goals, seed),
        "closest_to_all_eight": on_other_draws(all_eight.best, all_eight.goals, seed),
        "rungs": [on_other_draws(rung, ladder.goals, seed) for rung in ladder.rungs],
        "single_changes_searched": len({found.setting for one in (alone, finely) for found in one.tried}),
        "settings_searched": len(ladder.tried),
        "settings_within_a_point_of_all": ladder.within_a_point,
        "settings_searched_for_all_eight": len(all_eight.tried),
        "seeds_of_a_setting": BATCHING_RUNS if kind == "batching" else BANDWIDTH_RUNS,
        "seeds_of_the_single_change": REFINING_RUNS,
        "seeds_of_those_shown": CONFIRMING_RUNS,
    }


def inside_words(found: dict[str, Any]) -> str:
    """How many of the printed percentages are what a setting may well give.

    >>> inside_words({"inside": [True, False], "inside_single_runs": [True, True]})
    '1 of 2 inside their intervals, 2 of 2 inside nine of ten single runs'
    """
    held, single = (sum(found[key]) for key in ("inside", "inside_single_runs"))
    count = len(found["inside"])
    return f"{held} of {count} inside their intervals, {single} of {count} inside nine of ten single runs"


def printed_table(statistics: dict[str, Any], what: str) -> dict[str, Any]:
    """The printed percentage beside ours."""
    ours, near = statistics["ours_percent"], statistics["closest"]
    low, high = ours["of_single_runs"]
    there = {"mean": near["percent"][0], "low": near["low"][0], "high": near["high"][0]}
    note = (
        f"{low:.1f} to {high:.1f}% in nine of ten runs, at most {ours['largest']:.1f}%, with Table II. The change "
        f"{'gives' if near['inside'][0] else 'does not give'} the printed one within its interval"
    )
    row = (what, f"{statistics['printed_percent']}%", percent(ours), near["setting"], percent(there), note)
    title = f"The printed percentage and ours; one change measured on {statistics['seeds_of_those_shown']} other seeds"
    return Table(title, HEADS, (row,)).plain()


def settings_table(statistics: dict[str, Any], kind: str) -> dict[str, Any]:
    """The rungs of the search, and what is nearest to all eight."""
    names = FIGURES[:3] if kind == "bandwidth" else FIGURES[3:]
    blank = ("",) * (len(FIGURES) - len(names))
    rows = [("printed", *(f"{goal.printed}" for goal in BANDWIDTH_GOALS + BATCHING_GOALS), "")]
    for rung in statistics["rungs"]:
        values = tuple(percent(one)[:-1].replace("%", "") + "]" for one in _each(rung))
        rows.append((rung["setting"], *(values + blank if kind == "bandwidth" else blank + values), inside_words(rung)))
    both = statistics["closest_to_all_eight"]
    values = tuple(percent(one)[:-1].replace("%", "") + "]" for one in _each(both))
    rows.append((both["setting"], *values, inside_words(both)))
    title = f"Savings in percent at settings found, on {statistics['seeds_of_those_shown']} seeds; the last, for all"
    return Table(title, ("setting", *FIGURES, "printed"), tuple(rows)).plain()


def _each(found: dict[str, Any]) -> list[dict[str, float]]:
    columns = zip(found["percent"], found["low"], found["high"], strict=True)
    return [dict(zip(("mean", "low", "high"), column, strict=True)) for column in columns]


# ---------------------------------------------------------------------------------------------------- the words


def beside_words(statistics: dict[str, Any]) -> str:
    """Our percentage beside the printed one, and the settings that come nearest."""
    ours, near = statistics["ours_percent"], statistics["closest"]
    joint, both = statistics["closest_together"], statistics["closest_to_all_eight"]
    printed = statistics["printed_percent"]
    verdict = "inside" if ours["low"] <= printed <= ours["high"] else "outside"
    there = _each(near)[0]
    gives = "that gives it" if near["inside"][0] else "that comes nearest, but does not give it"
    count = statistics["settings_within_a_point_of_all"]
    others = f"on {statistics['seeds_of_those_shown']} others"
    return (
        f"The paper prints a saving of {printed}%, {verdict} the interval of ours with Table II's constants: "
        f"{percent(ours)}. Of {statistics['single_changes_searched']} single changes, the one {gives}: "
        f"{near['setting']}, {percent(there)}. All of {listed(joint['printed'])}% come out within a point in "
        f"{count or 'none'} of {statistics['settings_searched']} settings, on the seeds searched; the nearest, "
        f"{joint['setting']}, gives {listed(joint['percent'])}% {others} ({inside_words(joint)}). The "
        f"nearest to all eight misses one by {both['largest_difference']:.1f} points ({both['setting']}). These are "
        "fits to what is printed; our curves stay with Table II."
    )
