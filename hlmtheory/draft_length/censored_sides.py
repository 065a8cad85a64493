"""Both sides of the claims of ``censored_claims``: expected counts of a round, and the estimates from them.

L counts the drafts that would be accepted if the draft had no end; a round that drafts k shows i = min(k, L).
"""

from __future__ import annotations

from typing import Any

from hlmtheory._array import Array, arrays, in_kind
from hlmtheory._domains import UNIT_INTERVAL, Domain, DomainError, leading_dimensions
from hlmtheory._simplex import distributions
from hlmtheory.draft_length.censored import examined_and_accepted
from hlmtheory.draft_length.published import (
    mean_interval,
    position_interval,
)
from hlmtheory.verification.tokens import expected_tokens_profile

# -------------------------------------------------------------------------------------------- laws of a round


def law_of_lengths(length_law: Array, acceptances: Array) -> tuple[Any, Array, Array]:
    """Return the namespace, the law of k and the acceptances in float64."""
    xp, _, law = distributions(length_law=length_law)
    _, alphas = arrays(acceptances=acceptances)
    UNIT_INTERVAL.check(xp, "acceptances", alphas)
    alphas = in_kind(xp, alphas, xp.float64)
    if not alphas.ndim or law.shape[-1] != alphas.shape[-1] + 1:
        raise DomainError(
            f"length_law must have an entry for each k in 0..K; got {law.shape[-1]} beside acceptances of shape "
            f"{tuple(alphas.shape)}; add one"
        )
    return xp, law, alphas


def _at(xp: Any, values: Array, depth: Array) -> Array:
    """Return the entry of depth d = 1..K of each row."""
    _, d = arrays(depth=depth)
    size = values.shape[-1]
    domain = Domain(f"a depth in 1..K with K = {size}", lambda xp, v: (v >= 1) & (v <= size), "give one", "integer")
    d = domain.check(xp, "depth", d)
    leading_dimensions(depth=tuple(d.shape), others=tuple(values.shape[:-1]))
    hot = xp.arange(1, size + 1, device=values.device) == d[..., None]
    return xp.sum(xp.where(hot, values, xp.zeros_like(values)), axis=-1)


def _chances(xp: Any, alphas: Array) -> Array:
    """Return S(0..K)."""
    return xp.concat([xp.ones_like(alphas[..., :1]), xp.cumulative_prod(alphas, axis=-1)], axis=-1)


def _expected_counts(xp: Any, law: Array, alphas: Array) -> Array:
    """Return E n[k][i] of one round, by the first rejected draft."""
    chances = _chances(xp, alphas)
    stops = chances * xp.concat([1.0 - alphas, xp.ones_like(alphas[..., :1])], axis=-1)
    size = law.shape[-1]
    k, i = xp.arange(size, device=law.device)[:, None], xp.arange(size, device=law.device)[None, :]
    cells = xp.where(i < k, stops[..., None, :], xp.where(i == k, chances[..., None, :], 0.0))
    return law[..., :, None] * cells


def _estimate(xp: Any, counts: Array, depth: Array) -> Array:
    examined, accepted = examined_and_accepted(xp, counts)
    seen = _at(xp, examined, depth)
    return _at(xp, accepted, depth) / xp.where(seen > 0, seen, 1.0)


def _longer(xp: Any, law: Array) -> Array:
    """Return G(1..K)."""
    return xp.flip(xp.cumulative_sum(xp.flip(law, axis=-1), axis=-1), axis=-1)[..., 1:]


# ------------------------------------------------------------------------------------ sides: independent lengths


def censored_estimate(length_law: Array, acceptances: Array, depth: Array) -> Array:
    """Return the quotient of expected counts at depth d."""
    xp, law, alphas = law_of_lengths(length_law, acceptances)
    return _estimate(xp, _expected_counts(xp, law, alphas), depth)


