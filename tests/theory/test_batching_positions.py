"""The bound by positions and plans by moves, against every division of small cases."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hlmtheory.batching import lower_bound, methods, plan, plan_latency, positions
from hlmtheory.batching.moves import improved
from hlmtheory.batching.planner import Measured
from hlmtheory.serving import Device, ModelShape, Service, Task, forward_flops, peak_memory

from .test_batching import LARGE, PAPER, partitions, workload
from .test_batching_waves import divisions, in_bytes, latency_of, small_cases

EACH = {"memory_rule": "each"}


def with_one_output(case):
    tasks, service, length = case
    longest = max(task.output_tokens for task in tasks)
    equal = [Task(task.input_tokens, longest) for task in tasks]
    widest = max(task.input_tokens for task in tasks) + longest + length - 2
    return equal, replace(service, memory=max(service.memory, in_bytes(widest))), length


def uncapped(tasks, service, length, rule="together") -> float:
    """Return the bound without the latency of a plan above it, which would hide a bound that is too high."""
    return positions.position_bound(Measured(tasks, service, methods.Options(rule=rule)).costs(length), np.inf)


def fastest(tasks, service, length) -> float:
    """Return the latency of the best division into waves and batches, each step in its best order."""
    case = tasks, service, length
    return min(latency_of(*case, plans, "johnson", "barrier") for plans in divisions(*case))


@given(small_cases(most=4).map(with_one_output))
def test_the_bound_is_below_every_division_and_no_lower_than_the_simple_one(case):
    tasks, service, length = case
    bound = lower_bound(tasks, service, length, close=True)
    assert lower_bound(tasks, service, length) <= bound * (1 + 1e-9)
    assert bound <= fastest(*case)
    assert uncapped(*case) <= fastest(*case)


@given(small_cases(most=4).map(with_one_output), st.integers(0, 2**32 - 1))
def test_any_multipliers_give_a_bound(case, seed):
    """For each division the bound at random multipliers is below all plans with these numbers of batches."""
    tasks, service, length = case
    rng = np.random.default_rng(seed)
    costs = Measured(tasks, service, methods.Options()).costs(length)
    table = positions._Table(costs)
    best: dict[tuple[int, ...], float] = {}
    for plans in divisions(*case):
        key = tuple(sorted(map(len, plans), reverse=True))
        best[key] = min(best.get(key, np.inf), latency_of(*case, plans, "johnson", "barrier"))
    for division in table.divisions(np.inf):
        relaxation = positions._Relaxation(table, division)
        each = [rng.random((2, size)) + 1e-3 for size, _ in relaxation.kinds]
        charges = [rng.uniform(-30.0, 30.0, (len(table.factor), size)) for size, _ in relaxation.kinds]
        sums = [one / one.sum(axis=1, keepdims=True) for one in each]
        prices = [positions.Prices(w, c, 30.0 * rng.random()) for w, c in zip(sums, charges, strict=True)]
        point = np.concatenate([one.flat() for one in prices])
        value, error, slope = relaxation.at(point)
        if slope is not None:
            assert value - error <= best.get(division, np.inf)
            assert value == pytest.approx(slope @ point, rel=1e-9, abs=1e-6)


def memory_for(service: Service, length: int, prompt: int, answer: int, size: float) -> float:
    """Return the memory for the weights and the caches of so many tasks in one batch."""
    cache = methods.Cache(service, length, "together")
    return float(peak_memory(service.draft, 0, 0, 0)) + float(cache.bytes(prompt, answer, size))


def test_the_bound_is_the_latency_where_the_memory_leaves_one_plan():
    tasks = [Task(10, 20), Task(400, 20)]
    service = replace(PAPER, memory=memory_for(PAPER, 2, 400, 20, 1.0))
    alone = plan_latency(tasks, service, [[0], [1]], 2, waves=[1, 1])
    assert lower_bound(tasks, service, 2, close=True) == pytest.approx(alone, rel=1e-9)
    assert uncapped(tasks, service, 2) == pytest.approx(alone, rel=1e-9)
    assert lower_bound(tasks, service, 2) < 0.99 * alone


@pytest.mark.parametrize("rule", ["together", "each"])
def test_forty_tasks_are_planned_within_two_percent(rule):
    """With 2.5 times the work a task and memory for 13 tasks, the case is like that of 100 tasks in the benchmark."""
    edge, cloud = (
        Device(2.5 * device.c1, device.c2) for device in (Device(4.11e-13, 5.6e-4), Device(2.08e-14, 1.28e-2))
    )
    service = Service(ModelShape(22, 2048, 5632), LARGE, edge, cloud, acceptance=0.8, memory=np.inf)
    service = replace(service, memory=memory_for(service, 1, 512, 2048, 13.0))
    tasks = workload(40)
    found = plan(tasks, service, "improved", memory_rule=rule, draft_lengths=[1, 2])
    assert found.gap <= 0.02
    assert found.latency > 1.08 * min(lower_bound(tasks, service, length, memory_rule=rule) for length in (1, 2))


@given(small_cases(most=4).map(with_one_output))
def test_many_batches_have_the_simple_bound(case):
    """With one batch as the most that is treated by itself, the bound still holds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(positions, "MOST_BATCHES", 1)
        bound = uncapped(*case)
        costs = Measured(case[0], case[1], methods.Options()).costs(case[2])
        found = list(positions._Table(costs).divisions(np.inf))
    assert (len(case[0]) > 1) == ((2,) in found)
    assert bound <= fastest(*case)


