"""The best of all divisions of few tasks into waves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from hlmtheory._array import Array
from hlmtheory.batching.exact import Batches, exact
from hlmtheory.batching.search import Costs


def best_waves(costs: Costs) -> tuple[list[Batches], float]:
    """The best division of the tasks into successive waves, each with its best batches, and its latency."""
    everything = (1 << len(costs.inputs)) - 1
    # Plan every subset of the tasks as one wave; a bit mask stands for a subset
    planned: dict[int, tuple[Batches | None, float]] = {}
    for mask in range(1, everything + 1):
        members = [task for task in range(len(costs.inputs)) if mask >> task & 1]
        batches, latency = exact(replace(costs, inputs=costs.inputs[members], outputs=costs.outputs[members]))
        planned[mask] = batches and [[members[task] for task in batch] for batch in batches], latency
    # Best division of each subset: one wave with its lowest task, then the best division of the rest
    best: dict[int, tuple[list[Batches], float]] = {0: ([], 0.0)}
    for mask in sorted(planned):
        options = []
        for wave in _with_lowest(mask):
            batches, latency = planned[wave]
            others, rest = best[mask ^ wave]
            if batches is not None:
                options.append(([batches, *others], latency + rest))
        best[mask] = min(options, key=lambda option: option[1])
    return best[everything]


def _with_lowest(mask: int) -> Iterator[int]:
    """The subsets of a set that contain its lowest member."""
    low = mask & -mask
    rest = part = mask ^ low
    while True:
        yield part | low
        if not part:
            return
        part = (part - 1) & rest


def batch_times(costs: Costs, batches: Batches) -> tuple[Array, Array, Array]:
    """Stage times (N, M) and steps (M,) of batches of the tasks."""
    top = [max(batch, key=lambda task: costs.inputs[task]) for batch in batches]
    sizes = np.asarray([float(len(batch)) for batch in batches])
    steps = np.asarray([costs.steps[batch].max() for batch in batches])
    draft, verify = (
        (sizes[:, None] * unit[top] + fixed).T[: steps.max()]
        for unit, fixed in zip(costs.unit, costs.fixed, strict=True)
    )
    return draft, verify, steps
