"""Cost of a wrong estimate of the acceptance rate: over a given link, and the worst over all links."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hlmtheory._array import Array, arrays
from hlmtheory._domains import UNIT_INTERVAL, Domain, broadcast
from hlmtheory.draft_length.optimum import optimal_draft_length
from hlmtheory.draft_length.rates import etgr, rate_and_costs
from hlmtheory.verification import expected_tokens

_LENGTHS = Domain(
    "a whole number in 1..1,000",
    lambda xp, value: (value >= 1) & (value <= 1_000),
    "every pair of lengths is compared; take 1,000 for a longer one",
    kind="integer",
)


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
    end, believed_end = (_length_on_a_slow_link(xp, rate, k_max) for rate in (gamma, belief))
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


def _length_on_a_slow_link(xp: Any, rate: Array, k_max: Array) -> Array:
    return xp.where(rate > 0, k_max, xp.ones_like(k_max))[..., None]


def _ratio(xp: Any, gamma: Array, at: Array, chosen: Array, best: Array) -> Array:
    """Return E(K̂)(c + K*)/(E(K*)(c + K̂)) at F/M = c, its limit where c is infinite, and 1 where there is no tie."""
    tokens = _tokens(xp, gamma, xp.astype(chosen, xp.int64)) / _tokens(xp, gamma, xp.astype(best, xp.int64))
    c = xp.where(xp.isfinite(at), at, 1.0)
    ratio = xp.where(xp.isfinite(at), tokens * ((c + best) / (c + chosen)), tokens)
    return xp.where(xp.isnan(at), 1.0, ratio)


def _tokens(xp: Any, gamma: Array, length: Array) -> Array:
    return expected_tokens(gamma[..., None] + xp.zeros_like(length, dtype=xp.float64), length)
