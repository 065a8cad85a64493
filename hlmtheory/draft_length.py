"""How many tokens to draft in a round: throughput as a function of the draft length, and its maximiser.

Paper: flexspec (li2025flexspec) (2), (7)-(11), Algorithm 2, Table I and Fig. 6.

========== =============================================== ========= ===========
symbol     name                                            unit      shape
========== =============================================== ========= ===========
γ          ``acceptance``, of a draft given those before   1         (...)
K          ``draft_length``                                tokens    (...)
K_max      ``max_length``                                  tokens    (...)
F          ``fixed``, T_fixed: what a round costs anyway   s         (...)
M          ``marginal``, T_marginal: what each draft adds  s         (...)
T(K)       F + K M                                         s         (...)
τ          ``accepted`` drafts of a round                  tokens    (...)
E(K)       expected tokens of a round, the server's own    tokens    (...)
           among them: (1 - γ^{K+1})/(1 - γ)
ETGR(K)    E(K)/T(K), effective token generation rate      tokens/s  (...)
μ          ``step`` of a tracker                           1         (...)
========== =============================================== ========= ===========

F and M may be any cost that is affine in K: seconds, joules, bytes, or a weighted sum of them. The same
maximiser then gives the most tokens per unit of that cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

from hlmtheory import _rounds, _tracking
from hlmtheory._array import Array, arrays, floating
from hlmtheory._domains import COUNT, UNIT_INTERVAL, DomainError
from hlmtheory._quantities import at_least_one, not_negative, whole_from_one
from hlmtheory._rounds import round_costs, round_energy, synchronisation_time
from hlmtheory._tracking import AcceptanceTracker, accepted_moments, tracker_moments
from hlmtheory.claims import Assumption, Attained, Claim, Origin, Relation, Source
from hlmtheory.verification import expected_tokens

__all__ = [
    "CLAIMS",
    "AcceptanceTracker",
    "round_costs",
    "round_energy",
    "synchronisation_time",
    "tracker_moments",
]

_COST = not_negative("give what a round costs, in seconds (or joules, or bytes)")
_AMOUNT = not_negative("give a time in seconds, a size in bits, a power in watts or an energy in joules")
_FACTOR = at_least_one("give by which factor it grows")
_LENGTH = whole_from_one("a round drafts at least one token")
_NEWTON = 8
_TERMS = 20  # of the series of e^v - 1 - v below 1: the next is 1/22! of the sum


def etgr(acceptance: Array, draft_length: Array, fixed: Array, marginal: Array) -> Array:
    """Effective token generation rate E(K)/T(K) with geometric acceptance.

    Parameters
    ----------
    acceptance : array, shape (...)
        γ in [0, 1].
    draft_length : integer array, shape (...)
        K, 0 or more.
    fixed, marginal : array, shape (...)
        F and M, in seconds and seconds a token.

    Returns
    -------
    array, shape (...)
        Tokens a second, the server's own token counted; flexspec (2), (11).

    Raises
    ------
    ValueError
        If γ is outside [0, 1], K negative or no integer, a cost negative or infinite, or a round takes no time.

    Examples
    --------
    >>> float(etgr(0.5, 3, 0.5, 0.25))
    1.5
    """
    xp, gamma, length, cost, slope = arrays(
        acceptance=acceptance, draft_length=draft_length, fixed=fixed, marginal=marginal
    )
    tokens = expected_tokens(gamma, length)
    tokens, cost, slope = floating(xp, tokens, _COST.check(xp, "fixed", cost), _COST.check(xp, "marginal", slope))
    return tokens / _round(xp, xp.astype(length, cost.dtype), cost, slope)


def cost_per_token(acceptance: Array, draft_length: Array, fixed: Array, marginal: Array) -> Array:
    """What a token costs in the long run, T(K)/E(K): in seconds, joules or bytes, as ``fixed`` and ``marginal`` are.

    Rounds are independent, so by the law of large numbers cost over tokens tends to the ratio of the means.

    Parameters
    ----------
    acceptance : array, shape (...)
        γ in [0, 1].
    draft_length : integer array, shape (...)
        K, 0 or more.
    fixed, marginal : array, shape (...)
        Cost of a round and of each draft in it: :func:`round_costs`, :func:`round_energy`, or bytes (header/8, b/8).

    Returns
    -------
    array, shape (...)
        Unit of the costs, a token.

    Raises
    ------
    ValueError
        As :func:`etgr`.

    Examples
    --------
    >>> round(float(cost_per_token(0.5, 3, 40.0, 2.0)), 3)  # bytes: a header of 40, drafts of 2
    24.533
    """
    return 1.0 / etgr(acceptance, draft_length, fixed, marginal)


def etgr_profile(acceptances: Array, fixed: Array, marginal: Array) -> Array:
    """Effective token generation rate for K = 1..K_max at once, with any acceptance profile.

    Parameters
    ----------
    acceptances : array, shape (..., K_max)
        α_i in [0, 1]: P(draft i is accepted given that drafts 1..i-1 were), not the marginal rate.
    fixed, marginal : array, shape (...)
        F and M, in seconds and seconds a token.

    Returns
    -------
    array, shape (..., K_max)
        Tokens a second with K = 1, 2, ..: (1 + Σ_{j≤K} Π_{i≤j} α_i)/T(K).

    Raises
    ------
    ValueError
        If a rate is outside [0, 1], a cost negative or infinite, or a round takes no time.

    Examples
    --------
    >>> etgr_profile([0.5, 0.5], 0.5, 0.25).tolist()
    [2.0, 1.75]
    """
    xp, alpha, cost, slope = arrays(acceptances=acceptances, fixed=fixed, marginal=marginal)
    UNIT_INTERVAL.check(xp, "acceptances", alpha)
    alpha, cost, slope = floating(xp, alpha, _COST.check(xp, "fixed", cost), _COST.check(xp, "marginal", slope))
    lengths = xp.arange(1, alpha.shape[-1] + 1, dtype=alpha.dtype, device=alpha.device)
    tokens = 1.0 + xp.cumulative_sum(xp.cumulative_prod(alpha, axis=-1), axis=-1)
    return tokens / _round(xp, lengths, cost[..., None], slope[..., None])


def stationary_draft_length(acceptance: Array, fixed: Array, marginal: Array) -> Array:
    """The real K at which ETGR is stationary: v/a - 1 with a = -ln γ and e^v - 1 - v = a(F/M - 1).

    ETGR(K) ∝ (1 - e^{-a u})/(u + F/M - 1) with u = K + 1. Its derivative has the sign of
    a(u + F/M - 1) + 1 - e^{au}, positive below one zero and negative above it; v = a u there. In closed form
    v = -c - 1 - W₋₁(-e^{-c-1}), whose argument underflows; Newton on the convex left side, from above, does not.

    Parameters
    ----------
    acceptance : array, shape (...)
        γ in [0, 1].
    fixed, marginal : array, shape (...)
        F and M, in seconds and seconds a token.

    Returns
    -------
    float64 array, shape (...)
        Above -1; infinite where longer is always better (γ = 1 or M = 0, with F > M), and -1 where shorter is.

    Raises
    ------
    ValueError
        If γ is outside [0, 1], a cost negative or infinite, or both costs are 0.

    Examples
    --------
    >>> round(float(stationary_draft_length(0.8, 0.1, 0.02)), 3)
    3.904
    """
    xp, gamma, cost, slope = _link(acceptance, fixed, marginal)
    inner = (gamma > 0) & (gamma < 1) & (cost > slope) & (slope > 0)
    ones = xp.ones_like(gamma)
    a = -xp.log(xp.where(inner, gamma, 0.5 * ones))
    v = _solve(xp, a, xp.where(inner, cost, 2.0 * ones), xp.where(inner, slope, ones))
    longer = (gamma > 0) & (cost > slope)  # c > 0; for γ = 0 one token comes out whatever K
    return xp.where(inner, v / a - 1.0, xp.where(longer, ones * math.inf, -ones))


def optimal_draft_length(
    acceptance: Array, fixed: Array, marginal: Array, max_length: Array, *, min_length: int = 1
) -> Array:
    """The draft length in [1, K_max] with the highest ETGR, with geometric acceptance.

    ETGR is unimodal in K, so the best is the floor of :func:`stationary_draft_length` or the next; the next is
    better when its token is worth more than the time it takes, γ^{K+1} T(K) > M E(K). Of equals the shorter.

    Parameters
    ----------
    acceptance : array, shape (...)
        γ in [0, 1]. 0 gives 1; 1 gives K_max where F > M, else 1.
    fixed, marginal : array, shape (...)
        F and M, in seconds and seconds a token.
    max_length : integer array, shape (...)
        K_max, 1 or more.
    min_length : int
        1 as in flexspec (11); 0 lets the server decode alone, with a round of length F.

    Returns
    -------
    int64 array, shape (...)
        K*; solves flexspec (11).

    Raises
    ------
    ValueError
        If γ is outside [0, 1], a cost negative or infinite, both costs are 0, K_max below 1, or min_length not 0 or 1.

    Examples
    --------
    >>> optimal_draft_length([0.2, 0.8, 0.99], 0.1, 0.02, 16).tolist()
    [1, 4, 16]
    """
    xp, gamma, cost, slope, longest = arrays(
        acceptance=acceptance, fixed=fixed, marginal=marginal, max_length=max_length
    )
    _LENGTH.check(xp, "max_length", longest)
    if min_length not in (0, 1):
        raise DomainError(f"min_length must be 0 or 1; got {min_length!r}; 0 lets the server decode alone")
    real = stationary_draft_length(gamma, cost, slope)
    _, gamma, cost, slope = _link(gamma, cost, slope)
    top = xp.astype(longest, xp.float64) + xp.zeros_like(real)
    k = xp.floor(xp.where(real > top, top, xp.where(real < min_length, xp.ones_like(real) * min_length, real)))
    worth = gamma ** (k + 1.0) * (cost + k * slope)
    more = (k < top) & (worth > slope * expected_tokens(gamma, xp.astype(k, xp.int64)))
    return xp.astype(xp.where(more, k + 1.0, k), xp.int64)


def optimal_draft_length_profile(acceptances: Array, fixed: Array, marginal: Array) -> Array:
    """The draft length in [1, K_max] with the highest ETGR, with any acceptance profile.

    Parameters
    ----------
    acceptances : array, shape (..., K_max)
        α_i in [0, 1]: P(draft i is accepted given that drafts 1..i-1 were).
    fixed, marginal : array, shape (...)
        F and M, in seconds and seconds a token.

    Returns
    -------
    int64 array, shape (...)
        The first K whose successor is no better: ETGR is unimodal whatever the profile. Of equals the shorter.

    Raises
    ------
    ValueError
        If a rate is outside [0, 1], a cost negative or infinite, a round takes no time, or there is no draft.

    Examples
    --------
    >>> int(optimal_draft_length_profile([0.9, 0.8, 0.1, 0.9], 0.1, 0.02))
    2
    """
    xp, alpha = arrays(acceptances=acceptances)
    if alpha.ndim == 0 or alpha.shape[-1] == 0:
        raise DomainError(f"acceptances must have an entry for each draft; got shape {tuple(alpha.shape)}; give K ≥ 1")
    rates = etgr_profile(alpha, fixed, marginal)
    return xp.astype(xp.argmax(rates, axis=-1), xp.int64) + 1


def surrogate_draft_length(
    acceptance: Array, fixed: Array, marginal: Array, max_length: Array, *, bonus: bool = True
) -> Array:
    """The draft length that flexspec's linear surrogate picks: 1 or K_max, never anything between.

    Parameters
    ----------
    acceptance : array, shape (...)
        γ̂ in [0, 1].
    fixed, marginal : array, shape (...)
        F and M, in seconds and seconds a token.
    max_length : integer array, shape (...)
        K_max, 1 or more.
    bonus : bool
        E ≈ 1 + γK as in Algorithm 2, or E ≈ γK as in the text below (11).

    Returns
    -------
    int64 array, shape (...)
        With the bonus K_max where γF > M; without it K_max where γF > 0. Where every K ties, 1.

    Raises
    ------
    ValueError
        If γ is outside [0, 1], a cost negative or infinite, both costs are 0, or K_max below 1.

    Examples
    --------
    >>> surrogate_draft_length(0.8, 0.1, [0.02, 0.07, 0.09], 16).tolist()
    [16, 16, 1]
    """
    xp, gamma, cost, slope, longest = arrays(
        acceptance=acceptance, fixed=fixed, marginal=marginal, max_length=max_length
    )
    _LENGTH.check(xp, "max_length", longest)
    _, gamma, cost, slope = _link(gamma, cost, slope)
    rises = gamma * cost > (slope if bonus else xp.zeros_like(slope))
    longest = xp.astype(longest, xp.int64) + xp.zeros_like(rises, dtype=xp.int64)
    return xp.where(rises, longest, xp.ones_like(longest))


def draft_length_regret(acceptance: Array, believed: Array, fixed: Array, marginal: Array, max_length: Array) -> Array:
    """Share of the throughput lost when the draft length is chosen for a γ that is not the true one.

    Parameters
    ----------
    acceptance, believed : array, shape (...)
        The true γ and the one the device believes in, in [0, 1].
    fixed, marginal : array, shape (...)
        F and M, in seconds and seconds a token.
    max_length : integer array, shape (...)
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
    return 1.0 - _kept(acceptance, believed, fixed, marginal, max_length)


