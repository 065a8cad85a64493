"""The stored settings of edge-sd's figures give the stored savings, and the search that found them is sound.

The search itself is an experiment outside the package, ``figures/experiments/edge_sd_settings``.
"""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hlmtheory._domains import DomainError
from validation.claims.scenarios.cell import Load, Radio, Reading, serve, uploads
from validation.plots.edge_sd.beside import GROUP_NAMES, SHOWN, STORED, in_three_lines, stored
from validation.plots.edge_sd.printed import ALL_SAVINGS, BANDWIDTH_SAVINGS, BATCHING_SAVINGS, GROUPS, PRINTED, Saving

ROOT = Path(__file__).resolve().parents[3]
EXPERIMENT = ROOT / "figures" / "experiments" / "edge_sd_settings"

sys.path.insert(0, str(EXPERIMENT))  # so that the script can import its neighbours
search = importlib.import_module("search")
sys.path.remove(str(EXPERIMENT))
CHOICES, Setting, percentages = search.CHOICES, search.Setting, search.percentages
KNOBS, Found, Knob, Ladder, climb = search.KNOBS, search.Found, search.Knob, search.Ladder, search.climb
standing_steps = sys.modules["savings"].standing_steps

SMALL = Setting(users=12, longest_input=64, longest_output=40, memory=1.9e9)
GOALS = tuple(Saving("", name, ("users", 12), 10.0) for name in ("sequential", "max", "heuristic", "equal"))
SEQUENTIAL, MAX, HEURISTIC, EQUAL = GOALS


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


def test_a_few_stored_settings_give_all_their_stored_draws() -> None:
    for figure in ("9a", "9b"):
        one = stored()["single_changes"][figure]["nearest"]
        (goal,) = (saving for saving in BANDWIDTH_SAVINGS if saving.figure == figure)
        value, single = percentages(Setting(**one["fields"]), (goal,), stored()["seed_confirmed"], 60)
        np.testing.assert_allclose(value, one["percent"], rtol=1e-4)
        np.testing.assert_allclose(single[:, : search.FIRST_DRAWS], one["first_draws"], rtol=1e-4)


def test_what_is_stored_is_complete() -> None:
    found = stored()
    assert STORED.parent.name == "edge_sd"  # inside the package, so that an installed wheel has it
    assert {"command", "commit", "seed"} <= set(found)
    assert (EXPERIMENT / "search.py").exists()
    assert f"python3 {EXPERIMENT.relative_to(ROOT).as_posix()}/search.py --seed {found['seed']}" == found["command"]
    assert set(found["groups"]) == set(GROUPS)
    assert set(found["single_changes"]) == set(PRINTED)
    for one, goals in settings_stored():
        assert set(SHOWN) <= set(one)
        assert one["printed"] == [goal.percent for goal in goals]
        assert one["setting"] == ("; ".join(Setting(**one["fields"]).changes) or "Table II")
        assert one["changes"] == len(one["fields"])
        assert all(low <= mean <= high for low, mean, high in zip(one["low"], one["percent"], one["high"], strict=True))


def test_the_figures_show_what_is_stored() -> None:
    for figure in PRINTED:
        sidecar = json.loads((ROOT / "figures" / f"edge-sd-fig{figure}.json").read_text(encoding="utf-8"))
        nearest = stored()["single_changes"][figure]["nearest"]
        assert sidecar["statistics"]["closest"] == {name: nearest[name] for name in SHOWN}


# ---------------------------------------------------------------------------------------------- the evaluation


