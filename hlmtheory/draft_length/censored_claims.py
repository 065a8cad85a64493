"""Claims of ``censored`` and ``published``: what follows from counts of accepted drafts, and what does not."""

from __future__ import annotations

from functools import partial

import numpy as np

from hlmtheory._array import NUMPY, Array
from hlmtheory._domains import COUNT, SIMPLEX, UNIT_INTERVAL, DomainError
from hlmtheory._quantities import open_unit, whole_from_one
from hlmtheory._sides import Values, host_side
from hlmtheory._simplex import canonical
from hlmtheory.claims import Assumption, Attained, Claim, Origin, Relation, Source
from hlmtheory.draft_length.censored import anytime, examined_and_accepted
from hlmtheory.draft_length.published import mean_interval, position_interval, split_tokens
from hlmtheory.verification.tokens import expected_tokens_profile

# Proofs, by the last part of the id. L counts the drafts that would be accepted if the draft had no end, S(d) =
# P(L ≥ d), α_d = S(d)/S(d - 1); a round that drafts k shows i = min(k, L). H(d) = P(i ≥ d), G(d) = P(k ≥ d).
#
# censored. i ≥ d iff k ≥ d and L ≥ d, so Σ_{k≥d} Σ_{i≥d} E n = P(k ≥ d, L ≥ d) = G(d) S(d) for independent k and L.
#   In the same way the rounds with k ≥ d and i ≥ d - 1 are G(d) S(d - 1). The quotient is α_d.
# censored_before. False: see the counterexample. A rule that drafts two tokens for easy requests (α = 7/8) and one for
#   hard requests (α = 1/8) depends on the request only. Depth 2 is then examined for easy requests only. The estimate
#   is 7/8, but (49 + 1)/(56 + 8) = 25/32 of the drafts would be accepted.
# censored_confidence. False: let the draft stop before a token if it is unsure of it, and let these be the tokens that
#   would be rejected. Then every drafted token is accepted.
# position_floor. α_d = h_d/g_d with h_d = H(d)/H(d - 1). α_e ≤ 1 gives g_e in [h_e, 1], and
#   κ = Σ_d Π_{e≤d} g_e rises in every g_e. For a given g_d κ is at most (d - 1) + g_d (K - d + 1), with all others 1,
#   and at least its value with all others h_e (g_1 = 1). So g_d is at least the root of the first and at most the root
#   of the second. In between κ takes every value, since it is continuous in the other g_e: both ends are attained.
# mean_floor. S falls in d and has the sum m over d ≤ k. So over the first K ≤ k its mean is at least
#   m/k, with equality for a constant S. Its sum is at most min(m, K), with equality if S is 1 for as long as possible.
#   For K > k the further S(d) lie between 0 and S(k) ≤ m/k.
# split. Rounds of K cut the text into segments of i + 1 tokens, with L ≥ i at the first. Where a round of K′ begins j
#   tokens into a segment, L ≥ i - j by the assumption. So it emits at least min(i + 1 - j, K′ + 1) tokens: it ends
#   beyond the segment or advances by K′ + 1. So at most ⌈(i + 1)/(K′ + 1)⌉ rounds begin in the segment.
# adaptive_depths. Take the rounds that examine depth d, one after the other. Whether a round examines d is decided by
#   the past, by its k and by its drafts before d. Given all that, its outcome at d is Bernoulli(α_d). So for each θ,
#   θ^a (1 - θ)^(r - a) / (α_d^a (1 - α_d)^(r - a)) with r = r_d and a = a_d is a nonnegative martingale from 1 over
#   these rounds. So is its mean over θ in [0, 1], which is 1/((r + 1) P(Binomial(r, α_d) = a)). By Ville it ever
#   reaches 1/δ_d with probability at most δ_d, however many rounds examine d. Sum over d.


def _law(one: Values, lengths: str = "length_law", acceptances: str = "acceptances") -> tuple[Array, Array]:
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