def _round(xp: Any, length: Array, cost: Array, slope: Array) -> Array:
    """T(K), refused where it is 0."""
    total = cost + length * slope
    if not bool(xp.all(total > 0)):
        raise DomainError("fixed + draft_length * marginal must be positive; got 0; a round takes some time")
    return total


def _link(acceptance: Array, fixed: Array, marginal: Array) -> tuple[Any, Array, Array, Array]:
    """The namespace, γ, F and M in float64 and of one shape."""
    xp, gamma, cost, slope = arrays(acceptance=acceptance, fixed=fixed, marginal=marginal)
    UNIT_INTERVAL.check(xp, "acceptance", gamma)
    _COST.check(xp, "fixed", cost)
    _COST.check(xp, "marginal", slope)
    gamma, cost, slope = xp.broadcast_arrays(*(xp.astype(value, xp.float64) for value in (gamma, cost, slope)))
    _round(xp, xp.ones_like(cost), cost, slope)
    return xp, gamma, cost, slope


def _solve(xp: Any, a: Array, cost: Array, slope: Array) -> Array:
    """The v > 0 with e^v - 1 - v = c, c = a (F - M)/M, F > M > 0; to a few units in the last place.

    Newton from above: v²/2 ≤ c gives v ≤ √(2c), and then v = ln(1 + c + v) ≤ ln(1 + c + √(2c)).
    """
    log_c = xp.log(a) + xp.log(cost - slope) - xp.log(slope)
    huge = log_c > 600.0  # e^v drowns 1 + v
    c = xp.where(huge, xp.ones_like(a), a * ((cost - slope) / xp.where(huge, cost, slope)))
    root = xp.sqrt(2.0 * c)
    above = xp.log1p(c + root)
    v = xp.where(root < above, root, above)
    for _ in range(_NEWTON):
        rise = xp.expm1(v)
        v = v - xp.where(rise > 0, (_remainder(xp, v, rise) - c) / xp.where(rise > 0, rise, xp.ones_like(v)), 0.0 * v)
    return xp.where(huge, log_c, v)


