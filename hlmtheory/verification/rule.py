"""Acceptance, rejection and resampling: probabilities of a draft, and the distribution of the emitted token."""

from hlmtheory._array import Array, arrays, floating, in_kind
from hlmtheory._array import softmax as _softmax
from hlmtheory._domains import check_logits
from hlmtheory._simplex import distance, distributions, excess, normalised, rejection_by_token, skip_probabilities


def softmax(logits: Array) -> Array:
    """Return distributions from logits; the other functions take such distributions.

    Parameters
    ----------
    logits : array, shape (..., V)
        Finite, or -inf for a masked entry: a token of probability 0. Half types are computed and returned in float32.

    Returns
    -------
    array, shape (..., V)
        Probability rows.

    Raises
    ------
    ValueError
        If a logit is NaN or +inf, or a row is all -inf.

    Examples
    --------
    >>> softmax([0.0, 0.0]).tolist()
    [0.5, 0.5]
    """
    xp, z = arrays(logits=logits)
    (z,) = floating(xp, check_logits(xp, z))
    return _softmax(xp, z)


def total_variation(p: Array, q: Array) -> Array:
    """Return the total variation distance ½ Σ_v |p_v - q_v|.

    Parameters
    ----------
    p, q : array, shape (..., V)
        Probability rows.

    Returns
    -------
    array, shape (...)
        In [0, 1].

    Raises
    ------
    ValueError
        If a row is not a distribution or the vocabularies differ.

    Examples
    --------
    >>> float(total_variation([0.5, 0.5, 0.0], [0.25, 0.25, 0.5]))
    0.5
    """
    xp, kind, p, q = distributions(p=p, q=q)
    return in_kind(xp, distance(xp, p, q), kind)


def rejection_probability(target: Array, draft: Array) -> Array:
    """Return the probability β_v = (1 - p_v/q_v)⁺ that the draft v is rejected; 0 where q_v = 0.

    Parameters
    ----------
    target, draft : array, shape (..., V)
        Probability rows.

    Returns
    -------
    array, shape (..., V)
        In [0, 1]; cu-hlm, below (3).

    Raises
    ------
    ValueError
        If a row is not a distribution or the vocabularies differ.

    Examples
    --------
    >>> rejection_probability([0.25, 0.75], [0.5, 0.5]).tolist()
    [0.5, 0.0]
    """
    xp, kind, p, q = distributions(target=target, draft=draft)
    return in_kind(xp, rejection_by_token(xp, p, q), kind)


def acceptance_rate(target: Array, draft: Array) -> Array:
    """Return the probability α = Σ_v min(p_v, q_v) that a draft is accepted.

    Parameters
    ----------
    target, draft : array, shape (..., V)
        Probability rows.

    Returns
    -------
    array, shape (...)
        In [0, 1]; equals 1 - TV(q, p).

    Raises
    ------
    ValueError
        If a row is not a distribution or the vocabularies differ.

    Examples
    --------
    >>> float(acceptance_rate([0.25, 0.75], [0.5, 0.5]))
    0.75
    """
    xp, kind, p, q = distributions(target=target, draft=draft)
    rate = xp.sum(xp.minimum(p, q), axis=-1)
    return in_kind(xp, xp.clip(rate, max=1.0), kind)  # exactly 1 for equal distributions


def residual_distribution(target: Array, draft: Array) -> Array:
    """Return the distribution r = (p - q)⁺ / Σ (p - q)⁺ from which a rejected draft is replaced.

    Parameters
    ----------
    target, draft : array, shape (..., V)
        Probability rows.

    Returns
    -------
    array, shape (..., V)
        cu-hlm (2). All zeros where target = draft: nothing is rejected, so there is no residual.

    Raises
    ------
    ValueError
        If a row is not a distribution or the vocabularies differ.

    Examples
    --------
    >>> residual_distribution([0.25, 0.25, 0.5], [0.5, 0.25, 0.25]).tolist()
    [0.0, 0.0, 1.0]
    """
    xp, kind, p, q = distributions(target=target, draft=draft)
    return in_kind(xp, normalised(xp, excess(xp, p, q))[0], kind)


def output_distribution(target: Array, draft: Array, *, skip: Array | None = None) -> Array:
    """Return the exact law of the emitted token.

    With probability s_v the draft v skips verification; otherwise it is verified, and if rejected replaced
    by a token from the residual: law_v = q_v s_v + q_v (1 - s_v)(1 - β_v) + r_v Σ_i q_i (1 - s_i) β_i.

    Parameters
    ----------
    target, draft : array, shape (..., V)
        Probability rows.
    skip : array, shape (..., V) or broadcastable, optional
        Probability s_v in [0, 1] of skipping verification when the draft is v, or booleans; 0 if None.

    Returns
    -------
    array, shape (..., V)
        Sums to 1. Equals ``target`` without skips: cu-hlm (3).

    Raises
    ------
    ValueError
        If a row is not a distribution, a skip probability is outside [0, 1], or the vocabularies differ.

    Examples
    --------
    >>> output_distribution([0.25, 0.75], [0.5, 0.5]).tolist()
    [0.25, 0.75]
    >>> output_distribution([0.25, 0.75], [0.5, 0.5], skip=[1.0, 1.0]).tolist()
    [0.5, 0.5]
    """
    xp, kind, p, q = distributions(target=target, draft=draft)
    verified = q if skip is None else q * (1.0 - skip_probabilities(xp, skip, q))
    beta = rejection_by_token(xp, p, q)
    rejected = xp.sum(verified * beta, axis=-1, keepdims=True)
    r = normalised(xp, excess(xp, p, q))[0]
    return in_kind(xp, (q - verified) + verified * (1.0 - beta) + rejected * r, kind)


def greedy_output_distribution(target: Array, draft: Array) -> Array:
    """Return the law of flexspec's Algorithm 2 at temperature 1: q_a 1{v = a} + (1 - q_a) p_v, a = argmax p."""
    xp, kind, p, q = distributions(target=target, draft=draft)
    top = xp.arange(p.shape[-1], device=p.device) == xp.argmax(p, axis=-1, keepdims=True)
    accepted = xp.sum(xp.where(top, q, 0.0), axis=-1, keepdims=True)
    return in_kind(xp, accepted * xp.astype(top, q.dtype) + (1.0 - accepted) * p, kind)
