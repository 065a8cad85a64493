"""The cost of skipping: the exact risk, the papers' surrogate and its bounds, whole texts, and calibration."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.integrate import quad

from hlmtheory import skipping, uncertainty, verification

from . import oracles
from .kinds import LIBRARIES, numbers, to
from .public import theory
from .strategies import batches, drawn, grid_pairs, quantity, rows, vocabularies

UNIT = st.one_of(st.integers(0, 8).map(lambda n: n / 8), st.floats(0.0, 1.0))
LINE = {"slope": quantity(1e-3, 1e3), "intercept": st.one_of(UNIT, UNIT.map(lambda b: -b)), "non_acceptance": UNIT}
EXPONENT = st.one_of(st.sampled_from((1.0, 2.0, 1.5, math.inf)), st.floats(1.0, 50.0))


@st.composite
def with_skip(draw, source):
    instance = draw(source)
    shape = instance["draft"].shape
    if shape[-1] > 12:
        return {**instance, "skip": (instance["draft"] > draw(UNIT) / shape[-1]) * draw(UNIT)}
    return {**instance, "skip": draw(hnp.arrays(np.float64, shape, elements=UNIT))}


@st.composite
def with_law(draw, name, least, exponent=False):
    instance = draw(batches(**LINE, **({"exponent": EXPONENT} if exponent else {})))
    shape = instance["slope"].shape
    return {**instance, name: draw(rows(shape, draw(vocabularies(least))))}


@st.composite
def loss_tables(draw):
    shape, bound = (draw(st.integers(2, 8)), draw(st.integers(1, 4))), draw(st.sampled_from((1.0, 0.5, 8.0)))
    steps = draw(hnp.arrays(np.float64, shape, elements=UNIT))
    return {"losses": bound * np.maximum.accumulate(steps, axis=-1), "risk": draw(quantity(0.02, 4.0)), "bound": bound}


def test_the_printed_thresholds():
    """cu-hlm prints .8117 and .0810; its inputs give .8118. u-hlm prints .431; its inputs give .440."""
    averse, prone = skipping.skip_thresholds(0.815, -0.066, non_acceptance=0.5956)
    assert round(float(averse), 4) == 0.0810
    assert round(float(prone), 4) == 0.8118
    averse, prone = skipping.skip_thresholds(0.82, -0.06, non_acceptance=0.301)
    assert round(float(averse), 3) == 0.073
    assert round(float(prone), 3) == 0.440


@given(drawn("skipping.mean_rejection"))
def test_non_acceptance_is_what_a_fit_counts_among_drafts(instance):
    """Δ is the probability of the drafts with β > 0, by the sum over the vocabulary and by tokens drawn from q."""
    target, draft = (np.asarray(instance[name], dtype=np.float64) for name in ("target", "draft"))
    beta = verification.rejection_probability(target, draft)
    delta = skipping.non_acceptance(target, draft)
    np.testing.assert_allclose(delta, np.sum(np.where(beta > 0, draft, 0.0), axis=-1), rtol=1e-6, atol=1e-9)
    assert np.all(delta >= 1.0 - verification.acceptance_rate(target, draft) - 1e-9)


@given(with_skip(grid_pairs()))
def test_the_one_step_risk_by_enumeration(instance):
    """Every draft (skipped or sent, accepted or not) and every replacement, in rational arithmetic."""

    def exact(p, q, s):
        p, q, s = (oracles.exact(row) for row in (p, q, s))
        return float(oracles.total_variation(oracles.emitted(p, q, s), p))

    ours = skipping.one_step_risk(instance["target"], instance["draft"], instance["skip"])
    theirs = oracles.row_by_row(exact, (instance["target"], 1), (instance["draft"], 1), (instance["skip"], 1))
    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-15)


def test_the_rule_of_the_papers_from_logits_to_risk():
    """Sampled uncertainty, threshold, skip probability, risk: the mean over the sampling noise is E[s_d β_d]."""
    rng = np.random.default_rng(5)
    logits = rng.normal(0, 1, 12)
    draft = verification.softmax(logits)
    target = verification.softmax(logits + rng.normal(0, 1, 12))
    skip = theory.skip_probability(theory.vocabulary_uncertainty(logits), 0.8, 20)
    risk = float(skipping.one_step_risk(target, draft, skip))
    token = rng.choice(12, 100_000, p=draft)
    u = uncertainty.sample_uncertainty(np.broadcast_to(logits, (100_000, 12)), token, rng=rng)
    lost = verification.rejection_probability(target, draft)[token] * (u <= 0.8)
    assert risk > 0.01
    assert lost.mean() == pytest.approx(risk, abs=4 * lost.std() / math.sqrt(100_000))


@settings(suppress_health_check=[HealthCheck.filter_too_much])  # half of the laws have more cells than are integrated
@given(with_law("cell_probabilities", 1), EXPONENT)
def test_the_surrogate_and_its_bound_against_adaptive_integration(instance, exponent):
    density, (a, b, delta) = instance["cell_probabilities"], (instance[name] for name in LINE)
    assume(density.ndim == 1 and density.size <= 12)
    low, high = (min(max(float(end), 0.0), 1.0) for end in skipping.skip_thresholds(a, b, non_acceptance=delta))
    edges = np.unique(np.clip([low, high, *np.arange(density.size + 1) / density.size], low, high))

    def integral(function):
        return sum(quad(function, *pair, epsabs=1e-13)[0] for pair in itertools.pairwise(edges))

    def height(u):
        return density[min(int(u * density.size), density.size - 1)] * density.size

    risk = float(skipping.rejection_risk(density, a, b, non_acceptance=delta))
    assert risk == pytest.approx(integral(lambda u: (a * u + b) * height(u)), abs=1e-9)
    assert (
        risk
        <= float(skipping.holder_bound(density, a, b, non_acceptance=delta, exponent=exponent)) * (1 + 1e-9) + 1e-12
    )
    if float(exponent) == 2.0:
        norm = math.sqrt(integral(lambda u: height(u) ** 2))
        assert float(skipping.holder_bound(density, a, b, non_acceptance=delta)) == pytest.approx(
            delta**1.5 / math.sqrt(3 * a) * norm, rel=1e-6
        )


def test_the_ends_of_the_exponent():
    density, line = [0.125, 0.5, 0.375, 0.0], dict(zip(LINE, (2.0, -0.25, 0.75), strict=True))  # I = [1/8, 1/2]
    share = 0.125 / 2 + 0.5
    assert float(skipping.holder_bound(density, **line, exponent=math.inf)) == pytest.approx(0.75 * share)
    assert float(skipping.holder_bound(density, **line, exponent=1.0)) == pytest.approx(0.75**2 / 4 * 2.0)
    for near, end in ((1.0 + 1e-9, 1.0), (1e9, math.inf)):
        assert float(skipping.holder_bound(density, **line, exponent=near)) == pytest.approx(
            float(skipping.holder_bound(density, **line, exponent=end))
        )
    mass = [0.25, 0.25, 0.5]
    assert float(theory.holder_bound_discrete(mass, 1.0, 0.0, non_acceptance=1.0, exponent=math.inf)) == pytest.approx(
        1.0
    )
    assert float(theory.holder_bound_discrete(mass, 1.0, 0.0, non_acceptance=1.0, exponent=1.0)) == pytest.approx(
        1.5 * 0.5
    )


def test_nothing_between_the_thresholds():
    """Δ = 0, or all mass outside I: the surrogate risk and all bounds are 0."""
    for values in ((1.0, 0.0, 0.0), (1.0, -0.75, 0.125), (1e-300, 0.5, 0.25), (1e-300, -0.5, 0.25)):
        line = dict(zip(LINE, values, strict=True))
        assert float(skipping.rejection_risk([1.0, 0.0], **line)) == 0.0
        assert float(skipping.holder_bound([1.0, 0.0], **line)) == 0.0
    assert float(theory.rejection_risk_discrete([1.0, 0.0], 1.0, -0.5, non_acceptance=0.25)) == 0.0
    assert float(theory.holder_bound_discrete([1.0, 0.0], 1.0, -0.5, non_acceptance=0.25)) == 0.0


def test_the_border_of_the_grid_is_no_wider_than_rounding():
    mass = np.zeros(21)
    mass[6] = 1.0
    for beside, risk in ((1e-13, 0.3), (1e-11, 0.0), (1e-9, 0.0)):
        assert float(theory.rejection_risk_discrete(mass, 1.0, 0.0, non_acceptance=0.3 - beside)) == pytest.approx(risk)
        assert float(theory.rejection_risk_discrete(mass, 1.0, -0.3 - beside, non_acceptance=1.0)) == 0.0
        gap = theory.surrogate_gap([0.3], [1.0], 1.0, 0.0, non_acceptance=0.3 - beside)
        assert float(gap.exact) == (1.0 if risk else 0.0)
        gap = theory.surrogate_gap([0.3], [1.0], 1.0, -0.3 - beside, non_acceptance=1.0)
        assert float(gap.below) == (0.0 if risk else 1.0)
    narrow = mass.astype(np.float32)
    assert float(theory.rejection_risk_discrete(narrow, 1.0, 0.0, non_acceptance=0.3)) == pytest.approx(0.3)
    assert float(theory.rejection_risk_discrete(narrow, 1.0, 0.0, non_acceptance=0.3 - 1e-5)) == 0.0


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_an_uncertainty_at_the_threshold_is_skipped(library, dtype):
    """(0.29 + 0.09)/0.95 = 0.4, but 0.95 · 0.4 - 0.09 rounds to more than 0.29."""
    gap = theory.surrogate_gap(to(library, [0.4], dtype), to(library, [1.0], dtype), 0.95, -0.09, non_acceptance=0.29)
    assert (float(gap.exact), float(gap.below)) == (1.0, 0.0)
    assert float(gap.surrogate) == pytest.approx(0.29)


def test_lines_that_are_all_but_flat_or_upright():
    for density in ([0.5, 0.5], [0.25, 0.75]):
        assert float(skipping.rejection_risk(density, 1e-308, -10.0, non_acceptance=0.5)) == 0.0
        assert float(skipping.rejection_risk(density, 1e-308, 0.25, non_acceptance=0.5)) == pytest.approx(0.25)
        for exponent in (1.0, 2.0, math.inf):
            assert float(skipping.holder_bound(density, 1e-308, -10.0, non_acceptance=0.5, exponent=exponent)) == 0.0
    averse, prone = skipping.skip_thresholds([1e8, 1e308, 1e-308], [0.0, -1.0, -1.0], non_acceptance=0.5)
    assert averse.tolist() == [0.0, 1e-308, math.inf]
    assert prone.tolist() == [5e-9, 1.5e-308, math.inf]


def test_the_surrogate_of_the_tokens_is_that_of_their_histogram():
    rng = np.random.default_rng(9)
    u = rng.integers(0, 21, 4000) / 20
    beta = np.clip(0.8 * u - 0.06 + rng.normal(0, 0.2, 4000), 0, 1)
    fit = uncertainty.fit_linear(u, beta)
    share = np.mean(beta > 0)
    gap = theory.surrogate_gap(u, beta, fit.slope, fit.intercept, non_acceptance=share)
    mass = np.bincount(np.rint(20 * u).astype(int), minlength=21) / 4000
    assert float(gap.surrogate) == pytest.approx(
        float(theory.rejection_risk_discrete(mass, fit.slope, fit.intercept, non_acceptance=share))
    )
    assert float(gap.exact) == pytest.approx(np.mean(beta * (u <= (share - fit.intercept) / fit.slope)))


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_prompt_loses_the_mean_of_its_texts(library):
    losses, own = to(library, [[0.0, 0.5], [0.25, 0.25], [0.5, 1.0]]), to(library, [4, -1, 4])
    found = theory.calibrate_threshold(losses, [0.1, 0.2], risk=0.5, bound=1.0, prompt=own)
    assert (found.threshold, found.empirical_risk, found.corrected_risk, found.prompts) == (0.1, 0.25, 0.5, 2)
    means = to(library, [[0.25, 0.75], [0.25, 0.25]])
    assert found == theory.calibrate_threshold(means, [0.1, 0.2], risk=0.5, bound=1.0)
    assert found == theory.calibrate_threshold(means, [0.1, 0.2], risk=0.5, bound=1.0, prompt=[0, 1])


PROMPTS = st.lists(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=4), min_size=2)


@given(PROMPTS, st.integers(1, 12))
def test_the_threshold_of_ragged_prompts_is_that_of_the_padded_table(prompts, parts):
    """And the leave-one-out risk is at most ε: the guarantee for exchangeable prompts, without a draw."""
    prompts, limit = [np.array(prompt) / 4 for prompt in prompts], parts / 4
    length = max(map(len, prompts))
    u, beta = (np.array([np.pad(rows[:, i], (0, length - len(rows))) for rows in prompts]) for i in range(2))
    grid = np.unique(np.concatenate([rows[:, 0] for rows in prompts]))
    losses = theory.threshold_losses(u, beta, grid) / np.array([[len(rows)] for rows in prompts])
    if limit * len(prompts) >= 1:
        left_out = []
        for i, rows in enumerate(prompts):
            threshold = skipping.calibrate(prompts[:i] + prompts[i + 1 :], limit).threshold
            left_out.append(np.mean(np.where(rows[:, 0] <= threshold, rows[:, 1], 0.0)))
        assert np.mean(left_out) <= limit + 1e-12
        found, table = (
            skipping.calibrate(prompts, limit),
            theory.calibrate_threshold(losses, grid, risk=limit + 1e-12, bound=1.0),
        )
        assert dataclasses.astuple(found) == pytest.approx(dataclasses.astuple(table))


def test_the_calibration_by_hand():
    losses, grid = [[0.0, 0.25, 0.5], [0.0, 0.5, 0.75], [0.0, 0.0, 1.0]], [0.1, 0.2, 0.3]
    found = theory.calibrate_threshold(losses, grid, risk=0.4375, bound=1.0)
    assert (found.threshold, found.empirical_risk, found.corrected_risk, found.prompts) == (0.2, 0.25, 0.4375, 3)
    assert theory.calibrate_threshold(losses, grid, risk=0.43, bound=1.0).threshold == 0.1
    assert theory.calibrate_threshold(losses, grid, risk=2.0, bound=1.0).threshold == 0.3


def test_one_prompt_less_than_the_rule_takes_is_refused():
    """1/(1/49) rounds to more than 49, but (0 + 1)/49 ≤ 1/49 holds."""
    for needed in range(1, 200):
        risk = 1 / (needed + 1)
        found = theory.calibrate_threshold(np.zeros((needed, 1)), [0.5], risk=risk, bound=1.0)
        assert (found.threshold, found.corrected_risk) == (0.5, risk)
        if needed > 1:
            with pytest.raises(ValueError, match=rf"^losses must come from at least {needed} prompts"):
                theory.calibrate_threshold(np.zeros((needed - 1, 1)), [0.5], risk=risk, bound=1.0)
    with pytest.raises(ValueError, match=r"^losses must come from at least \d{324} prompts"):
        theory.calibrate_threshold(np.zeros((9, 1)), [0.5], risk=5e-324, bound=1.0)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("count", range(1, 21))
def test_an_uncertainty_on_the_grid_is_skipped_as_it_was_calibrated(library, dtype, count):
    """Every prompt's u is exactly a grid point, so the next lower threshold is the right result."""
    u = to(library, np.full((200, 1), count / 20), dtype)
    grid = np.arange(21) / 20
    for thresholds in (grid.tolist(), to(library, grid)):
        losses = theory.threshold_losses(u, to(library, np.ones((200, 1)), dtype), thresholds)
        found = theory.calibrate_threshold(losses, thresholds, risk=0.01, bound=1.0)
        assert found.threshold == grid[count - 1]
        assert not np.any(numbers(u <= found.threshold))
        assert np.all(numbers(u <= float(grid[count])))