def _remainder(xp: Any, v: Array, rise: Array) -> Array:
    """e^v - 1 - v, by its series below 1, where the difference would cancel."""
    small = v < 1.0
    x = xp.where(small, v, xp.zeros_like(v))
    series = xp.ones_like(x)
    for n in range(_TERMS, 2, -1):
        series = 1.0 + x / n * series
    return xp.where(small, 0.5 * x * x * series, rise - v)


def _kept(acceptance: Array, believed: Array, fixed: Array, marginal: Array, max_length: Array) -> Array:
    """ETGR with the length chosen for ``believed``, over ETGR with the best."""
    xp, belief = arrays(believed=believed)
    UNIT_INTERVAL.check(xp, "believed", belief)
    chosen = optimal_draft_length(believed, fixed, marginal, max_length)
    best = optimal_draft_length(acceptance, fixed, marginal, max_length)
    _, gamma, cost, slope = _link(acceptance, fixed, marginal)
    return etgr(gamma, chosen, cost, slope) / etgr(gamma, best, cost, slope)


# --------------------------------------------------------------------------------------------- claims
#
# etgr. P(first j drafts accepted) = γ^j, summed over j = 0..K; verification.tokens_iid.
# unimodal. E(K + 1) - E(K) = Π_{i≤K+1} α_i never rises with K, so E is concave, and the longer round is better iff
#   Π_{i≤K+1} α_i > M E(K)/T(K). If that fails at K, E/T does not rise there, and it fails at K + 1 too: with
#   x = Π_{i≤K+2} α_i ≤ y = Π_{i≤K+1} α_i ≤ M E(K)/T(K), the mediant (E(K) + y)/(T(K) + M) = E(K+1)/T(K+1) ≥ y/M.
# optimal. f(u) = (1 - e^{-au})/(u + d), u = K + 1, d = F/M - 1: f' has the sign of 1 + a(u + d) - e^{au}, which is
#   concave in u and ad = c at u = 0. c ≤ 0: it is never positive for u > 0 (slope a - a e^{au} < 0), so K = 1.
#   c > 0: one zero, at e^v - 1 - v = c, v = au. Unimodal, so the best integer is next to it.
# stationary. At the zero a e^{-au}/(1 - e^{-au}) = 1/(u + d): the relative gain of a draft equals its relative cost.
# ratio. K* depends on γ and F/M alone. T'(K)/T(K) with a larger F/M falls in K, so a shorter draft than K* that
#   was no better before is no better after.
# slower_shortens. F/M = (F₀ + O/R)/(m₀ + b/R) is monotone in 1/R with the sign of O m₀ - b F₀: it *rises* as the
#   link slows when O/b > F₀/m₀. A TCP/IP header of 320 bits and indices of 16 give O/b = 20.
# linear. K/(F + KM) rises with K when F > 0. (1 + γK)/(F + KM) has a derivative of the sign of γF - M for every K.
# linear_adapts. The surrogate's choice without the bonus does not depend on the link at all.
# regret. r(K) = E_γ(K)/E_γ̂(K) is monotone in K, as γ^j/γ̂^j is in j, with r(1) = (1 + γ)/(1 + γ̂) and r(∞) =
#   (1 - γ̂)/(1 - γ). As K̂ is best for γ̂, ETGR_γ(K̂) = r(K̂) ETGR_γ̂(K̂) ≥ r(K̂) ETGR_γ̂(K*) = r(K̂)/r(K*) ETGR_γ(K*), and
#   r(K̂)/r(K*) is at least min(r(1)/r(∞), r(∞)/r(1)). Approached by γ̂ = 0, M → 0, K_max → ∞.
# energy. Joules of a round are affine in K too, so is T + λE: the same maximiser, with other costs.

