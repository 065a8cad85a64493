"""The distribution that the server reconstructs from k of V probabilities, and the distortion of its residual.

The functions of :mod:`hlmtheory.truncation` for one given k, with that module's notation.
"""

from typing import Any

from hlmtheory._array import Array, arrays, count_above, in_kind, sort_descending, tail_sums, take, upward
from hlmtheory._domains import leading_dimensions, size_up_to
from hlmtheory._remember import remembered
from hlmtheory._simplex import distance, distributions, excess, largest, normalised, quotient, rejection_by_token

NOISE = 2.0**-44
"""A TV(q̂, p) up to this counts as rounding, so r̂ is 0/0; the whole library uses this rule.

TV(r, r̂) is then taken as min(1, Δ_k / max(TV(q, p), TV(q̂, p))), which no r̂ exceeds (``truncation.tvd_sharp``), and as
1 where TV(q̂, p) = 0.
"""


def truncate(draft: Array, top_k: Array) -> Array:
    """The distribution q̂ that the server reconstructs: the k largest entries of q; the other mass is spread evenly.

    Parameters
    ----------
    draft : array, shape (..., V)
        Distributions over the vocabulary.
    top_k : integer array, shape (...) or broadcastable to it
        k, how many entries are sent, 0..V.

    Returns
    -------
    array, shape (..., V)
        cu-hlm (15). Of equal entries, those with the lowest index are kept.

    Raises
    ------
    ValueError
        If a row is not a distribution, or k is not an integer in 0..V.

    Examples
    --------
    >>> truncate([0.5, 0.125, 0.375, 0.0], 1).tolist()
    [0.5, 0.16666666666666666, 0.16666666666666666, 0.16666666666666666]
    """
    xp, kind, q, k = draft_and_size(draft, top_k)
    return in_kind(xp, truncated(xp, q, k), kind)


def tail_deviation(draft: Array) -> Array:
    """Δ_k = TV(q, q̂) for every k = 0..V.

    Beyond k the reconstruction is the mean μ of the tail, so Δ_k = Σ_{i>k} (q_i - μ)⁺. The entries above μ lead the
    tail; one binary search for each k counts them.

    Parameters
    ----------
    draft : array, shape (..., V)
        Distributions over the vocabulary.

    Returns
    -------
    array, shape (..., V + 1)
        Never increasing in k, up to rounding of about V/64 units in float64; rounded up to a narrower type. 0 where
        the entries of the tail are equal, so Δ_{V-1} = Δ_V = 0. For the smallest k that keeps the Bias within ε use
        :func:`certified_size`, which includes the rounding of float64.

    Raises
    ------
    ValueError
        If a row is not a distribution.

    Examples
    --------
    >>> tail_deviation([0.5, 0.5, 0.0, 0.0]).round(3).tolist()
    [0.5, 0.333, 0.0, 0.0, 0.0]
    """
    xp, kind, q = distributions(draft=draft)
    size = q.shape[-1]
    ordered = sort_descending(xp, xp.reshape(q, (-1, size)))
    tails = tail_sums(xp, ordered)
    deviation = tail_excess(xp, ordered, tails, tails)
    return upward(xp, xp.reshape(deviation, (*q.shape[:-1], size + 1)), kind)


def resampling_distortion(target: Array, draft: Array, top_k: Array) -> Array:
    """True distortion TV(r, r̂) (...) of the residual when k entries of the draft distribution are sent; cu-hlm (18).

    0 where nothing is rejected. Where r̂ is 0/0, that is TV(q̂, p) ≤ 2^-44, the largest possible value
    Δ_k / max(TV(q, p), TV(q̂, p)): 1 up to rounding.

    >>> float(resampling_distortion([0.5, 0.25, 0.25], [0.625, 0.25, 0.125], 1))
    0.5
    """
    xp, kind, p, q, k = pair_and_size(target, draft, top_k)
    rebuilt = truncated(xp, q, k)
    true, mass = normalised(xp, excess(xp, p, q))
    distorted, distorted_mass = normalised(xp, excess(xp, p, rebuilt))
    gap = xp.clip(0.5 * xp.sum(xp.abs(true - distorted), axis=-1), max=1.0)
    gap = xp.where(distorted_mass > NOISE, gap, most_distortion(xp, p, q, rebuilt))
    return in_kind(xp, xp.where(mass > 0, gap, 0.0), kind)


def resampling_bias(target: Array, draft: Array, top_k: Array) -> Array:
    """Bias of cu-hlm (17): Σ_v |law_v - p_v| of the emitted token when k entries are sent.

    Parameters
    ----------
    target, draft : array, shape (..., V)
        Distributions over the vocabulary.
    top_k : integer array, shape (...) or broadcastable to it
        k, how many entries are sent, 0..V.

    Returns
    -------
    array, shape (...)
        In [0, 2]: twice the total variation between the emitted token's distribution and p. Where r̂ is 0/0, that is
        TV(q̂, p) ≤ 2^-44, the largest Bias over all r̂: 2 TV(q, p) up to rounding.

    Raises
    ------
    ValueError
        If a row is not a distribution, k is not an integer in 0..V, or the vocabularies differ.

    Examples
    --------
    >>> float(resampling_bias([0.5, 0.25, 0.25], [0.625, 0.25, 0.125], 1))
    0.125
    """
    xp, kind, p, q, k = pair_and_size(target, draft, top_k)
    return in_kind(xp, bias_of(xp, p, q, truncated(xp, q, k)), kind)


