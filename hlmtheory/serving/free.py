"""Schedules of two stages without a barrier: a batch drafts again as soon as its own verification is done."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from hlmtheory._array import Array


def finish_time(starts: tuple[Array, Array], verify: Array) -> float:
    """The end of the last verification."""
    return float(np.nanmax(starts[1] + verify, initial=0.0))


def in_turn(draft: Array, verify: Array, steps: Array, sequence: Array | None = None) -> tuple[Array, Array]:
    """Starts (N, M) if both machines take the batches step by step; ``sequence`` (N, M) orders each step."""
    drafts, verifications = np.full(draft.shape, np.nan), np.full(draft.shape, np.nan)
    last, ready = steps.tolist(), [0.0] * draft.shape[1]
    first = second = 0.0  # when the machines are free
    d, v = draft.tolist(), verify.tolist()
    order = [list(range(draft.shape[1]))] * len(d) if sequence is None else sequence.tolist()
    for n, batches in enumerate(order):
        for m in batches:
            if n < last[m]:
                drafts[n, m] = start = max(first, ready[m])
                first = start + d[n][m]
                verifications[n, m] = begin = max(first, second)
                ready[m] = second = begin + v[n][m]
    return drafts, verifications


def longest_first(draft: Array, verify: Array, steps: Array) -> tuple[Array, Array]:
    """Starts (N, M) if a free machine takes, of the batches that wait for it, the one with the most work left.

    Operation 2n of a batch is its draft at step n, operation 2n + 1 its verification; machine 0 drafts, 1 verifies.
    """
    starts = (np.full(draft.shape, np.nan), np.full(draft.shape, np.nan))
    chains = [_chain(draft[:last, m], verify[:last, m]) for m, last in enumerate(steps.tolist())]
    done, ready, free = [0] * len(chains), [0.0] * len(chains), [0.0, 0.0]
    left = [sum(chain) for chain in chains]
    waiting = set(range(len(chains)))
    while waiting:
        # The machine that can begin first, and when
        begins = [min((ready[m] for m in waiting if done[m] % 2 == k), default=math.inf) for k in (0, 1)]
        k = int(max(begins[1], free[1]) < max(begins[0], free[0]))
        now = max(begins[k], free[k])
        # Of the batches that wait for it, the one with the most work left; of equals the first
        m = max((m for m in waiting if done[m] % 2 == k and ready[m] <= now), key=lambda m: (left[m], -m))
        # Do its next operation
        time = chains[m][done[m]]
        starts[k][done[m] // 2, m] = now
        free[k] = ready[m] = now + time
        left[m] -= time
        done[m] += 1
        if done[m] == len(chains[m]):
            waiting.remove(m)
    return starts


def partition_bound(draft: Array, verify: Array, steps: Array) -> float:
    """The largest of Σ D_m + min v, min d + Σ V_m and max_m (D_m + V_m): no schedule of the two machines is shorter."""
    if not steps.size:
        return 0.0
    active = np.arange(1, len(draft) + 1)[:, None] <= steps
    first, second = (np.where(active, times, 0.0).sum(axis=0) for times in (draft, verify))
    end = verify[steps - 1, np.arange(len(steps))].min()
    return float(max(first.sum() + end, draft[0].min() + second.sum(), (first + second).max()))


def _chain(draft: Sequence[float], verify: Sequence[float]) -> list[float]:
    """Times of one batch's operations in order: draft, verification, draft, ..."""

    def each() -> Iterator[float]:
        for pair in zip(draft, verify, strict=True):
            yield from map(float, pair)

    return list(each())