_LONGEST = 64
"""K_max of the claims about two links."""


def _lengths_in_range(draft_length: Array, max_length: Array) -> Array:
    return (draft_length >= 1) & (draft_length <= max_length)


def _best_rate(acceptance: Array, fixed: Array, marginal: Array, max_length: Array) -> Array:
    return etgr(acceptance, optimal_draft_length(acceptance, fixed, marginal, max_length), fixed, marginal)


def _summed_rate(acceptance: Array, draft_length: Array, fixed: Array, marginal: Array) -> Array:
    """Σ_j P(first j drafts accepted) over T(K), draft by draft."""
    xp, gamma, length = arrays(acceptance=acceptance, draft_length=draft_length)
    shape = xp.zeros_like(gamma * xp.astype(length, gamma.dtype))
    mean, _ = accepted_moments(xp, gamma + shape, length)
    return (1.0 + mean) / _round(xp, xp.astype(length, gamma.dtype), *arrays(fixed=fixed, marginal=marginal)[1:])


def _best_of_profile(acceptances: Array, fixed: Array, marginal: Array) -> Array:
    xp, rates = arrays(rates=etgr_profile(acceptances, fixed, marginal))
    return xp.max(rates, axis=-1)


def _first_descent(acceptances: Array, fixed: Array, marginal: Array) -> Array:
    """ETGR at the first K whose successor is no better."""
    xp, rates = arrays(rates=etgr_profile(acceptances, fixed, marginal))
    best = rates[..., 0]
    going = xp.ones_like(best, dtype=xp.bool)
    for k in range(1, rates.shape[-1]):
        going = going & (rates[..., k] > best)
        best = xp.where(going, rates[..., k], best)
    return best


