"""Claims of the module, each with its proof above its record; the claims of the other files come last."""

from __future__ import annotations

from hlmtheory._array import Array, arrays, distinct, every, in_kind, order_descending, take
from hlmtheory._domains import size_up_to
from hlmtheory._simplex import distance, distributions, excess, normalised, quotient, rejection_by_token
from hlmtheory.claims import Assumption, Attained, Claim, Origin, Relation, Source
from hlmtheory.truncation._claim_sides import inverse_distance, rebuilt_deviation
from hlmtheory.truncation.any_codec import CLAIMS as _ANY_CODEC_CLAIMS
from hlmtheory.truncation.multi_draft import CLAIMS as _MULTI_DRAFT_CLAIMS
from hlmtheory.truncation.partial_claims import CLAIMS as _PARTIAL_CLAIMS
from hlmtheory.truncation.reconstruction import (
    NOISE,
    draft_and_size,
    most_distortion,
    pair_and_size,
    resampling_bias,
    resampling_distortion,
    tail_deviation,
    truncate,
    truncated,
    tvd_bound,
    tvd_bound_sharp,
)
from hlmtheory.truncation.sizes_claims import CLAIMS as _SIZE_CLAIMS
from hlmtheory.truncation.softplus_claims import CLAIMS as _SOFTPLUS_CLAIMS
from hlmtheory.truncation.worst_case import CLAIMS as _WORST_CLAIMS
from hlmtheory.verification import acceptance_rate, decoded_acceptance_rate, rejection_probability, total_variation

# Proofs, by the last part of the id.
#
# Notation: γ = (p - q)⁺, ω = (p - q̂)⁺, T = Σ γ = TV(q, p), T̂ = Σ ω = TV(q̂, p); r = γ/T, r̂ = ω/T̂.
#
# monotone. Let μ be the mean of the tail t_1 ≥ t_2 ≥ ... that remains at k, so Δ_k = Σ (μ - t_i)⁺. At k + 1 the
#   entry t_1 ≥ μ is gone, so the new mean μ' ≤ μ and Δ_{k+1} = Σ_{i>1} (μ' - t_i)⁺ ≤ Σ_{i>1} (μ - t_i)⁺
#   = Δ_k, as t_1 adds nothing. The ratio comes near 1 for a tail of m ones and m zeros, m large.
# monotone_distortion. False: with a heavy middle token that q̂ flattens, the residual moves to it. q = (21,
#   13, 5)/39 and p = (22, 13, 4)/39 give 0, .8 for k = 0, 1; with 1/39 replaced by δ → 0 the rise tends to 1.
# tvd_sharp. T = 0: nothing is distorted. T̂ = 0 < T: q̂ = p, so Δ_k = T and the bound is 1. Else, if T ≥ T̂, then
#   ω/T̂ ≥ ω/T, so TV(r, r̂) = Σ (γ/T - ω/T̂)⁺ ≤ Σ (γ - ω)⁺ / T. Since x ↦ x⁺ never decreases and is
#   1-Lipschitz, (γ - ω)⁺ ≤ (q̂ - q)⁺, whose sum is Δ_k. If T < T̂ exchange the roles.
# tvd_bound. T ≤ max(T, T̂), so 2 Δ_k / T is at least twice the sharp bound: the ratio never exceeds 1/2.
# bias_identity. min(p, q) + T r = p and law = min(p, q) + T r̂, so law - p = T (r̂ - r).
# certificate. Bias = 2 T TV(r, r̂) ≤ 2 T Δ_k / max(T, T̂) ≤ 2 Δ_k; where r̂ is 0/0, Bias ≤ 2 T = 2 Δ_k.
# certificate_by_draft. Draft v is rejected with probability q_v β_v, Σ q β = T, and replaced from r̂_{k(v)}:
#   Bias ≤ Σ_v q_v β_v 2 TV(r, r̂_{k(v)}) ≤ 2 Σ_v (q_v β_v / T) Δ_{k(v)} ≤ 2 max_v Δ_{k(v)}. The inner mean
#   needs p; the maximum does not. Where r̂_{k(v)} is 0/0, TV(r, r̂) is taken at its largest possible value,
#   Δ_{k(v)} / max(T, T̂) ≤ Δ_{k(v)}/T. With q̂ = p, T = Δ_{k(v)} and the value is 1: a tight case.
# misdeclared. The server is a fixed kernel: it keeps v with probability 1 - β_v, else it draws from r̂. It maps q to a
#   law at most Δ_k from p (certificate), and q′ to a law at most TV(q′, q) from that one.
# decoded_rate. Σ min(p, q) = 1 - TV(p, q), and the total variation obeys the triangle inequality.


