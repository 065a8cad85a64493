"""Claims on the softplus and the online bound, with proofs; :mod:`hlmtheory.truncation.softplus` defines both."""

from __future__ import annotations

import math

from hlmtheory._array import Array, arrays
from hlmtheory._domains import token_of
from hlmtheory._quantities import checked
from hlmtheory._simplex import distance, quotient
from hlmtheory.claims import Assumption, Attained, Claim, Origin, Relation, Source
from hlmtheory.truncation._claim_sides import inverse_distance, loss_at_draft
from hlmtheory.truncation.reconstruction import draft_and_size, pair_and_size, resampling_distortion, truncated
from hlmtheory.truncation.softplus import (
    LN2,
    SHARPNESS,
    online_bound,
    online_denominator,
    rejection_at,
    softplus_distance,
)
from hlmtheory.verification import total_variation

# softplus. ℓ(z) - z⁺ = ln(1 + e^{-η|z|})/η, largest at z = 0; the q_i that weight it sum to at most 1 where q_i > 0.
# softplus_value. (22) term by term: ℓ(z) = ln(e⁰ + e^{ηz})/η for z = p_i/q_i - 1, and p_i where q_i = 0.
#   The public functions split ℓ into its ReLU and the rest. This side does not, and shares no code with them.
# online_bound. ℓ rises, so ℓ(p_i/q_i - 1) ≥ ℓ(-1), and ℓ(p_d/q_d - 1) ≥ ℓ(-β_d), as p_d/q_d - 1 ≥ -β_d. Hence
#   Σ q ℓ ≥ D. The ratio tends to 1 with p = q as η → 0 or q_d → 1.
# online_gap. False: D is below Σ q ℓ but can be above 2 TV(q, p), for a small η by any factor. cu-hlm asks for a
#   moderate η and has sent tokens in mind; there it fails seldom.
# online_safe. If D ≤ 2 Δ_k, then Ū ≥ 1. If D ≤ 2 q_d β_d: q_d β_d = (q_d - p_d)⁺ ≤ TV(q, p), so by tvd_sharp
#   TV(r, r̂) ≤ Δ_k/TV(q, p) ≤ Δ_k/(q_d β_d) ≤ Ū. Below η* the target of worst_case with the loss
#   q_d β_d taken from d alone has TV(r, r̂) = Δ_k/(q_d β_d) > Ū(k) wherever 0 < Δ_k < q_d β_d and d is sent.
# online_certified. TV(q, p) ≥ q_d β_d ≥ q_d b for every b ≤ β_d; the bound is smallest, and checked, at b = β_d.
# online_direction. ℓ rises, so ℓ(-β_d) and D fall as β_d rises, and Ū rises. The distortion that it should bound
#   falls: the largest distortion for a given β_d is min(1, Δ_k/(q_d β_d)), claim truncation.online_direction_worst.
# online. False: Ū need not bound the distortion (online_gap), so the k of (24) need not keep it below θ, neither with
#   the true β_d nor with a·u + b.


def _added(target: Array, draft: Array, sharpness: Array) -> Array:
    """Return Σ q ℓ - TV(q, p)."""
    return softplus_distance(target, draft, sharpness) - total_variation(target, draft)


def _by_definition(target: Array, draft: Array, sharpness: Array) -> Array:
    """Return Σ q_i ln(1 + e^{ηz})/η as in (22); z where e^{-ηz} is below a rounding, p_i where q_i is 0."""
    xp, p, q, eta = arrays("sharpness", target=target, draft=draft, sharpness=sharpness)
    eta = SHARPNESS.check(xp, "sharpness", eta)[..., None] + 0.0 * q
    some = (q > 0) & (p - q < 45.0 / eta * q)
    scaled = eta * xp.where(some, (p - q) / xp.where(some, q, 1.0), 0.0)
    return xp.sum(xp.where(some, q * (xp.logaddexp(scaled, xp.zeros_like(scaled)) / eta), p - q), axis=-1)


def _approximate(target: Array, draft: Array, k: Array, sharpness: Array) -> Array:
    """Return Û(k)."""
    xp, _, p, q, k = pair_and_size(target, draft, k)
    return quotient(xp, 2.0 * distance(xp, q, truncated(xp, q, k)), softplus_distance(p, q, sharpness))


def _token(draft: Array, token: Array) -> Array:
    """Return the checked token; errors use its name in the instance."""
    xp, q, token = arrays(draft=draft, token=token)
    return token_of(q.shape[-1]).check(xp, "token", token)


def _online(target: Array, draft: Array, token: Array, k: Array, sharpness: Array, share: float = 1.0) -> Array:
    """Return Ū(k) at a share of the true β_d."""
    beta = share * rejection_at(target, draft, _token(draft, token))
    return online_bound(draft, token, beta, k, sharpness=sharpness)


def _true_online(target: Array, draft: Array, token: Array, k: Array, sharpness: Array) -> Array:
    return _online(target, draft, token, k, sharpness)


def _safe(target: Array, draft: Array, token: Array, k: Array, sharpness: Array) -> Array:
    lost = loss_at_draft(target, draft, token)
    beta = rejection_at(target, draft, token)
    q, denominator = online_denominator(draft, token, beta, sharpness)
    xp, _, q, k = draft_and_size(q, k)
    return denominator <= 2.0 * xp.maximum(distance(xp, q, truncated(xp, q, k)), lost)


def _certified(target: Array, draft: Array, token: Array, k: Array) -> Array:
    """Return Δ_k / (q_d β_d)."""
    lost = loss_at_draft(target, draft, token)
    xp, _, _, q, k = pair_and_size(target, draft, k)
    return quotient(xp, distance(xp, q, truncated(xp, q, k)), lost)


