"""Planning of batches, against every partition and order of small cases, and against the paper's printed values."""

import contextlib
import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import hlmtheory
from hlmtheory import batching
from hlmtheory.batching import bounds, methods, plan, plan_latency, search
from hlmtheory.batching.exact import exact
from hlmtheory.batching.memory import Cache
from hlmtheory.batching.moves import improved
from hlmtheory.batching.pareto import undominated
from hlmtheory.batching.planner import METHODS
from hlmtheory.claims import Status
from hlmtheory.serving import Device, ModelShape, Service, Task, peak_memory
from hlmtheory.serving.costs import operations
from hlmtheory.serving.pipeline import recurrence
from hlmtheory.sides import batching_sides, run_sides

from .strategies import acceptances, shapes

EACH = {"memory_rule": "each"}
"""The paper's rule, (24b); what batches share is tested in test_batching_waves.py."""

COEFFICIENTS = st.sampled_from((0.0, 0.25, 0.5, 1.0, 3.0))
OVERHEADS = st.integers(0, 40).map(float)
LENGTHS = st.integers(1, 3)


@st.composite
def systems(draw: st.DrawFn, one_output: bool = False, most: int = 5) -> dict:
    """A batch of tasks with a system; coarse numbers, so that ties occur, and a memory that may or may not bind."""
    shape, count = draw(st.sampled_from(((), (1,), (2,)))), draw(st.integers(1, most))

    def filled(tail: tuple[int, ...], element: st.SearchStrategy, dtype: type = np.float64) -> np.ndarray:
        return draw(hnp.arrays(dtype, (*shape, *tail), elements=element))

    inputs = filled((count,), st.integers(1, 8), np.int64)
    outputs = filled((1 if one_output else count,), st.integers(1, 6), np.int64)
    outputs = np.broadcast_to(outputs, inputs.shape).copy()
    models = filled((2, 3), st.integers(1, 2), np.int64)
    devices = np.stack([filled((2,), COEFFICIENTS), filled((2,), OVERHEADS)], axis=-1)
    weights = models[..., 0, 0] * (8.0 * models[..., 0, 1] ** 2 + 4.0 * models[..., 0, 1] * models[..., 0, 2])
    token = 4.0 * models[..., 0, 0] * models[..., 0, 1]
    room = filled((), st.sampled_from((16.0, 20.0, 30.0, math.inf)))
    return {
        "input_tokens": inputs,
        "output_tokens": outputs,
        "draft_length": filled((), LENGTHS, np.int64),
        "acceptance": filled((), acceptances()),
        "models": models,
        "devices": devices,
        "memory": weights + token * room,
    }


@st.composite
def schedules(draw: st.DrawFn) -> dict:
    shape, steps, count = draw(shapes()), draw(st.integers(1, 4)), draw(st.integers(1, 5))
    times = st.one_of(st.integers(0, 4).map(float), st.floats(0.0, 10.0))
    return {
        name: draw(hnp.arrays(np.float64, (*shape, steps, count), elements=times))
        for name in ("draft_times", "verify_times")
    }


BY_ID = {claim.id: claim for claim in hlmtheory.all_claims().values()}
SINGLE = {**BY_ID["batching.dp"].attained.instance, "input_tokens": [1], "output_tokens": [1]}
FREE = {**SINGLE, "input_tokens": [1, 1], "output_tokens": [1, 1], "devices": [[0.0, 0.0], [0.0, 0.0]]}


def partitions(items: list[int]):
    if not items:
        yield []
        return
    first, *rest = items
    for size in range(len(rest) + 1):
        for others in itertools.combinations(rest, size):
            left = [item for item in rest if item not in others]
            yield from ([[first, *others], *more] for more in partitions(left))


def fastest(tasks, service, length: int, rule: str = "together") -> float:
    """Return the least latency of all divisions into waves, and of each wave into batches, within the memory."""
    best = math.inf
    for waves in partitions(list(range(len(tasks)))):
        for plans in itertools.product(*(list(partitions(wave)) for wave in waves)):
            batches, counts = [batch for wave in plans for batch in wave], [len(wave) for wave in plans]
            with contextlib.suppress(ValueError):  # beyond the memory
                options = {"memory_rule": rule, "waves": counts}
                best = min(best, plan_latency(tasks, service, batches, length, "johnson", **options))
    return best


def cases(instance: dict):
    shape = instance["draft_length"].shape
    return [batching_sides.case({name: value[n] for name, value in instance.items()}) for n in np.ndindex(shape)]


def fits(tasks, service, batch) -> bool:
    """(24b) with (10)."""
    tokens = max(tasks[k].input_tokens for k in batch) + max(tasks[k].output_tokens for k in batch)
    layers, hidden, wide = service.draft.sizes
    weights = layers * (8 * hidden**2 + 4 * hidden * wide)
    return weights + 4 * layers * hidden * tokens * len(batch) <= service.memory


