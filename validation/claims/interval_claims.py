"""Decide claims on distributions of which only bounds are known: lists of the most probable tokens, or rounded rows.

Each side is an interval over all distributions that agree with the bounds. lhs ≤ rhs holds if the largest lhs is at
most the smallest rhs, fails if the smallest lhs exceeds the largest rhs, and is inconclusive otherwise. An identity
cannot be confirmed so, and is out of scope. Bounds are the boxes of :func:`hlmtheory.truncation.boxes.box_distance`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hlmtheory._array import Interval
from hlmtheory.claims import Claim, Relation, Status, Verdict, tolerance
from hlmtheory.truncation.box_sizes import box_bias, box_deviation
from hlmtheory.truncation.boxes import box_distance, quantised_box
from validation.arrays import Array
from validation.claims.instances import WINDOW_ARRAYS
from validation.collection.import_lists import CORPUS
from validation.collection.top_k import Lists, Rounding
from validation.errors import UserError
from validation.trace.reader import LISTS, Trace, TraceChunk

CORPUS_REASON = "the texts are a corpus's, not the target model's own"
IDENTITY_REASON = "an identity between numbers of which only intervals are known cannot be confirmed"
LOGITS_REASON = "it needs the logit of every token"
UNKNOWN_REASON = "no interval of its sides is known if distributions are known in part"


@dataclass(frozen=True, slots=True)
class Known:
    """Bounds of p and q at n positions, and the random inputs of the instances."""

    low: Array  # (n, C)
    high: Array
    low_q: Array
    high_q: Array
    count: Array  # (n, C)
    lists: Lists | None  # the lists, if the bounds come from lists
    k: Array  # (n,): Entries sent

    @property
    def p_and_q(self) -> tuple[Array, Array, Array, Array]:
        return self.low, self.high, self.low_q, self.high_q

    @property
    def total(self) -> int:
        return int(self.count[0].sum())

    def deviation(self, k: Array) -> Interval:
        return box_deviation(self.low_q, self.high_q, k, self.count)


Sides = tuple[Interval, Interval, Array]
"""The two sides, and where the assumptions are met for certain."""


def holds_lists(trace: Trace) -> bool:
    return bool(trace.manifest.get("kind") == LISTS)


def rounding_of(trace: Trace) -> dict[str, Rounding] | None:
    """Return the rounding of each model's values, or None if the trace holds exact rows of every token."""
    if "rounding" not in trace.manifest and not holds_lists(trace):
        return None
    try:
        return {name: Rounding(**trace.manifest["rounding"][name]) for name in ("draft", "target")}
    except (KeyError, TypeError) as error:
        raise UserError(
            f"The manifest of {trace.path} does not say how values were rounded; import it again."
        ) from error


def reasons(trace: Trace, claims: Iterable[Claim], stored_rows: bool = False) -> dict[str, str]:
    """Return why a claim cannot be decided on this trace, by claim id."""
    found: dict[str, str] = {}
    rounded = None if stored_rows else rounding_of(trace)
    for claim in claims:
        if set(claim.takes) & set(WINDOW_ARRAYS) and trace.manifest.get("texts") == CORPUS:
            found[claim.id] = CORPUS_REASON
        elif rounded is not None and claim.id not in SIDES:
            reason = IDENTITY_REASON if claim.relation is Relation.EQ else UNKNOWN_REASON
            found[claim.id] = LOGITS_REASON if "actual_draft" in claim.takes else reason
    return found


def known_lists(lists: Lists, rng: np.random.Generator) -> Known:
    """Return the bounds that lists give; k is log-uniform on 0..j."""
    boxes, n = lists.boxes(), len(lists.draft_tokens)
    j = lists.draft_tokens.shape[1]
    k = np.floor((j + 2.0) ** rng.random(n)).astype(np.int64) - 1
    ends = boxes.target.lower, boxes.target.upper, boxes.draft.lower, boxes.draft.upper
    return Known(*ends, boxes.count, lists, k)


def known_rows(chunk: TraceChunk, rounded: Mapping[str, Rounding], rng: np.random.Generator) -> Known:
    """Return the bounds that rounded rows of log-probabilities give; k is log-uniform on 0..V."""
    n, size = chunk.draft_logits.shape
    k = np.floor((size + 2.0) ** rng.random(n)).astype(np.int64) - 1
    ends = []
    for name, stored in (("target", chunk.target_logits), ("draft", chunk.draft_logits)):
        rows = np.minimum(np.asarray(stored, np.float64), 0.0)
        error = rounded[name].of(rows).max(axis=-1)
        floor = rows.min(axis=-1) if rounded[name].floored else np.full(n, -np.inf)
        box = quantised_box(rows, error, floor)
        ends += [box.lower, box.upper]
    low, high, low_q, high_q = ends
    return Known(low, high, low_q, high_q, np.ones((n, size), np.int64), None, k)


def check_known(claims: Iterable[Claim], found: Shared) -> list[Verdict]:
    return [_verdict(claim, *SIDES[claim.id](found), found.known) for claim in claims]