def _rebuilt_share(target: Array, draft: Array, k: Array) -> Array:
    """Return 1 + TV(q, p)/TV(q̂, p), the factor by which a rounding of q̂ grows in the mass that r̂ replaces."""
    xp, _, p, q, k = pair_and_size(target, draft, k)
    return 1.0 + quotient(xp, distance(xp, p, q), distance(xp, p, truncated(xp, q, k)))


def _identity(target: Array, draft: Array, k: Array) -> Array:
    """Return 2 TV(q, p) TV(r, r̂), with q̂ from the ranks of a stable sort, not from a threshold as in the Bias."""
    xp, kind, p, q, k = pair_and_size(target, draft, k)
    p, q = xp.broadcast_arrays(p, q)
    order = order_descending(xp, q)
    p, q = take(xp, p, order), take(xp, q, order)
    sent = xp.arange(q.shape[-1], device=q.device) < k[..., None]
    rest = xp.sum(xp.where(sent, 0.0, q), axis=-1) / xp.astype(xp.where(k < q.shape[-1], q.shape[-1] - k, 1), q.dtype)
    true, mass = normalised(xp, excess(xp, p, q))
    distorted = normalised(xp, excess(xp, p, xp.where(sent, q, rest[..., None])))[0]
    return in_kind(xp, xp.where(mass > 0, mass * xp.sum(xp.abs(true - distorted), axis=-1), 0.0), kind)


def _draft_and_top_k(draft: Array, top_k: Array) -> tuple[Array, Array, Array]:
    """Return the number of entries sent for each draft, shape (..., V)."""
    xp, q, top_k = arrays(draft=draft, top_k=top_k)
    return xp, q, size_up_to(q.shape[-1]).check(xp, "top_k", top_k)


def _bias_by_draft(target: Array, draft: Array, top_k: Array) -> Array:
    """Return (17) with r̂ of the rejected draft's k: Σ_v |q_v (1 - β_v) + Σ_i q_i β_i r̂_{k(i),v} - p_v|.

    Where r̂ is 0/0, TV(q̂, p) ≤ 2^-44, the worst r̂ is taken: as far from r as possible, towards a token to which the
    target gives less than the draft.
    """
    xp, q, top_k = _draft_and_top_k(draft, top_k)
    beta = rejection_probability(target, q)
    law, lost = q * (1.0 - beta), q * beta
    below = xp.argmax(q - target, axis=-1, keepdims=True) == xp.arange(q.shape[-1], device=q.device)
    true = normalised(xp, excess(xp, target, q))[0]
    for k in distinct(xp, top_k):
        share = xp.sum(xp.where(top_k == k, lost, 0.0), axis=-1, keepdims=True)
        _, _, p, row, k = pair_and_size(target, q, k)
        rebuilt = truncated(xp, row, k)
        distorted, mass = normalised(xp, excess(xp, p, rebuilt))
        exists = mass[..., None] > NOISE
        if not every(xp, exists):
            most = most_distortion(xp, p, row, rebuilt)[..., None]
            distorted = xp.where(exists, distorted, (1.0 - most) * true + most * xp.astype(below, q.dtype))
        law = law + share * distorted
    return xp.sum(xp.abs(law - target), axis=-1)


def _certificate_by_draft(draft: Array, top_k: Array) -> Array:
    """Return 2 max_v Δ_{k(v)}, which the device knows before it sends anything."""
    xp, q, top_k = _draft_and_top_k(draft, top_k)
    return 2.0 * xp.max(take(xp, tail_deviation(q), top_k), axis=-1)


def _certificate(draft: Array, k: Array) -> Array:
    return 2.0 * rebuilt_deviation(draft, k)


