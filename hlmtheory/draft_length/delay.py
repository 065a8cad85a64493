"""From which delay on a longer draft is worth it: the best length is a threshold in the delay (sun2026delay, abstract).

With x = (F + delay)/M, lengths K and K + 1 tie at x = c_K = E(K)/S(K + 1) - K. Only the mean of a delay matters.
"""

import math
from typing import Any

import numpy as np

from hlmtheory._array import Array, arrays, floating, in_kind
from hlmtheory._domains import UNIT_INTERVAL, broadcast, entry_for_each
from hlmtheory._simplex import quotient
from hlmtheory.draft_length.rates import COST, etgr_profile
from hlmtheory.sides.host import Values


def critical_delays(acceptances: Array, fixed: Array, marginal: Array) -> Array:
    """Return the delay above which one more draft gives more tokens a second: M (E(K)/S(K + 1) - K) - F.

    It never falls with K, so the best length is the number of entries below the delay
    (``draft_length.delay_threshold``).

    Parameters
    ----------
    acceptances : array, shape (..., K_max)
        α_d in [0, 1]: P(draft d is accepted given that those before were).
    fixed, marginal : array, shape (...)
        F and M, in seconds and seconds a token: what a round takes without the delay.

    Returns
    -------
    array, shape (..., K_max)
        In seconds, for K = 0, 1, ..; negative if the longer draft is better without any delay, infinite if draft K + 1
        is never accepted and M > 0.

    Raises
    ------
    ValueError
        If a rate is outside [0, 1], a cost is negative or infinite, there is no draft, or the shapes do not broadcast.

    Examples
    --------
    >>> critical_delays([0.8] * 4, 0.05, 0.02).round(3).tolist()
    [-0.025, -0.014, 0.005, 0.034]
    """
    xp, alpha, cost, slope = arrays(acceptances=acceptances, fixed=fixed, marginal=marginal)
    UNIT_INTERVAL.check(xp, "acceptances", alpha)
    entry_for_each("draft", acceptances=tuple(alpha.shape))
    broadcast(acceptances=alpha.shape[:-1], fixed=cost.shape, marginal=slope.shape)
    alpha, cost, slope = floating(xp, alpha, COST.check(xp, "fixed", cost), COST.check(xp, "marginal", slope))
    with np.errstate(over="ignore"):  # a delay beyond the largest number is infinite
        ratios = in_kind(xp, critical_ratios(xp, in_kind(xp, alpha, xp.float64)), alpha.dtype)
        reached = xp.isfinite(ratios)
        total = xp.where(reached, slope[..., None] * xp.where(reached, ratios, 1.0), xp.inf)
    return total - cost[..., None]


def critical_ratios(xp: Any, alpha: Array) -> Array:
    """Return c_K = Σ_{j≤K} S(j)/S(K + 1) - K for K = 0, 1, .., by quotients of sums, so that none is 0/0."""
    found, total = [], xp.ones_like(alpha[..., 0])
    for k in range(alpha.shape[-1]):
        total = quotient(xp, total, alpha[..., k])
        found.append(total - k)
        total = total + 1.0
    return xp.stack(found, axis=-1)


# --------------------------------------------------------------------------------------------- claims


def rates_side(one: Values) -> list[float]:
    """Return the tokens a second of 0..K_max drafts."""
    profile = etgr_profile(one["acceptances"], one["fixed"], one["marginal"]).tolist()
    return [1.0 / float(one["fixed"]) if one["fixed"] > 0 else math.inf, *profile]


def threshold_rate(one: Values) -> float:
    """Return the tokens a second with as many drafts as critical delays are below 0."""
    delays = critical_delays(one["acceptances"], one["fixed"], one["marginal"])
    return rates_side(one)[int((delays < 0).sum())]


def below_critical(acceptance: Array, fixed: Array, marginal: Array) -> Array:
    """F ≤ M ((1 + γ)/γ² - 1), multiplied by γ²."""
    return acceptance**2 * (fixed + marginal) <= marginal * (1.0 + acceptance)
