"""Claims of :mod:`hlmtheory.conformal` about the budget of dropped mass, and their proofs."""

from __future__ import annotations

from typing import Any

from hlmtheory._array import Array, arrays
from hlmtheory._domains import DomainError, leading_dimensions, mask
from hlmtheory._simplex import distributions
from hlmtheory.claims import Assumption, Attained, Claim, Origin, Relation, Source
from hlmtheory.conformal.batched import batches
from hlmtheory.conformal.controller import dropped, with_positions
from hlmtheory.conformal.mass_budget import MassBudgetController, mass_budget_bound
from hlmtheory.conformal.runs import positions, window

# Proofs. Let a_n = min(b_{n-1} + ε, B) be the allowance, d_n ≤ a_n the dropped mass and b_n = a_n - d_n, b_0 = 0.
#
# budget. b_n ≥ 0 and b_n ≤ b_{n-1} + ε - d_n for all n. Sum over n ≤ T: Σ d_n ≤ εT - b_T ≤ εT. Only d_n ≤ a_n is used.
#   So it holds for every sequence of rows, even if it is chosen with knowledge of the controller, and also if τ keeps
#   more tokens. It is c-sqs (9) without the regret. A support always exists: a_n > 0, and the whole row drops 0.
# budget_window. a_{n+1} ≤ b_n + ε = a_n - d_n + ε, so d_n ≤ a_n - a_{n+1} + ε. Sum this over the window without its
#   last position, and add d ≤ a for the last: Σ d ≤ a_s + ε(T - 1). And a_s ≤ min(B, εs), since Σ_{i<s} d_i ≥ 0. For
#   T = 1 it is the bound of one position: without a limit, one position may drop all that was saved before it.
# budget_smallest. A support with K tokens drops the least mass if it holds the K most probable. So if one with K tokens
#   fits the allowance, the K most probable do, and the smallest such K is the controller's.
# budget_drops. False: see the counterexample. The smallest support does not always drop the most mass: with two tokens
#   of probabilities .3 and .2 and an allowance of .3, it drops the .2; to drop the .3 leaves equally many tokens.
# budget_total. False: see the counterexample. At the first row, dropping one token uses up the whole budget; the same
#   budget drops three tokens at the second row. No controller without foresight has the smallest total at every T: it
#   must spend the budget at the first row for T = 1, and must not for T = 2.
# hindsight. Let B be the tokens with q < τ and A those that the supports drop, over all positions. Tokens of A outside
#   B have q ≥ τ, and tokens of B outside A have q < τ. So |A| - |B| = |A∖B| - |B∖A| ≤ (mass(A∖B) - mass(B∖A))/τ =
#   (Σ d_n - mass(B))/τ. So no supports that drop the same mass as a fixed threshold have a smaller total. Which
#   threshold uses up the budget is known only afterwards.
# budget_update, budget_kept. A step changes nothing but b. The controller rolls back to the b after the accepted
#   drafts and the rejected one, which is its state if it had seen these positions only. So budget holds for them.


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


def _window_mass(drafts: Array, epsilon: Array, limit: Array, threshold: Array, steps: Array) -> Array:
    """Return the dropped mass of the last positions."""
    xp, masses, _ = _masses(drafts, epsilon, limit, threshold)
    _, steps = arrays(steps=steps)
    inside = xp.arange(masses.shape[-1], device=masses.device) >= masses.shape[-1] - window(drafts, steps)[..., None]
    return xp.sum(xp.where(inside, masses, 0.0), axis=-1)


def _window_bound(drafts: Array, epsilon: Array, limit: Array, steps: Array) -> Array:
    _, drafts, steps = arrays(drafts=drafts, steps=steps)
    count = window(drafts, steps)
    return mass_budget_bound(epsilon, count, positions(drafts) + 1 - count, limit)


def _size(drafts: Array, epsilon: Array) -> Array:
    """Return K of the last position."""
    return _greedy(drafts, epsilon)[2][..., -1]


def _last(drafts: Array, epsilon: Array) -> Array:
    """Return d of the last position."""
    return _greedy(drafts, epsilon)[1][..., -1]


def _other(drafts: Array, support: Array) -> tuple[Any, Array, Array]:
    """Return the last row and another support of it."""
    xp, drafts, support = arrays(drafts=drafts, support=support)
    _, _, rows = distributions(drafts=with_positions(drafts, 1))
    kept = mask(xp, "support", support)
    leading_dimensions(drafts=(*rows.shape[:-2], rows.shape[-1]), support=tuple(kept.shape))
    return xp, rows[..., -1, :], kept


