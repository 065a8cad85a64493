"""Sides of the theorems on counts of accepted drafts: what follows from them, and what does not."""

import numpy as np

from hlmtheory._array import NUMPY, Array
from hlmtheory._domains import DomainError
from hlmtheory._simplex import canonical
from hlmtheory.draft_length.censored import anytime, examined_and_accepted
from hlmtheory.draft_length.published import mean_interval, position_interval, split_tokens
from hlmtheory.sides.host import Values
from hlmtheory.verification.tokens import expected_tokens_profile

# L counts the drafts that would be accepted if the draft had no end, S(d) =
# P(L ≥ d), α_d = S(d)/S(d - 1); a round that drafts k shows i = min(k, L). H(d) = P(i ≥ d), G(d) = P(k ≥ d).


def law_side(one: Values, lengths: str = "length_law", acceptances: str = "acceptances") -> tuple[Array, Array]:
    """The law of k and the acceptances, one row or one for each context."""
    law, alphas = canonical(lengths, one[lengths]), one[acceptances]
    if law.shape[-1] != alphas.shape[-1] + 1:
        raise DomainError(
            f"{lengths} must have an entry for each k in 0..K; got {law.shape[-1]} beside {acceptances} of shape "
            f"{alphas.shape}; add one"
        )
    return law, alphas


def _at(values: Array, depth: Array, name: str = "depth") -> float:
    """Return the entry of depth d = 1..K."""
    if not 1 <= depth <= len(values):
        raise DomainError(f"{name} must be in 1..K with K = {len(values)}; got {int(depth)}; give one")
    return float(values[int(depth) - 1])


def _chances(alphas: Array) -> Array:
    return np.concatenate([np.ones((*alphas.shape[:-1], 1)), np.cumprod(alphas, axis=-1)], axis=-1)


def expected_counts(law: Array, alphas: Array) -> Array:
    """Return E n[k][i] of one round, by the first rejected draft."""
    chances = _chances(alphas)
    stops = chances * np.concatenate([1.0 - alphas, np.ones((*alphas.shape[:-1], 1))], axis=-1)
    k, i = np.arange(law.shape[-1])[:, None], np.arange(law.shape[-1])
    cells = np.where(i < k, stops[..., None, :], np.where(i == k, chances[..., None, :], 0.0))
    return law[..., :, None] * cells


def estimate_side(counts: Array, depth: Array) -> float:
    examined, accepted = examined_and_accepted(NUMPY, counts)
    return _at(accepted, depth) / (_at(examined, depth) or 1.0)


def _quotient(chances: Array, depth: Array) -> float:
    """Return P(L ≥ d)/P(L ≥ d - 1) from P(L ≥ 0), P(L ≥ 1), .."""
    return _at(chances[1:], depth) / (_at(chances[:-1], depth) or 1.0)


def _longer(law: Array) -> Array:
    return np.cumsum(law[..., ::-1], axis=-1)[..., ::-1][..., 1:]


def true_acceptance(one: Values) -> float:
    return _at(law_side(one)[1], one["depth"])


def is_examined(one: Values) -> bool:
    law, alphas = law_side(one)
    return _at(_longer(law) * _chances(alphas)[:-1], one["depth"]) > 0


def position_low(one: Values) -> float:
    """Return the lower end of :func:`position_interval` at depth d, from the rounds that draft."""
    law, alphas = law_side(one)
    some, total = law[1:], law[1:].sum()
    law = np.concatenate([[0.0], some / total]) if total > 0 else np.eye(1, len(law), 1)[0]
    rates = np.minimum(_longer(expected_counts(law, alphas).sum(axis=-2)), 1.0)
    return _at(position_interval(rates, max(float(_longer(law).sum()), 1.0))[0], one["depth"])


POOLED = ("context_lengths", "context_acceptances")


def _contexts(one: Values) -> tuple[Array, Array, Array]:
    law, alphas = law_side(one, *POOLED)
    weights = canonical("context_law", one["context_law"])
    if not len(law) == len(alphas) == len(weights):
        raise DomainError("context_lengths must have a row for each context; got another number; add rows")
    return weights[:, None], law, alphas


def pooled_estimate(one: Values) -> float:
    weights, law, alphas = _contexts(one)
    return estimate_side((weights[..., None] * expected_counts(law, alphas)).sum(axis=0), one["depth"])


def pooled_truth(one: Values) -> float:
    weights, _, alphas = _contexts(one)
    return _quotient((weights * _chances(alphas)).sum(axis=0), one["depth"])


