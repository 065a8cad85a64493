"""The cost of skipping verification: exact for one token, a bound for whole responses, and the gap to the papers' R."""

from typing import Any, NamedTuple

from hlmtheory._array import Array, arrays, in_kind, widest
from hlmtheory._domains import UNIT_INTERVAL, entry_for_each, leading_dimensions
from hlmtheory._simplex import distributions, excess, skip_probabilities
from hlmtheory.skipping.holder import edge, line


class SurrogateGap(NamedTuple):
    """Means over tokens with ``exact`` = ``surrogate`` + ``below`` + ``misfit``.

    ``exact``: β of the skipped tokens. ``surrogate``: a u + b of those in I. ``below``: β of those below -b/a, which R
    omits. ``misfit``: β - (a u + b) of those in I.
    """

    exact: Array
    surrogate: Array
    below: Array
    misfit: Array


def one_step_risk(target: Array, draft: Array, skip: Array) -> Array:
    """Return the exact total variation between the emitted token's law and the target distribution: Σ_v q_v s_v β_v.

    It is at most TV(q, p), its value at s = 1. Proof: claim ``skipping.risk_is_tv``.

    Parameters
    ----------
    target, draft : array, shape (..., V)
        Distributions p and q.
    skip : array, shape (..., V) or broadcastable to it
        s_v in [0, 1]: from :func:`hlmtheory.uncertainty.binomial.skip_probability` of
        :func:`hlmtheory.uncertainty.perturbation.vocabulary_uncertainty`, or a boolean from any
        rule that knows the draft.

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
    """Return the exact risk at the risk-prone threshold (Δ - b)/a, the papers' R, and the two parts of their gap.

    ``uncertainty`` and ``rejection_by_token`` (..., n) are u and β of n tokens.
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
    parts = (mean(skipped, beta), mean(inside, predicted), mean(left_out, beta), mean(inside, beta - predicted))
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
    return (xp, *(in_kind(xp, value, xp.float64) for value in (u, beta)), *(value[..., None] for value in coefficients))