def true_acceptance(length_law: Array, acceptances: Array, depth: Array) -> Array:
    """Return α_d."""
    xp, law, alphas = law_of_lengths(length_law, acceptances)
    return _at(xp, alphas + xp.zeros_like(law[..., 1:]), depth)


def is_examined(length_law: Array, acceptances: Array, depth: Array) -> Array:
    """Return whether depth d is examined with a positive probability."""
    xp, law, alphas = law_of_lengths(length_law, acceptances)
    return _at(xp, _longer(xp, law) * _chances(xp, alphas)[..., :-1], depth) > 0


def _position_ends(length_law: Array, acceptances: Array) -> tuple[Any, Array, Array]:
    xp, law, alphas = law_of_lengths(length_law, acceptances)
    some = xp.concat([xp.zeros_like(law[..., :1]), law[..., 1:]], axis=-1)
    total = xp.sum(some, axis=-1, keepdims=True)
    short = xp.astype(xp.arange(law.shape[-1], device=law.device) == 1, xp.float64)
    law = xp.where(total > 0, some / xp.where(total > 0, total, 1.0), short)  # only rounds that draft are published
    shares = xp.sum(_expected_counts(xp, law, alphas), axis=-2)
    rates = xp.minimum(_longer(xp, shares), xp.ones_like(alphas))
    mean = xp.sum(_longer(xp, law), axis=-1)
    return xp, *position_interval(rates, xp.where(mean < 1.0, 1.0, mean))


def position_low(length_law: Array, acceptances: Array, depth: Array) -> Array:
    """Return the lower end of :func:`position_interval` at depth d."""
    xp, low, _ = _position_ends(length_law, acceptances)
    return _at(xp, low, depth)


# --------------------------------------------------------------------------------- sides: dependent lengths


def _mixture(context_law: Array, context_acceptances: Array, context_lengths: Array) -> tuple[Any, Array, Array, Array]:
    xp, _, weights = distributions(context_law=context_law)
    _, _, law = distributions(context_lengths=context_lengths)
    _, alphas = arrays(context_acceptances=context_acceptances)
    UNIT_INTERVAL.check(xp, "context_acceptances", alphas)
    _, law, alphas = law_of_lengths(law, alphas)
    if law.ndim < 2 or law.shape[-2] != weights.shape[-1]:
        raise DomainError("context_lengths must have a row for each context; got another number; add rows")
    return xp, weights[..., None], law, alphas


def pooled_estimate(context_law: Array, context_acceptances: Array, context_lengths: Array, depth: Array) -> Array:
    """Return the quotient of expected counts, pooled over contexts with their own law of k."""
    xp, weights, law, alphas = _mixture(context_law, context_acceptances, context_lengths)
    return _estimate(xp, xp.sum(weights[..., None] * _expected_counts(xp, law, alphas), axis=-3), depth)


def pooled_truth(context_law: Array, context_acceptances: Array, context_lengths: Array, depth: Array) -> Array:
    """Return P(L ≥ d)/P(L ≥ d - 1) over all contexts."""
    xp, weights, _, alphas = _mixture(context_law, context_acceptances, context_lengths)
    chances = xp.sum(weights * _chances(xp, alphas), axis=-2)
    before = _at(xp, chances[..., :-1], depth)
    return _at(xp, chances[..., 1:], depth) / xp.where(before > 0, before, 1.0)


def pooled_is_examined(context_law: Array, context_acceptances: Array, context_lengths: Array, depth: Array) -> Array:
    """Return whether depth d is examined in some context."""
    xp, weights, law, alphas = _mixture(context_law, context_acceptances, context_lengths)
    examined = xp.sum(weights * _longer(xp, law) * _chances(xp, alphas)[..., :-1], axis=-2)
    return _at(xp, examined, depth) > 0


