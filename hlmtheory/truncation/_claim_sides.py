"""Sides and condition numbers that claims of several files of :mod:`hlmtheory.truncation` share."""

from hlmtheory._array import Array, arrays
from hlmtheory._domains import token_of
from hlmtheory._simplex import distance, quotient
from hlmtheory.truncation.reconstruction import draft_and_size, truncated
from hlmtheory.truncation.softplus import draft_probability, rejection_at
from hlmtheory.verification import total_variation


def inverse_distance(target: Array, draft: Array) -> Array:
    """1/TV(q, p): the factor by which the normalisation of r magnifies a rounding error."""
    xp, apart = arrays(distance=total_variation(target, draft))
    return quotient(xp, xp.ones_like(apart), apart)


def loss_at_draft(target: Array, draft: Array, token: Array) -> Array:
    """q_d β_d: the probability that d is drafted and rejected, a lower bound on TV(q, p)."""
    xp, q, token = arrays(draft=draft, token=token)
    token = token_of(q.shape[-1]).check(xp, "token", token)
    return draft_probability(xp, q, token) * rejection_at(target, q, token)


def rebuilt_deviation(draft: Array, k: Array) -> Array:
    """Δ_k as the distance between q and the rebuilt q̂."""
    xp, _, q, k = draft_and_size(draft, k)
    return distance(xp, q, truncated(xp, q, k))
