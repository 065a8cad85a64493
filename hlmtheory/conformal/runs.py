"""Runs of the controller over rows, and the sides of the claims, in the notation of :mod:`hlmtheory.conformal`."""

from __future__ import annotations

from typing import Any

from hlmtheory._array import Array, arrays
from hlmtheory._domains import DomainError, leading_dimensions
from hlmtheory._simplex import distributions
from hlmtheory.conformal.controller import (
    DOMAINS,
    Run,
    ThresholdController,
    regret_bound,
    setting,
    sharp_bound,
    with_positions,
)


def admissible(xp: Any, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """Return τ_1, raised to the lowest that a controller accepts; an instance with a lower one is out of scope."""
    return xp.maximum(threshold, -learning_rate * (1.0 - epsilon))


def recorded(
    drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array, *, clip: bool = False
) -> tuple[Run, Array]:
    """Run a :class:`ThresholdController`; return also by how much each τ was clipped."""
    xp, drafts, *given = arrays(drafts=drafts, epsilon=epsilon, learning_rate=learning_rate, threshold=threshold)
    _, target, rate, tau = setting(*given)
    _, _, rows = distributions(drafts=with_positions(drafts, 1))
    leading_dimensions(drafts=tuple(rows.shape[:-2]), threshold=tuple((target + rate + tau).shape))
    found = ThresholdController(target, rate, admissible(xp, target, rate, tau), clip=clip).run(rows)
    return found, excess_over_top(xp, rows, found.level[..., :-1], clip=clip)


def excess_over_top(xp: Any, q: Array, threshold: Array, *, clip: bool) -> Array:
    """Return C = (τ - max q)⁺; 0 without a clip."""
    over = threshold - xp.max(q, axis=-1)
    return xp.clip(over, min=0.0) if clip else xp.zeros_like(over)


def mean_dropped(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """Return the mean of d."""
    xp, _ = arrays(drafts=drafts)
    return xp.mean(recorded(drafts, epsilon, learning_rate, threshold)[0].dropped, axis=-1)


def positions(drafts: Array) -> int:
    """Return T."""
    return int(with_positions(drafts, 1).shape[-2])


def published(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """Return the published bound at the T of the rows."""
    return regret_bound(epsilon, learning_rate, threshold, positions(drafts))


def published_in_proof(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """Return ε + (|τ_1| + 1 + η)/(ηT), c-sqs (28), as the bound (9) plus their difference."""
    target, count = epsilon, positions(drafts)
    return published(drafts, epsilon, learning_rate, threshold) + (1.0 - target) / count


def sharp(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """Return the sharp bound at the T of the rows."""
    return sharp_bound(epsilon, learning_rate, threshold, positions(drafts))


def _excess(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array, *, clip: bool) -> Array:
    """Return the sum of d_n - ε."""
    xp, target = arrays(epsilon=epsilon)
    masses = recorded(drafts, epsilon, learning_rate, threshold, clip=clip)[0].dropped
    return xp.sum(masses - target[..., None], axis=-1)


def _movement(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array, *, clip: bool) -> Array:
    """Return (τ_1 - τ_{T+1} - Σ c_n)/η."""
    xp, rate = arrays(learning_rate=learning_rate)
    found, clipped = recorded(drafts, epsilon, learning_rate, threshold, clip=clip)
    return (found.level[..., 0] - found.level[..., -1] - xp.sum(clipped, axis=-1)) / rate


def roundings(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """Return the condition number: each position adds a rounding error of the threshold, divided by η."""
    xp, rate = arrays(learning_rate=learning_rate)
    largest = xp.max(xp.abs(recorded(drafts, epsilon, learning_rate, threshold)[0].level), axis=-1)
    return float(drafts.shape[-2]) * (1.0 + largest / rate)


def lowest(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """Return minus the lowest threshold."""
    xp, _ = arrays(drafts=drafts)
    return -xp.min(recorded(drafts, epsilon, learning_rate, threshold)[0].level, axis=-1)


def highest(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """Return the largest threshold after the first."""
    xp, _ = arrays(drafts=drafts)
    return xp.max(recorded(drafts, epsilon, learning_rate, threshold)[0].level[..., 1:], axis=-1)


def overshoot(epsilon: Array, learning_rate: Array) -> Array:
    """Return 1 + ηε."""
    _, target, rate, _ = setting(epsilon, learning_rate, 0.0)
    return 1.0 + rate * target


def undershoot(epsilon: Array, learning_rate: Array) -> Array:
    """Return η(1 - ε)."""
    _, target, rate, _ = setting(epsilon, learning_rate, 0.0)
    return rate * (1.0 - target)


def high_enough(epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """Return whether τ_1 ≥ -η(1 - ε)."""
    _, target, rate, tau = setting(epsilon, learning_rate, threshold)
    return tau >= -rate * (1.0 - target)


def small_step(epsilon: Array, learning_rate: Array) -> Array:
    """Return whether η(1 - 2ε) ≤ 1."""
    _, target, rate, _ = setting(epsilon, learning_rate, 0.0)
    return rate * (1.0 - 2.0 * target) <= 1.0


def window(drafts: Array, steps: Array) -> Array:
    """Return the length of a window, which is within the given positions."""
    xp, count = arrays(steps=steps)
    length = positions(drafts)
    if not bool(xp.all((count >= 1) & (count <= length))):
        raise DomainError(f"steps must be in 1..{length}, the positions given; got {count}; shorten the window")
    return count


def summed(drafts: Array, target_scale: Array, learning_scale: Array, threshold: Array) -> Array:
    """Return Σ d_n with ε = d/√T and η = c/√T."""
    d, c, root = _scales(drafts, target_scale, learning_scale)
    return root * root * mean_dropped(drafts, d / root, c / root, threshold)


def rate_bound(drafts: Array, target_scale: Array, learning_scale: Array, threshold: Array) -> Array:
    """Return the bound (30) at this T."""
    d, c, root = _scales(drafts, target_scale, learning_scale)
    return root * root * sharp_bound(d / root, c / root, threshold, positions(drafts))


def excess(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """Return the sum of d_n - ε."""
    return _excess(drafts, epsilon, learning_rate, threshold, clip=False)


def movement(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """Return (τ_1 - τ_{T+1})/η."""
    return _movement(drafts, epsilon, learning_rate, threshold, clip=False)


def first_high_enough(drafts: Array, target_scale: Array, learning_scale: Array, threshold: Array) -> Array:
    """Return whether τ_1 ≥ -η(1 - ε) for ε = d/√T and η = c/√T."""
    d, c, root = _scales(drafts, target_scale, learning_scale)
    return high_enough(d / root, c / root, threshold)


def absolute_movement(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """Return |τ_1 - τ_{T+1}|/η."""
    return abs(movement(drafts, epsilon, learning_rate, threshold))


def _scales(drafts: Array, target_scale: Array, learning_scale: Array) -> tuple[Array, Array, float]:
    """Return d, c and √T."""
    xp, d, c = arrays(target_scale=target_scale, learning_scale=learning_scale)
    for name, value in (("target_scale", d), ("learning_scale", c)):
        DOMAINS[name].check(xp, name, value)
    return d, c, float(positions(drafts)) ** 0.5
