"""Fit parameters (fixed, marginal, γ) to flexspec's printed latencies: least squares, and sets of exact solutions.

A round of K drafts takes F + K M and gives E(K) = (1 - γ^{K+1})/(1 - γ) tokens, flexspec (10)-(11), so a token takes
(F + K M)/E(K). Cloud-Only is K = 0: "every token generation incurs a full network round-trip time and cloud
computation cost" (Section V-A), hence F. Its quotient with the latency at K depends only on γ and M/F.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from hlmtheory.draft_length import cost_per_token, optimal_draft_length
from validation.plots.flexspec.printed import Row

MAX_DRAFT_LENGTH = 64
"""K_max of the fits: the paper prints none, and every fit is far below it."""
GRID = np.linspace(0.0, 1.0, 20_001)
"""Grid of γ on which exact solutions are sought."""


def best_latency(gamma: ArrayLike, fixed: ArrayLike, marginal: ArrayLike) -> tuple[Row, Row]:
    """Return the latency per token at the best K in 1..MAX_DRAFT_LENGTH, and that K.

    >>> latency, length = best_latency(0.8, 1.0, 0.2)
    >>> round(float(latency), 4), int(length)
    (0.5355, 4)
    """
    length = np.asarray(optimal_draft_length(gamma, fixed, marginal, MAX_DRAFT_LENGTH))
    return np.asarray(cost_per_token(gamma, length, fixed, marginal)), length


def ratio_for(speed_up: float, gamma: float) -> tuple[float, int] | None:
    """Return the M/F that gives the speed-up over Cloud-Only at the best K, and that K; None if γ is too low.

    The speed-up falls as M/F rises, from E(MAX_DRAFT_LENGTH) at M = 0, so each γ has one M/F: the speed-up
    does not identify γ and M/F separately.

    >>> ratio_for(2.5, 0.5) is None
    True
    """
    from scipy import optimize

    def excess(log_ratio: float) -> float:
        return 1.0 / float(best_latency(gamma, 1.0, np.exp(log_ratio))[0]) - speed_up

    low, high = -20.0, 5.0
    if excess(low) < 0:
        return None
    ratio = float(np.exp(optimize.brentq(excess, low, high)))
    return ratio, int(best_latency(gamma, 1.0, ratio)[1])


# ------------------------------------------------------------------------------------------------------- Fig. 5


class StrideFit(NamedTuple):
    """Hold F and M in ms, γ, and the fitted latencies by K."""

    gamma: float
    fixed: float
    marginal: float
    fitted: dict[int, float]

    def worst(self, points: Mapping[int, float]) -> float:
        """Return the largest relative error."""
        return max(abs(self.fitted[k] / value - 1.0) for k, value in points.items())


def stride_fit(points: Mapping[int, float]) -> StrideFit:
    """Fit the relative errors by least squares over γ in [0, 1] and F, M ≥ 0; keep the best of several starts."""
    from scipy import optimize

    lengths, latency = np.asarray(list(points)), np.asarray(list(points.values()))

    def errors(x: Row) -> Row:
        fitted = np.asarray(cost_per_token(x[0], lengths, x[1] * latency[0], x[2] * latency[0]))
        return np.asarray(fitted / latency - 1.0)

    starts = [(gamma, 1.0, ratio) for gamma in (0.2, 0.5, 0.8, 0.95) for ratio in (0.05, 0.5)]
    found = [optimize.least_squares(errors, start, bounds=([0, 1e-9, 0], [1, 10, 10])) for start in starts]
    best = min(found, key=lambda one: float(one.cost))
    gamma, fixed, marginal = (float(v) for v in best.x * [1.0, latency[0], latency[0]])
    return StrideFit(gamma, fixed, marginal, dict(zip(points, (errors(best.x) + 1.0) * latency, strict=True)))


def through_two(points: Mapping[int, float], gamma: ArrayLike) -> tuple[Row, Row]:
    """Return F and M in ms that match both latencies exactly at γ; negative values mean no valid solution."""
    (k, at_k), (n, at_n) = points.items()
    rounds = [at * np.asarray(1.0 / cost_per_token(gamma, length, 1.0, 0.0)) for length, at in ((k, at_k), (n, at_n))]
    marginal = (rounds[1] - rounds[0]) / (n - k)
    return rounds[0] - k * marginal, marginal


def open_set(points: Mapping[int, float]) -> tuple[Row, Row, Row]:
    """Return all γ of the grid with F, M ≥ 0 through both latencies, and those F and M in ms."""
    fixed, marginal = through_two(points, GRID)
    fits = (fixed >= 0) & (marginal >= 0)
    return GRID[fits], fixed[fits], marginal[fits]


# -------------------------------------------------------------------------------------------- Tables III and IV


class ColumnFit(NamedTuple):
    """Hold γ of each dataset, M of each network in ms, and the root mean square of the errors in ms."""

    gammas: Row
    marginals: Row
    rms: float


def column_fit(cloud: Row, own: Row, first: float, marginals: Row | None = None) -> ColumnFit:
    """Fit latencies of datasets × networks, with Cloud-Only's F, one γ per dataset and one M per network.

    Parameters
    ----------
    cloud, own : array, shape (datasets, networks)
        Latencies in ms.
    first : float
        γ of the first dataset. It is held, because the latencies do not identify it.
    marginals : array, shape (networks,), optional
        In ms, held if given; then γ of the first dataset is free.
    """
    from scipy import optimize

    count = len(cloud)

    def split(x: Row) -> tuple[Row, Row]:
        return (np.append(first, x[: count - 1]), x[count - 1 :]) if marginals is None else (x, marginals)

    def errors(x: Row) -> Row:
        gammas, slopes = split(x)
        return (best_latency(gammas[:, None], cloud, slopes)[0] - own).ravel()

    slopes = [] if marginals is not None else list(0.2 * cloud.mean(axis=0))
    start = np.asarray([first] * (count - (marginals is None)) + slopes)
    top = [1.0] * (count - (marginals is None)) + [np.inf] * len(slopes)
    found = optimize.least_squares(errors, np.minimum(start, 0.99), bounds=(0.0, top), x_scale=np.maximum(start, 0.1))
    gammas, slopes_found = split(found.x)
    return ColumnFit(np.asarray(gammas), np.asarray(slopes_found), float(np.sqrt(np.mean(errors(found.x) ** 2))))


# ------------------------------------------------------------------------------------------------------ Table V


class SpeedUpFit(NamedTuple):
    """Hold γ, the cost of a draft beyond the device's own time over F, F in ms, and the fitted speed-ups."""

    gamma: float
    other: float
    fixed: float
    fitted: Row


