"""The planning methods behind :mod:`hlmtheory.batching`: from tasks to the best candidate over the draft lengths."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from hlmtheory._array import Array
from hlmtheory.batching import bounds, search
from hlmtheory.batching.exact import exact
from hlmtheory.batching.facilities import Known, facility_bound
from hlmtheory.batching.memory import Cache
from hlmtheory.batching.moves import improved
from hlmtheory.batching.pareto import pareto
from hlmtheory.serving import Service, Task, inference_latency, stage_times
from hlmtheory.serving.costs import decoding_steps
from hlmtheory.serving.pipeline import finish_time, in_turn, longest_first, partition_bound, step_times

Batches: TypeAlias = tuple[tuple[int, ...], ...]


STATIC = 4
"""Tasks per batch of ``static``; the paper prints no number."""

FEW_TASKS = 16
"""Most tasks for which ``improved`` begins from several plans."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan that a method found: batches of task indices, batches per wave, order, draft length, latency (s).

    ``complete`` says whether the search was complete, and ``bound`` is the lower bound (s) that it found itself.
    """

    batches: Batches
    waves: tuple[int, ...]
    order: str
    draft_length: int
    latency: float
    complete: bool
    bound: float = 0.0


def columns(tasks: Sequence[Task]) -> tuple[Array, Array]:
    """Input and output lengths, shapes (K,)."""
    return np.asarray([task.input_tokens for task in tasks]), np.asarray([task.output_tokens for task in tasks])


@dataclass(frozen=True, slots=True)
class Options:
    """The arguments of :func:`hlmtheory.batching.plan` besides the method."""

    schedule: str = "barrier"
    rule: str = "together"
    max_labels: int = 100


class Problem:
    """Tasks sorted by prompt, with their costs at each draft length computed once."""

    def __init__(self, tasks: Sequence[Task], service: Service, options: Options) -> None:
        self.tasks, self.service, self.options = tasks, service, options
        self.inputs, self.outputs = columns(tasks)
        self.sorted = np.argsort(self.inputs, kind="stable")
        self._costs: dict[int, search.Costs] = {}
        self._bounds: dict[int, float] = {}

    def costs(self, length: int) -> search.Costs:
        """Costs of the sorted tasks."""
        if length not in self._costs:
            self._costs[length] = self.in_order(self.sorted, length)
        return self._costs[length]

    def in_order(self, order: Array, length: int) -> search.Costs:
        """Costs of the tasks in this order."""
        return search.Costs(self.service, length, self.inputs[order], self.outputs[order], self.options.rule)

    def bound(self, length: int) -> float:
        """Lower bound on the latency of every plan with this draft length."""
        if length not in self._bounds:
            self._bounds[length] = bounds.lower_bound(self.costs(length), self.options.schedule)
        return self._bounds[length]

    def close_bound(self, lengths: list[int], latency: float) -> float:
        """The larger of both lower bounds on every plan with these draft lengths; ``latency`` of any plan caps it."""
        least, known = latency, Known()
        for length in sorted(lengths, key=self.bound):
            if self.bound(length) < least:
                closer = facility_bound(self.costs(length), self.options.schedule, least, known)
                least = min(least, max(self.bound(length), closer))
        return least

    def cache(self, length: int) -> Cache:
        """The size of the caches."""
        return Cache(self.service, length, self.options.rule)

    def plan(
        self,
        batches: Iterable[Iterable[int]],
        length: int,
        order: str = "given",
        *,
        waves: tuple[int, ...] | None = None,
        schedule: str | None = None,
    ) -> Candidate:
        """The candidate with its latency; if no waves are given, batches join a wave in order until one does not fit.

        A free schedule is also tried with the longest batch first. If ``schedule`` is None, it is that of the problem.
        """
        schedule = schedule or self.options.schedule
        fixed = tuple(tuple(int(task) for task in batch) for batch in batches)
        if waves is None:
            cache = self.cache(length)
            waves = cache.waves([cache.of_batch(self.inputs[list(b)], self.outputs[list(b)]) for b in fixed])
        orders = [order, "longest"] if schedule == "free" and order != "sequential" else [order]
        return _best(
            Candidate(
                fixed, waves, one, length, measured(self.tasks, self.service, fixed, waves, length, one, schedule), True
            )
            for one in orders
        )

    def of_runs(self, runs: search.Runs, length: int, order: str = "given", *, by: Array | None = None) -> Candidate:
        """The plan of runs of the tasks in this order, sorted by prompt if none is given."""
        tasks = np.split(self.sorted if by is None else by, runs.starts[1:])
        return self.plan(tasks, length, order, waves=runs.waves)


def measured(
    tasks: Sequence[Task],
    service: Service,
    batches: Sequence[Sequence[int]],
    waves: Sequence[int],
    length: int,
    order: str,
    schedule: str,
) -> float:
    """Latency as in :func:`plan_latency`, without its checks: the batches of ``dp-printed`` need not be a partition."""
    inputs, outputs = columns(tasks)
    total, begin = 0.0, 0
    for count in waves:
        wave = [np.asarray(batch) for batch in batches[begin : begin + count]]
        begin += count
        steps = decoding_steps([outputs[batch].max() for batch in wave], service.acceptance, length)
        prompts, sizes = [inputs[batch].max() for batch in wave], [len(batch) for batch in wave]
        total += _of_wave(*stage_times(service, length, prompts, sizes), steps, order, schedule)
    return total


def _of_wave(draft: Array, verify: Array, steps: Array, order: str, schedule: str) -> float:
    """Latency of the batches of one wave, from their stages (M, 3)."""
    if order == "given" and schedule == "barrier":
        return float(inference_latency(draft, verify, steps))
    n = np.arange(1, steps.max() + 1)[:, None]
    d, v = (np.where(n <= steps, step_times(stage, n), 0.0) for stage in (draft, verify))
    if order == "sequential":
        return float(d.sum() + v.sum())
    if schedule == "barrier":
        return float(search.johnson_latency(d, v).sum())
    if order == "longest":
        return finish_time(longest_first(d, v, steps), v)
    sequence = search.johnson_order(d, v) if order == "johnson" else None
    return finish_time(in_turn(d, v, steps, sequence), v)


def _over_lengths(problem: Problem, lengths: list[int], plan: Callable[[int], Candidate]) -> Candidate:
    """The plan with the best draft length, (33), the first of equals.

    Lengths are tried by rising bound; one whose bound exceeds the best latency so far is left out.
    """
    found: dict[int, Candidate] = {}
    for length in sorted(lengths, key=problem.bound):
        if not found or problem.bound(length) <= min(one.latency for one in found.values()):
            found[length] = plan(length)
    return _best(found[length] for length in lengths if length in found)


def _best(plans: Iterable[Candidate]) -> Candidate:
    return min(plans, key=lambda plan: plan.latency)


def _dp(problem: Problem, lengths: list[int], *, printed: bool = False) -> Candidate:
    found = [(search.dynamic_program(problem.costs(length), printed_objective=printed), length) for length in lengths]
    if printed or problem.options.schedule == "free":
        runs = {length: runs for (runs, _), length in found}
        return _over_lengths(problem, lengths, lambda length: problem.of_runs(runs[length], length))
    (found_runs, _), length = min(found, key=lambda item: item[0][1])
    return problem.of_runs(found_runs, length)


def _dp_printed(problem: Problem, lengths: list[int]) -> Candidate:
    packs = [(search.printed_program(problem.costs(length)).packs, length) for length in lengths]
    return _best(problem.plan((problem.sorted[a:b] for a, b in pack), length) for pack, length in packs)


def _by_output(problem: Problem, lengths: list[int], order: str) -> Candidate:
    """Algorithm 1 on the tasks sorted by output length, for tasks whose output lengths differ."""
    by = np.lexsort((problem.inputs, problem.outputs))
    found = [(search.dynamic_program(problem.in_order(by, length))[0], length) for length in lengths]
    return _best(problem.of_runs(runs, length, order, by=by) for runs, length in found)


def _pareto(problem: Problem, lengths: list[int]) -> Candidate:
    """``pareto`` at each draft length, by rising bound; the best latency so far cuts each search."""
    # Start from the plan of Algorithm 1
    runs, latency, shortest = min(
        ((*search.dynamic_program(problem.costs(length)), length) for length in lengths), key=lambda item: item[1]
    )
    # Search the draft lengths whose bound is below it
    found, whole = (runs, shortest), True
    floor = {length: bounds.barrier_bound(problem.costs(length)) for length in lengths}
    for length in sorted(lengths, key=lambda length: floor[length]):
        if floor[length] < latency * (1.0 - search.ROUNDING):
            labels = problem.options.max_labels
            better, value, complete = pareto(problem.costs(length), incumbent=latency, max_labels=labels)
            whole &= complete
            if better is not None and value < latency:
                found, latency = (better, length), value
    return replace(problem.of_runs(*found), complete=whole)


def _improved(problem: Problem, lengths: list[int]) -> Candidate:
    """The best plan of Algorithm 1 in Johnson's order, by prompt or by output, improved by moves of tasks.

    Few tasks begin from both plans and from batches of one task, and keep the fastest result.
    """
    runs = {length: search.dynamic_program(problem.costs(length))[0] for length in lengths}
    starts = [_best(problem.of_runs(runs[length], length, "johnson") for length in lengths)]
    if np.ptp(problem.outputs) > 0:
        starts.append(_by_output(problem, lengths, "johnson"))
    best = _best(starts)
    if len(problem.tasks) > FEW_TASKS:
        return _best([best, _moved(problem, best)])
    alone = problem.plan(([task] for task in problem.sorted), best.draft_length, "johnson")
    return _best([*starts, *(_moved(problem, start) for start in (*starts, alone))])


def _moved(problem: Problem, start: Candidate) -> Candidate:
    place = np.argsort(problem.sorted)
    batches = [tuple(sorted(place[list(batch)].tolist())) for batch in start.batches]
    edges = np.cumsum([0, *start.waves])
    waves = improved(problem.costs(start.draft_length), [batches[a:b] for a, b in itertools.pairwise(edges)])
    moved = (problem.sorted[list(batch)] for wave in waves for batch in wave)
    return problem.plan(moved, start.draft_length, "johnson", waves=tuple(map(len, waves)))


def _exact(problem: Problem, lengths: list[int]) -> Candidate:
    """All partitions and orders at each draft length, by rising bound; the best latency so far cuts each search."""
    best = _improved(problem, lengths)
    floor = {length: problem.bound(length) for length in lengths}
    for length in sorted(lengths, key=lambda length: floor[length]):
        if floor[length] < best.latency:
            batches, _ = exact(problem.costs(length), incumbent=best.latency)
            if batches is not None:
                best = problem.plan((problem.sorted[batch] for batch in batches), length, "johnson")
    return replace(best, complete=True, bound=best.latency)


def _in_sizes(problem: Problem, size: int, length: int) -> list[Array]:
    """Batches of this size in order of arrival; smaller where the memory does not hold that many tasks."""
    batches, begin, count, cache = [], 0, len(problem.tasks), problem.cache(length)
    while begin < count:
        end = min(begin + size, count)
        while cache.of_batch(problem.inputs[begin:end], problem.outputs[begin:end]) > cache.capacity:
            end -= 1
        batches.append(np.arange(begin, end))
        begin = end
    return batches


def _of_size(size: int) -> Callable[[Problem, list[int]], Candidate]:
    return lambda problem, lengths: _over_lengths(
        problem, lengths, lambda length: problem.plan(_in_sizes(problem, size, length), length)
    )


def _max(problem: Problem, lengths: list[int]) -> Candidate:
    """Batches of the largest size that fits if every task had the longest prompt and answer."""
    longest, sizes = (problem.inputs.max(), problem.outputs.max()), np.arange(1, len(problem.tasks) + 1)

    def for_length(length: int) -> Candidate:
        cache = problem.cache(length)
        fits = max(1, int(np.count_nonzero(cache.bytes(*longest, sizes) <= cache.capacity)))
        return problem.plan(_in_sizes(problem, fits, length), length)

    return _over_lengths(problem, lengths, for_length)


def _heuristic(problem: Problem, lengths: list[int]) -> Candidate:
    """Edge-sd Section IV-A: batches of two, then larger ones until the latency rises."""

    def for_length(length: int) -> Candidate:
        best = problem.plan(_in_sizes(problem, min(2, len(problem.tasks)), length), length, schedule="barrier")
        for size in range(3, len(problem.tasks) + 1):
            larger = problem.plan(_in_sizes(problem, size, length), length, schedule="barrier")
            if larger.latency > best.latency:
                break
            best = larger
        return problem.plan(best.batches, length, waves=best.waves) if problem.options.schedule == "free" else best

    return _over_lengths(problem, lengths, for_length)


def _balanced(problem: Problem, lengths: list[int]) -> Candidate:
    """Waves of about equal size, each in even runs: the best three by the bound on their free schedules.

    Up to two waves more than the minimum are tried, at the four draft lengths with the smallest bounds.
    """
    found = []
    for length in sorted(lengths, key=problem.bound)[:4]:
        costs = problem.costs(length)
        fewest = costs.cache.fewest_waves(costs.inputs, costs.outputs)
        for waves in range(fewest, min(fewest + 2, len(costs.inputs)) + 1):
            split = [_even_runs(costs, wave) for wave in np.array_split(np.arange(len(costs.inputs)), waves)]
            if all(bound < np.inf for bound, _ in split):
                found.append((sum(bound for bound, _ in split), length, [runs for _, runs in split]))
    if not found:
        return _dp(problem, lengths)
    return _best(
        problem.plan(
            (problem.sorted[run] for wave in waves for run in wave), length, waves=tuple(len(wave) for wave in waves)
        )
        for _, length, waves in sorted(found, key=lambda item: item[0])[:3]
    )


def _even_runs(costs: search.Costs, wave: Array) -> tuple[float, list[Array]]:
    """Smallest bound and the runs of about equal size of one wave that have it; infinite if none fits."""
    best, runs = np.inf, [wave]
    for count in range(1, min(len(wave), bounds.MOST_BATCHES) + 1):
        split = np.array_split(wave, count)
        needs = [costs.cache.of_batch(costs.inputs[run], costs.outputs[run]) for run in split]
        if (sum(needs) if costs.cache.shared else max(needs)) <= costs.cache.capacity:
            value = partition_bound(*_batch_times(costs, [run.tolist() for run in split]))
            if value >= best:
                break  # more batches only add their fixed costs
            best, runs = value, split
    return best, runs


def _batch_times(costs: search.Costs, batches: list[list[int]]) -> tuple[Array, Array, Array]:
    top = [max(batch, key=lambda task: costs.inputs[task]) for batch in batches]
    sizes = np.asarray([float(len(batch)) for batch in batches])
    steps = np.asarray([costs.steps[batch].max() for batch in batches])
    draft, verify = (
        (sizes[:, None] * unit[top] + fixed).T[: steps.max()]
        for unit, fixed in zip(costs.unit, costs.fixed, strict=True)
    )
    return draft, verify, steps


def _sequential(problem: Problem, lengths: list[int]) -> Candidate:
    pipelined = _dp(problem, lengths)
    return problem.plan(pipelined.batches, pipelined.draft_length, "sequential", waves=pipelined.waves)


METHODS: dict[str, Callable[[Problem, list[int]], Candidate]] = {
    "dp": _dp,
    "dp-printed-objective": lambda problem, lengths: _dp(problem, lengths, printed=True),
    "dp-printed": _dp_printed,
    "pareto": _pareto,
    "improved": _improved,
    "exact": _exact,
    "balanced": _balanced,
    "none": _of_size(1),
    "static": _of_size(STATIC),
    "max": _max,
    "heuristic": _heuristic,
    "sequential": _sequential,
    "fixed-length": _dp,
    "autoregressive": _heuristic,
}
"""The function of each method of :func:`hlmtheory.batching.plan`."""
