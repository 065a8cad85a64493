"""One pair of distributions, sorted: TV(r, r̂_k) at any k in one pass, and the smallest k within a tolerance.

A plain scan computes every k, O(V) each. Here one computation excludes several k: if k fails, the next k with almost
the same q̂ fail too. Symbols are those of :mod:`hlmtheory.truncation`; θ is a tolerance on TV(r, r̂). On the host,
in numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hlmtheory._array import NUMPY, Array, tail_sums, to_numpy
from hlmtheory._simplex import distance, excess
from hlmtheory.truncation._search.tails import Tails
from hlmtheory.truncation.reconstruction import NOISE

Row = NDArray[np.float64]

SHORT = 2.0**-40
"""A k must fail by more than this, and 2^-48/TV(q̂, p), to rule out others: more than was seen of rounding, unproven."""
LEAST = 2.0**-1000
"""A residual with less mass cannot be divided by it."""


@dataclass(frozen=True, slots=True)
class SortedPair:
    """Distributions p and q (V,) in descending order of q, equal entries by lowest index.

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

    p: Row
    q: Row
    tails: Row
    gain: Row
    before: Row
    apart: float

    @classmethod
    def of(cls, p: Array, q: Array) -> SortedPair:
        """Sort a pair."""
        p, q = (to_numpy(row).astype(np.float64, copy=False) for row in (p, q))
        order = (-q).argsort(kind="stable")
        p, q = p[order], q[order]
        gain = excess(NUMPY, p, q)
        return cls(p, q, tail_sums(NUMPY, q), gain, tail_sums(NUMPY, gain[::-1])[::-1], float(distance(NUMPY, p, q)))

    def mean(self, k: int) -> float:
        """μ: the probability that the server gives each entry that is not sent."""
        return float(self.tails[k]) / max(1, self.q.size - k)

    def distortion(self, k: int) -> tuple[float, float]:
        """TV(r, r̂_k) of cu-hlm (18), and TV(q̂_k, p)."""
        true, sent = float(self.before[-1]), float(self.before[k])
        distorted = excess(NUMPY, self.p[k:], self.mean(k))
        mass = sent + float(np.sum(distorted))
        if true <= 0 or mass <= NOISE:
            return float(true > 0), mass
        tail = float(np.sum(np.abs(self.gain[k:] / true - distorted / mass)))
        return min(0.5 * (sent * abs(1.0 / true - 1.0 / mass) + tail), 1.0), mass

    def least(self, tolerances: Sequence[float]) -> list[int]:
        """The smallest k with TV(r, r̂_k) ≤ θ, or Δ_k ≤ θ TV(q, p), which implies it; for each θ, in falling order."""
        if not (self.apart > 0 and self.before[-1] > 0):
            return [0] * len(tolerances)
        k, found, limits = 0, [], np.asarray(tolerances, dtype=np.float64) * self.apart
        tails = Tails(NUMPY, NUMPY, (), self.q[None, ::-1].copy(), self.tails[None, ::-1].copy())  # sorted already
        sizes = tails.least(limits, "distortion_tolerance", sure=True).tolist()
        for theta, enough in zip(tolerances, sizes, strict=True):
            k = self._first(theta, k, enough) if theta < 1.0 else k
            found.append(k)
        return found

    def _first(self, theta: float, k: int, enough: int) -> int:
        """The smallest size from k on that meets θ; ``enough`` is known to meet it."""
        if self.before[-1] <= LEAST:
            return max(k, enough)
        while k < enough:
            gap, mass = self.distortion(k)
            if gap <= theta:
                return k
            k += 1 + (self._ruled_out(theta, k, enough, gap, mass) if mass > NOISE else 0)
        return max(k, enough)

    def _ruled_out(self, theta: float, k: int, enough: int, gap: float, mass: float) -> int:
        """Number of sizes n after k that must fail, since TV(r, r̂_k) = ``gap`` exceeds θ.

        The claim ``truncation.exact`` has the proof.
        """
        moved = np.maximum(self.q[k : enough - 1] - self.mean(k), 0.0).cumsum()
        return int(moved.searchsorted((gap - theta - SHORT) * mass - 2.0**-48))