def tvd_bound(target: Array, draft: Array, top_k: Array) -> Array:
    """Published bound 2 Δ_k / TV(q, p) on the distortion.

    Parameters
    ----------
    target, draft : array, shape (..., V)
        Distributions over the vocabulary.
    top_k : integer array, shape (...) or broadcastable to it
        k, how many entries are sent, 0..V.

    Returns
    -------
    array, shape (...)
        cu-hlm (20). Infinite where TV(q, p) = 0 < Δ_k, 0 where both are 0; vacuous from 1 on.

    Raises
    ------
    ValueError
        If a row is not a distribution, k is not an integer in 0..V, or the vocabularies differ.

    Examples
    --------
    >>> float(tvd_bound([0.5, 0.25, 0.25], [0.625, 0.25, 0.125], 1))
    1.0
    """
    xp, kind, p, q, k = pair_and_size(target, draft, top_k)
    deviation = distance(xp, q, truncated(xp, q, k))
    return upward(xp, quotient(xp, 2.0 * deviation, distance(xp, p, q)), kind)


def tvd_bound_sharp(target: Array, draft: Array, top_k: Array) -> Array:
    """Sharp bound Δ_k / max(TV(q, p), TV(q̂, p)) on the distortion: half the published one, attained."""
    xp, kind, p, q, k = pair_and_size(target, draft, top_k)
    rebuilt = truncated(xp, q, k)
    farther = xp.maximum(distance(xp, p, q), distance(xp, p, rebuilt))
    return upward(xp, quotient(xp, distance(xp, q, rebuilt), farther), kind)


def draft_and_size(draft: Array, k: Array) -> tuple[Array, Array, Array, Array]:
    """The namespace, the type of the answer, q in float64, and k in 0..V."""
    xp, draft, k = arrays(draft=draft, top_k=k)
    _, kind, q = distributions(draft=draft)
    k = size_up_to(q.shape[-1]).check(xp, "top_k", k)
    leading_dimensions(draft=tuple(q.shape[:-1]), top_k=tuple(k.shape))
    return xp, kind, q, k


def pair_and_size(target: Array, draft: Array, k: Array) -> tuple[Array, Array, Array, Array, Array]:
    """As :func:`draft_and_size`, with p before q."""
    xp, target, draft, k = arrays(target=target, draft=draft, top_k=k)
    _, kind, p, q = distributions(target=target, draft=draft)
    k = size_up_to(q.shape[-1]).check(xp, "top_k", k)
    leading_dimensions(target=tuple(p.shape[:-1]), draft=tuple(q.shape[:-1]), top_k=tuple(k.shape))
    return xp, kind, p, q, k


def kept(xp: Array, q: Array, k: Array) -> tuple[Array, Array]:
    """Which entries are sent, and k (..., 1), both of the broadcast shape."""
    k = xp.broadcast_to(k, leading_dimensions(draft=tuple(q.shape[:-1]), top_k=tuple(k.shape)))[..., None]
    return largest(xp, q, k), k


@remembered
def truncated(xp: Array, q: Array, k: Array) -> Array:
    """q̂."""
    size = q.shape[-1]
    sent, k = kept(xp, q, k)
    rest = xp.sum(xp.where(sent, 0.0, q), axis=-1, keepdims=True)
    return xp.where(sent, q, rest / xp.astype(xp.where(k < size, size - k, 1), q.dtype))


@remembered
def bias_of(xp: Array, p: Array, q: Array, reconstructed: Array) -> Array:
    """Bias (17) if rejected drafts are replaced from (p - q̂)⁺; where that is 0, the largest Bias, about 2 TV(q, p)."""
    distorted, distorted_mass = normalised(xp, excess(xp, p, reconstructed))
    beta = rejection_by_token(xp, p, q)
    law = q * (1.0 - beta) + xp.sum(q * beta, axis=-1, keepdims=True) * distorted  # (17)
    worst = 2.0 * distance(xp, p, q) * most_distortion(xp, p, q, reconstructed)
    return xp.where(distorted_mass > NOISE, xp.sum(xp.abs(law - p), axis=-1), worst)


def most_distortion(xp: Array, p: Array, q: Array, rebuilt: Array) -> Array:
    """The largest possible TV(r, r̂) if r̂ is 0/0 and may be any distribution."""
    beyond = distance(xp, p, rebuilt)
    most = quotient(xp, distance(xp, q, rebuilt), xp.maximum(distance(xp, p, q), beyond))
    return xp.where(beyond > 0, xp.clip(most, max=1.0), 1.0)


def tail_excess(xp: Array, ordered: Array, tails: Array, rest: Array) -> Array:
    """Σ_{i>k} (q_i - μ)⁺ for k = 0..V, with μ = rest/(V - k), from rows in descending order and their tail sums.

    The entries above μ lead the tail; one binary search for each k counts them. If all entries are equal, the
    difference of tails and rest is taken instead, which has no rounding error.
    """
    size = ordered.shape[-1]
    k = xp.arange(size + 1, device=ordered.device)
    mean = rest / xp.astype(xp.where(k < size, size - k, 1), xp.float64)
    above = count_above(xp, ordered, mean)
    above = xp.where(above > k, above, xp.broadcast_to(k, above.shape))
    deviation = tails - take(xp, tails, above) - xp.astype(above - k, xp.float64) * mean
    smallest = ordered[..., -1:]
    even = xp.concat([ordered, smallest], axis=-1) == smallest
    deviation = xp.where(even, tails - rest, deviation)
    return xp.where((above > k) & (deviation > 0), deviation, 0.0)


def at_size(xp: Any, values: Array, k: Array) -> Array:
    """The entry at index k of each row, of the broadcast shape."""
    batch = leading_dimensions(draft=tuple(values.shape[:-1]), top_k=tuple(k.shape))
    rows = xp.broadcast_to(values, (*batch, values.shape[-1]))
    return take(xp, rows, xp.broadcast_to(k, batch)[..., None])[..., 0]