def _expected_counts(law: Array, alphas: Array) -> Array:
    """Return E n[k][i] of one round, by the first rejected draft."""
    chances = _chances(alphas)
    stops = chances * np.concatenate([1.0 - alphas, np.ones((*alphas.shape[:-1], 1))], axis=-1)
    k, i = np.arange(law.shape[-1])[:, None], np.arange(law.shape[-1])
    cells = np.where(i < k, stops[..., None, :], np.where(i == k, chances[..., None, :], 0.0))
    return law[..., :, None] * cells


def _estimate(counts: Array, depth: Array) -> float:
    examined, accepted = examined_and_accepted(NUMPY, counts)
    return _at(accepted, depth) / (_at(examined, depth) or 1.0)


def _quotient(chances: Array, depth: Array) -> float:
    """Return P(L ≥ d)/P(L ≥ d - 1) from P(L ≥ 0), P(L ≥ 1), .."""
    return _at(chances[1:], depth) / (_at(chances[:-1], depth) or 1.0)


def _longer(law: Array) -> Array:
    return np.cumsum(law[..., ::-1], axis=-1)[..., ::-1][..., 1:]


def _true_acceptance(one: Values) -> float:
    return _at(_law(one)[1], one["depth"])


def _is_examined(one: Values) -> bool:
    law, alphas = _law(one)
    return _at(_longer(law) * _chances(alphas)[:-1], one["depth"]) > 0


def _position_low(one: Values) -> float:
    """Return the lower end of :func:`position_interval` at depth d, from the rounds that draft."""
    law, alphas = _law(one)
    some, total = law[1:], law[1:].sum()
    law = np.concatenate([[0.0], some / total]) if total > 0 else np.eye(1, len(law), 1)[0]
    rates = np.minimum(_longer(_expected_counts(law, alphas).sum(axis=-2)), 1.0)
    return _at(position_interval(rates, max(float(_longer(law).sum()), 1.0))[0], one["depth"])


_POOLED = ("context_lengths", "context_acceptances")


def _contexts(one: Values) -> tuple[Array, Array, Array]:
    law, alphas = _law(one, *_POOLED)
    weights = canonical("context_law", one["context_law"])
    if not len(law) == len(alphas) == len(weights):
        raise DomainError("context_lengths must have a row for each context; got another number; add rows")
    return weights[:, None], law, alphas


def _pooled_estimate(one: Values) -> float:
    weights, law, alphas = _contexts(one)
    return _estimate((weights[..., None] * _expected_counts(law, alphas)).sum(axis=0), one["depth"])


def _pooled_truth(one: Values) -> float:
    weights, _, alphas = _contexts(one)
    return _quotient((weights * _chances(alphas)).sum(axis=0), one["depth"])


def _pooled_is_examined(one: Values) -> bool:
    weights, law, alphas = _contexts(one)
    return _at((weights * _longer(law) * _chances(alphas)[:, :-1]).sum(axis=0), one["depth"]) > 0


def _joint(one: Values) -> tuple[Array, Array]:
    """Return the law of (k, L), and the observed counts, i = min(k, L)."""
    joint = one["joint_law"]
    if joint.shape[0] != joint.shape[1] or len(joint) < 2:
        raise DomainError(f"joint_law must have shape (..., K+1, K+1); got {joint.shape}; K is 1 or more")
    joint = canonical("joint_law", joint.reshape(-1)).reshape(joint.shape)
    return joint, np.tril(joint, k=-1) + np.diag(np.triu(joint).sum(axis=-1))  # all L ≥ k


def _joint_truth(one: Values) -> float:
    return _quotient(np.concatenate([[1.0], _longer(_joint(one)[0].sum(axis=-2))]), one["depth"])


def _joint_is_examined(one: Values) -> bool:
    return _at(examined_and_accepted(NUMPY, _joint(one)[1])[0], one["depth"]) > 0


def _accepted_at(one: Values, name: str) -> float:
    return _at(np.cumsum(np.cumprod(one["acceptances"])), one[name], name)


