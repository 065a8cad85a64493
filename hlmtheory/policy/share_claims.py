"""Claims on the shares of a band whose users also need a fixed time, each with its proof above its record."""

from __future__ import annotations

from collections.abc import Callable

from hlmtheory._array import Array, arrays
from hlmtheory.claims import Attained, Claim, Origin, Relation, Source
from hlmtheory.policy.shares import checked_users, share_rates, share_residual, throughput_shares

# Any positive ``parts``, divided by their sum, are shares.
#
# Proofs, by the last part of the id.
#
# share_loss. As for linear_shares, with Σ d_u v_u ≤ max d: the loss is at most max d - Σ d_u w_u = r max d.


def _parts(parts: Array) -> tuple[Array, Array]:
    xp, given = checked_users(parts=parts)
    return xp, given / xp.sum(given, axis=-1, keepdims=True)


def _value(utility: str, rates: Array, weights: Array) -> Array:
    """Σ ω X, the weighted geometric mean of X, or min X/ω."""
    xp, x, weight = arrays(rates=rates, weights=weights)
    if utility == "maxmin":
        return xp.min(x / weight, axis=-1)
    if utility == "linear":
        return xp.sum(weight * x, axis=-1)
    return xp.exp(xp.sum(weight * xp.log(x), axis=-1) / xp.sum(weight + xp.zeros_like(x), axis=-1))


def _best(utility: str) -> Callable[..., Array]:
    def side(tokens: Array, fixed_s: Array, band_s: Array, weights: Array) -> Array:
        w = throughput_shares(tokens, fixed_s, band_s, weights, utility=utility)
        return _value(utility, share_rates(tokens, fixed_s, band_s, w), weights)

    return side


def _competitor(utility: str) -> Callable[..., Array]:
    def side(tokens: Array, fixed_s: Array, band_s: Array, weights: Array, parts: Array) -> Array:
        rates = share_rates(tokens, fixed_s, band_s, _parts(parts)[1])
        return _value(utility, rates, checked_users(weights=weights)[1])

    return side


def _certificate(utility: str) -> Callable[..., Array]:
    def side(tokens: Array, fixed_s: Array, band_s: Array, weights: Array) -> Array:
        w = throughput_shares(tokens, fixed_s, band_s, weights, utility=utility)
        return 1.0 - share_residual(tokens, fixed_s, band_s, w, weights, utility=utility)

    return side


def _one(tokens: Array) -> Array:
    xp, given = checked_users(tokens=tokens)
    return xp.ones_like(given[..., 0])


def _rounded(tokens: Array) -> Array:
    """Each user's term is rounded, and the prices differ by as much as a share's digits."""
    return _one(tokens) * 100.0 * tokens.shape[-1]


def _near(tokens: Array, fixed_s: Array, band_s: Array) -> Array:
    """A share loses the digits that A has more than c, or c more than A: c/(t - A), and (√(ω E c/ν) - c)/A."""
    xp, fixed, air = checked_users(fixed_s=fixed_s, band_s=band_s)
    above = air / xp.where(fixed > 0, fixed, air)
    return _rounded(tokens) * (1.0 + xp.max(fixed / air + above, axis=-1))


def _with_loss(tokens: Array, fixed_s: Array, band_s: Array, weights: Array, parts: Array) -> Array:
    """Σ ω X of the competing shares, and the residual times the largest derivative."""
    xp, w = _parts(parts)
    slope = weights * tokens * band_s / (fixed_s * w + band_s) ** 2
    residual = share_residual(tokens, fixed_s, band_s, w, weights)
    return _competitor("linear")(tokens, fixed_s, band_s, weights, parts) + residual * xp.max(slope, axis=-1)


_SOURCE = Source("zhu2025edgesd", "(26), for throughput with a fixed time of each round")
_USERS = {"tokens": [3.0, 3.0], "fixed_s": [0.5, 0.5], "band_s": [0.5, 0.5], "weights": [1.0, 1.0]}

SHARE_CLAIMS = (
    Claim(
        id="policy.share_loss",
        source=_SOURCE,
        origin=Origin.NEW,
        statement="the largest Σ ω X ≤ Σ ω X of any shares + r max d, with the residual r and the derivatives d there",
        relation=Relation.LE,
        lhs=_best("linear"),
        rhs=_with_loss,
        attained=Attained({**_USERS, "parts": [1.0, 1.0]}),
        condition=_rounded,
    ),
)
