"""What an audit of skipping certifies, on every outcome of a short run whose risks may depend on the past."""

from __future__ import annotations

from typing import Any

from hlmtheory._array import Array
from hlmtheory._runs import HORIZON, NODES, along, ever, outcomes, pasts, settings
from hlmtheory.claims import Attained, Claim, Origin, Source
from hlmtheory.skipping.audit import DOMAINS, audit_bound, audit_wealth

# Proofs, by the last part of the id. X_t has the mean μ_t given the past, and Ville's inequality says that a
# nonnegative supermartingale that starts at 1 ever reaches 1/δ with probability at most δ.
#
# audit_mean. 1 + λ(ε - μ) ≤ exp(λ(ε - μ)). So M_t exp(λ Σ(μ_i - ε)) is a supermartingale for every fixed λ, and so is
#   its mean over fixed λs. Where the mean of μ_1, ..., μ_t is at least ε, this supermartingale is at least M_t. Ville.
# audit_predictable. No proof: the counterexample. Bets are large while the risk is 0, and nearly 0 while it is 1.
# audit_bound. 1 - λμ ≤ exp(-λμ). So exp(λ Σ μ_i) Π (1 - λX_i) is a supermartingale, and so is its mean over fixed λs.
#   The supermartingale rises with Σ μ_i and equals 1/δ at the bound, so by Ville Σ μ_i exceeds the bound with
#   probability at most δ.


def _runs(risks: Array, audit_probability: Array) -> tuple[Any, ...]:
    """Return the namespace, and for every outcome of a run its losses, nodes, probability and risks."""
    xp, mu = pasts("risks", risks)
    _, pi = settings(DOMAINS, audit_probability=audit_probability)
    lost, nodes, probability, risk = outcomes(xp, mu, pi[..., None, None])
    return xp, lost, nodes, probability, risk


def _false_by_fixed_bet(risks: Array, audit_probability: Array, risk: Array, error: Array, bet: Array) -> Array:
    """Return P(at some time the wealth is 1/δ or more, and the mean risk so far is ε or more)."""
    xp, lost, _, probability, mu = _runs(risks, audit_probability)
    _, pi, wanted, delta, share = settings(
        DOMAINS, audit_probability=audit_probability, risk=risk, error=error, bet=bet
    )
    wealth = audit_wealth(lost, pi[..., None], wanted[..., None], share[..., None, None])
    crossed = wealth >= -xp.log(delta)[..., None, None]
    above = xp.cumulative_sum(mu - wanted[..., None, None], axis=-1) >= 0
    return ever(xp, probability, crossed & above)


def _false_by_predictable_bet(
    risks: Array, bet_by_past: Array, audit_probability: Array, risk: Array, error: Array
) -> Array:
    """Return the same as :func:`_false_by_fixed_bet`, with bets that may depend on the past."""
    xp, lost, nodes, probability, mu = _runs(risks, audit_probability)
    _, pi, wanted, delta = settings(DOMAINS, audit_probability=audit_probability, risk=risk, error=error)
    bets = along(xp, pasts("bet_by_past", bet_by_past, DOMAINS["bets"])[1], nodes)
    pi, wanted = (value[..., None, None] for value in (pi, wanted))
    wealth = xp.cumulative_prod(1.0 + bets / (1.0 / pi - wanted) * (wanted - lost / pi), axis=-1)
    crossed = wealth * delta[..., None, None] >= 1.0
    return ever(xp, probability, crossed & (xp.cumulative_sum(mu - wanted, axis=-1) >= 0))


def _beyond_bound(risks: Array, audit_probability: Array, error: Array, bet: Array) -> Array:
    """Return P(the mean risk so far is ever above its bound)."""
    xp, lost, _, probability, mu = _runs(risks, audit_probability)
    _, pi, delta, share = settings(DOMAINS, audit_probability=audit_probability, error=error, bet=bet)
    bound = audit_bound(lost, pi[..., None], delta[..., None], share[..., None, None])
    tokens = xp.arange(1, HORIZON + 1, dtype=xp.float64, device=mu.device)
    return ever(xp, probability, xp.cumulative_sum(mu, axis=-1) / tokens > bound)


def _given_error(error: Array) -> Array:
    return settings(DOMAINS, error=error)[1]


_BETTING = "waudbysmith2024betting"
_NEARLY_ALL = 1.0 - 2.0**-32
_AT_THE_RISK = {"risks": [0.25] * NODES, "audit_probability": 0.5, "risk": 0.25}
"""A run without a loss has probability (7/8)^4; with a bet of nearly 1 its wealth is nearly (8/7)^4."""
_JUST = (7 / 8) ** 4 * (1.0 + 1e-8)
_AFTER_TWO = [0.0, *2 * [0.0], *4 * [1.0], *8 * [0.0]]
_LARGE_THEN_SMALL = [*3 * [_NEARLY_ALL], *12 * [2.0**-16]]

CLAIMS = (
    Claim(
        id="skipping.audit_mean",
        source=Source(_BETTING, "the capital process, for means that vary"),
        statement="P(∃t: M_t ≥ 1/δ and the mean of μ_1..μ_t ≥ ε) ≤ δ for a fixed λ; the risks may depend on the past",
        lhs=_false_by_fixed_bet,
        rhs=_given_error,
        attained=Attained({**_AT_THE_RISK, "bet": _NEARLY_ALL, "error": _JUST}),
        ceiling=1.0,
    ),
    Claim(
        id="skipping.audit_predictable",
        source=Source(_BETTING, "the capital process, read for the mean of means that vary"),
        origin=Origin.IMPLIED,
        statement="P(∃t: M_t ≥ 1/δ and the mean of μ_1..μ_t ≥ ε) ≤ δ for λ_t that may depend on the past",
        lhs=_false_by_predictable_bet,
        rhs=_given_error,
        refuted={
            "risks": _AFTER_TWO,
            "bet_by_past": _LARGE_THEN_SMALL,
            "audit_probability": 0.5,
            "risk": 0.25,
            "error": 0.8,
        },
        ceiling=1.0,
    ),
    Claim(
        id="skipping.audit_bound",
        source=Source(_BETTING, "confidence sequences, for means that vary"),
        statement="P(∃t: the mean of μ_1..μ_t > its bound) ≤ δ; the risks may depend on the past",
        lhs=_beyond_bound,
        rhs=_given_error,
        attained=Attained(
            {
                "risks": [1.0] * NODES,
                "audit_probability": 2.0**-20,
                "bet": _NEARLY_ALL,
                "error": 1.0 - 3.9999 * 2.0**-20,
            }
        ),
        ceiling=1.0,
    ),
)
