"""Latency of a two-stage pipeline, in which one batch drafts while another batch is verified."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from hlmtheory._array import Array
from hlmtheory._domains import DomainError, broadcast, finite_answer, numbers
from hlmtheory._quantities import whole_in
from hlmtheory.serving.shapes import POSITIVE_COUNT, SECONDS

_STEPS = whole_in(1, 1_000_000, "each step is computed: cut the answer into requests")


@finite_answer
def step_times(stage: Array, step: Array) -> Array:
    """Return the seconds of a stage (prefill, base, slope) at step n: prefill at 1, else base + slope (n - 1)."""
    stage, n = numbers(SECONDS, "stage", stage), numbers(POSITIVE_COUNT, "step", step)
    if not stage.ndim or stage.shape[-1] != 3:
        raise DomainError(f"stage must be (prefill, base, slope) on its last axis; got {stage.shape}; see stage_times")
    broadcast(stage=stage.shape[:-1], step=n.shape)
    return np.where(n == 1, stage[..., 0], stage[..., 1] + stage[..., 2] * (n - 1))


@finite_answer
def inference_latency(draft_stages: Array, verify_stages: Array, steps: Array) -> Array:
    """Return the total time of all decoding steps; a batch leaves as soon as it has all its tokens.

    Parameters
    ----------
    draft_stages, verify_stages : array, shape (..., M, 3)
        Stages (prefill, base, slope) in the order of processing.
    steps : integer array, shape (..., M)
        n_m, 1 to 1,000,000: each step is computed.

    Returns
    -------
    array, shape (...)
        T_inf in seconds: edge-sd (22).

    Raises
    ------
    ValueError
        If a time is negative or not finite, the steps are outside their range, or the shapes do not agree.

    Examples
    --------
    >>> float(inference_latency([[2.0, 2.0, 0.0], [3.0, 3.0, 0.0]], [[4.0, 4.0, 0.0], [1.0, 1.0, 0.0]], [2, 1]))
    13.0
    """
    draft, verify = stage_pair("draft_stages", draft_stages, "verify_stages", verify_stages)
    n = numbers(_STEPS, "steps", steps)
    if draft.ndim < 2 or draft.shape[-1] != 3:
        raise DomainError(f"draft_stages must have shape (..., M, 3); got {draft.shape}; see stage_times")
    shape = broadcast(draft_stages=draft.shape[:-1], steps=n.shape)
    draft, verify = (np.broadcast_to(stage, (*shape, 3)).reshape(-1, shape[-1], 3) for stage in (draft, verify))
    n = np.broadcast_to(n, shape).reshape(-1, shape[-1])
    total = [by_steps(*plan) for plan in zip(draft, verify, n, strict=True)]
    return np.asarray(total, dtype=np.float64).reshape(shape[:-1])


def stage_pair(name: str, draft: Array, other: str, verify: Array) -> tuple[Array, Array]:
    """Check that the times of the two stages have the same shape, and return them."""
    d, v = numbers(SECONDS, name, draft), numbers(SECONDS, other, verify)
    if d.ndim == 0 or d.shape != v.shape:
        raise DomainError(f"{name} must have the shape of {other}, batches on one axis; got {d.shape} and {v.shape}")
    return d, v


def recurrence(draft: Array, verify: Array) -> Array:
    """Return C_M of (20), with the batches on the last axis."""
    arrival, finish = np.zeros(draft.shape[:-1]), np.zeros(draft.shape[:-1])
    for m in range(draft.shape[-1]):
        arrival = arrival + draft[..., m]
        finish = np.maximum(arrival, finish) + verify[..., m]
    return finish


def by_steps(draft: Array, verify: Array, steps: Array) -> float:
    """Return (22), summed step by step, for stages (M, 3)."""
    n = np.arange(1, steps.max(initial=0) + 1)[:, None]
    active = n <= steps
    times = (np.where(active, np.where(n == 1, s[:, 0], s[:, 1] + s[:, 2] * (n - 1)), 0.0) for s in (draft, verify))
    return float(recurrence(*times).sum())


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
