"""Free schedules and shared memory, against every partition, wave, order and schedule of small cases, and CP-SAT."""

import itertools
import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hlmtheory.batching import lower_bound, plan, plan_latency, search
from hlmtheory.batching.pareto import pareto
from hlmtheory.batching.planner import METHODS
from hlmtheory.serving import Device, ModelShape, Service, Task, peak_memory

from .test_batching import fastest, partitions

UNIT = ModelShape(1, 1, 1)
TWO = [Task(1, 20), Task(1, 20)]


def in_bytes(tokens: float) -> float:
    return 12.0 + 4.0 * tokens


@st.composite
def small_cases(draw: st.DrawFn, most: int = 4, steps: int = 3) -> tuple[list[Task], Service, int]:
    count, length = draw(st.integers(1, most)), draw(st.integers(1, 2))
    acceptance = draw(st.sampled_from((0.0, 1.0)))
    longest = steps * (length + 1 if acceptance else 1)
    tasks = [Task(draw(st.integers(1, 5)), draw(st.integers(1, longest))) for _ in range(count)]
    edge, cloud = (Device(draw(st.sampled_from((0.0, 0.25))), float(draw(st.integers(0, 60)))) for _ in range(2))
    single = max(task.input_tokens + task.output_tokens + length - 2 for task in tasks)
    room = draw(st.sampled_from((1.0, 1.5, 2.0, 3.0, 20.0)))
    return tasks, Service(UNIT, UNIT, edge, cloud, acceptance, in_bytes(room * single)), length


def needed(tasks: list[Task], service: Service, length: int, batch: list[int]) -> float:
    longest = (max(tasks[k].input_tokens for k in batch), max(tasks[k].output_tokens for k in batch))
    return float(peak_memory(service.draft, *longest, len(batch), length)) - 12.0


def divisions(tasks: list[Task], service: Service, length: int, rule: str = "together"):
    """Return all partitions into waves, and of each wave into batches that fit together, or of which each fits."""
    held, more = (sum, 0.0) if rule == "together" else (max, 4.0)  # (10) as printed counts one token more for each task
    for waves in partitions(list(range(len(tasks)))):
        for plans in itertools.product(*(list(partitions(wave)) for wave in waves)):
            room = service.memory - 12.0
            sizes = [[needed(tasks, service, length, batch) + more * len(batch) for batch in one] for one in plans]
            if all(held(one) <= room for one in sizes):
                yield plans


def every_schedule(chains: list[list[float]]) -> float:
    """Return the smallest makespan over all orders in which the operations can be appended one by one.

    An order is left as soon as the rest of a batch or of a machine alone takes as long as the best order so far.
    """
    shortest = math.inf
    left = [
        [[sum(chain[n:]), sum(chain[n + n % 2 :: 2]), sum(chain[n + 1 - n % 2 :: 2])] for n in range(len(chain) + 1)]
        for chain in chains
    ]

    def visit(done: tuple[int, ...], machines: tuple[float, float], ready: tuple[float, ...]) -> None:
        nonlocal shortest
        rest = [batch[n] for batch, n in zip(left, done, strict=True)]
        ends = [begin + both for begin, (both, _, _) in zip(ready, rest, strict=True)]
        ends += [machines[k] + sum(batch[1 + k] for batch in rest) for k in (0, 1)]
        if max(ends, default=0.0) >= shortest:
            return
        open_batches = [m for m, chain in enumerate(chains) if done[m] < len(chain)]
        if not open_batches:
            shortest = max(ready, default=0.0)
        for m in sorted(open_batches, key=lambda m: max(machines[done[m] % 2], ready[m])):
            k = done[m] % 2
            end = max(machines[k], ready[m]) + chains[m][done[m]]
            after = (end, machines[1]) if k == 0 else (machines[0], end)
            visit((*done[:m], done[m] + 1, *done[m + 1 :]), after, (*ready[:m], end, *ready[m + 1 :]))

    visit((0,) * len(chains), (0.0, 0.0), (0.0,) * len(chains))
    return shortest


