"""How often the intervals of the acceptance rate ever miss, exactly, against rates that may depend on the past."""

from __future__ import annotations

from typing import Any

from hlmtheory._array import Array, arrays, in_kind
from hlmtheory._domains import UNIT_INTERVAL, leading_dimensions
from hlmtheory._quantities import open_unit
from hlmtheory.claims import Attained, Claim, Source
from hlmtheory.verification.intervals import RateInterval, acceptance_interval

DRAFTS = 40  # examined in a run
GRID = 10  # the adversary's rates are multiples of 1/GRID

# Proofs, by the last part of the id. S_n - Σ α_i is a martingale: the past decides whether draft i is examined.
#
# interval_varying. E[exp(ηA)] = 1 + α_i(exp(η) - 1) given the past. So exp(ηS) / Π (1 + α_i(exp(η) - 1)) is a
#   martingale from 1. log(1 + α(exp(η) - 1)) is concave in α, so the product is at most (1 + m(exp(η) - 1))^n with m
#   the mean. The mean over fixed η keeps this. Ville. For a value A in [0, 1], E[exp(ηA)] ≤ 1 + α_i(exp(η) - 1).


def _settings(**values: Array) -> tuple[Any, ...]:
    xp, *given = arrays(**values)
    for name, value in zip(values, given, strict=True):
        (UNIT_INTERVAL if name == "acceptance" else _ERROR).check(xp, name, value)
    leading_dimensions(**{name: tuple(value.shape) for name, value in zip(values, given, strict=True)})
    return (xp, *(in_kind(xp, value, xp.float64) for value in given))


def _intervals(xp: Any, error: Array, drafts: int, form: str) -> RateInterval:
    """Return the intervals for n = 1, ..., drafts and S = 0, ..., drafts, shape (..., drafts, drafts + 1)."""
    examined = xp.arange(1, drafts + 1, device=error.device)[:, None]
    accepted = xp.minimum(xp.arange(drafts + 1, device=error.device)[None, :], examined)
    return acceptance_interval(accepted, examined, error[..., None, None], form=form)


def _misses_varying(error: Array) -> Array:
    return largest_miss(error, DRAFTS, "varying", GRID)


def largest_miss(error: Array, drafts: int, form: str, grid: int) -> Array:
    """Return the largest P(the interval ever misses the mean rate) over all adversaries who know the past."""
    xp, delta = _settings(error=error)
    lower, upper = _intervals(xp, delta, drafts, form)
    ever = None
    for n in range(drafts, -1, -1):
        best = None if ever is None else _best_rate(xp, ever, n, grid)
        if n:
            mean = xp.arange(grid * n + 1, dtype=xp.float64, device=delta.device) / (grid * n)
            low, high = (end[..., n - 1, : n + 1, None] for end in (lower, upper))
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


def _given_error(error: Array) -> Array:
    _, delta = _settings(error=error)
    return delta


_ERROR = open_unit("δ is the probability that an interval ever misses, such as 0.05")

CLAIMS = (
    Claim(
        id="verification.interval_varying",
        source=Source("howard2021timeuniform", "the Bernoulli case, mixed over tilts and for means that vary"),
        statement="P(∃n: (α_1 + … + α_n)/n is outside its interval) ≤ δ for rates that may depend on the past",
        lhs=_misses_varying,
        rhs=_given_error,
        attained=Attained({"error": 0.9617360411447361}, ratio=0.8902593602945409),
        ceiling=1.0,
    ),
)
