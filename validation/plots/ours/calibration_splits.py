"""Repeat conformal risk control over random splits of the prompts, and measure the risk on the other prompts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validation.decoding.trace_drafts import Index, Row
from validation.plots.common.skipping.sample import CONFIDENCE, ClusteredEstimate

SPLITS = 200
CALIBRATION = 100
FEWEST = 20
"""Fewest prompts for a calibration. Of 20, 12 calibrate, which is enough for ε = 1/13 and a loss in [0, 1]."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Results of S splits.

    ``column`` (S,): place of the threshold in the grid, -1 if nothing may be skipped; ``met`` (S,): mean loss of the
    test prompts; ``mean``: of ``met`` over the splits, with a 95% interval by the jackknife over prompts.
    """

    column: Index
    met: Row
    mean: ClusteredEstimate


def calibration_size(prompts: int) -> int:
    """Return how many prompts calibrate: 100, or five eighths of them if there are fewer than 160.

    >>> calibration_size(160), calibration_size(80), calibration_size(320)
    (100, 50, 100)
    """
    return min(CALIBRATION, prompts * 5 // 8)


def random_splits(prompts: int, seed: int) -> NDArray[np.bool_]:
    """Return which prompts calibrate in each split, shape (SPLITS, prompts)."""
    rng = np.random.default_rng([seed, 7])
    ranks = np.stack([rng.permutation(prompts) for _ in range(SPLITS)])
    return ranks < calibration_size(prompts)


def fewest_prompts(bound: float, risk: float) -> int:
    """Return the smallest n with B/(n + 1) ≤ ε.

    >>> fewest_prompts(1.0, 0.05), fewest_prompts(160.0, 0.05)
    (19, 3199)
    """
    count = max(1, round(bound / risk) - 2)
    while bound / (count + 1) > risk:
        count += 1
    return count


def over_splits(losses: Row, splits: NDArray[np.bool_], *, risk: float, bound: float) -> Outcome | None:
    """Return the thresholds by conformal risk control on one side of each split, and their risk on the other side."""
    count = int(splits[0].sum())
    if bound / (count + 1) > risk:
        return None
    prompts = losses.shape[0]
    held = splits.astype(np.float64)
    sums, others = held @ losses, (1.0 - held) @ losses
    column = _columns(sums, count, risk, bound)
    met = _at(others, column) / (prompts - count)
    # jackknife: each prompt is left out of its side of every split
    without = np.empty(prompts)
    for prompt in range(prompts):
        own, calibrates = losses[prompt], splits[:, prompt]
        reached = np.where(calibrates, _columns(sums - own, count - 1, risk, bound), column)
        left = others - np.where(calibrates[:, None], 0.0, own)
        without[prompt] = np.mean(_at(left, reached) / (prompts - count - ~calibrates))
    return Outcome(column, met, _jackknife(float(met.mean()), without))


def share_of_tests(above: Row, below: Any, splits: NDArray[np.bool_], column: Index) -> float:
    """Return the mean over the splits of Σ above / Σ below over the test prompts; 1 where nothing is skipped."""
    tests = 1.0 - splits
    share = _at(tests @ above, column) / (tests @ below)
    return float(np.mean(np.where(column >= 0, share, 1.0)))


def mean_of_tests(losses: Row, splits: NDArray[np.bool_], column: Index) -> float:
    """Return the mean over the splits of the test prompts' mean loss at the split's threshold."""
    tests = 1.0 - splits
    return float(np.mean(_at(tests @ losses, column) / tests.sum(axis=-1)))


def _columns(sums: Row, count: int, risk: float, bound: float) -> Index:
    """Return the last index of the grid up to which (Σ L + B)/(n + 1) ≤ ε, or -1 if there is none."""
    within = (sums + bound) / (count + 1) <= risk
    return np.asarray(np.cumprod(within, axis=-1).sum(axis=-1) - 1)


def _at(table: Row, column: Index) -> Row:
    """Return the entry of each row at its column; 0 at column -1, where nothing is skipped."""
    found = np.take_along_axis(table, np.maximum(column, 0)[:, None], axis=-1)[:, 0]
    return np.where(column >= 0, found, 0.0)


def _jackknife(value: float, without: Row) -> ClusteredEstimate:
    from scipy.special import stdtrit

    count = len(without)
    spread = np.sqrt((count - 1) / count * np.sum((without - without.mean()) ** 2))
    half = float(stdtrit(count - 1, (1.0 + CONFIDENCE) / 2.0) * spread)
    return ClusteredEstimate(value, value - half, value + half)
