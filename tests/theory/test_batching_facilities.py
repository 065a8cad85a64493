"""The bound by prices of tasks, against the exact optimum of small cases, whatever the prices and the solver."""

import time
from dataclasses import replace

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given
from hypothesis import strategies as st

from hlmtheory.batching import facilities, lower_bound, methods, plan
from hlmtheory.serving import Device, Service, Task

from .test_batching import LARGE, PAPER, SMALL, fastest
from .test_batching_waves import UNIT, chains_of, divisions, every_schedule, in_bytes, small_cases

CASES = small_cases(most=4).map(lambda case: (case[0], replace(case[1], memory=case[1].memory + 4.0), case[2]))
"""With one token more of memory, which (10) as printed counts."""
RULES = st.sampled_from(("together", "each"))
SCHEDULES = st.sampled_from(("barrier", "free"))


def costs_of(tasks, service, length, rule="together"):
    return methods.Problem(tasks, service, methods.Options(rule=rule)).costs(length)


def optimum(tasks, service, length, rule="together", schedule="barrier") -> float:
    """Return the least latency; for a free schedule of all orders of the operations, in all divisions that fit."""
    if schedule == "barrier":
        return fastest(tasks, service, length, rule)
    case = tasks, service, length
    return min(sum(every_schedule(chains) for chains in chains_of(*case, plans)) for plans in divisions(*case, rule))


def uncapped(tasks, service, length, rule="together", schedule="barrier") -> float:
    """Return the bound without the latency of a plan above it, which would hide a bound that is too high."""
    return facilities.facility_bound(costs_of(tasks, service, length, rule), schedule, np.inf)


def unequal(count: int, seed: int = 0) -> list[Task]:
    rng = np.random.default_rng(seed)
    return [
        Task(int(i), int(o)) for i, o in zip(rng.integers(1, 513, count), rng.integers(1, 2049, count), strict=True)
    ]


@given(CASES, RULES)
def test_the_bound_is_below_the_fastest_plan(case, rule):
    best = optimum(*case, rule)
    assert uncapped(*case, rule) <= best * (1 + 1e-12)
    close = lower_bound(*case, memory_rule=rule, close=True)
    assert lower_bound(*case, memory_rule=rule) == lower_bound(*case, memory_rule=rule, close=False)
    assert lower_bound(*case, memory_rule=rule) <= close * (1 + 1e-9) <= best * (1 + 2e-9)


@given(CASES, RULES)
def test_the_free_bound_is_below_the_fastest_schedule(case, rule):
    case = (case[0][:3], *case[1:])
    best = optimum(*case, rule, "free")
    assert uncapped(*case, rule, "free") <= best * (1 + 1e-12)
    assert lower_bound(*case, memory_rule=rule, schedule="free", close=True) <= best * (1 + 1e-9)


@given(CASES, RULES, SCHEDULES, st.integers(0, 2**32 - 1))
def test_any_weights_and_prices_give_a_bound(case, rule, schedule, seed):
    if schedule == "free":
        case = (case[0][:3], *case[1:])
    rng = np.random.default_rng(seed)
    table = facilities._Corners(costs_of(*case, rule), schedule)
    best = optimum(*case, rule, schedule)
    for spread in (0.1, 1.0, 5.0):
        weights = rng.random(table.tails.shape) ** spread + 1e-12
        prices = rng.random(len(case[0])) ** spread * 2.0 * best
        value, scale, cheap = table.bound(weights, prices)
        assert value <= best * (1 + 1e-12)
        assert 0.0 <= scale <= 1.0
        assert cheap.any(axis=1).all()


@pytest.mark.parametrize("schedule", ["barrier", "free"])
def test_a_solver_that_errs_leaves_a_bound(monkeypatch, schedule):
    """Its prices are too high, random or missing: the scaled ones are not."""
    case = [Task(3, 4), Task(1, 2), Task(5, 3)], Service(UNIT, UNIT, Device(0.25, 20.0), Device(0.25, 35.0), 1.0), 1
    best, sound, rng = optimum(*case, schedule=schedule), uncapped(*case, schedule=schedule), np.random.default_rng(1)
    solve = scipy.optimize.linprog

    def wrong(*given, **options):
        answer = solve(*given, **options)
        answer.ineqlin.marginals = -1e3 * rng.random(answer.ineqlin.marginals.shape)
        return answer

    def failed(*given, **options):
        return scipy.optimize.OptimizeResult(success=False, fun=None, ineqlin=None)

    assert 0.8 * best < sound <= best
    for solver in (wrong, failed):
        monkeypatch.setattr(scipy.optimize, "linprog", solver)
        assert 0.0 < uncapped(*case, schedule=schedule) <= best


@given(CASES, RULES, st.integers(1, 12))
def test_rounded_tasks_have_a_smaller_bound(case, rule, entries):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(facilities, "ENTRIES", entries)
        costs = costs_of(*case, rule)
        rounded = facilities._rounded(costs)
        bound = uncapped(*case, rule)
    most = max(1, int(np.sqrt(entries / len(case[0]))))
    for ours, theirs in ((rounded.inputs, costs.inputs), (rounded.outputs, costs.outputs)):
        assert (ours <= theirs).all()
        assert set(ours) <= set(theirs)
        assert len(set(ours)) == min(most, len(set(theirs)))
    assert bound <= optimum(*case, rule) * (1 + 1e-12)


def test_the_time_of_the_others_in_a_wave_counts(monkeypatch):
    """Two tasks a wave, each with half of the memory: three times one task's stage, where its own time is only two."""
    tasks = [Task(1, 1)] * 8
    service = Service(UNIT, UNIT, Device(0.25, 0.0), Device(0.1, 0.0), 1.0, in_bytes(2.0))
    best = 4 * optimum(tasks[:2], service, 1)
    table = facilities._Corners(costs_of(tasks, service, 1), "barrier")
    own, prices = np.asarray([[0.0, 0.0, 1.0]]), np.full(8, best)
    assert table.bound(own, prices)[0] == pytest.approx(best, rel=1e-6)
    monkeypatch.setattr(facilities._Corners, "_pair_rates", lambda self, top, last: np.zeros(self.costs.horizon))
    alone = facilities._Corners(costs_of(tasks, service, 1), "barrier")
    assert alone.bound(own, prices)[0] == pytest.approx(2 / 3 * best, rel=1e-6)


@pytest.mark.parametrize("rule", ["together", "each"])
def test_hundred_unequal_tasks_are_certified_within_a_fifth(rule):
    service = Service(SMALL, LARGE, Device(4.11e-13, 0.56e-3), Device(2.08e-14, 1.28e-2), 0.8, 16e9)
    began = time.process_time()
    found = plan(unequal(100), service, "improved", memory_rule=rule, draft_lengths=[1])
    assert time.process_time() - began < 60.0
    assert found.gap <= 0.2
    assert found.latency > 1.4 * lower_bound(unequal(100), service, 1, memory_rule=rule)


@pytest.mark.parametrize("rule", ["together", "each"])
def test_what_was_learned_at_one_draft_length_changes_only_the_search(rule):
    tasks, known = unequal(5, seed=2), facilities.Known()
    service = replace(PAPER, memory=5e9)
    for length in (1, 2, 3, 9):
        costs = costs_of(tasks, service, length, rule)
        best = optimum(tasks, service, length, rule)
        bounds = [facilities.facility_bound(costs, "barrier", np.inf, state) for state in (known, None)]
        assert max(bounds) <= best
        assert min(bounds) >= 0.95 * max(bounds)
        assert facilities.facility_bound(costs, "barrier", 1.0, known) == 1.0
