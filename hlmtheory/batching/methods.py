"""The planning methods behind :mod:`hlmtheory.batching`: from tasks to the best candidate over the draft lengths."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from hlmtheory._array import Array
from hlmtheory.batching import search
from hlmtheory.batching.exact import exact
from hlmtheory.serving import Service, Task, peak_memory

Batches: TypeAlias = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """Batches of task indices, how they are run, what that takes, and whether the search was whole."""

    batches: Batches
    order: str
    draft_length: int
    latency: float
    complete: bool


def columns(tasks: Sequence[Task]) -> tuple[Array, Array]:
    """Input and output lengths, shapes (K,)."""
    return np.asarray([task.input_tokens for task in tasks]), np.asarray([task.output_tokens for task in tasks])


class Problem(ABC):
    """Tasks sorted by prompt, with their costs at each draft length computed once."""

    def __init__(self, tasks: Sequence[Task], service: Service, static_size: int, max_labels: int) -> None:
        self.tasks, self.service, self.static_size, self.max_labels = tasks, service, static_size, max_labels
        self.inputs, self.outputs = columns(tasks)
        self.sorted = np.argsort(self.inputs, kind="stable")
        self._costs: dict[int, search.Costs] = {}

    def costs(self, length: int) -> search.Costs:
        """Costs of the sorted tasks."""
        if length not in self._costs:
            costs = search.Costs(self.service, length, self.inputs[self.sorted], self.outputs[self.sorted])
            self._costs[length] = costs
        return self._costs[length]

    @abstractmethod
    def measure(self, batches: Batches, length: int, order: str) -> float:
        """Latency of batches: the one evaluator, given by the room."""

    def plan(
        self, batches: Iterable[Iterable[int]], length: int, order: str = "given", *, complete: bool = True
    ) -> Candidate:
        """The candidate, measured."""
        fixed = tuple(tuple(int(task) for task in batch) for batch in batches)
        return Candidate(fixed, order, length, self.measure(fixed, length, order), complete)

    def of_runs(self, starts: Sequence[int], length: int, order: str = "given", *, complete: bool = True) -> Candidate:
        """The plan of runs of the sorted tasks."""
        return self.plan(np.split(self.sorted, starts[1:]), length, order, complete=complete)


def _best(plans: Iterable[Candidate]) -> Candidate:
    """(33): the least latency, the first of equals."""
    return min(plans, key=lambda plan: plan.latency)


def _dp(problem: Problem, lengths: list[int], *, printed: bool = False) -> Candidate:
    found = [(search.dynamic_program(problem.costs(length), printed_objective=printed), length) for length in lengths]
    if printed:
        return _best(problem.of_runs(starts, length) for (starts, _), length in found)
    (starts, _), length = min(found, key=lambda item: item[0][1])
    return problem.of_runs(starts, length)


def _dp_printed(problem: Problem, lengths: list[int]) -> Candidate:
    packs = [(search.printed_program(problem.costs(length)).packs, length) for length in lengths]
    return _best(problem.plan((problem.sorted[a:b] for a, b in pack), length) for pack, length in packs)


def _pareto(problem: Problem, lengths: list[int], *, order: str = "given") -> Candidate:
    """From the length with the least bound on, each search cut by the best so far."""
    best, whole = _dp(problem, lengths), True
    bounds = {length: search.lower_bound(problem.costs(length)) for length in lengths}
    for length in sorted(lengths, key=lambda length: bounds[length]):
        if bounds[length] < best.latency * (1.0 - search.ROUNDING):
            costs = problem.costs(length)
            starts, _, complete = search.pareto(costs, incumbent=best.latency, max_labels=problem.max_labels)
            whole &= complete
            if starts is not None:
                best = min(best, problem.of_runs(starts, length), key=lambda plan: plan.latency)
    return problem.plan(best.batches, best.draft_length, order, complete=whole)


def _exact(problem: Problem, lengths: list[int]) -> Candidate:
    """All partitions and orders; from the length with the least bound on, each search cut by the best so far."""
    best = _pareto(problem, lengths, order="johnson")
    for length in lengths:
        by_output = np.lexsort((problem.inputs, problem.outputs))
        costs = search.Costs(problem.service, length, problem.inputs[by_output], problem.outputs[by_output])
        starts, _ = search.dynamic_program(costs)
        best = min(
            best, problem.plan(np.split(by_output, starts[1:]), length, "johnson"), key=lambda plan: plan.latency
        )
    bounds = {length: search.lower_bound(problem.costs(length)) for length in lengths}
    for length in sorted(lengths, key=lambda length: bounds[length]):
        if bounds[length] < best.latency:
            batches, _ = exact(problem.costs(length), incumbent=best.latency)
            if batches is not None:
                best = problem.plan((problem.sorted[batch] for batch in batches), length, "johnson")
    return best


def _in_sizes(problem: Problem, size: int) -> list[Array]:
    """Batches of this size in order of arrival; smaller ones where the memory needs it."""
    batches, begin, count = [], 0, len(problem.tasks)
    while begin < count:
        end = min(begin + size, count)
        while _bytes(problem, begin, end) > problem.service.memory:
            end -= 1
        batches.append(np.arange(begin, end))
        begin = end
    return batches


def _bytes(problem: Problem, begin: int, end: int) -> float:
    inputs, outputs = problem.inputs[begin:end].max(), problem.outputs[begin:end].max()
    return float(peak_memory(problem.service.draft, inputs, outputs, end - begin))


def _of_size(size: int | None) -> Callable[[Problem, list[int]], Candidate]:
    def method(problem: Problem, lengths: list[int]) -> Candidate:
        batches = _in_sizes(problem, problem.static_size if size is None else size)
        return _best(problem.plan(batches, length) for length in lengths)

    return method


def _max(problem: Problem, lengths: list[int]) -> Candidate:
    """The most tasks that fit if each were the longest in both lengths."""
    longest = (problem.inputs.max(), problem.outputs.max())
    sizes = np.arange(1, len(problem.tasks) + 1)
    fits = peak_memory(problem.service.draft, *longest, sizes) <= problem.service.memory
    return _of_size(max(1, int(np.count_nonzero(fits))))(problem, lengths)


def _heuristic(problem: Problem, lengths: list[int]) -> Candidate:
    """Edge-sd Section IV-A: from batches of two on, larger ones until the latency rises."""

    def for_length(length: int) -> Candidate:
        best = problem.plan(_in_sizes(problem, min(2, len(problem.tasks))), length)
        for size in range(3, len(problem.tasks) + 1):
            larger = problem.plan(_in_sizes(problem, size), length)
            if larger.latency > best.latency:
                break
            best = larger
        return best

    return _best(for_length(length) for length in lengths)


def _sequential(problem: Problem, lengths: list[int]) -> Candidate:
    pipelined = _dp(problem, lengths)
    return problem.plan(pipelined.batches, pipelined.draft_length, "sequential")


METHODS: dict[str, Callable[[Problem, list[int]], Candidate]] = {
    "dp": _dp,
    "dp-printed-objective": lambda problem, lengths: _dp(problem, lengths, printed=True),
    "dp-printed": _dp_printed,
    "pareto": _pareto,
    "pareto+johnson": lambda problem, lengths: _pareto(problem, lengths, order="johnson"),
    "exact": _exact,
    "none": _of_size(1),
    "static": _of_size(None),
    "max": _max,
    "heuristic": _heuristic,
    "sequential": _sequential,
    "fixed-length": _dp,
    "autoregressive": _heuristic,
}
"""How each method of :func:`hlmtheory.batching.plan` finds its candidate."""
