"""For very few tasks: the best of all partitions and schedules, and the best of all divisions into waves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from hlmtheory._array import Array
from hlmtheory.batching.exact import Batches, Blocks
from hlmtheory.batching.search import ROUNDING, Costs
from hlmtheory.serving.free import finish_time, in_turn, longest_first, partition_bound

Wave: TypeAlias = tuple[Batches | None, float, float]
"""Batches of one wave, their latency, and a lower bound on it; None and infinity if no partition fits the memory."""

Label: TypeAlias = tuple[float, ...]
"""Earliest times at which the two machines and the next operation of each batch can begin."""

WIDTH, LABELS = 10_000, 500_000
"""Largest number of labels that a search of schedules keeps at a time, and that all searches of a plan look at."""


@dataclass(slots=True)
class Budget:
    """The number of labels that the searches of a plan may still look at."""

    left: int = field(default_factory=lambda: LABELS)


def best_waves(costs: Costs, one_wave: Callable[[Costs], Wave]) -> tuple[list[Batches], float, float]:
    """The best division of the tasks into successive waves: the waves, their latency and a lower bound on it.

    Where all tasks fit the memory together, one wave is never slower than several, with a barrier or without.
    """
    count = len(costs.inputs)
    everything = (1 << count) - 1
    # Plan every subset of the tasks as one wave; a bit mask stands for a subset
    planned: dict[int, Wave] = {}
    for mask in range(1, everything + 1) if costs.in_waves else [everything]:
        members = [task for task in range(count) if mask >> task & 1]
        batches, latency, bound = one_wave(replace(costs, inputs=costs.inputs[members], outputs=costs.outputs[members]))
        planned[mask] = batches and [[members[task] for task in batch] for batch in batches], latency, bound
    # Best division of each subset: one wave with its lowest task, then the best division of the rest
    best: dict[int, tuple[list[Batches], float, float]] = {0: ([], 0.0, 0.0)}
    for mask in sorted(planned):
        options, bounds = [], []
        for wave in _with_lowest(mask) if costs.in_waves else [mask]:
            batches, latency, bound = planned[wave]
            others, rest, rest_bound = best[mask ^ wave]
            bounds.append(bound + rest_bound)
            if batches is not None:
                options.append(([batches, *others], latency + rest))
        best[mask] = (*min(options, key=lambda option: option[1]), min(bounds))
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


def exact_free(costs: Costs, budget: Budget) -> Wave:
    """The best of all partitions of one wave and of all schedules of each, as far as the budget lasts."""
    blocks = Blocks(costs, runs_only=False)
    partitions, _ = blocks.partitions(np.inf)
    best: Batches | None = None
    latency = least = np.inf
    # Lower bound of each partition
    cases = []
    for partition in partitions:
        batches = blocks.members(partition)
        times = batch_times(costs, batches)
        cases.append((partition_bound(*times), batches, times))
    # Best schedule of each partition, until the bounds exceed the best latency
    for bound, batches, times in sorted(cases, key=lambda case: case[0]):
        if bound >= latency * (1.0 - ROUNDING):
            break
        shortest, below = best_schedule(*times, budget, incumbent=latency)
        least = min(least, max(below, bound * (1.0 - ROUNDING)))
        if shortest < latency:
            best, latency = batches, shortest
    return best, latency, min(least, latency)


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


def best_schedule(
    draft: Array, verify: Array, steps: Array, budget: Budget, *, incumbent: float = np.inf
) -> tuple[float, float]:
    """The smallest latency of all schedules of these batches, or the incumbent if none is below it; and a lower bound.

    A state is the number of finished operations of each batch. A label of a state holds the times at which the two
    machines are free and each batch's next operation can begin. From a label grow all schedules in which no operation
    can begin earlier unless another begins later: of the operations that can be next, one ends first, and an operation
    that begins before this end on the same machine comes next there. A label is removed if another label of its state
    is no larger in any entry, or if the remaining work cannot end before the incumbent. Where more than :data:`WIDTH`
    labels are left, or the budget is spent, those with the smallest bounds stay. The lower bound is then the smallest
    bound of those that go, else the latency.
    """
    times = draft, verify, steps
    best = min(incumbent, *(finish_time(rule(*times), verify) for rule in (in_turn, longest_first)))
    work, cut = _WorkLeft(*times), np.inf
    # Layer n holds the states with n finished operations
    layer: dict[tuple[int, ...], list[Label]] = {(0,) * len(steps): [(0.0,) * (2 + len(steps))]}
    for _ in range(2 * int(steps.sum())):
        following: dict[tuple[int, ...], list[Label]] = {}
        for state, labels in layer.items():
            budget.left -= len(labels)
            for after, label in work.appended(state, labels):
                if work.bound(after, label) < best * (1.0 - ROUNDING):
                    _keep(following.setdefault(after, []), label)
        layer, lost = work.nearest(following, WIDTH if budget.left > 0 else 1)
        cut = min(cut, lost)
    best = min([best, *(label[1] for labels in layer.values() for label in labels)])
    return best, min(best, cut * (1.0 - ROUNDING))


def _keep(labels: list[Label], label: Label) -> None:
    """Add a label unless another one dominates it, and remove the labels that it dominates."""
    if any(all(a <= b for a, b in zip(other, label, strict=True)) for other in labels):
        return
    labels[:] = [other for other in labels if not all(a <= b for a, b in zip(label, other, strict=True))] + [label]


class _WorkLeft:
    """The operations of each batch, and the work that is left after each of them."""

    def __init__(self, draft: Array, verify: Array, steps: Array) -> None:
        self.chains = [
            np.stack([draft[:last, m], verify[:last, m]], axis=1).ravel().tolist() for m, last in enumerate(steps)
        ]
        self.left = [[_by_machine(chain, done) for done in range(len(chain) + 1)] for chain in self.chains]

    def appended(self, state: tuple[int, ...], labels: list[Label]) -> Iterator[tuple[tuple[int, ...], Label]]:
        """Every pair of state and label that one more operation leads to."""
        waiting = [m for m, done in enumerate(state) if done < len(self.chains[m])]
        for label in labels:
            ends = {m: label[2 + m] + self.chains[m][state[m]] for m in waiting}
            first = min(waiting, key=ends.__getitem__)
            for m in waiting:
                if m == first or ((state[m] - state[first]) % 2 == 0 and label[2 + m] < ends[first]):
                    after = (*state[:m], state[m] + 1, *state[m + 1 :])
                    yield after, self._begun(after, label, state[m] % 2, m, ends[m])

    def _begun(self, state: tuple[int, ...], label: Label, machine: int, batch: int, end: float) -> Label:
        """The label after an operation; no next operation begins before its machine is free."""
        machines = (end, label[1]) if machine == 0 else (label[0], end)
        return machines + tuple(
            max(end if m == batch else label[2 + m], machines[done % 2]) if done < len(self.chains[m]) else 0.0
            for m, done in enumerate(state)
        )

    def bound(self, state: tuple[int, ...], label: Label) -> float:
        """Lower bound on the latency of every completion of the label."""
        left = [self.left[m][done] for m, done in enumerate(state)]
        chains = max(ready + sum(work) for ready, work in zip(label[2:], left, strict=True))
        return max(label[0] + sum(work[0] for work in left), label[1] + sum(work[1] for work in left), chains)

    def nearest(
        self, layer: dict[tuple[int, ...], list[Label]], width: int
    ) -> tuple[dict[tuple[int, ...], list[Label]], float]:
        """The labels with the smallest bounds, and the smallest bound of the others."""
        if sum(map(len, layer.values())) <= width:
            return layer, np.inf
        ranked = sorted((self.bound(state, label), state, label) for state, labels in layer.items() for label in labels)
        kept: dict[tuple[int, ...], list[Label]] = {}
        for _, state, label in ranked[:width]:
            kept.setdefault(state, []).append(label)
        return kept, ranked[width][0]


def _by_machine(chain: list[float], done: int) -> tuple[float, float]:
    """Work left on each machine after the first ``done`` operations of a chain."""
    return sum(chain[done + done % 2 :: 2]), sum(chain[done + 1 - done % 2 :: 2])
