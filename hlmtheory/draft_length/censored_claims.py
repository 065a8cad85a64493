"""Claims of ``censored`` and ``published``: what follows from counts of accepted drafts, and what does not."""

from __future__ import annotations

from typing import Any

from hlmtheory._array import Array, arrays, in_kind
from hlmtheory._domains import COUNT, UNIT_INTERVAL, Domain, DomainError, entry_for_each, leading_dimensions
from hlmtheory._quantities import open_unit, whole_from_one
from hlmtheory._simplex import distributions
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


_ENGINE_ROUNDS, _ENGINE_DEPTH = 8, 2
"""Rounds and largest draft length of the engines over which the probability of a miss is maximised."""
_ERROR = open_unit("δ_d is the probability that the interval of depth d ever misses, such as 0.05")


def engine_miss(acceptances: Array, errors: Array) -> Array:
    """Return the largest P(some depth's interval misses after the last of 8 rounds) over all rules for k."""
    xp, alphas, deltas = _depths_and_errors(acceptances, errors)
    depth = alphas.shape[-1]
    size = _ENGINE_ROUNDS + 1
    count = xp.arange(size, dtype=xp.float64, device=alphas.device)
    missed = xp.zeros(tuple(alphas.shape[:-1]) + (size,) * (2 * depth), dtype=xp.float64, device=alphas.device)
    for d in range(depth):  # axes r_1, a_1, r_2, a_2
        examined = count[:, None] + 0.0 * count
        accepted = xp.minimum(count[None, :], examined)
        low, high = anytime(xp, accepted, examined, deltas[..., d, None, None])
        alpha = alphas[..., d, None, None]
        outside = xp.astype((alpha < low) | (alpha > high), xp.float64)
        shape = [1] * (2 * depth)
        shape[2 * d] = shape[2 * d + 1] = size
        missed = xp.maximum(missed, xp.reshape(outside, (*outside.shape[:-2], *shape)))
    for _ in range(_ENGINE_ROUNDS):
        best = missed
        for length in range(1, depth + 1):
            best = xp.maximum(best, _after_round(xp, missed, alphas, 0, length))
        missed = best
    return missed[(..., *((0,) * (2 * depth)))]


def _after_round(xp: Any, missed: Array, alphas: Array, depth: int, length: int) -> Array:
    """Return the expectation of ``missed`` after the drafts from ``depth`` on of a round that drafts ``length``."""
    if depth == length:
        return missed
    axis = 2 * (depth - alphas.shape[-1])
    rejected = xp.roll(missed, -1, axis=axis)  # one more is examined; what wraps around is never reached
    accepted = xp.roll(rejected, -1, axis=axis + 1)
    alpha = xp.reshape(alphas[..., depth], (*alphas.shape[:-1], *((1,) * (2 * alphas.shape[-1]))))
    return alpha * _after_round(xp, accepted, alphas, depth + 1, length) + (1.0 - alpha) * rejected


def summed_errors(acceptances: Array, errors: Array) -> Array:
    """Return Σ_d δ_d."""
    xp, _, deltas = _depths_and_errors(acceptances, errors)
    return xp.sum(deltas, axis=-1)


def _depths_and_errors(acceptances: Array, errors: Array) -> tuple[Any, Array, Array]:
    xp, alphas, deltas = arrays(acceptances=acceptances, errors=errors)
    UNIT_INTERVAL.check(xp, "acceptances", alphas)
    _ERROR.check(xp, "errors", deltas)
    if not alphas.ndim or not 1 <= alphas.shape[-1] <= _ENGINE_DEPTH or alphas.shape[-1:] != deltas.shape[-1:]:
        raise DomainError(
            f"acceptances and errors must have an entry for each depth up to {_ENGINE_DEPTH}; got shapes "
            f"{tuple(alphas.shape)} and {tuple(deltas.shape)}; give one or two of each"
        )
    leading_dimensions(acceptances=tuple(alphas.shape[:-1]), errors=tuple(deltas.shape[:-1]))
    alphas, deltas = in_kind(xp, alphas, xp.float64), in_kind(xp, deltas, xp.float64)
    return xp, alphas + xp.zeros_like(deltas), deltas + xp.zeros_like(alphas)


_LENGTH = whole_from_one("a round drafts at least one token")


def _text(accepted: Array, draft_length: Array, other_length: Array) -> tuple[Any, Array, Array, Array]:
    xp, runs, length, other = arrays(accepted=accepted, draft_length=draft_length, other_length=other_length)
    runs = COUNT.check(xp, "accepted", runs)
    entry_for_each("token of the text", accepted=tuple(runs.shape))
    length, other = _LENGTH.check(xp, "draft_length", length), _LENGTH.check(xp, "other_length", other)
    leading_dimensions(accepted=tuple(runs.shape[:-1]), draft_length=tuple(length.shape), other=tuple(other.shape))
    return xp, runs, length, other


def _starts(xp: Any, runs: Array, length: Array) -> Array:
    """Return 1 at each token where a round of K drafts begins, else 0; the first round begins at token 0."""
    at = xp.zeros_like(runs[..., 0] + length)
    begins = []
    for t in range(runs.shape[-1]):
        here = at == t
        at = xp.where(here, t + 1 + xp.minimum(runs[..., t], length), at)
        begins.append(xp.astype(here, xp.float64))
    return xp.stack(begins, axis=-1)