def _other_size(drafts: Array, support: Array) -> Array:
    xp, _, kept = _other(drafts, support)
    return xp.count_nonzero(kept, axis=-1)


def _other_mass(drafts: Array, support: Array) -> Array:
    xp, q, kept = _other(drafts, support)
    return dropped(xp, q, kept)


_MARGIN = 1.0 - 2.0**-40
"""Tolerance for rounding: two sums of the same masses differ by less."""


def _fits(drafts: Array, epsilon: Array, support: Array) -> Array:
    """Return whether another support of the last row holds a token and keeps the sum of d at εT."""
    xp, masses, _ = _greedy(drafts, epsilon)
    _, target = arrays(epsilon=epsilon)
    past = xp.sum(masses[..., :-1], axis=-1)
    left = (target * masses.shape[-1] - past) * _MARGIN
    return (_other_mass(drafts, support) <= left) & (_other_size(drafts, support) > 0)


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


def _others_fit(drafts: Array, epsilon: Array, supports: Array) -> Array:
    """Return whether other supports hold a token each and keep the mean of d at ε at every T."""
    xp, rows, kept = _others(drafts, supports)
    _, target = arrays(epsilon=epsilon)
    count = xp.arange(1, rows.shape[-2] + 1, dtype=xp.float64, device=rows.device)
    sums = xp.cumulative_sum(dropped(xp, rows, kept), axis=-1)
    fits = sums <= target[..., None] * count * (2.0 - _MARGIN)
    return xp.all(fits & xp.any(kept, axis=-1), axis=-1)


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


def _drafted(drafts: Array, accepted: Array, epsilon: Array) -> tuple[Any, Array, Array, Array]:
    """Return Σ d over the accepted and rejected positions, their number, and b, of drafting in batches."""
    xp, rows, done = batches(drafts, accepted)
    _, epsilon = arrays(epsilon=epsilon)
    controller = MassBudgetController(epsilon)
    total = 0.0 * (rows[..., 0, 0, 0] + controller.saved)
    for batch in range(rows.shape[-3]):
        for n in range(rows.shape[-2]):
            q = rows[..., batch, n, :]
            total = total + xp.where(done[..., batch] >= n, dropped(xp, q, controller.step(q)), 0.0)
        controller.roll_back(done[..., batch])
    count = xp.sum(xp.where(done < rows.shape[-2], done + 1, done), axis=-1)
    return xp, total, count, controller.saved + 0.0 * total


def _kept_mean(drafts: Array, accepted: Array, epsilon: Array) -> Array:
    xp, total, count, _ = _drafted(drafts, accepted, epsilon)
    return total / xp.astype(count, total.dtype)


def _saved(drafts: Array, accepted: Array, epsilon: Array) -> Array:
    return _drafted(drafts, accepted, epsilon)[3]


def _saved_alone(drafts: Array, accepted: Array, epsilon: Array) -> Array:
    """Return εn - Σ d over the accepted and rejected positions alone.

    The support is found here token by token, from the least probable on, without the controller.
    """
    xp, rows, done = batches(drafts, accepted)
    _, target = arrays(epsilon=epsilon)
    saved = 0.0 * (rows[..., 0, 0, 0] + target)
    for batch in range(rows.shape[-3]):
        for n in range(rows.shape[-2]):
            ascending = xp.sort(rows[..., batch, n, :], axis=-1)
            left, mass = saved + target, 0.0 * saved
            for v in range(rows.shape[-1] - 1):  # the top token stays
                more = mass + ascending[..., v]
                mass = xp.where(more <= left, more, mass)
            saved = xp.where(done[..., batch] >= n, left - mass, saved)
    return saved


_CSQS = "bhattacharjee2025csqs"
_PAST = "(9), with a budget of dropped mass in place of the threshold"
_SPENT = {"drafts": [[0.75, 0.25]] * 4, "epsilon": 0.25}
_BURST = [[1.0] + [0.0] * 7] * 6 + [[0.125] * 8] * 2
"""Six peaked rows save 1.5, of which a limit of .75 leaves .75. Two flat rows spend that and ε more."""
_TWO_ROWS = [[0.75, 0.25, 0.0, 0.0, 0.0], [0.5, 0.125, 0.125, 0.125, 0.125]]
_SPARED = [[True, True, False, False, False], [True, False, False, False, False]]
_FITS = Assumption("the other support holds a token, and Σ d ≤ εT with it", _fits)
_OTHERS_FIT = Assumption("the other supports hold a token each, and Σ d ≤ εn at every n ≤ T", _others_fit)