def pooled_is_examined(one: Values) -> bool:
    weights, law, alphas = _contexts(one)
    return _at((weights * _longer(law) * _chances(alphas)[:, :-1]).sum(axis=0), one["depth"]) > 0


def joint_side(one: Values) -> tuple[Array, Array]:
    """Return the law of (k, L), and the observed counts, i = min(k, L)."""
    joint = one["joint_law"]
    if joint.shape[0] != joint.shape[1] or len(joint) < 2:
        raise DomainError(f"joint_law must have shape (..., K+1, K+1); got {joint.shape}; K is 1 or more")
    joint = canonical("joint_law", joint.reshape(-1)).reshape(joint.shape)
    return joint, np.tril(joint, k=-1) + np.diag(np.triu(joint).sum(axis=-1))  # all L ≥ k


def joint_truth(one: Values) -> float:
    return _quotient(np.concatenate([[1.0], _longer(joint_side(one)[0].sum(axis=-2))]), one["depth"])


def joint_is_examined(one: Values) -> bool:
    return _at(examined_and_accepted(NUMPY, joint_side(one)[1])[0], one["depth"]) > 0


def _accepted_at(one: Values, name: str) -> float:
    return _at(np.cumsum(np.cumprod(one["acceptances"])), one[name], name)


def mean_low(one: Values) -> float:
    _accepted_at(one, "other_length")
    return float(mean_interval(_accepted_at(one, "draft_length"), one["draft_length"], one["other_length"])[0])


def tokens_at_other(one: Values) -> float:
    """Return E(K) by :func:`expected_tokens_profile`, with acceptance 0 beyond depth K."""
    _accepted_at(one, "draft_length")
    _accepted_at(one, "other_length")
    depth = np.arange(1, len(one["acceptances"]) + 1)
    return float(expected_tokens_profile(np.where(depth <= one["other_length"], one["acceptances"], 0.0)))


_ENGINE_ROUNDS = 8
_ENGINE_DEPTH = 2
"""Rounds and largest draft length of the engines over which the probability of a miss is maximised."""


def engine_miss(one: Values) -> float:
    """Return the largest P(some depth's interval misses after the last of 8 rounds) over all rules for k."""
    alphas, deltas = one["acceptances"], one["errors"]
    depth, size = len(alphas), _ENGINE_ROUNDS + 1
    if not 1 <= depth <= _ENGINE_DEPTH or len(deltas) != depth:
        raise DomainError(
            f"acceptances and errors must have an entry for each depth up to {_ENGINE_DEPTH}; got {depth} and "
            f"{len(deltas)}; give one or two of each"
        )
    count, missed = np.arange(float(size)), np.zeros((size,) * (2 * depth))
    for d in range(depth):  # axes r_1, a_1, r_2, a_2
        examined = count[:, None] + 0.0 * count
        low, high = anytime(NUMPY, np.minimum(count[None, :], examined), examined, deltas[d])
        shape = [1] * (2 * depth)
        shape[2 * d] = shape[2 * d + 1] = size
        missed = np.maximum(missed, ((alphas[d] < low) | (alphas[d] > high)).reshape(shape))
    for _ in range(_ENGINE_ROUNDS):
        missed = np.max([missed, *(_after_round(missed, alphas, 0, k) for k in range(1, depth + 1))], axis=0)
    return float(missed[(0,) * (2 * depth)])


def _after_round(missed: Array, alphas: Array, depth: int, length: int) -> Array:
    """Return the expectation of ``missed`` after the drafts from ``depth`` on of a round that drafts ``length``."""
    if depth == length:
        return missed
    rejected = np.roll(missed, -1, axis=2 * depth)  # one more is examined; what wraps around is never reached
    accepted = np.roll(rejected, -1, axis=2 * depth + 1)
    return alphas[depth] * _after_round(accepted, alphas, depth + 1, length) + (1.0 - alphas[depth]) * rejected


def rounds_side(one: Values, length: str) -> list[int]:
    """Return the accepted drafts of each round of K drafts over the text; the first round begins at token 0."""
    at, found = 0, []
    while at < len(one["accepted"]):
        found.append(int(min(one["accepted"][at], one[length])))
        at += found[-1] + 1
    return found


def split_rounds(one: Values) -> float:
    """Return Σ ⌈(i + 1)/(K′ + 1)⌉ over the rounds of K drafts, by :func:`split_tokens` of their histogram."""
    seen = np.asarray(rounds_side(one, "draft_length"))
    return float((seen + 1).sum() / split_tokens(np.bincount(seen), one["other_length"]))


def goes_on(one: Values) -> bool:
    return bool((np.diff(one["accepted"]) >= -1).all())