def _gain_of_a_draft(acceptance: Array, fixed: Array, marginal: Array) -> Array:
    """Relative gain d ln E/dK at the stationary point."""
    xp, gamma, cost, slope = _link(acceptance, fixed, marginal)
    inside = _interior(gamma, cost, slope)
    a = -xp.log(xp.where(inside, gamma, xp.full_like(gamma, 0.5)))
    real = xp.where(inside, stationary_draft_length(gamma, cost, slope), xp.ones_like(gamma))
    return a / xp.expm1(a * (real + 1.0))


def _cost_of_a_draft(acceptance: Array, fixed: Array, marginal: Array) -> Array:
    """Relative cost d ln T/dK at the stationary point."""
    xp, gamma, cost, slope = _link(acceptance, fixed, marginal)
    inside = _interior(gamma, cost, slope)
    real = xp.where(inside, stationary_draft_length(gamma, cost, slope), xp.ones_like(gamma))
    return slope / xp.where(inside, cost - slope + slope * (real + 1.0), xp.ones_like(gamma))


def _digits_lost(acceptance: Array, fixed: Array, marginal: Array) -> Array:
    """A rounding error of K* moves the gain by a times as much."""
    xp, gamma, cost, slope = _link(acceptance, fixed, marginal)
    a = -xp.log(xp.where(gamma > 0, gamma, xp.ones_like(gamma)))
    return (1.0 + a) * _cost_of_a_draft(gamma, cost, slope)


def _interior(acceptance: Array, fixed: Array, marginal: Array) -> Array:
    return (acceptance > 0) & (acceptance < 1) & (marginal > 0) & (fixed > marginal)


