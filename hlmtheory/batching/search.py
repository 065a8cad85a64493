"""The searches behind :mod:`hlmtheory.batching`, for one draft length and tasks in one order.

A run j..i is one batch, padded to its longest prompt. Times are arrays over the N decoding steps, 0 after a batch is
done. The stages end at C^d and C; with a further batch at C^d + d and max(C^d + d, C) + v.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hlmtheory._array import Array
from hlmtheory.batching.memory import Cache
from hlmtheory.serving import Service, stage_times
from hlmtheory.serving.costs import decoding_steps

ROUNDING = 1e-12
"""Relative improvement that a plan needs to replace another: both are sums of thousands of rounded terms."""


@dataclass(frozen=True)
class Costs:
    """Times and memory of every run of K tasks in one order, usually by rising input, at one draft length."""

    service: Service
    draft_length: int
    inputs: Array
    outputs: Array
    rule: str = "each"

    @cached_property
    def cache(self) -> Cache:
        """The size of the caches."""
        return Cache(self.service, self.draft_length, self.rule)

    @cached_property
    def in_waves(self) -> bool:
        """Whether some partition needs more than one wave."""
        return self.cache.binds(self.inputs, self.outputs)

    @cached_property
    def steps(self) -> Array:
        """Number of decoding steps n_k of each task, shape (K,)."""
        return decoding_steps(self.outputs, self.service.acceptance, self.draft_length)

    @cached_property
    def horizon(self) -> int:
        """Largest number of decoding steps, N."""
        return int(self.steps.max())

    @cached_property
    def equal_steps(self) -> bool:
        """Whether all batches need the same number of steps."""
        return bool((self.steps == self.horizon).all())

    @cached_property
    def ascending(self) -> bool:
        """Whether the last task of every run has the longest prompt of that run."""
        return bool((np.diff(self.inputs) >= 0).all())

    @cached_property
    def fixed(self) -> tuple[float, float]:
        """The part of a batch's stage times that does not depend on its size: l c₂ and c₂, in seconds."""
        return self.draft_length * self.service.draft_device.c2, self.service.verify_device.c2

    @cached_property
    def unit(self) -> tuple[Array, Array]:
        """Seconds that each task of a batch adds to :attr:`fixed` if task i has the longest prompt, shapes (K, N)."""
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
        """Smallest j for each i such that batch j..i fits the memory, shape (K,); i + 1 if task i alone does not."""
        return self.cache.earliest(self.inputs, self.outputs)

    def caches(self, i: int, starts: Array) -> Array:
        """Bytes of the caches of the batches j..i for each start j, shape (len(starts),)."""
        prompts, answers = (
            np.maximum.accumulate(values[: i + 1][::-1])[::-1][starts] for values in (self.inputs, self.outputs)
        )
        return self.cache.bytes(prompts, answers, i + 1.0 - starts)

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


def _running_argmax(values: Array, i: int) -> Array:
    top = np.empty(i + 1, dtype=np.int64)
    best = i
    for j in range(i, -1, -1):
        best = j if values[j] > values[best] else best
        top[j] = best
    return top


