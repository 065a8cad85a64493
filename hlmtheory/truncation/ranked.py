"""One pair of rows, sorted: TV(r, r̂_k) at any k in one pass, and the least k that meets a tolerance.

Symbols are those of :mod:`hlmtheory.truncation`; θ is a tolerance on TV(r, r̂).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlmtheory._array import Array, arrays, tail_sums, to_numpy
from hlmtheory._simplex import distance, excess
from hlmtheory.truncation.exact import least_exact
from hlmtheory.truncation.reconstruction import NOISE


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
        p, q = (to_numpy(row).astype(np.float64) for row in (self.p, self.q))
        return least_exact(p, q, tolerances, np.empty((5, q.size)))
