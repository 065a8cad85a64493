"""Improve a plan by moving tasks between its batches and waves, until no single move makes it faster, with a barrier.

Some tasks of a batch join another, or become a batch in any wave, or a new one; two tasks may change places. Latencies
are computed at a few sampled steps, each in Johnson's order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np

from hlmtheory._array import Array
from hlmtheory.batching.search import Costs, johnson_latency

Wave: TypeAlias = list[tuple[int, ...]]
Move: TypeAlias = dict[int, Wave]
"""The new batches of each wave that a move changes, by the wave's number; one more than the last begins a wave."""

STEPS, PASSES = 24, 40
"""Steps at which latencies are computed, and the most passes over all batches."""
SMALLEST = 1e-6
"""Relative improvement that a move needs."""


def improved(costs: Costs, waves: list[Wave]) -> list[Wave]:
    """The waves of batches of sorted tasks after all moves that make them faster."""
    clock = _Clock(costs)
    for _ in range(PASSES):
        before = [list(wave) for wave in waves]
        for batch in [batch for wave in before for batch in wave]:
            number = next((k for k, wave in enumerate(waves) if batch in wave), None)
            if number is not None:  # no earlier move changed it
                waves = _best_move(clock, waves, number, batch)
        if waves == before:
            break
    return waves


def _best_move(clock: _Clock, waves: list[Wave], number: int, batch: tuple[int, ...]) -> list[Wave]:
    now = clock.latencies(waves)
    moves = [move for part in _parts(clock.costs, batch) for move in _moves(waves, number, batch, part)]
    changed = clock.latencies([wave for move in moves for wave in move.values()])
    owner = np.repeat(np.arange(len(moves)), [len(move) for move in moves])
    replaced = [float(now[k]) if k < len(waves) else 0.0 for move in moves for k in move]
    gains = np.bincount(owner, changed - replaced, len(moves))
    if not len(gains) or gains.min() >= -SMALLEST * now.sum():
        return waves
    after = dict(enumerate(waves)) | moves[int(np.argmin(gains))]
    return [wave for _, wave in sorted(after.items()) if wave]


def _parts(costs: Costs, batch: tuple[int, ...]) -> set[tuple[int, ...]]:
    by_output = sorted(batch, key=lambda task: (costs.outputs[task], task))
    parts: set[tuple[int, ...]] = {(task,) for task in batch}
    for row in (list(batch), by_output):
        for cut in range(1, len(batch)):
            parts |= {tuple(sorted(row[:cut])), tuple(sorted(row[cut:]))}
    return parts | {batch}


def _moves(waves: list[Wave], number: int, batch: tuple[int, ...], part: tuple[int, ...]) -> Iterator[Move]:
    """All moves of one part of a batch of wave ``number``."""
    stay = tuple(task for task in batch if task not in part)
    left = [other for other in waves[number] if other != batch] + ([stay] if stay else [])
    for k, wave in enumerate([*waves, []]):
        here = left if k == number else wave
        rest = {} if k == number else {number: left}
        yield {**rest, k: [*here, part]}
        for other in wave:
            if other == batch:
                continue
            others = [one for one in here if one != other]
            yield {**rest, k: [*others, tuple(sorted(other + part))]}
            if len(part) == 1:
                yield from _exchanges(waves, (number, batch, part[0]), (k, other))


def _exchanges(
    waves: list[Wave], one: tuple[int, tuple[int, ...], int], two: tuple[int, tuple[int, ...]]
) -> Iterator[Move]:
    """All moves by which a task of a batch changes places with a task of another batch."""
    (number, batch, task), (k, other) = one, two
    for back in other:
        new = tuple(sorted({*batch, back} - {task})), tuple(sorted({*other, task} - {back}))
        if k == number:
            yield {k: [*(b for b in waves[k] if b not in (batch, other)), *new]}
        else:
            yield {
                number: [*(b for b in waves[number] if b != batch), new[0]],
                k: [*(b for b in waves[k] if b != other), new[1]],
            }


class _Clock:
    """Latencies of waves, from the stage times of their batches at a few steps."""

    def __init__(self, costs: Costs) -> None:
        self.costs = costs
        edges = np.unique(np.concatenate([[0], np.linspace(1, costs.horizon, STEPS).astype(np.int64)]))
        self.steps, self.weight = (edges[:-1] + edges[1:] - 1) // 2, np.diff(edges).astype(np.float64)
        self.times: dict[tuple[int, int, int], tuple[Array, float]] = {}

    def latencies(self, waves: list[Wave]) -> Array:
        """Latency of each wave; infinite if it does not fit the memory."""
        jobs = np.zeros((2, len(waves), len(self.steps), max(map(len, waves), default=1) or 1))
        fits = np.ones(len(waves), dtype=bool)
        cache = self.costs.cache
        for k, wave in enumerate(waves):
            needs = [0.0]
            for m, batch in enumerate(wave):
                jobs[:, k, :, m], need = self._of(batch)  # a batch without work changes no latency
                needs.append(need)
            fits[k] = (sum(needs) if cache.shared else max(needs)) <= cache.capacity
        return np.where(fits, johnson_latency(*jobs) @ self.weight, np.inf)

    def _of(self, batch: tuple[int, ...]) -> tuple[Array, float]:
        costs, members = self.costs, list(batch)
        key = (len(batch), batch[-1], int(costs.outputs[members].max()))
        if key not in self.times:
            size, top, answer = key
            active = self.steps < costs.steps[members].max()
            sides = zip(costs.unit, costs.fixed, strict=True)
            stages = np.stack([(size * unit[top, self.steps] + fixed) * active for unit, fixed in sides])
            self.times[key] = stages, float(costs.cache.bytes(costs.inputs[top], answer, size))
        return self.times[key]
