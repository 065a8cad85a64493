"""Sides of the theorems on how many entries to send."""

from typing import Any

from hlmtheory._array import Array, arrays
from hlmtheory._simplex import distance, distributions, quotient
from hlmtheory.truncation.sizes import TOLERANCE, exact_size, least_offline

TARGETED = 0.1
"""Value of θ in cu-hlm V-B, also used for ε in the claims."""


def theta_side(distortion_tolerance: Array) -> Array:
    xp, theta = arrays(distortion_tolerance=distortion_tolerance)
    return TOLERANCE.check(xp, "distortion_tolerance", theta)


def sends_something(target: Array, draft: Array, distortion_tolerance: Array) -> Array:
    return exact_size(target, draft, distortion_tolerance) > 0


def many_side(targets: Array, drafts: Array) -> tuple[Any, Array, Array]:
    """Return the checked rows of several tokens; errors use the names of the instance."""
    xp, _, p, q = distributions(targets=targets, drafts=drafts)
    return xp, p, q


def offline_k(targets: Array, drafts: Array, distortion_tolerance: Array) -> Array:
    """Return the k of (21); where target = draft, which is out of scope, TV(q, p) is replaced by 1."""
    xp, p, q = many_side(targets, drafts)
    apart = distance(xp, p, q)
    return least_offline(xp, q, xp.where(apart > 0, apart, 1.0), theta_side(distortion_tolerance), sharp=False)


def all_differ(targets: Array, drafts: Array) -> Array:
    xp, p, q = many_side(targets, drafts)
    return xp.all(distance(xp, p, q) > 0, axis=-1)


def largest_inverse(targets: Array, drafts: Array) -> Array:
    """Return max_t 1/TV(q, p), because the least certain term determines the error of the mean."""
    xp, p, q = many_side(targets, drafts)
    apart = distance(xp, p, q)
    return xp.max(quotient(xp, xp.ones_like(apart), apart), axis=-1)


def offline_sends(targets: Array, drafts: Array, distortion_tolerance: Array) -> Array:
    return offline_k(targets, drafts, distortion_tolerance) > 0


def aimed(draft: Array) -> Array:
    """Return θ or ε = 0.1 for each row."""
    xp, q = arrays(draft=draft)
    return xp.zeros_like(q[..., 0]) + TARGETED


TIGHT = {"target": [0.5, 0.25, 0.25], "draft": [0.625, 0.25, 0.125]}
