"""The stored settings of edge-sd's figures give the stored savings by the planner of the library.

The search for them is the study ``figures/studies/edge_sd_settings``.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from validation.claims.scenarios.cell import Load, Radio, Reading, serve, uploads
from validation.plots.edge_sd.beside import SHOWN, stored
from validation.plots.edge_sd.printed import ALL_SAVINGS, GROUPS, PRINTED, Saving

ROOT = Path(__file__).resolve().parents[3]


RADIO = {"gain_db": "reference_gain_db", "exponent": "exponent"}


def by_the_library(changed: dict[str, Any], goal: Saving, seed: int, runs: int, reading: Reading) -> list[float]:
    """Return the saving in each run by hlmtheory's planner, with these fields of Table II changed."""
    changed = changed | dict([goal.changed])
    load = Load(**{name: value for name, value in changed.items() if name not in RADIO})
    radio = Radio(**{RADIO[name]: value for name, value in changed.items() if name in RADIO})
    savings = []
    for run in range(runs):
        schemes = ("proposed",) if goal.baseline == "equal" else ("proposed", goal.baseline)
        served = serve(seed, run, load, schemes, reading)
        band = replace(radio, bandwidth_hz=25e6 if goal.baseline == "equal" else 20e6)
        best, equal = uploads(seed, run, load, band)
        ours = served["proposed"].seconds + best
        other = served["proposed"].seconds + equal if goal.baseline == "equal" else served[goal.baseline].seconds + best
        savings.append(100.0 * (1.0 - ours / other))
    return savings


# ------------------------------------------------------------------------------------------- the stored settings


def settings_stored() -> list[tuple[dict[str, Any], tuple[Saving, ...]]]:
    """Return every stored setting with the printed savings that its search aimed at."""
    by_figure = {saving.figure: (saving,) for saving in ALL_SAVINGS}
    singles = [(one["nearest"], by_figure[figure]) for figure, one in stored()["single_changes"].items()]
    groups = [(one, GROUPS[name]) for name, group in stored()["groups"].items() for one in group["nearest_by_changes"]]
    return [*singles, *groups]


BY_THE_LIBRARY = {"memory", "acceptance", "pair", "longest_input", "longest_output", *RADIO}
"""Fields that :class:`Load` and :class:`Radio` can change."""


def test_stored_settings_give_the_stored_savings_by_the_planner_of_the_library() -> None:
    checked = [(one, goals) for one, goals in settings_stored() if set(one["fields"]) <= BY_THE_LIBRARY]
    few = [(one, goals) for one, goals in checked if len(goals) == 5 or one["changes"] == 1][:6]
    assert len(few) == 6
    for one, goals in few:
        goal, there = goals[0], one["first_draws"][0][:1]
        found = by_the_library(one["fields"], goal, stored()["seed_confirmed"], 1, Reading())
        np.testing.assert_allclose(found, there, atol=0.3, err_msg=one["setting"])  # plans by a few steps only


def test_the_figures_show_what_is_stored() -> None:
    for figure in PRINTED:
        sidecar = json.loads((ROOT / "figures" / f"edge-sd-fig{figure}.json").read_text(encoding="utf-8"))
        nearest = stored()["single_changes"][figure]["nearest"]
        assert sidecar["statistics"]["closest"] == {name: nearest[name] for name in SHOWN}
