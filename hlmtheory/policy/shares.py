"""Shares of a band among users whose rounds also take a fixed time: X_u(w) = E_u w/(A_u w + c_u), concave in w."""

from __future__ import annotations

from typing import Any

import numpy as np

from hlmtheory._array import Array, arrays, floating, take
from hlmtheory._domains import broadcast, entry_for_each, finite_answer, option
from hlmtheory._quantities import not_negative, positive

UTILITIES = ("linear", "log", "maxmin")
"""Objectives: Σ ω X, the tokens per second; Σ ω log X, proportional fairness; and min X/ω."""

_STEPS = 96  # bisection steps on a logarithm; the last digits then no longer change

_DOMAINS = {
    "tokens": positive("leave out users without tokens"),
    "fixed_s": positive("give the time of a round without its air time in seconds; ofdma has the shares without one"),
    "band_s": positive("give the air time of a round on the whole band in seconds; leave out users who send nothing"),
    "weights": positive("leave out users without a weight"),
    "most": positive("leave out users without tokens"),
    "load_s": not_negative("give the seconds of the server for a token; 0: it is not needed"),
}


@finite_answer
def throughput_shares(
    tokens: Array, fixed_s: Array, band_s: Array, weights: Array = 1.0, *, utility: str = "linear"
) -> Array:
    """Return the shares of the band with the most utility.

    Parameters
    ----------
    tokens, fixed_s, band_s : array, shape (..., U)
        E, the mean tokens of a round; A, its time without air time; c, its air time on the whole band, in seconds.
    weights : array, shape (..., U) or broadcastable
        ω, positive.
    utility : {"linear", "log", "maxmin"}
        Σ ω X, Σ ω log X, or min X/ω.

    Returns
    -------
    array, shape (..., U)
        w with sum 1. "linear": w = (√(ω E c/ν) - c)⁺/A, so a user with a small ωE/c may get nothing. "log": the root of
        A w² + c w = ω c/ν. "maxmin": all X/ω are equal. ν, or the common X/ω, makes the sum 1.

    Raises
    ------
    ValueError
        If a value is not positive and finite, the shapes do not broadcast, or the utility has another name.

    Examples
    --------
    >>> throughput_shares([3.0, 3.0], [0.5, 0.5], [0.5, 0.5]).tolist()
    [0.5, 0.5]
    >>> throughput_shares([3.0, 3.0], [0.5, 0.5], [0.125, 4.0]).tolist()
    [1.0, 0.0]
    """
    option("utility", utility, UTILITIES)
    xp, gain, fixed, air, weight = checked_users(tokens=tokens, fixed_s=fixed_s, band_s=band_s, weights=weights)
    gain, fixed, air, weight = xp.broadcast_arrays(*(xp.astype(one, xp.float64) for one in (gain, fixed, air, weight)))
    solve = {"linear": _linear, "log": _log, "maxmin": _maxmin}[utility]
    w = solve(xp, weight * gain, gain / weight, fixed, air, weight)
    return w / xp.sum(w, axis=-1, keepdims=True)


def _linear(xp: Any, worth: Array, _: Array, fixed: Array, air: Array, __: Array) -> Array:
    """Water filling in closed form: the users with the largest ωE/c share the band."""
    order = xp.argsort(worth / air, axis=-1, descending=True)
    value, need, rest = (take(xp, one, order) for one in (worth, air, fixed))
    # With the first n users in, 1/√ν = (1 + Σ c/A)/Σ √(ωEc)/A; the n-th is in if ωE/c > ν
    level = (1.0 + xp.cumulative_sum(need / rest, axis=-1)) / xp.cumulative_sum(xp.sqrt(value * need) / rest, axis=-1)
    inside = xp.sqrt(value / need) * level > 1.0
    last = xp.sum(xp.astype(inside, xp.int64), axis=-1, keepdims=True) - 1
    level = take(xp, level, xp.clip(last, min=0))
    return xp.clip(xp.sqrt(worth * air) * level - air, min=0.0) / fixed


def _log(xp: Any, _: Array, __: Array, fixed: Array, air: Array, weight: Array) -> Array:
    """Bisect log ν between max ω c/(A + c), since no share exceeds 1, and Σ ω, since w ≤ ω/ν."""

    def shares(price: Array) -> Array:
        worth = weight / price
        return 2.0 * worth / (1.0 + xp.sqrt(1.0 + 4.0 * fixed / air * worth))

    low = xp.max(weight * air / (fixed + air), axis=-1, keepdims=True)
    high = xp.sum(weight, axis=-1, keepdims=True)
    return shares(_bisect(xp, shares, low, high))


def _maxmin(xp: Any, _: Array, each: Array, fixed: Array, air: Array, __: Array) -> Array:
    """Bisect the time t of a unit: w = c/(t - A) with t = E/(ωx), from where no share exceeds 1 to equal shares."""
    users = float(fixed.shape[-1])

    def shares(time: Array) -> Array:
        return air / (time * each - fixed)

    low = xp.max((fixed + air) / each, axis=-1, keepdims=True)
    high = xp.max((fixed + air * users) / each, axis=-1, keepdims=True)
    return shares(_bisect(xp, shares, low, high))


def _bisect(xp: Any, shares: Any, low: Array, high: Array) -> Array:
    """Return the price at which the shares, falling in it, sum to 1."""
    for _ in range(_STEPS):
        middle = xp.sqrt(low) * xp.sqrt(high)
        much = xp.sum(shares(middle), axis=-1, keepdims=True) > 1.0
        low, high = xp.where(much, middle, low), xp.where(much, high, middle)
    return high


def checked_users(**values: Any) -> tuple[Any, ...]:
    """Return the namespace and the checked values in their common floating type."""
    xp, *given = arrays(**values)
    shapes = {name: tuple(value.shape) for name, value in zip(values, given, strict=True)}
    entry_for_each("user", **{name: shape for name, shape in shapes.items() if name != "weights" or shape})
    broadcast(**shapes)
    for name, value in zip(values, given, strict=True):
        _DOMAINS[name].check(xp, name, value)
    with np.errstate(all="ignore"):
        return (xp, *floating(xp, *given))
