"""How often the intervals of the acceptance rate ever miss, exactly, against rates that may depend on the past."""

from typing import Any

from hlmtheory._array import Array, Interval, arrays, in_kind
from hlmtheory._domains import UNIT_INTERVAL, leading_dimensions
from hlmtheory._quantities import open_unit
from hlmtheory.verification.intervals import acceptance_interval

# S_n - Σ α_i is a martingale: the past decides whether draft i is examined.


def settings(**values: Array) -> tuple[Any, ...]:
    xp, *given = arrays(**values)
    for name, value in zip(values, given, strict=True):
        (UNIT_INTERVAL if name == "acceptance" else _ERROR).check(xp, name, value)
    leading_dimensions(**{name: tuple(value.shape) for name, value in zip(values, given, strict=True)})
    return (xp, *(in_kind(xp, value, xp.float64) for value in given))


def _intervals(xp: Any, error: Array, drafts: int, form: str) -> Interval:
    """Return the intervals for n = 1, ..., drafts and S = 0, ..., n, one after the other in the last axis."""
    pairs = [(n, accepted) for n in range(1, drafts + 1) for accepted in range(n + 1)]
    examined, accepted = (xp.asarray(values, device=error.device) for values in zip(*pairs, strict=True))
    return acceptance_interval(accepted, examined, error[..., None], form=form)


def largest_miss(error: Array, drafts: int, form: str, grid: int) -> Array:
    """Return the largest P(the interval ever misses the mean rate) over all adversaries who know the past."""
    xp, delta = settings(error=error)
    lower, upper = _intervals(xp, delta, drafts, form)
    ever = None
    for n in range(drafts, -1, -1):
        best = None if ever is None else _best_rate(xp, ever, n, grid)
        if n:
            mean = xp.arange(grid * n + 1, dtype=xp.float64, device=delta.device) / (grid * n)
            own = slice((n - 1) * (n + 2) // 2, n * (n + 3) // 2)
            low, high = (end[..., own, None] for end in (lower, upper))
            missed = (mean < low) | (mean > high)
            best = xp.where(missed, 1.0, xp.zeros_like(mean) if best is None else best)
        ever = best
    return ever[..., 0, 0]  # type: ignore[index]


def _best_rate(xp: Any, ever: Array, n: int, grid: int) -> Array:
    """Return the probability of a miss before draft n + 1 is examined, if the adversary picks its best rate."""
    best = None
    for step in range(grid + 1):
        rate, sums = step / grid, slice(step, step + grid * n + 1)
        found = rate * ever[..., 1 : n + 2, sums] + (1.0 - rate) * ever[..., : n + 1, sums]
        best = found if best is None else xp.maximum(best, found)
    return best


_ERROR = open_unit("δ is the probability that an interval ever misses, such as 0.05")