def runs(choice: Array) -> list[int]:
    """Starts of all batches, by the backtrack i ← S[i] - 1; S[i] is the best start of a batch that ends with task i."""
    starts, i = [], len(choice) - 1
    while i >= 0:
        starts.append(int(choice[i]))
        i = starts[-1] - 1
    return starts[::-1]


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs of the sorted tasks: the first task of each batch, and of those batches that open a wave."""

    starts: list[int]
    opens: list[int]

    @property
    def waves(self) -> tuple[int, ...]:
        """Number of batches in each wave."""
        edges = [self.starts.index(start) for start in self.opens]
        return tuple(b - a for a, b in zip(edges, [*edges[1:], len(self.starts)], strict=True))


def dynamic_program(costs: Costs, *, printed_objective: bool = False) -> tuple[Runs, float]:
    """Algorithm 1, repaired: the runs, and the objective's value for all tasks, Σ_n max(C^d + d, C) + v.

    One state for each prefix. ``printed_objective`` takes Σ_n max(C^d, C + d) + v, as (29) is printed. If batches share
    the memory, batch j..i joins the last wave of state j if it fits, or opens one; the better is taken.
    """
    count, steps = len(costs.inputs), costs.horizon
    arrival, lead = np.zeros((count + 1, steps)), np.zeros((count + 1, steps))  # C^d and C - C^d of the last wave
    before, after = np.zeros(count + 1), np.zeros(count + 1)  # sums of C^d and of C over the steps
    past, used = np.zeros(count + 1), np.zeros(count + 1)  # earlier waves (s), caches of the last wave (bytes)
    choice, opened, value = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=bool), np.zeros(count)
    for i in range(count):
        # Value of each last batch j..i that joins the wave of the state of j
        starts = np.arange(costs.first[i], i + 1)
        late, verifications = costs.drafts(i, starts), costs.verifications(i, starts)
        alone = late.sum(axis=1) + verifications
        if printed_objective:
            total = past[starts] + after[starts] + alone
        else:
            overlap = np.maximum(late, lead[costs.first[i] : i + 1], out=late).sum(axis=1)
            total = past[starts] + before[starts] + overlap + verifications
        # The same for a batch that opens a wave, if not all batches fit the memory together
        opens = np.zeros(len(starts), dtype=bool)
        if costs.in_waves:
            caches = costs.caches(i, starts)
            total = np.where(used[starts] + caches <= costs.cache.capacity, total, np.inf)
            fresh = past[starts] + after[starts] + alone
            opens = fresh < total
            total = np.where(opens, fresh, total)
        # The best start, and its state
        best = len(total) - 1 - int(np.argmin(total[::-1]))  # the last of equals, as in line 20
        j, opened[i] = starts[best], opens[best]
        choice[i], value[i] = j, total[best]
        draft, verify = (time[0] for time in costs.times(i, starts[best : best + 1]))
        kept = not opens[best]
        past[i + 1] = past[j] if kept else past[j] + after[j]
        arrival[i + 1] = kept * arrival[j] + draft  # (31)
        lead[i + 1] = np.maximum(draft, kept * lead[j]) + verify - draft  # (32)
        before[i + 1], after[i + 1] = arrival[i + 1].sum(), (arrival[i + 1] + lead[i + 1]).sum()
        used[i + 1] = kept * used[j] + (caches[best] if costs.in_waves else 0.0)
    # Backtrack
    found = runs(choice)
    ends = [*found[1:], count]
    return Runs(found, [start for start, end in zip(found, ends, strict=True) if not start or opened[end - 1]]), float(
        value[-1]
    )


@dataclass(frozen=True, slots=True)
class PrintedProgram:
    """The result of Algorithm 1 as printed."""

    value: Array  # Υ[i, 0, 0], (K,)
    choice: Array  # S[i] counted from 1; 0 where it was never set
    packs: tuple[tuple[int, int], ...]  # start and end, excluded, of the batch of each pass of lines 24-26


def printed_program(costs: Costs) -> PrintedProgram:
    """Algorithm 1 exactly as printed, with the faults that the claims ``batching.dp_printed_*`` name."""
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
    return PrintedProgram(value[1:], choice[1:], packs)


def johnson_order(draft: Array, verify: Array) -> Array:
    """Order by Johnson's rule on the last axis: batches with d < v by rising d, then the others by falling v."""
    with np.errstate(divide="ignore", over="ignore"):
        key = np.where(draft < verify, -1.0 / draft, 1.0 / verify)  # below 0 and rising in d; above 0, falling in v
    return np.argsort(key, axis=-1, kind="stable")


def johnson_latency(draft: Array, verify: Array) -> Array:
    """Smallest total time over all orders of the batches, which lie on the last axis."""
    order = johnson_order(draft, verify)
    arrival = np.cumsum(np.take_along_axis(draft, order, axis=-1), axis=-1)
    left = np.cumsum(np.take_along_axis(verify, order, axis=-1)[..., ::-1], axis=-1)[..., ::-1]
    return np.max(arrival + left, axis=-1, initial=0.0)
