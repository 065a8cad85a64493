"""Thresholds with confidence: the claim on drawn prompts, many calibrations, and refused input."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from hlmtheory.skipping import calibrate_threshold, confident_threshold
from hlmtheory.skipping.audit import BETS

from .kinds import LIBRARIES, to


def test_few_calibrations_are_above_the_risk():
    """Losses of 0 and 1 with rising probabilities: with confidence at most 5% of calibrations are above, else many."""
    rng = np.random.default_rng(1)
    grid = np.arange(1, 11) / 10.0
    sure, mean = [], []
    for _ in range(400):
        losses = (rng.random((60, 1)) < 0.5 * grid).astype(np.float64)
        sure.append(confident_threshold(losses, grid, risk=0.26, error=0.05).threshold)
        mean.append(calibrate_threshold(losses, grid, risk=0.26, bound=1.0).threshold)
    above = [np.mean(0.5 * np.maximum(found, 0.0) >= 0.26) for found in (sure, mean)]
    assert above[0] <= 0.05
    assert above[1] > 0.1
    assert 0.0 < np.mean(np.maximum(sure, 0.0)) < np.mean(np.maximum(mean, 0.0))


@pytest.mark.parametrize("seed", range(30))
def test_the_threshold_is_that_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    losses = np.minimum(rng.integers(0, 3, (int(rng.integers(5, 40)), 4)).cumsum(axis=1), 32) / 32
    risk, error = Fraction(int(rng.integers(2, 12)), 32), Fraction(1, int(rng.integers(2, 30)))
    count = 0
    for column in losses.T:
        wealth = Fraction(0)
        for bet in BETS:
            share = Fraction(bet) / (1 - risk)
            wealth += math.prod(1 + share * (risk - Fraction(float(loss))) for loss in column) / len(BETS)
        if wealth < 1 / error:
            break
        count += 1
    found = confident_threshold(losses, [1.0, 2.0, 3.0, 4.0], risk=float(risk), error=float(error))
    assert found.threshold == (count or -math.inf)


def test_how_many_prompts_are_needed():
    found = confident_threshold([[0.0]] * 5, [0.5], risk=0.1)
    assert found.threshold == -math.inf
    assert 28.4 < found.prompts_needed < 60.0  # log(20)/-log(0.9) for any rule
    many = math.ceil(found.prompts_needed)
    assert confident_threshold([[0.0]] * many, [0.5], risk=0.1).threshold == 0.5
    assert confident_threshold([[1.0]] * 5, [0.5], risk=0.1).prompts_needed == math.inf


@pytest.mark.parametrize("library", LIBRARIES)
def test_texts_of_one_prompt_count_once(library):
    losses, own = np.repeat([[0.0, 0.25]] * 12, 3, axis=0), np.repeat(np.arange(12), 3)
    found = confident_threshold(to(library, losses), [0.1, 0.2], risk=0.1, error=0.1, prompt=to(library, own))
    assert found == confident_threshold(losses[::3], [0.1, 0.2], risk=0.1, error=0.1)
    assert (found.prompts, found.threshold) == (12, -math.inf)
    assert confident_threshold(losses, [0.1, 0.2], risk=0.1, error=0.1).threshold == 0.1  # as 36 prompts
