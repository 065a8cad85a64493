"""Latency of a two-stage pipeline, in which one batch drafts while another batch is verified."""

from __future__ import annotations

import numpy as np

from hlmtheory._array import Array
from hlmtheory._domains import Domain, DomainError, broadcast, finite_answer, numbers
from hlmtheory.serving.shapes import POSITIVE_COUNT, SECONDS

_STEPS = Domain(
    "a whole number in 1..1,000,000",
    lambda xp, value: (value >= 1) & (value <= 1_000_000),
    "each step is computed: cut the answer into requests",
    kind="integer",
)


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