@given(systems(most=5))
def test_exact_is_the_best_of_all_partitions(instance):
    for tasks, service, length in cases(instance):
        allowed = [p for p in partitions(list(range(len(tasks)))) if all(fits(tasks, service, b) for b in p)]
        best = min(plan_latency(tasks, service, p, length, "johnson", **EACH) for p in allowed)
        found = plan(tasks, service, "exact", draft_lengths=[length], **EACH)
        assert found.latency == pytest.approx(best, rel=1e-12)
        assert found.gap == 0
        assert all(fits(tasks, service, batch) for batch in found.batches)


@given(systems(most=5))
def test_pareto_is_the_best_of_all_runs_and_dp_of_all_last_ones(instance):
    for tasks, service, length in cases(instance):
        order = sorted(range(len(tasks)), key=lambda k: tasks[k].input_tokens)
        best = math.inf
        for cuts in itertools.product((False, True), repeat=len(tasks) - 1):
            edges = [0, *(k + 1 for k, cut in enumerate(cuts) if cut), len(tasks)]
            runs = [order[a:b] for a, b in itertools.pairwise(edges)]
            if all(fits(tasks, service, run) for run in runs):
                best = min(best, plan_latency(tasks, service, runs, length, **EACH))
        found = plan(tasks, service, "pareto", draft_lengths=[length], max_labels=1000, **EACH)
        assert found.latency == pytest.approx(best, rel=1e-12)
        assert found.complete
        last = run_sides.best_last(tasks, service, length, printed=False)
        assert plan(tasks, service, "dp", draft_lengths=[length], **EACH).latency == pytest.approx(last, rel=1e-12)


@given(schedules())
def test_johnson_is_the_best_of_all_orders(instance):
    draft, verify = (np.reshape(value, (-1, value.shape[-1])) for value in instance.values())
    count = draft.shape[-1]
    best = np.min(
        [recurrence(draft[:, p], verify[:, p]) for p in map(list, itertools.permutations(range(count)))], axis=0
    )
    np.testing.assert_allclose(search.johnson_latency(draft, verify), best, rtol=1e-12)
    place = search.johnson_order(draft, verify)
    ordered = (np.take_along_axis(times, place, axis=-1) for times in (draft, verify))
    np.testing.assert_allclose(recurrence(*ordered), best, rtol=1e-12)


SMALL, LARGE = ModelShape(22, 2048, 5632), ModelShape(32, 4096, 11008)
PAPER = Service(SMALL, LARGE, Device(4.11e-13, 0.56e-3), Device(2.08e-14, 1.28e-2), 0.8, 16e9)


def workload(count: int, seed: int = 0, output: int = 2048) -> list[Task]:
    return [Task(int(i), output) for i in np.random.default_rng(seed).integers(1, 513, count)]


def test_better_methods_are_no_slower():
    tasks = workload(12)
    found = {method: plan(tasks, PAPER, method, **EACH).latency for method in METHODS}
    slack = 1 + 1e-12
    assert found["exact"] <= found["pareto"] * slack <= found["dp"] * slack**2
    assert found["dp"] <= found["fixed-length"] * slack
    assert found["dp"] < found["sequential"] * slack
    assert max(found["none"], found["dp-printed"]) > found["max"]


BEYOND = {
    **BY_ID["batching.pareto"].attained.instance,
    **{"acceptance": 0.0, "draft_length": 2, "devices": [[0.5, 2246.279786178243], [0.5, 2311.078519348999]]},
    "input_tokens": np.cumsum([6, 2, 6, 7, 8, 22, 8, 5, 18, 9, 12, 4, 1, 7, 3, 1, 7, 2, 26, 11, 12, 1, 0, 13, 2]),
    "output_tokens": [7, 7, 2, 5, 3, 1, 6, 1, 4, 7, 3, 1, 7, 6, 5, 7, 2, 2, 3, 5, 7, 6, 2, 7, 5],
    "labels": [0, 0, 0, 0, 0, 1, 2, 2, 2, 2, 3, 3, 4, 4, 4, 4, 5, 5, 6, 6, 7, 7, 8, 9, 10],
}
"""More than 100 undominated labels of a prefix: these runs are faster than what the default search finds."""


def test_a_capped_pareto_search_says_so_and_is_no_worse_than_dp():
    tasks = workload(30)
    capped = plan(tasks, PAPER, "pareto", draft_lengths=[7], max_labels=2)
    assert not capped.complete
    assert plan(tasks, PAPER, "pareto", draft_lengths=[7]).latency <= capped.latency
    assert capped.latency <= plan(tasks, PAPER, "dp", draft_lengths=[7]).latency * (1 + 1e-12)