def _dearer_and_short(acceptance: Array, fixed: Array, marginal: Array, rise: Array, max_length: Array) -> Array:
    """ETGR with M times the rise, at the shorter of the best lengths before and after."""
    xp, cost, slope, rise = arrays(fixed=fixed, marginal=marginal, rise=rise)
    dear = slope * _FACTOR.check(xp, "rise", rise)
    before = optimal_draft_length(acceptance, cost, slope, max_length)
    after = optimal_draft_length(acceptance, cost, dear, max_length)
    return etgr(acceptance, xp.minimum(before, after), cost, dear)


def _dearer(acceptance: Array, fixed: Array, marginal: Array, rise: Array, max_length: Array) -> Array:
    """ETGR with M times the rise, at the best length."""
    return _best_rate(acceptance, fixed, marginal * rise, max_length)


def _shrinks(acceptance: Array, fixed: Array, marginal: Array, rise: Array, max_length: Array) -> Array:
    before = optimal_draft_length(acceptance, fixed, marginal, max_length)
    return optimal_draft_length(acceptance, fixed, marginal * rise, max_length) < before


def _surrogate_when_dearer(fixed: Array, marginal: Array, rise: Array, max_length: Array, acceptance: Array) -> Array:
    xp, slope, rise = arrays(marginal=marginal, rise=rise)
    dear = slope * _FACTOR.check(xp, "rise", rise)
    return surrogate_draft_length(acceptance, fixed, dear, max_length, bonus=False) + 1


def _surrogate(fixed: Array, marginal: Array, max_length: Array, acceptance: Array) -> Array:
    return surrogate_draft_length(acceptance, fixed, marginal, max_length, bonus=False)


def _surrogate_rate(bonus: bool) -> Any:
    """Its objective: (1 or 0) + γK over T(K)."""

    def rate(acceptance: Array, draft_length: Array, fixed: Array, marginal: Array) -> Array:
        xp, gamma, cost, slope = _link(acceptance, fixed, marginal)
        k = xp.astype(COUNT.check(xp, "draft_length", arrays(gamma=gamma, length=draft_length)[2]), xp.float64)
        return (float(bonus) + gamma * k) / _round(xp, k, cost, slope)

    return rate


def _surrogate_peak(bonus: bool) -> Any:
    rate = _surrogate_rate(bonus)

    def peak(acceptance: Array, fixed: Array, marginal: Array, max_length: Array) -> Array:
        length = surrogate_draft_length(acceptance, fixed, marginal, max_length, bonus=bonus)
        return rate(acceptance, length, fixed, marginal)

    return peak


def _rate_of_algorithm_2(acceptance: Array, fixed: Array, marginal: Array, max_length: Array) -> Array:
    return etgr(acceptance, surrogate_draft_length(acceptance, fixed, marginal, max_length), fixed, marginal)


def _two_links(
    acceptance: Array,
    rate_bps: Array,
    slowdown: Array,
    fixed: Array,
    marginal: Array,
    bits_per_token: Array,
    header_bits: Array,
) -> tuple[Any, Array, Array, Array, Array]:
    """K* over a link of R/slowdown and over one of R, and the costs over the first; F and M are what is not sent."""
    xp, rate, slowdown, token, header, cost, slope = arrays(
        rate_bps=rate_bps,
        slowdown=slowdown,
        bits_per_token=bits_per_token,
        header_bits=header_bits,
        fixed=fixed,
        marginal=marginal,
    )
    _FACTOR.check(xp, "slowdown", slowdown)
    _COST.check(xp, "fixed", cost)
    _COST.check(xp, "marginal", slope)
    fast = round_costs(rate, bits_per_token=token, header_bits=header, cloud_base_s=cost, cloud_slope_s=slope)
    slow = round_costs(
        rate / slowdown, bits_per_token=token, header_bits=header, cloud_base_s=cost, cloud_slope_s=slope
    )
    longest = xp.asarray(_LONGEST, device=rate.device)
    lengths = (optimal_draft_length(acceptance, *costs, longest) for costs in (slow, fast))
    return (xp, *lengths, *slow)


def _of_two_links(side: Callable[..., Array]) -> Callable[..., Array]:
    """``side(acceptance, xp, slow, fast, fixed, marginal)`` as a function of the instance."""

    @wraps(_two_links)
    def function(**instance: Array) -> Array:
        return side(instance["acceptance"], *_two_links(**instance))

    return function


def _small_header(fixed: Array, marginal: Array, bits_per_token: Array, header_bits: Array) -> Array:
    return header_bits * marginal <= bits_per_token * fixed


