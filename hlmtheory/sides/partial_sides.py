"""Sides of the theorems on top-k lists and boxes: bounds of TV(q, p), Δ_k and the Bias, and rows that attain them."""

from typing import Any

from hlmtheory._array import Array, arrays, take
from hlmtheory._domains import token_of
from hlmtheory._remember import remembered
from hlmtheory._simplex import distance, rejection_by_token
from hlmtheory.truncation._known import Known, known_of
from hlmtheory.truncation.boxes import quantised_box
from hlmtheory.truncation.partial import deviation_ends, draft_ends
from hlmtheory.truncation.reconstruction import draft_and_size, pair_and_size


def known_side(target: Array, draft: Array, k: Array) -> tuple[Any, Known, Known]:
    """Return the k largest entries of each row as known entries."""
    xp, _, p, q, k = pair_and_size(target, draft, k)
    p, q, wide = xp.broadcast_arrays(p, q, xp.astype(k, p.dtype)[..., None])
    k = xp.astype(wide[..., 0], xp.int64)
    return xp, known_of(xp, p, k), known_of(xp, q, k)


def distance_side(target: Array, draft: Array, k: Array) -> Array:
    xp, _, p, q, k = pair_and_size(target, draft, k)
    return distance(xp, p, q) + 0.0 * xp.astype(k, p.dtype)


@remembered
def deviations(draft: Array, k: Array) -> tuple[Array, Array]:
    """Return the ends of Δ_j for j = ⌊k/2⌋ from the k largest entries of q."""
    xp, _, q, k = draft_and_size(draft, k)
    q, wide = xp.broadcast_arrays(q, xp.astype(k, q.dtype)[..., None])
    k = xp.astype(wide[..., 0], xp.int64)
    row = known_of(xp, q, k)
    value = xp.sort(row.value, axis=-1, descending=True, stable=False)
    return deviation_ends(xp, value, row.rest, row.cap, k // 2, q.shape[-1])


def acceptance(target: Array, draft: Array, token: Array) -> Array:
    """Return min(1, p_d/q_d)."""
    xp, _, p, q, _ = pair_and_size(target, draft, 0)
    token = token_of(q.shape[-1]).check(xp, "token", arrays(draft=q, token=token)[2])
    beta = rejection_by_token(xp, *xp.broadcast_arrays(p, q))
    return 1.0 - take(xp, beta, xp.broadcast_to(token, beta.shape[:-1])[..., None])[..., 0]


def draft_ends_side(target: Array, draft: Array, token: Array, k: Array) -> tuple[Array, Array]:
    xp, p, q = known_side(target, draft, k)
    _, _, token = arrays(draft=q.value, token=token)
    at = (
        xp.arange(q.value.shape[-1], device=q.value.device)
        == token_of(q.value.shape[-1]).check(xp, "token", token)[..., None]
    )
    return draft_ends(xp, at, p, q, q.value.shape[-1])


_FINEST = 1e-9
"""Rows are not rounded to a finer step: the stored value is then the true one, which is within the error as well."""


def rounded_boxes(target: Array, draft: Array, error: Array) -> tuple[Any, ...]:
    """Return bounds of each row from log-probabilities rounded to steps of twice the error, with a floor."""
    xp, _, p, q, _ = pair_and_size(target, draft, 0)
    _, _, error = arrays(draft=q, error=error)
    ends = []
    for row in (p, q):
        coarse = error > _FINEST
        step = xp.where(coarse, 2.0 * error, 1.0)[..., None]
        log = xp.log(xp.where(row > 0, row, 1.0))
        log = xp.where(row > 0, log, -800.0)
        stored = xp.clip(xp.where(coarse[..., None], xp.round(log / step) * step, log), max=0.0)
        floor = xp.max(stored, axis=-1) - 16.0  # as in llama.cpp's file
        box = quantised_box(stored, error * (1 + 2.0**-40), floor)
        ends += [box.lower * (1 - 2.0**-40), xp.clip(box.upper * (1 + 2.0**-40), max=1.0)]
    return tuple(xp.broadcast_arrays(*ends))


FAR = {"target": [0.25, 0.125, 0.375, 0.25], "draft": [0.5, 0.375, 0.125, 0.0], "k": 2}
