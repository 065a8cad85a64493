"""Claims on the acceptance after an update of the target model, and both sides of each.

The proofs are in :mod:`hlmtheory.verification.updates`.
"""

from __future__ import annotations

from typing import Any

from hlmtheory._array import Array, arrays
from hlmtheory._simplex import chains, distance, distributions
from hlmtheory.claims import Attained, Claim, Origin, Source
from hlmtheory.verification.intervals import RateInterval
from hlmtheory.verification.rule import acceptance_rate, total_variation
from hlmtheory.verification.updates import acceptance_after_update, largest_distance

HORIZON = 4  # drafts of a round, and tokens of a text, of the chains that the claims enumerate


def _after(draft: Array, old: Array, new: Array) -> RateInterval:
    _, _, q, p, r = distributions(draft=draft, old=old, new=new)
    return acceptance_after_update(acceptance_rate(p, q), total_variation(p, r))


def _rate(draft: Array, new: Array) -> Array:
    """Return α(v)."""
    _, _, q, r = distributions(draft=draft, new=new)
    return acceptance_rate(r, q)


def _moved(old: Array, new: Array) -> Array:
    """Return TV(p_0, p_v)."""
    xp, _, p, r = distributions(old=old, new=new)
    return distance(xp, p, r)


def _divergence(old: Array, new: Array) -> Array:
    """Return Σ p_0 log(p_0/p_v), infinite where p_v = 0 < p_0; accurate also for nearly equal rows."""
    xp, _, p, r = distributions(old=old, new=new)
    both, near = (p > 0) & (r > 0), xp.abs(p - r) < 0.5 * r
    ratio = xp.log1p(xp.where(near, (p - r) / xp.where(near, r, 1.0), 0.0))
    ratio = xp.where(near, ratio, xp.log(xp.where(both, p, 1.0)) - xp.log(xp.where(both, r, 1.0)))
    terms = xp.clip(p * ratio - (p - r), min=0.0)
    return xp.where(xp.any((p > 0) & (r <= 0), axis=-1), xp.inf, xp.sum(terms, axis=-1))


def _largest(divergence: Array) -> Array:
    """Return :func:`largest_distance`, and 1 at an infinite divergence."""
    xp, given = arrays(divergence=divergence)
    finite = xp.isfinite(given)
    return xp.where(finite, largest_distance(xp.where(finite, given, 0.0)), 1.0)


def _along(xp: Any, step: Array, values: Array) -> Array:
    """Return Σ_x mass(x) value(x) at each of HORIZON positions, (..., HORIZON), with mass moved by ``step``."""
    mass = xp.astype(xp.arange(step.shape[-1], device=step.device) == 0, xp.float64)
    found = []
    for _ in range(HORIZON):
        found.append(xp.sum(mass * values, axis=-1))
        mass = xp.sum(mass[..., None] * step, axis=-2)
    return xp.stack(found, axis=-1)


def _own_texts(draft_chain: Array, new_chain: Array) -> Array:
    """Return the sum of the acceptance rates along HORIZON tokens of a version's own texts."""
    xp, q, p = chains(draft_chain=draft_chain, new_chain=new_chain)
    return xp.clip(xp.sum(_along(xp, p, acceptance_rate(p, q)), axis=-1), max=float(HORIZON))


def _own_texts_same(draft_chain: Array, old_chain: Array, new_chain: Array) -> Array:
    """Return that sum less the sum of the distances, each counted once."""
    xp, q, p, r = chains(draft_chain=draft_chain, old_chain=old_chain, new_chain=new_chain)
    return xp.clip(_own_texts(q, p) - xp.sum(_along(xp, p, distance(xp, p, r)), axis=-1), min=0.0)


_PAPER = Source("li2025flexspec", "III-C, Table II")
_KL = Source("fedotov2003refinements", "the largest distance at a given divergence")
_ONE = {"draft": [1.0, 0.0], "old": [1.0, 0.0], "new": [0.5, 0.5]}
_BRANCH = {
    "draft_chain": [[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]],
    "old_chain": [[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    "new_chain": [[0.0, 0.75, 0.25], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
}
"""The versions differ at the first token only. After token 2 the draft is wrong for both."""
_PAIR = {"old": [0.7944868122665105, 0.2055131877334895], "new": [0.3434823572503344, 0.6565176427496656]}
"""The pair of update_divergence at s = 2."""

CLAIMS = (
    Claim(
        id="verification.update_floor",
        source=_PAPER,
        statement="1 − α(v) ≤ 1 − α(0) + TV(p_0, p_v) on every prefix, whatever the draft",
        lhs=lambda draft, new: 1.0 - _rate(draft, new),
        rhs=lambda draft, old, new: 1.0 - _after(draft, old, new).lower,
        attained=Attained(_ONE),
        ceiling=1.0,
    ),
    Claim(
        id="verification.update_ceiling",
        source=_PAPER,
        statement="α(v) ≤ α(0) + TV(p_0, p_v) on every prefix, whatever the draft",
        lhs=_rate,
        rhs=lambda draft, old, new: _after(draft, old, new).upper,
        attained=Attained({"draft": [1.0, 0.0], "old": [0.5, 0.5], "new": [0.75, 0.25]}),
        ceiling=1.0,
    ),
    Claim(
        id="verification.update_own_texts_mean",
        source=_PAPER,
        origin=Origin.IMPLIED,
        statement="Σ_t E_v[1 − α(v)] ≤ Σ_t E_0[1 − α(0)] + Σ_t E_0 TV_t, each version on its own texts of T tokens",
        lhs=lambda draft_chain, new_chain: HORIZON - _own_texts(draft_chain, new_chain),
        rhs=lambda draft_chain, old_chain, new_chain: HORIZON - _own_texts_same(draft_chain, old_chain, new_chain),
        refuted=_BRANCH,
        ceiling=float(HORIZON),
    ),
    Claim(
        id="verification.update_divergence",
        source=_KL,
        statement="TV(p_0, p_v) ≤ max {TV(P, Q): KL(P ‖ Q) ≤ KL(p_0 ‖ p_v)}, attained on two tokens",
        lhs=_moved,
        rhs=lambda old, new: _largest(_divergence(old, new)),
        attained=Attained(_PAIR),
        ceiling=1.0,
    ),
)