def test_losses_block_by_block_are_those_at_once(monkeypatch):
    rng = np.random.default_rng(3)
    u, beta, grid = rng.random((5, 40)), rng.random((5, 40)), np.arange(1, 12) / 12
    at_once = np.sum(np.where(u[:, None, :] <= grid[:, None], beta[:, None, :], 0.0), axis=-1)
    for block in (1, 450, 10**6):
        monkeypatch.setattr(skipping.calibration, "_BLOCK", block)
        np.testing.assert_array_equal(theory.threshold_losses(u, beta, grid), at_once)


def test_scores_may_be_whole_numbers_and_thresholds_may_not_merge():
    assert theory.threshold_losses([[0, 1, 2]], [[0.25, 0.5, 1.0]], [0.5, 1.5]).tolist() == [[0.25, 0.75]]
    with pytest.raises(ValueError, match=r"^thresholds must be rising; two are not"):
        theory.threshold_losses(np.float32([[0.5]]), [[0.5]], [0.5, 0.5 + 1e-12])


@given(loss_tables())
def test_the_held_out_risk_by_calibrating_without_each(instance):
    losses, bound = instance["losses"], instance["bound"]
    risk = np.maximum(instance["risk"], bound / losses.shape[0] * (1 + 1e-12))
    grid = np.arange(losses.shape[-1]) / 10
    total = 0.0
    for index in range(len(losses)):
        found = theory.calibrate_threshold(np.delete(losses, index, axis=0), grid, risk=float(risk), bound=float(bound))
        total += 0.0 if found.threshold == -math.inf else losses[index, np.searchsorted(grid, found.threshold)]
    assert float(theory.held_out_risk(losses, risk, bound)) == pytest.approx(total / len(losses), rel=1e-9, abs=1e-12)