def _mean_low(one: Values) -> float:
    _accepted_at(one, "other_length")
    return float(mean_interval(_accepted_at(one, "draft_length"), one["draft_length"], one["other_length"])[0])


def _tokens_at_other(one: Values) -> float:
    """Return E(K) by :func:`expected_tokens_profile`, with acceptance 0 beyond depth K."""
    _accepted_at(one, "draft_length")
    _accepted_at(one, "other_length")
    depth = np.arange(1, len(one["acceptances"]) + 1)
    return float(expected_tokens_profile(np.where(depth <= one["other_length"], one["acceptances"], 0.0)))


_ENGINE_ROUNDS, _ENGINE_DEPTH = 8, 2
"""Rounds and largest draft length of the engines over which the probability of a miss is maximised."""


def _engine_miss(one: Values) -> float:
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


def _rounds(one: Values, length: str) -> list[int]:
    """Return the accepted drafts of each round of K drafts over the text; the first round begins at token 0."""
    at, found = 0, []
    while at < len(one["accepted"]):
        found.append(int(min(one["accepted"][at], one[length])))
        at += found[-1] + 1
    return found


def _split_rounds(one: Values) -> float:
    """Return Σ ⌈(i + 1)/(K′ + 1)⌉ over the rounds of K drafts, by :func:`split_tokens` of their histogram."""
    seen = np.asarray(_rounds(one, "draft_length"))
    return float((seen + 1).sum() / split_tokens(np.bincount(seen), one["other_length"]))


def _goes_on(one: Values) -> bool:
    return bool((np.diff(one["accepted"]) >= -1).all())


_DOMAINS = {
    **dict.fromkeys(("length_law", "context_law", "context_lengths"), SIMPLEX),
    **dict.fromkeys(("acceptances", "context_acceptances", "joint_law"), UNIT_INTERVAL),
    **dict.fromkeys(("draft_length", "other_length"), whole_from_one("a round drafts at least one token")),
    "depth": whole_from_one("give a depth"),
    "accepted": COUNT,
    "errors": open_unit("δ_d is the probability that the interval of depth d ever misses, such as 0.05"),
}
_RANK = {
    **dict.fromkeys(("length_law", "context_law", "acceptances", "accepted", "errors"), 1),
    **dict.fromkeys(("context_lengths", "context_acceptances", "joint_law"), 2),
}
_side = partial(host_side, _DOMAINS, _RANK)
_test = partial(_side, test=True)
_LENGTHS, _JOINT, _ERRORS = ("length_law", "acceptances", "depth"), ("joint_law", "depth"), ("acceptances", "errors")
_CONTEXTS, _TWO = ("context_law", *_POOLED, "depth"), ("draft_length", "other_length")
_KM = "kaplan1958nonparametric"
_SEEN = "some rounds examine depth d"
_CUT = {"length_law": [0.0, 0.5, 0.5], "acceptances": [0.5, 0.5], "depth": 2}
_ONE_OR_THREE = [0.0, 0.5, 0.0, 0.5]
_FALLS_BY_ONE = Assumption("one token later at most one draft fewer is accepted", _test(_goes_on, "accepted", *_TWO))

