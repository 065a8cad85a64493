"""Shares of a band among users whose rounds also take a fixed time: throughput, its best shares, their certificate.

User u gets E_u tokens from a round of A_u + c_u/w_u seconds, so X_u(w) = E_u w/(A_u w + c_u). X_u is concave in w. So
the conditions of Karush, Kuhn and Tucker suffice for the sum of ω_u X_u and for that of ω_u log X_u. The shares of
:mod:`hlmtheory.ofdma` are the case A = 0, with other objectives.
"""

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
    "shares": not_negative("give shares of the band"),
    "weights": positive("leave out users without a weight"),
    "parts": positive("give each user a part of the band"),
    "most": positive("leave out users without tokens"),
    "load_s": not_negative("give the seconds of the server for a token; 0: it is not needed"),
}


@finite_answer
def share_rates(tokens: Array, fixed_s: Array, band_s: Array, shares: Array) -> Array:
    """Return the tokens per second of each user: E w/(A w + c).

    Parameters
    ----------
    tokens : array, shape (..., U)
        E, the mean number of tokens of a round.
    fixed_s : array, shape (..., U)
        A, the time of a round without its air time, in seconds.
    band_s : array, shape (..., U)
        c, the air time of a round on the whole band, in seconds.
    shares : array, shape (..., U)
        w; their sum is not checked. A share of 0 gives 0.

    Returns
    -------
    array, shape (..., U)

    Raises
    ------
    ValueError
        If a share is negative, another value is not positive, a value is not finite, or the shapes do not broadcast.

    Examples
    --------
    >>> share_rates([3.0, 3.0], [0.5, 0.5], [0.25, 0.5], [0.5, 0.5]).tolist()
    [3.0, 2.0]
    """
    _, gain, fixed, air, w = checked_users(tokens=tokens, fixed_s=fixed_s, band_s=band_s, shares=shares)
    return gain * w / (fixed * w + air)


@finite_answer
def throughput_shares(
    tokens: Array, fixed_s: Array, band_s: Array, weights: Array = 1.0, *, utility: str = "linear"
) -> Array:
    """Return the shares of the band with the most utility.

    Parameters
    ----------
    tokens, fixed_s, band_s : array, shape (..., U)
        E, A and c: see :func:`share_rates`.
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


@finite_answer
def share_residual(
    tokens: Array, fixed_s: Array, band_s: Array, shares: Array, weights: Array = 1.0, *, utility: str = "linear"
) -> Array:
    """Return how far shares are from the optimality conditions: 0 at the optimum, and only there.

    For "linear" and "log" with Σw = 1 the residual r bounds the loss: no shares have more than the utility here plus
    r · max_u d_u, where d_u is the derivative of user u's term at its share.

    Parameters
    ----------
    tokens, fixed_s, band_s, weights : array, shape (..., U)
        See :func:`throughput_shares`.
    shares : array, shape (..., U)
        The w to check; positive for "log".
    utility : {"linear", "log", "maxmin"}

    Returns
    -------
    array, shape (...)
        The larger of |Σw - 1| and 1 - Σ w d/max d; for "maxmin" of |Σw - 1| and 1 - min/max of X/ω.

    Raises
    ------
    ValueError
        If a share is negative, another value is not positive, or the utility has another name.

    Examples
    --------
    >>> float(share_residual([3.0, 3.0], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5]))
    0.0
    >>> float(share_residual([3.0, 3.0], [0.5, 0.5], [0.5, 0.5], [1.0, 0.0]))
    0.75
    """
    option("utility", utility, UTILITIES)
    xp, gain, fixed, air, w, weight = checked_users(
        tokens=tokens, fixed_s=fixed_s, band_s=band_s, shares=shares, weights=weights
    )
    if utility == "log":
        _DOMAINS["tokens"].check(xp, "shares", w)
    gain, fixed, air, w, weight = xp.broadcast_arrays(gain, fixed, air, w, weight)
    time = fixed * w + air
    if utility == "maxmin":
        level = gain * w / time / weight
        largest = xp.max(level, axis=-1)
        apart = 1.0 - xp.min(level, axis=-1) / xp.where(largest > 0, largest, xp.ones_like(largest))
    else:
        slope = weight * air / time / (w if utility == "log" else time / gain)
        apart = 1.0 - xp.sum(w * (slope / xp.max(slope, axis=-1, keepdims=True)), axis=-1)
    return xp.maximum(xp.abs(xp.sum(w, axis=-1) - 1.0), apart)


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
