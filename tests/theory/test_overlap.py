"""The risk of a whole text by overlap: by enumeration in fractions, along thresholds, with calibration."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from hlmtheory.skipping import calibrate_threshold, overlap_losses, overlap_risk
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


@pytest.mark.parametrize("seed", range(20))
def test_losses_rise_with_the_threshold_and_lie_in_the_unit_interval(seed):
    target, draft, uncertainty, token = text(seed, texts=(7,))
    thresholds = np.linspace(-0.1, 1.1, 13)
    losses = overlap_losses(target, draft, uncertainty, token, thresholds)
    assert losses.shape == (7, 13)
    assert (losses[:, 0] == 0).all()
    assert (np.diff(losses, axis=-1) >= -1e-15).all()
    assert losses.max() <= 1
    for i, threshold in enumerate(thresholds):
        np.testing.assert_array_equal(losses[:, i], overlap_risk(target, draft, uncertainty <= threshold, token))


def test_one_uncertainty_for_a_position_stands_for_all_its_drafts():
    target, draft, uncertainty, token = text(3)
    one = uncertainty[:, :1]
    np.testing.assert_array_equal(
        overlap_losses(target, draft, one, token, [0.5]),
        overlap_losses(target, draft, np.broadcast_to(one, uncertainty.shape), token, [0.5]),
    )


def test_calibration_takes_the_loss_with_bound_1():
    """19 prompts are enough for ε = .05, however long the texts: a sum over 200 tokens would need 3,999."""
    target, draft, uncertainty, token = text(0, length=200, texts=(19,))
    near = 0.999 * target + 0.001 * draft
    losses = np.maximum.accumulate(overlap_losses(target, near, uncertainty, token, [0.001, 0.002, 0.5]), axis=-1)
    found = calibrate_threshold(losses, [0.001, 0.002, 0.5], risk=0.1, bound=1.0)
    assert found.corrected_risk <= 0.1
    with pytest.raises(ValueError, match="at least 3999 prompts"):
        calibrate_threshold(losses, [0.001, 0.002, 0.5], risk=0.05, bound=200.0)
    assert calibrate_threshold(0 * losses, [0.001, 0.002, 0.5], risk=0.05, bound=1.0).threshold == 0.5


def test_without_skipping_the_system_is_the_target():
    target, draft, _, token = text(1)
    assert float(overlap_risk(target, draft, False, token)) == 0.0
    np.testing.assert_allclose(output_distribution(target, draft), target)


def test_bad_input_is_named():
    target, draft, uncertainty, token = text(2)
    with pytest.raises(ValueError, match=r"^target must have a row for each position"):
        overlap_risk(target[0], draft[0], uncertainty[0], token[0])
    with pytest.raises(ValueError, match=r"^uncertainty must be finite"):
        overlap_losses(target, draft, np.where(uncertainty > 0.5, np.nan, uncertainty), token, [0.5])
    with pytest.raises(ValueError, match=r"^thresholds must have one dimension"):
        overlap_losses(target, draft, uncertainty, token, 0.5)
    with pytest.raises(ValueError, match=r"^token must be"):
        overlap_risk(target, draft, uncertainty, token + 9)
