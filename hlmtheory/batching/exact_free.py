"""The best of all partitions and all schedules of very few tasks, and the best of all divisions into waves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from hlmtheory._array import Array
from hlmtheory.batching.exact import Batches, Blocks
from hlmtheory.batching.search import ROUNDING, Costs
from hlmtheory.serving.free import finish_time, in_turn, longest_first, partition_bound

OneWave: TypeAlias = Callable[[Costs], tuple[Batches | None, float]]
"""The best batches of one wave and what they take; None and infinity if no partition fits."""

Label: TypeAlias = tuple[float, ...]
"""When the two machines and each batch are free."""


def best_waves(costs: Costs, one_wave: OneWave) -> tuple[list[Batches], float]:
    """The best division of the tasks into waves, one after another, by the best of every subset: waves and latency."""
    count = len(costs.inputs)
    everything = (1 << count) - 1
    found: dict[int, tuple[Batches | None, float]] = {}
    for mask in range(1, everything + 1):
        members = [task for task in range(count) if mask >> task & 1]
        batches, latency = one_wave(replace(costs, inputs=costs.inputs[members], outputs=costs.outputs[members]))
        found[mask] = (batches and [[members[task] for task in batch] for batch in batches], latency)
    best: dict[int, tuple[list[Batches], float]] = {0: ([], 0.0)}
    for mask in range(1, everything + 1):
        options = []
        for wave in _with_lowest(mask):
            batches, latency = found[wave]
            others, rest = best[mask ^ wave]
            if batches is not None:
                options.append(([batches, *others], latency + rest))
        best[mask] = min(options, key=lambda option: option[1])
    return best[everything]


def _with_lowest(mask: int) -> Iterator[int]:
    """The subsets of a set that hold its lowest member."""
    low = mask & -mask
    rest = part = mask ^ low
    while True:
        yield part | low
        if not part:
            return
        part = (part - 1) & rest


def exact_free(costs: Costs) -> tuple[Batches | None, float]:
    """The best of all partitions of one wave and of all schedules of each: batches and latency."""
    blocks = Blocks(costs, runs_only=False)
    partitions, _ = blocks.partitions(np.inf)
    best: Batches | None = None
    latency = np.inf
    cases = []
    for partition in partitions:
        batches = blocks.members(partition)
        times = batch_times(costs, batches)
        cases.append((partition_bound(*times), batches, times))
    for bound, batches, times in sorted(cases, key=lambda case: case[0]):
        if bound >= latency * (1.0 - ROUNDING):
            break
        found = best_schedule(*times, incumbent=latency)
        if found < latency:
            best, latency = batches, found
    return best, latency


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


def best_schedule(draft: Array, verify: Array, steps: Array, *, incumbent: float = np.inf) -> float:
    """The least latency of all schedules of these batches, or the incumbent if none is below.

    A state says how many operations of each batch are done; its labels, when the two machines and the batches are
    free. Each schedule without needless waiting appends its operations one by one, each as early as it can, so all
    are reached. A label goes if another of its state is nowhere above it, or if the work left cannot be done below
    the incumbent.
    """
    times = draft, verify, steps
    best = min(incumbent, *(finish_time(rule(*times), verify) for rule in (in_turn, longest_first)))
    work = _WorkLeft(*times)
    layer: dict[tuple[int, ...], list[Label]] = {(0,) * len(steps): [(0.0,) * (2 + len(steps))]}
    for _ in range(2 * int(steps.sum())):
        following: dict[tuple[int, ...], list[Label]] = {}
        for state, labels in layer.items():
            for after, label in work.appended(state, labels):
                if work.bound(after, label) < best * (1.0 - ROUNDING):
                    _keep(following.setdefault(after, []), label)
        layer = following
    return min([best, *(max(label) for labels in layer.values() for label in labels)])


def _keep(labels: list[Label], label: Label) -> None:
    """Add a label unless one is nowhere above it; remove those that it is nowhere above."""
    if any(all(a <= b for a, b in zip(other, label, strict=True)) for other in labels):
        return
    labels[:] = [other for other in labels if not all(a <= b for a, b in zip(label, other, strict=True))] + [label]


class _WorkLeft:
    """Operations of each batch and what is left after each."""

    def __init__(self, draft: Array, verify: Array, steps: Array) -> None:
        self.chains = [
            np.stack([draft[:last, m], verify[:last, m]], axis=1).ravel().tolist() for m, last in enumerate(steps)
        ]
        self.left = [[_by_machine(chain, done) for done in range(len(chain) + 1)] for chain in self.chains]

    def appended(self, state: tuple[int, ...], labels: list[Label]) -> Iterator[tuple[tuple[int, ...], Label]]:
        """Every state and label one operation further."""
        for m, done in enumerate(state):
            if done < len(self.chains[m]):
                after, machine = (*state[:m], done + 1, *state[m + 1 :]), done % 2
                for label in labels:
                    end = max(label[machine], label[2 + m]) + self.chains[m][done]
                    changed = list(label)
                    changed[machine] = changed[2 + m] = end
                    yield after, tuple(changed)

    def bound(self, state: tuple[int, ...], label: Label) -> float:
        """What no completion of the label falls below."""
        left = [self.left[m][done] for m, done in enumerate(state)]
        chains = max(ready + sum(work) for ready, work in zip(label[2:], left, strict=True))
        return max(label[0] + sum(work[0] for work in left), label[1] + sum(work[1] for work in left), chains)


def _by_machine(chain: list[float], done: int) -> tuple[float, float]:
    """Work left on each machine after so many operations of a chain."""
    return sum(chain[done + done % 2 :: 2]), sum(chain[done + 1 - done % 2 :: 2])
