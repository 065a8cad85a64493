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

from hlmtheory.truncation.lean import mass_of, rounding
from hlmtheory.truncation.tails import Tails

Row = NDArray[np.float64]
Mask = NDArray[np.bool_]

NOISE = 2.0**-44
"""A TV(q̂, p) up to this is rounding: r̂ points anywhere, so its distortion is taken at its worst, 1."""
SHORT = 2.0**-40
"""By so much a proof must exceed θ, and 2^-48 over TV(q̂, p): more than the rounding seen, not a proven bound."""
LEAST = 2.0**-1000
"""Below it a residual cannot be divided by its mass."""
WINDOW = 256
"""Sizes that are looked ahead at first; then four times what the last look passed over."""
STEP = 16
"""So many sizes before a look are proven to fail together, where they are many."""
LOOKS = 4
"""Of so many every other one is where θ is thought to be met, the rest at the first size that is not passed over."""
SHARE = 0.45
"""Of the size that Δ_k allows, where θ is first thought to be met: rows of gaussian logits have .4 to .55."""
FIRST = 1.0
"""And ln(θ/TV(r, r̂)) at the size that Δ_k allows."""


def least_exact(p: Row, q: Row, tolerances: Sequence[float], tails: Tails, work: Row) -> list[int]:
    """Least k with TV(r, r̂_k) ≤ θ, or with a Δ_k ≤ θ TV(q, p) that makes it so, for each θ of some that fall.

    ``tails`` is of q alone. ``work`` (2, V) is written over: a new array of that size takes longer to get than to fill.
    """
    spare, gain = work
    np.maximum(np.subtract(p, q, out=spare), 0.0, out=gain)
    apart, true = min(0.5 * float(np.abs(spare, out=spare).sum()), 1.0), float(gain.sum())
    if apart <= 0 or true <= 0:
        return [0] * len(tolerances)
    enough = [int(tails.least(np.array([[theta * apart]]), sure=True)[0]) for theta in tolerances]
    if true <= LEAST:  # a residual that float64 cannot normalise: what the bound allows is sure
        return [most if theta < 1.0 else 0 for theta, most in zip(tolerances, enough, strict=True)]
    found, k, head = [], 0, None
    for theta, most in zip(tolerances, enough, strict=True):
        reach = min(most, most // 2 + 4 * WINDOW)
        reach = most if k > reach else reach
        while theta < 1.0 and k < most:
            if head is None or head.reach < reach:
                head = Head.of(p, q, gain, tails, reach, k)
            size = head.least(theta, k, most)
            if size is not None:
                k = size
                break
            k, reach = head.reach + 1, most
        found.append(min(k, most))
    return found


@dataclass(frozen=True, slots=True)
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
    """

    k: int
    above: Row
    beyond: float
    more: Row
    mass: float
    gap: float


@dataclass(slots=True)
class Head:
    """Entries of p and q that tell the sizes up to some k apart: the largest of q in order, then others in any.

    Attributes
    ----------
    reach : int
        The largest size that is looked at.
    p : array, shape (H + N,)
        The H ≥ ``reach`` largest of q, equal ones by lowest index, and N of the others, with p_i > μ: those of the rest
        have (p_i - μ)⁺ = 0 for every size that is looked at.
    q : array, shape (H,)
        Of those largest.
    gain : array, shape (H + N,)
        r where r is not that of the rest: (p - q)⁺ / TV(q, p).
    idle : float
        The sum of r over the rest.
    true : float
        TV(q, p), as the sum of all (p - q)⁺.
    tails : Tails
        Of q, one row.
    open : array, shape (reach + 1,)
        The sizes that are not known to fail.
    sums : array, shape (2, S + 1)
        For the sizes k ≤ S: Σ (p_i - q_i)⁺ over the first k; and μ_k, what the server takes each entry for that is
        not sent.
    work : array, shape (3, H + N)
    """

    reach: int
    p: Row
    q: Row
    gain: Row
    idle: float
    true: float
    tails: Tails
    open: Mask
    sums: Row
    work: Row

    @classmethod
    def of(cls, p: Row, q: Row, gain: Row, tails: Tails, reach: int, low: int) -> Head:
        """For sizes from ``low`` to ``reach``; ``gain`` is (p - q)⁺."""
        ascending, before = tails.ascending[0], tails.before[0]
        border = float(ascending[q.size - max(reach, 1)])
        sent = q >= border
        largest = descending(q, np.flatnonzero(sent))
        least = mass_of(ascending, before, q.size - reach) / max(q.size - reach, 1)
        above = p > least * (1.0 - SHORT)
        chosen = np.concatenate((largest, np.flatnonzero(above & ~sent)))
        active = gain[chosen]
        idle = float(gain @ (~(above | sent)).astype(np.float64))
        true = float(active.sum()) + idle
        active /= true
        open_ = np.ones(reach + 1, bool)
        open_[:low] = False
        sums = np.array([[0.0], [mass_of(ascending, before, q.size) / q.size]])
        work = np.empty((3, chosen.size))
        return cls(reach, p[chosen], q[largest], active, idle / true, true, tails, open_, sums, work)

    def least(self, theta: float, low: int, most: int) -> int | None:
        """The least size from ``low`` on with TV(r, r̂) ≤ θ, or ``most``; None if it is beyond the reach.

        No size before ``low`` meets θ, which is at most that of the call before.
        """
        end = min(most, self.reach + 1)
        over, under, left, window = None, (float(most), -FIRST), LOOKS, WINDOW
        while True:
            start, low = low, low + int(self.open[low:end].argmax())
            if not self.open[low] or low >= end:
                return most if end == most else None
            left -= 1
            k = max(low, min(_crossing(over, under, most), end - 1)) if left >= 0 and left % 2 else low
            step = STEP if k - low >= 4 * WINDOW else 1
            k -= (k - low) % step
            window = WINDOW if k > low else max(window, 4 * (low - start))
            stop = min(k + window + 1, end)
            self._extend(min(stop, self.reach))
            look = self._look(k)
            if look is not None and look.gap <= theta:
                if k == low:
                    return k
                under = (k, _ratio(look.gap, theta))
            else:
                self.open[k] = False
                if look is not None and (over is None or k > over[0]):
                    over = (k, _ratio(look.gap, theta))
            if look is None:
                continue
            if k > low:
                self.open[low:k] &= ~self.behind(theta, low, look, step)
            if look.gap > theta and stop > k + 1:
                self.open[k + 1 : stop] &= ~self.ahead(theta, look, stop - k - 1)

    def _extend(self, size: int) -> None:
        """Have the sums for the sizes up to this one."""
        have, total = self.sums.shape[1] - 1, self.tails.size
        if size <= have:
            return
        size = min(max(size, 2 * have), self.reach)
        sums = np.empty((2, size + 1))
        sums[:, : have + 1] = self.sums
        new = slice(have + 1, size + 1)
        np.multiply(self.gain[have:size], self.true, out=sums[0, new])
        sums[0, have:].cumsum(out=sums[0, have:])
        rest = mass_of(self.tails.ascending[0], self.tails.before[0], total - size)
        tail = np.append(rest, self.q[have:size][::-1]).cumsum()[-2::-1]  # from the far end: it keeps its digits
        sums[1, new] = tail / np.maximum(total - np.arange(have + 1, size + 1), 1)
        self.sums = sums

    def _look(self, k: int) -> Look | None:
        """TV(r, r̂_k) and what proofs need; None where r̂ points anywhere: as far from r as can be."""
        above, surplus, more = self.work[:3, : self.p.size - k]
        np.maximum(np.subtract(self.p[k:], self.sums[1, k], out=above), 0.0, out=above)
        sent, unsent = float(self.sums[0, k]), float(above.sum())
        mass = sent + unsent
        if mass <= NOISE:
            return None
        np.subtract(np.divide(above, mass, out=surplus), self.gain[k:], out=surplus)
        np.greater(surplus, 0.0, out=more)
        apart = float(np.abs(surplus, out=surplus).sum()) + self.idle
        share = abs(1.0 / mass - 1.0 / self.true) if unsent > 0 or apart > 0 else 0.0  # all of r is sent: r̂ is r
        return Look(k, above, unsent, more, mass, 0.5 * (sent * share + apart))

    def ahead(self, theta: float, look: Look, window: int) -> Mask:
        """Which of the next sizes must fail.

        A is {r̂_k > r}. For n > k, (p_i - q̂_i)⁺ becomes (p_i - q_i)⁺ for k ≤ i < n; for i ≥ n it rises by μ_k - μ_n
        where p_i > μ_k, as it is on A. Over all i ≥ k, Σ (p_i - μ_n)⁺ is convex in μ_n: at most the chord between its
        values at μ_k and at the last μ_n of the window. Those with k ≤ i < n have at least their share of it.
        """
        k, above, more = look.k, look.above, look.more
        on, own = more[:window], above[:window]
        sent = float(self.sums[0, k]) if look.mass < self.true else 0.0  # in A if r̂ there, r true/mass, is above r
        changed = self.true * self.gain[k : k + window] - own
        fallen = self.sums[1, k] - self.sums[1, k + 1 : k + window + 1]
        inside = float(more.sum()) - np.cumsum(on)
        lower = sent + float(above @ more) + np.cumsum(changed * on) + fallen * inside
        steep = self.work[1, : above.size]
        np.maximum(np.subtract(self.p[k:], self.sums[1, k + window], out=steep), 0.0, out=steep)
        slope = (float(steep.sum()) - look.beyond) / fallen[-1] if fallen[-1] > 0 else 0.0
        upper = np.maximum(look.mass + np.cumsum(changed) + fallen * (slope - np.cumsum(own > 0)), NOISE)
        missed = float(self.gain[k:] @ more) + sent / self.true
        fails: Mask = lower / upper - missed > theta + SHORT + 2.0**-48 / look.mass
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
        starts, ends = slice(low, k, step), slice(low + step, k + 1, step) if step > 1 else slice(low, k)
        own, most = float(self.sums[1, k]), float(self.sums[1, low])
        risen, width, whole = self.sums[1, starts] - own, most - own, float(self.sums[0, k])
        between = np.maximum(self.p[low:k] - own, 0.0)
        near, count = _from(between, step), _from((between > 0).astype(np.float64), step)
        far = _from(np.maximum(between - width, 0.0, out=between), step)
        steep = self.work[1, : above.size]
        np.maximum(np.subtract(above, width, out=steep), 0.0, out=steep)
        upper = near[:-1] + look.beyond
        if width > 0:
            upper -= (upper - far[:-1] - float(steep.sum())) * ((self.sums[1, ends] - own) / width)
        upper = np.maximum(upper + self.sums[0, starts], NOISE)
        after = slice(1, None) if step > 1 else slice(0, -1)
        inside, missed = near[after] - risen * count[after], (whole - self.sums[0, ends]) / self.true
        if look.mass < self.true:
            inside, missed = inside + self.sums[0, starts], missed + self.sums[0, ends] / self.true
        slack = theta + SHORT + rounding(self.tails.size) + 2.0**-48 / upper
        fails = np.zeros(upper.size, bool)
        for chosen in (more, np.multiply(np.greater(steep, 0.0, out=steep), more, out=steep)):
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
    sums: Row = np.append(0.0, each[::-1]).cumsum()[::-1]
    return sums


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
