"""Compute intervals of the acceptance rate, and certified k, from the top-k log-probabilities of two models."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hlmtheory._array import Interval
from hlmtheory.truncation import partial_distance
from hlmtheory.truncation.box_sizes import box_deviation
from hlmtheory.truncation.boxes import box_distance
from hlmtheory.truncation.partial import partial_deviation
from validation.collection.top_k import ListPair, Lists
from validation.errors import UserError

PROMISES = (0.01, 0.05, 0.1, 0.2)  # limits of the Bias for which the certified number of probabilities is computed


@dataclass(frozen=True, slots=True, kw_only=True)
class Certified:
    """Number of probabilities to send for a Bias of at most ``bias``."""

    bias: float
    covered: float  # share of the positions at which the list is long enough to certify a k
    mean_k: float | None  # mean of that k over these positions


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    places: int
    texts: int
    vocabulary: int
    draft_k: int
    target_k: int
    acceptance: tuple[float, float]
    widest: float  # width of the widest of these intervals
    certified: tuple[Certified, ...]  # from the draft model's lists alone


def intervals(pair: ListPair) -> Intervals:
    low = high = widest = 0.0
    known, sums = np.zeros(len(PROMISES)), np.zeros(len(PROMISES))
    for lists, *_ in pair.blocks():
        try:
            rates = acceptance(lists)
            sizes = certified_sizes(lists, PROMISES)
        except ValueError as error:
            raise UserError(f"{pair.draft.path} and {pair.target.path}: {error}.") from error
        low, high = low + float(rates.lower.sum()), high + float(rates.upper.sum())
        widest = max(widest, float((rates.upper - rates.lower).max()))
        known += (sizes >= 0).sum(axis=0)
        sums += np.where(sizes >= 0, sizes, 0).sum(axis=0)
    certified = [
        Certified(bias=promise, covered=float(count / pair.rows), mean_k=float(total / count) if count else None)
        for promise, count, total in zip(PROMISES, known, sums, strict=True)
    ]
    return Intervals(
        places=pair.rows,
        texts=pair.texts,
        vocabulary=pair.vocabulary,
        draft_k=pair.draft_k,
        target_k=pair.target_k,
        acceptance=(low / pair.rows, high / pair.rows),
        widest=widest,
        certified=tuple(certified),
    )


def acceptance(lists: Lists) -> Interval:
    """Return the interval of the acceptance rate at each position; sharp if no value was rounded."""
    if lists.exact:
        return partial_distance(*lists.as_arguments()).acceptance
    boxes = lists.boxes()
    ends = boxes.target.lower, boxes.target.upper, boxes.draft.lower, boxes.draft.upper
    apart = box_distance(*ends, boxes.count)
    return Interval(1.0 - apart.upper, 1.0 - apart.lower)


def certified_sizes(lists: Lists, limits: Iterable[float]) -> NDArray[np.int64]:
    """Return the smallest k for which the upper end of 2 Δ_k is within each limit; -1 if the list is too short."""
    most = np.array(list(limits))
    sizes = np.full((len(lists.draft_tokens), len(most)), -1)
    boxes = None if lists.exact else lists.boxes()
    for k in range(lists.draft_tokens.shape[1], -1, -1):
        if boxes is None:
            found = partial_deviation(lists.draft_log_probabilities, k, lists.vocabulary)
        else:
            found = box_deviation(boxes.draft.lower, boxes.draft.upper, k, boxes.count)
        within = 2.0 * np.asarray(found.upper)[:, None] <= most
        if not within.any():
            break  # Δ_k falls with k
        sizes[within] = k
    return sizes
