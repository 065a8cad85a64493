"""One pair of rows, sorted: TV(r, r̂_k) at any k in one pass, and the least k that meets a tolerance by leaps.

Symbols are those of :mod:`hlmtheory.truncation`; θ is a tolerance on TV(r, r̂).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hlmtheory._array import Array, arrays, tail_sums
from hlmtheory._simplex import distance, excess
from hlmtheory.truncation.reconstruction import EVEN

NOISE = 2.0**-44
"""A TV(q̂, p) up to this is rounding: r̂ points anywhere, so its distortion is taken at its worst, 1."""
SHORT = 2.0**-30
"""By so much a leap stays below what is proven, so that a rounding skips no k."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """Rows p and q (V,) in descending order of q, equal entries by lowest index.

    Attributes
    ----------
    tails : array, shape (V + 1,)
        Σ_{i>k} q_i.
    gain : array, shape (V,)
        (p - q)⁺.
    before : array, shape (V + 1,)
        Its sums over the first k.
    apart : float
        TV(q, p).
    """

    xp: Any
    p: Array
    q: Array
    tails: Array
    gain: Array
    before: Array
    apart: float

    @classmethod
    def of(cls, p: Array, q: Array) -> Ranked:
        """Sort a pair."""
        xp, p, q = arrays(p=p, q=q)
        order = xp.argsort(q, descending=True, stable=True)
        p, q = xp.take(p, order), xp.take(q, order)
        gain = excess(xp, p, q)
        before = xp.flip(tail_sums(xp, xp.flip(gain, axis=0)), axis=0)
        return cls(xp, p, q, tail_sums(xp, q), gain, before, float(distance(xp, p, q)))

    def mean(self, k: int) -> float:
        """What the server takes each entry for that is not sent."""
        return float(self.tails[k]) / max(1, int(self.q.shape[0]) - k)

    def distortion(self, k: int) -> tuple[float, float]:
        """TV(r, r̂_k) of cu-hlm (18), and TV(q̂_k, p)."""
        xp, true = self.xp, float(self.before[-1])
        distorted = excess(xp, self.p[k:], self.mean(k))
        sent = float(self.before[k])
        mass = sent + float(xp.sum(distorted))
        if true <= 0 or mass <= NOISE:
            return float(true > 0), mass
        tail = float(xp.sum(xp.abs(self.gain[k:] / true - distorted / mass)))
        return min(0.5 * (sent * abs(1.0 / true - 1.0 / mass) + tail), 1.0), mass

    def least(self, tolerances: Sequence[float]) -> list[int]:
        """Least k with TV(r, r̂_k) ≤ θ, or with a Δ_k ≤ θ TV(q, p) that makes it so, for each θ of some that fall."""
        # TV(r̂_k, r̂_n) ≤ TV(q̂_k, q̂_n) / TV(q̂_k, p), by the proof of truncation.tvd_sharp, which uses of the two rows
        # only that they are distributions. For k < n they agree on the first k; beyond n, q̂_n holds the smaller mean;
        # so TV(q̂_k, q̂_n) = Σ_{k<i≤n} (q_i - μ_k)⁺, which rises with n, to Δ_k at n = V. By the triangle inequality no
        # n meets θ before that sum reaches (TV(r, r̂_k) - θ) TV(q̂_k, p): what lies between is leapt over.
        xp, found, k, last = self.xp, [], 0, self.q.shape[0] - 1
        for theta in tolerances:
            while k < last and self.apart > 0:
                gap, mass = self.distortion(k)
                if gap <= theta:
                    break
                moved = xp.cumulative_sum(excess(xp, self.q[k:], self.mean(k)))
                if float(moved[-1]) <= max(theta * self.apart, EVEN * float(self.tails[k])):
                    break
                limit = xp.full_like(moved[:1], (gap - theta) * mass * (1.0 - SHORT))
                k = min(last, k + 1 + int(xp.searchsorted(moved, limit)[0]))
            found.append(k)
        return found
