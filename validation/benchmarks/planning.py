"""Benchmark ``edge``: speed of batch planning and of bandwidth shares, against simpler implementations.

The simpler implementations are defined here: Algorithm 1 of edge-sd (zhu2025edgesd) with one Python loop per level, the
same with its innermost loop as an array operation, the bandwidth shares as a linear program, and sums step by step.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory.batching import plan, search
from hlmtheory.ofdma.shares import shares_of
from hlmtheory.serving import Device, ModelShape, Service, Task, decoding_steps, inference_latency, stage_times
from hlmtheory.serving.pipeline import by_breakpoints, by_steps
from validation.benchmarks.measurement import Measurement

Row = NDArray[np.float64]

SERVICE = Service(
    draft=ModelShape(22, 2048, 5632),
    verify=ModelShape(32, 4096, 11008),
    draft_device=Device(4.11e-13, 5.6e-4),
    verify_device=Device(2.08e-14, 1.28e-2),
    acceptance=0.8,
    memory=16e9,
)
"""A draft model of 1.1 billion parameters and a target model of 7 billion: edge-sd Tables I and II."""
PROMPT, ANSWER = 512, 2048
LENGTHS = range(1, 11)
TASKS, GROWTH, EXACT_TASKS = 100, (50, 100, 200, 400, 1000), 12
USERS, MANY_USERS, CELLS = 100, 10**6, 1000
JOINT_LIMIT, LARGE_LIMIT, EXACT_LIMIT, USERS_LIMIT = 0.5, 60.0, 2.0, 1.0  # seconds


def measure() -> list[Measurement]:
    """Run all measurements of this benchmark."""
    return [*measure_batching(), *measure_exact(), *measure_shares(), *measure_sums()]


def _best_of(work: Callable[[], Any], repeats: int = 3) -> float:
    """Return the seconds of the fastest of several runs."""
    best = math.inf
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - began)
    return best


def _beside(what: str, seconds: float, against: str, other: float) -> Measurement:
    return Measurement(what, 1e3 * seconds, "ms", against, seconds / other)


def tasks_of(count: int, seed: int = 0, *, equal: bool = True) -> list[Task]:
    """Return tasks with prompts of 1 to 512 tokens and answers of 2,048, or of 1 to 2,048."""
    rng = np.random.default_rng(seed)
    prompts = rng.integers(1, PROMPT + 1, count)
    answers = np.full(count, ANSWER) if equal else rng.integers(1, ANSWER + 1, count)
    return [Task(int(i), int(o)) for i, o in zip(prompts, answers, strict=True)]


# ------------------------------------------------------------------------------------------------------ batching


def sorted_costs(tasks: Sequence[Task], length: int) -> search.Costs:
    """Return the costs of the sorted tasks, the input of the searches below."""
    inputs = np.sort([task.input_tokens for task in tasks])
    return search.Costs(SERVICE, length, inputs, np.full(len(tasks), tasks[0].output_tokens))


def program_by_levels(costs: search.Costs) -> float:
    """Return the optimal value of Algorithm 1 with the corrected objective, by Python loops over i, j and n."""
    draft, verify = (times.tolist() for times in costs.unit)
    start_draft, start_verify = costs.fixed
    arrivals, finishes = [[0.0] * costs.horizon], [[0.0] * costs.horizon]
    best = 0.0
    for i in range(len(costs.inputs)):
        best, chosen = math.inf, i
        for j in range(int(costs.first[i]), i + 1):
            size, arrival, finish, total = i - j + 1, arrivals[j], finishes[j], 0.0
            for n in range(costs.horizon):
                drafted = arrival[n] + size * draft[i][n] + start_draft
                total += max(drafted, finish[n]) + size * verify[i][n] + start_verify  # (29), corrected
            if total <= best:
                best, chosen = total, j
        size, arrival, finish = i - chosen + 1, [], []
        for n in range(costs.horizon):
            arrival.append(arrivals[chosen][n] + size * draft[i][n] + start_draft)  # (31)
            finish.append(max(arrival[n], finishes[chosen][n]) + size * verify[i][n] + start_verify)  # (32)
        arrivals.append(arrival)
        finishes.append(finish)
    return best


def program_over_steps(costs: search.Costs) -> float:
    """Return the same value, with the loop over n as an array operation."""
    draft, verify = costs.unit
    start_draft, start_verify = costs.fixed
    arrivals, finishes = np.zeros((2, len(costs.inputs) + 1, costs.horizon))
    best = 0.0
    for i in range(len(costs.inputs)):
        best, chosen = math.inf, i
        for j in range(int(costs.first[i]), i + 1):
            size = i - j + 1
            drafted = arrivals[j] + size * draft[i] + start_draft
            total = float((np.maximum(drafted, finishes[j]) + size * verify[i] + start_verify).sum())
            if total <= best:
                best, chosen = total, j
        size = i - chosen + 1
        arrivals[i + 1] = arrivals[chosen] + size * draft[i] + start_draft
        finishes[i + 1] = np.maximum(arrivals[i + 1], finishes[chosen]) + size * verify[i] + start_verify
    return best


def program(costs: search.Costs) -> float:
    """Return the value that the library's search finds."""
    return search.dynamic_program(costs)[1]