def device_fit(draft_ms: Row, speed_up: Row, fixed: float | None) -> SpeedUpFit:
    """Fit speed-ups of devices that differ only in the time of a draft; F in ms is free if None."""
    from scipy import optimize

    def of(x: Row) -> Row:
        base = x[2] if fixed is None else fixed
        return 1.0 / best_latency(x[0], 1.0, draft_ms / base + x[1])[0]

    bases = (100.0, 600.0) if fixed is None else (fixed,)
    starts = [[gamma, ratio, base] for gamma in (0.5, 0.8) for ratio in (0.02, 0.2) for base in bases]
    bounds = ([0.0, 0.0, 10.0], [1.0, 10.0, 1e5])
    found = [
        optimize.least_squares(lambda x: of(x) - speed_up, x, bounds=bounds, x_scale=[0.1, 0.1, 100.0]) for x in starts
    ]
    best = min(found, key=lambda one: float(one.cost)).x
    return SpeedUpFit(float(best[0]), float(best[1]), float(best[2]) if fixed is None else fixed, of(best))


def largest_between(draft_ms: Row, speed_up: Row, which: int) -> float:
    """Return the largest speed-up of one device, given a faster and a slower device, to the printed digits.

    Latency is a minimum over K of functions that are linear in the time of a draft, so it is concave in this time:
    between two devices it is at least the chord.
    """
    order = np.argsort(draft_ms)
    place = int(np.flatnonzero(order == which)[0])
    left, right = order[place - 1], order[place + 1]
    share = (draft_ms[which] - draft_ms[left]) / (draft_ms[right] - draft_ms[left])
    chord = (1.0 - share) / (speed_up[left] + 0.005) + share / (speed_up[right] + 0.005)
    return float(1.0 / chord)