def _free_bound(acceptance: Array, believed: Array) -> Array:
    """(1 - larger²)/(1 - smaller²) of the two rates; 1 where both are 1."""
    xp, gamma, belief = arrays(acceptance=acceptance, believed=believed)
    low, high = xp.minimum(gamma, belief), xp.maximum(gamma, belief)
    least = xp.where(low == high, xp.zeros_like(low), (1.0 - low) * (1.0 + low))
    bound = (1.0 - high) * (1.0 + high) / xp.where(least > 0, least, xp.ones_like(low))
    return xp.where(least > 0, bound, xp.ones_like(low))


def _weighted_cost(
    acceptance: Array,
    draft_length: Array,
    fixed: Array,
    marginal: Array,
    fixed_j: Array,
    marginal_j: Array,
    price: Array,
) -> Array:
    """(T + λ energy) a token."""
    return cost_per_token(acceptance, draft_length, *_weighed(fixed, marginal, fixed_j, marginal_j, price))


def _least_weighted_cost(
    acceptance: Array, max_length: Array, fixed: Array, marginal: Array, fixed_j: Array, marginal_j: Array, price: Array
) -> Array:
    costs = _weighed(fixed, marginal, fixed_j, marginal_j, price)
    return cost_per_token(acceptance, optimal_draft_length(acceptance, *costs, max_length), *costs)


def _weighed(fixed: Array, marginal: Array, fixed_j: Array, marginal_j: Array, price: Array) -> tuple[Array, Array]:
    xp, joules, slope, price, start, step = arrays(
        fixed_j=fixed_j, marginal_j=marginal_j, price=price, fixed=fixed, marginal=marginal
    )
    _COST.check(xp, "fixed", start)
    _COST.check(xp, "marginal", step)
    for name, value in (("fixed_j", joules), ("marginal_j", slope), ("price", price)):
        _AMOUNT.check(xp, name, value)
    return start + price * joules, step + price * slope


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

