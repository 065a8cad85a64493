"""The figures of edge-sd: their numbers mean what they say, for few users and few runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from validation.plots.edge_sd.beside import interval
from validation.plots.edge_sd.printed import ALL_SAVINGS, GROUPS

from hlmtheory.batching import plan
from hlmtheory.ofdma import minmax_shares
from hlmtheory.ofdma.shares import kkt_residual, uniform_gain
from hlmtheory.serving import ModelShape, Task, forward_flops, upload_bits
from hlmtheory.serving.costs import run_time
from validation.claims.scenarios import cell
from validation.claims.scenarios.cell import Load, Radio, Reading, draw_users, serve, spectral_efficiency, uploads
from validation.models.forward_times import StageTimes, measure_stage_times, model_shape
from validation.plots import EXHIBITS, draw
from validation.plots.common.style import house_style
from validation.plots.edge_sd import beside as edgesd_beside
from validation.plots.edge_sd import figures as edgesd
from validation.plots.edge_sd import numbers as edgesd_numbers
from validation.plots.edge_sd.numbers import IN_FIG_7, IN_FIG_8, simulate_acceptance, simulate_bandwidth
from validation.plots.edge_sd.numbers import simulate_sweep as sweep
from validation.plots.edge_sd.stages import measure_stages

SMALL = Load(users=6, longest_input=64, longest_output=24)
FEW = {"runs": 3, "base": SMALL}
NUMBERS = [number for paper, number in EXHIBITS if paper == "edge-sd"]


def setting(words: str, printed: list[float]) -> dict[str, Any]:
    """A stored setting that misses seven printed savings by half a point, and 20.5% by five points."""
    percent = [value - (5.0 if value == 20.5 else 0.5) for value in printed]
    low, high = ([value + side for value in percent] for side in (-0.5, 0.5))
    return {
        "setting": words,
        "fields": {},
        "first_draws": [],
        "changes": int(words != "Table II"),
        "printed": printed,
        "percent": percent,
        "low": low,
        "high": high,
        "largest_difference": 5.0 if 20.5 in printed else 0.5,
        "inside": [False] * len(printed),
        "of_single_runs": [[value - 2.0, value + 2.0] for value in percent],
        "inside_single_runs": [value != 20.5 for value in printed],
    }


def found() -> dict[str, Any]:
    """The result of a search that found two settings: Table II's, and one change."""
    groups = {
        name: {
            "draws_searched": 4,
            "settings_searched": 2,
            "settings_within_a_point": 1,
            "nearest_by_changes": [
                setting(words, [saving.percent for saving in savings])
                for words in ("Table II", "16 times the bits per Hz")
            ],
        }
        for name, savings in GROUPS.items()
    }
    single = {
        saving.figure: {"settings_searched": 2, "nearest": setting("16 times the bits per Hz", [saving.percent])}
        for saving in ALL_SAVINGS
    }
    return {"draws_refined": 40, "draws_confirmed": 60, "groups": groups, "single_changes": single}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stored search with two settings, and no models: their run times are replaced by a stub."""
    monkeypatch.setattr("validation.models.pair.load_pair", lambda name, **options: SimpleNamespace(draft=1, target=2))
    monkeypatch.setattr(edgesd_numbers, "LABELS", 4)
    monkeypatch.setattr(edgesd_beside, "stored", found)


def stage_times(model: Any = None, *, c1: float = 2e-12, c2: float = 3e-3, **_: Any) -> StageTimes:
    """Passes whose times lie exactly on the line."""
    shape = ModelShape(2, 16, 32)
    tokens, batch = np.asarray([(t, b) for t in (32, 64) for b in (1, 2, 4)]).T
    flops = forward_flops(shape, tokens)
    seconds = c1 * flops * batch + c2
    return StageTimes(shape, tokens, batch, flops, 5, seconds, seconds)


def numbers_of(number: str) -> dict[str, Any]:
    """Return the numbers of one figure at the small settings."""
    if number == "5":
        return measure_stages(1, measure=stage_times)
    if number == "6":
        return simulate_acceptance(1, runs=3, base=SMALL, values=(0.5, 0.9))
    if number[0] == "9":
        return simulate_bandwidth("abc".index(number[1]), 1, shared_by=(3, 6), **FEW)
    shown = IN_FIG_7 if number[0] == "7" else IN_FIG_8
    values = {"a": (3, 5), "b": (32, 64), "c": (12, 24)}[number[1]]
    return sweep(number[1], shown, 1, values=values, **FEW)


def by_scheme(numbers: dict[str, Any]) -> dict[str, np.ndarray]:
    """Return the mean latencies by scheme."""
    return {one["scheme"]: np.asarray(one["mean"]) for one in numbers["series"] if one.get("panel") == 0}


# ---------------------------------------------------------------------------------------------------- the cell


def test_users_are_drawn_within_their_bounds_and_the_cell():
    users = draw_users(1, 2, Load(users=100))
    assert users.inputs.min() >= 1
    assert users.inputs.max() <= 512
    assert users.outputs.min() >= 1
    assert users.outputs.max() <= 2048
    assert users.distance.min() >= 0
    assert users.distance.max() <= 1
    assert np.mean([draw_users(1, run, Load()).fading.mean() for run in range(30)]) == pytest.approx(1, abs=0.06)
    assert np.mean([(draw_users(1, run, Load()).distance ** 2).mean() for run in range(30)]) == pytest.approx(
        0.5, abs=0.02
    )


def test_another_run_and_another_seed_are_other_users():
    first = draw_users(1, 0, SMALL)
    assert first.inputs.tolist() == draw_users(1, 0, SMALL).inputs.tolist()
    assert first.inputs.tolist() != draw_users(1, 1, SMALL).inputs.tolist()
    assert first.inputs.tolist() != draw_users(2, 0, SMALL).inputs.tolist()


def test_spectral_efficiency_is_that_of_table_ii():
    users = replace(draw_users(1, 0, Load(users=2)), distance=np.asarray([1.0, 0.0]), fading=np.asarray([1.0, 1.0]))
    at_the_edge = 0.2 * 1e-3 / 400**2 / 10**-13.6
    at_1_metre = 0.2 * 1e-3 / 10**-13.6
    np.testing.assert_allclose(spectral_efficiency(users, Radio()), np.log2(1 + np.asarray([at_the_edge, at_1_metre])))


def test_uploads_are_those_of_the_best_and_of_equal_shares():
    best, equal = uploads(1, 0, SMALL, Radio())
    users = draw_users(1, 0, SMALL)
    bits, efficiency = (
        upload_bits(SMALL.service.draft, SMALL.service.verify, users.inputs),
        spectral_efficiency(users, Radio()),
    )
    assert equal / best == pytest.approx(float(uniform_gain(bits, efficiency)))
    assert float(kkt_residual(bits, efficiency, minmax_shares(bits, spectral_efficiency=efficiency))) < 1e-12
    assert uploads(1, 0, SMALL, Radio(bandwidth_hz=40e6))[0] == pytest.approx(best / 2)


@pytest.mark.parametrize("reading", [Reading(), Reading(sorted_arrival=True), Reading(longest_answers=True)])
def test_each_scheme_is_the_library_s_method(reading: Reading):
    found = serve(1, 0, SMALL, cell.SCHEMES, reading)
    users = draw_users(1, 0, SMALL)
    prompts = np.sort(users.inputs) if reading.sorted_arrival else users.inputs
    tasks = [Task(int(prompt), SMALL.longest_output) for prompt in prompts]
    for scheme in ("sequential", "none", "fixed-length", "autoregressive", "static", "max", "heuristic"):
        assert found[scheme].planned == pytest.approx(plan(tasks, SMALL.service, scheme).latency, rel=1e-12), scheme
    assert found["proposed"].planned == pytest.approx(plan(tasks, SMALL.service, "dp").latency, rel=1e-12)
    assert found["proposed"].gap == pytest.approx(plan(tasks, SMALL.service, "dp").gap, rel=1e-9)


def test_answers_that_come_are_no_slower_than_those_planned():
    for run in range(5):
        for scheme, served in serve(1, run, SMALL).items():
            if scheme != "known":
                assert served.seconds <= served.planned * (1 + 1e-12), scheme
    longest = serve(1, 0, SMALL, reading=Reading(longest_answers=True))
    assert all(one.seconds == one.planned for one in longest.values())


def test_ours_are_no_slower_than_algorithm_1_and_overlap_gains():
    for run in range(5):
        served = serve(1, run, SMALL)
        assert served["johnson"].seconds <= served["proposed"].seconds * (1 + 1e-12)
        assert served["known"].seconds <= served["johnson"].seconds * (1 + 1e-12)
        assert served["proposed"].planned <= served["sequential"].planned * (1 + 1e-12)
        assert served["proposed"].gap >= 0


def test_a_shared_draft_length_is_never_better_for_the_baselines():
    baselines = ("static", "max", "heuristic", "none")
    own, shared = (serve(1, 0, SMALL, baselines, Reading(shared_length=flag)) for flag in (False, True))
    assert all(own[name].planned <= shared[name].planned for name in baselines)


# -------------------------------------------------------------------------------------------------- the figures


def test_all_figures_are_there():
    assert NUMBERS == ["5", "6", "7a", "7b", "7c", "8a", "8b", "8c", "9a", "9b", "9c"]
    printed = [one.value for figure in edgesd.FIGURES for one in figure.printed]
    assert printed == [31.6, 30.7, 21.4, 19.6, 20.5, 44.9, 29.3, 25.2]


@pytest.mark.parametrize("number", NUMBERS)
def test_each_figure_is_painted_and_captioned(number: str, tmp_path: Path):
    exhibit = EXHIBITS["edge-sd", number]
    numbers = numbers_of(number)
    again = json.loads(json.dumps(numbers, allow_nan=False))
    assert again == numbers
    with house_style():
        exhibit.paint(numbers).savefig(tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").stat().st_size > 5_000
    caption = exhibit.describe(numbers, "")["findings"]
    for printed in exhibit.printed:
        assert f"{printed.value}%" in caption
        assert f"{numbers['statistics']['ours_percent']['mean']:.1f}%" in caption
        row = numbers["tables"][0]["rows"][0]
        assert row[1] == f"{printed.value}%"
        assert row[4].startswith(f"{numbers['statistics']['closest']['percent'][0]:.1f}%")
    for series in numbers["series"]:
        if number != "5" and series["scheme"] != "printed":
            assert np.all(np.asarray(series["low"]) <= series["mean"])
            assert np.all(np.asarray(series["mean"]) <= series["high"])


def test_a_simulation_is_drawn_with_its_basis(tmp_path: Path):
    exhibit = replace(EXHIBITS["edge-sd", "8c"], simulate=lambda seed: numbers_of("8c"))
    sidecar, picture = draw(exhibit, None, tmp_path, command="hlm figure edge-sd 8c", seed=1, commit="c0ffee")
    found = json.loads(sidecar.read_text(encoding="utf-8"))
    assert picture.exists()
    assert found["kind"] == "simulated"
    assert "3 seeds, constants of Tables I and II" in found["method"]
    assert found["printed"][0]["value"] == 20.5


@pytest.mark.parametrize("number", ["6", "8a", "9a"])
def test_the_same_seed_gives_the_same_numbers(number: str):
    first = numbers_of(number)
    for cached in (cell.serve, cell.uploads):
        cached.cache_clear()
    assert numbers_of(number) == first


def test_figs_7_and_8_show_the_mean_totals_of_the_same_runs():
    seven, eight = by_scheme(numbers_of("7c")), by_scheme(numbers_of("8c"))
    assert seven["proposed"].tolist() == eight["proposed"].tolist()
    load = replace(SMALL, longest_output=12)
    served = [serve(1, run, load, cell.SCHEMES, None, "together") for run in range(3)]
    totals = [uploads(1, run, load, Radio())[0] + one["max"].seconds for run, one in enumerate(served)]
    assert eight["max"][0] == pytest.approx(np.mean(totals), rel=1e-4)


def test_certified_gaps_are_stored():
    numbers = numbers_of("7b")
    assert numbers["axes"][1]["y"]["label"] == "certified gap of the plan"
    gaps = {one["scheme"]: np.asarray(one["mean"]) for one in numbers["series"] if one["panel"] == 1}
    assert set(gaps) == {"proposed", "free"}
    assert all(np.all(gap >= 0) for gap in gaps.values())
    load = replace(SMALL, longest_input=32)
    own = [100.0 * serve(1, run, load, cell.SCHEMES, None, "together")["proposed"].gap for run in range(3)]
    assert gaps["proposed"][0] == pytest.approx(np.mean(own), rel=1e-3)
    statistics = numbers["statistics"]
    assert statistics["certified_gap_percent"] == gaps["proposed"].tolist()
    assert f"{min(gaps['free']):.1f} to" in EXHIBITS["edge-sd", "7b"].caption(numbers)
    assert numbers_of("9a")["statistics"]["certified_gap_percent"] >= 0


def test_hollow_marks_show_where_the_published_plan_breaks_the_memory():
    numbers = numbers_of("8a")
    for limit, names in ((16.0, ["Algorithm 1, (24b)"]), (0.0, ["Algorithm 1, (24b), breaks the memory"])):
        numbers["statistics"]["memory_limit_gb"] = limit
        with house_style():
            left, right = EXHIBITS["edge-sd", "8a"].paint(numbers).axes
        written = [text.get_text().replace("\n", " ") for text in left.texts]
        assert [name for name in written if "(24b)" in name] == names
        assert "printed" in written
        faces = {
            line.get_markerfacecolor()
            for line in left.get_lines()
            if len(line.get_xdata()) and line.get_marker() == "o"
        }
        assert ("white" in faces) is (limit == 0.0)
        assert left.get_ylim() == right.get_ylim()
        assert len(right.texts) == len(IN_FIG_8) - 2  # the baselines, and Algorithm 1


def test_the_papers_plan_is_drawn_beside_the_one_in_waves_and_the_free_one():
    numbers = numbers_of("7a")
    means = by_scheme(numbers)
    assert (means["free"] <= means["proposed"] * (1 + 1e-9)).all()
    assert (means["paper"] <= means["proposed"] * (1 + 1e-9)).all()
    few = {"runs": 2, "base": replace(SMALL, memory=2.0e9, users=12, longest_input=512, longest_output=256)}
    tight = sweep("a", IN_FIG_8, 1, values=(12,), **few)
    memory = {one["scheme"]: one["mean"][0] for one in tight["series"] if one["panel"] == 1}
    assert memory["paper"] > 2.0 >= max(memory["proposed"], memory["free"])


def test_the_planners_are_ranked_on_one_problem():
    planners = next(table for table in numbers_of("8a")["tables"] if table["title"].startswith("Planners"))
    seconds = {row[0]: float(row[1].split()[0]) for row in planners["rows"]}
    repaired, printed = seconds["Algorithm 1, repaired"], seconds["Algorithm 1 with (29) as printed, else repaired"]
    assert repaired <= printed
    assert seconds["Pareto sets of at most 4 states"] <= repaired
    assert seconds["the same, Johnson's order at each step"] <= seconds["Pareto sets of at most 4 states"]


def test_fig_6_compares_with_no_drafts_at_every_acceptance():
    numbers = numbers_of("6")
    without = [series for series in numbers["series"] if series["scheme"] == "autoregressive"]
    assert all(len(set(series["mean"])) == 1 for series in without)
    assert numbers["statistics"]["settings"] == 6
    assert 0 <= numbers["statistics"]["settings_with_drafts_faster"] <= 6
    assert max(map(max, numbers["statistics"]["memory_gb"])) < numbers["statistics"]["memory_limit_gb"] == 16.0
    for pair in range(3):
        paper, waves, free, never = (np.asarray(one["mean"]) for one in numbers["series"][4 * pair : 4 * pair + 4])
        assert paper.tolist() == waves.tolist()  # all caches fit at once
        assert np.all(free <= waves)
        assert waves[1] <= waves[0]  # the larger acceptance
        assert len(never) == 2


def test_fig_9_best_shares_are_never_slower_and_more_bandwidth_helps():
    numbers = numbers_of("9b")
    for users in (3, 6):
        lines = [one for one in numbers["series"] if one.get("users") == users]
        equal, best, waves, free = (np.asarray(one["mean"]) for one in lines)
        assert np.all(best <= equal)
        assert best.tolist() == waves.tolist()  # all caches fit at once
        assert np.all(free <= waves)
        assert np.all(np.diff(equal) < 0)
    at_25 = numbers["tables"][1]["heads"].index("25")
    shown = f"{numbers['statistics']['ours_percent']['mean']:.1f}%"
    assert numbers["tables"][1]["rows"][0][at_25].startswith(shown)
    assert numbers["statistics"]["ours_percent"]["mean"] < numbers["statistics"]["upload_alone_percent"]["mean"]


def test_the_caption_says_whether_the_printed_one_is_in_our_interval():
    numbers = numbers_of("8c")
    ours = numbers["statistics"]["ours_percent"]
    caption = EXHIBITS["edge-sd", "8c"].caption
    for printed, verdict in ((ours["mean"], "inside the interval"), (ours["high"] + 1, "outside the interval")):
        numbers["statistics"]["printed_percent"] = printed
        assert verdict in caption(numbers)


def test_settings_found_are_measured_on_other_draws_and_said():
    statistics, tables = (numbers_of("9a")[key] for key in ("statistics", "tables"))
    assert statistics["settings_searched"] == statistics["settings_searched_for_all_eight"] == 2
    assert statistics["single_changes_searched"] == 2
    assert statistics["settings_within_a_point_of_all"] == 1
    assert statistics["closest"]["setting"] == "16 times the bits per Hz"
    assert statistics["closest"]["percent"] == [44.4]
    joint = statistics["closest_together"]
    assert joint["printed"] == [44.9, 29.3, 25.2]
    assert joint["largest_difference"] == pytest.approx(0.5)
    assert joint["inside"] == [False] * 3
    assert joint["inside_single_runs"] == [True] * 3
    assert statistics["closest_to_all_eight"]["inside_single_runs"] == [True] * 7 + [False]
    heads, rows = (tables[-1][key] for key in ("heads", "rows"))
    assert heads == ["setting", "9a", "9b", "9c", "7b", "7c", "8a", "8b", "8c", "printed"]
    assert rows[0] == ["printed", "44.9", "29.3", "25.2", "31.6", "30.7", "21.4", "19.6", "20.5", ""]
    assert [row[0] for row in rows[1:]] == ["Table II", "16 times the bits per Hz", "16 times the bits per Hz"]
    assert rows[1][4:9] == [""] * 5  # another kind, not searched together
    assert rows[1][1] == "44.4 [43.9, 44.9]"
    assert numbers_of("8b")["statistics"]["best_rival"] in {"static, 4 tasks", "max batching", "heuristic batching"}


def test_the_caption_says_whether_a_setting_explains_the_printed_one():
    caption = EXHIBITS["edge-sd", "9a"].caption(numbers_of("9a"))
    assert "the one that comes nearest, but does not give it, is 16 times the bits per Hz: 44.4%" in caption
    assert "come within a point in 1 of 2 settings" in caption
    assert "0 of 3 inside their intervals, 3 of 3 inside nine of ten single runs" in caption
    assert "our curves use Table II" in caption
    numbers = numbers_of("9a")
    numbers["statistics"]["closest"]["inside"] = [True]
    numbers["statistics"]["settings_within_a_point_of_all"] = 0
    caption = EXHIBITS["edge-sd", "9a"].caption(numbers)
    assert "the one that gives it" in caption
    assert "within a point in none of 2 settings" in caption


def test_an_interval_of_one_run_has_no_width():
    assert interval(np.asarray([2.0])) == (2.0, 2.0, 2.0)


# ------------------------------------------------------------------------------------------------------- Fig. 5


def test_passes_are_timed_and_fitted(pair: Any):
    target = pair.target
    times = measure_stage_times(target, (1, 2), (8, 16), repeats=5)
    assert times.rounds == 5
    assert measure_stage_times(target, (1, 2), (8, 16), repeats=5, patience_s=0.0).rounds == 3
    assert times.batch_size.tolist() == [1, 2, 1, 2]
    assert times.input_tokens.tolist() == [8, 8, 16, 16]
    assert np.all(times.least > 0)
    assert np.all(times.median >= times.least)
    assert times.model == model_shape(target)
    np.testing.assert_allclose(times.flops, forward_flops(times.model, times.input_tokens))
    assert np.isfinite([times.fit.c1, times.fit.c2]).all()


def test_fig_5_finds_the_line_that_passes_lie_on():
    numbers = measure_stages(1, measure=stage_times)
    assert {"date", "machine"} <= set(numbers)
    for series in numbers["series"]:
        assert series["c1"] == pytest.approx(2e-12, rel=1e-4)
        assert series["c2"] == pytest.approx(3e-3, rel=1e-4)
        assert series["r_squared"] == pytest.approx(1)
        assert set(series["median_over_least"]) == {1.0}
        np.testing.assert_allclose(series["fitted"], series["mean"], rtol=1e-3)
    times = stage_times()
    seconds = [float(run_time(times.fit.device, f, b)) for f, b in zip(times.flops, times.batch_size, strict=True)]
    np.testing.assert_allclose(seconds, times.least, rtol=1e-6)


def test_a_gpu_is_measured_too_and_waited_for(monkeypatch: pytest.MonkeyPatch):
    import torch

    from validation.models import forward_times

    waited: list[Any] = []
    monkeypatch.setattr(torch.accelerator, "synchronize", waited.append)
    prompt = SimpleNamespace(device=SimpleNamespace(type="cuda"))
    assert forward_times._timed(lambda prompt, **options: None, prompt) >= 0
    assert len(waited) == 2
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr("validation.models.machine.machine", lambda: {"load": 1.5})
    numbers = measure_stages(1, measure=stage_times)
    assert [series["place"] for series in numbers["series"]] == ["cpu", "cpu", "cuda", "cuda"]
    assert "CPU and CUDA" in numbers["basis"]
    assert "the least of 5 rounds" in numbers["basis"]
    assert "load average 1.5 at the start" in numbers["basis"]
    assert numbers["machine"]["load"] == 1.5
    assert EXHIBITS["edge-sd", "5"].caption(numbers).count("at most 1.00 times the least") == 1