def test_a_search_beyond_its_labels_promises_nothing():
    assert BY_ID["batching.pareto"].check(BEYOND).broken == {"Plan.complete: the limit Y did not cut the search": 1}
    rival = [np.flatnonzero(np.equal(BEYOND["labels"], label)) for label in range(11)]
    tasks, service, length = batching_sides.case({name: np.asarray(value) for name, value in BEYOND.items()})
    more, cut = (
        plan(tasks, service, "pareto", draft_lengths=[length], max_labels=limit, **EACH) for limit in (200, 100)
    )
    assert not cut.complete
    assert more.latency * (1 - 1e-12) <= plan_latency(tasks, service, rival, length) < cut.latency


@pytest.mark.parametrize(("draft", "verify"), [(3.0, 1.0), (1.0, 3.0)])
@pytest.mark.parametrize(("memory", "bound"), [(20.0, 7.0), (math.inf, 4.0)])
def test_the_lower_bound_is_sharp_where_the_memory_forbids_one_batch_and_where_it_does_not(
    draft, verify, memory, bound
):
    """Two batches take Σ d + min v, or min d + Σ v: each stage waits once for the other."""
    model, tasks = ModelShape(1, 1, 1), [Task(1, 1), Task(1, 1)]
    service = Service(model, model, Device(0.0, draft), Device(0.0, verify), 1.0, memory)
    found = plan(tasks, service, "exact", draft_lengths=[1], **EACH)
    assert batching.lower_bound(tasks, service, 1, **EACH) == bound == found.latency


def test_the_lower_bound_lets_one_batch_of_all_overlap_with_nothing():
    """Times 3 + b and b: one batch takes 5 + 2, two batches take 4 + 4 + 1; the pair's bound as a path would be 6."""
    model, tasks = ModelShape(1, 1, 1), [Task(1, 1), Task(1, 1)]
    service = Service(model, model, Device(1 / 16, 3.0), Device(1 / 40, 0.0), 1.0)
    assert plan_latency(tasks, service, [[0, 1]], 1) == pytest.approx(7.0, rel=1e-12)
    assert plan_latency(tasks, service, [[0], [1]], 1) == pytest.approx(9.0, rel=1e-12)
    assert batching.lower_bound(tasks, service, 1) == pytest.approx(7.0, rel=1e-12)
    costs = search.Costs(service, 1, np.asarray([1, 1]), np.asarray([1, 1]))
    assert bounds.barrier_bound(costs) == pytest.approx(7.0, rel=1e-12)  # without the bound on free schedules


def test_the_program_takes_the_last_of_equals():
    """Line 20 replaces on ≥, so if all times are 0, every task begins a new batch."""
    model, tasks = ModelShape(1, 1, 1), [Task(1, 1)] * 3
    idle = Service(model, model, Device(0.0, 0.0), Device(0.0, 0.0), 1.0)
    assert plan(tasks, idle, "dp", draft_lengths=[1]).batches == ((0,), (1,), (2,))
    runs, value = search.dynamic_program(run_sides.costs_side(tasks, idle, 1))
    assert (runs.starts, runs.waves, value) == ([0, 1, 2], (3,), 0.0)


def test_autoregressive_decoding_is_the_verify_model_alone():
    found = plan([Task(10, 5), Task(20, 5)], PAPER, "autoregressive")
    prefill = 4 * 32 * 4096 * 20 * (2 * 4096 + 11008 + 20)
    later = sum(4 * 32 * 4096 * (2 * 4096 + 11008 + 20 + n) for n in range(1, 5))
    assert found.draft_length == 0
    assert found.batches == ((0, 1),)
    assert found.latency == pytest.approx(2.08e-14 * 2 * (prefill + later) + 5 * 1.28e-2, rel=1e-12)


def test_equal_steps_do_not_make_runs_enough_where_the_memory_tells_outputs_apart():
    """Four and five tokens take equally many steps here, but only the pair 0, 2 fits the memory."""
    model, free = ModelShape(1, 1, 1), Device(0.0, 5.0)
    service = Service(model, model, free, free, 1.0, 12.0 + 4 * 2 * 7)
    tasks = [Task(1, 4), Task(2, 6), Task(3, 4)]
    found = plan(tasks, service, "exact", draft_lengths=[5], **EACH)
    assert sorted(map(sorted, found.batches)) == [[0, 2], [1]]
    # runs of the tasks with their own output lengths would be three, and no bound: 80 s
    assert batching.lower_bound(tasks, service, 5, **EACH) == found.latency == 55.0


