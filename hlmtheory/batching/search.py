"""The searches behind :mod:`hlmtheory.batching`, for one draft length and tasks in one order.

A run of tasks j..i (from 0, both included) is one batch: its size is i - j + 1, its prompt that of its longest task,
which is task i if tasks are sorted by prompt. Times are arrays over the N decoding steps; a batch that has all its
tokens has times 0, so that one recurrence serves every step: with F the drafts' finish and C the pipeline's,
F' = F + d and C' = max(F', C) + v.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hlmtheory._array import Array
from hlmtheory.serving import Service, decoding_steps, peak_memory, stage_times

ROUNDING = 1e-12
"""A plan must be better by this share to replace another: both are sums of some thousand terms."""


@dataclass(frozen=True)
class Costs:
    """Everything the searches ask about K sorted tasks at one draft length.

    Parameters
    ----------
    service : Service
    draft_length : int
    inputs, outputs : integer arrays, shape (K,)
        In the order in which runs are formed: by rising input, except where said otherwise.
    """

    service: Service
    draft_length: int
    inputs: Array
    outputs: Array

    @cached_property
    def steps(self) -> Array:
        """n_k, shape (K,)."""
        return decoding_steps(self.outputs, self.service.acceptance, self.draft_length)

    @cached_property
    def horizon(self) -> int:
        """N."""
        return int(self.steps.max())

    @cached_property
    def equal_steps(self) -> bool:
        """Whether no batch leaves before another."""
        return bool((self.steps == self.horizon).all())

    @cached_property
    def ascending(self) -> bool:
        """Whether the last task of a run is its longest."""
        return bool((np.diff(self.inputs) >= 0).all())

    @cached_property
    def fixed(self) -> tuple[float, float]:
        """What a batch costs at each step whatever its size: l c₂ and c₂ (s)."""
        return self.draft_length * self.service.draft_device.c2, self.service.verify_device.c2

    @cached_property
    def unit(self) -> tuple[Array, Array]:
        """What each task of a batch adds to that if task i is its longest, shapes (K, N), in seconds."""
        growth = np.arange(self.horizon)
        stages = stage_times(self.service, self.draft_length, self.inputs, 1)
        table = []
        for stage, fixed in zip(stages, self.fixed, strict=True):
            times = (stage[:, 1:2] - fixed) + stage[:, 2:] * growth
            times[:, 0] = stage[:, 0] - fixed
            table.append(times)
        return table[0], table[1]

    @cached_property
    def first(self) -> Array:
        """The least j with j..i within the memory, shape (K,); more than i if task i alone is not."""
        return earliest(self.service, self.inputs, self.outputs)

    def times(self, i: int, starts: Array) -> tuple[Array, Array]:
        """Stage times of the batches j..i for each start j, shapes (len(starts), N)."""
        sizes = (i + 1.0 - starts)[:, None]
        top: Any = i if self.ascending else _running_argmax(self.inputs, i)[starts]
        draft, verify = (sizes * unit[top] + fixed for unit, fixed in zip(self.unit, self.fixed, strict=True))
        if not self.equal_steps:
            last = np.maximum.accumulate(self.steps[: i + 1][::-1])[::-1][starts]
            active = np.arange(1, self.horizon + 1) <= last[:, None]
            draft, verify = draft * active, verify * active
        return draft, verify

    def drafts(self, i: int, starts: Array) -> Array:
        """Draft times of the batches j..i, shape (len(starts), N)."""
        if not (self.equal_steps and self.ascending):
            return self.times(i, starts)[0]
        times: Array = (i + 1.0 - starts)[:, None] * self.unit[0][i]
        times += self.fixed[0]
        return times

    def verifications(self, i: int, starts: Array) -> Array:
        """Verification times of the batches j..i summed over the steps, shape (len(starts),)."""
        if not (self.equal_steps and self.ascending):
            return self.times(i, starts)[1].sum(axis=1)
        return (i + 1.0 - starts) * self.unit[1][i].sum() + self.horizon * self.fixed[1]

    def latency(self, starts: list[int]) -> float:
        """T_inf of the runs that begin at ``starts``, in that order."""
        arrival = finish = np.zeros(self.horizon)
        for start, stop in zip(starts, [*starts[1:], len(self.inputs)], strict=True):
            draft, verify = self.times(stop - 1, np.asarray([start]))
            arrival = arrival + draft[0]
            finish = np.maximum(arrival, finish) + verify[0]
        return float(finish.sum())


def earliest(service: Service, inputs: Array, outputs: Array) -> Array:
    """For each i the least j such that j..i is within the memory; i + 1 if there is none."""
    weights = float(peak_memory(service.draft, 0, 0, 0))
    token = float(peak_memory(service.draft, 1, 0, 1)) - weights
    prompts, answers = inputs.tolist(), outputs.tolist()
    first, j = np.zeros(len(prompts), dtype=np.int64), 0
    for i in range(len(prompts)):
        while (
            j <= i
            and weights + token * (max(prompts[j : i + 1]) + max(answers[j : i + 1])) * (i + 1 - j) > service.memory
        ):
            j += 1
        first[i] = j
    return first


def _running_argmax(values: Array, i: int) -> Array:
    """For each j ≤ i where the largest of values j..i stands."""
    top = np.empty(i + 1, dtype=np.int64)
    best = i
    for j in range(i, -1, -1):
        best = j if values[j] > values[best] else best
        top[j] = best
    return top


def runs(choice: Array) -> list[int]:
    """Starts of the batches, from the start chosen for each last task: the backtrack i ← S[i] - 1."""
    starts, i = [], len(choice) - 1
    while i >= 0:
        starts.append(int(choice[i]))
        i = starts[-1] - 1
    return starts[::-1]


def dynamic_program(costs: Costs, *, printed_objective: bool = False) -> tuple[list[int], float]:
    """Algorithm 1, repaired: the starts, and the table's value for all tasks.

    For each i all j are tried at once: Σ_n max(F + d, C) + v = Σ_n F + max(d, C - F) + v. With
    ``printed_objective`` (29) is taken as printed, Σ_n max(F, C + d) + v, and everything else repaired.
    """
    count, steps = len(costs.inputs), costs.horizon
    arrival, lead = np.zeros((count + 1, steps)), np.zeros((count + 1, steps))  # F and C - F after i tasks
    before, after = np.zeros(count + 1), np.zeros(count + 1)  # their sums, F and C
    choice, value = np.zeros(count, dtype=np.int64), np.zeros(count)
    for i in range(count):
        starts = np.arange(costs.first[i], i + 1)
        late, verifications = costs.drafts(i, starts), costs.verifications(i, starts)
        if printed_objective:
            total = after[starts] + late.sum(axis=1) + verifications
        else:
            total = (
                before[starts] + np.maximum(late, lead[costs.first[i] : i + 1], out=late).sum(axis=1) + verifications
            )
        best = len(total) - 1 - int(np.argmin(total[::-1]))  # the last of equals, as in line 20
        j = choice[i] = starts[best]
        value[i] = total[best]
        draft, verify = (time[0] for time in costs.times(i, starts[best : best + 1]))
        arrival[i + 1] = arrival[j] + draft  # (31)
        lead[i + 1] = np.maximum(draft, lead[j]) + verify - draft  # (32)
        before[i + 1], after[i + 1] = arrival[i + 1].sum(), (arrival[i + 1] + lead[i + 1]).sum()
    return runs(choice), float(value[-1])


@dataclass(frozen=True, slots=True)
class Printed:
    """What Algorithm 1 as printed leaves behind.

    Attributes
    ----------
    value : array, shape (K,)
        Υ[i, 0, 0].
    choice : array, shape (K,)
        S[i] counted from 1; 0 where it was never set.
    packs : tuple of (int, int)
        Start and end of what each pass of lines 24-26 packs, counted from 0, end excluded.
    """

    value: Array
    choice: Array
    packs: tuple[tuple[int, int], ...]


def printed_program(costs: Costs) -> Printed:
    """Algorithm 1 word for word, line by line, with its faults.

    Line 15 adds T^d to the second stage's finish; line 18 leaves S at 0; where j = 1 is skipped for its memory
    Υ[i, 0, 0] keeps its 0, no later j is below it, and line 23 uses the j* of the task before; lines 24-26 pack
    from S[i] to i for *every* i. A start of 0 is read as the first task.
    """
    count = len(costs.inputs)
    table = np.zeros((count + 1, costs.horizon, 2))
    value, choice, chosen = np.zeros(count + 1), np.zeros(count + 1, dtype=np.int64), 1
    for i in range(1, count + 1):
        for j in range(1, i + 1):
            if j - 1 < costs.first[i - 1]:
                continue  # line 12
            draft, verify = (time[0] for time in costs.times(i - 1, np.asarray([j - 1])))
            total = (np.maximum(table[j - 1, :, 0], table[j - 1, :, 1] + draft) + verify).sum()  # line 15
            if j == 1:
                value[i], chosen = total, 1  # lines 17, 18
            elif value[i] >= total:
                value[i], chosen, choice[i] = total, j, j  # lines 21, 22
        draft, verify = (time[0] for time in costs.times(i - 1, np.asarray([chosen - 1])))
        table[i, :, 0] = table[chosen - 1, :, 0] + draft  # (31)
        table[i, :, 1] = np.maximum(table[i, :, 0], table[chosen - 1, :, 1]) + verify  # (32)
    packs = tuple((max(int(choice[i]) - 1, 0), i) for i in range(count, 0, -1))
    return Printed(value[1:], choice[1:], packs)


def pareto(costs: Costs, *, incumbent: float = np.inf, max_labels: int = 1000) -> tuple[list[int] | None, float, bool]:
    """The best of all partitions into runs, in order: starts, latency, and whether nothing was cut by the cap.

    A label is a partition of the first i tasks with its vectors (F, C) over all steps. Whatever follows, the latency
    never falls when F or C rise, so a label that another one is not above anywhere can go. So can one whose bound
    reaches ``incumbent``; starts are None if all went. Above ``max_labels`` for one i the best bounds stay.
    """
    count, steps = len(costs.inputs), costs.horizon
    pieces = np.array_split(np.arange(steps), min(8, steps))
    rest = _rest_bounds(costs, pieces)
    arrival, finish = np.zeros((1, steps)), np.zeros((1, steps))
    parent, prefix, whole = np.asarray([-1]), np.asarray([0]), True
    for i in range(count):
        old = np.flatnonzero(prefix >= costs.first[i])
        draft, verify = costs.times(i, prefix[old])
        reached = arrival[old] + draft
        done = np.maximum(reached, finish[old]) + verify
        bound = _completed(reached, done, rest[i + 1], pieces)
        good = np.flatnonzero(bound < incumbent * (1.0 - ROUNDING))
        good = good[np.argsort(bound[good], kind="stable")]
        good = good[undominated(np.concatenate([reached[good], done[good]], axis=1), max_labels)]
        whole &= len(good) < max_labels
        arrival, finish = np.concatenate([arrival, reached[good]]), np.concatenate([finish, done[good]])
        parent, prefix = np.append(parent, old[good]), np.append(prefix, np.full(len(good), i + 1))
    last = np.flatnonzero(prefix == count)
    if not len(last):
        return None, np.inf, whole
    label = int(last[np.argmin(finish[last].sum(axis=1))])
    latency, starts = float(finish[label].sum()), []
    while parent[label] >= 0:
        label = int(parent[label])
        starts.append(int(prefix[label]))
    return starts[::-1], latency, whole


def undominated(vectors: Array, limit: int) -> Array:
    """Rows, taken in order, that no row kept before is nowhere above; at most ``limit``.

    A row kept early may be dominated by one kept later: harmless, since it only costs time.
    """
    width = vectors.shape[1]
    probe = np.unique(np.linspace(0, width - 1, 12).astype(np.int64))
    kept: list[int] = []
    sample = np.empty((0, len(probe)))
    for row, vector in enumerate(vectors):
        near = np.flatnonzero((sample <= vector[probe]).all(axis=1))
        if not any((vectors[kept[k]] <= vector).all() for k in near):
            kept.append(row)
            sample = vectors[kept][:, probe]
            if len(kept) == limit:
                break
    return np.asarray(kept, dtype=np.int64)


def _rest_bounds(costs: Costs, pieces: list[Array]) -> list[tuple[Array, Array, Array]]:
    """For tasks i.. and each piece of the steps: least Σ d, least Σ v, and least v of the last batch (0 for none).

    Each least is over all partitions into runs, piece by piece: no partition has less of any.
    """
    count, parts = len(costs.inputs), len(pieces)
    edges = [int(piece[0]) for piece in pieces]
    least = np.full((2, count + 1, parts), np.inf)
    least[:, count] = 0.0
    final = np.zeros(parts)
    for i in range(count - 1, -1, -1):
        starts = np.arange(costs.first[i], i + 1)
        totals = [np.add.reduceat(time, edges, axis=1) for time in costs.times(i, starts)]
        for side, total in enumerate(totals):
            least[side, starts] = np.minimum(least[side, starts], total + least[side, i + 1])
        if i == count - 1:
            final = totals[1].min(axis=0)
    return [(least[0, i], least[1, i], final if i < count else np.zeros(parts)) for i in range(count + 1)]


def _completed(arrival: Array, finish: Array, rest: tuple[Array, Array, Array], pieces: list[Array]) -> Array:
    """Lower bound on what each label can end at: per piece, the drafts are late or the verifications are."""
    drafts, verifications, last = rest
    edges = [int(piece[0]) for piece in pieces]
    late = np.add.reduceat(arrival, edges, axis=1) + drafts + last
    busy = np.add.reduceat(finish, edges, axis=1) + verifications
    return np.maximum(late, busy).sum(axis=1) if last.any() else busy.sum(axis=1)


def johnson_order(draft: Array, verify: Array) -> Array:
    """Johnson's rule on the last axis: first d < v by rising d, then the rest by falling v."""
    with np.errstate(divide="ignore", over="ignore"):
        key = np.where(draft < verify, -1.0 / draft, 1.0 / verify)  # below 0 and rising in d; above 0, falling in v
    return np.argsort(key, axis=-1, kind="stable")