CLAIMS = (
    Claim(
        id="conformal.budget",
        source=Source(_CSQS, _PAST),
        origin=Origin.NEW,
        statement="(1/n) Σ_{i≤n} d_i ≤ ε at every n ≤ T, for every sequence of rows: no regret and no learning rate",
        relation=Relation.LE,
        lhs=_largest_mean,
        rhs=_target,
        attained=Attained(_SPENT),
        ceiling=1.0,
    ),
    Claim(
        id="conformal.budget_window",
        source=Source(_CSQS, _PAST),
        origin=Origin.NEW,
        statement="Σ d ≤ min(B, εs) + ε(w − 1) over the w positions from s on, whatever τ keeps more tokens",
        relation=Relation.LE,
        lhs=_window_mass,
        rhs=_window_bound,
        attained=Attained({"drafts": _BURST, "epsilon": 0.25, "limit": 0.75, "threshold": 2.0, "steps": 2}),
    ),
    Claim(
        id="conformal.budget_smallest",
        source=Source(_CSQS, _PAST),
        origin=Origin.NEW,
        statement="with the same past, no support that keeps Σ d ≤ εT has fewer tokens",
        relation=Relation.LE,
        lhs=_size,
        rhs=_other_size,
        assumptions=(_FITS,),
        attained=Attained(
            {"drafts": [[0.5, 0.25, 0.125, 0.125]], "epsilon": 0.3, "support": [True, True, False, False]}
        ),
    ),
    Claim(
        id="conformal.budget_drops",
        source=Source(_CSQS, _PAST),
        origin=Origin.IMPLIED,
        statement="with the same past, no support that keeps Σ d ≤ εT drops more mass",
        relation=Relation.LE,
        lhs=_other_mass,
        rhs=_last,
        assumptions=(_FITS,),
        refuted={"drafts": [[0.5, 0.25, 0.125, 0.125]], "epsilon": 0.45, "support": [True, False, True, False]},
    ),
    Claim(
        id="conformal.budget_total",
        source=Source(_CSQS, _PAST),
        origin=Origin.IMPLIED,
        statement="no supports that keep Σ d ≤ εn at every n ≤ T have fewer tokens in total",
        relation=Relation.LE,
        lhs=_total,
        rhs=_others_total,
        assumptions=(_OTHERS_FIT,),
        refuted={"drafts": _TWO_ROWS, "epsilon": 0.25, "supports": _SPARED},
    ),
    Claim(
        id="conformal.hindsight",
        source=Source(_CSQS, "(6), with the threshold chosen afterwards"),
        origin=Origin.NEW,
        statement="any supports have Σ K_n ≥ Σ |{q ≥ τ}| − (Σ d_n − Σ_{q<τ} q)/τ, for every τ > 0: a fixed τ is best",
        relation=Relation.LE,
        lhs=_price,
        rhs=_others_total,
        assumptions=(Assumption("τ > 0", _positive),),
        attained=Attained({"drafts": _TWO_ROWS, "supports": _SPARED, "threshold": 0.25}),
        condition=_roundings,
    ),
    Claim(
        id="conformal.budget_update",
        source=Source(_CSQS, "Algorithm 1, line 12, with a budget of dropped mass in place of the threshold"),
        origin=Origin.NEW,
        statement="drafting ahead and rolling back leaves the budget of the accepted and rejected positions alone",
        relation=Relation.EQ,
        lhs=_saved,
        rhs=_saved_alone,
        attained=Attained(
            {
                "drafts": [[[0.5, 0.25, 0.25], [0.5, 0.5, 0.0]], [[0.75, 0.25, 0.0], [0.375, 0.375, 0.25]]],
                "accepted": [0, 2],
                "epsilon": 0.3125,
            }
        ),
    ),
    Claim(
        id="conformal.budget_kept",
        source=Source(_CSQS, "Algorithm 1, line 12, with a budget of dropped mass in place of the threshold"),
        origin=Origin.NEW,
        statement="drafting ahead and rolling back, mean d over accepted and rejected positions ≤ ε",
        relation=Relation.LE,
        lhs=_kept_mean,
        rhs=_target,
        attained=Attained({"drafts": [[[0.75, 0.25], [0.625, 0.375]]] * 3, "accepted": [0] * 3, "epsilon": 0.25}),
        ceiling=1.0,
    ),
)
