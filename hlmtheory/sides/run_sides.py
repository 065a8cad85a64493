"""Sides of the theorems on the printed program of edge-sd."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hlmtheory._array import Array, to_numpy
from hlmtheory.batching import methods, search
from hlmtheory.batching.planner import plan_latency
from hlmtheory.serving import Service, Task


def costs_side(tasks: Sequence[Task], service: Service, length: int) -> search.Costs:
    return methods.Problem(tasks, service, methods.Options(rule="each")).costs(length)


def printed_value(tasks: Sequence[Task], service: Service, length: int) -> float:
    return float(search.printed_program(costs_side(tasks, service, length)).value[-1])


def printed_choice(tasks: Sequence[Task], service: Service, length: int) -> float:
    return float(search.printed_program(costs_side(tasks, service, length)).choice[-1])


def printed_runs(tasks: Sequence[Task], service: Service, length: int) -> float:
    """Return (22) of the runs that the printed table chose, with the backtrack repaired."""
    costs = costs_side(tasks, service, length)
    choice = np.maximum(search.printed_program(costs).choice, 1) - 1
    return costs.latency(search.runs(choice))


def best_last(tasks: Sequence[Task], service: Service, length: int, *, printed: bool) -> float:
    """Return the least (22) over the last batch, after the runs that (29), printed or mended, gives before it."""
    costs = costs_side(tasks, service, length)

    def latency(start: int) -> float:
        before = replace(costs, inputs=costs.inputs[:start], outputs=costs.outputs[:start])
        found = search.dynamic_program(before, printed_objective=printed)[0].starts if start else []
        return costs.latency([*found, start])

    return min(map(latency, range(costs.first[-1], len(costs.inputs))))


def packed_side(tasks: Sequence[Task], service: Service, length: int) -> float:
    """Return Σ_k Σ_m x_k^m of the printed backtrack."""
    return float(sum(stop - start for start, stop in search.printed_program(costs_side(tasks, service, length)).packs))


def worth(tasks: list[Task], service: Service, length: int, batches: Sequence[Sequence[int]]) -> float:
    """Return the latency of the competitor's batches in the best order at each step; (24b) is an assumption."""
    return plan_latency(tasks, service, batches, length, "johnson", memory_rule="ignored")


def as_given(tasks: list[Task], service: Service, length: int, batches: Sequence[Sequence[int]]) -> float:
    return plan_latency(tasks, service, batches, length, memory_rule="ignored")


def are_runs(input_tokens: Array, labels: Array) -> Array:
    by_input = np.argsort(to_numpy(input_tokens), axis=-1, kind="stable")
    return (np.diff(np.take_along_axis(to_numpy(labels), by_input, axis=-1), axis=-1) >= 0).all(axis=-1)