def johnson_latency(draft: Array, verify: Array) -> Array:
    """Least makespan over all orders, batches on the last axis."""
    order = johnson_order(draft, verify)
    arrival = np.cumsum(np.take_along_axis(draft, order, axis=-1), axis=-1)
    left = np.cumsum(np.take_along_axis(verify, order, axis=-1)[..., ::-1], axis=-1)[..., ::-1]
    return np.max(arrival + left, axis=-1, initial=0.0)


def lower_bound(costs: Costs) -> float:
    """No partition and no order, even anew at each step, takes less; tasks sorted by input.

    Steps are cut where tasks leave. On each piece only the tasks active to its end are counted, with the least of
    their output lengths in the memory, so that runs lose nothing (claim ``batching.contiguous``).
    """
    levels = np.unique(costs.steps)
    if len(levels) > 16:
        levels = levels[np.unique(np.linspace(0, len(levels) - 1, 16).astype(np.int64))]
    total, begin = 0.0, 0
    for end in levels:
        active = costs.steps >= end
        total += _piece_bound(costs, np.flatnonzero(active), begin, int(end))
        begin = int(end)
    return total


def _piece_bound(costs: Costs, tasks: Array, begin: int, end: int) -> float:
    """The bound on steps begin + 1..end with these tasks only.

    A step takes at least Σ d + min v and at least min d + Σ v, hence any mean of the two with weights λ and 1 - λ. For
    weights fixed per step the least over partitions into runs is a shortest path; the best of several weights is
    kept. One batch for all takes Σ d + Σ v, and is set apart.
    """
    draft, verify = (unit[tasks, begin:end] for unit in costs.unit)
    fixed_draft, fixed_verify = costs.fixed
    count = len(tasks)
    weight = _weights(end - begin)
    other = 1.0 - weight
    slope = weight @ draft.T + other @ verify.T  # (weights, tasks)
    batch = weight.sum(axis=1) * fixed_draft + other.sum(axis=1) * fixed_verify
    first = earliest(costs.service, costs.inputs[tasks], np.full(count, costs.outputs[tasks].min()))
    path = np.full((len(weight), count + 1), np.inf)
    path[:, 0] = weight @ (verify[0] + fixed_verify) + other @ (draft[0] + fixed_draft)  # no batch is shorter
    for i in range(count):
        starts = np.arange(max(first[i], i == count - 1), i + 1)
        if len(starts):
            path[:, i + 1] = (path[:, starts] + slope[:, i : i + 1] * (i + 1.0 - starts)).min(axis=1) + batch
    bound = float(path[:, count].max())
    if first[-1] > 0:
        return bound
    return min(bound, float((count * (draft[-1] + verify[-1]) + fixed_draft + fixed_verify).sum()))


def _weights(steps: int) -> Array:
    """Weights λ per step, shape (23, steps): the same at all, or switching from one side to the other."""
    even = np.repeat(np.linspace(0.0, 1.0, 9)[:, None], steps, axis=1)
    switch = np.arange(steps) >= np.linspace(0, steps, 9)[1:-1, None]
    return np.concatenate([even, switch, ~switch]).astype(np.float64)
