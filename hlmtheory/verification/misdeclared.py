"""Misdeclared sampler: drafts come from q′, but the server verifies with q.

Examples are a sampler with another temperature or top-p, or a draft model that was updated on one side only.
"""

from __future__ import annotations

from hlmtheory._array import Array, in_kind
from hlmtheory._simplex import distance, distributions, excess, normalised, rejection_by_token
from hlmtheory.claims import Attained, Claim, Source
from hlmtheory.verification.rule import rejection_probability

# Proofs, by the last part of the id.
#
# The server maps a draft v to an output by a fixed kernel K: it keeps v with probability 1 - β_v, else it draws from r.
# For q′ = q the output has the law p, so law - p = (q′ - q) K.
#
# misdeclared. A kernel never increases the total variation (data processing).
# misdeclared_found. Let a = min_v (1 - β_v). For every g with values in [0, 1] there is an f with K f = g whose values
#   differ by at most 1/a: with m = E_r g, f = g where β_v = 0 (r lives there, so E_r f = m), and elsewhere
#   f = m + (g - m)/(1 - β_v). So TV(q′, q) = max_g (q′ - q) g = max_g (law - p) f ≤ TV(law, p)/a.


def misdeclared_distribution(target: Array, draft: Array, actual_draft: Array) -> Array:
    """Return the law of the emitted token if drafts come from q′ and the server verifies with q."""
    xp, kind, p, q, drawn = distributions(target=target, draft=draft, actual_draft=actual_draft)
    beta = rejection_by_token(xp, p, q)
    residual, _ = normalised(xp, excess(xp, p, q))
    rejected = xp.sum(drawn * beta, axis=-1, keepdims=True)
    return in_kind(xp, drawn * (1.0 - beta) + rejected * residual, kind)


def _bias(target: Array, draft: Array, actual_draft: Array) -> Array:
    """Return TV(law, p) as half the sum of absolute differences."""
    law = misdeclared_distribution(target, draft, actual_draft)
    xp, _, p, _ = distributions(target=target, draft=draft)
    return 0.5 * xp.sum(xp.abs(law - p), axis=-1)


def _misdeclared_by(target: Array, draft: Array, actual_draft: Array) -> Array:
    """Return TV(q′, q)."""
    xp, _, q, drawn = distributions(draft=draft, actual_draft=actual_draft)
    return distance(xp, q, drawn)


def _found(target: Array, draft: Array, actual_draft: Array) -> Array:
    """Return the smallest acceptance probability times TV(q′, q)."""
    xp, _, _, _ = distributions(target=target, draft=draft)
    least = xp.min(1.0 - rejection_probability(target, draft), axis=-1)
    return least * _misdeclared_by(target, draft, actual_draft)


_HALF = {"target": [0.5, 0.5], "draft": [1.0, 0.0], "actual_draft": [0.5, 0.5]}

CLAIMS = (
    Claim(
        id="verification.misdeclared",
        source=Source("leviathan2023fast", "Algorithm 1, with drafts from another distribution"),
        statement="if drafts are drawn from q′ and the server gets q, then TV(law, p) ≤ TV(q′, q)",
        lhs=_bias,
        rhs=_misdeclared_by,
        attained=Attained({"target": [0.5, 0.5], "draft": [0.5, 0.5], "actual_draft": [1.0, 0.0]}, ratio=1.0),
        ceiling=1.0,
    ),
    Claim(
        id="verification.misdeclared_found",
        source=Source("leviathan2023fast", "Algorithm 1, with drafts from another distribution"),
        statement="min_v min(1, p_v/q_v) · TV(q′, q) ≤ TV(law, p): if p_v > 0 for all v, only q′ = q gives the law p",
        lhs=_found,
        rhs=_bias,
        attained=Attained(_HALF, ratio=1.0),
        ceiling=1.0,
        condition=lambda target, draft, actual_draft: 4.0,
    ),
)
