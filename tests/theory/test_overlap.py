"""The risk of a whole text by overlap: by enumeration in fractions, along thresholds, with calibration."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from hlmtheory.skipping import overlap_risk, text_risk
from hlmtheory.verification import output_distribution


def text(seed, length=6, size=5, texts=()):
    """Distributions along a text, an uncertainty of each draft, and the text."""
    rng = np.random.default_rng(seed)
    target, draft = rng.dirichlet([0.4] * size, size=(2, *texts, length))
    uncertainty = rng.random((*texts, length, size))
    token = (rng.random((*texts, length, 1)) > np.cumsum(target, axis=-1)).sum(axis=-1)
    return target, draft, uncertainty, np.minimum(token, size - 1)


def loss_in_fractions(target, draft, skip, token):
    """1 - Π min(1, S_x/p_x), the system's law by its definition."""
    product = Fraction(1)
    for p, q, s, x in zip(target, draft, skip, token, strict=True):
        p, q, s = ([Fraction(float(v)) for v in row] for row in (p, q, s))
        p, q = [v / sum(p) for v in p], [v / sum(q) for v in q]
        beta = [max(b - a, Fraction(0)) / b if b else Fraction(0) for a, b in zip(p, q, strict=True)]
        excess = [max(a - b, Fraction(0)) for a, b in zip(p, q, strict=True)]
        rejected = sum(b * (1 - s_v) * r for b, s_v, r in zip(q, s, beta, strict=True))
        law = q[x] * s[x] + q[x] * (1 - s[x]) * (1 - beta[x])
        law += rejected * excess[x] / sum(excess) if sum(excess) else 0
        product *= min(Fraction(1), law / p[x]) if p[x] else 1
    return float(1 - product)


@pytest.mark.parametrize("seed", range(20))
def test_the_loss_is_that_of_its_definition(seed):
    target, draft, uncertainty, token = text(seed)
    found = float(overlap_risk(target, draft, uncertainty, token))  # any number in [0, 1] is a skip probability
    assert found == pytest.approx(loss_in_fractions(target, draft, uncertainty, token), rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("apart", [1e-3, 1e-9, 1e-12, 1e-13, 1e-15])
def test_the_loss_is_never_below_that_of_its_definition(apart):
    """Where the rows nearly agree, a rounding of them is much of their distance."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        size = int(rng.integers(2, 8))
        target = rng.dirichlet(np.ones(size), 3)
        change = rng.normal(size=(3, size))
        change -= change.mean(axis=1, keepdims=True)
        draft = np.maximum(target + apart * change / np.abs(change).sum(axis=1, keepdims=True), 0.0)
        skip, token = rng.random((3, size)), rng.integers(0, size, 3)
        exact = loss_in_fractions(target, draft, skip, token)
        found = float(overlap_risk(target, draft, skip, token))
        assert exact <= found <= exact + 1e-13 / target[np.arange(3), token].min()
        assert float(overlap_risk(target, target, skip, token)) == 0.0


def test_tokens_of_no_probability_cost_no_accuracy():
    """What 4,000 entries can add in rounding is a share of their probabilities, and these are 0."""
    for seed in range(5):
        target, draft, skip, token = text(seed)
        exact = loss_in_fractions(target, draft, skip, token)
        target, draft = (np.pad(rows, ((0, 0), (0, 4000))) for rows in (target, draft))
        found = float(overlap_risk(target, draft, np.pad(skip, ((0, 0), (0, 4000)), constant_values=1.0), token))
        assert exact <= found <= exact + 1e-10


def test_without_skipping_the_system_is_the_target():
    target, draft, _, token = text(1)
    assert float(overlap_risk(target, draft, False, token)) == 0.0
    np.testing.assert_allclose(output_distribution(target, draft), target)


# ------------------------------------------------------------------------------------------------ a set of texts


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
    """The logarithm of a fraction."""
    return Fraction(math.log1p(float(ratio - 1))) if abs(ratio - 1) < 0.5 else Fraction(math.log(float(ratio)))


def test_without_a_loss_the_upper_end_is_that_of_coins():
    none, all_of_them = text_risk(np.zeros(8), 2.0**-7), text_risk(np.ones(8), 2.0**-7)
    assert float(none.high) == pytest.approx(0.5, rel=1e-12)
    assert float(all_of_them.low) == pytest.approx(0.5, rel=1e-12)
    assert (float(none.low), float(all_of_them.high)) == (0.0, 1.0)


def test_the_interval_covers_as_often_as_it_says():
    rng = np.random.default_rng(5)
    losses = np.minimum(rng.exponential(0.3, (4_000, 25)), 1.0)
    expected = 0.3 * (1 - math.exp(-1 / 0.3))
    found = text_risk(losses, 0.1)
    assert found.texts == 25
    assert np.mean((found.low <= expected) & (expected <= found.high)) >= 0.9
    assert np.mean(found.high - found.low) < 0.45


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_the_interval_in_a_narrow_type_is_no_narrower(kind):
    losses = np.random.default_rng(0).random((50, 9)).astype(kind)
    narrow, wide = text_risk(losses), text_risk(losses.astype(np.float64))
    assert narrow.high.dtype == np.float32
    for end, sign in (("high", 1), ("low", -1), ("corrected", 1)):
        assert (sign * getattr(narrow, end).astype(np.float64) >= sign * getattr(wide, end)).all()


def test_a_subnormal_probability_does_not_overflow():
    """A token that the draft model finds likely and the target model all but excludes."""
    assert float(overlap_risk([[2.2e-311, 1.0]], [[0.5, 0.5]], True, [0])) == 0.0