def _verdict(claim: Claim, lhs: Interval, rhs: Interval, inside: Array, known: Known) -> Verdict:
    ends = [np.asarray(end, np.float64) for end in (lhs.lower, lhs.upper, rhs.lower, rhs.upper)]
    low, high, least, most, inside = np.broadcast_arrays(*ends, inside)
    with np.errstate(invalid="ignore"):
        larger = np.maximum(np.abs(high), np.abs(least))
        rounding = tolerance(known.low.shape[-1], np.where(np.isfinite(larger), larger, 0.0) + 1.0)
        holds, fails = high <= least + rounding, low > most + rounding
        slack = np.where(fails, most - low, least - high)
    status = np.full(low.shape, Status.INCONCLUSIVE, dtype=object)
    status[holds], status[fails], status[~inside] = Status.HOLDS, Status.VIOLATED, Status.OUT_OF_SCOPE
    vacuous = inside & (least >= claim.ceiling) if claim.ceiling is not None else np.zeros_like(inside)
    left, right = np.where(fails, low, high), np.where(fails, most, least)
    outside = int(np.count_nonzero(~inside))
    broken = {"; ".join(one.statement for one in claim.assumptions) or "its input is known": outside} if outside else {}
    left, right, slack = (np.where(inside, side, np.nan) for side in (left, right, slack))
    return Verdict(claim.id, status, left, right, slack, vacuous, broken)


@dataclass(frozen=True)
class Shared:
    """Intervals of the quantities in the sides, each computed once."""

    known: Known

    @cached_property
    def apart(self) -> Interval:
        return box_distance(*self.known.p_and_q, self.known.count)

    @cached_property
    def deviation(self) -> Interval:
        return self.known.deviation(self.known.k)

    @cached_property
    def bias(self) -> Interval:
        """Bias at k, without Bias ≤ 2 Δ_k."""
        return box_bias(*self.known.p_and_q, self.known.k, self.known.count)

    @property
    def distortion(self) -> Interval:
        """TV(r, r̂) at k, from Bias = 2 TV(q, p) TV(r, r̂)."""
        least, most = self.bias.lower, self.bias.upper
        apart = self.apart
        high = np.where(apart.lower > 0, most / (2.0 * np.where(apart.lower > 0, apart.lower, 1.0)), 1.0)
        low = np.where(apart.upper > 0, least / (2.0 * np.where(apart.upper > 0, apart.upper, 1.0)), 0.0)
        return Interval(np.minimum(low, 1.0), np.minimum(high, 1.0))

    @property
    def always(self) -> Array:
        return np.ones(len(self.known.k), dtype=bool)


def _over(numerator: Interval, least: Array, most: Array) -> Interval:
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.where(most > 0, numerator.lower / most, np.inf)
        high = np.where(least > 0, numerator.upper / least, np.inf)
    return Interval(np.where(np.isnan(low), 0.0, low), np.where(np.isnan(high), np.inf, high))


def _twice(one: Interval) -> Interval:
    return Interval(2.0 * one.lower, 2.0 * one.upper)


def _certificate(found: Shared) -> Sides:
    return found.bias, _twice(found.deviation), found.always


def _bias_worst(found: Shared) -> Sides:
    apart, deviation = found.apart, found.deviation
    least, most = np.minimum(apart.lower, deviation.lower), np.minimum(apart.upper, deviation.upper)
    return found.bias, _twice(Interval(least, most)), found.always


def _tvd_bound(found: Shared) -> Sides:
    return found.distortion, _over(_twice(found.deviation), found.apart.lower, found.apart.upper), found.always


def _tvd_sharp(found: Shared) -> Sides:
    """max(TV(q, p), TV(q̂, p)) is at most TV(q, p) + Δ_k, by the triangle inequality."""
    deviation, apart = found.deviation, found.apart
    return found.distortion, _over(deviation, apart.lower, np.minimum(apart.upper + deviation.upper, 1.0)), found.always


def _monotone(found: Shared) -> Sides:
    one = found.known
    most = one.total if one.lists is None else one.lists.draft_tokens.shape[1]
    inside = (one.k < most) & (one.k < one.total)
    return one.deviation(np.minimum(one.k + 1, one.total)), found.deviation, inside


def _mean_rejection(found: Shared) -> Sides:
    """P(p_d < q_d) is at least the mass of q where p < q for certain, and at most 1 less that where p ≥ q."""
    one = found.known
    below, above = one.high < one.low_q, one.low >= one.high_q
    least = (one.count * np.where(below, one.low_q, 0.0)).sum(axis=-1)
    most = 1.0 - (one.count * np.where(above, one.low_q, 0.0)).sum(axis=-1)
    return found.apart, Interval(least, most), found.always


SIDES: dict[str, Callable[[Shared], Sides]] = {
    "skipping.mean_rejection": _mean_rejection,
    "truncation.monotone": _monotone,
    "truncation.certificate": _certificate,
    "truncation.bias_worst": _bias_worst,
    "truncation.tvd_bound": _tvd_bound,
    "truncation.tvd_sharp": _tvd_sharp,
}