def measure_batching(
    tasks: int = TASKS, growth: Sequence[int] = GROWTH, lengths: Sequence[int] = LENGTHS
) -> list[Measurement]:
    """Measure three implementations of the search over all draft lengths, and :func:`plan` for growing K."""
    given = tasks_of(tasks)
    ways = (("dp", program, 3), ("vectorised over n", program_over_steps, 2), ("a loop a level", program_by_levels, 1))
    seconds = {}
    for name, way, repeats in ways:
        seconds[name] = _best_of(partial(_solved, way, given, lengths), repeats)
    case = f"K = {tasks}, l = {lengths[0]}..{lengths[-1]}"
    found = [_beside(f"{name}, {case}", taken, "dp", seconds["dp"]) for name, taken in seconds.items()]
    found.append(_beside(f"dp, {case}", seconds["dp"], f"the limit, {JOINT_LIMIT:g} s", JOINT_LIMIT))
    plans = {k: _best_of(partial(plan, tasks_of(k), SERVICE, draft_lengths=lengths), 1) for k in growth}
    least, most = min(plans), max(plans)
    name = "plan with its bound, K = {:,}"
    found += [_beside(name.format(k), taken, f"K = {least}", plans[least]) for k, taken in plans.items()]
    found.append(_beside(name.format(most), plans[most], f"the limit, {LARGE_LIMIT:g} s", LARGE_LIMIT))
    return found


def _solved(way: Callable[[search.Costs], float], tasks: Sequence[Task], lengths: Sequence[int]) -> list[float]:
    return [way(sorted_costs(tasks, length)) for length in lengths]


def measure_exact(tasks: int = EXACT_TASKS, seeds: int = 4) -> list[Measurement]:
    """Measure the slowest of several exhaustive searches, with equal and with unequal answers."""
    found = []
    for equal in (True, False):
        problems = [tasks_of(tasks, seed, equal=equal) for seed in range(seeds)]
        taken = max(_best_of(partial(plan, given, SERVICE, "exact"), 1) for given in problems)
        name = f"exact, K = {tasks}, {'equal' if equal else 'unequal'} answers, the slowest of {seeds}"
        found.append(_beside(name, taken, f"the limit, {EXACT_LIMIT:g} s", EXACT_LIMIT))
    return found


# ------------------------------------------------------------------------------------------------------- shares


def cell(users: int, seed: int = 0) -> tuple[Row, Row]:
    """Return bits and spectral efficiencies of users under Rayleigh fading at a mean SNR of 10 dB."""
    rng = np.random.default_rng(seed)
    bits, snr = rng.integers(1, PROMPT + 1, users), 10.0 * rng.exponential(size=users)
    return np.asarray(16.0 * bits, dtype=np.float64), np.asarray(np.log2(1.0 + snr))


def shares_by_program(bits: Row, efficiency: Row) -> Row:
    """Return the min-max shares by a linear program: maximise s subject to w_k ≥ s c_k and Σ w = 1."""
    import cvxpy as cp

    needs = bits / efficiency
    shares, speed = cp.Variable(len(bits)), cp.Variable()
    limits = [shares >= speed * (needs / needs.sum()), cp.sum(shares) == 1]  # scaled so that s = 1 at the optimum
    cp.Problem(cp.Maximize(speed), limits).solve()
    return np.asarray(shares.value)


def measure_shares(
    users: int = USERS, many: int = MANY_USERS, cells: int = CELLS, rounds: int = 200
) -> list[Measurement]:
    """Measure the closed-form shares against a linear program, for one cell, many cells and many users."""
    bits, efficiency = cell(users)
    alone = _best_of(partial(_repeated, shares_of, (bits, efficiency), rounds)) / rounds
    together = _best_of(partial(shares_of, np.tile(bits, (cells, 1)), np.tile(efficiency, (cells, 1)))) / cells
    program = _best_of(partial(shares_by_program, bits, efficiency), 5)
    crowd = _best_of(partial(shares_of, *cell(many)))
    case = f"{users} users"
    return [
        _beside(f"shares, {case}", alone, "shares", alone),
        _beside(f"linear program, {case}", program, "shares", alone),
        _beside(f"linear program, {case}", program, f"shares, a cell of {cells:,} at once", together),
        _beside(f"shares, {many:,} users", crowd, f"the limit, {USERS_LIMIT:g} s", USERS_LIMIT),
    ]


# --------------------------------------------------------------------------------------------------------- sums


def batches(count: int, departures: int) -> tuple[Row, Row, NDArray[np.int64]]:
    """Return the stages and steps of several batches of 5 that leave at several times."""
    prompts = np.linspace(64, PROMPT, count).astype(np.int64)
    draft, verify = stage_times(SERVICE, 5, prompts, np.full(count, 5))
    answers = ANSWER - (np.arange(count) % departures) * (ANSWER // (2 * departures))
    return draft, verify, decoding_steps(answers, SERVICE.acceptance, 5)


SUMS: dict[str, Callable[..., Any]] = {
    "by breakpoints": by_breakpoints,
    "by steps": by_steps,
    "as chosen": inference_latency,
}
"""Methods that compute the latency of a plan from its stages and steps."""


def measure_sums(cases: Sequence[tuple[int, int]] = ((4, 1), (20, 1), (20, 20)), rounds: int = 50) -> list[Measurement]:
    """Measure the latency computation by breakpoints of the envelope, step by step, and by the library's choice."""
    found = []
    for count, departures in cases:
        given = batches(count, departures)
        name = f"{count} batches, {departures} departure{'s' * (departures > 1)}"
        seconds = {way: _best_of(partial(_repeated, sums, given, rounds)) / rounds for way, sums in SUMS.items()}
        found += [_beside(f"{way}, {name}", taken, "as chosen", seconds["as chosen"]) for way, taken in seconds.items()]
    return found


def _repeated(sums: Callable[..., Any], given: Sequence[Any], rounds: int) -> None:
    for _ in range(rounds):
        sums(*given)
