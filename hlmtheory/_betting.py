"""Wealth of fixed bets, in logarithms; sums and roots are rounded so that no evidence is overstated."""

import math
from typing import Any

from hlmtheory._array import Array, in_kind, upward
from hlmtheory._domains import Domain, DomainError, entry_for_each

SLACK = 2.0**-40  # relative; covers the rounding of sums of logarithms
_STEPS = 40  # of Newton's method, whose every iterate is a valid bound


def checked_bets(xp: Any, domain: Domain, bets: Array, *, one_list: bool = False) -> Array:
    """Return the checked bets in float64."""
    entry_for_each("bet", bets=tuple(bets.shape))
    if one_list and bets.ndim > 1:
        raise DomainError(f"bets must have one dimension; got shape {tuple(bets.shape)}; give a list")
    return in_kind(xp, domain.check(xp, "bets", bets), xp.float64)


def running_down(xp: Any, gains: Array) -> Array:
    """Return the sums over draws, axis -2, less a bound on their rounding: t + 8 roundings of the sum of |gain|."""
    draws = xp.arange(1, gains.shape[-2] + 1, dtype=xp.float64, device=gains.device)[:, None]
    rounding = 2.0**-52 * (draws + 8.0) * xp.cumulative_sum(xp.abs(gains), axis=-2)
    return xp.cumulative_sum(gains, axis=-2) - rounding


def mean_wealth(xp: Any, gains: Array, axes: tuple[int, ...]) -> Array:
    """Return the logarithm of the mean wealth over functions and bets, less a bound on its rounding."""
    top = xp.max(gains, axis=axes, keepdims=True)
    found = xp.squeeze(top + xp.log(xp.mean(xp.exp(gains - top), axis=axes, keepdims=True)), axis=axes)
    terms = math.prod(gains.shape[axis] for axis in axes)
    return found - 2.0**-52 * (terms + 8.0) * (1.0 + xp.abs(found))


def crossing(xp: Any, logs: Array, bets: Array, error: Array) -> Array:
    """Return the U (...) at which the mean of exp(logs + bets · U), over the last axis, is 1/δ; not below it.

    Its logarithm is convex in U and rises, so Newton's method from the right stays right of the root.
    """
    limit = -xp.log(error) * (1.0 + SLACK)
    total = xp.min((limit[..., None] + math.log(logs.shape[-1]) - logs) / bets, axis=-1)  # one term alone is enough
    for _ in range(_STEPS):
        powers = logs + bets * total[..., None]
        top = xp.max(powers, axis=-1, keepdims=True)
        weights = xp.exp(powers - top)
        value = top[..., 0] + xp.log(xp.mean(weights, axis=-1))
        slope = xp.sum(weights * bets, axis=-1) / xp.sum(weights, axis=-1)
        total = total - xp.clip((value - limit) / slope, min=0.0)
    return total


def down(xp: Any, value: Array, kind: Any) -> Array:
    """Return a value in another type, rounded down."""
    return -upward(xp, -value, kind)
