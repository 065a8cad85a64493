"""From the distance of one step to that of a text."""

from __future__ import annotations

from hlmtheory._array import Array, upward
from hlmtheory._domains import UNIT_INTERVAL
from hlmtheory._quantities import checked, whole_from_one

STEP = {"step_distance": UNIT_INTERVAL, "tokens": whole_from_one("count the tokens of the text")}


def text_distance(step_distance: Array, tokens: Array) -> Array:
    """Return the largest total variation of a text's law if no step is further from the target's than a number.

    With TV(Q(.|x), P(.|x)) ≤ τ behind every prefix x, the laws of texts of T tokens are at most 1 - (1 - τ)^T apart,
    and that is attained.

    Parameters
    ----------
    step_distance : array, shape (...)
        τ in [0, 1].
    tokens : integer array, shape (...)
        T, 1 or more.

    Returns
    -------
    array, shape (...)
        In [0, 1], rounded up.

    Raises
    ------
    ValueError
        If a value is outside its range.

    Examples
    --------
    >>> round(float(text_distance(0.001, 200)), 3)
    0.181
    """
    xp, tau, count = checked(STEP, step_distance=step_distance, tokens=tokens)
    kind = tau.dtype
    wide, many = xp.astype(tau, xp.float64), xp.astype(count, xp.float64)
    apart = -xp.expm1(many * xp.log1p(-xp.where(wide < 1, wide, 0.0))) * (1.0 + 2.0**-50)  # right for every small τ
    return upward(xp, xp.where(wide < 1, xp.clip(apart, max=1.0), 1.0), kind)