@pytest.mark.parametrize(
    ("changed", "reading"),
    [
        ({}, Reading()),
        ({"sorted_arrival": True}, Reading(sorted_arrival=True)),
        ({"printed_objective": True}, Reading(printed_objective=True)),
        ({"answers": "longest"}, Reading(longest_answers=True)),
        ({"baseline_length": "shared"}, Reading(shared_length=True)),
        ({"pair": 2, "memory": 4e9, "acceptance": 0.6}, Reading()),
    ],
)
def test_over_all_steps_it_is_the_library_s_answer(changed: dict[str, Any], reading: Reading):
    setting = replace(SMALL, **changed)
    value, single = percentages(setting, GOALS, 3, 3, nodes=None)
    load = {"users": 12, "longest_input": 64, "longest_output": 40, "memory": 1.9e9}
    load |= {name: value for name, value in changed.items() if name in BY_THE_LIBRARY}
    expected = np.asarray([by_the_library(load, goal, 3, 3, reading) for goal in GOALS])
    np.testing.assert_allclose(single, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(value, expected.mean(axis=1), rtol=1e-9, atol=1e-9)


def test_a_few_steps_stand_for_all_at_table_ii():
    few, _ = percentages(Setting(), BATCHING_SAVINGS[2:4], 3, 1)
    every, _ = percentages(Setting(), BATCHING_SAVINGS[2:4], 3, 1, nodes=None)
    np.testing.assert_allclose(few, every, atol=0.3)


@pytest.mark.parametrize("nodes", [3, 12, None])
def test_steps_that_stand_for_all_sum_lines_exactly(nodes: int | None):
    steps = np.asarray([1, 2, 5, 40])
    at, weight = standing_steps(steps, nodes)
    np.testing.assert_allclose(weight.sum(axis=1), steps)
    np.testing.assert_allclose((at * weight).sum(axis=1), steps * (steps + 1) / 2)
    if nodes is None:
        assert at[3].tolist() == list(range(1, 41))


def test_measures_are_of_the_same_latencies():
    less, single = percentages(SMALL, GOALS, 3, 4)
    more, _ = percentages(replace(SMALL, measure="more"), GOALS, 3, 4)
    means, _ = percentages(replace(SMALL, measure="means"), GOALS, 3, 4)
    np.testing.assert_allclose(more, (100.0 * single / (100.0 - single)).mean(axis=1))
    assert np.all(means >= single.min(axis=1))
    assert np.all(means <= single.max(axis=1))
    np.testing.assert_allclose(less, single.mean(axis=1))


def test_upload_matters_as_it_must():
    (without,), _ = percentages(replace(SMALL, upload=0.0), (EQUAL,), 3, 2)
    assert without == 0.0
    savings = [percentages(replace(SMALL, upload=factor), (EQUAL,), 3, 2)[0][0] for factor in (0.5, 1.0, 4.0)]
    assert savings == sorted(savings)
    assert len(set(savings)) == 3
    by_payload = {name: percentages(replace(SMALL, payload=name), (EQUAL,), 3, 2)[0][0] for name in CHOICES["payload"]}
    assert by_payload["token ids"] < by_payload["embeddings"] < by_payload["a row a token"]
    assert by_payload["a row a draft"] not in (by_payload["a row a token"], 0.0)
    assert percentages(replace(SMALL, gain_db=-60.0), (EQUAL,), 3, 2)[0][0] > savings[1]


def test_baselines_that_try_more_are_no_slower():
    usual, _ = percentages(SMALL, (MAX, HEURISTIC), 3, 4)
    for rule in CHOICES["heuristic"][1:]:
        other, _ = percentages(replace(SMALL, answers="longest", heuristic=rule), (HEURISTIC,), 3, 4, nodes=None)
        first, _ = percentages(replace(SMALL, answers="longest"), (HEURISTIC,), 3, 4, nodes=None)
        assert rule != "best size" or other[0] <= first[0] + 1e-9
    for rule in CHOICES["max_rule"][1:]:
        assert np.isfinite(percentages(replace(SMALL, max_rule=rule), (MAX,), 3, 4)[0][0])
    shared, _ = percentages(replace(SMALL, baseline_length="shared"), (MAX, HEURISTIC), 3, 4)
    assert np.all(np.isfinite([*usual, *shared]))


def test_fewer_tasks_than_batches_are_one_batch():
    two = Saving("", "heuristic", ("users", 2), 1.0)
    assert np.isfinite(percentages(SMALL, (two,), 3, 2)[0][0])


def test_without_padding_nothing_is_gained_by_sorting_alike_prompts():
    padded, _ = percentages(replace(SMALL, memory=16e9), (HEURISTIC, MAX), 3, 4)
    bare, _ = percentages(replace(SMALL, memory=16e9, padded=False), (HEURISTIC, MAX), 3, 4)
    assert np.all(bare <= padded)
    alike = replace(SMALL, memory=16e9, prompts="longest")  # nothing to pad
    np.testing.assert_allclose(
        percentages(alike, GOALS, 3, 2)[0], percentages(replace(alike, padded=False), GOALS, 3, 2)[0], rtol=1e-6
    )


def test_prompts_of_the_upper_half_gain_less_from_sorting():
    savings = [
        percentages(replace(SMALL, memory=16e9, prompts=prompts), (HEURISTIC,), 3, 4)[0][0]
        for prompts in CHOICES["prompts"]
    ]
    assert savings[2] < savings[0]
    assert savings[1] != savings[0]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("payload", "pigeons"),
        ("answers", "short"),
        ("measure", ""),
        ("draft_rate", 0.0),
        ("draft_start", -1.0),
        ("verify_rate", np.inf),
        ("upload", -0.5),
        ("upload", np.nan),
        ("users", 0),
        ("longest_draft", 0),
    ],
)
def test_nonsense_settings_are_refused(field: str, value: Any):
    with pytest.raises(ValueError, match=field):
        Setting(**{field: value})


