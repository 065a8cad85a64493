"""The benchmark of plans measures what its record stores, and the stored record agrees with itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hlmtheory.batching import lower_bound, plan
from validation.benchmarks import plans
from validation.benchmarks.planning import SERVICE, tasks_of

STORED = Path(__file__).parents[3] / "figures/studies/edge_sd_plans/plans.json"
FEW = (("together", 3, 0.08), ("each", 4, 0.1))


def test_pareto_says_time_and_gap() -> None:
    found = plans.many_measured(plans.many_tasks(count=4, lengths=(1, 2), max_labels=5))
    assert [one.unit for one in found] == ["s", "%"] * 10
    assert all(one.value >= 0 for one in found)
    gaps = {one.what: one.value for one in found if one.unit == "%"}
    for what in (what for what in gaps if what.startswith("pareto")):
        assert gaps[what.replace("pareto", "improved")] <= gaps[what]


def test_plan_and_bound_stand_beside_the_exact_optimum() -> None:
    found = plans.few_measured(plans.few_tasks(seeds=1, few=FEW))
    assert len(found) == 12
    for one in found:
        assert one.ratio >= 1 - 1e-9 if one.what.startswith("plan") else 0 < one.ratio <= 1
    assert max(one.ratio for one in found) < 1.05


def test_the_record_keeps_times_apart() -> None:
    found = plans.record(plans.many_tasks(count=3, lengths=(1,)), plans.few_tasks(seeds=2, few=FEW[:1]))
    assert len(found["few_tasks"]) == 4
    assert len(found["many_tasks"]) == len(found["processor_seconds"]["seconds"]) == 10
    assert not any("seconds" in name for one in found["many_tasks"] for name in one)
    for one in found["many_tasks"]:
        assert sum(one["batch_sizes"]) == 3
        assert one["gap"] == pytest.approx(one["latency"] / one["lower_bound"] - 1)
        assert one["gap"] <= one["older_gap"] + 1e-12


def test_the_stored_record_has_its_bounds_in_order() -> None:
    found = json.loads(STORED.read_text(encoding="utf-8"))
    assert {one["tasks"] for one in found["few_tasks"]} == {count for _, count, _ in plans.FEW}
    for one in found["few_tasks"]:
        assert one["lower_bound"] <= one["optimum"] * (1 + 1e-9)
        assert one["optimum"] <= one["latency"] * (1 + 1e-9)
    assert len(found["many_tasks"]) == 2 * len(plans.METHODS)
    for one in found["many_tasks"]:
        assert one["older_bound"] <= one["lower_bound"] * (1 + 1e-9) <= one["latency"] * (1 + 2e-9)
        assert one["gap"] == pytest.approx(one["latency"] / one["lower_bound"] - 1)
        assert one["older_gap"] == pytest.approx(one["latency"] / one["older_bound"] - 1)


def test_the_stored_plan_of_algorithm_1_is_found_again() -> None:
    stored = json.loads(STORED.read_text(encoding="utf-8"))["many_tasks"]
    one = next(one for one in stored if (one["method"], one["memory_rule"], one["answers"]) == ("dp", "each", "equal"))
    tasks, length = tasks_of(sum(one["batch_sizes"])), one["draft_length"]
    found = plan(tasks, SERVICE, "dp", memory_rule="each", draft_lengths=[length])
    assert found.latency == pytest.approx(one["latency"], rel=1e-9)
    assert [len(batch) for batch in found.batches] == one["batch_sizes"]
    older = lower_bound(tasks, SERVICE, length, memory_rule="each")
    assert one["older_bound"] <= older * (1 + 1e-9)
