"""Sides of the theorems on schedules without a barrier and on the memory that batches share."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from hlmtheory.batching import methods
from hlmtheory.batching.facilities import facility_bound
from hlmtheory.batching.memory import Cache
from hlmtheory.batching.planner import plan_latency
from hlmtheory.batching.search import Costs
from hlmtheory.serving import Service, Task
from hlmtheory.serving.costs import decoding_steps, memory_bytes

_CHECKED: dict[str, Any] = {"memory_rule": "ignored"}
"""The memory of the competitor is not checked here: an assumption of each claim covers it."""


def _in_waves(tasks: list[Task], service: Service, length: int, batches: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return the competitor's waves: batches join in order as long as they fit in memory."""
    inputs, outputs = methods.columns(tasks)
    cache = Cache(service, length, "together")
    return cache.waves([cache.of_batch(inputs[batch], outputs[batch]) for batch in batches])


def johnson_side(tasks: list[Task], service: Service, length: int, batches: Sequence[Sequence[int]]) -> float:
    waves = _in_waves(tasks, service, length, batches)
    return plan_latency(tasks, service, batches, length, "johnson", **_CHECKED, waves=waves)


def by_facilities(schedule: str, tasks: list[Task], service: Service, length: int) -> float:
    """Return the bound alone, not capped by the latency of a plan; 0 for a task beyond the memory."""
    inputs, outputs = methods.columns(tasks)
    order = np.argsort(inputs, kind="stable")
    costs = Costs(service, length, inputs[order], outputs[order], "together")
    fits = (costs.cache.bytes(costs.inputs, costs.outputs, 1) <= costs.cache.capacity).all()
    return facility_bound(costs, schedule, np.inf) if fits else 0.0


def fit_alone(tasks: list[Task], service: Service, length: int, batches: Sequence[Sequence[int]]) -> bool:
    """Return whether the cache of each batch, drafts included, fits in memory on its own."""
    inputs, outputs = methods.columns(tasks)
    cache = Cache(service, length, "together")
    return all(cache.of_batch(inputs[batch], outputs[batch]) <= cache.capacity for batch in batches)


def fit_together(tasks: list[Task], service: Service, length: int, batches: Sequence[Sequence[int]]) -> bool:
    return len(_in_waves(tasks, service, length, batches)) == 1 and fit_alone(tasks, service, length, batches)


def cached_at_once(tasks: list[Task], service: Service, length: int, batches: Sequence[Sequence[int]]) -> float:
    """Return the peak bytes of all batches together on the draft machine, counted step by step.

    Two cases are counted: all drafts accepted, and no draft accepted. Another pattern may need even more memory.
    """
    inputs, outputs = methods.columns(tasks)
    sizes, most = service.draft.sizes, 0.0
    for made in (1, length + 1):  # tokens of a step
        for n in range(1, int(decoding_steps(outputs.max(), 0.0, 1)) + 1):
            before = (n - 1) * made
            tokens = [
                len(batch) * (inputs[batch].max() + before + length - 1.0)
                for batch in batches
                if before < outputs[batch].max()
            ]
            most = max(most, float(memory_bytes(*sizes, np.sum(tokens), 1)))
    return most


def memory_side(tasks: list[Task], service: Service, length: int, batches: Sequence[Sequence[int]]) -> float:
    return service.memory
