"""The cost of skipping verification: exact for one token, a bound for whole responses, and the gap to the papers' R."""

from __future__ import annotations

from typing import Any, NamedTuple

from hlmtheory._array import Array, arrays, in_kind, upward, widest
from hlmtheory._domains import UNIT_INTERVAL, DomainError, entry_for_each, leading_dimensions
from hlmtheory._simplex import distributions, excess, skip_probabilities
from hlmtheory.skipping.holder import edge, line


class SurrogateGap(NamedTuple):
    """The exact rejection risk of a threshold, the papers' R, and their difference in two parts, from the same tokens.

    ``exact`` = ``surrogate`` + ``below`` + ``misfit``. All four are means over all tokens:

    - ``exact``: β of the skipped tokens.
    - ``surrogate``: a u + b of the tokens in I.
    - ``below``: β of the tokens below -b/a, which are skipped but omitted from R.
    - ``misfit``: β - (a u + b) of the tokens in I.

    A u at an end of I counts as inside despite rounding, as in :func:`rejection_risk_discrete`.
    """

    exact: Array
    surrogate: Array
    below: Array
    misfit: Array


def one_step_risk(target: Array, draft: Array, skip: Array) -> Array:
    """Return the exact total variation between the emitted token's law and the target distribution: Σ_v q_v s_v β_v.

    If all drafts were verified, the law would be p (cu-hlm (3)). So law_v - p_v = q_v s_v β_v - r_v Σ_i q_i s_i β_i.
    Where β_v > 0, p_v < q_v and therefore r_v = 0. So at most one of the two terms is nonzero at each v. Each term sums
    to Σ q s β, and so half the sum of absolute values is Σ q s β. It is at most TV(q, p), its value at s = 1.

    Parameters
    ----------
    target, draft : array, shape (..., V)
        Distributions p and q.
    skip : array, shape (..., V) or broadcastable to it
        s_v in [0, 1]: from :func:`hlmtheory.uncertainty.skip_probability` of
        :func:`hlmtheory.uncertainty.vocabulary_uncertainty`, or a boolean from any rule that knows the draft.

    Returns
    -------
    array, shape (...)
        In [0, 1]: E[s_d β_d].

    Raises
    ------
    ValueError
        If a row is not a distribution, a skip probability is outside [0, 1], or the shapes do not match.

    Examples
    --------
    >>> float(one_step_risk([0.25, 0.75], [0.5, 0.5], [1.0, 0.0]))
    0.25
    """
    xp, kind, p, q, s = pair_and_skip(target, draft, skip)
    return in_kind(xp, xp.clip(xp.sum(s * excess(xp, q, p), axis=-1), max=1.0), kind)  # q β = (q - p)⁺


def sequence_risk(step_risks: Array) -> Array:
    """Return a bound on the total variation of whole responses: the mean over prompts of Σ_t TV_t, clipped to 1.

    The sum of a prompt is not clipped before the mean, because E[min(1, Σ)] is not a bound.

    Parameters
    ----------
    step_risks : array, shape (..., N, T)
        One-step total variations along N sequences, in [0, 1]; 0 beyond the end of a shorter sequence. The sequences
        come from the target model or from the hybrid system. Sequences of the draft model are not valid, because they
        may miss the prefixes at which the system errs. If the policy has a state that lasts from token to token (a
        running average, a budget), only sequences of the hybrid system are valid.

    Returns
    -------
    array, shape (...)
        An estimate from the N sequences, in [0, 1]. Its expectation before the clip is the bound.

    Raises
    ------
    ValueError
        If a risk is outside [0, 1], or there are no sequences.

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
            f"step_risks must have axes of sequences and tokens; got shape {tuple(risks.shape)}; "
            "one sequence is one row"
        )
    return upward(xp, xp.clip(xp.mean(xp.sum(risks, axis=-1), axis=-1), max=1.0), kind)


def non_acceptance(target: Array, draft: Array) -> Array:
    """Return Δ = P(p_d < q_d) for a draft d drawn from q: the probability that it *can* be rejected.

    It is not 1 - α, the probability that it *is* rejected, which is at most Δ (claim ``skipping.mean_rejection``).

    Parameters
    ----------
    target, draft : array, shape (..., V)
        p and q. For Δ over many positions, take the mean.

    Returns
    -------
    array, shape (...)
        In [0, 1]; cu-hlm (11). For drawn drafts ``fit_linear(...).non_acceptance`` is the share of them with β > 0.

    Raises
    ------
    ValueError
        If a row is not a distribution, or the shapes do not match.

    Examples
    --------
    >>> p, q = [0.625, 0.375], [0.5, 0.5]
    >>> float(non_acceptance(p, q)), float(one_step_risk(p, q, 1.0))  # Δ, and 1 - α
    (0.5, 0.125)
    """
    xp, kind, p, q = distributions(target=target, draft=draft)
    return in_kind(xp, xp.sum(xp.where(p < q, q, 0.0), axis=-1), kind)


def surrogate_gap(
    uncertainty: Array, rejection_by_token: Array, slope: Array, intercept: Array, *, non_acceptance: Array
) -> SurrogateGap:
    """Return the exact risk at the risk-prone threshold, the papers' R, and the two parts of their gap.

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
    >>> gap = surrogate_gap([0.0, 0.5, 1.0], [0.25, 0.25, 1.0], 1.0, -0.25, non_acceptance=0.5)
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

    tokens = {"uncertainty": uncertainty, "rejection_by_token": rejection_by_token}
    kind = widest(xp, *arrays(**tokens, a=slope, b=intercept, delta=non_acceptance)[1:3])
    parts = (
        mean(skipped, beta),
        mean(inside, predicted),
        mean(left_out, beta),
        mean(inside, beta - predicted),
    )
    return SurrogateGap(*(in_kind(xp, part, kind) for part in parts))


def pair_and_skip(target: Array, draft: Array, skip: Array) -> tuple[Any, Any, Array, Array, Array]:
    """Return the namespace, the result dtype, and p, q and s in float64."""
    xp, kind, p, q = distributions(target=target, draft=draft)
    return xp, kind, p, q, skip_probabilities(xp, skip, q)


def tokens_and_line(
    uncertainty: Array, rejection_by_token: Array, slope: Array, intercept: Array, non_acceptance: Array
) -> tuple[Any, ...]:
    """Return the namespace, u and β (..., n), and a, b, Δ with one more axis, all in float64."""
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
