"""Claims of ``draft_length``: first the proofs, then the functions of both sides, then the records."""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise
from typing import Any

from hlmtheory._array import Array, arrays
from hlmtheory._domains import COUNT, UNIT_INTERVAL
from hlmtheory._quantities import not_negative, positive
from hlmtheory._sides import Values, host_side
from hlmtheory.claims import Assumption, Attained, Claim, Origin, Relation, Source
from hlmtheory.draft_length import censored_claims, delay, online_claims, rounds, tracking
from hlmtheory.draft_length.optimum import (
    kept,
    least_kept,
    optimal_draft_length,
    stationary_draft_length,
    surrogate_draft_length,
)
from hlmtheory.draft_length.rates import COST, FACTOR, LENGTH, etgr, etgr_profile, rate_and_costs, round_time
from hlmtheory.draft_length.rounds import round_costs

# Proofs, by the last part of the id.
#
# unimodal. E(K + 1) - E(K) = Π_{i≤K+1} α_i never rises with K, so E is concave. One more draft is better iff
#   Π_{i≤K+1} α_i > M E(K)/T(K). If this fails at K, it also fails at K + 1. For let y = Π_{i≤K+1} α_i ≤ M E(K)/T(K) and
#   x = Π_{i≤K+2} α_i ≤ y. The mediant gives E(K+1)/T(K+1) = (E(K) + y)/(T(K) + M) ≥ y/M ≥ x/M.
# optimal. f(u) = (1 - e^{-au})/(u + d), u = K + 1, d = F/M - 1: f' has the sign of 1 + a(u + d) - e^{au}, which is
#   concave in u and equals ad = c at u = 0. If c ≤ 0, it is negative for u > 0 (slope a - a e^{au} < 0), so K = 1.
#   If c > 0, it has one zero, at e^v - 1 - v = c with v = au. E/T is unimodal, so the best integer is next to the zero.
# stationary. At the zero a e^{-au}/(1 - e^{-au}) = 1/(u + d): the relative gain of a draft equals its relative cost.
# slower_shortens, slower_shortens_if. F/M = (F₀ + O/R)/(m₀ + b/R) is monotone in 1/R with the sign of O m₀ - b F₀: it
#   *rises* as the link slows when O/b > F₀/m₀. A TCP/IP header of 320 bits and indices of 16 give O/b = 20.
# linear_bonus. (1 + γK)/(F + KM) has a derivative of the sign of γF - M for every K.
# linear_optimal. False: by linear_bonus Algorithm 2 drafts 1 or K_max, while the best length can lie between
#   (``optimal``).
# linear_adapts. False: without the bonus, the surrogate's choice does not depend on the link.
# regret. K* and K̂ change only at the F/M at which one of them rises by one. Between two such values, the ratio of the
#   two rates is a quotient of affine functions of F/M, so it is monotone. So its infimum is at one of these values.

_K_MAX = 64
"""Value of K_max in the claims about two links."""


def _lengths_in_range(draft_length: Array, max_draft_length: Array) -> Array:
    return (draft_length >= 1) & (draft_length <= max_draft_length)


def _best_rate(acceptance: Array, fixed: Array, marginal: Array, max_draft_length: Array) -> Array:
    return etgr(acceptance, optimal_draft_length(acceptance, fixed, marginal, max_draft_length), fixed, marginal)


def _first_descent(one: Values) -> float:
    rates = etgr_profile(one["acceptances"], one["fixed"], one["marginal"]).tolist()
    return float(next((rate for rate, after in pairwise(rates) if after <= rate), rates[-1]))


def _link(one: Values) -> tuple[float, float, float]:
    return float(one["acceptance"]), float(one["fixed"]), float(one["marginal"])


def _gain_of_a_draft(one: Values) -> float:
    """Return the relative gain d ln E/dK at the stationary point."""
    a = -math.log(one["acceptance"]) if _interior(one) else 1.0
    return a / math.expm1(a * (float(stationary_draft_length(*_link(one))) + 1.0)) if _interior(one) else 1.0


def _cost_of_a_draft(one: Values) -> float:
    """Return the relative cost d ln T/dK at the stationary point."""
    gamma, cost, slope = _link(one)
    length = float(stationary_draft_length(gamma, cost, slope))
    return slope / (cost + slope * length) if _interior(one) else 1.0


def _digits_lost(one: Values) -> float:
    """Return the scale of the rounding error: an error δ of K* changes the gain by about aδ times the gain."""
    return (1.0 - math.log(one["acceptance"] or 1.0)) * _cost_of_a_draft(one)


def _interior(one: Values) -> bool:
    gamma, cost, slope = _link(one)
    return 0 < gamma < 1 and cost > slope > 0


