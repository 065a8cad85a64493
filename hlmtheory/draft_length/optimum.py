"""Draft length with the highest throughput, and the baselines."""

import math
from typing import Any

import numpy as np

from hlmtheory._array import Array, arrays
from hlmtheory._domains import UNIT_INTERVAL, Domain, broadcast, flag, number
from hlmtheory._quantities import whole_in
from hlmtheory.draft_length.rates import LENGTH, etgr, etgr_profile, rate_and_costs
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


_LENGTHS = whole_in(1, 1_000, "every pair of lengths is compared; take 1,000 for a longer one")


def draft_length_regret(
    acceptance: Array, believed: Array, fixed: Array, marginal: Array, max_draft_length: Array
) -> Array:
    """Return the share of the throughput that is lost if the draft length is chosen for a wrong γ.

    Parameters
    ----------
    acceptance, believed : array, shape (...)
        The true γ and the estimate of the device, in [0, 1].
    fixed, marginal : array, shape (...)
        F and M, in seconds and seconds a token.
    max_draft_length : integer array, shape (...)
        K_max, 1 or more.

    Returns
    -------
    float64 array, shape (...)
        1 - ETGR(K(believed))/ETGR(K(γ)), in [0, 1).

    Raises
    ------
    ValueError
        As :func:`optimal_draft_length`.

    Examples
    --------
    >>> round(float(draft_length_regret(0.8, 0.49, 0.1, 0.02, 16)), 3)
    0.197
    """
    return 1.0 - kept(acceptance, believed, fixed, marginal, max_draft_length)


def kept(acceptance: Array, believed: Array, fixed: Array, marginal: Array, max_draft_length: Array) -> Array:
    """Return ETGR with the length chosen for ``believed``, over ETGR with the best length."""
    xp, belief = arrays(believed=believed)
    UNIT_INTERVAL.check(xp, "believed", belief)
    chosen = optimal_draft_length(believed, fixed, marginal, max_draft_length)
    best = optimal_draft_length(acceptance, fixed, marginal, max_draft_length)
    _, gamma, cost, slope = rate_and_costs(acceptance, fixed, marginal)
    return etgr(gamma, chosen, cost, slope) / etgr(gamma, best, cost, slope)


def least_kept(acceptance: Array, believed: Array, max_draft_length: Array) -> Array:
    """Return the infimum of :func:`kept` over F/M."""
    xp, gamma, belief, k_max = arrays(acceptance=acceptance, believed=believed, max_draft_length=max_draft_length)
    UNIT_INTERVAL.check(xp, "acceptance", gamma)
    UNIT_INTERVAL.check(xp, "believed", belief)
    k_max = _LENGTHS.check(xp, "max_draft_length", k_max)
    broadcast(acceptance=gamma.shape, believed=belief.shape, max_draft_length=k_max.shape)
    gamma, belief = xp.astype(gamma, xp.float64), xp.astype(belief, xp.float64)
    gamma, belief, k_max = xp.broadcast_arrays(gamma, belief, k_max)
    most = int(xp.max(k_max)) if 0 not in k_max.shape else 1
    j = xp.arange(1, most, dtype=xp.int64, device=gamma.device)
    own, other = (_ties(xp, rate, j, k_max) for rate in (gamma, belief))
    k_other = xp.astype(j, xp.float64) + xp.zeros_like(other)
    end, believed_end = (xp.where(rate > 0, k_max, xp.ones_like(k_max))[..., None] for rate in (gamma, belief))
    values = [
        _ratio(xp, gamma, other, k_other, _length_at(xp, own, other)),
        _ratio(xp, gamma, other, k_other + 1.0, _length_at(xp, own, other)),
        _ratio(xp, gamma, own, _length_at(xp, other, own), k_other),
        (_tokens(xp, gamma, believed_end) / _tokens(xp, gamma, end)),
        xp.ones_like(gamma)[..., None],
    ]
    return xp.min(xp.concat(values, axis=-1), axis=-1)


def _ties(xp: Any, rate: Array, j: Array, k_max: Array) -> Array:
    """Return c_j for j = 1..K_max - 1, shape (..., J); infinite where float64 overflows, NaN from K_max on."""
    power = rate[..., None] ** xp.astype(j + 1, xp.float64)
    with np.errstate(over="ignore"):
        ties = _tokens(xp, rate, j + xp.zeros_like(power, dtype=xp.int64)) / xp.where(power > 0, power, 5e-324)
    ties = xp.where(power > 0, ties - xp.astype(j, xp.float64), math.inf)
    return xp.where(j < k_max[..., None], ties, math.nan)


def _length_at(xp: Any, ties: Array, at: Array) -> Array:
    """Return the best length at F/M = ``at``, which is one more than the number of ties below it."""
    return 1.0 + xp.sum(xp.astype(ties[..., None, :] < at[..., None], xp.float64), axis=-1)


def _ratio(xp: Any, gamma: Array, at: Array, chosen: Array, best: Array) -> Array:
    """Return E(K̂)(c + K*)/(E(K*)(c + K̂)) at F/M = c, its limit where c is infinite, and 1 where there is no tie."""
    tokens = _tokens(xp, gamma, xp.astype(chosen, xp.int64)) / _tokens(xp, gamma, xp.astype(best, xp.int64))
    c = xp.where(xp.isfinite(at), at, 1.0)
    ratio = xp.where(xp.isfinite(at), tokens * ((c + best) / (c + chosen)), tokens)
    return xp.where(xp.isnan(at), 1.0, ratio)


def _tokens(xp: Any, gamma: Array, length: Array) -> Array:
    return expected_tokens(gamma[..., None] + xp.zeros_like(length, dtype=xp.float64), length)