def _is_rejected(target: Array, draft: Array, token: Array) -> Array:
    return loss_at_draft(target, draft, token) > 0


def _ln2_over(sharpness: Array) -> Array:
    return LN2 / checked({"sharpness": SHARPNESS}, sharpness=sharpness)[1]


def _flatness(sharpness: Array) -> Array:
    """Return 1 + 1/η, because the softplus of a small η is 1/η times a logarithm."""
    xp, eta = arrays(sharpness=sharpness)
    return 1.0 + 1.0 / SHARPNESS.check(xp, "sharpness", eta)


_APART = {"target": [0.25, 0.25, 0.5], "draft": [0.5, 0.25, 0.25]}
_SAFE = Assumption("D ≤ 2 max(Δ_k, q_d β_d)", _safe)
_REJECTED = Assumption("q_d β_d > 0", _is_rejected)
_TIGHT = {"target": [0.5, 0.25, 0.25], "draft": [0.625, 0.25, 0.125], "token": 0, "k": 1}
_NEAR = {
    "target": [0.6171875, 0.1953125, 0.1875],
    "draft": [0.625, 0.1953125, 0.1796875],
    "token": 0,
    "k": 1,
    "sharpness": 20.0,
}
"""A draft that is rejected (β_d = 1/80), and ln 2/η = 0.035: the residual is one token, and its distortion is 1."""
_LEAST = 1.6278145318315138
"""η*(0.625, 0.2), rounded up."""
_SAME = {"target": [0.9375, 0.0625], "draft": [0.9375, 0.0625], "sharpness": 2.0**-10}
_SAME_RATIO = 0.9375 + 0.0625 * math.log1p(math.exp(-(2.0**-10))) / LN2
_ACCEPTED = {"target": [0.75, 0.25, 0.0], "draft": [0.625, 0.25, 0.125], "token": 0, "k": 1, "sharpness": 5.0}

CLAIMS = (
    Claim(
        id="truncation.softplus",
        source=Source("oh2025cuhlm", "(22) and below"),
        origin=Origin.PUBLISHED,
        statement="ℓ(z) − z⁺ ≤ ln 2/η, so Σ q_i ℓ(p_i/q_i − 1) − TV(q, p) ≤ ln 2/η",
        lhs=_added,
        rhs=_ln2_over,
        attained=Attained({"target": [0.5, 0.5], "draft": [0.5, 0.5], "sharpness": 2.0}),
    ),
    Claim(
        id="truncation.softplus_value",
        source=Source("oh2025cuhlm", "(22) and below"),
        origin=Origin.PUBLISHED,
        statement="the distance by softplus is Σ_i q_i ln(1 + exp(ηz_i))/η, z_i = p_i/q_i − 1, for every z and η",
        relation=Relation.EQ,
        lhs=softplus_distance,
        rhs=_by_definition,
        attained=Attained({**_APART, "sharpness": 2.0}),
        condition=_flatness,
    ),
    Claim(
        id="truncation.online_bound",
        source=Source("oh2025cuhlm", "Prop. 2, (23)"),
        origin=Origin.PUBLISHED,
        statement="Û(k) ≤ Ū(k) = 2 Δ_k / D, D = (1 − q_d) ℓ(−1) + q_d ℓ(−β_d)",
        lhs=_approximate,
        rhs=_true_online,
        attained=Attained({**_SAME, "token": 0, "k": 0}, ratio=_SAME_RATIO),
    ),
    Claim(
        id="truncation.online_gap",
        source=Source("oh2025cuhlm", "Fig. 8, where Ū is an upper bound of the TVD, read without its moderate η"),
        origin=Origin.IMPLIED,
        statement=(
            "TV(r, r̂) ≤ Ū(k), with the true β_d, on any token and for any η; the paper asks for a moderate η "
            "and has sent tokens in mind, where it fails seldom"
        ),
        lhs=resampling_distortion,
        rhs=_true_online,
        refuted=_NEAR,
        ceiling=1.0,
        condition=inverse_distance,
    ),
    Claim(
        id="truncation.online_safe",
        source=Source("oh2025cuhlm", "Prop. 2, (23)"),
        origin=Origin.CORRECTED,
        statement="TV(r, r̂) ≤ Ū(k) where D ≤ 2 max(Δ_k, q_d β_d): for all η from η*(q_d, β_d) on",
        lhs=resampling_distortion,
        rhs=_true_online,
        assumptions=(_SAFE,),
        attained=Attained({**_TIGHT, "sharpness": _LEAST}),
        ceiling=1.0,
        condition=inverse_distance,
    ),
    Claim(
        id="truncation.online_certified",
        source=Source("oh2025cuhlm", "Prop. 2, (23)"),
        origin=Origin.CORRECTED,
        statement="TV(r, r̂) ≤ Δ_k / (q_d b) for any b ≤ β_d (checked at b = β_d)",
        lhs=resampling_distortion,
        rhs=_certified,
        assumptions=(_REJECTED,),
        attained=Attained(_TIGHT),
        ceiling=1.0,
        condition=inverse_distance,
    ),
    Claim(
        id="truncation.online_direction",
        source=Source("oh2025cuhlm", "below (24)"),
        origin=Origin.PUBLISHED,
        statement="Ū(k) at β_d/2 ≤ Ū(k) at β_d: the bound rises with the uncertainty, and the k of (24) with it",
        lhs=lambda target, draft, token, k, sharpness: _online(target, draft, token, k, sharpness, 0.5),
        rhs=_true_online,
        attained=Attained(_ACCEPTED),
    ),
)