@pytest.mark.parametrize("most", [2, 12])
@pytest.mark.parametrize(("draft", "verify"), [(60.0, 1.0), (1.0, 60.0)])
def test_batches_of_one_task_attain_the_simple_bound(monkeypatch, most, draft, verify):
    """Where one stage dominates, three batches take all of that stage, and one of the other."""
    monkeypatch.setattr(positions, "MOST_BATCHES", most)
    service = replace(PAPER, draft_device=Device(0.0, draft), verify_device=Device(0.0, verify))
    service = replace(service, memory=memory_for(service, 1, 10, 20, 1.2))
    tasks = [Task(10, 20)] * 3
    alone = plan_latency(tasks, service, [[0], [1], [2]], 1, "johnson", **EACH)
    assert uncapped(tasks, service, 1, "each") == pytest.approx(alone, rel=1e-3)
    assert uncapped(tasks, service, 1, "each") <= alone


# ---------------------------------------------------------------------------------------------------------- moves


@pytest.mark.parametrize("seed", range(3))
def test_no_single_move_improves_the_plan_and_few_tasks_are_planned_best(seed):
    rng = np.random.default_rng(seed)
    tasks = [Task(int(i), int(o)) for i, o in zip(rng.integers(1, 513, 6), rng.integers(1, 65, 6), strict=True)]
    found = plan(tasks, PAPER, "improved", draft_lengths=[2], **EACH)
    best = min(plan_latency(tasks, PAPER, batches, 2, "johnson", **EACH) for batches in partitions(list(range(6))))
    assert best * (1 - 1e-12) <= found.latency <= 1.01 * best
    again = plan_latency(tasks, PAPER, found.batches, 2, found.order, waves=found.waves, **EACH)
    assert found.latency == pytest.approx(again, rel=1e-12)


def drawn(seed: int, equal: bool) -> tuple[list[Task], Service, int]:
    """Return few tasks on machines of many kinds, with a memory that may or may not bind."""
    rng = np.random.default_rng([11, seed])
    small, large = (
        ModelShape(int(rng.integers(1, 33)), int(2 ** rng.integers(6, 13)), int(rng.choice([256, 3072, 5632, 11008])))
        for _ in range(2)
    )
    count, prompt, answer = int(rng.integers(2, 7)), int(2 ** rng.integers(1, 10)), int(2 ** rng.integers(1, 7))
    answers = rng.integers(1, answer + 1, count)
    tasks = [
        Task(int(i), int(answers[0] if equal else o))
        for i, o in zip(rng.integers(1, prompt + 1, count), answers, strict=True)
    ]
    length = int(rng.integers(1, 5))
    machines = []
    for model in (small, large):
        overhead, share = 10.0 ** rng.uniform(-4, -1), 10.0 ** rng.uniform(-2, 1)
        machines.append(Device(share * overhead / float(forward_flops(model, prompt)), overhead))
    single = max(task.input_tokens for task in tasks), max(task.output_tokens for task in tasks) + 2
    service = Service(small, large, machines[0], machines[1], float(rng.random()))
    room = float(rng.choice([1.0, 1.5, 2.5, 4.0, 100.0]))
    return tasks, replace(service, memory=memory_for(service, length, *single, room)), length


@pytest.mark.parametrize("equal", [True, False])
@pytest.mark.parametrize("rule", ["each", "together"])
def test_improved_is_within_a_twentieth_of_the_fastest_plan(rule, equal):
    """75 cases each, 300 in all; Algorithm 1 loses up to 60% on such cases."""
    worst = {"improved": 0.0, "dp": 0.0}
    for seed in range(75):
        tasks, service, length = drawn(seed, equal)
        options = {"memory_rule": rule, "draft_lengths": [length]}
        best = plan(tasks, service, "exact", **options).latency
        for method, loss in worst.items():
            worst[method] = max(loss, plan(tasks, service, method, **options).latency / best - 1)
    assert worst["improved"] <= 0.05
    assert worst["dp"] >= (0.01 if equal else 0.2)


def test_moves_keep_every_task_once_and_make_bad_plans_good():
    tasks = workload(12, output=64)
    problem = Measured(tasks, PAPER, methods.Options())
    costs = problem.costs(2)
    alone = [[(k,)] for k in range(12)]  # twelve waves
    waves = improved(costs, alone)
    assert sorted(task for wave in waves for batch in wave for task in batch) == list(range(12))
    batches = [problem.sorted[list(batch)].tolist() for wave in waves for batch in wave]
    latency = plan_latency(tasks, PAPER, batches, 2, "johnson", waves=[len(wave) for wave in waves])
    assert latency <= 1.01 * plan(tasks, PAPER, "exact", draft_lengths=[2]).latency


def test_waves_that_do_not_fit_are_no_move():
    tasks, service = [Task(100, 64)] * 6, replace(PAPER, memory=memory_for(PAPER, 2, 100, 64, 2.0))
    found = plan(tasks, service, "improved", draft_lengths=[2])
    assert len(found.waves) == 3
    assert plan_latency(tasks, service, found.batches, 2, "johnson", waves=found.waves) == found.latency
