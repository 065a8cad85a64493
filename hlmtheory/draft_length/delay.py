"""From which delay on a longer draft is worth it: the best length is a threshold in the delay (sun2026delay, abstract).

With x = (F + delay)/M, lengths K and K + 1 tie at x = c_K = E(K)/S(K + 1) - K. Only the mean of a delay matters.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from hlmtheory._array import Array, arrays, floating, in_kind
from hlmtheory._domains import UNIT_INTERVAL, broadcast, entry_for_each
from hlmtheory._sides import Values, host_side
from hlmtheory._simplex import quotient
from hlmtheory.claims import Assumption, Attained, Claim, Origin, Relation, Source
from hlmtheory.draft_length.rates import COST, LENGTH, etgr, etgr_profile


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
#
# delay_threshold. K + 1 is better than K iff S(K + 1) T(K) > M E(K), that is x > c_K. S falls and E rises, so c_{K+1} -
#   c_K = E(K + 1)/S(K + 2) - E(K)/S(K + 1) - 1 ≥ (E(K) + S(K + 1))/S(K + 1) - E(K)/S(K + 1) - 1 = 0. So all K below the
#   number of the c_K < x are worse than the next one, and no other is. A delay adds to F.
# delay_one. For equal acceptances c_1 = (1 + γ)/γ² - 1. With F = 2d + c_v and M = c_d + c_v, for a delay d each way,
#   F/M = c_1 is d = M (1 + γ)/(2 γ²) - (c_d + 2 c_v)/2, as in the authors' experiments. By delay_threshold no longer
#   draft is better at or below it.


def _rates(one: Values) -> list[float]:
    """Return the tokens a second of 0..K_max drafts."""
    profile = etgr_profile(one["acceptances"], one["fixed"], one["marginal"]).tolist()
    return [1.0 / float(one["fixed"]) if one["fixed"] > 0 else math.inf, *profile]


def _threshold_rate(one: Values) -> float:
    """Return the tokens a second with as many drafts as critical delays are below 0."""
    delays = critical_delays(one["acceptances"], one["fixed"], one["marginal"])
    return _rates(one)[int((delays < 0).sum())]


_side = partial(host_side, {"acceptances": UNIT_INTERVAL, "fixed": COST, "marginal": COST}, {"acceptances": 1})


def _at_one(acceptance: Array, fixed: Array, marginal: Array) -> Array:
    xp, gamma = arrays(acceptance=acceptance)
    return etgr(gamma, xp.ones_like(gamma, dtype=xp.int64), fixed, marginal)


def _at_any(acceptance: Array, other_length: Array, fixed: Array, marginal: Array) -> Array:
    xp, length = arrays(other_length=other_length)
    return etgr(acceptance, LENGTH.check(xp, "other_length", length), fixed, marginal)


def _below_critical(acceptance: Array, fixed: Array, marginal: Array) -> Array:
    """F ≤ M ((1 + γ)/γ² - 1), multiplied by γ²."""
    return acceptance**2 * (fixed + marginal) <= marginal * (1.0 + acceptance)


_PAPER, _CASE = "sun2026delay", {"acceptances": [0.8] * 6, "fixed": 0.1, "marginal": 0.02}

CLAIMS = (
    Claim(
        id="draft_length.delay_threshold",
        source=Source(_PAPER, "abstract: a finite delay-monotone threshold"),
        statement=(
            "the best length is the number of K with c_K < (F + delay)/M, c_K = E(K)/S(K + 1) − K, for any profile"
        ),
        relation=Relation.EQ,
        lhs=_side(lambda one: max(_rates(one)), *_CASE),
        rhs=_side(_threshold_rate, *_CASE),
        attained=Attained(_CASE),
    ),
    Claim(
        id="draft_length.delay_one",
        source=Source(_PAPER, "abstract: the critical delay; its formula by the authors' experiments"),
        origin=Origin.PUBLISHED,
        statement="ETGR(K) ≤ ETGR(1) for every K ≥ 1 if F + delay ≤ M ((1 + γ)/γ² − 1)",
        lhs=_at_any,
        rhs=_at_one,
        assumptions=(Assumption("F + delay ≤ M ((1 + γ)/γ² − 1)", _below_critical),),
        attained=Attained({"acceptance": 0.5, "other_length": 2, "fixed": 5.0, "marginal": 1.0}),
    ),
)
