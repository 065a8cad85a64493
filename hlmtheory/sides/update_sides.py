"""Sides of the theorems on the acceptance after an update of the target model."""

from typing import Any

from hlmtheory._array import Array, Interval, arrays
from hlmtheory._simplex import chains, distance, distributions
from hlmtheory.verification.rule import acceptance_rate, total_variation
from hlmtheory.verification.updates import acceptance_after_update, largest_distance

HORIZON = 4  # drafts of a round, and tokens of a text, of the chains that the claims enumerate


def after_side(draft: Array, old: Array, new: Array) -> Interval:
    _, _, q, p, r = distributions(draft=draft, old=old, new=new)
    return acceptance_after_update(acceptance_rate(p, q), total_variation(p, r))


def rate(draft: Array, new: Array) -> Array:
    """Return α(v)."""
    _, _, q, r = distributions(draft=draft, new=new)
    return acceptance_rate(r, q)


def divergence_side(old: Array, new: Array) -> Array:
    """Return Σ p_0 log(p_0/p_v), infinite where p_v = 0 < p_0; accurate also for nearly equal rows."""
    xp, _, p, r = distributions(old=old, new=new)
    both, near = (p > 0) & (r > 0), xp.abs(p - r) < 0.5 * r
    ratio = xp.log1p(xp.where(near, (p - r) / xp.where(near, r, 1.0), 0.0))
    ratio = xp.where(near, ratio, xp.log(xp.where(both, p, 1.0)) - xp.log(xp.where(both, r, 1.0)))
    terms = xp.clip(p * ratio - (p - r), min=0.0)
    return xp.where(xp.any((p > 0) & (r <= 0), axis=-1), xp.inf, xp.sum(terms, axis=-1))


def largest_side(divergence: Array) -> Array:
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


def own_texts(draft_chain: Array, new_chain: Array) -> Array:
    """Return the sum of the acceptance rates along HORIZON tokens of a version's own texts."""
    xp, q, p = chains(draft_chain=draft_chain, new_chain=new_chain)
    return xp.clip(xp.sum(_along(xp, p, acceptance_rate(p, q)), axis=-1), max=float(HORIZON))


def own_texts_same(draft_chain: Array, old_chain: Array, new_chain: Array) -> Array:
    """Return that sum less the sum of the distances, each counted once."""
    xp, q, p, r = chains(draft_chain=draft_chain, old_chain=old_chain, new_chain=new_chain)
    return xp.clip(own_texts(q, p) - xp.sum(_along(xp, p, distance(xp, p, r)), axis=-1), min=0.0)
