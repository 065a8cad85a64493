"""The least k with TV(r, r̂_k) ≤ θ of one pair of rows, from the entries that can matter and by leaps.

Symbols are those of :mod:`hlmtheory.truncation`; θ is a tolerance on TV(r, r̂). On the host, in numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hlmtheory._array import NUMPY
from hlmtheory.truncation.tails import Tails

Row = NDArray[np.float64]

NOISE = 2.0**-44
"""A TV(q̂, p) up to this is rounding: r̂ points anywhere, so its distortion is taken at its worst, 1."""
SHORT = 2.0**-40
"""By so much a leap stays below what is proven, so that a rounding skips no k; and 2^-48 over TV(q̂, p)."""
LEAST = 2.0**-1000
"""Below it a residual cannot be divided by its mass."""
WINDOW = 1024
"""Sizes that are looked ahead at first; then four times the last leap."""


def least_exact(p: Row, q: Row, tolerances: Sequence[float], work: Row) -> list[int]:
    """Least k with TV(r, r̂_k) ≤ θ, or with a Δ_k ≤ θ TV(q, p) that makes it so, for each θ of some that fall.

    ``work`` (3, V) is written over: a new array of that size takes longer to get than to fill.
    """
    gap, gain, ascending = work
    np.maximum(np.subtract(p, q, out=gap), 0.0, out=gain)
    apart = min(0.5 * float(np.abs(gap, out=gap).sum()), 1.0)
    if apart <= 0:
        return [0] * len(tolerances)
    ascending[:] = q
    ascending.sort()
    tails = Tails.of(NUMPY, ascending[None])
    enough = [int(tails.least(np.array([[theta * apart]]), sure=True)[0]) for theta in tolerances]
    head = Head.of(p, q, gain, tails, enough[-1])
    found, k = [], 0
    for theta, most in zip(tolerances, enough, strict=True):
        k = head.least(theta, k, most, work)
        found.append(k)
    return found


@dataclass(frozen=True, slots=True)
class Head:
    """Entries of p and q that tell the sizes up to some k apart: the largest of q in order, then others in any.

    Attributes
    ----------
    p : array, shape (H + N,)
        The H largest of q, equal ones by lowest index, and N of the others, with p_i > μ: those of the rest have
        (p_i - μ)⁺ = 0 for every size that is looked at.
    gain : array, shape (H + N,)
        r where r is not that of the rest: (p - q)⁺ / TV(q, p).
    idle : float
        The sum of r over the rest.
    true : float
        TV(q, p), as the sum of all (p - q)⁺.
    before : array, shape (H + 1,)
        Sums of (p - q)⁺ over the first k.
    mean : array, shape (H + 1,)
        μ, what the server takes each entry for that is not sent.
    """

    p: Row
    gain: Row
    idle: float
    true: float
    before: Row
    mean: Row

    @classmethod
    def of(cls, p: Row, q: Row, gain: Row, tails: Tails, most: int) -> Head:
        """For sizes up to ``most``; takes the array of gains over."""
        border = float(tails.ascending[0, q.size - max(most, 1)])
        largest = _descending(q, np.flatnonzero(q >= border))
        size = largest.size
        rest = float(tails.mass(np.array([[q.size - size]]))[0, 0])
        tail = np.append(np.cumsum(np.append(rest, q[largest[::-1]]))[::-1], 0.0)[: size + 1]
        mean = tail / np.maximum(q.size - np.arange(size + 1), 1)
        others = np.flatnonzero((p > mean[most] * (1.0 - SHORT)) & (q < border))
        chosen = np.concatenate((largest, others))
        active = gain[chosen]
        gain[chosen] = 0.0
        idle, before = float(gain.sum()), np.append(0.0, np.cumsum(active[:size]))
        true = float(before[-1]) + float(active[size:].sum()) + idle  # the first of these alone if no other gains
        if true > LEAST:
            active /= true
            idle /= true
        return cls(p[chosen], active, idle, true, before, mean)

    def least(self, theta: float, k: int, most: int, work: Row) -> int:
        """The least size from k on with TV(r, r̂) ≤ θ, or ``most``, with no such size before k."""
        window, true = WINDOW, self.true
        if theta >= 1.0:
            return k
        if true <= LEAST:  # no residual, or one that float64 cannot normalise: what the bound allows is sure
            return most if true > 0 else k
        while k < most:
            above, surplus, more = work[:, : self.p.size - k]
            np.maximum(np.subtract(self.p[k:], self.mean[k], out=above), 0.0, out=above)
            sent = float(self.before[k])
            mass = sent + float(above.sum())
            if mass <= NOISE:  # r̂ points anywhere: as far from r as can be
                k += 1
                continue
            np.subtract(np.divide(above, mass, out=surplus), self.gain[k:], out=surplus)
            np.greater(surplus, 0.0, out=more)
            share = abs(1.0 / mass - 1.0 / true)
            gap = 0.5 * (sent * share + float(np.abs(surplus, out=surplus).sum()) + self.idle)
            if gap <= theta:
                return k
            leap = self._leap(theta, k, min(window, most - k), above, more, mass)
            k, window = k + leap, max(WINDOW, 4 * leap)
        return k

    def _leap(self, theta: float, k: int, window: int, above: Row, more: Row, mass: float) -> int:
        """How far the next size is that may meet θ, at most ``window``.

        TV(r, r̂_n) ≥ r̂_n(A) - r(A) for any set A: taken is A = {r̂_k > r}, ``more``, with which it is TV(r, r̂_k) at
        n = k. For n > k, (p_i - q̂_i)⁺ is (p_i - q_i)⁺ for i ≤ n. For i > n it rises by at least μ_k - μ_n where
        p_i > μ_k, by at most that, and only where p_i > μ_n: so the mass on A is at least, and that of all at most,
        what is summed here.
        """
        ahead, steps = slice(k, k + window), np.arange(1, window + 1)
        sent = float(self.before[k]) if mass < self.true else 0.0  # in A if r̂_k, there r times true/mass, is above r
        changed = self.true * self.gain[ahead] - above[:window]
        fallen = self.mean[k] - self.mean[k + 1 : k + window + 1]
        inside = np.maximum(float(more.sum()) - steps, 0.0)
        outside = np.count_nonzero(self.p[k:] > self.mean[k + window])
        lower = sent + float(above @ more) + np.cumsum(changed * more[:window]) + fallen * inside
        upper = mass + np.cumsum(changed) + fallen * outside
        of_true = float(self.gain[k:] @ more) + sent / self.true
        may = lower / upper - of_true <= theta + SHORT + 2.0**-48 / mass
        return int(may.argmax()) + 1 if may.any() else window


def _descending(q: Row, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """The places of some entries in their descending order, equal ones by lowest index."""
    values = -q[places]
    order = values.argsort()
    ordered = values[order]
    if bool((ordered[1:] == ordered[:-1]).any()):  # the stable sort takes several times as long
        order = values.argsort(kind="stable")
    return places[order]
