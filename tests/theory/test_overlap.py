"""The risk of a whole text by overlap: by enumeration in fractions, along thresholds, with calibration."""

import math
from fractions import Fraction

import numpy as np
import pytest

from hlmtheory.skipping import text_risk


@pytest.mark.parametrize("count", [1, 2, 7, 160, 10**5])
@pytest.mark.parametrize("error", [0.5, 0.05, 1e-6])
def test_the_ends_of_the_interval_have_the_divergence_of_the_bound(count, error):
    losses = np.random.default_rng(count).beta(0.3, 2.0, count)
    found = text_risk(losses, error)
    assert float(found.mean) == pytest.approx(losses.mean(), rel=1e-12)
    assert float(found.corrected) == pytest.approx((losses.sum() + 1) / (count + 1), rel=1e-12)
    x = Fraction(float(found.mean))
    ends = [end for end in (float(found.low), float(found.high)) if 0 < end < 1]
    assert ends
    for end in ends:
        divergence = x * log(x / Fraction(end)) + (1 - x) * log((1 - x) / (1 - Fraction(end)))
        assert float(count * divergence) >= math.log(2 / error)
        assert float(count * divergence) == pytest.approx(math.log(2 / error), rel=1e-6)
    assert found.low < found.mean < found.high


def log(ratio):
    return Fraction(math.log1p(float(ratio - 1))) if abs(ratio - 1) < 0.5 else Fraction(math.log(float(ratio)))


def test_without_a_loss_the_upper_end_is_that_of_coins():
    none, all_of_them = text_risk(np.zeros(8), 2.0**-7), text_risk(np.ones(8), 2.0**-7)
    assert float(none.high) == pytest.approx(0.5, rel=1e-12)
    assert float(all_of_them.low) == pytest.approx(0.5, rel=1e-12)
    assert (float(none.low), float(all_of_them.high)) == (0.0, 1.0)
