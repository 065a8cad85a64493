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


def exact(costs: Costs, *, incumbent: float = np.inf, runs_only: bool = False) -> tuple[list[list[int]] | None, float]:
    """The best of all partitions with Johnson's order at each step: batches and latency; None if none is below.

    Partitions grow by the batch of the first task that has none. With equal output lengths only runs are tried (claim
    ``batching.contiguous``), else every subset. A partial partition goes when, piece by piece of the steps, its
    drafts or its verifications and the least that the rest can add reach the incumbent. What is left is tried in the
    order of its bound.
    """
    blocks = _Blocks(costs, runs_only or bool((costs.outputs == costs.outputs[0]).all()))
    partitions, bounds = blocks.partitions(incumbent)
    best: list[list[int]] | None = None
    for chunk in np.array_split(np.argsort(bounds), max(1, -(-len(bounds) // 32))):
        chunk = chunk[bounds[chunk] < incumbent * (1.0 - ROUNDING)]
        if not len(chunk):
            break
        latency = blocks.latency(partitions[chunk], incumbent)
        k = int(np.argmin(latency))
        if latency[k] < incumbent * (1.0 - ROUNDING):
            incumbent, best = float(latency[k]), blocks.members(partitions[chunk[k]])
    return best, incumbent


class _Blocks:
    """All admissible batches of few tasks as bit masks, with their times summed over pieces of the steps."""

    def __init__(self, costs: Costs, runs_only: bool) -> None:
        self.costs, self.count = costs, len(costs.inputs)
        masks = np.arange(1, 1 << self.count)
        inside = (masks[:, None] >> np.arange(self.count)) & 1 == 1
        size, top = inside.sum(axis=1), self.count - 1 - np.argmax(inside[:, ::-1], axis=1)
        low = np.argmax(inside, axis=1)
        longest = np.where(inside, costs.outputs, 0).max(axis=1)
        fits = peak_memory(costs.service.draft, costs.inputs[top], longest, size) <= costs.service.memory
        if runs_only:
            fits &= size == top - low + 1
        self.mask, self.size, self.top, self.low = masks[fits], size[fits], top[fits], low[fits]
        self.steps = np.where(inside, costs.steps, 0).max(axis=1)[fits]
        self.pieces = self._piece_sums()

    def _piece_sums(self) -> Array:
        """Stage times of every block summed over pieces of the steps, shape (2, blocks, pieces)."""
        steps = self.costs.horizon
        edges = [int(piece[0]) for piece in np.array_split(np.arange(steps), min(12, steps))]
        table = np.empty((2, len(self.mask), len(edges)))
        for last in np.unique(self.steps):
            which, active = np.flatnonzero(self.steps == last), np.arange(steps) < last
            count = np.add.reduceat(active.astype(np.float64), edges)
            for side, (unit, fixed) in enumerate(zip(self.costs.unit, self.costs.fixed, strict=True)):
                sums = np.add.reduceat(unit * active, edges, axis=1)
                table[side, which] = self.size[which, None] * sums[self.top[which]] + fixed * count
        self.least = np.stack(
            [
                np.add.reduceat(unit[0] + fixed, edges)
                for unit, fixed in zip(self.costs.unit, self.costs.fixed, strict=True)
            ]
        )
        return table

    def _remaining(self) -> Array:
        """Least sum of each stage over the partitions of every set without task 0, shape (2, 2^K, pieces)."""
        rest = np.full((2, 1 << self.count, self.pieces.shape[-1]), np.inf)
        rest[:, 0] = 0.0
        by_low = [np.flatnonzero(self.low == task) for task in range(self.count)]
        for mask in range(2, 1 << self.count, 2):  # the first batch takes task 0
            options = by_low[(mask & -mask).bit_length() - 1]
            options = options[self.mask[options] & ~mask == 0]
            if len(options):
                rest[:, mask] = (self.pieces[:, options] + rest[:, mask ^ self.mask[options]]).min(axis=1)
        return rest

    def partitions(self, incumbent: float) -> tuple[Array, Array]:
        """All partitions whose bound is below the incumbent: block numbers (P, K), -1 for none, and the bounds."""
        remaining = self._remaining()
        left = np.asarray([(1 << self.count) - 1])
        spent, path = np.zeros((2, 1, self.pieces.shape[-1])), np.full((1, self.count), -1)
        complete, bounds = [path[:0]], [np.empty(0)]
        for level in range(self.count):
            grown = []
            for low in np.unique(left & -left):
                which, options = (
                    np.flatnonzero(left & -left == low),
                    np.flatnonzero(self.low == int(low).bit_length() - 1),
                )
                state, block = np.nonzero(self.mask[options] & ~left[which, None] == 0)
                state, block = which[state], options[block]
                after = left[state] ^ self.mask[block]
                total = spent[:, state] + self.pieces[:, block]
                bound = (total + remaining[:, after] + self.least[::-1, None]).max(axis=0).sum(axis=-1)
                good = bound < incumbent * (1.0 - ROUNDING)
                route = path[state[good]]
                route[:, level] = block[good]
                grown.append((after[good], total[:, good], route, bound[good]))
            after, route, bound = (np.concatenate([part[k] for part in grown]) for k in (0, 2, 3))
            total = np.concatenate([part[1] for part in grown], axis=1)
            complete.append(route[after == 0])
            bounds.append(bound[after == 0])
            left, spent, path = after[after > 0], total[:, after > 0], route[after > 0]
            if not len(left):
                break
        return np.concatenate(complete), np.concatenate(bounds)

    def latency(self, partitions: Array, incumbent: float) -> Array:
        """T_inf of partitions (P, K), Johnson's order at each step; infinite where a bound reaches the incumbent."""
        blocks = partitions[:, : max(1, int((partitions >= 0).sum(axis=1).max()))].T  # batches first: quick to reduce
        n = np.arange(1, self.costs.horizon + 1)
        active = (n <= self.steps[blocks][..., None]) & (blocks >= 0)[..., None]
        size, top = self.size[blocks][..., None], self.top[blocks]
        sides = zip(self.costs.unit, self.costs.fixed, strict=True)
        draft, verify = (np.where(active, size * unit[top] + fixed, 0.0) for unit, fixed in sides)
        least = [np.where(active, times, np.inf).min(axis=0) for times in (draft, verify)]
        bound = np.maximum(draft.sum(axis=0) + least[1], verify.sum(axis=0) + least[0]).sum(axis=-1)
        good = np.flatnonzero(bound < incumbent * (1.0 - ROUNDING))
        latency = np.full(len(partitions), np.inf)
        jobs = (np.moveaxis(times[:, good], 0, -1) for times in (draft, verify))
        latency[good] = johnson_latency(*jobs).sum(axis=-1)
        return latency

    def members(self, partition: Array) -> list[list[int]]:
        """The tasks of each block."""
        chosen = [int(self.mask[block]) for block in partition if block >= 0]
        return [[task for task in range(self.count) if mask >> task & 1] for mask in chosen]


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
