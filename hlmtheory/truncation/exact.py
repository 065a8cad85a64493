"""The least k with TV(r, r̂_k) ≤ θ of one pair of rows: few sizes are looked at, and each rules out most others.

Symbols are those of :mod:`hlmtheory.truncation`; θ is a tolerance on TV(r, r̂). On the host, in numpy.

Why no smaller k meets θ. A size is passed over only if it is proven to fail, and the answer is the first that is not
passed over: it was looked at and meets θ, or Δ_k ≤ θ TV(q, p) says so. The proofs are of two kinds, and both use that
TV(r, r̂_n) ≥ r̂_n(A) - r(A) for any set A of entries, with equality at n = k for A = {r̂_k > r}: a look at k tells that
set, and it remains nearly the best one for the n around k. r̂_n(A) is the share of T_n = Σ (p_i - q̂_i)⁺ that lies on A.
Forward, :meth:`Head.ahead`, and backward, :meth:`Head.behind`, divide a lower bound on that by an upper one on T_n.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hlmtheory._array import NUMPY
from hlmtheory.truncation.lean import FINE, rounding
from hlmtheory.truncation.reconstruction import NOISE
from hlmtheory.truncation.tails import Tails

Row = NDArray[np.float64]
Mask = NDArray[np.bool_]

SHORT = 2.0**-40
"""By so much a proof must exceed θ, and 2^-48 over TV(q̂, p): more than the rounding seen, not a proven bound."""
LEAST = 2.0**-1000
"""Below it a residual cannot be divided by its mass."""
WINDOW = 256
"""Sizes that are looked ahead at first; then four times what the last look passed over."""
STEP = 16
"""So many sizes before a look are proven to fail together, where they are many."""
SAMPLE = 2000
"""About so many entries tell how large the sizes are."""
LOOKS = 3
"""Of the first so many, those after a leap are where θ is thought to be met, the rest at the first size still open."""
SHARE = 0.45
"""Of the size that Δ_k may allow, where θ is first thought to be met: rows of gaussian logits have .4 to .55."""
FIRST = 1.0
"""And ln(θ/TV(r, r̂)) at the size that Δ_k allows."""


def least_exact(p: Row, q: Row, tolerances: Sequence[float], work: Row) -> list[int]:
    """Least k with TV(r, r̂_k) ≤ θ, or with a Δ_k ≤ θ TV(q, p) that makes it so, for each θ of some that fall.

    ``work`` (5, V) is written over: a new array of that size takes longer to get than to fill.
    """
    spare, gain = work[:2]
    np.maximum(np.subtract(p, q, out=spare), 0.0, out=gain)
    apart, true = min(0.5 * float(np.abs(spare, out=spare).sum()), 1.0), float(gain.sum())
    if apart <= 0 or true <= 0:
        return [0] * len(tolerances)
    step = max(q.size // SAMPLE, 1)
    some = np.sort(q[::step])
    part = Tails(NUMPY, some[None], some.cumsum()[None])
    found: list[int] = []
    k, reach, head = 0, 0, None
    for theta in tolerances:
        limit, done = theta * apart, theta >= 1.0
        most = 0 if done else step * (1 + _likely(part, limit / step))
        reach = max(reach, most // 2 + 4 * WINDOW)
        while not done:
            if head is None or head.reach < min(k, q.size - 1):
                head = Head.of(p, q, gain, part, reach, k, work[2:])
            size = head.least(theta, limit, k, most) if true > LEAST else head.enough(limit, k, head.reach + 1)
            k, done = max(k, size), size <= head.reach
            reach = reach if done else 4 * max(reach, k)
        found.append(k)
    return found


def _likely(tails: Tails, limit: float) -> int:
    """About the least k with Δ_k ≤ limit, by some k; the sums before are here those up to each entry."""
    ascending, sums = tails.ascending[0], tails.before[0]
    sent = np.arange(math.isqrt(ascending.size - 1) + 1) ** 2
    left = ascending.size - sent
    tail = sums[left - 1]
    mean = tail / left
    below = np.minimum(ascending.searchsorted(mean), left - 1)
    deviation = tail - sums[below] + ascending[below] - (left - below) * mean
    between = float(np.interp(-limit, -deviation, sent))
    return int(between) if between < sent[-1] else int(sent[-1])  # also where slopes are beyond a double


@dataclass(slots=True)
class Look:
    """What a look at one size tells.

    Attributes
    ----------
    k : int
    above : array, shape (H + N - k,)
        (p - μ)⁺ of the entries that are not sent.
    beyond : float
        Its sum.
    more : array, shape (H + N - k,)
        1.0 where r̂ > r among them, else 0.0.
    mass : float
        TV(q̂, p).
    gap : float
        TV(r, r̂).
    sent : float
        Σ (p_i - q_i)⁺ over the first k.
    mean : float
        μ, what the server takes each entry for that is not sent.
    """

    k: int
    above: Row
    beyond: float
    more: Row
    mass: float
    gap: float
    sent: float
    mean: float


@dataclass(slots=True)
class Head:
    """Entries of p and q that tell the sizes up to some k apart: the largest of q in order, then others in any.

    Attributes
    ----------
    reach : int
        The largest size that is looked at: H, or V - 1.
    p : array, shape (H + N,)
        The H largest of q, equal ones by lowest index, and N of the others, with p_i > μ: those of the rest
        have (p_i - μ)⁺ = 0 for every size that is looked at.
    q : array, shape (H,)
        Of those largest.
    gain : array, shape (H + N,)
        r where r is not that of the rest: (p - q)⁺ / TV(q, p).
    idle : float
        The sum of r over the rest.
    true : float
        TV(q, p), as the sum of all (p - q)⁺.
    row : array, shape (V,)
        q in the order it came in.
    sent : array, shape (V,)
        Which of it are those largest.
    rest : float
        The sum of the others.
    open : array, shape (reach + 1,)
        The sizes that are not known to fail.
    borders : array, shape (2, blocks + 1)
        At the sizes 0, STEP, 2 STEP and so on, and H: Σ (p_i - q_i)⁺ over those that are sent, and the sum of q over
        the others.
    work : array, shape (3, V or more)
    """

    reach: int
    p: Row
    q: Row
    gain: Row
    idle: float
    true: float
    row: Row
    sent: Mask
    rest: float
    open: Mask
    borders: Row
    work: Row

    @classmethod
    def of(cls, p: Row, q: Row, gain: Row, tails: Tails, reach: int, low: int, work: Row | None = None) -> Head:
        """For sizes from ``low`` to ``reach``, or thereabouts where the ``tails`` are those of some entries of q only.

        ``gain`` is (p - q)⁺. No order of all entries is needed: those above the border are told by comparison.
        """
        count = -(-tails.size * max(reach, 1) // q.size)
        sent = q >= (float(tails.ascending[0, -count]) if reach < q.size - 1 else 0.0)
        largest = descending(q, np.flatnonzero(sent))
        reach = min(largest.size, q.size - 1)
        work = np.empty((3, q.size)) if work is None else work
        rest = float(np.multiply(q, ~sent, out=work[0]).sum())  # by halves: to few roundings, however many entries
        least = rest / max(q.size - largest.size, 1)
        above = p > least * (1.0 - SHORT)
        chosen = np.concatenate((largest, np.flatnonzero(above > sent)))
        active, own = gain[chosen], q[largest]
        np.copyto(work[0], ~(above | sent))
        idle = float(gain @ work[0])
        true = float(active.sum()) + idle
        starts = np.arange(0, largest.size, STEP)
        borders = np.zeros((2, starts.size + 1))
        np.add.reduceat(active[: largest.size], starts).cumsum(out=borders[0, 1:])
        np.add.reduceat(own, starts)[::-1].cumsum(out=borders[1, -2::-1])
        borders[1] += rest
        active /= true
        open_ = np.ones(reach + 1, bool)
        open_[:low] = False
        return cls(reach, p[chosen], own, active, idle / true, true, q, sent, rest, open_, borders, work)

    def enough(self, limit: float, low: int, size: int) -> int:
        """The least k from ``low`` on with Δ_k ≤ limit, if it is less than ``size``, else that."""
        if size <= low or not self._allows(size - 1, limit):
            return size
        high = size - 1
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._allows(middle, limit) else (middle + 1, high)
        return high

    def _allows(self, k: int, limit: float) -> bool:
        """Whether Δ_k ≤ limit, with its rounding where that matters to the limit, or the tail is even."""
        size, own = self.row.size, self.q[k:]
        tail = self.rest + float(own.sum())
        mean, slack = tail / (size - k), rounding(size, tail, size - k)
        above = float(np.maximum(own - mean, 0.0).sum())
        if above > limit and own[0] > own[-1]:  # the others only add to it
            return False
        others = np.multiply(self.row, ~self.sent, out=self.work[0, :size])
        most = float(own[0] if own.size else others.max())
        above += float(np.maximum(np.subtract(others, mean, out=others), 0.0, out=others).sum())
        if above + (slack if slack > FINE * limit else 0.0) <= limit:
            return True
        return most == float(self.row.min())

    def least(self, theta: float, limit: float, low: int, most: int) -> int:
        """The least size from ``low`` on with TV(r, r̂) ≤ θ or Δ_k ≤ limit, which makes it so; else reach + 1.

        No size before ``low`` meets θ, which is at most that of the call before. ``most`` is about what Δ_k allows.
        """
        first, end = low, self.reach + 1
        over, under, left, window = None, (float(most), -FIRST), LOOKS, WINDOW
        while True:
            start, low = low, low + int(self.open[low:end].argmax()) if low < end else end
            if low >= end or not self.open[low]:
                return self.enough(limit, first, end)
            left -= 1
            if left == -2 * LOOKS:  # many looks: what Δ_k allows may be near
                end = self.enough(limit, first, end)
                if low >= end:
                    return end
            leap = left == LOOKS - 1 or (left >= 0 and low - start > WINDOW)
            k = max(low, min(_crossing(over, under, most), end - 1)) if leap else low
            step = STEP if k - low >= max(4 * WINDOW, STEP) else 1
            k, base = k - k % step, low - low % step
            stop = min(k + window + 1, end)
            look = self._look(k)
            if look is not None and look.gap <= theta:
                if k == low:
                    return self.enough(limit, first, k)
                under = (k, _ratio(look.gap, theta))
            else:
                self.open[k] = False
                if look is not None and (over is None or k > over[0]):
                    over = (k, _ratio(look.gap, theta))
            if look is None:
                continue
            if k > low:
                self.open[base:k] &= ~self.behind(theta, base, look, step)
            if look.gap > theta and stop > k + 1:
                fails = self.ahead(theta, look, stop - k - 1)
                self.open[k + 1 : stop] &= ~fails
                window = max(STEP, 4 * int(np.logical_and.accumulate(fails).sum()))

    def _sent(self, low: int, high: int, step: int = 1) -> Row:
        """Σ (p_i - q_i)⁺ over the first k, for the sizes from ``low`` to ``high``, by a ``step`` that divides both."""
        first, start = low // STEP, low - low % STEP
        if step == STEP:
            return self.borders[0, first : high // STEP + 1]
        sums = np.empty(high - start + 1)
        sums[0] = self.borders[0, first]
        np.multiply(self.gain[start:high], self.true, out=sums[1:])
        return sums.cumsum()[low - start :: step]

    def _means(self, low: int, high: int, step: int = 1) -> Row:
        """μ_k for the same."""
        sizes, last = np.arange(self.row.size - low, self.row.size - high - 1, -step), -(-high // STEP)
        if step == STEP:
            return self.borders[1, low // STEP : last + 1] / sizes
        rest = self.q[low : STEP * last]
        tails = np.empty(rest.size + 1)
        tails[0], tails[1:] = self.borders[1, last], rest[::-1]
        return tails.cumsum()[: low - high - 2 : -1][::step] / sizes

    def _look(self, k: int) -> Look | None:
        """TV(r, r̂_k) and what proofs need; None where r̂ points anywhere: as far from r as can be."""
        block = k // STEP
        start, after = self.borders[0, block], self.borders[1, min(block + 1, self.borders.shape[1] - 1)]
        sent = float(start + self.true * self.gain[STEP * block : k].sum())
        mean = float(after + self.q[k : STEP * (block + 1)].sum()) / (self.row.size - k)
        above, surplus, more = self.work[:, : self.p.size - k]
        np.maximum(np.subtract(self.p[k:], mean, out=above), 0.0, out=above)
        unsent = float(above.sum())
        mass = sent + unsent
        if mass <= NOISE:
            return None
        np.subtract(np.divide(above, mass, out=surplus), self.gain[k:], out=surplus)
        np.greater(surplus, 0.0, out=more)
        apart = float(np.abs(surplus, out=surplus).sum()) + self.idle
        share = abs(1.0 / mass - 1.0 / self.true) if unsent > 0 or apart > 0 else 0.0  # all of r is sent: r̂ is r
        return Look(k, above, unsent, more, mass, 0.5 * (sent * share + apart), sent, mean)

    def ahead(self, theta: float, look: Look, window: int) -> Mask:
        """Which of the next sizes must fail.

        A is {r̂_k > r}. For n > k, (p_i - q̂_i)⁺ becomes (p_i - q_i)⁺ for k ≤ i < n; for i ≥ n it rises by μ_k - μ_n
        where p_i > μ_k, as it is on A. Over all i ≥ k, Σ (p_i - μ_n)⁺ is convex in μ_n: at most the chord between its
        values at μ_k and at the last μ_n of the window. Those with k ≤ i < n have at least their share of it.
        """
        k, above, more = look.k, look.above, look.more
        on, own = more[:window], above[:window]
        means = self._means(k + 1, k + window)
        sent = look.sent if look.mass < self.true else 0.0  # in A if r̂ there, r true/mass, is above r
        changed = self.true * self.gain[k : k + window] - own
        fallen = look.mean - means
        inside = float(more.sum()) - np.cumsum(on)
        lower = sent + float(above @ more) + np.cumsum(changed * on) + fallen * inside
        steep = self.work[1, : above.size]
        np.maximum(np.subtract(self.p[k:], means[-1], out=steep), 0.0, out=steep)
        slope = (float(steep.sum()) - look.beyond) / fallen[-1] if fallen[-1] > 0 else 0.0
        upper = np.maximum(look.mass + np.cumsum(changed) + fallen * (slope - np.cumsum(own > 0)), NOISE)
        missed = float(self.gain[k:] @ more) + sent / self.true
        fails: Mask = lower / upper - missed > theta + SHORT + 2.0**-48 / upper
        return fails

    def behind(self, theta: float, low: int, look: Look, step: int) -> Mask:
        """Which of the sizes from ``low`` to before k must fail, so many at a time as ``step``, a divisor of k - low.

        A is {i < n}, if r̂_k is above r there, with {n ≤ i < k: p_i > μ_k} and what is taken of the entries beyond k:
        those of {r̂_k > r}, or of these only those that any μ_n of the range leaves above 0. On it (p_i - q̂_i)⁺ is at
        least p_i - μ_n for i ≥ n. All of r that lies in n ≤ i < k is on it, since p_i > q_i ≥ q_k ≥ μ_k there. From n
        on, T_n is a sum of convex functions of μ_n: at most the chord between its values at μ_k and at the largest μ_n.

        For b ≤ n < e = b + step: those between n and e are left out of A, and μ_n ≤ μ_b. T_n is at most what b in the
        place of n makes of it, since (p_i - q_i)⁺ ≤ (p_i - μ_n)⁺ for i < n; and μ_n ≥ μ_e.
        """
        k, above, more = look.k, look.above, look.more
        sums, every = self._sent(low, k, step), self._means(low, k, step)
        sent, means = sums[:-1], every[:-1]
        ahead, ends = (sums[1:], every[1:]) if step > 1 else (sent, means)
        own, risen, width = look.mean, means - look.mean, float(means[0]) - look.mean
        between = np.maximum(self.p[low:k] - own, 0.0)
        near, count = _from(between, step), _from((between > 0).astype(np.float64), step)
        far = _from(np.maximum(between - width, 0.0, out=between), step)
        steep = self.work[1, : above.size]
        np.maximum(np.subtract(above, width, out=steep), 0.0, out=steep)
        upper = near[:-1] + look.beyond
        if width > 0:
            upper -= (upper - far[:-1] - float(steep.sum())) * ((ends - own) / width)
        upper = np.maximum(upper + sent, NOISE)
        after = slice(1, None) if step > 1 else slice(0, -1)
        inside, missed = near[after] - risen * count[after], (look.sent - ahead) / self.true
        if look.mass < self.true:
            inside, missed = inside + sent, missed + ahead / self.true
        slack = theta + SHORT + rounding(self.row.size, 1.0, 1) + 2.0**-48 / upper
        fails = np.zeros(upper.size, bool)
        for chosen in (more, np.multiply(np.greater(steep, 0.0, out=steep), more, out=steep))[: 1 + (step > 1)]:
            lower = inside + float(above @ chosen) - float(chosen.sum()) * risen
            fails |= lower / upper - missed - float(self.gain[k:] @ chosen) > slack
        return fails.repeat(step)


Point = tuple[float, float]


def _crossing(over: Point | None, under: Point, most: int) -> int:
    """Where a line through two (k, ln(TV(r, r̂_k)/θ)) is 0; it only tells where to look."""
    if over is None:
        if under[0] >= most:
            return int(SHARE * most)
        over, under = under, (float(most), min(-FIRST, 2.0 * under[1]))
    (a, high), (b, below) = over, under
    return int(a + (b - a) * high / (high - below)) if high > below else int(b)


def _ratio(gap: float, theta: float) -> float:
    """Its logarithm, within reason."""
    return math.log(min(max(gap / theta, 1e-9), 1e9)) if theta > 0 else 1.0


def _from(values: Row, step: int) -> Row:
    """Sums of the entries from every ``step``-th on, and the 0 beyond the last."""
    each = values.reshape(-1, step) @ np.ones(step) if step > 1 else values
    sums = np.zeros(each.size + 1)
    each[::-1].cumsum(out=sums[1:])
    return sums[::-1]


def descending(q: Row, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """The places of some entries, float64 and none negative, in their descending order, equal ones by lowest index.

    Numbers that are not negative are in the order of their bits. With the last bits of each replaced by its index, one
    sort of whole numbers gives the order, in half the time of an argsort; where those bits mattered it is made again.
    """
    values = q[places]
    low = (1 << max(values.size - 1, 1).bit_length()) - 1
    high = (1 << 63) - 1 - low
    keys = values.view(np.int64) & high
    keys ^= high
    keys |= np.arange(values.size)
    keys.sort()
    keys &= low
    ordered = values[keys]
    if bool((ordered[1:] > ordered[:-1]).any()):
        keys = (-values).argsort(kind="stable")
    order: NDArray[np.int64] = places[keys]
    return order