CLAIMS = (
    Claim(
        id="draft_length.etgr",
        source=Source(_PAPER, "(2), (11)"),
        origin=Origin.PUBLISHED,
        statement="ETGR(K) = Σ_{j≤K} P(first j drafts accepted)/T(K) = (1 − γ^{K+1})/((1 − γ)(F + KM))",
        relation=Relation.EQ,
        lhs=_summed_rate,
        rhs=etgr,
        attained=Attained({**_CASE, "draft_length": 4}),
    ),
    Claim(
        id="draft_length.unimodal",
        source=Source(_PAPER, "(11)"),
        origin=Origin.NEW,
        statement="max_K ETGR(K) = ETGR at the first K whose successor is no better, whatever the acceptance profile",
        relation=Relation.EQ,
        lhs=_best_of_profile,
        rhs=_first_descent,
        attained=Attained({"acceptances": [0.5, 1.0, 0.25], "fixed": 1.0, "marginal": 0.25}),
        condition=lambda acceptances, fixed, marginal: (
            acceptances.shape[-1] * _best_of_profile(acceptances, fixed, marginal)
        ),
    ),
    Claim(
        id="draft_length.stationary",
        source=Source(_PAPER, "(11)"),
        origin=Origin.NEW,
        statement="certificate: at K* = v/a − 1, e^v − 1 − v = c, a draft's relative gain equals its relative cost",
        relation=Relation.EQ,
        lhs=_gain_of_a_draft,
        rhs=_cost_of_a_draft,
        assumptions=(Assumption("0 < γ < 1 and F > M > 0", _interior),),
        attained=Attained(_CASE),
        condition=_digits_lost,
    ),
    Claim(
        id="draft_length.optimal",
        source=Source(_PAPER, "(11)"),
        origin=Origin.NEW,
        statement="ETGR(K) ≤ ETGR(K*) for every K in 1..K_max, K* the better neighbour of v/a − 1, clamped",
        relation=Relation.LE,
        lhs=etgr,
        rhs=_best_rate,
        assumptions=(_IN_RANGE,),
        attained=Attained({**_CASE, "draft_length": 4, "max_length": 16}),
    ),
    Claim(
        id="draft_length.ratio",
        source=Source(_PAPER, "below (11)"),
        origin=Origin.NEW,
        statement="where drafts cost more beside T_fixed, none longer than the best before is needed",
        relation=Relation.LE,
        lhs=_dearer,
        rhs=_dearer_and_short,
        attained=Attained({**_CASE, "rise": 2.0, "max_length": 16}),
    ),
    Claim(
        id="draft_length.slower_shortens",
        source=Source(_PAPER, "below (11)"),
        origin=Origin.PUBLISHED,
        statement="a reduced rate forces a smaller K*: K*(R/slowdown) ≤ K*(R)",
        relation=Relation.LE,
        lhs=_of_two_links(lambda acceptance, xp, slow, fast, fixed, marginal: slow),
        rhs=_of_two_links(lambda acceptance, xp, slow, fast, fixed, marginal: fast),
        refuted=_HEADER,
    ),
    Claim(
        id="draft_length.slower_shortens_if",
        source=Source(_PAPER, "below (11), from (8)"),
        origin=Origin.CORRECTED,
        statement="a reduced rate needs no longer draft if O_header/b ≤ T_fixed/T_marginal of what is not sent",
        relation=Relation.LE,
        lhs=_of_two_links(lambda acceptance, xp, slow, fast, fixed, marginal: etgr(acceptance, slow, fixed, marginal)),
        rhs=_of_two_links(
            lambda acceptance, xp, slow, fast, fixed, marginal: etgr(
                acceptance, xp.minimum(slow, fast), fixed, marginal
            )
        ),
        assumptions=(Assumption("O_header/b ≤ T_fixed/T_marginal of what is not sent", _small_header),),
        attained=Attained({**_HEADER, "header_bits": 16.0}),
    ),
    Claim(
        id="draft_length.linear",
        source=Source(_PAPER, "below (11)"),
        origin=Origin.NEW,
        statement="with E ≈ γK every draft is worth sending: γK/T(K) ≤ γK_max/T(K_max)",
        relation=Relation.LE,
        lhs=_surrogate_rate(bonus=False),
        rhs=_surrogate_peak(bonus=False),
        assumptions=(_IN_RANGE,),
        attained=Attained({**_CASE, "draft_length": 16, "max_length": 16}),
    ),
    Claim(
        id="draft_length.linear_bonus",
        source=Source(_PAPER, "Algorithm 2"),
        origin=Origin.NEW,
        statement="with E ≈ 1 + γK the best is K_max if γF > M, 1 if less, and every K ties at equality",
        relation=Relation.LE,
        lhs=_surrogate_rate(bonus=True),
        rhs=_surrogate_peak(bonus=True),
        assumptions=(_IN_RANGE,),
        attained=Attained({**_CASE, "draft_length": 16, "max_length": 16}),
    ),
    Claim(
        id="draft_length.linear_optimal",
        source=Source(_PAPER, "Algorithm 2 for (11)"),
        origin=Origin.PUBLISHED,
        statement="max_K ETGR(K) ≤ ETGR at the length of Algorithm 2, argmax (1 + γK)/T(K)",
        relation=Relation.LE,
        lhs=_best_rate,
        rhs=_rate_of_algorithm_2,
        refuted={**_CASE, "max_length": 16},
    ),
    Claim(
        id="draft_length.linear_adapts",
        source=Source(_PAPER, "below (11), with E ≈ γK"),
        origin=Origin.PUBLISHED,
        statement="a draft that costs more forces a smaller argmax γK/T(K) wherever it forces a smaller K*",
        relation=Relation.LE,
        lhs=_surrogate_when_dearer,
        rhs=_surrogate,
        assumptions=(Assumption("the best draft gets shorter", _shrinks),),
        refuted={**_CASE, "rise": 4.0, "max_length": 16},
    ),
    Claim(
        id="draft_length.regret",
        source=Source(_PAPER, "Algorithm 2"),
        origin=Origin.NEW,
        statement="a length chosen for γ̂ keeps at least (1 − max(γ, γ̂)²)/(1 − min(γ, γ̂)²) of the throughput",
        relation=Relation.LE,
        lhs=_free_bound,
        rhs=_kept,
        attained=Attained({"acceptance": 0.5, "believed": 0.0, "fixed": 1.0, "marginal": 0.0, "max_length": 60}),
    ),
    Claim(
        id="draft_length.energy",
        source=Source(_PAPER, "Fig. 6"),
        origin=Origin.NEW,
        statement="(time + λ energy) a token is least at the same formula's K*, with F + λF_J and M + λM_J",
        relation=Relation.LE,
        lhs=_least_weighted_cost,
        rhs=_weighted_cost,
        assumptions=(_IN_RANGE,),
        attained=Attained(
            {**_CASE, "fixed_j": 1.0, "marginal_j": 0.125, "price": 0.5, "draft_length": 5, "max_length": 16}
        ),
    ),
    *_tracking.CLAIMS,
    *_rounds.CLAIMS,
)