def _after(draft: Array, k: Array) -> Array:
    """Return k + 1, or V where k = V, which the assumption excludes."""
    xp, _, q, k = draft_and_size(draft, k)
    return xp.where(k < q.shape[-1], k + 1, k)


def _next_deviation(draft: Array, k: Array) -> Array:
    return rebuilt_deviation(draft, _after(draft, k))


def _next_distortion(target: Array, draft: Array, k: Array) -> Array:
    return resampling_distortion(target, draft, _after(draft, k))


def _has_next(draft: Array, k: Array) -> Array:
    return arrays(k=k)[1] < draft.shape[-1]


def _residual_exists(target: Array, draft: Array, k: Array) -> Array:
    """Return whether r̂ is a distribution or nothing is rejected."""
    xp, _, p, q, k = pair_and_size(target, draft, k)
    return (distance(xp, p, truncated(xp, q, k)) > NOISE) | (distance(xp, p, q) == 0)


def _decoded_rate_error(target: Array, draft: Array, k: Array) -> Array:
    """Return |Σ min(p, q̂) - Σ min(p, q)|."""
    exact, (decoded, _) = acceptance_rate(target, draft), decoded_acceptance_rate(target, truncate(draft, k), 0.0)
    xp, exact, decoded = arrays(exact=exact, decoded=decoded)
    return xp.abs(decoded - exact)


def _deviation(target: Array, draft: Array, k: Array) -> Array:
    return total_variation(draft, truncate(draft, k))


def _misdeclared(target: Array, draft: Array, actual_draft: Array, k: Array) -> Array:
    """Return TV(law, p) for drafts from q′, acceptance by the exact q, and replacements from the residual of q̂."""
    xp, _, p, q, k = pair_and_size(target, draft, k)
    _, _, drawn = distributions(actual_draft=actual_draft)
    beta = rejection_by_token(xp, p, q)
    residual, _ = normalised(xp, excess(xp, p, truncated(xp, q, k)))
    law = drawn * (1.0 - beta) + xp.sum(drawn * beta, axis=-1, keepdims=True) * residual
    return 0.5 * xp.sum(xp.abs(law - p), axis=-1)


def _misdeclared_bound(draft: Array, actual_draft: Array, k: Array) -> Array:
    return total_variation(actual_draft, draft) + total_variation(draft, truncate(draft, k))


def _noise(target: Array, draft: Array, k: Array) -> Array:
    """Return 1 + 1/TV(q̂, p), the factor by which normalising the residual magnifies a rounding of q̂."""
    xp, _, p, q, k = pair_and_size(target, draft, k)
    mass = distance(xp, p, truncated(xp, q, k))
    return 1.0 + 1.0 / xp.where(mass > NOISE, mass, 1.0)


_PAPER = Source("oh2025cuhlm", "Prop. 1, (20)")
_EXISTS = Assumption("r̂ exists: TV(q̂, p) > 2^-44, or nothing is rejected", _residual_exists)
_NEXT = Assumption("k < V", _has_next)
_TIGHT = {"target": [0.5, 0.25, 0.25], "draft": [0.625, 0.25, 0.125], "k": 1}
_FAR = _TIGHT | {"target": [0.375, 0.375, 0.25]}
_REBUILT_TARGET = {"target": [0.5, 0.25, 0.25], "draft": [0.5, 0.375, 0.125], "top_k": [2, 1, 2]}
"""Here q̂ = p for the only draft that is rejected, so r̂ is 0/0."""
_LONG_TAIL = {"draft": [0.002] * 500 + [0.0] * 500, "k": 0}

