"""Whether some draft distribution q is written as a given row: the test that a receiver can make without knowing q.

A row of levels or counts fixes an interval for each probability that is written. The mass of the rest lies on tokens
that are no larger than the smallest written one. The set of these q is convex but for the choices below, so that q
with sum 1 exists if the smallest and the largest sum are on both sides of 1. Boundaries count as inside: equal entries
may be ordered either way, and sums are rounded.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hlmtheory.codec.messages import MIXTURE, TOP_K, LatticeDraft, MixedDraft
from hlmtheory.truncation.levels import levels_of, slack, values_of

Row = NDArray[np.float64]
_ROUNDINGS = 4.0
"""Times the slack of a sum of V probabilities that a boundary may be missed by: at V = 60 about 5e-13."""

_SEARCHES = 80
"""Steps of a golden-section search on an interval of length 1: its end is 2e-17 long."""

_CLEAR = 0.01
"""Units that are more than any rounding of a sum; a row that misses by more is refused."""


def written(draft: MixedDraft, vocabulary: int) -> bool:
    """Whether some q with this q_d > 0 is written as this row of top-k, lattice or mixture, q_d included."""
    own = draft.probability
    if own is None or not own > 0:
        return False
    place = int(np.searchsorted(draft.support, draft.token))
    inside = place < draft.support.size and bool(draft.support[place] == draft.token)
    if draft.kind == TOP_K:
        return _levels(draft, own, place if inside else None, vocabulary)
    return _counts(draft, own, place if inside else None, vocabulary)


def _levels(draft: MixedDraft, own: float, place: int | None, vocabulary: int) -> bool:
    """Each written probability is in [level, level + 1) of the grid."""
    low, high = values_of(draft.values, draft.bits), np.minimum(values_of(draft.values + 1, draft.bits), 1.0)
    others = vocabulary - low.size  # unwritten tokens besides d
    if place is None:
        low, others = np.maximum(low, own), others - 1
    elif levels_of(np.asarray([own]), draft.bits)[0] != draft.values[place]:
        return False
    else:
        low[place] = high[place] = own
    smallest = float(high.min(initial=1.0))  # the most that an unwritten token may have
    alone = own if place is None else 0.0
    margin = _ROUNDINGS * slack(vocabulary)
    fits = alone <= smallest and low.sum() + alone <= 1.0 + margin
    return bool(fits and high.sum() + alone + others * smallest >= 1.0 - margin)


def _counts(draft: MixedDraft, own: float, place: int | None, vocabulary: int) -> bool:
    """Each written probability is rounded down, the largest remainders up; see :class:`hlmtheory.codec.rounding`."""
    units, counts = draft.resolution, draft.values.astype(np.float64)
    rest = (0.0, float(units)) if draft.rest is None else (float(draft.rest), draft.rest + 1.0)
    others = vocabulary - counts.size - (place is None)
    margin = _ROUNDINGS * units * slack(vocabulary)
    if place is not None:  # the device rounds this product itself, so that its border needs no margin
        whole = math.floor(own * units) if own >= 1.0 / units else 0
        more = counts[place] - whole
        if not (0 <= more <= 1 or (more > 1 and draft.kind != MIXTURE)):
            return False
    own *= units
    if _spread_out(counts, own, place, others, rest, units) <= margin:
        return True
    return draft.kind != MIXTURE and _left_over(counts, own, place, others, units, margin)


def _spread_out(
    counts: Row, own: float, place: int | None, others: int, rest: tuple[float, float], units: int
) -> float:
    """By how many units the row misses every q that leaves no units over for the largest entry; 0 or less if none.

    In units, x = ℓ q. With d = x - counts, entries that were rounded up have d in [-1, 0), others in [0, 1), and the
    former have the larger remainders: d is in [a, a + 1] for one a in [-1, 0]. For a fixed a the smallest m that the
    rest may need on one token leaves the most room. What is missing is convex in a, with this slope at most.
    """
    start, end, free, inside, alone = -1.0, 0.0, counts, 0.0, own
    if place is not None:
        start, end = max(start, own - counts[place] - 1.0), min(end, own - counts[place])
        free, inside, alone = np.delete(counts, place), own, 0.0
    if start > end:
        return start - end
    least, most, smallest = max(rest[0], alone), rest[1], float(free.min(initial=math.inf))
    largest_sum = float(free.sum()) + inside  # at a = -1

    def missing(a: float) -> float:
        needed = max(least, units - largest_sum - free.size * (a + 1.0)) - alone  # on the other tokens of the rest
        m = max(alone, needed / others) if others else alone
        cap = smallest + a + 1.0 if place is None else min(smallest + a + 1.0, own)
        wrong = max(m - cap, needed + alone - most, needed if not others else -math.inf)
        return max(wrong, float(np.maximum(free + a, m).sum()) + inside + least - units)

    slope = 2.0 + free.size + free.size**2 / max(others, 1)
    return _least(missing, start, end, slope)


def _least(value: Callable[[float], float], low: float, high: float, slope: float) -> float:
    """The least value of a convex function of at most this slope; once its sign is sure, any other of that sign."""
    step = (math.sqrt(5.0) - 1.0) / 2.0
    at = [high - step * (high - low), low + step * (high - low)]
    found = [value(at[0]), value(at[1])]
    best = min(value(low), value(high), *found)
    for _ in range(_SEARCHES):
        if best <= 0.0 or best > slope * (high - low) + _CLEAR:
            break
        if found[0] <= found[1]:
            high = at[1]
            at = [high - step * (high - low), at[0]]
            found = [value(at[0]), found[0]]
        else:
            low = at[0]
            at = [at[1], low + step * (high - low)]
            found = [found[1], value(at[1])]
        best = min(best, *found)
    return best


def _left_over(counts: Row, own: float, place: int | None, others: int, units: int, margin: float) -> bool:
    """Whether some q leaves units over: all entries were rounded up, and the largest one got what was left."""
    first = int(counts.argmax())
    low, high = np.maximum(counts - 1.0, 0.0), counts.copy()
    low[first], high[first] = 0.0, counts[first] - 1.0
    alone = own if place is None else 0.0
    if place is not None:
        if not low[place] - margin <= own <= high[place] + margin:
            return False
        low[place] = high[place] = own
    low = np.maximum(low, alone)
    if place != first:
        low[first] = max(low[first], float(low.max()))
    high = np.minimum(high, high[first])
    smallest = float(high.min())
    fits = bool(np.all(low <= high + margin)) and bool(np.all(low <= low[first] + margin))
    return fits and low.sum() + alone <= units + margin and high.sum() + alone + others * smallest >= units - margin


def quantised(draft: LatticeDraft, threshold: float, vocabulary: int) -> bool:
    """Whether some q that keeps only tokens of at least the threshold is quantised to these counts.

    Renormalised, a kept token has at least the threshold τ. The counts are those of a row x/ℓ with x ≥ ℓ τ, in which d
    = x - counts has a range of at most 1 and sum 0. Entries below ℓ τ need D at most; each other gives at most 1 - D.
    """
    if draft.size == 1:
        return True
    if not np.all(draft.counts > 0):
        return False
    margin = _ROUNDINGS * draft.resolution * slack(vocabulary)
    above = draft.counts - draft.resolution * threshold
    needed = np.maximum(-above, 0.0)
    most = float(needed.max())
    given = np.minimum(np.maximum(above, 0.0), max(1.0 - most, 0.0))
    return most <= 1.0 + margin and float(needed.sum()) <= float(given.sum()) + margin
