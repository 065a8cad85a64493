"""Runs of a threshold over rows, and the sides of the claims of :mod:`hlmtheory.conformal`, with its notation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hlmtheory._array import Array, arrays
from hlmtheory._domains import COUNT, DomainError, leading_dimensions
from hlmtheory._simplex import distributions
from hlmtheory.conformal.controller import (
    DOMAINS,
    ThresholdController,
    dropped,
    regret_bound,
    resumed,
    setting,
    sharp_bound,
    threshold_support,
)


@dataclass(frozen=True, slots=True)
class Run:
    """What a threshold did on rows (..., T, V)."""

    dropped: Array  # (..., T)
    thresholds: Array  # (..., T + 1)
    clipped: Array  # (..., T)


def run(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array, *, clip: bool = False) -> Run:
    """(8) over all rows, without checkpoints."""
    xp, drafts, *given = arrays(drafts=drafts, epsilon=epsilon, learning_rate=learning_rate, threshold=threshold)
    _, target, rate, tau = setting(*given)
    _, _, rows = distributions(drafts=with_positions(drafts, 1))
    batch = leading_dimensions(drafts=tuple(rows.shape[:-2]), threshold=tuple((target + rate + tau).shape))
    taus, masses, clips = [xp.broadcast_to(tau, batch)], [], []
    for n in range(rows.shape[-2]):
        q, used = rows[..., n, :], taus[-1]
        used = xp.minimum(used, xp.max(q, axis=-1)) if clip else used
        clips.append(taus[-1] - used)
        masses.append(dropped(xp, q, threshold_support(q, used)))
        taus.append(used - rate * (masses[-1] - target))
    return Run(*(xp.stack(values, axis=-1) for values in (masses, taus, clips)))


def with_positions(drafts: Array, axes: int) -> Array:
    """Rows with at least so many axes of positions before the vocabulary, each with an entry."""
    if drafts.ndim <= axes or 0 in drafts.shape[-axes - 1 :]:
        raise DomainError(
            f"drafts must have {axes + 1} axes, positions and vocabulary; got shape {tuple(drafts.shape)}; "
            "give one row a position"
        )
    return drafts


def mean_dropped(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """Mean d."""
    xp, _ = arrays(drafts=drafts)
    return xp.mean(run(drafts, epsilon, learning_rate, threshold).dropped, axis=-1)


def clipped_mean(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """Mean d with the clip."""
    xp, _ = arrays(drafts=drafts)
    return xp.mean(run(drafts, epsilon, learning_rate, threshold, clip=True).dropped, axis=-1)


def positions(drafts: Array) -> int:
    """T."""
    return int(with_positions(drafts, 1).shape[-2])


def published(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """The published bound at this T."""
    return regret_bound(epsilon, learning_rate, threshold, positions(drafts))


def sharp(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """The sharp bound at this T."""
    return sharp_bound(epsilon, learning_rate, threshold, positions(drafts))


def _excess(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array, *, clip: bool) -> Array:
    """Sum of d_n - ε."""
    xp, target = arrays(epsilon=epsilon)
    masses = run(drafts, epsilon, learning_rate, threshold, clip=clip).dropped
    return xp.sum(masses - target[..., None], axis=-1)


def _movement(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array, *, clip: bool) -> Array:
    """Way of the threshold, less what was clipped, over η."""
    xp, rate = arrays(learning_rate=learning_rate)
    found = run(drafts, epsilon, learning_rate, threshold, clip=clip)
    taus = found.thresholds
    return (taus[..., 0] - taus[..., -1] - xp.sum(found.clipped, axis=-1)) / rate


def roundings(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """A rounding error of a threshold is divided by η, and there is one a position."""
    xp, rate = arrays(learning_rate=learning_rate)
    largest = xp.max(xp.abs(run(drafts, epsilon, learning_rate, threshold).thresholds), axis=-1)
    return float(drafts.shape[-2]) * (1.0 + largest / rate)


def lowest(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """Minus the least threshold."""
    xp, _ = arrays(drafts=drafts)
    return -xp.min(run(drafts, epsilon, learning_rate, threshold).thresholds, axis=-1)


def highest(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """The largest threshold after the first."""
    xp, _ = arrays(drafts=drafts)
    return xp.max(run(drafts, epsilon, learning_rate, threshold).thresholds[..., 1:], axis=-1)


def highest_clipped(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """The same with the clip."""
    xp, _ = arrays(drafts=drafts)
    return xp.max(run(drafts, epsilon, learning_rate, threshold, clip=True).thresholds[..., 1:], axis=-1)


def overshoot(epsilon: Array, learning_rate: Array) -> Array:
    """1 + ηε."""
    _, target, rate, _ = setting(epsilon, learning_rate, 0.0)
    return 1.0 + rate * target


def undershoot(epsilon: Array, learning_rate: Array) -> Array:
    """η(1 - ε)."""
    _, target, rate, _ = setting(epsilon, learning_rate, 0.0)
    return rate * (1.0 - target)


def high_enough(epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """Whether τ_1 ≥ -η(1 - ε)."""
    _, target, rate, tau = setting(epsilon, learning_rate, threshold)
    return tau >= -rate * (1.0 - target)


def small_step(epsilon: Array, learning_rate: Array) -> Array:
    """Whether η(1 - 2ε) ≤ 1."""
    _, target, rate, _ = setting(epsilon, learning_rate, 0.0)
    return rate * (1.0 - 2.0 * target) <= 1.0


def clipped_bound(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """The sharp bound, less what was clipped over ηT."""
    xp, rate = arrays(learning_rate=learning_rate)
    clipped = run(drafts, epsilon, learning_rate, threshold, clip=True).clipped
    return sharp(drafts, epsilon, learning_rate, threshold) - xp.mean(clipped, axis=-1) / rate


def _window_mean(
    drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array, steps: Array, *, clip: bool
) -> Array:
    """Mean dropped mass of the last T positions."""
    xp, drafts, steps = arrays(drafts=drafts, steps=steps)
    count = window(drafts, steps)
    masses = run(drafts, epsilon, learning_rate, threshold, clip=clip).dropped
    inside = xp.arange(masses.shape[-1], device=masses.device) >= masses.shape[-1] - count[..., None]
    return xp.sum(xp.where(inside, masses, 0.0), axis=-1) / xp.astype(count, masses.dtype)


def window_bound(drafts: Array, epsilon: Array, learning_rate: Array, steps: Array) -> Array:
    """The sharp bound with the largest probability of the window's first row for τ_1."""
    xp, drafts, steps = arrays(drafts=drafts, steps=steps)
    _, _, rows = distributions(drafts=with_positions(drafts, 1))
    count = window(drafts, steps)
    first = xp.arange(rows.shape[-2], device=rows.device) == rows.shape[-2] - count[..., None]
    top = xp.max(xp.where(first, xp.max(rows, axis=-1), 0.0), axis=-1)
    return sharp_bound(epsilon, learning_rate, top, count)


