"""Sides of the theorems on the bill: of a position, of a round, and of whole texts."""

from typing import Any

from hlmtheory._array import Array
from hlmtheory._simplex import distance, distributions, excess, skip_probabilities
from hlmtheory.claims import UNIT
from hlmtheory.skipping.bill import position_arrays
from hlmtheory.skipping.rounds import chain_arrays, replacements
from hlmtheory.truncation.reconstruction import NOISE
from hlmtheory.verification import total_variation

# w_d = q_d (1 - s_d) β_d and S = Σ w_d.


def distance_side(target: Array, draft: Array, skip: Array, decoded: Array) -> Array:
    """Return TV(law, p) from the law of the token, draft by draft: each is kept, or replaced by its own r̂."""
    xp, _, p, q, s, known = position_arrays(target, draft, skip, decoded)
    accepted = xp.minimum(p, q)  # q_v min(1, p_v/q_v)
    rejected = (1.0 - s) * (q - accepted)
    replaced = xp.sum(rejected[..., None] * replacements(xp, p + 0.0 * q, q + 0.0 * p, known), axis=-2)
    return 0.5 * xp.sum(xp.abs(s * q + (1.0 - s) * accepted + replaced - p), axis=-1)


def deviations(target: Array, draft: Array, skip: Array, decoded: Array) -> Array:
    """Return Δ⁽ᵈ⁾ for each draft."""
    xp, _, _, q, _, known = position_arrays(target, draft, skip, decoded)
    return distance(xp, q[..., None, :], known)


def parts_side(target: Array, draft: Array, skip: Array) -> tuple[Any, ...]:
    """Return the namespace, q, s, Σ q s β, S and T."""
    xp, _, p, q = distributions(target=target, draft=draft)
    s = skip_probabilities(xp, skip, q)
    lost = excess(xp, q, p)
    return xp, q, s, xp.sum(s * lost, axis=-1), xp.sum((1.0 - s) * lost, axis=-1), total_variation(p, q)


def noise(target: Array, draft: Array, skip: Array, decoded: Array) -> Array:
    """Return 1 + max_d T/TV(q̂⁽ᵈ⁾, p): how much the normalised residuals magnify a rounding of q̂."""
    xp, _, p, q, _, known = position_arrays(target, draft, skip, decoded)
    return _magnified(xp, p, q, known)


def device_noise(target: Array, draft: Array, skip: Array, decoded: Array) -> Array:
    """Return :func:`noise`, and the 2^-44 of the bill where r̂ is taken as absent although TV(q, p) is not 0."""
    return noise(target, draft, skip, decoded) + NOISE / UNIT


def _magnified(xp: Any, p: Array, q: Array, known: Array) -> Array:
    away = xp.min(distance(xp, p[..., None, :], known), axis=-1)
    return 1.0 + distance(xp, p, q) / xp.clip(away, min=NOISE)


def chain_noise(target_chain: Array, draft_chain: Array, skip_chain: Array, decoded_chain: Array) -> Array:
    xp, p, q, known = chain_arrays(
        target_chain=target_chain, draft_chain=draft_chain, skip_chain=skip_chain, decoded_chain=decoded_chain
    )
    return xp.max(_magnified(xp, p, q, known), axis=-1)
