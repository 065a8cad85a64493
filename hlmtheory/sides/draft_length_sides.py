"""Sides of the theorems on the best number of drafts."""

import math
from itertools import pairwise
from typing import Any

from hlmtheory._array import Array, arrays
from hlmtheory._domains import COUNT
from hlmtheory.draft_length.optimum import optimal_draft_length, stationary_draft_length, surrogate_draft_length
from hlmtheory.draft_length.rates import etgr, etgr_profile, rate_and_costs, round_time
from hlmtheory.draft_length.rounds import round_costs
from hlmtheory.sides.host import Values

_K_MAX = 64
"""Value of K_max in the claims about two links."""


def lengths_in_range(draft_length: Array, max_draft_length: Array) -> Array:
    return (draft_length >= 1) & (draft_length <= max_draft_length)


def best_rate(acceptance: Array, fixed: Array, marginal: Array, max_draft_length: Array) -> Array:
    return etgr(acceptance, optimal_draft_length(acceptance, fixed, marginal, max_draft_length), fixed, marginal)


def first_descent(one: Values) -> float:
    rates = etgr_profile(one["acceptances"], one["fixed"], one["marginal"]).tolist()
    return float(next((rate for rate, after in pairwise(rates) if after <= rate), rates[-1]))


def _link(one: Values) -> tuple[float, float, float]:
    return float(one["acceptance"]), float(one["fixed"]), float(one["marginal"])


def gain_of_a_draft(one: Values) -> float:
    """Return the relative gain d ln E/dK at the stationary point."""
    if not interior(one):
        return 1.0
    a = -math.log(one["acceptance"])
    return a / math.expm1(a * (float(stationary_draft_length(*_link(one))) + 1.0))


def cost_of_a_draft(one: Values) -> float:
    """Return the relative cost d ln T/dK at the stationary point."""
    if not interior(one):
        return 1.0
    gamma, cost, slope = _link(one)
    return slope / (cost + slope * float(stationary_draft_length(gamma, cost, slope)))


def digits_lost(one: Values) -> float:
    """Return the scale of the rounding error: an error δ of K* changes the gain by about aδ times the gain."""
    return (1.0 - math.log(one["acceptance"] or 1.0)) * cost_of_a_draft(one)


def interior(one: Values) -> bool:
    gamma, cost, slope = _link(one)
    return 0 < gamma < 1 and cost > slope > 0


def shrinks(acceptance: Array, fixed: Array, marginal: Array, rise: Array, max_draft_length: Array) -> Array:
    before = optimal_draft_length(acceptance, fixed, marginal, max_draft_length)
    return optimal_draft_length(acceptance, fixed, marginal * rise, max_draft_length) < before


def surrogate_side(acceptance: Array, fixed: Array, marginal: Array, max_draft_length: Array) -> Array:
    return surrogate_draft_length(acceptance, fixed, marginal, max_draft_length, bonus=False)


def surrogate_rate(bonus: bool) -> Any:
    """Return the objective of the surrogate: (1 + γK)/T(K) with the bonus, γK/T(K) without."""

    def rate(acceptance: Array, draft_length: Array, fixed: Array, marginal: Array) -> Array:
        xp, gamma, cost, slope = rate_and_costs(acceptance, fixed, marginal)
        k = xp.astype(COUNT.check(xp, "draft_length", arrays(gamma=gamma, length=draft_length)[2]), xp.float64)
        return (float(bonus) + gamma * k) / round_time(xp, k, cost, slope)

    return rate


def surrogate_peak(bonus: bool) -> Any:
    rate = surrogate_rate(bonus)

    def peak(acceptance: Array, fixed: Array, marginal: Array, max_draft_length: Array) -> Array:
        length = surrogate_draft_length(acceptance, fixed, marginal, max_draft_length, bonus=bonus)
        return rate(acceptance, length, fixed, marginal)

    return peak


def two_links(one: Values) -> tuple[int, int, float, float]:
    """Return K* at the rates R/slowdown and R, and the costs of a round at R/slowdown.

    ``fixed`` and ``marginal`` are the parts of F and M that do not depend on the link.
    """
    parts = {"bits_per_token": one["bits_per_token"], "header_bits": one["header_bits"]}
    parts |= {"cloud_base_s": one["fixed"], "cloud_slope_s": one["marginal"]}
    fast, slow = (round_costs(rate, **parts) for rate in (one["rate_bps"], one["rate_bps"] / one["slowdown"]))
    lengths = [int(optimal_draft_length(one["acceptance"], *costs, _K_MAX)) for costs in (slow, fast)]
    return lengths[0], lengths[1], float(slow[0]), float(slow[1])


def rate_of_shorter(one: Values) -> float:
    slow, fast, *costs = two_links(one)
    return float(etgr(one["acceptance"], min(slow, fast), *costs))


def rate_of_slow(one: Values) -> float:
    slow, _, *costs = two_links(one)
    return float(etgr(one["acceptance"], slow, *costs))


def surrogate_shortened(one: Values) -> float:
    """Return by how many drafts argmax γK/T(K) falls as M rises."""
    gamma, cost, slope = _link(one)
    slopes = (slope, slope * float(one["rise"]))
    before, after = (float(surrogate_side(gamma, cost, each, one["max_draft_length"])) for each in slopes)
    return before - after


def small_header(fixed: Array, marginal: Array, bits_per_token: Array, header_bits: Array) -> Array:
    return header_bits * marginal <= bits_per_token * fixed
