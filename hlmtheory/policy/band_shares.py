"""Shares of a band from the best rate of each user, and bounds that no shares exceed.

See :mod:`hlmtheory.policy.band` for X*(z), its bound by straight lines, and the price ν of the band.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from hlmtheory.policy.capacity import throughput_shares
from hlmtheory.policy.columns import ROUNDING
from hlmtheory.policy.costs import Numbers, UserPlan
from hlmtheory.policy.rounds import Prices

FEW = 8
_CELLS = 2000  # of the grid of shares
_STEPS = 200
_ALTERNATIONS = 8


class Curve(NamedTuple):
    """The best rate of a user by z, the seconds a bit takes."""

    z: Numbers  # (n,), ascending
    upper: Numbers  # (n,), upper bounds on X*(z)
    tokens: Numbers  # (m,), E of each plan found
    fixed: Numbers  # (m,), A
    bits: Numbers  # (m,), of a round
    plans: tuple[UserPlan, ...]
    starts: tuple[Prices, ...]
    slow: float  # s of this user, the seconds a bit takes on the whole band

    def rates(self, shares: Numbers) -> Numbers:
        """The best rate of the plans found, for each share."""
        return np.asarray(self._each(shares).max(axis=-1))

    def choice(self, share: float) -> int:
        """The best of the plans found at a share."""
        return int(np.argmax(self._each(np.asarray(share))))

    def _each(self, shares: Numbers) -> Numbers:
        w = np.asarray(shares)[..., None]
        return self.tokens * w / np.maximum(self.fixed * w + self.bits * self.slow, 1e-300)

    def bound(self, shares: Numbers) -> Numbers:
        """An upper bound on X* for each share: straight lines in z, and constant outside."""
        with np.errstate(divide="ignore"):
            return np.interp(self.slow / shares, self.z, self.upper)


class Lines(NamedTuple):
    """A user's weighted utility as straight lines in 1/w between two shares; below the smallest it is constant."""

    level: Numbers  # (n,), at the large share
    slope: Numbers  # (n,), at most 0
    small: Numbers  # (n,), shares
    large: Numbers  # (n,)
    none: float  # the utility of no share

    @classmethod
    def of(cls, curve: Curve, weight: float, utility: str) -> Lines:
        """The lines of a curve, of shares of at most 1."""
        level = weight * (np.log(curve.upper) if utility == "log" else curve.upper)
        z, none = np.maximum(curve.z, curve.slow), float(level[-1])
        slope = np.minimum(np.diff(level) / np.diff(curve.z), 0.0)
        level = level[:-1] + slope * (z[:-1] - curve.z[:-1])
        some = curve.z[1:] > curve.slow
        small, large = (curve.slow / edge[some] for edge in (z[1:], z[:-1]))
        return cls(level[some], slope[some] * curve.slow, small, large, none)

    def best_share(self, price: float) -> tuple[float, float]:
        """The largest utility less ν w over the shares: on each line at w = √(-slope/ν)."""
        inside = np.sqrt(-self.slope / price) if price > 0 else self.large
        inside = np.minimum(np.maximum(inside, self.small), self.large)
        value = self.level + self.slope * (1.0 / inside - 1.0 / self.large) - price * inside
        best = int(np.argmax(value)) if len(value) else 0
        worth = len(value) and value[best] >= self.none
        return (float(value[best]), float(inside[best])) if worth else (self.none, 0.0)


def utility_of(rates: Numbers, weights: Numbers, utility: str) -> float:
    """The utility of these rates."""
    return float(weights @ (np.log(rates) if utility == "log" else rates))


def priced_shares(curves: list[Curve], weights: Numbers, utility: str) -> tuple[Numbers, float]:
    """Shares near the optimum by the price ν of the band, and the least upper bound."""
    least = 1e-6 / len(curves)
    lines = lines_of(curves, weights, utility)
    low, high = 0.0, 1.0
    while price_bound(lines, high)[1].sum() > 1.0:
        low, high = high, 4.0 * high
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        much = price_bound(lines, middle)[1].sum() > 1.0
        low, high = (middle, high) if much else (low, middle)
        if high - low <= 1e-13 * high:
            break
    bound = min(price_bound(lines, one)[0] for one in (low, high))
    shares = np.maximum(price_bound(lines, high)[1], least)
    if len(curves) > FEW:
        return shares / shares.sum(), bound
    fine, above = grid_bound(curves, weights, utility)
    return fine, min(bound, above)


