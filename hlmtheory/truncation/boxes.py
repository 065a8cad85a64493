"""Bounds of TV(q, p) if every entry of p and q is known up to an interval.

An entry p_v is in [l_v, h_v] and q_v in [l'_v, h'_v]; both rows sum to 1. Quantised log-probabilities give such a box,
and so do lists of the k most probable tokens: there one column stands for all tokens that no list has.
"""

from typing import Any

from hlmtheory._array import Array, Interval, arrays, epsilon, every, in_kind, interval, widest
from hlmtheory._domains import Domain, DomainError, broadcast, leading_dimensions, same_vocabulary

MOST_HALVINGS = 12
"""Steps of the pattern search for λ and μ; every λ and μ gives a valid bound."""

_ENTRY = Domain("in [0, 1]", lambda xp, value: (value >= 0) & (value <= 1), "give bounds of probabilities")
_LOGARITHM = Domain(
    "logarithms of probabilities: 0 or less, or -inf",
    lambda xp, value: value <= 0,
    "subtract the logarithm of the sum of exponentials",
)
_COUNT = Domain(
    "a whole number, 0 to 2^31",
    lambda xp, value: (value >= 0) & (value <= 2**31),
    "give the number of tokens of the column",
    kind="integer",
)
ERROR = Domain("0 or more and finite", lambda xp, value: (value >= 0) & xp.isfinite(value), "give half a step in nats")


def box_distance(
    target_lower: Array, target_upper: Array, draft_lower: Array, draft_upper: Array, count: Array = 1
) -> Interval:
    """Return the interval of TV(q, p) if each entry of p (..., V) is in [l, h], and of q in [l', h'].

    The lower end is sharp: max(Σ (l - h')⁺, Σ (l' - h)⁺, 1 - Σ min(h, h'), Σ max(l, l') - 1). The upper end is proven,
    of a relaxed problem: if both boxes are [0, w_v] with Σ w = 2, deciding whether the largest TV is 1 is the partition
    problem. ``count`` has the number of tokens of each column. The acceptance rate lies between 1 - upper and 1 -
    lower.
    """
    xp, kind, number, low, high, low_q, high_q = checked_boxes(
        count, target_lower=target_lower, target_upper=target_upper, draft_lower=draft_lower, draft_upper=draft_upper
    )
    least = nearest_distance(xp, low, high, low_q, high_q, number)
    most = farthest_bound(xp, low, high, low_q, high_q, number)
    return interval(xp, least, xp.maximum(least, xp.clip(most, max=1.0)), kind)


def quantised_box(log_probability: Array, error: Array, floor: Array) -> Interval:
    """Return bounds of every entry of a row (..., V) of stored log-probabilities, for :func:`box_distance`.

    ``error`` is the largest |stored - true| above the ``floor``, in nats. A stored value at or below the floor stands
    for a probability between 0 and e^(floor + error); a floor of -inf for none.
    """
    xp, log, error, floor = arrays(log_probability=log_probability, error=error, floor=floor)
    log, floor = _LOGARITHM.check(xp, "log_probability", log), _LOGARITHM.check(xp, "floor", floor)
    error = ERROR.check(xp, "error", error)
    if log.ndim == 0 or log.shape[-1] == 0:
        raise DomainError(f"log_probability must have an entry for each token; got shape {tuple(log.shape)}; give rows")
    shapes = {"log_probability": log.shape[:-1], "error": error.shape, "floor": floor.shape}
    common = leading_dimensions(**{name: tuple(shape) for name, shape in shapes.items()})
    kind = widest(xp, log)
    log, error, floor = (in_kind(xp, value, xp.float64) for value in (log, error, floor))
    log, error, floor = xp.broadcast_to(log, (*common, log.shape[-1])), error[..., None], floor[..., None]
    stored = log > floor
    lower = xp.where(stored, xp.exp(log - error), 0.0)
    upper = xp.exp(xp.clip(xp.where(stored, log, floor) + error, max=0.0))
    slack = 64 * epsilon(xp, kind)
    if not every(xp, (xp.sum(lower, axis=-1) <= 1 + slack) & (xp.sum(upper, axis=-1) >= 1 - slack)):
        raise DomainError(
            "log_probability must be those of a distribution up to the error; got sums of exponentials that exclude 1; "
            "normalise them, or give the error that they have"
        )
    return interval(xp, lower, upper, kind)