def test_other_nonsense_is_refused():
    with pytest.raises(DomainError, match="baseline must be"):
        Saving("", "nobody", ("users", 3), 1.0)
    with pytest.raises(DomainError, match="memory must hold the longest task"):
        percentages(replace(SMALL, memory=1.8e9, longest_output=4096), (MAX,), 1, 1)
    with pytest.raises(DomainError, match="field must be one of Setting"):
        Knob("colour", (1,))
    for name, bad in (("goals", {"goals": ()}), ("knobs", {"knobs": ()}), ("runs", {"runs": 0}), ("most", {"most": 0})):
        given: dict[str, Any] = {"goals": (SEQUENTIAL,), "seed": 1, "runs": 1, "most": 1} | bad
        with pytest.raises(DomainError, match=f"{name} must be 1 or more"):
            climb(**given)


def test_every_value_that_is_tried_has_words_of_its_own():
    assert Setting().changes == ()
    for knob in KNOBS:
        words = [replace(Setting(), **{knob.field: value}).changes for value in knob.values]
        assert len(set(words)) == len(words), knob.field
        assert all(len(one) == 1 for one in words), knob.field
    varied = {knob.field for knob in KNOBS}
    assert varied == {one.name for one in fields(Setting)} - {"users"}  # Fig. 9 and the text fix K
    assert replace(Setting(), users=50, longest_draft=5).changes == ("K = 50", "l_max = 5")


# -------------------------------------------------------------------------------------------------- the search


def planted(setting: Any, *goals: Saving) -> tuple[Saving, ...]:
    """Return goals that are the savings of a setting."""
    values, _ = percentages(setting, goals, 5, 1)
    return tuple(replace(goal, percent=float(value)) for goal, value in zip(goals, values, strict=True))


def knobs(*names: str) -> tuple[Any, ...]:
    return tuple(knob for knob in KNOBS if knob.field in names)


def test_a_planted_change_is_found():
    goals = planted(replace(Setting(), heuristic="doubling"), BATCHING_SAVINGS[2], BATCHING_SAVINGS[4])
    ladder = climb(goals, 5, 1, most=2, knobs=knobs("heuristic", "max_rule", "upload", "measure"))
    assert ladder.best.setting == replace(Setting(), heuristic="doubling")
    assert ladder.best.distance(ladder.printed) == 0.0
    assert ladder.within_a_point >= 1
    assert [len(rung.setting.changes) for rung in ladder.rungs] == [0, 1]


def test_two_planted_changes_are_found_and_tuned():
    goals = planted(replace(Setting(), upload=5.3, memory=33e9), BANDWIDTH_SAVINGS[1], BATCHING_SAVINGS[2])
    ladder = climb(goals, 5, 1, most=2, knobs=knobs("upload", "memory", "sorted_arrival"))
    best = ladder.best.setting
    assert ladder.best.distance(ladder.printed) < 0.5
    assert best.upload == pytest.approx(5.3, rel=0.05)
    assert best.memory == pytest.approx(33e9, rel=0.1)
    assert not best.sorted_arrival
    assert [len(rung.setting.changes) for rung in ladder.rungs] == [0, 1, 2]
    distances = [rung.distance(ladder.printed) for rung in ladder.rungs]
    assert distances == sorted(distances, reverse=True)


def test_a_planted_change_that_may_not_be_made_is_not_found():
    goals = planted(replace(Setting(), sorted_arrival=True), BATCHING_SAVINGS[4])
    ladder = climb(goals, 5, 1, most=3, knobs=knobs("max_rule"))
    assert ladder.rungs[0] == ladder.best  # nothing that was tried helps, so nothing is kept
    assert ladder.best.distance(ladder.printed) > 5.0
    assert ladder.within_a_point == 0


def test_a_start_is_gone_on_from_if_it_is_nearer():
    there = replace(Setting(), gain_db=-50.0, exponent=3.0)
    goals = planted(there, *BANDWIDTH_SAVINGS[:2])
    far, near = replace(there, gain_db=-30.0, exponent=4.0), replace(there, gain_db=-47.0)
    ladder = climb(goals, 5, 1, most=1, starts=(far, near), knobs=knobs("gain_db", "exponent", "max_rule"))
    assert ladder.rungs[0].setting == Setting()
    assert ladder.best.distance(ladder.printed) < 0.5
    assert ladder.best.setting.exponent == 3.0
    assert {far, near} <= {found.setting for found in ladder.tried}
    worse = climb(planted(Setting(), BANDWIDTH_SAVINGS[0]), 5, 1, most=1, starts=(far,), knobs=knobs("max_rule"))
    assert worse.best.setting == Setting()


