"""What an audit of skipping certifies, on every outcome of a short run whose risks may depend on the past."""

from typing import Any

from hlmtheory._array import Array
from hlmtheory._runs import ever, outcomes, pasts, settings
from hlmtheory.skipping.audit import DOMAINS, audit_wealth

# X_t has the mean μ_t given the past, and Ville's inequality says that a
# nonnegative supermartingale that starts at 1 ever reaches 1/δ with probability at most δ.


def runs(risks: Array, audit_probability: Array) -> tuple[Any, ...]:
    """Return the namespace, and for every outcome of a run its losses, nodes, probability and risks."""
    xp, mu = pasts("risks", risks)
    _, pi = settings(DOMAINS, audit_probability=audit_probability)
    lost, nodes, probability, risk = outcomes(xp, mu, pi[..., None, None])
    return xp, lost, nodes, probability, risk


def false_by_fixed_bet(risks: Array, audit_probability: Array, risk: Array, error: Array, bet: Array) -> Array:
    """Return P(at some time the wealth is 1/δ or more, and the mean risk so far is ε or more)."""
    xp, lost, _, probability, mu = runs(risks, audit_probability)
    _, pi, wanted, delta, share = settings(
        DOMAINS, audit_probability=audit_probability, risk=risk, error=error, bet=bet
    )
    wealth = audit_wealth(lost, pi[..., None], wanted[..., None], share[..., None, None])
    crossed = wealth >= -xp.log(delta)[..., None, None]
    above = xp.cumulative_sum(mu - wanted[..., None, None], axis=-1) >= 0
    return ever(xp, probability, crossed & above)


def given_error(error: Array) -> Array:
    return settings(DOMAINS, error=error)[1]
