"""The target with the largest distortion for k of V probabilities.

Symbols are those of :mod:`hlmtheory.truncation`; δ is ``distance``, TV(q, p).
"""

from __future__ import annotations

from typing import Any

from hlmtheory._array import Array, arrays
from hlmtheory._simplex import distance as apart
from hlmtheory._simplex import excess, normalised, quotient
from hlmtheory.claims import Assumption, Attained, Claim, Origin, Relation, Source
from hlmtheory.truncation._claim_sides import inverse_distance, loss_at_draft
from hlmtheory.truncation.reconstruction import kept, pair_and_size, resampling_bias, resampling_distortion
from hlmtheory.truncation.softplus import rejection_at


def _worst(xp: Any, q: Array, sent: Array, giver: Array, delta: Array) -> Array:
    """The target, where ``giver`` has the mass δ."""
    given = normalised(xp, xp.where(giver, q, 0.0))[0]
    rest = xp.sum(xp.where(sent, 0.0, q), axis=-1, keepdims=True)
    count = xp.count_nonzero(~sent, axis=-1, keepdims=True)
    mean = rest / xp.astype(xp.where(count > 0, count, 1), q.dtype)
    missing, deviation = normalised(xp, xp.where(sent, 0.0, xp.clip(mean - q, min=0.0)))
    filled = xp.minimum(delta, deviation[..., None])
    top = _receiver(xp, q, sent, giver)
    target = xp.clip(q - delta * given, min=0.0) + filled * missing  # what is given is at most q up to rounding
    return normalised(xp, target + xp.where(top, delta - filled, 0.0))[0]


def _receiver(xp: Any, q: Array, sent: Array, giver: Array) -> Array:
    """The entry that receives the remainder: the largest of the tail; if all are sent, the smallest that gives nothing.

    If all are sent and all give, the smallest of all; the caller then excludes it from the givers.
    """
    others = xp.where(xp.all(giver, axis=-1, keepdims=True), sent, ~giver)
    least = xp.where(others, -q, -2.0)
    wanted = xp.where(xp.all(sent, axis=-1, keepdims=True), least, xp.where(sent, -1.0, q))
    return xp.arange(q.shape[-1], device=q.device) == xp.argmax(wanted, axis=-1, keepdims=True)


# --------------------------------------------------------------------------------------------- claims
#
# worst_case. Let L be the tail's entries below μ and H those above it, so that Σ_L (μ - q_i) = Σ_H (q_i - μ) = Δ_k.
#   The target raises L by f = min(δ, Δ_k) in all, none beyond μ, and one entry h of H by δ - f. Only sent entries lose.
#   So (p - q)⁺ is f on L and δ - f at h, with sum δ = TV(q, p). (p - q̂)⁺ is 0 on L, q_i - μ on H, and δ - f more at h,
#   with sum Δ_k + δ - f. If δ ≤ Δ_k, then f = δ, the two have disjoint supports, and TV(r, r̂) = 1. If δ > Δ_k, then
#   f = Δ_k, both sums are δ, and TV(r, r̂) = Σ_L f/δ = Δ_k/δ. By truncation.tvd_sharp no target has more.
# bias_worst. Bias = 2 T TV(r, r̂) ≤ 2 T min(1, Δ_k/T); where r̂ is 0/0, Bias ≤ 2 T ≤ 2 Δ_k.
#   For every k, no smaller bound follows from q and an upper bound τ on T. Take s ≤ 1 such that T = s Δ_k ≤ τ, and
#   p = q + s (q̂ - q). Then (p - q)⁺ = s (q̂ - q)⁺ lies where q < q̂, and (p - q̂)⁺ = (1 - s) (q - q̂)⁺ where q > q̂ (or
#   it is 0/0, for s = 1), so TV(r, r̂) = 1 and Bias = 2 T. Knowing T itself would be more: q = (.7, .3) and T = .25
#   leave two targets, and for both q̂_0 = (.5, .5) gives the right residual.
# online_direction_worst. Apply worst_case with all of δ = q_d β_d lost at d, which is sent. The other entries do not
#   lose, so the rejection probability is the given β_d. Since TV(q, p) ≥ q_d β_d, the largest distortion with that β_d
#   is W(β_d) = min(1, Δ_k/(q_d β_d)), which falls as β_d rises.


def _attacked(target: Array, draft: Array, k: Array) -> Array:
    """TV(r, r̂) of the constructed target at the given target's distance from q; NaN where there is none."""
    xp, _, p, q, k = pair_and_size(target, draft, k)
    sent, _ = kept(xp, xp.broadcast_to(q, xp.broadcast_arrays(p, q)[0].shape), k)
    delta = apart(xp, p, q)
    return resampling_distortion(_worst(xp, q, sent, sent, xp.broadcast_to(delta, sent.shape[:-1])[..., None]), q, k)