@given(hnp.arrays(np.float64, (12, 3), elements=st.integers(0, 3).map(float)), st.integers(1, 12))
def test_undominated_rows_cover_all_others(vectors, limit):
    kept = undominated(vectors, 12)
    assert all(any((vectors[k] <= row).all() for k in kept) for row in vectors)
    assert len(undominated(vectors, limit)) == min(limit, len(kept))


def test_unordered_runs_know_their_longest_task():
    costs = search.Costs(PAPER, 2, np.asarray([5, 300, 7, 20]), np.asarray([9, 9, 9, 3]))
    tasks = [Task(int(i), int(o)) for i, o in zip(costs.inputs, costs.outputs, strict=True)]
    assert costs.latency([0, 2]) == pytest.approx(plan_latency(tasks, PAPER, [[0, 1], [2, 3]], 2), rel=1e-12)
    assert costs.latency([0, 1, 3]) == pytest.approx(plan_latency(tasks, PAPER, [[0], [1, 2], [3]], 2), rel=1e-12)


@pytest.mark.parametrize(("draft", "verify"), [(3.0, 1.0), (1.0, 3.0)])
def test_a_latency_just_above_the_best_cuts_nothing_that_the_exact_search_needs(draft, verify):
    """The last batch adds the time of the other stage: 3 + 1 s; twice its own time would be 6 s."""
    model = ModelShape(1, 1, 1)
    service = Service(model, model, Device(0.0, draft), Device(0.0, verify), 1.0)
    assert exact(search.Costs(service, 1, np.asarray([1]), np.asarray([1])), incumbent=4.5) == ([[0]], 4.0)


ONE = [Task(1, 1)]


def test_a_plan_of_nothing_has_no_gap():
    assert plan(ONE, Service(SMALL, LARGE, Device(0.0, 0.0), Device(0.0, 0.0), 0.5)).gap == 0.0
    assert BY_ID["batching.dp_gap"].check({**FREE, "labels": [0, 0]}).status.item() is Status.HOLDS


def memory_for(service: Service, length: int, prompt: int, answer: int, size: float) -> float:
    cache = Cache(service, length, "together")
    return float(peak_memory(service.draft, 0, 0, 0)) + float(cache.bytes(prompt, answer, size))


def drawn(seed: int, equal: bool) -> tuple[list[Task], Service, int]:
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
        machines.append(Device(share * overhead / float(operations(*model.sizes, prompt, 0)), overhead))
    single = max(task.input_tokens for task in tasks), max(task.output_tokens for task in tasks) + 2
    service = Service(small, large, machines[0], machines[1], float(rng.random()))
    room = float(rng.choice([1.0, 1.5, 2.5, 4.0, 100.0]))
    return tasks, replace(service, memory=memory_for(service, length, *single, room)), length


@pytest.mark.parametrize("equal", [True, False])
@pytest.mark.parametrize("rule", ["each", "together"])
def test_improved_is_within_a_twentieth_of_the_fastest_plan(rule, equal):
    """25 cases each but for six tasks in waves; Algorithm 1 loses up to 60% on such cases."""
    worst = {"improved": 0.0, "dp": 0.0}
    for seed in range(25):
        tasks, service, length = drawn(seed, equal)
        options = {"memory_rule": rule, "draft_lengths": [length]}
        waits = rule == "together" and methods.Problem(tasks, service, methods.Options()).costs(length).in_waves
        if waits and len(tasks) > 5:
            continue
        best = fastest(tasks, service, length) if waits else plan(tasks, service, "exact", **options).latency
        for method, loss in worst.items():
            worst[method] = max(loss, plan(tasks, service, method, **options).latency / best - 1)
    assert worst["improved"] <= 0.05
    assert worst["dp"] >= (0.01 if equal else 0.2)


def test_moves_keep_every_task_once_and_make_bad_plans_good():
    tasks = workload(12, output=64)
    problem = methods.Problem(tasks, PAPER, methods.Options())
    costs = problem.costs(2)
    waves = improved(costs, [[(k,)] for k in range(12)])  # from twelve waves
    assert sorted(task for wave in waves for batch in wave for task in batch) == list(range(12))
    batches = [problem.sorted[list(batch)].tolist() for wave in waves for batch in wave]
    latency = plan_latency(tasks, PAPER, batches, 2, "johnson", waves=[len(wave) for wave in waves])
    assert latency <= 1.01 * plan(tasks, PAPER, "exact", draft_lengths=[2]).latency


def test_waves_that_do_not_fit_are_no_move():
    tasks, service = [Task(100, 64)] * 6, replace(PAPER, memory=memory_for(PAPER, 2, 100, 64, 2.0))
    found = plan(tasks, service, "improved", draft_lengths=[2])
    assert len(found.waves) == 3
    assert plan_latency(tasks, service, found.batches, 2, "johnson", waves=found.waves) == found.latency