def lines_of(curves: list[Curve], weights: Numbers, utility: str) -> list[Lines]:
    """The lines of each user."""
    return [Lines.of(curve, weight, utility) for curve, weight in zip(curves, weights.tolist(), strict=True)]


def price_bound(lines: list[Lines], price: float) -> tuple[float, Numbers]:
    """g(ν), rounded up, and the shares at which it is reached."""
    total, shares = price, []
    for one in lines:
        value, share = one.best_share(price)
        total += value
        shares.append(share)
    return total + ROUNDING * (abs(total) + price), np.asarray(shares)


def grid_bound(curves: list[Curve], weights: Numbers, utility: str, *, cells: int = _CELLS) -> tuple[Numbers, float]:
    """The best shares on a fine grid by dynamic programming, and an upper bound: each rate with the share before."""
    grid = np.arange(1, cells + 1) / cells
    function = np.log if utility == "log" else np.asarray
    found = [weight * function(curve.rates(grid)) for curve, weight in zip(curves, weights, strict=True)]
    above = [weight * function(curve.bound(grid)) for curve, weight in zip(curves, weights, strict=True)]
    chosen, _ = _knapsack(found, first=1)
    _, bound = _knapsack(above, first=0)
    return chosen / chosen.sum(), bound + ROUNDING * abs(bound)


def _knapsack(values: list[Numbers], first: int) -> tuple[Numbers, float]:
    """The cells of each user with the largest sum; cell i costs i + first of all cells."""
    size = len(values[0])
    top, reach = np.maximum.accumulate(values[0]), np.minimum(np.arange(size + 1) - first, size - 1)
    best = np.where(reach >= 0, top[reach], -math.inf)  # by the cells that may be used
    choices = [np.searchsorted(top, top)[reach]]
    for user, value in enumerate(values[1:], 2):
        below = np.concatenate([np.full(size + first, -math.inf), best])
        table = sliding_window_view(below, size)[1 : size + 2, ::-1]  # row c, cell i: best[c - i - first]
        table = table[-1:] + value if user == len(values) else table + value  # the last user takes what is left
        choices.append(np.argmax(table, axis=1))
        best = table[np.arange(len(table)), choices[-1]]
    left, cells = size, []
    for choice in reversed(choices):
        cells.append(int(choice[min(left, len(choice) - 1)]) + first)
        left -= cells[-1]
    return np.asarray(cells[::-1], dtype=np.float64), float(best[-1])


def improved_shares(curves: list[Curve], weights: Numbers, shares: Numbers, utility: str) -> Numbers:
    """Alternate: the best plan of each user at its share, and the best shares of these plans."""
    best, value = shares, utility_of(_rates(curves, shares), weights, utility)
    for _ in range(_ALTERNATIONS):
        place = [curve.choice(float(share)) for curve, share in zip(curves, best, strict=True)]
        air = np.asarray([c.bits[n] * c.slow for c, n in zip(curves, place, strict=True)])
        sends = air > 0
        if not sends.any():
            break
        tokens = np.asarray([c.tokens[n] for c, n in zip(curves, place, strict=True)])
        fixed = np.asarray([c.fixed[n] for c, n in zip(curves, place, strict=True)])
        other = np.zeros(len(curves))
        other[sends] = throughput_shares(tokens[sends], fixed[sends], air[sends], weights[sends], utility=utility)
        other = np.maximum(other, 1e-6 / len(curves))
        other /= other.sum()
        found = utility_of(_rates(curves, other), weights, utility)
        if found <= value:
            break
        best, value = other, found
    return best


def _rates(curves: list[Curve], shares: Numbers) -> Numbers:
    return np.asarray([curve.rates(shares[n]) for n, curve in enumerate(curves)])