def chains_of(tasks, service, length, plans) -> list[list[list[float]]]:
    """Return draft, verification, draft, ... of every batch of every wave, by the paper's sums."""
    found = []
    for wave in plans:
        chains = []
        for batch in wave:
            prompt, answer = max(tasks[k].input_tokens for k in batch), max(tasks[k].output_tokens for k in batch)
            tokens = sum(service.acceptance**k for k in range(length + 1))
            chain: list[float] = []
            for n in range(math.ceil(answer / tokens - 1e-9)):
                known = prompt + n * tokens - 1
                draft = 0.0
                for i in range(length):
                    new, cached = (prompt, 0.0) if n == i == 0 else (1, known + i)
                    draft += service.draft_device.c1 * 4 * new * (3 + cached + new) * len(batch)
                    draft += service.draft_device.c2
                new, cached = (prompt + length, 0.0) if n == 0 else (1 + length, known)
                verify = service.verify_device.c1 * 4 * new * (3 + cached + new) * len(batch) + service.verify_device.c2
                chain += [draft, verify]
            chains.append(chain)
        found.append(chains)
    return found


@given(small_cases(most=4))
def test_the_bound_is_below_the_best_of_all_divisions(case):
    best = fastest(*case)
    assert lower_bound(*case) <= best * (1 + 1e-12)
    assert plan(case[0], case[1], "improved", draft_lengths=[case[2]]).latency >= best * (1 - 1e-12)


@given(small_cases(most=3, steps=2))
def test_the_free_bound_is_below_all_schedules(case):
    tasks, service, length = case
    best = min(
        sum(every_schedule(chains) for chains in chains_of(*case, plans))
        for plans in divisions(*case)
        if max(sum(map(len, chains)) for chains in chains_of(*case, plans)) <= 12
    )
    assert lower_bound(tasks, service, length, schedule="free") <= best * (1 + 1e-12)
    assert lower_bound(tasks, service, length, schedule="free", close=True) <= best * (1 + 1e-9)
    found = plan(tasks, service, "improved", draft_lengths=[length], schedule="free")
    assert found.latency >= best * (1 - 1e-9)


def test_a_wave_may_begin_with_a_batch_of_one_task():
    """The memory holds one task at a time, so three tasks need three waves."""
    three = (np.full(3, 8), np.full(3, 8))
    service = Service(UNIT, UNIT, Device(0.25, 20.0), Device(0.25, 35.0), 1.0, in_bytes(1e6))
    alone = search.Costs(service, 2, *three, "together").cache.bytes(8, 8, 1)
    tight = replace(service, memory=in_bytes(0.0) + 1.5 * alone)
    runs, latency, complete = pareto(search.Costs(tight, 2, *three, "together"))
    assert (runs.starts, runs.opens, complete) == ([0, 1, 2], [0, 1, 2], True)
    assert latency == pytest.approx(3 * pareto(search.Costs(service, 2, *(one[:1] for one in three)))[1])


@given(small_cases(most=4), st.sampled_from(("barrier", "free")))
def test_every_method_keeps_its_memory_and_its_bound(case, schedule):
    tasks, service, length = case
    for method in METHODS:
        if method in ("dp-printed", "autoregressive", "fixed-length", "exact"):
            continue
        found = plan(tasks, service, method, draft_lengths=[length], schedule=schedule)
        assert sorted(sum(found.batches, ())) == list(range(len(tasks)))
        assert found.lower_bound <= found.latency * (1 + 1e-12)
        again = plan_latency(
            tasks, service, found.batches, found.draft_length, found.order, schedule=schedule, waves=found.waves
        )  # refuses a wave beyond the memory
        assert again == pytest.approx(found.latency, rel=1e-12)


SOLVER = Path(__file__).with_name("cpsat_batches.py")


