"""Claims of :mod:`hlmtheory.conformal` about the budget of dropped mass, and their proofs."""

from __future__ import annotations

from typing import Any

from hlmtheory._array import Array, arrays
from hlmtheory._domains import DomainError, leading_dimensions, mask
from hlmtheory._simplex import distributions
from hlmtheory.claims import Assumption, Attained, Claim, Source
from hlmtheory.conformal.controller import dropped, with_positions
from hlmtheory.conformal.mass_budget import MassBudgetController, mass_budget_bound

# Proofs. Let a_n = min(b_{n-1} + ε, B) be the allowance, d_n ≤ a_n the dropped mass and b_n = a_n - d_n, b_0 = 0.
#
# budget. b_n ≥ 0 and b_n ≤ b_{n-1} + ε - d_n for all n. Sum over n ≤ T: Σ d_n ≤ εT - b_T ≤ εT. Only d_n ≤ a_n is used.
#   So it holds for every sequence of rows, even if it is chosen with knowledge of the controller, and also if τ keeps
#   more tokens. It is c-sqs (9) without the regret. A support always exists: a_n > 0, and the whole row drops 0.
# hindsight. Let B be the tokens with q < τ and A those that the supports drop, over all positions. Tokens of A outside
#   B have q ≥ τ, and tokens of B outside A have q < τ. So |A| - |B| = |A∖B| - |B∖A| ≤ (mass(A∖B) - mass(B∖A))/τ =
#   (Σ d_n - mass(B))/τ. So no supports that drop the same mass as a fixed threshold have a smaller total. Which
#   threshold uses up the budget is known only afterwards.


def _masses(drafts: Array, epsilon: Array, limit: Array, threshold: Array | None = None) -> tuple[Any, Array, Array]:
    """Return dropped mass (..., T) and number of tokens kept (..., T) of a run."""
    xp, drafts, epsilon, limit = arrays(drafts=drafts, epsilon=epsilon, limit=limit)
    _, _, rows = distributions(drafts=with_positions(drafts, 1))
    controller = MassBudgetController(epsilon, limit)
    batch = leading_dimensions(drafts=tuple(rows.shape[:-2]), limit=tuple(controller.saved.shape))
    masses, sizes = [], []
    for n in range(rows.shape[-2]):
        q = rows[..., n, :]
        support = controller.step(q, threshold)
        masses.append(xp.broadcast_to(dropped(xp, q, support), batch))
        sizes.append(xp.broadcast_to(xp.count_nonzero(support, axis=-1), batch))
    return xp, xp.stack(masses, axis=-1), xp.stack(sizes, axis=-1)


def _greedy(drafts: Array, epsilon: Array) -> tuple[Any, Array, Array]:
    """Return the run without a limit; a limit of 2 has no effect, since a position drops at most 1."""
    _, drafts, epsilon = arrays(drafts=drafts, epsilon=epsilon)
    return _masses(drafts, epsilon, 2.0 + 0.0 * epsilon)


def _largest_mean(drafts: Array, epsilon: Array) -> Array:
    """Return the largest mean of d_n over the first T positions, over all T."""
    xp, masses, _ = _greedy(drafts, epsilon)
    count = xp.arange(1, masses.shape[-1] + 1, dtype=xp.float64, device=masses.device)
    return xp.max(xp.cumulative_sum(masses, axis=-1) / count, axis=-1)


def _target(epsilon: Array) -> Array:
    return mass_budget_bound(epsilon, 1)


def _others(drafts: Array, supports: Array) -> tuple[Any, Array, Array]:
    """Return rows and other supports, one for each."""
    xp, drafts, supports = arrays(drafts=drafts, supports=supports)
    _, _, rows = distributions(drafts=with_positions(drafts, 1))
    kept = mask(xp, "supports", supports)
    if tuple(kept.shape[-2:]) != tuple(rows.shape[-2:]):
        raise DomainError(
            f"supports must have one row for each of drafts; got shapes {tuple(kept.shape)} and {tuple(rows.shape)}; "
            "give one support for each position"
        )
    return xp, rows, kept


def _others_total(drafts: Array, supports: Array) -> Array:
    xp, _, kept = _others(drafts, supports)
    return xp.count_nonzero(kept, axis=(-2, -1))


def _total(drafts: Array, epsilon: Array) -> Array:
    xp, _, sizes = _greedy(drafts, epsilon)
    return xp.sum(sizes, axis=-1)


def _price(drafts: Array, supports: Array, threshold: Array) -> Array:
    """Return Σ |{q ≥ τ}| - (Σ d - D(τ))/τ, with D(τ) the mass of all tokens with q < τ."""
    xp, rows, kept = _others(drafts, supports)
    _, tau = arrays(threshold=threshold)
    level = xp.where(tau > 0, tau, 1.0)
    above = rows >= level[..., None, None]
    mass = xp.sum(dropped(xp, rows, kept) - dropped(xp, rows, above), axis=-1)
    return xp.astype(xp.count_nonzero(above, axis=(-2, -1)), level.dtype) - mass / level


def _roundings(drafts: Array, threshold: Array) -> Array:
    """Return the condition number: the sums of masses over τ."""
    xp, drafts, tau = arrays(drafts=drafts, threshold=threshold)
    return drafts.shape[-2] * (1.0 + 1.0 / xp.where(tau > 0, tau, 1.0))


def _finite(xp: Any, threshold: Array) -> Array:
    if not bool(xp.all(xp.isfinite(threshold))):
        raise DomainError(f"threshold must be finite; got {threshold}; give a probability")
    return threshold


def _positive(threshold: Array) -> Array:
    xp, tau = arrays(threshold=threshold)
    return _finite(xp, tau) > 0


_CSQS = "bhattacharjee2025csqs"
_PAST = "(9), with a budget of dropped mass in place of the threshold"
_SPENT = {"drafts": [[0.75, 0.25]] * 4, "epsilon": 0.25}
_TWO_ROWS = [[0.75, 0.25, 0.0, 0.0, 0.0], [0.5, 0.125, 0.125, 0.125, 0.125]]
_SPARED = [[True, True, False, False, False], [True, False, False, False, False]]

CLAIMS = (
    Claim(
        id="conformal.budget",
        source=Source(_CSQS, _PAST),
        statement="(1/n) Σ_{i≤n} d_i ≤ ε at every n ≤ T, for every sequence of rows: no regret and no learning rate",
        lhs=_largest_mean,
        rhs=_target,
        attained=Attained(_SPENT),
        ceiling=1.0,
    ),
    Claim(
        id="conformal.hindsight",
        source=Source(_CSQS, "(6), with the threshold chosen afterwards"),
        statement="any supports have Σ K_n ≥ Σ |{q ≥ τ}| − (Σ d_n − Σ_{q<τ} q)/τ, for every τ > 0: a fixed τ is best",
        lhs=_price,
        rhs=_others_total,
        assumptions=(Assumption("τ > 0", _positive),),
        attained=Attained({"drafts": _TWO_ROWS, "supports": _SPARED, "threshold": 0.25}),
        condition=_roundings,
    ),
)
