"""Misdeclared sampler: drafts come from q′, but the server verifies with q.

Examples are a sampler with another temperature or top-p, or a draft model that was updated on one side only.
"""

from hlmtheory._array import Array, in_kind
from hlmtheory._simplex import distance, distributions, excess, normalised, rejection_by_token

# The server maps a draft v to an output by a fixed kernel K: it keeps v with probability 1 - β_v, else it draws from r.
# For q′ = q the output has the law p, so law - p = (q′ - q) K.


def misdeclared_distribution(target: Array, draft: Array, actual_draft: Array) -> Array:
    """Return the law of the emitted token if drafts come from q′ and the server verifies with q."""
    xp, kind, p, q, drawn = distributions(target=target, draft=draft, actual_draft=actual_draft)
    beta = rejection_by_token(xp, p, q)
    residual, _ = normalised(xp, excess(xp, p, q))
    rejected = xp.sum(drawn * beta, axis=-1, keepdims=True)
    return in_kind(xp, drawn * (1.0 - beta) + rejected * residual, kind)


def bias(target: Array, draft: Array, actual_draft: Array) -> Array:
    """Return TV(law, p) as half the sum of absolute differences."""
    law = misdeclared_distribution(target, draft, actual_draft)
    xp, _, p, _ = distributions(target=target, draft=draft)
    return 0.5 * xp.sum(xp.abs(law - p), axis=-1)


def misdeclared_by(target: Array, draft: Array, actual_draft: Array) -> Array:
    """Return TV(q′, q)."""
    xp, _, q, drawn = distributions(draft=draft, actual_draft=actual_draft)
    return distance(xp, q, drawn)