def _shrinks(acceptance: Array, fixed: Array, marginal: Array, rise: Array, max_draft_length: Array) -> Array:
    before = optimal_draft_length(acceptance, fixed, marginal, max_draft_length)
    return optimal_draft_length(acceptance, fixed, marginal * rise, max_draft_length) < before


def _surrogate(acceptance: Array, fixed: Array, marginal: Array, max_draft_length: Array) -> Array:
    return surrogate_draft_length(acceptance, fixed, marginal, max_draft_length, bonus=False)


def _surrogate_rate(bonus: bool) -> Any:
    """Return the objective of the surrogate: (1 + γK)/T(K) with the bonus, γK/T(K) without."""

    def rate(acceptance: Array, draft_length: Array, fixed: Array, marginal: Array) -> Array:
        xp, gamma, cost, slope = rate_and_costs(acceptance, fixed, marginal)
        k = xp.astype(COUNT.check(xp, "draft_length", arrays(gamma=gamma, length=draft_length)[2]), xp.float64)
        return (float(bonus) + gamma * k) / round_time(xp, k, cost, slope)

    return rate


def _surrogate_peak(bonus: bool) -> Any:
    rate = _surrogate_rate(bonus)

    def peak(acceptance: Array, fixed: Array, marginal: Array, max_draft_length: Array) -> Array:
        length = surrogate_draft_length(acceptance, fixed, marginal, max_draft_length, bonus=bonus)
        return rate(acceptance, length, fixed, marginal)

    return peak


def _rate_of_algorithm_2(acceptance: Array, fixed: Array, marginal: Array, max_draft_length: Array) -> Array:
    return etgr(acceptance, surrogate_draft_length(acceptance, fixed, marginal, max_draft_length), fixed, marginal)


def _two_links(one: Values) -> tuple[int, int, float, float]:
    """Return K* at the rates R/slowdown and R, and the costs of a round at R/slowdown.

    ``fixed`` and ``marginal`` are the parts of F and M that do not depend on the link.
    """
    parts = {"bits_per_token": one["bits_per_token"], "header_bits": one["header_bits"]}
    parts |= {"cloud_base_s": one["fixed"], "cloud_slope_s": one["marginal"]}
    fast, slow = (round_costs(rate, **parts) for rate in (one["rate_bps"], one["rate_bps"] / one["slowdown"]))
    lengths = [int(optimal_draft_length(one["acceptance"], *costs, _K_MAX)) for costs in (slow, fast)]
    return lengths[0], lengths[1], float(slow[0]), float(slow[1])


def _rate_of_shorter(one: Values) -> float:
    slow, fast, *costs = _two_links(one)
    return float(etgr(one["acceptance"], min(slow, fast), *costs))


def _rate_of_slow(one: Values) -> float:
    slow, _, *costs = _two_links(one)
    return float(etgr(one["acceptance"], slow, *costs))


_side = partial(
    host_side,
    {
        **dict.fromkeys(("acceptance", "acceptances"), UNIT_INTERVAL),
        "rate_bps": positive("give the rate of the link in bit/s"),
        **dict.fromkeys(("slowdown", "rise"), FACTOR),
        **dict.fromkeys(("fixed", "marginal"), COST),
        **dict.fromkeys(("bits_per_token", "header_bits"), not_negative("give a size in bits")),
        "max_draft_length": LENGTH,
    },
    {"acceptances": 1},
)


def _surrogate_when_dearer(one: Values) -> float:
    gamma, cost, slope = _link(one)
    return float(_surrogate(gamma, cost, slope * float(one["rise"]), one["max_draft_length"])) + 1.0


def _small_header(fixed: Array, marginal: Array, bits_per_token: Array, header_bits: Array) -> Array:
    return header_bits * marginal <= bits_per_token * fixed


_PAPER = "li2025flexspec"
_IN_RANGE = Assumption("1 ≤ K ≤ K_max", _lengths_in_range)
_CASE = {"acceptance": 0.8, "fixed": 0.1, "marginal": 0.02}
_HEADER = {
    "acceptance": 0.8,
    "rate_bps": 1e6,
    "slowdown": 1000.0,
    "fixed": 0.02,
    "marginal": 0.0125,
    "bits_per_token": 16.0,
    "header_bits": 320.0,
}
_LINKS = tuple(_HEADER)
_LINK, _PROFILE = tuple(_CASE), ("acceptances", "fixed", "marginal")