def _joint(joint_law: Array) -> tuple[Any, Array, Array]:
    """Return the namespace, the law of (k, L), and the observed counts, i = min(k, L)."""
    xp, joint = arrays(joint_law=joint_law)
    if joint.ndim < 2 or joint.shape[-1] != joint.shape[-2] or joint.shape[-1] < 2:
        raise DomainError(f"joint_law must have shape (..., K+1, K+1); got {tuple(joint.shape)}; K is 1 or more")
    size = joint.shape[-1]
    _, _, flat = distributions(joint_law=xp.reshape(joint, (*joint.shape[:-2], size * size)))
    joint = xp.reshape(flat, joint.shape)
    cut = xp.sum(xp.triu(joint), axis=-1)  # L ≥ k
    seen = xp.tril(joint, k=-1) + xp.eye(size, dtype=xp.float64, device=joint.device) * cut[..., None]
    return xp, joint, seen


def joint_estimate(joint_law: Array, depth: Array) -> Array:
    """Return the quotient of expected counts for any joint law of k and L."""
    xp, _, seen = _joint(joint_law)
    return _estimate(xp, seen, depth)


def joint_survival(joint_law: Array, depth: Array) -> Array:
    """Return P(L ≥ d)."""
    xp, joint, _ = _joint(joint_law)
    return _at(xp, _longer(xp, xp.sum(joint, axis=-2)), depth)


def joint_truth(joint_law: Array, depth: Array) -> Array:
    """Return P(L ≥ d)/P(L ≥ d - 1)."""
    xp, joint, _ = _joint(joint_law)
    law = xp.sum(joint, axis=-2)
    before = _at(xp, _longer(xp, xp.concat([xp.zeros_like(law[..., :1]), law[..., :-1]], axis=-1)), depth)
    before = before + _at(xp, law[..., -1:] + xp.zeros_like(law[..., 1:]), depth)  # P(L ≥ d - 1)
    return joint_survival(joint_law, depth) / xp.where(before > 0, before, 1.0)


def joint_is_examined(joint_law: Array, depth: Array) -> Array:
    """Return whether depth d is examined with a positive probability."""
    xp, _, seen = _joint(joint_law)
    return _at(xp, examined_and_accepted(xp, seen)[0], depth) > 0


# ------------------------------------------------------------------------------------------- sides: one number


def _mean_and_tokens(acceptances: Array, draft_length: Array, other_length: Array) -> tuple[Any, Array, Array]:
    """Return m of rounds of k drafts, and E(K) at the other length."""
    xp, alphas = arrays(acceptances=acceptances)
    UNIT_INTERVAL.check(xp, "acceptances", alphas)
    tokens = xp.cumulative_sum(xp.cumulative_prod(in_kind(xp, alphas, xp.float64), axis=-1), axis=-1)
    names = {"draft_length": draft_length, "other_length": other_length}
    for name, value in names.items():
        _, length = arrays(**{name: value})
        inside = Domain(
            f"a length in 1..{alphas.shape[-1]}",
            lambda xp, v: (v >= 1) & (v <= alphas.shape[-1]),
            "give acceptances to that depth",
            kind="integer",
        )
        inside.check(xp, name, length)
    return xp, _at(xp, tokens, draft_length), 1.0 + _at(xp, tokens, other_length)


def mean_low(acceptances: Array, draft_length: Array, other_length: Array) -> Array:
    """Return the lower end of :func:`mean_interval`."""
    _, mean, _ = _mean_and_tokens(acceptances, draft_length, other_length)
    return mean_interval(mean, draft_length, other_length)[0]


def tokens_at_other(acceptances: Array, draft_length: Array, other_length: Array) -> Array:
    """Return E(K) by :func:`expected_tokens_profile`, with acceptance 0 beyond depth K."""
    xp, alphas = arrays(acceptances=acceptances)
    _mean_and_tokens(alphas, draft_length, other_length)
    _, other = arrays(other_length=other_length)
    depth = xp.arange(1, alphas.shape[-1] + 1, device=alphas.device)
    return expected_tokens_profile(xp.where(depth <= other[..., None], alphas, xp.zeros_like(alphas)))
