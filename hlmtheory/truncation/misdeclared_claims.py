"""A misdeclared sampler whose drafts are also truncated: the two errors add up."""

from __future__ import annotations

from hlmtheory._array import Array
from hlmtheory._simplex import distance, distributions, excess, normalised, rejection_by_token
from hlmtheory.claims import Assumption, Attained, Claim, Source
from hlmtheory.truncation.reconstruction import NOISE, pair_and_size, truncate, truncated
from hlmtheory.verification import total_variation

# Proofs, by the last part of the id.
#
# misdeclared. The server is a fixed kernel: it keeps v with probability 1 - β_v, else it draws from r̂. It maps q to a
#   law at most Δ_k from p (truncation.certificate), and q′ to a law at most TV(q′, q) from that one.


def _bias(target: Array, draft: Array, actual_draft: Array, k: Array) -> Array:
    """Return TV(law, p) for drafts from q′, acceptance by the exact q, and replacements from the residual of q̂."""
    xp, _, p, q, k = pair_and_size(target, draft, k)
    _, _, drawn = distributions(actual_draft=actual_draft)
    beta = rejection_by_token(xp, p, q)
    residual, _ = normalised(xp, excess(xp, p, truncated(xp, q, k)))
    law = drawn * (1.0 - beta) + xp.sum(drawn * beta, axis=-1, keepdims=True) * residual
    return 0.5 * xp.sum(xp.abs(law - p), axis=-1)


def _bound(target: Array, draft: Array, actual_draft: Array, k: Array) -> Array:
    return total_variation(actual_draft, draft) + total_variation(draft, truncate(draft, k))


def _residual_exists(target: Array, draft: Array, actual_draft: Array, k: Array) -> Array:
    xp, _, p, q, k = pair_and_size(target, draft, k)
    return (distance(xp, p, truncated(xp, q, k)) > NOISE) | (distance(xp, p, q) == 0)


def _noise(target: Array, draft: Array, actual_draft: Array, k: Array) -> Array:
    """Return 1 + 1/TV(q̂, p), the factor by which normalising the residual magnifies a rounding of q̂."""
    xp, _, p, q, k = pair_and_size(target, draft, k)
    mass = distance(xp, p, truncated(xp, q, k))
    return 1.0 + 1.0 / xp.where(mass > NOISE, mass, 1.0)


CLAIMS = (
    Claim(
        id="truncation.misdeclared",
        source=Source("oh2025cuhlm", "(17), with drafts from another distribution"),
        statement="if drafts are drawn from q′ and the server gets k entries of q, then TV(law, p) ≤ TV(q′, q) + Δ_k",
        lhs=_bias,
        rhs=_bound,
        assumptions=(Assumption("r̂ exists: TV(q̂, p) > 2^-44, or nothing is rejected", _residual_exists),),
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
)
