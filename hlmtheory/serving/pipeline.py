"""Latency of a two-stage pipeline, in which one batch drafts while another batch is verified."""

from __future__ import annotations

import numpy as np

from hlmtheory._array import Array
from hlmtheory._domains import DomainError, broadcast, finite_answer, numbers
from hlmtheory.serving.shapes import POSITIVE_COUNT, SECONDS


@finite_answer
def step_times(stage: Array, step: Array) -> Array:
    """Return the time of a stage at the given decoding steps.

    Parameters
    ----------
    stage : array, shape (..., 3)
        (prefill, base, slope), seconds, from :func:`stage_times`.
    step : integer array, shape (...) or broadcastable
        n, 1 or more.

    Returns
    -------
    array, shape (...)
        Seconds: prefill at n = 1, base + slope (n - 1) at n ≥ 2.

    Raises
    ------
    ValueError
        If a time is negative, or a step is not a positive integer.

    Examples
    --------
    >>> step_times([11.0, 6.0, 2.0], [1, 2, 3]).tolist()
    [11.0, 8.0, 10.0]
    """
    stage, n = numbers(SECONDS, "stage", stage), numbers(POSITIVE_COUNT, "step", step)
    if not stage.ndim or stage.shape[-1] != 3:
        raise DomainError(f"stage must be (prefill, base, slope) on its last axis; got {stage.shape}; see stage_times")
    broadcast(stage=stage.shape[:-1], step=n.shape)
    return np.where(n == 1, stage[..., 0], stage[..., 1] + stage[..., 2] * (n - 1))


@finite_answer
def pipeline_latency(draft_times: Array, verify_times: Array) -> Array:
    """Return the time until the last of M batches has passed both stages, in one decoding step.

    Parameters
    ----------
    draft_times, verify_times : array, shape (..., M)
        Seconds, in the order in which the batches are processed. A finished batch has times 0.

    Returns
    -------
    array, shape (...)
        C_M of C_m = max(Σ_{i≤m} d_i, C_{m-1}) + v_m, C_0 = 0: edge-sd (20), (21). 0 without batches.

    Raises
    ------
    ValueError
        If a time is negative or not finite, or the shapes do not agree.

    Examples
    --------
    >>> float(pipeline_latency([2.0, 3.0], [4.0, 1.0]))
    7.0
    """
    return recurrence(*stage_pair("draft_times", draft_times, "verify_times", verify_times))


@finite_answer
def inference_latency(draft_stages: Array, verify_stages: Array, steps: Array) -> Array:
    """Return the total time of all decoding steps; a batch leaves as soon as it has all its tokens.

    From the step after the prefill to the first departure, and from each departure to the next, the latency of a step
    is the maximum of M lines in n. So the sum needs only the breakpoints of their upper envelope. If many departures
    make this slower, the function sums the steps one by one. Both ways agree (claim ``serving.breakpoints``).

    Parameters
    ----------
    draft_stages, verify_stages : array, shape (..., M, 3)
        Stages (prefill, base, slope) in the order of processing.
    steps : integer array, shape (..., M)
        n_m, 1 or more.

    Returns
    -------
    array, shape (...)
        T_inf in seconds: edge-sd (22).

    Raises
    ------
    ValueError
        If a time is negative or not finite, a step is not a positive integer, or the shapes do not agree.

    Examples
    --------
    >>> float(inference_latency([[2.0, 2.0, 0.0], [3.0, 3.0, 0.0]], [[4.0, 4.0, 0.0], [1.0, 1.0, 0.0]], [2, 1]))
    13.0
    """
    draft, verify = stage_pair("draft_stages", draft_stages, "verify_stages", verify_stages)
    n = numbers(POSITIVE_COUNT, "steps", steps)
    if draft.ndim < 2 or draft.shape[-1] != 3:
        raise DomainError(f"draft_stages must have shape (..., M, 3); got {draft.shape}; see stage_times")
    shape = broadcast(draft_stages=draft.shape[:-1], steps=n.shape)
    draft, verify = (np.broadcast_to(stage, (*shape, 3)).reshape(-1, shape[-1], 3) for stage in (draft, verify))
    n = np.broadcast_to(n, shape).reshape(-1, shape[-1])
    total = [
        by_breakpoints(*plan) if _few_breakpoints(plan[2]) else by_steps(*plan)
        for plan in zip(draft, verify, n, strict=True)
    ]
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


def _few_breakpoints(steps: Array) -> bool:
    """Return whether an envelope of M lines for each departure is expected faster; fitted to measured times."""
    batches, longest = steps.size, steps.max(initial=1)
    return bool(len(np.unique(steps)) * (50 + batches**2 / 25) <= 10 + batches * (5 + longest / 60))


def by_steps(draft: Array, verify: Array, steps: Array) -> float:
    """Return (22), summed step by step, for stages (M, 3)."""
    n = np.arange(1, steps.max(initial=0) + 1)[:, None]
    active = n <= steps
    times = (np.where(active, np.where(n == 1, s[:, 0], s[:, 1] + s[:, 2] * (n - 1)), 0.0) for s in (draft, verify))
    return float(recurrence(*times).sum())


def by_breakpoints(draft: Array, verify: Array, steps: Array) -> float:
    """Return (22): the first step plus, between departures, the sum of an upper envelope of lines in n - 1."""
    total, first = float(recurrence(draft[:, 0], verify[:, 0])), 1
    for last in np.unique(steps - 1):
        if last >= first:
            active = steps > last
            lines = _paths(draft[active, 1:], verify[active, 1:])
            total += float(envelope_sum(lines[:, 0], lines[:, 1], first, int(last)))
            first = int(last) + 1
    return total


def _paths(draft: Array, verify: Array) -> Array:
    """Return Σ_{i≤k} d_i + Σ_{i≥k} v_i for each k; C_M is the largest of these sums."""
    return np.cumsum(draft, axis=0) + np.cumsum(verify[::-1], axis=0)[::-1]


def envelope_sum(base: Array, slope: Array, first: int, last: int) -> Array:
    """Return Σ_{t=first}^{last} max_k (base_k + slope_k t), with the lines on the last axis.

    With the lines sorted by slope, line k is above an earlier line j from t = ⌈(base_j - base_k) / (slope_k - slope_j)⌉
    on. The maximum at t is the last line that is above all earlier lines. Each t belongs to exactly one line, however
    the quotients round.
    """
    order = np.lexsort((base, slope), axis=-1)
    p, q = (np.take_along_axis(value, order, axis=-1) for value in (base, slope))
    lag, gain = p[..., :, None] - p[..., None, :], q[..., None, :] - q[..., :, None]  # of j (rows) and k (columns)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        overtakes = np.where(gain > 0, np.ceil(lag / gain), first)  # equal slopes: sorted by base
    earlier = np.triu(np.ones(p.shape[-1:] * 2, dtype=bool), 1)
    start = np.where(earlier, np.clip(overtakes, first, last + 1), first).max(axis=-2)
    beyond = np.full_like(start[..., :1], last + 1)
    later = np.minimum.accumulate(np.concatenate([start, beyond], axis=-1)[..., ::-1], axis=-1)[..., -2::-1]
    count = np.maximum(later - start, 0.0)
    return (count * p + q * count * (start + later - 1.0) / 2.0).sum(axis=-1)
