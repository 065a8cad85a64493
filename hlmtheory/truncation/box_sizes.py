"""Intervals of Δ_k and of the Bias if every entry of p and q is known up to an interval.

Notation and counts of columns are those of :mod:`hlmtheory.truncation.boxes`. F_m is the sum of the m largest entries
of q, V the number of tokens, n = V - k, and μ = (1 - F_k)/n the mean of the entries that are not sent.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from hlmtheory._array import Array, Interval, arrays, epsilon, every, in_kind, interval, running, take
from hlmtheory._domains import DomainError, leading_dimensions, size_up_to
from hlmtheory.truncation.boxes import checked_boxes, farthest_bound, nearest_distance
from hlmtheory.truncation.reconstruction import NOISE


def box_deviation(draft_lower: Array, draft_upper: Array, top_k: Array, count: Array = 1) -> Interval:
    """Return an outer interval of Δ_k if every entry of q is known up to an interval, as in :func:`box_distance`.

    For a list of the most probable tokens, both ends are those of :func:`partial_deviation`, which are sharp. The upper
    end is a certificate: Bias ≤ 2 Δ_k.
    """
    xp, kind, *box = checked_boxes(count, draft_lower=draft_lower, draft_upper=draft_upper)
    k, (number, low, high) = _with_size(xp, top_k, box)
    least, most = _deviation(xp, low, high, number, k)
    return interval(xp, least, most, kind)


def box_bias(
    target_lower: Array, target_upper: Array, draft_lower: Array, draft_upper: Array, top_k: Array, count: Array = 1
) -> Interval:
    """Return an outer interval of the Bias if entries of p and q are known up to an interval; :func:`box_distance`.

    It does not use Bias ≤ 2 Δ_k: for a certificate, take the least of both upper ends. Of equal entries of q, those in
    the lower columns are sent.
    """
    xp, kind, *boxes = checked_boxes(
        count, target_lower=target_lower, target_upper=target_upper, draft_lower=draft_lower, draft_upper=draft_upper
    )
    k, (number, low, high, low_q, high_q) = _with_size(xp, top_k, boxes)
    least, most = _bias(xp, (low, high), (low_q, high_q), number, k)
    return interval(xp, least, most, kind)


def _with_size(xp: Any, k: Array, rows: list[Array]) -> tuple[Array, list[Array]]:
    """Return k in float64 and the rows, of one batch shape; the first of the rows are the counts."""
    number = rows[0]
    total = xp.sum(number, axis=-1)
    _, _, k = arrays(draft_lower=number, top_k=k)
    k = size_up_to(int(xp.max(total)) if 0 not in total.shape else 0).check(xp, "top_k", k)
    common = leading_dimensions(draft_lower=tuple(total.shape), top_k=tuple(k.shape))
    k = xp.broadcast_to(in_kind(xp, k, xp.float64), common)
    if not every(xp, k <= total):
        raise DomainError("top_k must be at most the number of tokens, the sum of count; got more; send fewer")
    return k, [xp.broadcast_to(row, (*common, row.shape[-1])) for row in rows]


class Heads(NamedTuple):
    """F_m of a row of values with counts, for every m: the least of the lines through its corners."""

    value: Array  # descending, shape (..., C)
    before: Array  # number of tokens in the columns before each
    start: Array  # F at ``before``
    order: Array  # the columns, by descending value

    @classmethod
    def of(cls, xp: Any, value: Array, number: Array) -> Heads:
        """Return the heads of one row or a batch."""
        order = xp.argsort(-value, axis=-1, stable=True)
        value, number = take(xp, value, order), take(xp, number, order)
        ends = running(xp, number), running(xp, number * value)
        none = xp.zeros_like(value[..., :1])
        before, start = (xp.concat([none, end[..., :-1]], axis=-1) for end in ends)
        return cls(value, before, start, order)

    def at(self, xp: Any, m: Array) -> Array:
        """Return F_m, m of shape (...)."""
        return xp.min(self.start + (m[..., None] - self.before) * self.value, axis=-1)


def _deviation(xp: Any, low: Array, high: Array, number: Array, k: Array) -> tuple[Array, Array]:
    """Return the ends of Δ_k."""
    total = xp.sum(number, axis=-1)
    lower, upper = Heads.of(xp, low, number), Heads.of(xp, high, number)
    spare, missing = 1.0 - xp.sum(number * low, axis=-1), xp.sum(number * high, axis=-1) - 1.0
    least_head, most_head = _head(xp, lower, upper, spare, missing, k)
    unsent = total - k
    rounding = (low.shape[-1] + 8) * epsilon(xp, xp.float64)

    def rest(m: Array, head: Array) -> Array:
        share = (m - k) / xp.where(unsent > 0, unsent, 1.0)
        return share + head * (1.0 - share)

    def most_at(m: Array) -> Array:
        return xp.minimum(upper.at(xp, m), spare + lower.at(xp, m)) - rest(m, least_head)

    most = _largest(xp, most_at, k, total)
    least = xp.maximum(
        _largest(xp, lambda m: lower.at(xp, m) - rest(m, most_head), k, total),
        _largest(xp, lambda m: upper.at(xp, m) - missing - rest(m, most_head), k, total),
    )
    some = unsent > 0
    least = xp.where(some, xp.clip(least - rounding, min=0.0, max=1.0), 0.0)
    return least, xp.where(some, xp.clip(most + rounding, min=0.0, max=1.0), 0.0)


def _head(xp: Any, lower: Heads, upper: Heads, spare: Array, missing: Array, k: Array) -> tuple[Array, Array]:
    """Return the ends of F_k."""
    low, high = lower.at(xp, k), upper.at(xp, k)
    return xp.clip(xp.maximum(low, high - missing), max=1.0), xp.clip(xp.minimum(high, spare + low), max=1.0)


def _largest(xp: Any, value: Any, first: Array, last: Array) -> Array:
    """Return the largest value of a concave function on the whole numbers first..last."""
    low, high = first, last
    for _ in range(int(xp.max(last - first)).bit_length() + 1 if 0 not in first.shape else 0):
        middle = xp.floor(0.5 * (low + high))
        up = (value(xp.minimum(middle + 1.0, high)) > value(middle)) & (middle < high)
        low, high = xp.where(up, middle + 1.0, low), xp.where(up, high, middle)
    return value(low)


def _bias(xp: Any, p: tuple[Array, Array], q: tuple[Array, Array], number: Array, k: Array) -> tuple[Array, Array]:
    """Return the ends of the Bias."""
    kept = _sent(xp, *q, number, k)
    apart, seen = ((nearest_distance(xp, *p, *row, number), farthest_bound(xp, *p, *row, number)) for row in (q, kept))
    apart, seen = ((xp.clip(low, min=0.0), xp.clip(xp.maximum(low, high), max=1.0)) for low, high in (apart, seen))
    exists = seen[0] > NOISE
    least_ratio = apart[0] / xp.where(seen[1] > 0, seen[1], 1.0) * xp.astype(seen[1] > 0, xp.float64)
    most_ratio = apart[1] / xp.where(exists, seen[0], 1.0)
    a = xp.clip(p[0] - q[1], min=0.0), xp.clip(p[1] - q[0], min=0.0)
    b = xp.clip(p[0] - kept[1], min=0.0), xp.clip(p[1] - kept[0], min=0.0)
    spare = xp.clip(1.0 - xp.sum(number * p[0], axis=-1), min=0.0)
    few, many = least_ratio[..., None] * b[0], most_ratio[..., None]

    def over(one: Array, other: Array) -> Array:
        return xp.sum(number * xp.clip(one - other, min=0.0), axis=-1)

    known_a, known_b = xp.clip(p[0] - q[0], min=0.0), xp.clip(p[0] - kept[0], min=0.0)
    above = xp.minimum(over(a[1], few), over(known_a, few) + spare)
    below = xp.minimum(over(many * b[1], a[0]), over(many * known_b, a[0]) + most_ratio * spare)
    most = xp.where(exists, xp.minimum(apart[1], xp.minimum(above, below)), apart[1])
    least = xp.maximum(xp.where(exists, over(a[0], many * b[1]), 0.0), over(few, a[1]))
    rounding = (p[0].shape[-1] + 8) * epsilon(xp, xp.float64)
    least, most = 2.0 * xp.clip(least - rounding, min=0.0), 2.0 * xp.clip(most + rounding, max=1.0)
    return xp.minimum(least, most), most


def _sent(xp: Any, low: Array, high: Array, number: Array, k: Array) -> tuple[Array, Array]:
    """Return the bounds of q̂, of which k entries are those of q and the others their mean."""
    total = xp.sum(number, axis=-1)
    lower, upper = Heads.of(xp, low, number), Heads.of(xp, high, number)
    spare, missing = 1.0 - xp.sum(number * low, axis=-1), xp.sum(number * high, axis=-1) - 1.0
    least_head, most_head = _head(xp, lower, upper, spare, missing, k)
    unsent = xp.where(total > k, total - k, 1.0)
    least_mean, most_mean = (xp.clip((1.0 - head) / unsent, min=0.0)[..., None] for head in (most_head, least_head))
    wide = k[..., None]
    next_high = xp.where((total > k)[..., None], _entry(xp, upper, wide + 1.0), -1.0)  # the (k + 1)-th largest of h
    last_low = xp.where(wide > 0, _entry(xp, lower, wide), 2.0)  # the k-th largest of l
    place = xp.argsort(upper.order, axis=-1, stable=True)
    within = take(xp, upper.before, place) + number <= wide
    sent = within & ((low > next_high) | ((low == next_high) & (high == next_high)))
    column = xp.arange(low.shape[-1], device=low.device)
    first = (lower.before < wide) & (take(xp, number, lower.order) > 0)
    latest = xp.max(xp.where(first, lower.order, -1), axis=-1)[..., None]
    kept_out = (high < last_low) | ((high == last_low) & (column > latest))
    smallest, largest = xp.minimum(low, least_mean), xp.maximum(high, most_mean)
    return (
        xp.where(sent, low, xp.where(kept_out, least_mean, smallest)),
        xp.clip(xp.where(sent, high, xp.where(kept_out, most_mean, largest)), max=1.0),
    )


def _entry(xp: Any, heads: Heads, rank: Array) -> Array:
    """Return the ``rank``-th largest value, counted from 1, shape (..., 1)."""
    index = xp.astype(xp.count_nonzero(heads.before < rank, axis=-1), xp.int64)[..., None] - 1
    return take(xp, heads.value, xp.clip(index, min=0))
