"""Bounds of every entry of p and q from lists of the most probable tokens whose log-probabilities may be rounded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hlmtheory._array import Array, arrays, epsilon, every, in_kind, take, widest
from hlmtheory._domains import DomainError, leading_dimensions, number
from hlmtheory.truncation.boxes import ERROR, Interval, interval
from hlmtheory.truncation.partial import LISTED, MASS, VOCABULARY, checked_tokens


@dataclass(frozen=True, slots=True)
class PartialBoxes:
    """Bounds of p and of q, and the number of tokens of each column, for :func:`box_distance` and its like.

    The columns (..., j + k + 1) are the j tokens that q lists, in order, then the k that p lists, then one for all
    others. A token of p's list that q lists too has the count 0.
    """

    target: Interval
    draft: Interval
    count: Array


def partial_boxes(
    target_token: Array,
    target_log_probability: Array,
    draft_token: Array,
    draft_log_probability: Array,
    vocabulary: int,
    target_error: Array = 0.0,
    draft_error: Array = 0.0,
) -> PartialBoxes:
    """Return the bounds that two lists of the most probable tokens, as in :func:`partial_distance`, give for p and q.

    ``target_error`` (..., k) and ``draft_error`` (..., j) are the largest |listed - true log-probability|, in nats.
    """
    size = number(VOCABULARY, "vocabulary", vocabulary)
    xp, a, x, e, b, y, f = arrays(
        target_token=target_token,
        target_log_probability=target_log_probability,
        target_error=target_error,
        draft_token=draft_token,
        draft_log_probability=draft_log_probability,
        draft_error=draft_error,
    )
    kind = widest(xp, x, y)
    a, b = (checked_tokens(xp, name, one, size) for name, one in (("target_token", a), ("draft_token", b)))
    p, q = _bounds(xp, "target", x, e, size), _bounds(xp, "draft", y, f, size)
    for name, one, row in (("target", a, p), ("draft", b, q)):
        if one.shape[-1] != row.low.shape[-1]:
            raise DomainError(
                f"{name}_token and {name}_log_probability must list the same tokens; got {one.shape[-1]} and "
                f"{row.low.shape[-1]}; give one log-probability for each token"
            )
    common = leading_dimensions(
        target_token=tuple(a.shape[:-1]),
        target_log_probability=tuple(p.low.shape[:-1]),
        draft_token=tuple(b.shape[:-1]),
        draft_log_probability=tuple(q.low.shape[:-1]),
    )
    a, b = (xp.broadcast_to(one, (*common, one.shape[-1])) for one in (a, b))
    p, q = (row.spread(xp, common) for row in (p, q))
    partner, twice = _partners(xp, b, a)
    listed = partner >= 0
    at = xp.clip(partner, min=0)
    ends_p = []
    for end, free in ((p.low, 0.0 * p.cap), (p.high, p.cap)):
        padded = xp.concat([end, free[..., None]], axis=-1)
        beside = xp.where(listed, take(xp, padded, at), free[..., None])
        ends_p.append(xp.concat([beside, padded], axis=-1))
    ends_q = []
    for end, free in ((q.low, 0.0 * q.cap), (q.high, q.cap)):
        others = xp.broadcast_to(free[..., None], (*common, a.shape[-1] + 1))
        ends_q.append(xp.concat([end, others], axis=-1))
    alone = xp.astype(~twice, xp.int64)
    outside = size - b.shape[-1] - xp.sum(alone, axis=-1)
    count = xp.concat([xp.ones_like(b), alone, outside[..., None]], axis=-1)
    return PartialBoxes(_outwards(xp, ends_p, kind), _outwards(xp, ends_q, kind), count)


def _outwards(xp: Any, ends: list[Array], kind: Any) -> Interval:
    found = interval(xp, ends[0], ends[1], kind)
    return Interval(xp.clip(found.lower, min=0.0), xp.clip(found.upper, max=1.0))


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Bounds of the listed entries, and the largest possible value of the others."""

    low: Array
    high: Array
    cap: Array

    def spread(self, xp: Any, common: tuple[int, ...]) -> _Bounds:
        """Return the bounds with the batch shape ``common``."""
        low, high = (xp.broadcast_to(end, (*common, end.shape[-1])) for end in (self.low, self.high))
        return _Bounds(low, high, xp.broadcast_to(self.cap, common))


def _bounds(xp: Any, name: str, log: Array, error: Array, vocabulary: int) -> _Bounds:
    """Return the checked bounds of a list, widened by what its mass misses."""
    what = f"{name}_log_probability"
    slack = max(MASS, 8 * epsilon(xp, log.dtype))
    if log.ndim == 0:
        raise DomainError(f"{what} must be a list, shape (..., k); got one number; put it in a list")
    if log.shape[-1] > vocabulary:
        raise DomainError(
            f"{what} must have at most vocabulary = {vocabulary} entries; got {log.shape[-1]}; leave out the padding"
        )
    log = in_kind(xp, LISTED.check(xp, what, log), xp.float64)
    error = in_kind(xp, ERROR.check(xp, f"{name}_error", error), xp.float64)
    leading_dimensions(**{what: tuple(log.shape), f"{name}_error": tuple(error.shape)})
    if not every(xp, log[..., 1:] <= log[..., :-1]):
        raise DomainError(f"{what} must be in descending order; got an entry above the one before; sort the list")
    log, error = xp.broadcast_arrays(log, error)
    low, high = xp.exp(log - error), xp.exp(xp.clip(log + error, max=MASS))
    cap = xp.min(high, axis=-1) if log.shape[-1] else xp.ones(log.shape[:-1], dtype=xp.float64, device=log.device)
    known, most = xp.sum(low, axis=-1), xp.sum(high, axis=-1) + float(vocabulary - log.shape[-1]) * cap
    if not every(xp, known <= 1.0 + slack):
        raise DomainError(f"{what} must have a mass of at most 1; got {float(xp.max(known)):.10g}; normalise it")
    if not every(xp, most >= 1.0 - slack):
        raise DomainError(
            f"{what} must leave a rest that fits: each other token of vocabulary = {vocabulary} has at most the last "
            f"listed probability; got a sum of at most {float(xp.min(most)):.10g}; list the largest, normalised over "
            "the whole vocabulary"
        )
    low = low / xp.clip(known, min=1.0)[..., None]
    wider = xp.clip(1.0 / xp.where(most > 0, most, 1.0), min=1.0)
    return _Bounds(low, xp.clip(high * wider[..., None], max=1.0), xp.clip(cap * wider, max=1.0))


def _partners(xp: Any, first: Array, second: Array) -> tuple[Array, Array]:
    """Return for each token of the first list its place in the second, or -1, and which of the second have one."""
    j = first.shape[-1]
    both = xp.concat([first, second], axis=-1)
    order = xp.argsort(both, axis=-1, stable=True)
    token = take(xp, both, order)
    same = token[..., 1:] == token[..., :-1]
    false = xp.zeros_like(same[..., :1]) if same.shape[-1] else xp.zeros(both.shape, dtype=xp.bool, device=both.device)
    before, after = (xp.concat(parts, axis=-1)[..., : both.shape[-1]] for parts in ([false, same], [same, false]))
    following = xp.concat([order[..., 1:], order[..., :1]], axis=-1) if both.shape[-1] else order
    place = xp.argsort(order, axis=-1, stable=True)
    partner = take(xp, xp.where(after, following - j, -1), place)
    return partner[..., :j], take(xp, before, place)[..., j:]
