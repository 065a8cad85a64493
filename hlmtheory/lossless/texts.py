"""From the distance of one step to that of a text."""

from __future__ import annotations

from hlmtheory._array import Array, upward
from hlmtheory._domains import UNIT_INTERVAL
from hlmtheory._quantities import checked, whole_from_one

STEP = {"step_distance": UNIT_INTERVAL, "tokens": whole_from_one("count the tokens of the text")}


def text_distance(step_distance: Array, tokens: Array) -> Array:
    """Return the largest TV of texts of T tokens with steps of at most τ, rounded up: 1 - (1 - τ)^T."""
    xp, tau, count = checked(STEP, step_distance=step_distance, tokens=tokens)
    kind = tau.dtype
    wide, many = xp.astype(tau, xp.float64), xp.astype(count, xp.float64)
    apart = -xp.expm1(many * xp.log1p(-xp.where(wide < 1, wide, 0.0))) * (1.0 + 2.0**-50)  # right for every small τ
    return upward(xp, xp.where(wide < 1, xp.clip(apart, max=1.0), 1.0), kind)
