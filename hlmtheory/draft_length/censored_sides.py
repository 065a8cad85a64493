"""Both sides of the claims of ``censored_claims``: expected counts of a round, and the estimates from them.

L counts the drafts that would be accepted if the draft had no end; a round that drafts k shows i = min(k, L).
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb
from typing import Any

import numpy as np

from hlmtheory._array import Array, arrays, in_kind, to_numpy
from hlmtheory._domains import COUNT, UNIT_INTERVAL, Domain, DomainError, entry_for_each, leading_dimensions
from hlmtheory._quantities import open_unit, whole_from_one
from hlmtheory._simplex import distributions
from hlmtheory.draft_length.censored import clopper_pearson, examined_and_accepted
from hlmtheory.draft_length.published import (
    mean_interval,
    position_interval,
    single_rate,
    split_tokens,
    survival_interval,
)
from hlmtheory.verification import expected_tokens, expected_tokens_profile

_ROUNDS = 12
"""Largest number of rounds of an instance; the coverage is summed over all outcomes."""
_FEW = Domain(f"a whole number in 1..{_ROUNDS}", lambda xp, v: (v >= 1) & (v <= _ROUNDS), "give fewer", kind="integer")
_LENGTH = whole_from_one("a round drafts at least one token")
_LEVEL = open_unit("give the share of cases in which the interval must hold")


# -------------------------------------------------------------------------------------------- laws of a round


def _law(length_law: Array, acceptances: Array) -> tuple[Any, Array, Array]:
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
    xp, law, alphas = _law(length_law, acceptances)
    return _estimate(xp, _expected_counts(xp, law, alphas), depth)


def true_acceptance(length_law: Array, acceptances: Array, depth: Array) -> Array:
    """Return α_d."""
    xp, law, alphas = _law(length_law, acceptances)
    return _at(xp, alphas + xp.zeros_like(law[..., 1:]), depth)


def is_examined(length_law: Array, acceptances: Array, depth: Array) -> Array:
    """Return whether depth d is examined with a positive probability."""
    xp, law, alphas = _law(length_law, acceptances)
    return _at(xp, _longer(xp, law) * _chances(xp, alphas)[..., :-1], depth) > 0


def histogram_tail(length_law: Array, acceptances: Array, depth: Array) -> Array:
    """Return H(d) by summing the expected counts of i ≥ d over all k."""
    xp, law, alphas = _law(length_law, acceptances)
    shares = xp.sum(_expected_counts(xp, law, alphas), axis=-2)
    return _at(xp, _longer(xp, shares), depth)


def uncut_tail(length_law: Array, acceptances: Array, depth: Array) -> Array:
    """Return P(L ≥ d) of the law whose acceptances are α_e g_e, for rounds of K drafts."""
    xp, law, alphas = _law(length_law, acceptances)
    return _at(xp, xp.cumulative_prod(alphas * _kept(xp, law), axis=-1), depth)


def _kept(xp: Any, law: Array) -> Array:
    """Return g_d = P(k ≥ d)/P(k ≥ d - 1)."""
    longer = _longer(xp, law)
    before = xp.concat([xp.ones_like(longer[..., :1]), longer[..., :-1]], axis=-1)
    return longer / xp.where(before > 0, before, 1.0)


def histogram_ratio(length_law: Array, acceptances: Array, depth: Array) -> Array:
    """Return P(i ≥ d)/P(i ≥ d - 1), by α_d g_d."""
    xp, law, alphas = _law(length_law, acceptances)
    return _at(xp, alphas * _kept(xp, law), depth)


def _position_ends(length_law: Array, acceptances: Array) -> tuple[Any, Array, Array]:
    xp, law, alphas = _law(length_law, acceptances)
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


def position_high(length_law: Array, acceptances: Array, depth: Array) -> Array:
    """Return the upper end of :func:`position_interval` at depth d."""
    xp, _, high = _position_ends(length_law, acceptances)
    return _at(xp, high, depth)


# --------------------------------------------------------------------------------- sides: dependent lengths


def _mixture(context_law: Array, context_acceptances: Array, context_lengths: Array) -> tuple[Any, Array, Array, Array]:
    xp, _, weights = distributions(context_law=context_law)
    _, _, law = distributions(context_lengths=context_lengths)
    _, alphas = arrays(context_acceptances=context_acceptances)
    UNIT_INTERVAL.check(xp, "context_acceptances", alphas)
    _, law, alphas = _law(law, alphas)
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


def joint_end(end: int) -> Callable[[Array, Array], Array]:
    """Return a function that gives one end of :func:`survival_interval` at depth d."""

    def side(joint_law: Array, depth: Array) -> Array:
        xp, _, seen = _joint(joint_law)
        return _at(xp, survival_interval(seen)[end], depth)

    return side


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


def mean_high(acceptances: Array, draft_length: Array, other_length: Array) -> Array:
    """Return the upper end of :func:`mean_interval`."""
    _, mean, _ = _mean_and_tokens(acceptances, draft_length, other_length)
    return mean_interval(mean, draft_length, other_length)[1]


def tokens_at_other(acceptances: Array, draft_length: Array, other_length: Array) -> Array:
    """Return E(K) by :func:`expected_tokens_profile`, with acceptance 0 beyond depth K."""
    xp, alphas = arrays(acceptances=acceptances)
    _mean_and_tokens(alphas, draft_length, other_length)
    _, other = arrays(other_length=other_length)
    depth = xp.arange(1, alphas.shape[-1] + 1, device=alphas.device)
    return expected_tokens_profile(xp.where(depth <= other[..., None], alphas, xp.zeros_like(alphas)))


def tokens_by_single_rate(acceptances: Array, draft_length: Array, other_length: Array) -> Array:
    """Return E(K) from the single rate fitted at k."""
    _, mean, _ = _mean_and_tokens(acceptances, draft_length, other_length)
    return expected_tokens(single_rate(mean, draft_length), other_length)


def _rates(acceptance: Array, length_law: Array) -> tuple[Any, Array, Array, Array]:
    xp, gamma = arrays(acceptance=acceptance)
    UNIT_INTERVAL.check(xp, "acceptance", gamma)
    _, _, law = distributions(length_law=length_law)
    depth = law.shape[-1] - 1
    xp, law, alphas = _law(law, gamma[..., None] + xp.zeros(depth, dtype=xp.float64, device=law.device))
    counts = _expected_counts(xp, law, alphas)
    k = xp.arange(depth + 1, dtype=xp.float64, device=law.device)
    accepted = xp.sum(counts * k, axis=(-2, -1))
    return xp, accepted, xp.sum(law * k, axis=-1), xp.sum(examined_and_accepted(xp, counts)[0], axis=-1)


def pooled_rate(acceptance: Array, length_law: Array) -> Array:
    """Return accepted over drafted tokens."""
    xp, accepted, drafted, _ = _rates(acceptance, length_law)
    return accepted / xp.where(drafted > 0, drafted, 1.0)


def examined_rate(acceptance: Array, length_law: Array) -> Array:
    """Return accepted over examined tokens."""
    xp, accepted, _, examined = _rates(acceptance, length_law)
    return accepted / xp.where(examined > 0, examined, 1.0)


def true_rate(acceptance: Array, length_law: Array) -> Array:
    """Return γ."""
    _, accepted, _, _ = _rates(acceptance, length_law)
    return arrays(acceptance=acceptance)[1] + 0.0 * accepted


def some_draft(acceptance: Array, length_law: Array) -> Array:
    """Return whether a round drafts with a positive probability."""
    return _rates(acceptance, length_law)[2] > 0


# ------------------------------------------------------------------------------------------- sides: one text


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


def profile_tokens(accepted: Array, draft_length: Array, other_length: Array) -> Array:
    """Return 1 + Σ_{d≤K′} S(d) of the rounds of K drafts: the mean of min(L, K′) + 1 over them."""
    xp, runs, length, other = _text(accepted, draft_length, other_length)
    return _mean_at(xp, runs, _starts(xp, runs, length), other)


def replayed_tokens(accepted: Array, draft_length: Array, other_length: Array) -> Array:
    """Return the mean of min(L, K′) + 1 over the rounds of K′ drafts."""
    xp, runs, _, other = _text(accepted, draft_length, other_length)
    return _mean_at(xp, runs, _starts(xp, runs, other), other)


def _mean_at(xp: Any, runs: Array, begins: Array, other: Array) -> Array:
    tokens = xp.astype(xp.minimum(runs, other[..., None]) + 1, xp.float64)
    return xp.sum(begins * tokens, axis=-1) / xp.sum(begins, axis=-1)


def goes_on(accepted: Array, draft_length: Array, other_length: Array) -> Array:
    """Return whether L at the next token is at least L - 1."""
    xp, runs, _, _ = _text(accepted, draft_length, other_length)
    return xp.all(runs[..., 1:] >= runs[..., :-1] - 1, axis=-1)


def is_shorter(accepted: Array, draft_length: Array, other_length: Array) -> Array:
    """Return whether K′ ≤ K."""
    _, _, length, other = _text(accepted, draft_length, other_length)
    return other <= length


# --------------------------------------------------------------------------------------------- sides: coverage


def _binomials(xp: Any, chance: Array) -> Array:
    """Return P(Binomial(r, chance) = a) for r and a in 0..12, shape (..., 13, 13)."""
    size = _ROUNDS + 1
    ways = [[float(comb(r, a)) for a in range(size)] for r in range(size)]
    r, a = _outcomes(xp, chance)
    chance = chance[..., None, None]
    return xp.asarray(ways, dtype=xp.float64, device=chance.device) * chance**a * (1.0 - chance) ** (r - a)


def _outcomes(xp: Any, like: Array) -> tuple[Array, Array]:
    """Return r and a in 0..12, with a ≤ r, shape (13, 13)."""
    one = xp.arange(_ROUNDS + 1, dtype=xp.float64, device=like.device)
    r = one[:, None] + 0.0 * one[None, :]
    return r, xp.minimum(one[None, :] + 0.0 * r, r)


def band_coverage(length_law: Array, acceptances: Array, rounds: Array, confidence: Array) -> Array:
    """Return the probability that the intervals of all depths hold, summed over outcomes from the deepest depth up."""
    xp, law, alphas = _law(length_law, acceptances)
    _, n, level = arrays(rounds=rounds, confidence=confidence)
    n, level = _FEW.check(xp, "rounds", n), _LEVEL.check(xp, "confidence", level)
    depth = alphas.shape[-1]
    r, a = _outcomes(xp, alphas)
    levels = in_kind(xp, level, xp.float64)[..., None, None] ** (1.0 / depth)
    low, high = clopper_pearson(xp, a + 0.0 * levels, r + 0.0 * levels, to_numpy(levels))
    kept = _kept(xp, law)
    after = xp.ones_like(alphas[..., :1] + 0.0 * r[0, :])
    for d in range(depth - 1, -1, -1):
        alpha = alphas[..., d, None, None]
        holds = xp.astype((low <= alpha) & (alpha <= high), xp.float64)
        good = xp.sum(_binomials(xp, alphas[..., d]) * holds * after[..., None, :], axis=-1)  # by r_d
        after = xp.sum(_binomials(xp, kept[..., d]) * good[..., None, :], axis=-1)  # by a_{d-1}
    return _of_rounds(xp, after, n)


def delta_coverage(acceptance: Array, rounds: Array, confidence: Array) -> Array:
    """Return P(|a/r - α| ≤ z √(a/r (1 - a/r)/r)) for r rounds of one draft."""
    from scipy.special import ndtri

    xp, alpha, n, level = arrays(acceptance=acceptance, rounds=rounds, confidence=confidence)
    UNIT_INTERVAL.check(xp, "acceptance", alpha)
    n, level = _FEW.check(xp, "rounds", n), _LEVEL.check(xp, "confidence", level)
    alpha = in_kind(xp, alpha, xp.float64)
    r, a = _outcomes(xp, alpha)
    share = a / xp.where(r > 0, r, 1.0)
    z = np.asarray(ndtri(0.5 + np.asarray(to_numpy(level), dtype=np.float64) / 2.0))
    error = xp.sqrt(share * (1.0 - share) / xp.where(r > 0, r, 1.0))
    half = xp.asarray(z, dtype=xp.float64, device=alpha.device)[..., None, None] * error
    holds = xp.astype(xp.abs(share - alpha[..., None, None]) <= half, xp.float64)
    return _of_rounds(xp, xp.sum(_binomials(xp, alpha) * holds, axis=-1), n)


def _of_rounds(xp: Any, by_rounds: Array, rounds: Array) -> Array:
    hot = xp.arange(_ROUNDS + 1, device=rounds.device) == rounds[..., None]
    return xp.sum(xp.where(hot, by_rounds, xp.zeros_like(by_rounds)), axis=-1)


def asked(length_law: Array, acceptances: Array, rounds: Array, confidence: Array) -> Array:
    """Return the confidence that is asked for."""
    xp, level = arrays(confidence=confidence)
    return in_kind(xp, _LEVEL.check(xp, "confidence", level), xp.float64)


def asked_of_delta(acceptance: Array, rounds: Array, confidence: Array) -> Array:
    """Return the confidence that is asked for."""
    xp, level = arrays(confidence=confidence)
    return in_kind(xp, _LEVEL.check(xp, "confidence", level), xp.float64)