def rounds_of_text(accepted: Array, draft_length: Array, other_length: Array) -> Array:
    """Return the number of rounds of K′ drafts over the text."""
    xp, runs, _, other = _text(accepted, draft_length, other_length)
    return xp.sum(_starts(xp, runs, other), axis=-1)


def split_rounds(accepted: Array, draft_length: Array, other_length: Array) -> Array:
    """Return Σ ⌈(i + 1)/(K′ + 1)⌉ over the rounds of K drafts, by :func:`split_tokens` of their histogram."""
    xp, runs, length, other = _text(accepted, draft_length, other_length)
    begins = _starts(xp, runs, length)
    seen = xp.minimum(runs, length[..., None])
    values = xp.arange(int(xp.max(seen)) + 1, device=runs.device)
    histogram = xp.sum(xp.where(seen[..., None] == values, begins[..., None], 0.0), axis=-2)
    tokens = xp.sum(begins * xp.astype(seen + 1, xp.float64), axis=-1)
    return tokens / split_tokens(histogram, other)


def goes_on(accepted: Array, draft_length: Array, other_length: Array) -> Array:
    """Return whether L at the next token is at least L - 1."""
    xp, runs, _, _ = _text(accepted, draft_length, other_length)
    return xp.all(runs[..., 1:] >= runs[..., :-1] - 1, axis=-1)


_KM = "kaplan1958nonparametric"
_SEEN = "some rounds examine depth d"
_CUT = {"length_law": [0.0, 0.5, 0.5], "acceptances": [0.5, 0.5], "depth": 2}
_ONE_OR_THREE = [0.0, 0.5, 0.0, 0.5]

CLAIMS = (
    Claim(
        id="draft_length.censored",
        source=Source(_KM, "the product-limit estimate, for draft lengths"),
        statement="Σ_{k≥d} Σ_{i≥d} E n / Σ_{k≥d} Σ_{i≥d−1} E n = α_d if k is independent of what would be accepted",
        relation=Relation.EQ,
        lhs=censored_estimate,
        rhs=true_acceptance,
        assumptions=(Assumption(_SEEN, is_examined),),
        attained=Attained(_CUT),
    ),
    Claim(
        id="draft_length.censored_before",
        source=Source(_KM, "the product-limit estimate, were a k that is chosen before the outcome enough"),
        origin=Origin.IMPLIED,
        statement="the same quotient is α_d for every k that is chosen before the outcome, such as by the request",
        relation=Relation.EQ,
        lhs=pooled_estimate,
        rhs=pooled_truth,
        assumptions=(Assumption("some round of a context examines depth d", pooled_is_examined),),
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
        lhs=joint_estimate,
        rhs=joint_truth,
        assumptions=(Assumption("a k with depth d occurs", joint_is_examined),),
        refuted={"joint_law": [[0.0, 0.0, 0.0], [0.0, 0.5, 0.0], [0.0, 0.0, 0.5]], "depth": 2},
    ),
    Claim(
        id="draft_length.position_floor",
        source=Source(_KM, "accepted drafts by position and the mean draft length"),
        statement="P(i ≥ d)/P(i ≥ d−1) over the largest P(k ≥ d | k ≥ d−1) that the rates and E k allow ≤ α_d",
        lhs=position_low,
        rhs=true_acceptance,
        assumptions=(Assumption(_SEEN, is_examined),),
        attained=Attained({"length_law": _ONE_OR_THREE, "acceptances": [0.5, 1.0, 0.25], "depth": 3}),
        ceiling=1.0,
    ),
    Claim(
        id="draft_length.mean_floor",
        source=Source("leviathan2023fast", "(1), for a profile of which only the mean accepted drafts m are known"),
        statement="1 + m min(1, K/k) ≤ E(K), m the mean of the accepted drafts in rounds of k",
        lhs=mean_low,
        rhs=tokens_at_other,
        attained=Attained({"acceptances": [0.25, 1.0, 1.0], "draft_length": 3, "other_length": 1}),
    ),
    Claim(
        id="draft_length.split",
        source=Source("leviathan2023fast", "rounds of another length over the same text"),
        statement="rounds of K′ drafts ≤ Σ ⌈(i + 1)/(K′ + 1)⌉ over the rounds of K drafts, i of them accepted",
        lhs=rounds_of_text,
        rhs=split_rounds,
        assumptions=(Assumption("one token later at most one draft fewer is accepted", goes_on),),
        attained=Attained({"accepted": [3, 2, 1, 0, 0], "draft_length": 4, "other_length": 1}),
    ),
    Claim(
        id="draft_length.adaptive_depths",
        source=Source("robbins1970statistical", "the mixture of likelihood ratios, at each depth"),
        statement="P(∃t, d: P(Binomial(r_d, α_d) = a_d) ≤ δ_d/(r_d + 1)) ≤ Σ_d δ_d for any k_t chosen by past rounds",
        lhs=engine_miss,
        rhs=summed_errors,
        attained=Attained({"acceptances": [0.4561], "errors": [2 * 0.4561 * (1.0 + 1e-9)]}, ratio=0.8826616276651047),
        ceiling=1.0,
    ),
)
