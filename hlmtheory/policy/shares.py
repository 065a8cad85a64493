"""Shares of a band among users whose rounds also take a fixed time: X_u(w) = E_u w/(A_u w + c_u), concave in w."""

from __future__ import annotations

from typing import Any

import numpy as np

from hlmtheory._array import Array, arrays, floating, take
from hlmtheory._domains import broadcast, entry_for_each, finite_answer, option
from hlmtheory._quantities import not_negative, positive

UTILITIES = ("linear", "log")
"""Objectives: Σ ω X, the tokens per second; and Σ ω log X, proportional fairness."""

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
    utility : {"linear", "log"}
        Σ ω X, or Σ ω log X.

    Returns
    -------
    array, shape (..., U)
        w with sum 1. "linear": w = (√(ω E c/ν) - c)⁺/A, so a user with a small ωE/c may get nothing. "log": the root of
        A w² + c w = ω c/ν. ν makes the sum 1.

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
    w = _linear(xp, weight * gain, fixed, air) if utility == "linear" else _log(xp, fixed, air, weight)
    return w / xp.sum(w, axis=-1, keepdims=True)


def _linear(xp: Any, worth: Array, fixed: Array, air: Array) -> Array:
    """Water filling in closed form: the users with the largest ωE/c share the band."""
    order = xp.argsort(worth / air, axis=-1, descending=True)
    value, need, rest = (take(xp, one, order) for one in (worth, air, fixed))
    # With the first n users in, 1/√ν = (1 + Σ c/A)/Σ √(ωEc)/A; the n-th is in if ωE/c > ν
    level = (1.0 + xp.cumulative_sum(need / rest, axis=-1)) / xp.cumulative_sum(xp.sqrt(value * need) / rest, axis=-1)
    inside = xp.sqrt(value / need) * level > 1.0
    last = xp.sum(xp.astype(inside, xp.int64), axis=-1, keepdims=True) - 1
    level = take(xp, level, xp.clip(last, min=0))
    return xp.clip(xp.sqrt(worth * air) * level - air, min=0.0) / fixed


def _log(xp: Any, fixed: Array, air: Array, weight: Array) -> Array:
    """Bisect log ν between max ω c/(A + c), since no share exceeds 1, and Σ ω, since w ≤ ω/ν."""

    def shares(price: Array) -> Array:
        worth = weight / price
        return 2.0 * worth / (1.0 + xp.sqrt(1.0 + 4.0 * fixed / air * worth))

    low = xp.max(weight * air / (fixed + air), axis=-1, keepdims=True)
    high = xp.sum(weight, axis=-1, keepdims=True)
    for _ in range(_STEPS):
        middle = xp.sqrt(low) * xp.sqrt(high)
        much = xp.sum(shares(middle), axis=-1, keepdims=True) > 1.0
        low, high = xp.where(much, middle, low), xp.where(much, high, middle)
    return shares(high)


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
