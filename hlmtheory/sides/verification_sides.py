"""Sides of the theorems on one verification."""

from hlmtheory._array import Array, arrays, take
from hlmtheory._domains import token_of
from hlmtheory.verification.rule import rejection_probability, residual_distribution


def at_token(values: Array, token: Array) -> Array:
    """Return the entry of each row at its token, shape (..., 1)."""
    xp, values, token = arrays(values=values, token=token)
    token = token_of(values.shape[-1]).check(xp, "token", token)
    return take(xp, values, token[..., None])


def mean_rejection(target: Array, draft: Array) -> Array:
    xp, q = arrays(draft=draft)
    return xp.sum(q * rejection_probability(target, draft), axis=-1, keepdims=True)


def assembled(target: Array, draft: Array, *, beta: Array, resampled: Array) -> Array:
    """Return q_v (1 - β_v) + resampled · r_v for the two factors that a paper gives."""
    _, q = arrays(draft=draft)
    return q * (1.0 - beta) + resampled * residual_distribution(target, draft)


def ones_side(target: Array) -> Array:
    xp, p = arrays(target=target)
    return xp.ones_like(p[..., 0])


def few_enough(draft_length: Array) -> Array:
    return arrays(draft_length=draft_length)[1] <= LONGEST_SUM


def terms(draft_length: Array) -> Array:
    """Return the number of roundings in the sum over a round."""
    xp, length = arrays(draft_length=draft_length)
    return 1.0 + xp.astype(length, xp.float64)


LONGEST_SUM = 4096  # drafts; a longer sum would be slow
