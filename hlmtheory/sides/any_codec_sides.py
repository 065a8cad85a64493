"""Any reconstruction of the draft distribution, with acceptance by the exact q_d: no codec needs a proof of its own.

The server has a reconstruction q̂^(d), which may depend on the draft d, and the exact q_d. It accepts d with probability
min(1, p_d/q_d). A rejected d is replaced from r̂^(d) = (p - q̂^(d))⁺, normalised. ``decoded`` holds the reconstructions,
shape (..., V, V), one for each draft. :func:`hlmtheory.codec.cheapest_codec` uses this certificate.
"""

from typing import Any

from hlmtheory._array import Array
from hlmtheory._simplex import distance, distributions, excess, normalised, rejection_by_token
from hlmtheory.truncation.reconstruction import NOISE


def _stack(target: Array, draft: Array, decoded: Array) -> tuple[Any, Array, Array, Array]:
    """Return the namespace, p, q, both (..., 1, V), and the reconstructions (..., V, V)."""
    xp, _, p, q = distributions(target=target, draft=draft)
    _, _, p, rows = distributions(target=p[..., None, :], decoded=decoded)
    return xp, p, q[..., None, :], rows


def bias(target: Array, draft: Array, decoded: Array) -> Array:
    """Return what ``truncation.any_codec, truncation.any_codec_mean`` takes."""
    xp, p, q, rows = _stack(target, draft, decoded)
    accepted = 1.0 - rejection_by_token(xp, p[..., 0, :], q[..., 0, :])
    kept = q[..., 0, :] * accepted
    replaced = (q[..., 0, :] - kept)[..., None] * normalised(xp, excess(xp, p, rows))[0]
    law = kept + xp.sum(replaced, axis=-2)
    return xp.sum(xp.abs(law - p[..., 0, :]), axis=-1)


def distances(draft: Array, decoded: Array) -> tuple[Any, Array, Array]:
    """Return q and TV(q, q̂^(d)) for each draft d, both (..., V)."""
    _, _, q = distributions(draft=draft)
    xp, _, wide, rows = distributions(draft=q[..., None, :], decoded=decoded)
    return xp, q, distance(xp, wide, rows)


def certificate_side(draft: Array, decoded: Array) -> Array:
    """Return 2 max_d TV(q, q̂^(d)) over the drafts that q can draw."""
    xp, q, far = distances(draft, decoded)
    return 2.0 * xp.max(xp.where(q > 0, far, 0.0), axis=-1)


def residuals_exist(target: Array, draft: Array, decoded: Array) -> Array:
    """Return whether TV(q̂^(d), p) > 2^-44 for each draft d that is rejected by the exact q_d."""
    xp, p, q, rows = _stack(target, draft, decoded)
    rejected = q[..., 0, :] * rejection_by_token(xp, p[..., 0, :], q[..., 0, :])
    return xp.all((distance(xp, p, rows) > NOISE) | (rejected == 0), axis=-1)


def noise(target: Array, draft: Array, decoded: Array) -> Array:
    """Return 1 + max 1/TV(q̂^(d), p), the factor by which a residual magnifies a rounding of its row."""
    xp, p, _, rows = _stack(target, draft, decoded)
    mass = distance(xp, p, rows)
    return 1.0 + xp.max(1.0 / xp.where(mass > NOISE, mass, 1.0), axis=-1)