def test_settings_that_no_memory_holds_are_left_out():
    cramped = Knob("memory", (1.0e9, 32e9))
    ladder = climb((BATCHING_SAVINGS[2],), 5, 1, most=1, knobs=(cramped, Knob("memory", (1.0e9,))))
    assert {found.setting.memory for found in ladder.tried} == {16e9, 32e9}


def test_counts_and_shares_are_tuned_within_their_range():
    goals = planted(replace(Setting(), longest_output=70, acceptance=0.85), BANDWIDTH_SAVINGS[1])
    ladder = climb(goals, 5, 1, most=1, knobs=knobs("longest_output", "acceptance"))
    assert ladder.best.distance(ladder.printed) < 1.0
    tried = [found.setting for found in ladder.tried]
    assert all(isinstance(one.longest_output, int) and one.longest_output >= 1 for one in tried)
    assert all(0.0 < one.acceptance < 1.0 for one in tried)
    assert len({one.longest_output for one in tried}) > 8
    assert any(abs(one.acceptance - 0.84) < 1e-9 for one in tried)  # a fifth fewer rejected


def test_rungs_are_the_nearest_by_number_of_changes():
    goals = (replace(MAX, percent=20.0),)
    one, other = replace(Setting(), upload=2.0), replace(Setting(), upload=3.0)
    two, three = replace(one, padded=False), replace(one, padded=False, memory=8e9)
    values = {Setting(): 10.0, one: 17.0, other: 24.5, two: 16.0, three: 20.5}
    ladder = Ladder(goals, tuple(Found(setting, (value,)) for setting, value in values.items()))
    assert [rung.setting for rung in ladder.rungs] == [Setting(), one, three]  # two changes are not nearer
    assert ladder.best.savings == (20.5,)
    assert ladder.within_a_point == 1


def test_a_found_setting_says_how_far_it_is():
    found = Found(Setting(), (10.0, 22.0))
    assert found.distance((12.0, 21.5)) == 2.0
    assert found.words == "Table II"
    assert Found(replace(Setting(), upload=0.0), (1.0,)).words == "upload not counted"


def test_the_searches_are_those_of_the_printed_percentages(monkeypatch: pytest.MonkeyPatch):
    asked: list[dict[str, Any]] = []

    def note(goals: Any, seed: int, runs: int, **options: Any) -> Any:
        asked.append({"goals": goals, **options})
        return Ladder(goals, (Found(Setting(), (0.0,) * len(goals)),))

    monkeypatch.setattr(search, "climb", note)
    for find in (search.of_batching, search.of_bandwidth, search.of_all):
        find.__wrapped__(99, 1)
    search.of_one(BATCHING_SAVINGS[0], 99, 1)
    search.of_batching.cache_clear()
    search.of_bandwidth.cache_clear()
    lengths = [len(one["goals"]) for one in asked if one["goals"]]
    assert sorted(set(lengths)) == [1, 3, 5, 8]
    starts = next(one["starts"] for one in asked if len(one["goals"]) == 3)
    assert len(starts) == len(set(starts)) == 672
    assert [goal.percent for goal in ALL_SAVINGS] == [
        44.9,
        29.3,
        25.2,
        31.6,
        30.7,
        21.4,
        19.6,
        20.5,
    ]


def test_the_nearest_single_change_is_tuned_on_more_runs():
    """The goal is the saving at a gain between the tried ones; the refinement finds this gain."""
    goal = BATCHING_SAVINGS[0]
    values, _ = percentages(Setting(gain_db=-52.6), (goal,), 1, 4)
    planted = replace(goal, percent=float(values[0]))
    coarse = Ladder((planted,), tuple(Found(Setting(gain_db=gain), (gain,)) for gain in (-30.0, -50.0, -60.0)))
    fine = search.refined(coarse, 1, 4)
    assert fine.best.distance((planted.percent,)) < 0.1
    assert {one.setting.changes[0].split(" =")[0] for one in fine.tried if one.setting.changes} == {"g₀"}
    assert not search.refined(Ladder((planted,), coarse.tried[:1]), 1, 4).tried  # nothing was changed
    words = Ladder((planted,), (Found(Setting(padded=False), (1.0,)),))
    assert [one.setting for one in search.refined(words, 1, 4).tried] == [Setting(padded=False)]  # no smaller change


def test_the_three_lines_of_the_page_are_those_of_the_stored_settings() -> None:
    text = (Path(__file__).parents[3] / "figures/experiments/edge_sd_settings/README.md").read_text(encoding="utf-8")
    lines = in_three_lines()
    assert len(lines) == 3
    assert all(f"- {line}\n" in text for line in lines)
    settings = [stored()["groups"][name]["nearest_by_changes"][-1] for name in GROUP_NAMES]
    for line, setting in zip(lines, settings, strict=True):
        assert line.count("→") == len(setting["fields"])  # nothing that changes is left out
