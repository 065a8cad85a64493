"""The published online bound with the softplus in place of the ReLU, and the smallest sharpness for which it holds.

Paper: cu-hlm (oh2025cuhlm) Section IV-D, (22)-(24) and Proposition 2. Symbols are those of
:mod:`hlmtheory.truncation`, and

========== ================================================================= =========
symbol     name                                                              shape
========== ================================================================= =========
η          ``sharpness`` of the softplus; the paper does not print its value (...)
ℓ          softplus ln(1 + e^{ηz})/η                                         (...)
d, β_d     ``token`` and its ``rejection`` probability                       (...)
D          (1 - q_d) ℓ(-1) + q_d ℓ(-β_d), the bound's denominator            (...)
Ū          2 Δ_k / D                                                         (...)
η*         least sharpness with D ≤ 2 q_d β_d                                (...)
========== ================================================================= =========
"""

import math
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


def softplus_gap(z: Array, sharpness: Array) -> Array:
    """ℓ(z) - z⁺ = ln(1 + e^{-η|z|})/η, what the softplus adds to the ReLU: in [0, ln 2/η]; cu-hlm, below (22)."""
    kind = widest(*arrays(z=z, sharpness=sharpness))
    xp, *given = checked({"z": FINITE, "sharpness": SHARPNESS}, "z", "sharpness", z=z, sharpness=sharpness)
    z, eta = (in_kind(xp, value, xp.float64) for value in given)
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


def online_bound(draft: Array, token: Array, rejection_probability: Array, top_k: Array, *, sharpness: Array) -> Array:
    """Published online bound Ū(k) = 2 Δ_k / D. It need not bound the distortion (``truncation.online_safe``).

    Parameters
    ----------
    draft : array, shape (..., V)
        Distributions over the vocabulary.
    token : integer array, shape (...)
        d, the token drawn from the row.
    rejection_probability : array, shape (...)
        β_d in [0, 1]; in the paper the estimate a·u + b.
    top_k : integer array, shape (...)
        k, how many entries are sent, 0..V.
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
        token=token,
        rejection_probability=rejection_probability,
        top_k=top_k,
        sharpness=sharpness,
    )
    kind = widest(xp, draft)
    q, denominator = online_denominator(draft, token, beta, eta)
    xp, _, q, k = draft_and_size(q, k)
    leading_dimensions(draft=tuple(q.shape[:-1]), top_k=tuple(k.shape), sharpness=tuple(denominator.shape))
    deviation = distance(xp, q, truncated(xp, q, k))
    return upward(xp, quotient(xp, 2.0 * deviation, denominator), kind)  # (23)


def draft_probability(xp: Any, q: Array, token: Array) -> Array:
    """q_d of each row, of the broadcast shape."""
    token = token_of(q.shape[-1]).check(xp, "token", token)
    batch = leading_dimensions(draft=tuple(q.shape[:-1]), token=tuple(token.shape))
    rows = spread(xp, q, (*batch, q.shape[-1]))
    return take(xp, rows, spread(xp, token, batch)[..., None])[..., 0]


def rejection_at(target: Array, draft: Array, token: Array) -> Array:
    """β_d."""
    xp, target, draft, token = arrays(target=target, draft=draft, token=token)
    return draft_probability(xp, rejection_probability(target, draft), token)


def online_denominator(
    draft: Array, token: Array, rejection_probability: Array, sharpness: Array
) -> tuple[Array, Array]:
    """The rows q in float64, and D, from unchecked arguments."""
    xp, draft, token, beta, eta = arrays(
        *("rejection_probability", "sharpness"),
        draft=draft,
        token=token,
        rejection_probability=rejection_probability,
        sharpness=sharpness,
    )
    q = distributions(draft=draft)[2]
    return q, denominator_at(xp, draft_probability(xp, q, token), beta, eta)


def denominator_at(xp: Any, drafted: Array, rejection_probability: Array, sharpness: Array) -> Array:
    """D for a given q_d, from unchecked arguments."""
    beta = in_kind(xp, UNIT_INTERVAL.check(xp, "rejection_probability", rejection_probability), xp.float64)
    eta = in_kind(xp, SHARPNESS.check(xp, "sharpness", sharpness), xp.float64)
    leading_dimensions(token=tuple(drafted.shape), rejection_probability=tuple(beta.shape), sharpness=tuple(eta.shape))
    return (1.0 - drafted) * _gap(xp, xp.ones_like(beta), eta) + drafted * _gap(xp, beta, eta)  # the softplus of z ≤ 0


def _gap(xp: Any, z: Array, eta: Array) -> Array:
    near = xp.minimum(xp.abs(z), 800.0 / eta)  # e^-800 is 0, and the product stays within float64
    return xp.log1p(xp.exp(-eta * near)) / eta
