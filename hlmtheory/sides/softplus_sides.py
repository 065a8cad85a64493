"""Sides of the theorems on the softplus and the online bound."""

from hlmtheory._array import Array, arrays
from hlmtheory._domains import token_of
from hlmtheory._simplex import distance, quotient
from hlmtheory.sides.truncation_sides import loss_at_draft
from hlmtheory.truncation.reconstruction import draft_and_size, pair_and_size, truncated
from hlmtheory.truncation.softplus import SHARPNESS, online_bound, online_denominator, rejection_at, softplus_distance


def approximate(target: Array, draft: Array, k: Array, sharpness: Array) -> Array:
    """Return Û(k)."""
    xp, _, p, q, k = pair_and_size(target, draft, k)
    return quotient(xp, 2.0 * distance(xp, q, truncated(xp, q, k)), softplus_distance(p, q, sharpness))


def _token(draft: Array, token: Array) -> Array:
    """Return the checked token; errors use its name in the instance."""
    xp, q, token = arrays(draft=draft, token=token)
    return token_of(q.shape[-1]).check(xp, "token", token)


def online_side(target: Array, draft: Array, token: Array, k: Array, sharpness: Array, share: float = 1.0) -> Array:
    """Return Ū(k) at a share of the true β_d."""
    beta = share * rejection_at(target, draft, _token(draft, token))
    return online_bound(draft, token, beta, k, sharpness=sharpness)


def true_online(target: Array, draft: Array, token: Array, k: Array, sharpness: Array) -> Array:
    return online_side(target, draft, token, k, sharpness)


def safe(target: Array, draft: Array, token: Array, k: Array, sharpness: Array) -> Array:
    lost = loss_at_draft(target, draft, token)
    beta = rejection_at(target, draft, token)
    q, denominator = online_denominator(draft, token, beta, sharpness)
    xp, _, q, k = draft_and_size(q, k)
    return denominator <= 2.0 * xp.maximum(distance(xp, q, truncated(xp, q, k)), lost)


def is_rejected(target: Array, draft: Array, token: Array) -> Array:
    return loss_at_draft(target, draft, token) > 0


def flatness(sharpness: Array) -> Array:
    """Return 1 + 1/η, because the softplus of a small η is 1/η times a logarithm."""
    xp, eta = arrays(sharpness=sharpness)
    return 1.0 + 1.0 / SHARPNESS.check(xp, "sharpness", eta)


TIGHT = {"target": [0.5, 0.25, 0.25], "draft": [0.625, 0.25, 0.125], "token": 0, "k": 1}