CLAIMS = (
    Claim(
        id="draft_length.censored",
        source=Source(_KM, "the product-limit estimate, for draft lengths"),
        statement="Σ_{k≥d} Σ_{i≥d} E n / Σ_{k≥d} Σ_{i≥d−1} E n = α_d if k is independent of what would be accepted",
        relation=Relation.EQ,
        lhs=_side(lambda one: _estimate(_expected_counts(*_law(one)), one["depth"]), *_LENGTHS),
        rhs=_side(_true_acceptance, *_LENGTHS),
        assumptions=(Assumption(_SEEN, _test(_is_examined, *_LENGTHS)),),
        attained=Attained(_CUT),
    ),
    Claim(
        id="draft_length.censored_before",
        source=Source(_KM, "the product-limit estimate, were a k that is chosen before the outcome enough"),
        origin=Origin.IMPLIED,
        statement="the same quotient is α_d for every k that is chosen before the outcome, such as by the request",
        relation=Relation.EQ,
        lhs=_side(_pooled_estimate, *_CONTEXTS),
        rhs=_side(_pooled_truth, *_CONTEXTS),
        assumptions=(Assumption("some round of a context examines depth d", _test(_pooled_is_examined, *_CONTEXTS)),),
        refuted={
            "context_law": [0.5, 0.5],
            "context_acceptances": [[0.875, 0.875], [0.125, 0.125]],
            "context_lengths": [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]],
            "depth": 2,
        },
    ),
    Claim(
        id="draft_length.censored_confidence",
        source=Source(_KM, "the product-limit estimate, were k the drafts before the first unsure one"),
        origin=Origin.IMPLIED,
        statement="the same quotient is α_d for a k that looks at the draft's confidence in its own tokens",
        relation=Relation.EQ,
        lhs=_side(lambda one: _estimate(_joint(one)[1], one["depth"]), *_JOINT),
        rhs=_side(_joint_truth, *_JOINT),
        assumptions=(Assumption("a k with depth d occurs", _test(_joint_is_examined, *_JOINT)),),
        refuted={"joint_law": [[0.0, 0.0, 0.0], [0.0, 0.5, 0.0], [0.0, 0.0, 0.5]], "depth": 2},
    ),
    Claim(
        id="draft_length.position_floor",
        source=Source(_KM, "accepted drafts by position and the mean draft length"),
        statement="P(i ≥ d)/P(i ≥ d−1) over the largest P(k ≥ d | k ≥ d−1) that the rates and E k allow ≤ α_d",
        lhs=_side(_position_low, *_LENGTHS),
        rhs=_side(_true_acceptance, *_LENGTHS),
        assumptions=(Assumption(_SEEN, _test(_is_examined, *_LENGTHS)),),
        attained=Attained({"length_law": _ONE_OR_THREE, "acceptances": [0.5, 1.0, 0.25], "depth": 3}),
        ceiling=1.0,
    ),
    Claim(
        id="draft_length.mean_floor",
        source=Source("leviathan2023fast", "(1), for a profile of which only the mean accepted drafts m are known"),
        statement="1 + m min(1, K/k) ≤ E(K), m the mean of the accepted drafts in rounds of k",
        lhs=_side(_mean_low, "acceptances", *_TWO),
        rhs=_side(_tokens_at_other, "acceptances", *_TWO),
        attained=Attained({"acceptances": [0.25, 1.0, 1.0], "draft_length": 3, "other_length": 1}),
    ),
    Claim(
        id="draft_length.split",
        source=Source("leviathan2023fast", "rounds of another length over the same text"),
        statement="rounds of K′ drafts ≤ Σ ⌈(i + 1)/(K′ + 1)⌉ over the rounds of K drafts, i of them accepted",
        lhs=_side(lambda one: float(len(_rounds(one, "other_length"))), "accepted", *_TWO),
        rhs=_side(_split_rounds, "accepted", *_TWO),
        assumptions=(_FALLS_BY_ONE,),
        attained=Attained({"accepted": [3, 2, 1, 0, 0], "draft_length": 4, "other_length": 1}),
    ),
    Claim(
        id="draft_length.adaptive_depths",
        source=Source("robbins1970statistical", "the mixture of likelihood ratios, at each depth"),
        statement="P(∃t, d: P(Binomial(r_d, α_d) = a_d) ≤ δ_d/(r_d + 1)) ≤ Σ_d δ_d for any k_t chosen by past rounds",
        lhs=_side(_engine_miss, *_ERRORS),
        rhs=_side(lambda one: float(one["errors"].sum()), *_ERRORS),
        attained=Attained({"acceptances": [0.4561], "errors": [2 * 0.4561 * (1.0 + 1e-9)]}, ratio=0.8826616276651047),
        ceiling=1.0,
    ),
)
