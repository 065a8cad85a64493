"""Sides of the theorems on lossy acceptance."""

from typing import Any

from hlmtheory._array import Array, arrays
from hlmtheory._domains import UNIT_INTERVAL, mask
from hlmtheory._simplex import distance, distributions, rejection_by_token, skip_probabilities
from hlmtheory.sides.block_sides import tree_rows
from hlmtheory.verification.rule import total_variation


def masses(target: Array, draft: Array, accept: Array, replacement: Array) -> tuple[Any, ...]:
    """Return the namespace, p, q, q a and (1 - A) r."""
    xp, _, p, q, resampled = distributions(target=target, draft=draft, replacement=replacement)
    kept = q * skip_probabilities(xp, accept, q, "accept")
    return xp, p, q, kept, (1.0 - xp.sum(kept, axis=-1, keepdims=True)) * resampled


def rate(target: Array, draft: Array, accept: Array, replacement: Array) -> Array:
    """Return A = Σ q a."""
    xp, _, _, kept, _ = masses(target, draft, accept, replacement)
    return xp.sum(kept, axis=-1)


def line(target: Array, draft: Array, accept: Array, replacement: Array) -> Array:
    """Return 1 - T + e, with e as half the sum of absolute differences."""
    xp, p, q, kept, resampled = masses(target, draft, accept, replacement)
    return 1.0 - distance(xp, p, q) + 0.5 * xp.sum(xp.abs(kept + resampled - p), axis=-1)


def skipping_accept(target: Array, draft: Array, skip: Array) -> Array:
    """Return a = 1 - (1 - s) β: any acceptance that is at least the lossless one."""
    xp, _, p, q = distributions(target=target, draft=draft)
    return 1.0 - (1.0 - skip_probabilities(xp, skip, q)) * rejection_by_token(xp, p, q)


def mixture(target: Array, draft: Array, mix: Array) -> Array:
    """Return π = (1 - δ) q + δ p."""
    xp, _, p, q = distributions(target=target, draft=draft)
    share = UNIT_INTERVAL.check(xp, "mix", arrays(rows=q, mix=mix)[2])[..., None]
    return (1.0 - share) * q + share * p


def cascade_line(target: Array, draft: Array, cascade: Array) -> Array:
    _, _, p, q, law = distributions(target=target, draft=draft, cascade=cascade)
    return 1.0 - total_variation(p, q) + total_variation(law, p)


def rounds_side(targets: Array, drafts: Array, skips: Array) -> tuple[Any, Array, Array, Array]:
    """Return the namespace, p, q and a of every prefix, (..., N, V); skipped drafts are kept."""
    xp, p, q = tree_rows(targets, drafts)
    skipped = mask(xp, "skips", arrays(rows=q, skips=skips)[2])
    return xp, p, q, xp.where(skipped, 1.0, 1.0 - rejection_by_token(xp, p, q))


def split_side(acceptances: Array, relaxed: Array) -> tuple[Any, Array, Array]:
    """Return the namespace, α_i (..., D) and e_i = (1 - α_i) times the relaxed share of draft i."""
    xp, alpha, share = arrays(acceptances=acceptances, relaxed=relaxed)
    alpha, share = (UNIT_INTERVAL.check(xp, name, one) for name, one in (("acceptances", alpha), ("relaxed", share)))
    alpha, share = xp.broadcast_arrays(alpha, share)
    return xp, alpha, (1.0 - alpha) * share


def never_rises(acceptances: Array, relaxed: Array) -> Array:
    xp, alpha, _ = split_side(acceptances, relaxed)
    return xp.all(alpha[..., 1:] <= alpha[..., :-1], axis=-1)


def rounding(target: Array, draft: Array) -> float:
    return 16.0


HALVES = {"target": [0.25, 0.75], "draft": [0.5, 0.5]}