CLAIMS = (
    Claim(
        id="draft_length.unimodal",
        source=Source(_PAPER, "(11)"),
        statement="max_K ETGR(K) = ETGR at the first K whose successor is no better, whatever the acceptance profile",
        relation=Relation.EQ,
        lhs=_side(lambda one: float(etgr_profile(*(one[name] for name in _PROFILE)).max()), *_PROFILE),
        rhs=_side(_first_descent, *_PROFILE),
        attained=Attained({"acceptances": [0.5, 1.0, 0.25], "fixed": 1.0, "marginal": 0.25}),
    ),
    Claim(
        id="draft_length.stationary",
        source=Source(_PAPER, "(11)"),
        statement="certificate: at K* = v/a − 1, e^v − 1 − v = c, a draft's relative gain equals its relative cost",
        relation=Relation.EQ,
        lhs=_side(_gain_of_a_draft, *_LINK),
        rhs=_side(_cost_of_a_draft, *_LINK),
        assumptions=(Assumption("0 < γ < 1 and F > M > 0", _side(_interior, *_LINK, test=True)),),
        attained=Attained(_CASE),
        condition=_side(_digits_lost, *_LINK),
    ),
    Claim(
        id="draft_length.optimal",
        source=Source(_PAPER, "(11)"),
        statement="ETGR(K) ≤ ETGR(K*) for every K in 1..K_max, K* the better neighbour of v/a − 1, clamped",
        lhs=etgr,
        rhs=_best_rate,
        assumptions=(_IN_RANGE,),
        attained=Attained({**_CASE, "draft_length": 4, "max_draft_length": 16}),
    ),
    Claim(
        id="draft_length.slower_shortens",
        source=Source(_PAPER, "below (11), and on Fig. 2"),
        origin=Origin.PUBLISHED,
        statement="a reduced rate forces a smaller K*: K*(R/slowdown) ≤ K*(R)",
        lhs=_side(lambda one: float(_two_links(one)[0]), *_LINKS),
        rhs=_side(lambda one: float(_two_links(one)[1]), *_LINKS),
        refuted=_HEADER,
    ),
    Claim(
        id="draft_length.slower_shortens_if",
        source=Source(_PAPER, "below (11), from (8)"),
        origin=Origin.CORRECTED,
        statement="a reduced rate needs no longer draft if O_header/b ≤ T_fixed/T_marginal of what is not sent",
        lhs=_side(_rate_of_slow, *_LINKS),
        rhs=_side(_rate_of_shorter, *_LINKS),
        assumptions=(Assumption("O_header/b ≤ T_fixed/T_marginal of what is not sent", _small_header),),
        attained=Attained({**_HEADER, "header_bits": 16.0}),
    ),
    Claim(
        id="draft_length.linear_bonus",
        source=Source(_PAPER, "Algorithm 2"),
        statement="with E ≈ 1 + γK the best is K_max if γF > M, 1 if less, and every K ties at equality",
        lhs=_surrogate_rate(bonus=True),
        rhs=_surrogate_peak(bonus=True),
        assumptions=(_IN_RANGE,),
        attained=Attained({**_CASE, "draft_length": 16, "max_draft_length": 16}),
    ),
    Claim(
        id="draft_length.linear_optimal",
        source=Source(_PAPER, "Algorithm 2, were its approximation of (11) to lose nothing"),
        origin=Origin.IMPLIED,
        statement="max_K ETGR(K) ≤ ETGR at the length of Algorithm 2, argmax (1 + γK)/T(K)",
        lhs=_best_rate,
        rhs=_rate_of_algorithm_2,
        refuted={**_CASE, "max_draft_length": 16},
    ),
    Claim(
        id="draft_length.linear_adapts",
        source=Source(_PAPER, "below (11), with E ≈ γK"),
        origin=Origin.PUBLISHED,
        statement="a draft that costs more forces a smaller argmax γK/T(K) wherever it forces a smaller K*",
        lhs=_side(_surrogate_when_dearer, *_LINK, "rise", "max_draft_length"),
        rhs=_surrogate,
        assumptions=(Assumption("the best draft gets shorter", _shrinks),),
        refuted={**_CASE, "rise": 4.0, "max_draft_length": 16},
    ),
    Claim(
        id="draft_length.regret",
        source=Source(_PAPER, "Algorithm 2"),
        statement="a length chosen for γ̂ keeps at least inf_{F/M} ETGR(K̂)/ETGR(K*), the least over the ties of lengths",
        lhs=least_kept,
        rhs=kept,
        attained=Attained(
            {"acceptance": 0.9, "believed": 0.8, "fixed": 43.20766091346, "marginal": 1.0, "max_draft_length": 40}
        ),
    ),
    *tracking.CLAIMS,
    *rounds.CLAIMS,
    *censored_claims.CLAIMS,
    *delay.CLAIMS,
    *online_claims.CLAIMS,
)
