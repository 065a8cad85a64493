"""Comparison of the savings that edge-sd (zhu2025edgesd) Section IV prints with ours.

It also shows settings that come close to the printed savings. They are the stored result of an experiment,
``figures/studies/edge_sd_settings``; this module does not search.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from validation.plots.common.record import Table, plain
from validation.plots.common.stored import read
from validation.plots.edge_sd.printed import ALL_SAVINGS, GROUPS, Saving

Row = np.ndarray[Any, Any]

STORED = Path(__file__).with_name("settings.json")
"""Written by ``figures/studies/edge_sd_settings/search.py``."""

FIGURES = tuple(saving.figure for saving in ALL_SAVINGS)
HEADS = ("saving of the total latency", "printed", "ours, Table II", "nearest with one change", "there", "note")

SHOWN = (
    "setting",
    "changes",
    "printed",
    "percent",
    "low",
    "high",
    "largest_difference",
    "inside",
    "of_single_runs",
    "inside_single_runs",
)
"""Fields of a stored setting that a sidecar repeats."""


def stored() -> dict[str, Any]:
    """Return the stored result of the search for settings."""
    return read(STORED)


def interval(values: Row) -> tuple[float, float, float]:
    """Return the mean over the last axis and its 95% interval by Student's t.

    >>> interval(np.array([1.0, 3.0]))
    (2.0, -10.706, 14.706)
    """
    from scipy.special import stdtrit

    count = values.shape[-1]
    mean = float(values.mean())
    half = float(stdtrit(count - 1, 0.975) * values.std(ddof=1) / np.sqrt(count)) if count > 1 else 0.0
    return plain(mean, 5), plain(mean - half, 5), plain(mean + half, 5)


def spread(savings: Row) -> dict[str, Any]:
    """Return mean, interval and range over the runs, in percent."""
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
    """Format mean and interval of savings."""
    return f"{found['mean']:.1f}% [{found['low']:.1f}, {found['high']:.1f}]"


def listed(values: Sequence[float]) -> str:
    """Format percentages as a list.

    >>> listed([44.9, 29.3])
    '44.9, 29.3'
    """
    return ", ".join(f"{value:.1f}" for value in values)


# ------------------------------------------------------------------------------------------ numbers and tables


def beside(group: str, saving: Saving, ours: Row) -> dict[str, Any]:
    """Return a printed saving, our saving, and three nearest settings.

    The three settings are: the single change that comes nearest to this saving, the setting nearest to the savings of
    its group, and the setting nearest to all eight savings.

    Parameters
    ----------
    group : str
        "batching" or "bandwidth".
    saving : Saving
        A printed saving of that group.
    ours : array, shape (runs,)
        Our saving in each run with the constants of Table II, in percent.

    Returns
    -------
    dict
        Statistics of the figure, under the keys of its sidecar.
    """
    found = stored()
    together, all_eight = found["groups"][group], found["groups"]["all"]
    single = found["single_changes"][saving.figure]
    return {
        "printed_percent": saving.percent,
        "ours_percent": spread(ours),
        "closest": _shown(single["nearest"]),
        "closest_together": _shown(together["nearest_by_changes"][-1]),
        "closest_to_all_eight": _shown(all_eight["nearest_by_changes"][-1]),
        "rungs": [_shown(one) for one in together["nearest_by_changes"]],
        "single_changes_searched": single["settings_searched"],
        "settings_searched": together["settings_searched"],
        "settings_within_a_point_of_all": together["settings_within_a_point"],
        "settings_searched_for_all_eight": all_eight["settings_searched"],
        "seeds_of_a_setting": together["draws_searched"],
        "seeds_of_the_single_change": found["draws_refined"],
        "seeds_of_those_shown": found["draws_confirmed"],
    }


def _shown(setting: dict[str, Any]) -> dict[str, Any]:
    return {name: setting[name] for name in SHOWN}


def inside_words(found: dict[str, Any]) -> str:
    """Format the number of printed savings inside the intervals of a setting.

    >>> inside_words({"inside": [True, False], "inside_single_runs": [True, True]})
    '1 of 2 inside their intervals, 2 of 2 inside nine of ten single runs'
    """
    held, single = (sum(found[key]) for key in ("inside", "inside_single_runs"))
    count = len(found["inside"])
    return f"{held} of {count} inside their intervals, {single} of {count} inside nine of ten single runs"


def printed_table(statistics: dict[str, Any], what: str) -> dict[str, Any]:
    """Return a table of the printed percentage next to ours."""
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


def settings_table(statistics: dict[str, Any], group: str) -> dict[str, Any]:
    """Return a table: the nearest setting for each number of changes, and the one nearest to all savings."""
    blank = ("",) * (len(FIGURES) - len(GROUPS[group]))
    rows = [("printed", *(f"{saving.percent}" for saving in ALL_SAVINGS), "")]
    for rung in statistics["rungs"]:
        values = tuple(percent(one)[:-1].replace("%", "") + "]" for one in _each(rung))
        rows.append(
            (rung["setting"], *(values + blank if group == "bandwidth" else blank + values), inside_words(rung))
        )
    both = statistics["closest_to_all_eight"]
    values = tuple(percent(one)[:-1].replace("%", "") + "]" for one in _each(both))
    rows.append((both["setting"], *values, inside_words(both)))
    title = f"Savings in percent at settings found, on {statistics['seeds_of_those_shown']} seeds; the last, for all"
    return Table(title, ("setting", *FIGURES, "printed"), tuple(rows)).plain()


def _each(found: dict[str, Any]) -> list[dict[str, float]]:
    columns = zip(found["percent"], found["low"], found["high"], strict=True)
    return [dict(zip(("mean", "low", "high"), column, strict=True)) for column in columns]


# ---------------------------------------------------------------------------------------------------- the words


def saving_message(statistics: dict[str, Any]) -> str:
    """Give the printed saving, and ours with Table II's constants."""
    ours = statistics["ours_percent"]
    return f"The paper prints a saving of {statistics['printed_percent']}%; Table II's constants give {percent(ours)}."


def beside_words(statistics: dict[str, Any]) -> str:
    """Compare our percentage to the printed one, and give the settings that come nearest."""
    ours, near = statistics["ours_percent"], statistics["closest"]
    joint, both = statistics["closest_together"], statistics["closest_to_all_eight"]
    printed = statistics["printed_percent"]
    verdict = "inside" if ours["low"] <= printed <= ours["high"] else "outside"
    there = _each(near)[0]
    gives = "that gives it" if near["inside"][0] else "that comes nearest, but does not give it,"
    count = statistics["settings_within_a_point_of_all"]
    others = f"on {statistics['seeds_of_those_shown']} other draws"
    return (
        f"The printed saving lies {verdict} the interval of ours. Of {statistics['single_changes_searched']} single "
        f"changes of Table II, the one {gives} is {near['setting']}: {percent(there)}. All of "
        f"{listed(joint['printed'])}% come within a point in {count or 'none'} of {statistics['settings_searched']} "
        f"settings, on the searched draws. The nearest setting is {joint['setting']}. It gives "
        f"{listed(joint['percent'])}% {others}: {inside_words(joint)}. The setting nearest to all eight printed "
        f"savings is {both['setting']}. It misses one by {both['largest_difference']:.1f} points. Settings other "
        "than Table II's are fits to the printed numbers; our "
        "curves use Table II's."
    )
