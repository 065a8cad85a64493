"""The target with the largest distortion for k of V probabilities.

Symbols are those of :mod:`hlmtheory.truncation`; δ is ``distance``, TV(q, p).
"""

from typing import Any

from hlmtheory._array import Array, arrays
from hlmtheory._simplex import distance as apart
from hlmtheory._simplex import excess, normalised, quotient
from hlmtheory.sides.truncation_sides import loss_at_draft
from hlmtheory.truncation.reconstruction import kept, pair_and_size, resampling_distortion
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


def attacked(target: Array, draft: Array, k: Array) -> Array:
    """TV(r, r̂) of the constructed target at the given target's distance from q; NaN where there is none."""
    xp, _, p, q, k = pair_and_size(target, draft, k)
    sent, _ = kept(xp, xp.broadcast_to(q, xp.broadcast_arrays(p, q)[0].shape), k)
    delta = apart(xp, p, q)
    return resampling_distortion(_worst(xp, q, sent, sent, xp.broadcast_to(delta, sent.shape[:-1])[..., None]), q, k)


def deviation_side(xp: Any, q: Array, k: Array) -> Array:
    """Return what ``truncation.worst_case, truncation.bias_worst`` takes."""
    sent, k = kept(xp, q, k)
    rest = xp.sum(xp.where(sent, 0.0, q), axis=-1, keepdims=True)
    count = xp.astype(xp.where(k < q.shape[-1], q.shape[-1] - k, 1), q.dtype)
    return xp.sum(xp.where(sent, 0.0, excess(xp, q, rest / count)), axis=-1)


def sent_mass_suffices(target: Array, draft: Array, k: Array) -> Array:
    """Return what ``truncation.worst_case`` takes."""
    xp, _, p, q, k = pair_and_size(target, draft, k)
    sent, _ = kept(xp, q, k)
    delta = apart(xp, p, q)
    return (delta > 0) & (delta <= xp.sum(xp.where(sent, q, 0.0), axis=-1))


def lost_at_draft(target: Array, draft: Array, token: Array, k: Array) -> Array:
    """TV(r, r̂) of the worst target that rejects d with the same probability as the given target."""
    delta = loss_at_draft(target, draft, token)
    xp, _, _, q, k = pair_and_size(target, draft, k)
    sent, _ = kept(xp, q, k)
    giver = xp.arange(q.shape[-1], device=q.device) == arrays(draft=q, token=token)[2][..., None]
    return resampling_distortion(_worst(xp, q, sent | giver, giver, delta[..., None]), q, k)


def draft_is_sent(target: Array, draft: Array, token: Array, k: Array) -> Array:
    """Return what ``truncation.online_direction_worst`` takes."""
    xp, p, q, token, k = arrays(target=target, draft=draft, token=token, k=k)
    sent, _ = kept(xp, q, k)
    among = xp.any(sent & (xp.arange(q.shape[-1], device=q.device) == token[..., None]), axis=-1)
    return among & (rejection_at(p, q, token) > 0)


def inverse_loss(target: Array, draft: Array, token: Array) -> Array:
    """1/(q_d β_d): the factor by which the residual's normalisation magnifies a rounding error."""
    xp, lost = arrays(lost=loss_at_draft(target, draft, token))
    return quotient(xp, xp.ones_like(lost), lost)