def window(drafts: Array, steps: Array) -> Array:
    """The length of a window, within the positions given."""
    xp, count = arrays(steps=steps)
    length = positions(drafts)
    if not bool(xp.all((count >= 1) & (count <= length))):
        raise DomainError(f"steps must be in 1..{length}, the positions given; got {count}; shorten the window")
    return count


def batches(drafts: Array, accepted: Array) -> tuple[Any, Array, Array]:
    """Rows (..., B, L, V) of B batches of L drafts, and how many of each are accepted."""
    xp, drafts, accepted = arrays(drafts=drafts, accepted=accepted)
    _, _, rows = distributions(drafts=with_positions(drafts, 2))
    accepted = COUNT.check(xp, "accepted", accepted)
    if accepted.ndim == 0 or accepted.shape[-1] != rows.shape[-3] or bool(xp.any(accepted > rows.shape[-2])):
        raise DomainError(
            f"accepted must be a number up to L for each batch of L drafts; got {accepted} for rows of shape "
            f"{tuple(rows.shape)}; give one count a batch"
        )
    return xp, rows, accepted


def rolled_back(drafts: Array, accepted: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """The last threshold of a controller that drafts all, and rolls back."""
    _, rows, accepted = batches(drafts, accepted)
    controller = ThresholdController(epsilon, learning_rate, threshold)
    for batch in range(rows.shape[-3]):
        for n in range(rows.shape[-2]):
            controller.step(rows[..., batch, n, :])
        controller.roll_back(accepted[..., batch])
    return controller.threshold


def _kept(
    drafts: Array, accepted: Array, epsilon: Array, learning_rate: Array, threshold: Array
) -> tuple[Array, Array, Array]:
    """Summed dropped mass of the accepted and the rejected positions, their number, and the last threshold.

    Of these positions alone, as if there were no others: what drafting ahead and rolling back is to come to.
    """
    xp, rows, accepted = batches(drafts, accepted)
    _, target, rate, tau = setting(*arrays(rows=rows, e=epsilon, l=learning_rate, t=threshold)[2:])
    total, count, used = 0.0 * rows[..., 0, 0, 0], 0.0 * rows[..., 0, 0, 0], tau + 0.0 * rows[..., 0, 0, 0]
    for batch in range(rows.shape[-3]):
        done = accepted[..., batch]
        for n in range(rows.shape[-2]):
            q = rows[..., batch, n, :]
            mass = dropped(xp, q, threshold_support(q, used))
            total, count = (xp.where(done >= n, value + more, value) for value, more in ((total, mass), (count, 1.0)))
            used = xp.where(done >= n, used - rate * (mass - target), used)
    return total, count, used


def kept_mean(drafts: Array, accepted: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """Mean d over accepted and rejected positions, the rejected one's own d in line 12."""
    total, count, _ = _kept(drafts, accepted, epsilon, learning_rate, threshold)
    return total / count


def _printed(
    drafts: Array, accepted: Array, epsilon: Array, learning_rate: Array, threshold: Array
) -> tuple[Array, Array, Array]:
    """Summed dropped mass of the accepted positions, and of these and the rejected, and the number of the latter.

    By Algorithm 1 as printed: all positions are drafted, and line 12 has the last accepted one's d.
    """
    xp, rows, accepted = batches(drafts, accepted)
    _, target, rate, tau = setting(*arrays(rows=rows, e=epsilon, l=learning_rate, t=threshold)[2:])
    zero = 0.0 * rows[..., 0, 0, 0]
    total, kept, count, used = zero, zero, zero, tau + zero
    for batch in range(rows.shape[-3]):
        done, taus = accepted[..., batch], [used]
        for n in range(rows.shape[-2]):
            q = rows[..., batch, n, :]
            mass = dropped(xp, q, threshold_support(q, taus[-1]))
            total = xp.where(done > n, total + mass, total)
            kept, count = (xp.where(done >= n, value + more, value) for value, more in ((kept, mass), (count, 1.0)))
            taus.append(taus[-1] - rate * (mass - target))  # line 8
        used = resumed(xp, taus, done, printed=True)  # line 12
    return total, kept, count


def kept_mean_printed(drafts: Array, accepted: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """Mean d over accepted and rejected positions by Algorithm 1 as printed."""
    _, kept, count = _printed(drafts, accepted, epsilon, learning_rate, threshold)
    return kept / count


def accepted_mean_printed(
    drafts: Array, accepted: Array, epsilon: Array, learning_rate: Array, threshold: Array
) -> Array:
    """Mean d over the accepted positions by Algorithm 1 as printed; 0 where there are none."""
    total, _, _ = _printed(drafts, accepted, epsilon, learning_rate, threshold)
    xp, count = arrays(count=accepted_count(drafts, accepted))
    return total / xp.astype(count, total.dtype)


def accepted_bound(drafts: Array, accepted: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """The sharp bound at the number of positions accepted."""
    return sharp_bound(epsilon, learning_rate, threshold, accepted_count(drafts, accepted))


def accepted_count(drafts: Array, accepted: Array) -> Array:
    """How many positions are accepted, 1 where none is."""
    xp, _, done = batches(drafts, accepted)
    count = xp.sum(done, axis=-1)
    return xp.where(count > 0, count, 1)


def kept_threshold(drafts: Array, accepted: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """The last threshold of a run over the accepted and rejected positions alone."""
    return _kept(drafts, accepted, epsilon, learning_rate, threshold)[2]


def kept_bound(drafts: Array, accepted: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """The sharp bound at the number of positions kept."""
    xp, rows, done = batches(drafts, accepted)
    count = xp.sum(xp.where(done < rows.shape[-2], done + 1, done), axis=-1)
    return sharp_bound(epsilon, learning_rate, threshold, count)


def summed(drafts: Array, target_scale: Array, learning_scale: Array, threshold: Array) -> Array:
    """Σ d_n with ε = d/√T and η = c/√T."""
    d, c, root = _scales(drafts, target_scale, learning_scale)
    return root * root * mean_dropped(drafts, d / root, c / root, threshold)


def rate_bound(drafts: Array, target_scale: Array, learning_scale: Array, threshold: Array) -> Array:
    """The bound (30) at this T."""
    d, c, root = _scales(drafts, target_scale, learning_scale)
    return root * root * sharp_bound(d / root, c / root, threshold, positions(drafts))


def excess(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """Sum of d_n - ε."""
    return _excess(drafts, epsilon, learning_rate, threshold, clip=False)


def clipped_excess(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """The same with the clip."""
    return _excess(drafts, epsilon, learning_rate, threshold, clip=True)


def movement(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """Way of the threshold over η."""
    return _movement(drafts, epsilon, learning_rate, threshold, clip=False)


def clipped_movement(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """The same with the clip, less what that took off."""
    return _movement(drafts, epsilon, learning_rate, threshold, clip=True)


def window_mean(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array, steps: Array) -> Array:
    """Mean d of the last T positions."""
    return _window_mean(drafts, epsilon, learning_rate, threshold, steps, clip=False)


def clipped_window_mean(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array, steps: Array) -> Array:
    """The same with the clip."""
    return _window_mean(drafts, epsilon, learning_rate, threshold, steps, clip=True)


def first_high_enough(drafts: Array, target_scale: Array, learning_scale: Array, threshold: Array) -> Array:
    """The assumption τ_1 ≥ -η(1 - ε) for ε = d/√T and η = c/√T."""
    d, c, root = _scales(drafts, target_scale, learning_scale)
    return high_enough(d / root, c / root, threshold)


def absolute_movement(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """|τ_1 - τ_{T+1}|/η."""
    return abs(movement(drafts, epsilon, learning_rate, threshold))


def _scales(drafts: Array, target_scale: Array, learning_scale: Array) -> tuple[Array, Array, float]:
    """d, c and √T."""
    xp, d, c = arrays(target_scale=target_scale, learning_scale=learning_scale)
    for name, value in (("target_scale", d), ("learning_scale", c)):
        DOMAINS[name].check(xp, name, value)
    return d, c, float(positions(drafts)) ** 0.5
