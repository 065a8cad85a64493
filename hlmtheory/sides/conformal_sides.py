"""The sides of the claims of :mod:`hlmtheory.conformal`, in its notation."""

from dataclasses import dataclass
from typing import Any

from hlmtheory._array import Array, arrays
from hlmtheory._domains import COUNT, DomainError, leading_dimensions, mask
from hlmtheory._simplex import distributions
from hlmtheory.conformal import controller as control

# ------------------------------------------------------------------------------------------------- a threshold


def recorded(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> control.Run:
    """Return the run of a controller."""
    _, drafts, *given = arrays(drafts=drafts, epsilon=epsilon, learning_rate=learning_rate, threshold=threshold)
    _, target, rate, tau = control.setting(*given)
    _, _, rows = distributions(drafts=control.with_positions(drafts, 1))
    leading_dimensions(drafts=tuple(rows.shape[:-2]), threshold=tuple((target + rate + tau).shape))
    return control.ThresholdController(target, rate, tau).run(rows)


def mean_dropped(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    xp, masses = arrays(masses=recorded(drafts, epsilon, learning_rate, threshold).dropped)
    return xp.mean(masses, axis=-1)


def positions(drafts: Array) -> int:
    return int(control.with_positions(drafts, 1).shape[-2])


def published(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    return control.regret_bound(epsilon, learning_rate, threshold, positions(drafts))


def published_in_proof(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """Return ε + (|τ_1| + 1 + η)/(ηT), c-sqs (28), as the bound (9) plus their difference."""
    return published(drafts, epsilon, learning_rate, threshold) + (1.0 - epsilon) / positions(drafts)


def sharp(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    return control.sharp_bound(epsilon, learning_rate, threshold, positions(drafts))


def excess(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """Return the sum of d_n - ε."""
    xp, target = arrays(epsilon=epsilon)
    return xp.sum(recorded(drafts, epsilon, learning_rate, threshold).dropped - target[..., None], axis=-1)


def movement(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """Return (τ_1 - τ_{T+1})/η."""
    level = recorded(drafts, epsilon, learning_rate, threshold).level
    return (level[..., 0] - level[..., -1]) / arrays(learning_rate=learning_rate)[1]


def absolute_movement(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    return abs(movement(drafts, epsilon, learning_rate, threshold))


def roundings(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """Return the condition number: each position adds a rounding error of the threshold, divided by η."""
    xp, rate = arrays(learning_rate=learning_rate)
    largest = xp.max(xp.abs(recorded(drafts, epsilon, learning_rate, threshold).level), axis=-1)
    return float(drafts.shape[-2]) * (1.0 + largest / rate)


def lowest(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """Return minus the lowest threshold."""
    xp, level = arrays(level=recorded(drafts, epsilon, learning_rate, threshold).level)
    return -xp.min(level, axis=-1)


def highest(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """Return the largest threshold after the first."""
    xp, level = arrays(level=recorded(drafts, epsilon, learning_rate, threshold).level)
    return xp.max(level[..., 1:], axis=-1)


def printed_levels(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> tuple[Array, Array]:
    """Return the smallest and the largest threshold of (6) as printed, under which no token may be left, and (8)."""
    xp, drafts, *given = arrays(drafts=drafts, epsilon=epsilon, learning_rate=learning_rate, threshold=threshold)
    _, target, rate, tau = control.setting(*given)
    _, _, rows = distributions(drafts=control.with_positions(drafts, 1))
    smallest = largest = tau = tau + 0.0 * rows[..., 0, 0]
    for n in range(rows.shape[-2]):
        q = rows[..., n, :]
        kept = q >= tau[..., None]
        mass = xp.where(xp.any(kept, axis=-1), control.dropped(xp, q, kept), 1.0)
        tau = tau - rate * (mass - target)
        smallest, largest = xp.minimum(smallest, tau), xp.maximum(largest, tau)
    return smallest, largest


def highest_printed(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    return printed_levels(drafts, epsilon, learning_rate, threshold)[1]


def beyond_printed(drafts: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """Return the largest excess of a threshold over its bound of Lemma 4; it is negative if all keep their bounds."""
    smallest, largest = printed_levels(drafts, epsilon, learning_rate, threshold)
    xp, above = arrays(above=largest - overshoot(epsilon, learning_rate))
    return xp.maximum(above, -smallest - undershoot(epsilon, learning_rate))


def nothing(epsilon: Array) -> Array:
    return 0.0 * arrays(epsilon=epsilon)[1]


def overshoot(epsilon: Array, learning_rate: Array) -> Array:
    _, target, rate, _ = control.setting(epsilon, learning_rate, 0.0)
    return 1.0 + rate * target


def undershoot(epsilon: Array, learning_rate: Array) -> Array:
    _, target, rate, _ = control.setting(epsilon, learning_rate, 0.0)
    return rate * (1.0 - target)


def high_enough(epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    _, target, rate, tau = control.setting(epsilon, learning_rate, threshold)
    return tau >= -rate * (1.0 - target)


def low_enough(epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    return arrays(threshold=threshold)[1] <= overshoot(epsilon, learning_rate)


def small_step(epsilon: Array, learning_rate: Array) -> Array:
    _, target, rate, _ = control.setting(epsilon, learning_rate, 0.0)
    return rate * (1.0 - 2.0 * target) <= 1.0


def _scales(drafts: Array, target_scale: Array, learning_scale: Array) -> tuple[Array, Array, float]:
    """Return ε = d/√T, η = c/√T and T."""
    xp, d, c = arrays(target_scale=target_scale, learning_scale=learning_scale)
    for name, value in (("target_scale", d), ("learning_scale", c)):
        control.DOMAINS[name].check(xp, name, value)
    count = float(positions(drafts))
    return d / count**0.5, c / count**0.5, count


def summed(drafts: Array, target_scale: Array, learning_scale: Array, threshold: Array) -> Array:
    """Return Σ d_n."""
    epsilon, rate, count = _scales(drafts, target_scale, learning_scale)
    return count * mean_dropped(drafts, epsilon, rate, threshold)


def rate_bound(drafts: Array, target_scale: Array, learning_scale: Array, threshold: Array) -> Array:
    epsilon, rate, count = _scales(drafts, target_scale, learning_scale)
    return count * control.sharp_bound(epsilon, rate, threshold, positions(drafts))


def first_high_enough(drafts: Array, target_scale: Array, learning_scale: Array, threshold: Array) -> Array:
    epsilon, rate, _ = _scales(drafts, target_scale, learning_scale)
    return high_enough(epsilon, rate, threshold)


# ---------------------------------------------------------------------------------- drafts in batches, rolled back


@dataclass(frozen=True, slots=True)
class Drafted:
    """Sums over a run in which a controller drafts batches and rolls back, each of shape (...)."""

    accepted: Array  # Σ d over the accepted positions
    kept: Array  # Σ d over the accepted and the rejected positions
    count: Array  # number of accepted and rejected positions
    threshold: Array  # last threshold


def _batches(drafts: Array, accepted: Array) -> tuple[Any, Array, Array]:
    """Check rows (..., B, L, V) of B batches of L drafts and the number accepted in each batch; return both."""
    xp, drafts, accepted = arrays(drafts=drafts, accepted=accepted)
    _, _, rows = distributions(drafts=control.with_positions(drafts, 2))
    accepted = COUNT.check(xp, "accepted", accepted)
    if accepted.ndim == 0 or accepted.shape[-1] != rows.shape[-3] or bool(xp.any(accepted > rows.shape[-2])):
        raise DomainError(
            f"accepted must be a number up to L for each batch of L drafts; got {accepted} for rows of shape "
            f"{tuple(rows.shape)}; give one count for each batch"
        )
    return xp, rows, accepted


def _drafted(
    drafts: Array, accepted: Array, epsilon: Array, learning_rate: Array, threshold: Array, *, printed: bool = False
) -> Drafted:
    """Run a controller that drafts all positions of a batch and then rolls back; return sums over its supports."""
    xp, rows, accepted = _batches(drafts, accepted)
    _, target, rate, tau = control.setting(*arrays(rows=rows, e=epsilon, l=learning_rate, t=threshold)[2:])
    controller = control.ThresholdController(target, rate, tau)
    zero = 0.0 * (rows[..., 0, 0, 0] + tau)
    sums = [zero] * 3
    for batch in range(rows.shape[-3]):
        done = accepted[..., batch]
        for n in range(rows.shape[-2]):
            q = rows[..., batch, n, :]
            mass = control.dropped(xp, q, controller.step(q))
            parts = ((done > n, mass), (done >= n, mass), (done >= n, 1.0))
            sums = [xp.where(where, value + more, value) for value, (where, more) in zip(sums, parts, strict=True)]
        controller.roll_back(done, printed=printed)
    of_accepted, of_kept, count = sums
    return Drafted(of_accepted, of_kept, count, controller.threshold + zero)


def rolled_back(drafts: Array, accepted: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    return _drafted(drafts, accepted, epsilon, learning_rate, threshold).threshold


def kept_threshold(drafts: Array, accepted: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """Return the last threshold of (6) and (8) over the accepted and rejected positions alone."""
    xp, rows, accepted = _batches(drafts, accepted)
    _, target, rate, tau = control.setting(*arrays(rows=rows, e=epsilon, l=learning_rate, t=threshold)[2:])
    used = tau + 0.0 * rows[..., 0, 0, 0]
    for batch in range(rows.shape[-3]):
        for n in range(rows.shape[-2]):
            q = rows[..., batch, n, :]
            below = q < used[..., None]
            last = xp.all(below, axis=-1, keepdims=True)  # no token reaches τ: keep the top token
            first = xp.arange(q.shape[-1], device=q.device) == xp.argmax(q, axis=-1, keepdims=True)
            mass = xp.sum(xp.where(below & ~(last & first), q, 0.0), axis=-1)
            used = xp.where(accepted[..., batch] >= n, used - rate * (mass - target), used)
    return used


def kept_mean(drafts: Array, accepted: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """Return the mean of d over accepted and rejected positions, with the rejected position's d in line 12."""
    found = _drafted(drafts, accepted, epsilon, learning_rate, threshold)
    return found.kept / found.count


def kept_mean_printed(drafts: Array, accepted: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    """Return the mean of d over accepted and rejected positions by Algorithm 1 as printed."""
    found = _drafted(drafts, accepted, epsilon, learning_rate, threshold, printed=True)
    return found.kept / found.count


def accepted_mean_printed(
    drafts: Array, accepted: Array, epsilon: Array, learning_rate: Array, threshold: Array
) -> Array:
    """Return the mean of d over the accepted positions by Algorithm 1 as printed, or 0 if no position is accepted."""
    found = _drafted(drafts, accepted, epsilon, learning_rate, threshold, printed=True)
    xp, count = arrays(count=_accepted_count(drafts, accepted))
    return found.accepted / xp.astype(count, found.accepted.dtype)


def _accepted_count(drafts: Array, accepted: Array) -> Array:
    """Return the number of accepted positions, at least 1."""
    xp, _, done = _batches(drafts, accepted)
    count = xp.sum(done, axis=-1)
    return xp.where(count > 0, count, 1)


def accepted_bound(drafts: Array, accepted: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    return control.sharp_bound(epsilon, learning_rate, threshold, _accepted_count(drafts, accepted))


def _kept_count(drafts: Array, accepted: Array) -> Array:
    xp, rows, done = _batches(drafts, accepted)
    return xp.sum(xp.where(done < rows.shape[-2], done + 1, done), axis=-1)


def kept_bound(drafts: Array, accepted: Array, epsilon: Array, learning_rate: Array, threshold: Array) -> Array:
    return control.sharp_bound(epsilon, learning_rate, threshold, _kept_count(drafts, accepted))


def kept_bound_published(
    drafts: Array, accepted: Array, epsilon: Array, learning_rate: Array, threshold: Array
) -> Array:
    return control.regret_bound(epsilon, learning_rate, threshold, _kept_count(drafts, accepted))


# --------------------------------------------------------------------------------------- a budget of dropped mass


def largest_mean(drafts: Array, epsilon: Array) -> Array:
    """Return the largest mean of d_n over the first T positions, over all T."""
    _, drafts, epsilon = arrays(drafts=drafts, epsilon=epsilon)
    _, _, rows = distributions(drafts=control.with_positions(drafts, 1))
    xp, masses = arrays(masses=control.MassBudgetController(epsilon).run(rows).dropped)
    count = xp.arange(1, masses.shape[-1] + 1, dtype=xp.float64, device=masses.device)
    return xp.max(xp.cumulative_sum(masses, axis=-1) / count, axis=-1)


def target(epsilon: Array) -> Array:
    xp, epsilon = arrays(epsilon=epsilon)
    return control.DOMAINS["epsilon"].check(xp, "epsilon", epsilon)


def _others(drafts: Array, supports: Array) -> tuple[Any, Array, Array]:
    """Return rows and other supports, one for each."""
    xp, drafts, supports = arrays(drafts=drafts, supports=supports)
    _, _, rows = distributions(drafts=control.with_positions(drafts, 1))
    kept = mask(xp, "supports", supports)
    if tuple(kept.shape[-2:]) != tuple(rows.shape[-2:]):
        raise DomainError(
            f"supports must have one row for each of drafts; got shapes {tuple(kept.shape)} and {tuple(rows.shape)}; "
            "give one support for each position"
        )
    return xp, rows, kept


def others_total(drafts: Array, supports: Array) -> Array:
    xp, _, kept = _others(drafts, supports)
    return xp.count_nonzero(kept, axis=(-2, -1))


def price(drafts: Array, supports: Array, threshold: Array) -> Array:
    """Return Σ |{q ≥ τ}| - (Σ d - D(τ))/τ, with D(τ) the mass of all tokens with q < τ."""
    xp, rows, kept = _others(drafts, supports)
    _, tau = arrays(threshold=threshold)
    level = xp.where(tau > 0, tau, 1.0)
    above = rows >= level[..., None, None]
    mass = xp.sum(control.dropped(xp, rows, kept) - control.dropped(xp, rows, above), axis=-1)
    return xp.astype(xp.count_nonzero(above, axis=(-2, -1)), level.dtype) - mass / level


def price_roundings(drafts: Array, threshold: Array) -> Array:
    """Return the condition number: the sums of masses over τ."""
    xp, drafts, tau = arrays(drafts=drafts, threshold=threshold)
    return drafts.shape[-2] * (1.0 + 1.0 / xp.where(tau > 0, tau, 1.0))


def is_positive(threshold: Array) -> Array:
    xp, tau = arrays(threshold=threshold)
    return control.DOMAINS["threshold"].check(xp, "threshold", tau) > 0
