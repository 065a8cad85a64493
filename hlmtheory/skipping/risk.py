"""The cost of skipping a draft: exact for one token, a bound for whole texts, and the gap to the papers' R."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from hlmtheory._array import Array, arrays, in_kind, upward, widest
from hlmtheory._domains import UNIT_INTERVAL, DomainError, entry_for_each, leading_dimensions, size_up_to
from hlmtheory._simplex import distributions, excess, normalised, skip_probabilities
from hlmtheory.skipping.holder import edge, line
from hlmtheory.truncation import truncate
from hlmtheory.truncation.reconstruction import NOISE


class SurrogateGap(NamedTuple):
    """The exact rejection risk of a threshold and the papers' R, from the same tokens.

    ``exact`` = ``surrogate`` + ``below`` + ``misfit``: mean β of what is skipped; mean a u + b over I; mean β of what
    is skipped below -b/a and left out of R; mean β - (a u + b) over I. A u at an end of I is inside, whatever the
    rounding, as in :func:`rejection_risk_discrete`.
    """

    exact: Array
    surrogate: Array
    below: Array
    misfit: Array


def one_step_risk(target: Array, draft: Array, skip: Array) -> Array:
    """Total variation between the emitted token and the target model's: Σ_v q_v s_v β_v, exactly.

    Every draft that is verified comes out of p (cu-hlm (3)), so law_v - p_v = q_v s_v β_v - r_v Σ_i q_i s_i β_i. Where
    β_v > 0, p_v < q_v and r_v = 0: the two terms never meet in one v, each sums to Σ q s β, and half the sum of
    absolute values is that. Without skipping everything it is at most TV(q, p), with s = 1 it is TV(q, p).

    Parameters
    ----------
    target, draft : array, shape (..., V)
        Probability rows.
    skip : array, shape (..., V) or broadcastable to it
        s_v in [0, 1]: from :func:`hlmtheory.uncertainty.skip_probability` of
        :func:`hlmtheory.uncertainty.vocabulary_uncertainty`, or true and false by any rule that knows the draft.

    Returns
    -------
    array, shape (...)
        In [0, 1]: E[s_d β_d].

    Raises
    ------
    ValueError
        If a row is no distribution, a skip probability is outside [0, 1], or the shapes do not match.

    Examples
    --------
    >>> float(one_step_risk([0.25, 0.75], [0.5, 0.5], [1.0, 0.0]))
    0.25
    """
    xp, kind, p, q, s = pair_and_skip(target, draft, skip)
    return in_kind(xp, xp.clip(xp.sum(s * excess(xp, q, p), axis=-1), max=1.0), kind)  # q β = (q - p)⁺


def truncated_step_risk(target: Array, draft: Array, skip: Array, top_k: Array) -> Array:
    """Bound on the one-step total variation if verified drafts are sent with k(v) probabilities.

    Σ_v q_v s_v β_v + Σ_v q_v (1 - s_v) β_v TV(r, r̂_{k(v)}): a verified draft is accepted by its exact q_v, and only
    the replacement of a rejected one is drawn from r̂ instead of r.

    Parameters
    ----------
    target, draft, skip
        As of :func:`one_step_risk`.
    top_k : integer array, shape (..., V) or broadcastable to it
        k(v), how many entries of the draft row go with draft v, 0..V.

    Returns
    -------
    array, shape (...)
        In [0, TV(q, p)]. Where r̂ is 0/0, TV(q̂, p) ≤ 2^-44, so that anything may be drawn, its distance is taken
        as 1.

    Raises
    ------
    ValueError
        As :func:`one_step_risk`, or if k is no integer in 0..V.

    Examples
    --------
    >>> float(truncated_step_risk([0.5, 0.25, 0.25], [0.625, 0.25, 0.125], [0.0, 0.0, 0.0], [1, 1, 1]))
    0.0625
    """
    xp, kind, p, q, s = pair_and_skip(target, draft, skip)
    lost = excess(xp, q, p)
    risk, sent = xp.sum(s * lost, axis=-1), (1.0 - s) * lost
    true = normalised(xp, excess(xp, p, q))[0]
    for share, distorted in replacements(xp, p, q, sent, top_k):
        risk = risk + share * xp.clip(0.5 * xp.sum(xp.abs(true - distorted), axis=-1), max=1.0)
    return upward(xp, xp.clip(risk, max=1.0), kind)


def replacements(xp: Any, p: Array, q: Array, sent: Array, top_k: Array) -> Iterator[tuple[Array, Array]]:
    """For each size: the mass (...) that is sent with it and rejected, and r̂ (..., V).

    Where r̂ is 0/0 a distribution that is as far from r as can be: all of it on a token that the target model gives less
    than the draft model does, and r nothing.
    """
    top_k = _entries_sent(xp, top_k, sent)
    tokens = xp.arange(q.shape[-1], device=q.device)
    farthest = xp.astype(tokens == xp.argmax(q - p, axis=-1, keepdims=True), xp.float64)
    for k in xp.unique_values(top_k):
        distorted, mass = normalised(xp, excess(xp, p, truncate(q, k)))
        share = xp.sum(xp.where(top_k == k, sent, 0.0), axis=-1)
        yield share, xp.where(mass[..., None] > NOISE, distorted, farthest)


def sequence_risk(step_risks: Array) -> Array:
    """Bound on the total variation of whole responses: the mean over prompts of Σ_t TV_t, at most 1.

    The sum of a prompt is not clipped before the mean: E[min(1, Σ)] is no bound.

    Parameters
    ----------
    step_risks : array, shape (..., N, T)
        One-step total variations along N texts, each at least 0; 0 beyond the end of a shorter text. The texts are
        the target model's, or the hybrid system's, never the draft model's, which may not visit the prefixes that go
        wrong. If the policy carries a state from token to token (a running average, a budget), system texts only.

    Returns
    -------
    array, shape (...)
        An estimate from the N texts, in [0, 1]; its expectation before the clip is the bound.

    Raises
    ------
    ValueError
        If a risk is outside [0, 1], or there are no texts.

    Examples
    --------
    >>> float(sequence_risk([[0.25, 0.0], [0.25, 0.5]]))
    0.5
    """
    xp, risks = arrays(step_risks=step_risks)
    kind = widest(xp, UNIT_INTERVAL.check(xp, "step_risks", risks))
    risks = in_kind(xp, risks, xp.float64)
    if risks.ndim < 2 or not risks.shape[-2]:
        raise DomainError(
            f"step_risks must have axes of texts and tokens; got shape {tuple(risks.shape)}; one text is one row"
        )
    return upward(xp, xp.clip(xp.mean(xp.sum(risks, axis=-1), axis=-1), max=1.0), kind)


def surrogate_gap(
    uncertainty: Array, rejection_by_token: Array, slope: Array, intercept: Array, non_acceptance: Array
) -> SurrogateGap:
    """The gap between the papers' R and the exact risk, token by token, at the risk-prone threshold.

    Parameters
    ----------
    uncertainty, rejection_by_token : array, shape (..., n)
        u and β of n tokens, in [0, 1].
    slope, intercept, non_acceptance : array, shape (...)
        a > 0, b and Δ; the threshold is (Δ - b)/a.

    Returns
    -------
    SurrogateGap
        Four arrays (...): ``exact`` = ``surrogate`` + ``below`` + ``misfit``.

    Raises
    ------
    ValueError
        If a value is outside its domain, or the shapes do not match.

    Examples
    --------
    >>> gap = surrogate_gap([0.0, 0.5, 1.0], [0.25, 0.25, 1.0], 1.0, -0.25, 0.5)
    >>> [round(float(part), 4) for part in gap]
    [0.1667, 0.0833, 0.0833, 0.0]
    """
    xp, u, beta, a, b, delta = tokens_and_line(uncertainty, rejection_by_token, slope, intercept, non_acceptance)
    near = edge(*arrays(u=uncertainty, a=slope, b=intercept, delta=non_acceptance))
    predicted = a * u + b
    skipped, left_out = predicted <= delta + near, predicted < -near
    inside = skipped & ~left_out
    predicted = xp.clip(predicted, min=0.0)

    def mean(where: Array, value: Array) -> Array:
        return xp.mean(xp.where(where, value, 0.0), axis=-1)

    kind = widest(xp, *arrays(uncertainty=uncertainty, rejection_by_token=rejection_by_token)[1:])
    parts = (
        mean(skipped, beta),
        mean(inside, predicted),
        mean(left_out, beta),
        mean(inside, beta - predicted),
    )
    return SurrogateGap(*(in_kind(xp, part, kind) for part in parts))


def pair_and_skip(target: Array, draft: Array, skip: Array) -> tuple[Any, Any, Array, Array, Array]:
    """The namespace, the type to answer in, p and q and s in float64."""
    xp, kind, p, q = distributions(target=target, draft=draft)
    return xp, kind, p, q, skip_probabilities(xp, skip, q)


def _entries_sent(xp: Any, top_k: Array, like: Array) -> Array:
    """Check k(v), one per draft or one for all, and return it."""
    _, _, k = arrays(like=like, top_k=top_k)
    k = size_up_to(like.shape[-1]).check(xp, "top_k", k)
    leading_dimensions(draft=tuple(like.shape), top_k=tuple(k.shape))
    return k


def tokens_and_line(
    uncertainty: Array, rejection_by_token: Array, slope: Array, intercept: Array, non_acceptance: Array
) -> tuple[Any, ...]:
    """Uncertainty and β (..., n) and a, b, Δ with an axis to match, in float64."""
    values = {"slope": slope, "intercept": intercept, "non_acceptance": non_acceptance}
    xp, u, beta, a, b, delta = arrays(*values, uncertainty=uncertainty, rejection_by_token=rejection_by_token, **values)
    for name, value in (("uncertainty", u), ("rejection_by_token", beta)):
        UNIT_INTERVAL.check(xp, name, value)
    shapes = {"uncertainty": tuple(u.shape), "rejection_by_token": tuple(beta.shape)}
    entry_for_each("token", **shapes)
    leading_dimensions(**shapes)
    _, *coefficients = line(a, b, delta)
    return (
        xp,
        *(in_kind(xp, value, xp.float64) for value in (u, beta)),
        *(value[..., None] for value in coefficients),
    )
