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
# linear_shares, log_shares. Let f_u be ω X_u or ω log X_u. Both are concave in w: X_u' = E c/(A w + c)² falls, and so
#   does X_u'/X_u = c/(w (A w + c)). Let d_u = f_u'(w_u). For other shares v, Σ f_u(v_u) - f_u(w_u) ≤ Σ d_u (v_u - w_u).
#   If d_u = ν where w_u > 0, and d_u ≤ ν elsewhere, this is at most ν (Σ v_u - Σ w_u) = 0.
# even_shares. X_u rises with w_u. If all X_u/ω_u are x, shares with a larger minimum give each user more. Their sum
#   would exceed 1.
# linear_kkt. ω E c/(A w + c)² = ν gives w = (√(ω E c/ν) - c)/A, positive where ωE/c > ν. With the n users of the
#   largest ωE/c, Σ w = 1 gives 1/√ν = (1 + Σ c/A)/Σ (√(ω E c)/A). Adding a user lowers ν while its own ωE/c exceeds the
#   ν that results, so the largest such n is right.
# log_kkt. ω c/(w (A w + c)) = ν is A w² + c w = ω c/ν, whose positive root falls in ν. Since no share exceeds 1, ν ≥ ω
#   c/(A + c) for each user, and since w ≤ ω/ν, ν ≤ Σ ω.
# even_kkt. X = ω x is w = c/(t - A) with t = E/(ω x). The sum falls in t. It is at least 1 where some share is 1, and
#   at most 1 where the shares are those of the slowest user's equal share.
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
_NAMES = {
    "linear": ("linear_shares", "linear_kkt", "Σ ω X", "(√(ω E c/ν) − c)⁺/A"),
    "log": ("log_shares", "log_kkt", "the geometric mean of X, with weights ω,", "the root of A w² + c w = ω c/ν"),
    "maxmin": ("even_shares", "even_kkt", "min X/ω", "c/(E/(ω x) − A)"),
}


def _pair(utility: str) -> tuple[Claim, Claim]:
    best, kkt, goal, formula = _NAMES[utility]
    return (
        Claim(
            id=f"policy.{best}",
            source=_SOURCE,
            origin=Origin.NEW,
            statement=f"with X = E w/(A w + c), {goal} of any shares ≤ that of w = {formula}",
            relation=Relation.LE,
            lhs=_competitor(utility),
            rhs=_best(utility),
            attained=Attained({**_USERS, "parts": [1.0, 1.0]}),
            condition=_rounded,
        ),
        Claim(
            id=f"policy.{kkt}",
            source=_SOURCE,
            origin=Origin.NEW,
            statement=f"certificate: w = {formula} with sum 1 meets the optimality conditions of {goal}",
            relation=Relation.EQ,
            lhs=_certificate(utility),
            rhs=_one,
            attained=Attained(_USERS),
            condition=_near,
        ),
    )


SHARE_CLAIMS = (
    *_pair("linear"),
    *_pair("log"),
    *_pair("maxmin"),
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
