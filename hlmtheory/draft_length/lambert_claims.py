"""The draft length of TK-SLT (zheng2025tkslt) in closed form, with Lambert's W.

Its abstract was at hand, and public code that quotes (11), (21), Algorithm 1 and Table I; the body was not. A round of
γ drafts takes 1 + γL passes of the target model, so L is a draft's time and its message over the time of a pass.
"""

from __future__ import annotations

import numpy as np
from array_api_compat import device

from hlmtheory._array import Array, arrays, to_numpy
from hlmtheory.claims import Assumption, Attained, Claim, Origin, Relation, Source
from hlmtheory.draft_length.rates import etgr

# Proofs, by the last part of the id.
#
# lambert. Let a = -ln α and x = 1 + a(γ + 1/L). S'(γ) = 0 is e^{a(γ+1)} = x, and a(γ + 1) = x - 1 - a(1/L - 1). So
#   -x e^{-x} = -α^{1/L-1}/e with x > 1, which is -x = W₋₁. S is unimodal (draft_length.optimal), so the best whole
#   number is next to that zero, or 1 if it is below 1.


def _speedup(acceptance: Array, marginal: Array, draft_length: Array) -> Array:
    """Return (11), S = E(γ)/(1 + γL)."""
    xp, alpha = arrays(acceptance=acceptance)
    return etgr(acceptance, draft_length, xp.ones_like(alpha), marginal)


def _printed_length(acceptance: Array, marginal: Array, branch: int) -> tuple[Array, ...]:
    """Return the whole numbers below and above (21), at least 1; 1 where its argument is out of range."""
    from scipy.special import lambertw

    xp, alpha, cost = arrays(acceptance=acceptance, marginal=marginal)
    rate, slope = to_numpy(alpha), to_numpy(cost)
    inside = (rate > 0) & (rate < 1) & (slope > 0) & (slope < 1)
    rate, slope = np.where(inside, rate, 0.5), np.where(inside, slope, 0.5)
    with np.errstate(under="ignore"):
        argument = -np.exp(-1.0) * rate ** (1.0 / slope - 1.0)
    inner = np.where(argument < 0, argument, -1e-300)
    real = (lambertw(inner, branch).real + 1.0) / np.log(rate) - 1.0 / slope
    known = inside & (argument < 0) & np.isfinite(real)
    real = np.where(known, np.clip(real, 1.0, 2.0**53), 1.0)  # beyond it whole numbers are not exact
    low = np.floor(real).astype(np.int64)
    return tuple(xp.asarray(length, device=device(alpha)) for length in (low, low + (real > low)))


def _best(acceptance: Array, marginal: Array, branch: int) -> Array:
    xp, alpha, cost = arrays(acceptance=acceptance, marginal=marginal)
    low, high = _printed_length(alpha, cost, branch)
    return xp.maximum(_speedup(alpha, cost, low), _speedup(alpha, cost, high))


def _in_range(acceptance: Array, marginal: Array, draft_length: Array) -> Array:
    return (acceptance > 0) & (acceptance < 1) & (marginal > 0) & (marginal < 1) & (draft_length >= 1)


def _computed(acceptance: Array, marginal: Array) -> Array:
    xp, alpha, cost = arrays(acceptance=acceptance, marginal=marginal)
    inside = (alpha > 0) & (cost > 0)
    power = xp.log(xp.where(inside, alpha, 0.5)) * (1.0 / xp.where(inside, cost, 1.0) - 1.0)
    return inside & (power > -600.0) & (alpha <= 0.999)


_SOURCE = Source("zheng2025tkslt", "Theorem 2, (11) and (21), as public code of the method quotes them")
_ASSUMED = (
    Assumption("0 < α < 1, 0 < L < 1 and γ ≥ 1", _in_range),
    Assumption("α^(1/L − 1) > e^(−600) and α ≤ .999: W₋₁ is computed in float64", _computed),
)
_CASE = {"acceptance": 0.75, "marginal": 0.125, "draft_length": 4}

LAMBERT_CLAIMS = (
    Claim(
        id="draft_length.lambert",
        source=_SOURCE,
        origin=Origin.PUBLISHED,
        statement=(
            "S(γ) = (1 − α^{γ+1})/((1 − α)(1 + γL)) ≤ S at the better neighbour of "
            "(W₋₁(−α^{1/L−1}/e) + 1)/ln α − 1/L, at least 1"
        ),
        relation=Relation.LE,
        lhs=_speedup,
        rhs=lambda acceptance, marginal: _best(acceptance, marginal, -1),
        assumptions=_ASSUMED,
        attained=Attained(_CASE),
        condition=lambda acceptance: 64.0 + 0.0 * acceptance,
    ),
)