def checked_boxes(count: Array, **named: Array) -> tuple[Any, ...]:
    """Return the namespace, the type of the answer, the counts and the checked bounds in float64, of one shape."""
    xp, number, *values = arrays(count=count, **named)
    kind, unit = widest(xp, *values), 64 * max(epsilon(xp, value.dtype) for value in values)
    for name, value in zip(named, values, strict=True):
        _ENTRY.check(xp, name, value)
        if value.ndim == 0 or value.shape[-1] == 0:
            raise DomainError(f"{name} must have an entry for each token; got shape {tuple(value.shape)}; give rows")
    same_vocabulary(**dict(zip(named, values, strict=True)))
    number = in_kind(xp, _COUNT.check(xp, "count", number), xp.float64)
    shapes = {name: tuple(value.shape) for name, value in zip(named, values, strict=True)}
    leading_dimensions(**{name: shape[:-1] for name, shape in shapes.items()})
    broadcast(count=tuple(number.shape), **shapes)
    number, *wide = xp.broadcast_arrays(number, *(in_kind(xp, value, xp.float64) for value in values))
    ends = zip(wide[::2], wide[1::2], strict=True)
    for name, (lower, upper) in zip(dict.fromkeys(name.partition("_")[0] for name in named), ends, strict=True):
        if not every(xp, lower <= upper):
            raise DomainError(f"{name}_lower must be at most {name}_upper in every entry; got more; exchange them")
        if not every(xp, (xp.sum(number * lower, axis=-1) <= 1 + unit) & (xp.sum(number * upper, axis=-1) >= 1 - unit)):
            raise DomainError(
                f"{name}_lower and {name}_upper must leave room for a distribution, Σ lower ≤ 1 ≤ Σ upper; got sums "
                f"that do not; widen them by the rounding of the row"
            )
    return xp, kind, number, *wide


def nearest_distance(xp: Any, low: Array, high: Array, low_q: Array, high_q: Array, number: Array | float = 1) -> Array:
    """Return the smallest TV(q, p) between two boxes; ``number`` counts the tokens of each column."""
    terms = (
        xp.sum(number * xp.clip(low - high_q, min=0.0), axis=-1),
        xp.sum(number * xp.clip(low_q - high, min=0.0), axis=-1),
        1.0 - xp.sum(number * xp.minimum(high, high_q), axis=-1),
        xp.sum(number * xp.maximum(low, low_q), axis=-1) - 1.0,
    )
    return xp.clip(xp.maximum(xp.maximum(terms[0], terms[1]), xp.maximum(terms[2], terms[3])), max=1.0)


def farthest_bound(xp: Any, low: Array, high: Array, low_q: Array, high_q: Array, number: Array | float = 1) -> Array:
    """Return the smallest bound found over λ and μ in [0, 1]: a pattern search on a convex function."""
    spare, missing = 1.0 - xp.sum(number * low, axis=-1), xp.sum(number * high_q, axis=-1) - 1.0

    def bound(a: Array, b: Array) -> Array:
        one, two = a[..., None], b[..., None]
        terms = one * high + (1.0 - one) * low - two * low_q - (1.0 - two) * high_q
        return (1.0 - a) * spare + (1.0 - b) * missing + xp.sum(number * xp.clip(terms, min=0.0), axis=-1)

    at, beside = xp.full_like(spare, 0.5), xp.full_like(spare, 0.5)
    best, step = bound(at, beside), 0.5
    for _ in range(MOST_HALVINGS):
        centre = at, beside
        for a, b in ((x, y) for x in (-step, 0.0, step) for y in (-step, 0.0, step) if x or y):
            one, two = (xp.clip(old + by, min=0.0, max=1.0) for old, by in zip(centre, (a, b), strict=True))
            found = bound(one, two)
            better = found < best
            best = xp.where(better, found, best)
            at, beside = xp.where(better, one, at), xp.where(better, two, beside)
        step *= 0.5
    return best
