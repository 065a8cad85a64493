"""Draft length with the highest throughput, and the baselines."""

from __future__ import annotations

import math
from typing import Any

from hlmtheory._array import Array, arrays
from hlmtheory._domains import Domain, broadcast, flag, number
from hlmtheory.draft_length.rates import LENGTH, etgr_profile, rate_and_costs
from hlmtheory.verification import expected_tokens

_LEAST = Domain("0 or 1", lambda xp, v: (v == 0) | (v == 1), "0 lets the server decode alone", kind="integer")
_NEWTON = 8
_TERMS = 20  # of the series of e^v - 1 - v below 1: the next is 1/22! of the sum


def stationary_draft_length(acceptance: Array, fixed: Array, marginal: Array) -> Array:
    """Return the real K at which ETGR is stationary: v/a - 1 with a = -ln γ and e^v - 1 - v = a(F/M - 1).

    By Newton's method, as Lambert's argument underflows; infinite where a longer draft is always better, -1 where a
    shorter.
    """
    xp, gamma, cost, slope = rate_and_costs(acceptance, fixed, marginal)
    inner = (gamma > 0) & (gamma < 1) & (cost > slope) & (slope > 0)
    ones = xp.ones_like(gamma)
    a = -xp.log(xp.where(inner, gamma, 0.5 * ones))
    v = _solve(xp, a, xp.where(inner, cost, 2.0 * ones), xp.where(inner, slope, ones))
    longer = (gamma > 0) & (cost > slope)  # c > 0; for γ = 0 a round makes one token at every K
    return xp.where(inner, v / a - 1.0, xp.where(longer, ones * math.inf, -ones))


def optimal_draft_length(
    acceptance: Array, fixed: Array, marginal: Array, max_draft_length: Array, *, min_draft_length: int = 1
) -> Array:
    """Return the draft length in [1, K_max] with the highest ETGR, for geometric acceptance.

    ETGR is unimodal in K, so the best is the floor of :func:`stationary_draft_length` or the next one; the next is
    better if γ^{K+1} T(K) > M E(K), so that its token outweighs its time. Ties go to the shorter length.

    Parameters
    ----------
    acceptance : array, shape (...)
        γ in [0, 1]. 0 gives 1; 1 gives K_max where F > M, else 1.
    fixed, marginal : array, shape (...)
        F and M, in seconds and seconds a token.
    max_draft_length : integer array, shape (...)
        K_max, 1 or more.
    min_draft_length : int
        1 as in flexspec (11); 0 allows the server to decode alone, with a round of length F.

    Returns
    -------
    int64 array, shape (...)
        K*, the solution of flexspec (11).

    Raises
    ------
    ValueError
        If γ is outside [0, 1], a cost is negative or infinite, both costs are 0, K_max is below 1, or
        min_draft_length not 0 or 1.

    Examples
    --------
    >>> optimal_draft_length([0.2, 0.8, 0.99], 0.1, 0.02, 16).tolist()
    [1, 4, 16]
    """
    xp, gamma, cost, slope, k_max = arrays(
        acceptance=acceptance, fixed=fixed, marginal=marginal, max_draft_length=max_draft_length
    )
    k_max = LENGTH.check(xp, "max_draft_length", k_max)
    _check_least(min_draft_length)
    real = stationary_draft_length(gamma, cost, slope)
    _, gamma, cost, slope = rate_and_costs(gamma, cost, slope)
    broadcast(**{"the others": real.shape, "max_draft_length": k_max.shape})
    k_max = k_max + xp.zeros_like(real, dtype=xp.int64)
    capped = real >= xp.astype(k_max, xp.float64)  # compare as floats, return integers: 2⁶³ exceeds int64
    k = xp.floor(xp.where(capped | (real < min_draft_length), xp.ones_like(real) * min_draft_length, real))
    worth = gamma ** (k + 1.0) * (cost + k * slope)
    k = xp.astype(k, xp.int64)
    k = xp.where(worth > slope * expected_tokens(gamma, k), k + 1, k)
    return xp.where(capped | (k > k_max), k_max, k)


def optimal_draft_length_profile(
    acceptances: Array, fixed: Array, marginal: Array, *, min_draft_length: int = 1
) -> Array:
    """Return the draft length in [1, K_max] with the highest ETGR, for α_i (..., K_max) given the drafts before; int64.

    Ties go to the shorter length. ``min_draft_length`` 0 lets the server decode alone, with a round of length F.
    """
    _check_least(min_draft_length)
    xp, alpha, cost, slope = arrays(acceptances=acceptances, fixed=fixed, marginal=marginal)
    best = xp.astype(xp.argmax(etgr_profile(alpha, cost, slope), axis=-1), xp.int64) + 1
    if min_draft_length == 1:
        return best
    alone = xp.astype(alpha[..., 0], xp.float64) * xp.astype(cost, xp.float64) <= xp.astype(slope, xp.float64)
    return xp.where(alone, xp.zeros_like(best), best)


def _check_least(min_draft_length: int) -> None:
    number(_LEAST, "min_draft_length", min_draft_length)


def surrogate_draft_length(
    acceptance: Array, fixed: Array, marginal: Array, max_draft_length: Array, *, bonus: bool = True
) -> Array:
    """Return the length of flexspec's linear surrogate, 1 or K_max: E ≈ 1 + γK (Algorithm 2), or γK."""
    xp, gamma, cost, slope, k_max = arrays(
        acceptance=acceptance, fixed=fixed, marginal=marginal, max_draft_length=max_draft_length
    )
    LENGTH.check(xp, "max_draft_length", k_max)
    _, gamma, cost, slope = rate_and_costs(gamma, cost, slope)
    rises = gamma * cost > (slope if flag("bonus", bonus) else xp.zeros_like(slope))
    broadcast(**{"the others": rises.shape, "max_draft_length": k_max.shape})
    k_max = xp.astype(k_max, xp.int64) + xp.zeros_like(rises, dtype=xp.int64)
    return xp.where(rises, k_max, xp.ones_like(k_max))


def _solve(xp: Any, a: Array, cost: Array, slope: Array) -> Array:
    """Return the v > 0 with e^v - 1 - v = c, c = a (F - M)/M, F > M > 0, exact to a few units in the last place.

    Newton from above: v²/2 ≤ c gives v ≤ √(2c), and then v = ln(1 + c + v) ≤ ln(1 + c + √(2c)).
    """
    log_c = xp.log(a) + xp.log(cost - slope) - xp.log(slope)
    huge = log_c > 600.0  # e^v is so large that 1 + v is below its rounding
    c = xp.where(huge, xp.ones_like(a), a * ((cost - slope) / xp.where(huge, cost, slope)))
    root = xp.sqrt(2.0 * c)
    above = xp.log1p(c + root)
    v = xp.where(root < above, root, above)
    for _ in range(_NEWTON):
        rise = xp.expm1(v)
        v = v - xp.where(rise > 0, (_remainder(xp, v, rise) - c) / xp.where(rise > 0, rise, xp.ones_like(v)), 0.0 * v)
    return xp.where(huge, log_c, v)


def _remainder(xp: Any, v: Array, rise: Array) -> Array:
    """Return e^v - 1 - v; below 1 use its series, because the difference loses digits."""
    small = v < 1.0
    x = xp.where(small, v, xp.zeros_like(v))
    series = xp.ones_like(x)
    for n in range(_TERMS, 2, -1):
        series = 1.0 + x / n * series
    return xp.where(small, 0.5 * x * x * series, rise - v)
