"""For very few tasks: the best of all partitions and schedules, and the best of all divisions into waves."""

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
"""The best batches of one wave and their latency; None and infinity if no partition fits the memory."""

Label: TypeAlias = tuple[float, ...]
"""Times at which the two machines and each batch become free."""


def best_waves(costs: Costs, one_wave: OneWave) -> tuple[list[Batches], float]:
    """The best division of the tasks into successive waves, from the best plan of every subset: waves and latency."""
    # Plan every subset of the tasks as one wave; a bit mask stands for a subset
    count = len(costs.inputs)
    everything = (1 << count) - 1
    found: dict[int, tuple[Batches | None, float]] = {}
    for mask in range(1, everything + 1):
        members = [task for task in range(count) if mask >> task & 1]
        batches, latency = one_wave(replace(costs, inputs=costs.inputs[members], outputs=costs.outputs[members]))
        found[mask] = (batches and [[members[task] for task in batch] for batch in batches], latency)
    # Best division of each subset: one wave with its lowest task, then the best division of the rest
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
    """The subsets of a set that contain its lowest member."""
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
    """The smallest latency of all schedules of these batches, or the incumbent if none is below it.

    A state is the number of finished operations of each batch. A label of a state holds the times at which the two
    machines and the batches are free. A schedule without needless waiting appends its operations one by one, each as
    early as possible, so the search reaches all of these schedules. A label is removed if another label of its state is
    no larger in any entry, or if the remaining work cannot end before the incumbent.
    """
    times = draft, verify, steps
    best = min(incumbent, *(finish_time(rule(*times), verify) for rule in (in_turn, longest_first)))
    work = _WorkLeft(*times)
    # Layer n holds the states with n finished operations
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
        for m, done in enumerate(state):
            if done < len(self.chains[m]):
                after, machine = (*state[:m], done + 1, *state[m + 1 :]), done % 2
                for label in labels:
                    end = max(label[machine], label[2 + m]) + self.chains[m][done]
                    changed = list(label)
                    changed[machine] = changed[2 + m] = end
                    yield after, tuple(changed)

    def bound(self, state: tuple[int, ...], label: Label) -> float:
        """Lower bound on the latency of every completion of the label."""
        left = [self.left[m][done] for m, done in enumerate(state)]
        chains = max(ready + sum(work) for ready, work in zip(label[2:], left, strict=True))
        return max(label[0] + sum(work[0] for work in left), label[1] + sum(work[1] for work in left), chains)


def _by_machine(chain: list[float], done: int) -> tuple[float, float]:
    """Work left on each machine after the first ``done`` operations of a chain."""
    return sum(chain[done + done % 2 :: 2]), sum(chain[done + 1 - done % 2 :: 2])
