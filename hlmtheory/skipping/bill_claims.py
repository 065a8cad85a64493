"""Claims of the bill: of a position, of a round, and of whole texts."""

from __future__ import annotations

from typing import Any

from hlmtheory._array import Array, arrays
from hlmtheory._simplex import distance, distributions, excess, skip_probabilities
from hlmtheory.claims import UNIT, Attained, Claim, Source
from hlmtheory.skipping.bill import bill_bound, bill_bound_on_device, position_arrays, position_bill
from hlmtheory.skipping.rounds import chain_arrays, replacements, round_text_distance, summed_bill
from hlmtheory.truncation.reconstruction import NOISE
from hlmtheory.verification import total_variation

# Proofs, by the last part of the id, with w_d = q_d (1 - s_d) β_d and S = Σ w_d.
#
# bill. Replace every r̂⁽ᵈ⁾ by r in the law. By risk_is_tv the new law is at distance Σ q s β from p. The two laws are
#   mixtures of the same parts, except that with weight w_d = q_d (1 - s_d) β_d one has r and the other r̂⁽ᵈ⁾. The
#   triangle inequality gives the bound, for any r̂⁽ᵈ⁾, so also for the worst choice where it is 0/0.
# bill_largest. min(1, Δ⁽ᵈ⁾/T) ≤ min(1, max Δ/T) for each d that may be sent, and Σ_d q_d (1 - s_d) β_d = S.
# bill_device. Let Δ be the largest Δ⁽ᵈ⁾ of the drafts that may be sent, m = min(1, Δ/T), x = Σ q s β ≤ min(A, T).
#   As x + S = T, the bill is at most x + (T - x) m. If T ≤ A this is at most T ≤ A. Otherwise it is at most
#   A + (T - A) m. For T ≥ Δ, (T - A) m = Δ (1 - A/T) ≤ Δ (1 - A). For T < Δ, (T - A) m = T - A ≤ Δ - A ≤ Δ (1 - A).
# bill_joint. By bill, bill_deviation and bill_largest TV(law, p) is at most Σ q s β + min(S, (S/T) max Δ). S is at most
#   T, so that the quotient is at most 1; and at most Σ q (1 - s) = 1 - A, since no β exceeds 1.
# bill_text. The system maps what it knows, the prefix and the place in its round, to a law S of the next token and to
#   what it knows then. Let law j emit its first j tokens by the system and the rest by the target model. Laws j - 1 and
#   j agree in the first j - 1 tokens, by the system, and the target model goes on from the prefix alone. They differ in
#   the law of token j, by TV(S, p), which is at most the bill at a draft, and 0 at a bonus. Sum over j.


def _tokens_law(xp: Any, p: Array, q: Array, s: Array, known: Array) -> Array:
    """Return the law of the token, draft by draft: each is kept, or replaced by its own r̂."""
    accepted = xp.minimum(p, q)  # q_v min(1, p_v/q_v)
    law = s * q + (1.0 - s) * accepted
    rejected = (1.0 - s) * (q - accepted)
    return law + xp.sum(rejected[..., None] * replacements(xp, p + 0.0 * q, q + 0.0 * p, known), axis=-2)


def _distance(target: Array, draft: Array, skip: Array, decoded: Array) -> Array:
    """Return TV(law, p)."""
    xp, _, p, q, s, known = position_arrays(target, draft, skip, decoded)
    return 0.5 * xp.sum(xp.abs(_tokens_law(xp, p, q, s, known) - p), axis=-1)


def _deviations(target: Array, draft: Array, skip: Array, decoded: Array) -> Array:
    """Return Δ⁽ᵈ⁾ for each draft."""
    xp, _, _, q, _, known = position_arrays(target, draft, skip, decoded)
    return distance(xp, q[..., None, :], known)


def _on_device(target: Array, draft: Array, skip: Array, decoded: Array) -> Array:
    return bill_bound_on_device(draft, skip, _deviations(target, draft, skip, decoded))


def _parts(target: Array, draft: Array, skip: Array) -> tuple[Any, ...]:
    """Return the namespace, q, s, Σ q s β, S and T."""
    xp, _, p, q = distributions(target=target, draft=draft)
    s = skip_probabilities(xp, skip, q)
    lost = excess(xp, q, p)
    return xp, q, s, xp.sum(s * lost, axis=-1), xp.sum((1.0 - s) * lost, axis=-1), total_variation(p, q)


def _by_largest(target: Array, draft: Array, skip: Array, deviation: Array) -> Array:
    """Return Σ q s β + min(S, (S/T) max Δ)."""
    xp, q, s, skipped, sent, tv = _parts(target, draft, skip)
    delta = xp.max(xp.where(q * (1.0 - s) > 0, arrays(q=q, deviation=deviation)[2], 0.0), axis=-1)
    return skipped + xp.minimum(sent, sent / xp.where(tv > 0, tv, 1.0) * delta)


def _joint(target: Array, draft: Array, skip: Array, decoded: Array) -> Array:
    """Return Σ q s β + min(1 - A, max Δ)."""
    xp, q, s, skipped, _, _ = _parts(target, draft, skip)
    delta = xp.max(xp.where(q * (1.0 - s) > 0, _deviations(target, draft, skip, decoded), 0.0), axis=-1)
    return skipped + xp.minimum(xp.sum(q * (1.0 - s), axis=-1), delta)


