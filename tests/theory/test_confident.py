"""Thresholds with confidence: the claim on drawn prompts, many calibrations, and refused input."""

import math
from fractions import Fraction

import numpy as np
import pytest

from hlmtheory.skipping import confident_threshold
from hlmtheory.skipping.audit import BETS


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
    assert confident_threshold([[0.0]] * math.ceil(found.prompts_needed), [0.5], risk=0.1).threshold == 0.5
    assert confident_threshold([[1.0]] * 5, [0.5], risk=0.1).prompts_needed == math.inf