CLAIMS = (
    Claim(
        id="truncation.monotone",
        source=Source("oh2025cuhlm", "(15), (20)"),
        origin=Origin.NEW,
        statement="Δ_{k+1} ≤ Δ_k: a binary search finds the least k for a rule in Δ_k",
        relation=Relation.LE,
        lhs=_next_deviation,
        rhs=rebuilt_deviation,
        assumptions=(_NEXT,),
        attained=Attained(_LONG_TAIL, ratio=499 * 1000 / (500 * 999)),
    ),
    Claim(
        id="truncation.monotone_distortion",
        source=Source("oh2025cuhlm", "(19), were it solved by bisection"),
        origin=Origin.IMPLIED,
        statement="TV(r, r̂_{k+1}) ≤ TV(r, r̂_k): the distortion itself never rises with k (it can, by nearly 1)",
        lhs=_next_distortion,
        rhs=resampling_distortion,
        assumptions=(_NEXT, _EXISTS),
        refuted={
            "target": [22 / 39, 13 / 39, 4 / 39],
            "draft": [21 / 39, 13 / 39, 5 / 39],
            "k": 0,
        },
        condition=inverse_distance,
    ),
    Claim(
        id="truncation.tvd_bound",
        source=_PAPER,
        origin=Origin.PUBLISHED,
        statement="TV(r, r̂) ≤ 2 Δ_k / TV(q, p)",
        lhs=resampling_distortion,
        rhs=tvd_bound,
        attained=Attained(_FAR, ratio=0.5),
        ceiling=1.0,
        condition=inverse_distance,
    ),
    Claim(
        id="truncation.tvd_sharp",
        source=_PAPER,
        statement="TV(r, r̂) ≤ Δ_k / max(TV(q, p), TV(q̂, p))",
        lhs=resampling_distortion,
        rhs=tvd_bound_sharp,
        attained=Attained(_TIGHT),
        ceiling=1.0,
        condition=inverse_distance,
    ),
    Claim(
        id="truncation.bias_identity",
        source=Source("oh2025cuhlm", "(17), below (18), Fig. 6"),
        statement="Bias = 2 TV(q, p) TV(r, r̂): an identity, where the paper reports a correlation of 0.9763",
        relation=Relation.EQ,
        lhs=resampling_bias,
        rhs=_identity,
        assumptions=(_EXISTS,),
        attained=Attained(_TIGHT),
        condition=_rebuilt_share,
    ),
    Claim(
        id="truncation.certificate",
        source=Source("oh2025cuhlm", "(17), improves on (20)-(24)"),
        statement="Bias ≤ 2 Δ_k: known to the device before anything is sent",
        lhs=resampling_bias,
        rhs=_certificate,
        attained=Attained(_TIGHT),
        ceiling=2.0,
    ),
    Claim(
        id="truncation.certificate_by_draft",
        source=Source("oh2025cuhlm", "(17), improves on (20)-(24)"),
        statement="Bias ≤ 2 max_v Δ_{k(v)} when the number of entries sent depends on the draft v",
        lhs=_bias_by_draft,
        rhs=_certificate_by_draft,
        attained=Attained(_REBUILT_TARGET),
        ceiling=2.0,
    ),
    *_SOFTPLUS_CLAIMS,
    *_SIZE_CLAIMS,
    *_WORST_CLAIMS,
    Claim(
        id="truncation.misdeclared",
        source=Source("oh2025cuhlm", "(17), with drafts from another distribution"),
        statement="if drafts are drawn from q′ and the server gets k entries of q, then TV(law, p) ≤ TV(q′, q) + Δ_k",
        lhs=_misdeclared,
        rhs=_misdeclared_bound,
        assumptions=(_EXISTS,),
        attained=Attained(
            {
                "target": [6 / 15, 5 / 15, 4 / 15],
                "draft": [6 / 12, 1 / 12, 5 / 12],
                "actual_draft": [4 / 7, 0.0, 3 / 7],
                "k": 0,
            },
            ratio=1.0,
        ),
        ceiling=1.0,
        condition=_noise,
    ),
    Claim(
        id="truncation.decoded_rate",
        source=Source("oh2025cuhlm", "(15)-(17), for the acceptance rate"),
        statement="|Σ min(p, q̂) − Σ min(p, q)| ≤ Δ_k: the acceptance rate that the server knows from k entries",
        lhs=_decoded_rate_error,
        rhs=_deviation,
        attained=Attained({"target": [1.0, 0.0], "draft": [1.0, 0.0], "k": 0}),
        ceiling=1.0,
    ),
    *_MULTI_DRAFT_CLAIMS,
    *_PARTIAL_CLAIMS,
    *_ANY_CODEC_CLAIMS,
)
