"""TV(r, r̂_k) of one pair of rows for many k, and the least k that meets a tolerance: one sort for all of them.

``hlmtheory.resampling_distortion`` and ``hlmtheory.exact_size`` are what the numbers agree with; those sort each row
once for each k, and look at every k below the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Row = NDArray[np.float64]
SHORT = 2.0**-30
"""By so much a leap stays below what is proven, so that a rounding skips no k."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """Rows p and q (V,) in descending order of q, equal entries by lowest index.

    ``tails`` (V + 1,): Σ_{i>k} q_i; ``excess`` (V,): (p - q)⁺; ``prefix`` (V + 1,): its sums over the first k.
    """

    p: Row
    q: Row
    tails: Row
    excess: Row
    prefix: Row

    @classmethod
    def of(cls, p: Row, q: Row) -> Ranked:
        """Sort a pair."""
        order = np.argsort(-q, kind="stable")
        p, q = p[order], q[order]
        excess = np.maximum(p - q, 0.0)
        tails = np.append(np.cumsum(q[::-1])[::-1], 0.0)
        return cls(p, q, tails, excess, np.append(0.0, np.cumsum(excess)))

    @property
    def apart(self) -> float:
        """TV(q, p), as the sum of the excess."""
        return float(self.prefix[-1])

    def mean(self, k: int) -> float:
        """What the server takes each entry for that is not sent."""
        return float(self.tails[k]) / max(1, len(self.q) - k)

    def distortion(self, k: int) -> tuple[float, float]:
        """TV(r, r̂_k) of cu-hlm (18), and TV(q̂_k, p)."""
        distorted = np.maximum(self.p[k:] - self.mean(k), 0.0)
        mass, true = float(self.prefix[k] + distorted.sum()), self.apart
        if true <= 0.0 or mass <= 0.0:
            return float(true > 0.0), mass
        tail = np.abs(self.excess[k:] / true - distorted / mass).sum()
        return min(0.5 * float(self.prefix[k] * abs(1.0 / true - 1.0 / mass) + tail), 1.0), mass

    def least(self, tolerances: Sequence[float]) -> list[int]:
        """Least k with TV(r, r̂_k) ≤ each of the tolerances, which fall.

        By the argument of ``truncation.tvd_sharp``, which holds for any two rows, TV(r̂_k, r̂_n) ≤ TV(q̂_k, q̂_n) /
        TV(q̂_k, p); and TV(q̂_k, q̂_n) = Σ_{k<i≤n} (q_i - μ_k)⁺. So no n meets θ before that sum reaches
        (TV(r, r̂_k) - θ) TV(q̂_k, p): what lies between is leapt over.
        """
        found, k, last = [], 0, len(self.q) - 1
        for tolerance in tolerances:
            while k < last:
                gap, mass = self.distortion(k)
                if gap <= tolerance:
                    break
                moved = np.cumsum(np.maximum(self.q[k:last] - self.mean(k), 0.0))
                k = min(last, k + 1 + int(np.searchsorted(moved, (gap - tolerance) * mass * (1.0 - SHORT))))
            found.append(k)
        return found
