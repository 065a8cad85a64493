"""The figures of edge-sd: their numbers mean what they say, for few users and few runs."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hlmtheory.batching import plan
from hlmtheory.serving import Task
from validation.claims.scenarios import cell
from validation.claims.scenarios.cell import Load, Radio, draw_users, serve, uploads
from validation.plots.edge_sd.numbers import IN_FIG_7, IN_FIG_8, simulate_bandwidth
from validation.plots.edge_sd.numbers import simulate_sweep as sweep

SMALL = Load(users=6, longest_input=64, longest_output=24)
FEW = {"runs": 3, "base": SMALL}


def numbers_of(number: str) -> dict[str, Any]:
    if number[0] == "9":
        return simulate_bandwidth("abc".index(number[1]), 1, shared_by=(3, 6), **FEW)
    shown = IN_FIG_7 if number[0] == "7" else IN_FIG_8
    return sweep(number[1], shown, 1, values={"a": (3, 5), "b": (32, 64), "c": (12, 24)}[number[1]], **FEW)


def by_scheme(numbers: dict[str, Any]) -> dict[str, np.ndarray]:
    return {one["scheme"]: np.asarray(one["mean"]) for one in numbers["series"] if one["scheme"] != "printed"}


def test_each_scheme_is_the_library_s_method():
    found = serve(1, 0, SMALL, cell.SCHEMES)
    tasks = [Task(int(prompt), SMALL.longest_output) for prompt in draw_users(1, 0, SMALL).inputs]
    for scheme in ("sequential", "none", "fixed-length", "autoregressive", "static", "max", "heuristic"):
        assert found[scheme].planned == pytest.approx(plan(tasks, SMALL.service, scheme).latency, rel=1e-12), scheme
    assert found["proposed"].planned == pytest.approx(plan(tasks, SMALL.service, "dp").latency, rel=1e-12)
    assert found["proposed"].gap == pytest.approx(plan(tasks, SMALL.service, "dp").gap, rel=1e-9)


def test_algorithm_1_mended_loses_little_in_the_paper_s_setting():
    for run in (2, 3):
        load = Load()
        tasks = [Task(int(prompt), load.longest_output) for prompt in draw_users(7, run, load).inputs]
        found = plan(tasks, load.service, "dp", memory_rule="each")
        best = plan(
            tasks, load.service, "pareto", memory_rule="each", draft_lengths=[found.draft_length], max_labels=1000
        )
        assert best.complete
        assert 1.0 < found.latency / best.latency < 1.003


def test_answers_that_come_are_no_slower_than_those_planned():
    for run in range(5):
        for scheme, served in serve(1, run, SMALL).items():
            if scheme != "known":
                assert served.seconds <= served.planned * (1 + 1e-12), scheme


def test_ours_are_no_slower_than_algorithm_1_and_overlap_gains():
    for run in range(5):
        served = serve(1, run, SMALL)
        assert served["johnson"].seconds <= served["proposed"].seconds * (1 + 1e-12)
        assert served["known"].seconds <= served["johnson"].seconds * (1 + 1e-12)
        assert served["proposed"].planned <= served["sequential"].planned * (1 + 1e-12)
        assert served["proposed"].gap >= 0


def test_figs_7_and_8_show_the_mean_totals_of_the_same_runs():
    seven, eight = by_scheme(numbers_of("7c")), by_scheme(numbers_of("8c"))
    assert seven["proposed"].tolist() == eight["proposed"].tolist()
    load = replace(SMALL, longest_output=12)
    served = [serve(1, run, load, cell.SCHEMES, "together") for run in range(3)]
    totals = [uploads(1, run, load, Radio())[0] + one["max"].seconds for run, one in enumerate(served)]
    assert eight["max"][0] == pytest.approx(np.mean(totals), rel=1e-4)


def test_fig_9_best_shares_are_never_slower_and_more_bandwidth_helps():
    numbers = numbers_of("9b")
    for users in (3, 6):
        lines = [one for one in numbers["series"] if one.get("users") == users]
        equal, best, waves, free = (np.asarray(one["mean"]) for one in lines)
        assert np.all(best <= equal)
        assert best.tolist() == waves.tolist()  # all caches fit at once
        assert np.all(free <= waves)
        assert np.all(np.diff(equal) < 0)
    assert numbers["tables"][0]["rows"][0][4].startswith(f"{numbers['statistics']['ours_percent']['mean']:.1f} [")