def cp_instance(seed: int) -> tuple[tuple[list[Task], Service, int], dict]:
    rng = np.random.default_rng([7, seed])
    length, count = int(rng.integers(1, 3)), int(rng.integers(2, 5))
    steps = 3 if count < 4 else 2
    tasks = [Task(int(rng.integers(1, 4)), int(rng.integers(1, steps * (length + 1) + 1))) for _ in range(count)]
    edge, cloud = (Device(0.25 * int(rng.integers(0, 2)), float(rng.integers(5, 60))) for _ in range(2))
    single = max(task.input_tokens + task.output_tokens + length - 2 for task in tasks)
    room = float(rng.choice([1.0, 1.6, 2.5, 9.0]))
    service = Service(UNIT, UNIT, edge, cloud, 1.0, in_bytes(room * single))
    blocks = []
    for mask in range(1, 1 << count):
        batch = [k for k in range(count) if mask >> k & 1]
        chain = chains_of(tasks, service, length, [[batch]])[0][0]
        blocks.append(
            {
                "tasks": batch,
                "times": [round(time) for time in chain],
                "bytes": round(needed(tasks, service, length, batch)),
            }
        )
        assert np.allclose(chain, blocks[-1]["times"], rtol=0, atol=1e-9)
    return (tasks, service, length), {"count": count, "blocks": blocks, "room": math.floor(service.memory - 12.0)}


def test_cp_sat_finds_nothing_better():
    """30 instances in a separate process, because OR-Tools crashes if cvxpy's HiGHS is loaded."""
    asked = subprocess.run([sys.executable, "-P", "-c", "import ortools"], capture_output=True, check=False)
    if asked.returncode:
        pytest.skip("OR-Tools is not installed: pip install ortools")
    cases = [cp_instance(seed) for seed in range(30)]
    run = subprocess.run(
        [sys.executable, "-P", str(SOLVER)],
        input=json.dumps([model for _, model in cases]),
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    waves = 0
    for ((tasks, service, length), _), best in zip(cases, json.loads(run.stdout), strict=True):
        for schedule in ("barrier", "free"):
            assert lower_bound(tasks, service, length, schedule=schedule) <= best[schedule] * (1 + 1e-9)
        assert fastest(tasks, service, length) == pytest.approx(best["barrier"], rel=1e-9), (tasks, service, length)
        found = plan(tasks, service, "improved", draft_lengths=[length])
        assert found.latency >= best["barrier"] * (1 - 1e-9)
        waves += len(found.waves) > 1
    assert waves > 5


def test_two_batches_that_meet_24b_one_by_one_do_not_fit_together():
    """Each needs 96 of 138 bytes by (10) as printed; both together need 172."""
    service = Service(UNIT, UNIT, Device(0.0, 1.0), Device(0.0, 1.0), 1.0, memory=138.0)
    paper = plan(TWO, service, "exact", draft_lengths=[1], memory_rule="each")
    assert paper.batches == ((0,), (1,)) or paper.batches == ((1,), (0,))
    with pytest.raises(ValueError, match=r"^batches must fit the memory; wave 0 needs 160 bytes beside the weights"):
        plan_latency(TWO, service, paper.batches, 1)
    honest = plan(TWO, service, "improved", draft_lengths=[1])
    assert honest.waves == (1, 1)
    assert honest.latency == 40.0 > paper.latency == 30.0


def test_a_free_schedule_is_below_the_bound_that_assumes_a_barrier():
    """Two batches, ten steps of 1 + 1 s: the bound with a barrier is 30 s, but 21 s suffice."""
    apart = Service(UNIT, UNIT, Device(0.0, 1.0), Device(0.0, 1.0), 1.0, memory=100.0)
    held = plan(TWO, apart, "exact", draft_lengths=[1], memory_rule="each")
    assert held.latency == held.lower_bound == 30.0
    assert plan_latency(TWO, apart, [[0], [1]], 1, schedule="free", memory_rule="each") == 21.0
    assert lower_bound(TWO, apart, 1, schedule="free", memory_rule="each") == 21.0


def test_a_free_schedule_takes_at_least_the_chain_of_its_longest_task():
    """Ten steps of 3 + 2 s and a task of one step: one batch takes as long as the chain."""
    service = Service(UNIT, UNIT, Device(0.0, 3.0), Device(0.0, 2.0), 1.0)
    tasks = [Task(1, 2), Task(1, 20)]
    assert lower_bound(tasks, service, 1, schedule="free") == 50.0
    assert plan_latency(tasks, service, [[0, 1]], 1, schedule="free") == 50.0