def _largest(target: Array, draft: Array, k: Array) -> Array:
    """min(1, Δ_k / TV(q, p))."""
    xp, _, p, q, k = pair_and_size(target, draft, k)
    return xp.clip(quotient(xp, _deviation(xp, q, k), apart(xp, p, q)), max=1.0)


def _deviation(xp: Any, q: Array, k: Array) -> Array:
    sent, k = kept(xp, q, k)
    rest = xp.sum(xp.where(sent, 0.0, q), axis=-1, keepdims=True)
    count = xp.astype(xp.where(k < q.shape[-1], q.shape[-1] - k, 1), q.dtype)
    return xp.sum(xp.where(sent, 0.0, excess(xp, q, rest / count)), axis=-1)


def _sent_mass_suffices(target: Array, draft: Array, k: Array) -> Array:
    xp, _, p, q, k = pair_and_size(target, draft, k)
    sent, _ = kept(xp, q, k)
    delta = apart(xp, p, q)
    return (delta > 0) & (delta <= xp.sum(xp.where(sent, q, 0.0), axis=-1))


def _lost_at_draft(target: Array, draft: Array, token: Array, k: Array) -> Array:
    """TV(r, r̂) of the worst target that rejects d with the same probability as the given target."""
    delta = loss_at_draft(target, draft, token)
    xp, _, _, q, k = pair_and_size(target, draft, k)
    sent, _ = kept(xp, q, k)
    giver = xp.arange(q.shape[-1], device=q.device) == arrays(draft=q, token=token)[2][..., None]
    return resampling_distortion(_worst(xp, q, sent | giver, giver, delta[..., None]), q, k)


def _largest_at_draft(target: Array, draft: Array, token: Array, k: Array) -> Array:
    """min(1, Δ_k / (q_d β_d))."""
    lost = loss_at_draft(target, draft, token)
    xp, _, _, q, k = pair_and_size(target, draft, k)
    return xp.clip(quotient(xp, _deviation(xp, q, k), lost), max=1.0)


def _draft_is_sent(target: Array, draft: Array, token: Array, k: Array) -> Array:
    xp, p, q, token, k = arrays(target=target, draft=draft, token=token, k=k)
    sent, _ = kept(xp, q, k)
    among = xp.any(sent & (xp.arange(q.shape[-1], device=q.device) == token[..., None]), axis=-1)
    return among & (rejection_at(p, q, token) > 0)


def _twice_smaller(target: Array, draft: Array, k: Array) -> Array:
    """2 min(TV(q, p), Δ_k)."""
    xp, _, p, q, k = pair_and_size(target, draft, k)
    return 2.0 * xp.minimum(apart(xp, p, q), _deviation(xp, q, k))


def _inverse_loss(target: Array, draft: Array, token: Array) -> Array:
    """1/(q_d β_d): the factor by which the residual's normalisation magnifies a rounding error."""
    xp, lost = arrays(lost=loss_at_draft(target, draft, token))
    return quotient(xp, xp.ones_like(lost), lost)


_NEAR = {"target": [0.4375, 0.3125, 0.125, 0.125], "draft": [0.5, 0.25, 0.125, 0.125], "k": 1}
_DISJOINT = {"target": [0.5, 0.3125, 0.1875], "draft": [0.5625, 0.3125, 0.125], "k": 1}
_DRAWN = {"target": [0.4375, 0.375, 0.1875], "draft": [0.5, 0.375, 0.125], "token": 0, "k": 1}

CLAIMS = (
    Claim(
        id="truncation.worst_case",
        source=Source("oh2025cuhlm", "Prop. 1, (20)"),
        statement="max TV(r, r̂) over all p with TV(q, p) = δ is min(1, Δ_k/δ), attained by the p that is constructed",
        relation=Relation.EQ,
        lhs=_attacked,
        rhs=_largest,
        assumptions=(Assumption("0 < TV(q, p) ≤ the mass that is sent", _sent_mass_suffices),),
        attained=Attained(_NEAR),
        condition=inverse_distance,
    ),
    Claim(
        id="truncation.bias_worst",
        source=Source("oh2025cuhlm", "(17), (24)"),
        statement=(
            "Bias ≤ 2 min(TV(q, p), Δ_k); given q and a bound on TV(q, p) no smaller bound holds, so k is a step "
            "function of that bound"
        ),
        lhs=resampling_bias,
        rhs=_twice_smaller,
        attained=Attained(_DISJOINT),
        ceiling=2.0,
    ),
    Claim(
        id="truncation.online_direction_worst",
        source=Source("oh2025cuhlm", "below (24)"),
        origin=Origin.CORRECTED,
        statement=(
            "max TV(r, r̂) over all p with that β_d is min(1, Δ_k/(q_d β_d)), attained; it falls in β_d, so k may "
            "fall too"
        ),
        relation=Relation.EQ,
        lhs=_lost_at_draft,
        rhs=_largest_at_draft,
        assumptions=(Assumption("d is among the k sent, and β_d > 0", _draft_is_sent),),
        attained=Attained(_DRAWN),
        condition=_inverse_loss,
    ),
)
