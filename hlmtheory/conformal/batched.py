"""Sides of the claims of :mod:`hlmtheory.conformal` about drafting in batches and rolling back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hlmtheory._array import Array, arrays
from hlmtheory._domains import COUNT, DomainError
from hlmtheory._simplex import distributions
from hlmtheory.conformal.controller import ThresholdController, dropped, setting, sharp_bound, with_positions
from hlmtheory.conformal.runs import admissible, excess_over_top


@dataclass(frozen=True, slots=True)
class Drafted:
    """Sums over a run in which a controller drafts batches and rolls back, each of shape (...)."""

    accepted: Array  # Σ d over the accepted positions
    kept: Array  # Σ d over the accepted and the rejected positions
    clipped: Array  # Σ c over the accepted and the rejected positions
    count: Array  # number of accepted and rejected positions
    threshold: Array  # last threshold


def batches(drafts: Array, accepted: Array) -> tuple[Any, Array, Array]:
    """Check rows (..., B, L, V) of B batches of L drafts and the number accepted in each batch; return both."""
    xp, drafts, accepted = arrays(drafts=drafts, accepted=accepted)
    _, _, rows = distributions(drafts=with_positions(drafts, 2))
    accepted = COUNT.check(xp, "accepted", accepted)
    if accepted.ndim == 0 or accepted.shape[-1] != rows.shape[-3] or bool(xp.any(accepted > rows.shape[-2])):
        raise DomainError(
            f"accepted must be a number up to L for each batch of L drafts; got {accepted} for rows of shape "
            f"{tuple(rows.shape)}; give one count for each batch"
        )
    return xp, rows, accepted


def drafted_ahead(
    drafts: Array,
    accepted: Array,
    epsilon: Array,
    learning_rate: Array,
    threshold: Array,
    *,
    clip: bool = False,
    printed: bool = False,
) -> Drafted:
    """Run a controller that drafts all positions of a batch and then rolls back; return sums over its supports."""
    xp, rows, accepted = batches(drafts, accepted)
    _, target, rate, tau = setting(*arrays(rows=rows, e=epsilon, l=learning_rate, t=threshold)[2:])
    controller = ThresholdController(target, rate, admissible(xp, target, rate, tau), clip=clip)
    zero = 0.0 * (rows[..., 0, 0, 0] + tau)
    sums = [zero] * 4
    for batch in range(rows.shape[-3]):
        done = accepted[..., batch]
        for n in range(rows.shape[-2]):
            q = rows[..., batch, n, :]
            over = excess_over_top(xp, q, controller.threshold, clip=clip)
            mass = dropped(xp, q, controller.step(q))
            parts = ((done > n, mass), (done >= n, mass), (done >= n, over), (done >= n, 1.0))
            sums = [xp.where(where, value + more, value) for value, (where, more) in zip(sums, parts, strict=True)]
        controller.roll_back(done, printed=printed)
    accepted_sum, kept, clipped, count = sums
    return Drafted(accepted_sum, kept, clipped, count, controller.threshold + zero)


def rolled_back(drafts: Array, accepted: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """Return the last threshold of a controller that drafts whole batches and rolls back."""
    return drafted_ahead(drafts, accepted, epsilon, learning_rate, threshold).threshold


def _alone(
    drafts: Array, accepted: Array, epsilon: Array, learning_rate: Array, threshold: Array, *, clip: bool
) -> Array:
    """Return the last threshold of (6) and (8) over the accepted and rejected positions alone."""
    xp, rows, accepted = batches(drafts, accepted)
    _, target, rate, tau = setting(*arrays(rows=rows, e=epsilon, l=learning_rate, t=threshold)[2:])
    used = tau + 0.0 * rows[..., 0, 0, 0]
    for batch in range(rows.shape[-3]):
        for n in range(rows.shape[-2]):
            q = rows[..., batch, n, :]
            top = xp.max(q, axis=-1)
            level = xp.where(top < used, top, used) if clip else used
            below = q < level[..., None]
            last = xp.all(below, axis=-1, keepdims=True)  # no token reaches τ: keep the top token
            first = xp.arange(q.shape[-1], device=q.device) == xp.argmax(q, axis=-1, keepdims=True)
            mass = xp.sum(xp.where(below & ~(last & first), q, 0.0), axis=-1)
            used = xp.where(accepted[..., batch] >= n, level - rate * (mass - target), used)
    return used


def kept_threshold(drafts: Array, accepted: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """Return the last threshold of a run over the accepted and rejected positions alone."""
    return _alone(drafts, accepted, epsilon, learning_rate, threshold, clip=False)


def kept_mean(drafts: Array, accepted: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """Return the mean of d over accepted and rejected positions, with the rejected position's d in line 12."""
    found = drafted_ahead(drafts, accepted, epsilon, learning_rate, threshold)
    return found.kept / found.count


def kept_mean_printed(drafts: Array, accepted: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """Return the mean of d over accepted and rejected positions by Algorithm 1 as printed."""
    found = drafted_ahead(drafts, accepted, epsilon, learning_rate, threshold, printed=True)
    return found.kept / found.count


def accepted_mean_printed(
    drafts: Array, accepted: Array, epsilon: Array, learning_rate: Array, threshold: Array
) -> Array:
    """Return the mean of d over the accepted positions by Algorithm 1 as printed, or 0 if no position is accepted."""
    found = drafted_ahead(drafts, accepted, epsilon, learning_rate, threshold, printed=True)
    xp, count = arrays(count=accepted_count(drafts, accepted))
    return found.accepted / xp.astype(count, found.accepted.dtype)


def accepted_bound(drafts: Array, accepted: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """Return the sharp bound at the number of positions accepted."""
    return sharp_bound(epsilon, learning_rate, threshold, accepted_count(drafts, accepted))


def accepted_count(drafts: Array, accepted: Array) -> Array:
    """Return the number of accepted positions, or 1 if there are none."""
    xp, _, done = batches(drafts, accepted)
    count = xp.sum(done, axis=-1)
    return xp.where(count > 0, count, 1)


def kept_bound(drafts: Array, accepted: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """Return the sharp bound at the number of positions kept."""
    xp, rows, done = batches(drafts, accepted)
    count = xp.sum(xp.where(done < rows.shape[-2], done + 1, done), axis=-1)
    return sharp_bound(epsilon, learning_rate, threshold, count)
