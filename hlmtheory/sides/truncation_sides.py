"""Sides of the theorems on the reconstruction of a truncated draft."""

from hlmtheory._array import Array, arrays, distinct, every
from hlmtheory._domains import size_up_to, token_of
from hlmtheory._simplex import distance, distributions, excess, normalised, quotient, rejection_by_token
from hlmtheory.truncation import reconstruction
from hlmtheory.truncation.reconstruction import draft_and_size, truncated
from hlmtheory.truncation.softplus import draft_probability, rejection_at
from hlmtheory.verification import rejection_probability, total_variation


def rebuilt_share(target: Array, draft: Array, k: Array) -> Array:
    """Return 1 + TV(q, p)/TV(q̂, p), the factor by which a rounding of q̂ grows in the mass that r̂ replaces."""
    xp, _, p, q, k = reconstruction.pair_and_size(target, draft, k)
    return 1.0 + quotient(xp, distance(xp, p, q), distance(xp, p, reconstruction.truncated(xp, q, k)))


def draft_and_top_k(draft: Array, top_k: Array) -> tuple[Array, Array, Array]:
    """Return the number of entries sent for each draft, shape (..., V)."""
    xp, q, top_k = arrays(draft=draft, top_k=top_k)
    return xp, q, size_up_to(q.shape[-1]).check(xp, "top_k", top_k)


def bias_by_draft(target: Array, draft: Array, top_k: Array) -> Array:
    """Return (17) with r̂ of the rejected draft's k: Σ_v |q_v (1 - β_v) + Σ_i q_i β_i r̂_{k(i),v} - p_v|.

    Where r̂ is 0/0, TV(q̂, p) ≤ 2^-44, the worst r̂ is taken: as far from r as possible, towards a token to which the
    target gives less than the draft.
    """
    xp, q, top_k = draft_and_top_k(draft, top_k)
    beta = rejection_probability(target, q)
    law, lost = q * (1.0 - beta), q * beta
    below = xp.argmax(q - target, axis=-1, keepdims=True) == xp.arange(q.shape[-1], device=q.device)
    true = normalised(xp, excess(xp, target, q))[0]
    for k in distinct(xp, top_k):
        share = xp.sum(xp.where(top_k == k, lost, 0.0), axis=-1, keepdims=True)
        _, _, p, row, k = reconstruction.pair_and_size(target, q, k)
        rebuilt = reconstruction.truncated(xp, row, k)
        distorted, mass = normalised(xp, excess(xp, p, rebuilt))
        exists = mass[..., None] > reconstruction.NOISE
        if not every(xp, exists):
            most = reconstruction.most_distortion(xp, p, row, rebuilt)[..., None]
            distorted = xp.where(exists, distorted, (1.0 - most) * true + most * xp.astype(below, q.dtype))
        law = law + share * distorted
    return xp.sum(xp.abs(law - target), axis=-1)


def certificate_side(draft: Array, k: Array) -> Array:
    return 2.0 * rebuilt_deviation(draft, k)


def after(draft: Array, k: Array) -> Array:
    """Return k + 1, or V where k = V, which the assumption excludes."""
    xp, _, q, k = reconstruction.draft_and_size(draft, k)
    return xp.where(k < q.shape[-1], k + 1, k)


def has_next(draft: Array, k: Array) -> Array:
    return arrays(k=k)[1] < draft.shape[-1]


def residual_exists(target: Array, draft: Array, k: Array) -> Array:
    """Return whether r̂ is a distribution or nothing is rejected."""
    xp, _, p, q, k = reconstruction.pair_and_size(target, draft, k)
    return (distance(xp, p, reconstruction.truncated(xp, q, k)) > reconstruction.NOISE) | (distance(xp, p, q) == 0)


def deviation(target: Array, draft: Array, k: Array) -> Array:
    return total_variation(draft, reconstruction.truncate(draft, k))


def misdeclared_side(target: Array, draft: Array, actual_draft: Array, k: Array) -> Array:
    """Return TV(law, p) for drafts from q′, acceptance by the exact q, and replacements from the residual of q̂."""
    xp, _, p, q, k = reconstruction.pair_and_size(target, draft, k)
    _, _, drawn = distributions(actual_draft=actual_draft)
    beta = rejection_by_token(xp, p, q)
    residual, _ = normalised(xp, excess(xp, p, reconstruction.truncated(xp, q, k)))
    law = drawn * (1.0 - beta) + xp.sum(drawn * beta, axis=-1, keepdims=True) * residual
    return 0.5 * xp.sum(xp.abs(law - p), axis=-1)


def noise(target: Array, draft: Array, k: Array) -> Array:
    """Return 1 + 1/TV(q̂, p), the factor by which normalising the residual magnifies a rounding of q̂."""
    xp, _, p, q, k = reconstruction.pair_and_size(target, draft, k)
    mass = distance(xp, p, reconstruction.truncated(xp, q, k))
    return 1.0 + 1.0 / xp.where(mass > reconstruction.NOISE, mass, 1.0)


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
