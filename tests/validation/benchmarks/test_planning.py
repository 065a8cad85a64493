"""The benchmarks of planning and sharing: both implementations agree; no times are compared."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hlmtheory import batching, ofdma
from hlmtheory.serving import Task
from hlmtheory.serving.pipeline import pipeline_latency, step_times
from validation.benchmarks import __main__ as bench
from validation.benchmarks import planning
from validation.benchmarks.measurement import Measurement


def plausible(found: list[Measurement]) -> list[str]:
    """Return the name of each line; assert that every value and ratio is finite and positive."""
    assert all(math.isfinite(number) and number > 0 for one in found for number in (one.value, one.ratio))
    assert {one.unit for one in found} == {"ms"}
    return [one.what for one in found]


# ---------------------------------------------------------------------------------------------------- agreement


@pytest.mark.parametrize(("count", "length", "answer"), [(1, 1, 1), (7, 1, 9), (12, 4, 40), (9, 10, 300)])
def test_the_three_ways_to_the_table_agree(count: int, length: int, answer: int):
    rng = np.random.default_rng([count, length])
    tasks = [Task(int(i), answer) for i in rng.integers(1, 513, count)]
    costs = planning.sorted_costs(tasks, length)
    ours = planning.program(costs)
    assert planning.program_by_levels(costs) == pytest.approx(ours, rel=1e-12)
    assert planning.program_over_steps(costs) == pytest.approx(ours, rel=1e-12)
    found = batching.plan(tasks, planning.SERVICE, "dp", draft_lengths=[length])
    assert found.latency == pytest.approx(ours, rel=1e-12)


def test_they_agree_where_the_memory_binds():
    tasks = [Task(512, 2048)] * 90
    costs = planning.sorted_costs(tasks, 10)
    assert costs.first[-1] > 0
    assert planning.program_over_steps(costs) == pytest.approx(planning.program(costs), rel=1e-12)


@pytest.mark.parametrize("users", [1, 2, 25])
def test_the_linear_program_agrees_with_the_shares(users: int):
    pytest.importorskip("cvxpy")
    bits, efficiency = planning.cell(users, seed=users)
    shares = ofdma.minmax_shares(bits, spectral_efficiency=efficiency)
    np.testing.assert_allclose(planning.shares_by_program(bits, efficiency), shares, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize(("count", "departures"), [(1, 1), (3, 1), (6, 6), (5, 2)])
def test_the_ways_to_the_sum_agree(count: int, departures: int):
    given = planning.batches(count, departures)
    assert len(set(given[2].tolist())) == departures
    totals = [float(sums(*given)) for sums in planning.SUMS.values()]
    assert totals == pytest.approx([totals[0]] * 3, rel=1e-12)
    draft, verify, steps = given
    n = np.arange(1, steps.max() + 1)[:, None]
    times = [np.where(n <= steps, step_times(stage, n), 0.0) for stage in (draft, verify)]
    assert float(pipeline_latency(*times).sum()) == pytest.approx(totals[0], rel=1e-12)


# --------------------------------------------------------------------------------------------------------- rows


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use short answers."""
    monkeypatch.setattr(planning, "ANSWER", 40)


@pytest.mark.usefixtures("small")
def test_the_row_of_the_joint_solve():
    found = planning.measure_batching(5, [2, 4], [1, 3])
    assert plausible(found) == [
        "dp, K = 5, l = 1..3",
        "vectorised over n, K = 5, l = 1..3",
        "a loop a level, K = 5, l = 1..3",
        "dp, K = 5, l = 1..3",
        "plan with its bound, K = 2",
        "plan with its bound, K = 4",
        "plan with its bound, K = 4",
    ]
    assert found[0].ratio == 1.0
    assert [one.against for one in found[3:]] == ["the limit, 0.5 s", "K = 2", "K = 2", "the limit, 60 s"]


@pytest.mark.usefixtures("small")
def test_the_other_rows():
    pytest.importorskip("cvxpy")
    assert plausible(planning.measure_exact(3, 1))[1] == "exact, K = 3, unequal answers, the slowest of 1"
    assert plausible(planning.measure_shares(3, 50, 4, 2)) == [
        "shares, 3 users",
        "linear program, 3 users",
        "linear program, 3 users",
        "shares, 50 users",
    ]
    assert plausible(planning.measure_sums([(2, 1)], 1)) == [
        "by breakpoints, 2 batches, 1 departure",
        "by steps, 2 batches, 1 departure",
        "as chosen, 2 batches, 1 departure",
    ]


def test_the_bench_has_the_row(monkeypatch: pytest.MonkeyPatch):
    one = Measurement("one", 1.0, "ms", "two", 2.0)
    for name in ("measure_batching", "measure_exact", "measure_shares", "measure_sums"):
        monkeypatch.setattr(planning, name, lambda: [one])
    assert bench.ROWS["edge"]() == [one] * 4
