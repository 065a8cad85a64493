"""The published online bound with the softplus in place of the ReLU, and the smallest sharpness for which it holds.

Paper: cu-hlm (oh2025cuhlm) Section IV-D, (22)-(24) and Proposition 2. Symbols are those of
:mod:`hlmtheory.truncation`, and

========== ================================================================= =========
symbol     name                                                              shape
========== ================================================================= =========
η          ``sharpness`` of the softplus; the paper does not print its value (...)
ℓ          softplus ln(1 + e^{ηz})/η                                         (...)
d, β_d     ``draft_token`` and its ``rejection`` probability                 (...)
D          (1 - q_d) ℓ(-1) + q_d ℓ(-β_d), the bound's denominator            (...)
Ū          2 Δ_k / D                                                         (...)
η*         least sharpness with D ≤ 2 q_d β_d                                (...)
========== ================================================================= =========
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from hlmtheory._array import Array, arrays, in_kind, spread, take, upward, widest
from hlmtheory._domains import UNIT_INTERVAL, Domain, checked, leading_dimensions, token_of
from hlmtheory._simplex import distance, distributions, quotient
from hlmtheory.truncation.reconstruction import draft_and_size, truncated
from hlmtheory.verification import rejection_probability

SHARPNESS = Domain(
    "finite and at least 1e-6",
    lambda xp, value: (value >= 1e-6) & xp.isfinite(value),
    "the softplus tends to the ReLU as its sharpness grows; give a number such as 5",
)
FINITE = Domain("finite", lambda xp, value: xp.isfinite(value), "give a ratio of probabilities, less 1")
LN2 = math.log(2.0)
HALVINGS = 64
"""Bisection steps on ln η: the bracket is at most a factor of 1e310 wide, and 64 steps leave less than a rounding."""


def softplus_gap(z: Array, sharpness: Array) -> Array:
    """ℓ(z) - z⁺: what the softplus adds to the ReLU.

    Parameters
    ----------
    z : array, shape (...)
        Finite numbers.
    sharpness : array, shape (...)
        η, at least 1e-6.

    Returns
    -------
    array, shape (...)
        ln(1 + e^{-η|z|})/η, in [0, ln 2/η]; cu-hlm, below (22).

    Raises
    ------
    ValueError
        If z is not finite or η is below 1e-6.

    Examples
    --------
    >>> softplus_gap([0.0, -1.0, 1.0], 2.0).round(4).tolist()
    [0.3466, 0.0635, 0.0635]
    """
    xp, kind, z, eta = _exactly({"z": FINITE, "sharpness": SHARPNESS}, z=z, sharpness=sharpness)
    return in_kind(xp, _gap(xp, z, eta), kind)


def softplus_distance(target: Array, draft: Array, sharpness: Array) -> Array:
    """The distance Σ_i q_i ℓ(p_i/q_i - 1), which replaces TV(q, p) in the paper."""
    xp, target, draft, eta = arrays("sharpness", target=target, draft=draft, sharpness=sharpness)
    _, kind, p, q = distributions(target=target, draft=draft)
    eta = in_kind(xp, SHARPNESS.check(xp, "sharpness", eta), xp.float64)
    batch = leading_dimensions(target=tuple(p.shape[:-1]), draft=tuple(q.shape[:-1]))
    leading_dimensions(draft=batch, sharpness=tuple(eta.shape))
    some = q > 0
    ratio = quotient(xp, xp.abs(p - q), xp.where(some, q, 1.0))
    added = xp.sum(xp.where(some, q * _gap(xp, ratio, eta[..., None]), 0.0), axis=-1)
    return in_kind(xp, distance(xp, p, q) + added, kind)  # (22), as q ℓ(z) = (p - q)⁺ + q (ℓ(z) - z⁺)


def online_bound(
    draft: Array, draft_token: Array, rejection_probability: Array, k: Array, *, sharpness: Array
) -> Array:
    """Published online bound Ū(k) = 2 Δ_k / D. It need not bound the distortion: see :func:`safe_sharpness`.

    Parameters
    ----------
    draft : array, shape (..., V)
        Distributions over the vocabulary.
    draft_token : integer array, shape (...)
        d, the token drawn from the row.
    rejection_probability : array, shape (...)
        β_d in [0, 1]; in the paper the estimate a·u + b.
    k : integer array, shape (...)
        How many entries are sent, 0..V.
    sharpness : array, shape (...)
        η, at least 1e-6.

    Returns
    -------
    array, shape (...)
        cu-hlm (23); vacuous from 1 on. 0 where Δ_k = 0, infinite where Δ_k / D overflows (η > 700).

    Raises
    ------
    ValueError
        If a row is not a distribution, d is not a token of it, β_d is outside [0, 1], k is not an integer in 0..V, or η
        is below 1e-6.

    Examples
    --------
    >>> float(online_bound([0.5, 0.25, 0.125, 0.125], 0, 0.5, 1, sharpness=5.0).round(3))
    19.469
    """
    xp, draft, token, beta, k, eta = arrays(
        *("rejection_probability", "sharpness"),
        draft=draft,
        draft_token=draft_token,
        rejection_probability=rejection_probability,
        k=k,
        sharpness=sharpness,
    )
    kind = widest(xp, draft)
    q, denominator = online_denominator(draft, token, beta, eta)
    xp, _, q, k = draft_and_size(q, k)
    leading_dimensions(draft=tuple(q.shape[:-1]), k=tuple(k.shape), sharpness=tuple(denominator.shape))
    deviation = distance(xp, q, truncated(xp, q, k))
    return upward(xp, quotient(xp, 2.0 * deviation, denominator), kind)  # (23)


def safe_sharpness(draft_probability: Array, rejection_probability: Array) -> Array:
    """The smallest sharpness η* for which the online bound holds for every p and k.

    D falls from infinity to 0 as η grows, so there is an η* such that D ≤ 2 q_d β_d exactly for η ≥ η*. Then Ū(k) ≥ Δ_k
    / (q_d β_d) ≥ Δ_k / TV(q, p), with equality on the left at η*, where the bound is tightest. Below η* the bound fails
    if q_d < 1:
    :func:`worst_case_target` with the loss q_d β_d taken from d alone has TV(r, r̂) = Δ_k / (q_d β_d) > Ū(k) wherever
    0 < Δ_k < q_d β_d and d is sent. If q_d = 1 there is no tail, hence no distortion.

    Parameters
    ----------
    draft_probability : array, shape (...)
        q_d in [0, 1].
    rejection_probability : array, shape (...)
        β_d in [0, 1].

    Returns
    -------
    array, shape (...)
        η* > 0, rounded up. Infinite where q_d β_d = 0: nothing is known of TV(q, p), so no sharpness is safe.

    Raises
    ------
    ValueError
        If q_d or β_d is outside [0, 1].

    Examples
    --------
    >>> float(safe_sharpness(0.9, 0.1).round(2))
    2.84
    """
    xp, kind, q, beta = _exactly(
        {"draft_probability": UNIT_INTERVAL, "rejection_probability": UNIT_INTERVAL},
        draft_probability=draft_probability,
        rejection_probability=rejection_probability,
    )
    floor = q * beta
    some = floor > 2.0**-1000
    floor = xp.where(some, floor, 0.5)
    # Step 1: a bracket of ln η*. (ln 2)/η - ½ (1 - q_d + q_d β_d) ≤ D ≤ (ln 2)/η, the first inequality because ℓ lies
    # above its tangent at 0
    low = xp.log(LN2 / (2.0 * floor + 0.5 * (1.0 - q + q * beta)))
    high = xp.log(LN2 / (2.0 * floor))
    # Step 2: halve it; the upper end stays safe
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        safe = _denominator(xp, q, beta, xp.exp(middle)) <= 2.0 * floor
        low, high = xp.where(safe, low, middle), xp.where(safe, middle, high)
    # D η falls with η, so that 2^-42 more of η make up for 1,000 roundings of D: e^(-ηβ) has one for each unit of ηβ
    return upward(xp, xp.where(some, xp.exp(high) * (1.0 + 2.0**-42), xp.inf), kind)


def draft_probability(xp: Any, q: Array, draft_token: Array) -> Array:
    """q_d of each row, of the broadcast shape."""
    token = token_of(q.shape[-1]).check(xp, "draft_token", draft_token)
    batch = leading_dimensions(draft=tuple(q.shape[:-1]), draft_token=tuple(token.shape))
    rows = spread(xp, q, (*batch, q.shape[-1]))
    return take(xp, rows, spread(xp, token, batch)[..., None])[..., 0]


def rejection_at(target: Array, draft: Array, draft_token: Array) -> Array:
    """β_d."""
    xp, target, draft, token = arrays(target=target, draft=draft, draft_token=draft_token)
    return draft_probability(xp, rejection_probability(target, draft), token)


def online_denominator(
    draft: Array, draft_token: Array, rejection_probability: Array, sharpness: Array
) -> tuple[Array, Array]:
    """The rows q in float64, and D, from unchecked arguments."""
    xp, draft, token, beta, eta = arrays(
        *("rejection_probability", "sharpness"),
        draft=draft,
        draft_token=draft_token,
        rejection_probability=rejection_probability,
        sharpness=sharpness,
    )
    q = distributions(draft=draft)[2]
    return q, denominator_at(xp, draft_probability(xp, q, token), beta, eta)


def denominator_at(xp: Any, drafted: Array, rejection_probability: Array, sharpness: Array) -> Array:
    """D for a given q_d, from unchecked arguments."""
    beta = in_kind(xp, UNIT_INTERVAL.check(xp, "rejection_probability", rejection_probability), xp.float64)
    eta = in_kind(xp, SHARPNESS.check(xp, "sharpness", sharpness), xp.float64)
    leading_dimensions(
        draft_token=tuple(drafted.shape), rejection_probability=tuple(beta.shape), sharpness=tuple(eta.shape)
    )
    return _denominator(xp, drafted, beta, eta)


def _exactly(domains: Mapping[str, Domain], **values: Any) -> tuple[Any, ...]:
    """The namespace, the type to answer in, and the values in float64, each in the domain of its name."""
    kind = widest(*arrays(**values))
    xp, *given = checked(domains, *values, **values)
    return (xp, kind, *(in_kind(xp, value, xp.float64) for value in given))


def _gap(xp: Any, z: Array, eta: Array) -> Array:
    near = xp.minimum(xp.abs(z), 800.0 / eta)  # e^-800 is 0, and the product stays within float64
    return xp.log1p(xp.exp(-eta * near)) / eta


def _denominator(xp: Any, drafted: Array, beta: Array, eta: Array) -> Array:
    """D of (23); for z ≤ 0 the softplus is its gap."""
    return (1.0 - drafted) * _gap(xp, xp.ones_like(beta), eta) + drafted * _gap(xp, beta, eta)