def _noise(target: Array, draft: Array, skip: Array, decoded: Array) -> Array:
    """Return 1 + max_d T/TV(q̂⁽ᵈ⁾, p): how much the normalised residuals magnify a rounding of q̂."""
    xp, _, p, q, _, known = position_arrays(target, draft, skip, decoded)
    return _magnified(xp, p, q, known)


def _device_noise(target: Array, draft: Array, skip: Array, decoded: Array) -> Array:
    """Return :func:`_noise`, and the 2^-44 of the bill where r̂ is taken as absent although TV(q, p) is not 0."""
    return _noise(target, draft, skip, decoded) + NOISE / UNIT


def _magnified(xp: Any, p: Array, q: Array, known: Array) -> Array:
    away = xp.min(distance(xp, p[..., None, :], known), axis=-1)
    return 1.0 + distance(xp, p, q) / xp.clip(away, min=NOISE)


def _chain_noise(target_chain: Array, draft_chain: Array, skip_chain: Array, decoded_chain: Array) -> Array:
    xp, p, q, known = chain_arrays(
        target_chain=target_chain, draft_chain=draft_chain, skip_chain=skip_chain, decoded_chain=decoded_chain
    )
    return xp.max(_magnified(xp, p, q, known), axis=-1)


_PAPER = Source("oh2025cuhlm", "(10), (15)-(18), for a whole round")
_ONE_Q = {
    "target": [0.25, 0.5, 0.25],
    "draft": [0.75, 0.25, 0.0],
    "skip": [0.0, 0.0, 0.0],
    "decoded": [[0.75, 0.125, 0.125]],
}
"""Nothing is skipped: r = (0, 1/2, 1/2), r̂ = (0, 3/4, 1/4), and half of the drafts are rejected."""
_BOTH = {
    "target": [0.0, 0.5, 0.5],
    "draft": [1.0, 0.0, 0.0],
    "skip": [0.5, 0.0, 0.0],
    "decoded": [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.5, 0.5, 0.0]],
}
"""r̂ is on token 2 alone. No p has a larger bill for this q, skip and Δ = 1/2."""
_SAFE_SKIPPED = {
    "target": [0.5, 0.0, 0.25, 0.25],
    "draft": [0.5, 0.5, 0.0, 0.0],
    "skip": [1.0, 0.0, 0.0, 0.0],
    "decoded": [[0.5, 0.25, 0.0, 0.25]],
}
"""The safe draft is skipped, so that the other one, half of the drafts, carries the whole deviation 1/4."""
_CHAIN = {
    "target_chain": [[0.0, 0.25, 0.25, 0.5], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.25, 0.25, 0.5]],
    "draft_chain": [[0.0, 0.5, 0.0, 0.5], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.5, 0.0, 0.5]],
    "skip_chain": [[0.0, 0.5, 0.0, 0.5], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.5, 0.0, 0.5]],
    "decoded_chain": [[[0.0, 0.125, 0.25, 0.625]], [[0.0, 1.0, 0.0, 0.0]], [[0.0, 0.0, 1.0, 0.0]],
                      [[0.0, 0.125, 0.25, 0.625]]],
}  # fmt: skip
"""After token 3 the next token is drafted as at the start: the first two places are billed, the bonus is not."""

CLAIMS = (
    Claim(
        id="skipping.bill",
        source=_PAPER,
        statement="TV(law of the token, p) ≤ bill = Σ q s β + Σ_d q_d (1 − s_d) β_d TV(r, r̂⁽ᵈ⁾), for any q̂⁽ᵈ⁾",
        lhs=_distance,
        rhs=position_bill,
        attained=Attained(_ONE_Q),
        ceiling=1.0,
        condition=_noise,
    ),
    Claim(
        id="skipping.bill_largest",
        source=_PAPER,
        statement="Σ q s β + Σ q (1 − s) β min(1, Δ/T) ≤ Σ q s β + min(S, (S/T) max_d Δ⁽ᵈ⁾), S = Σ q (1 − s) β",
        lhs=bill_bound,
        rhs=_by_largest,
        attained=Attained(
            {
                "target": [0.0, 0.5, 0.5],
                "draft": [1.0, 0.0, 0.0],
                "skip": [0.5, 0.0, 0.0],
                "deviation": [0.5, 0.25, 0.0],
            }
        ),
        ceiling=1.0,
    ),
    Claim(
        id="skipping.bill_device",
        source=_PAPER,
        statement="bill ≤ A + (1 − A) max_d Δ⁽ᵈ⁾, A = Σ q s: the device knows it, whatever p",
        lhs=position_bill,
        rhs=_on_device,
        attained=Attained(_BOTH),
        ceiling=1.0,
        condition=_device_noise,
    ),
    Claim(
        id="skipping.bill_joint",
        source=_PAPER,
        statement=(
            "TV(law of the token, p) ≤ Σ q s β + min(1 − A, max_d Δ⁽ᵈ⁾), A = Σ q s: a message costs Δ at a position, "
            "however few of its drafts are sent"
        ),
        lhs=_distance,
        rhs=_joint,
        attained=Attained(_SAFE_SKIPPED),
        ceiling=1.0,
        condition=_device_noise,
    ),
    Claim(
        id="skipping.bill_text",
        source=_PAPER,
        statement=(
            "TV(law of the text, target model's) ≤ Σ_t E[bill at t], prefixes and places in the round from the "
            "system; the bonus token costs 0"
        ),
        lhs=round_text_distance,
        rhs=summed_bill,
        attained=Attained(_CHAIN),
        ceiling=1.0,
        condition=_chain_noise,
    ),
)
