"""The cost of skipping: the exact risk, the papers' surrogate and its bounds, whole texts, and calibration."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.integrate import quad
from scipy.stats import binom

from hlmtheory import uncertainty, verification
from hlmtheory.skipping import (
    best_holder_bound,
    calibrate,
    calibrate_threshold,
    calibration,
    held_out_risk,
    holder_bound,
    holder_bound_discrete,
    non_acceptance,
    one_step_risk,
    rejection_risk,
    rejection_risk_discrete,
    sequence_risk,
    skip_thresholds,
    surrogate_gap,
    threshold_losses,
)
from hlmtheory.skipping import chains as chains_

from . import oracles
from .kinds import LIBRARIES, numbers, to
from .strategies import batches, drawn, grid_pairs, pairs, quantity, rows, shapes, vocabularies

UNIT = st.one_of(st.integers(0, 8).map(lambda n: n / 8), st.floats(0.0, 1.0))
LINE = {"slope": quantity(1e-3, 1e3), "intercept": st.one_of(UNIT, UNIT.map(lambda b: -b)), "non_acceptance": UNIT}
EXPONENT = st.one_of(st.sampled_from((1.0, 2.0, 1.5, math.inf)), st.floats(1.0, 50.0))


@st.composite
def with_skip(draw, source):
    """Pairs of rows, and a skip probability for each draft."""
    instance = draw(source)
    shape = instance["draft"].shape
    if shape[-1] > 12:
        return {**instance, "skip": (instance["draft"] > draw(UNIT) / shape[-1]) * draw(UNIT)}
    return {**instance, "skip": draw(hnp.arrays(np.float64, shape, elements=UNIT))}


@st.composite
def with_law(draw, name, least, exponent=False):
    """A line, and the law of the uncertainty on cells or points."""
    instance = draw(batches(**LINE, **({"exponent": EXPONENT} if exponent else {})))
    shape = instance["slope"].shape
    return {**instance, name: draw(rows(shape, draw(vocabularies(least))))}


@st.composite
def loss_tables(draw, one=False):
    """Losses that rise along the thresholds, a risk and the largest loss; in batches, or one table."""
    shape, prompts, grid = () if one else draw(shapes()), draw(st.integers(1 + one, 8)), draw(st.integers(1, 4))
    bound = draw(st.sampled_from((1.0, 0.5, 8.0)))
    steps = draw(hnp.arrays(np.float64, (*shape, prompts, grid), elements=UNIT))
    risk = draw(hnp.arrays(np.float64, shape, elements=quantity(0.02, 4.0)))
    return {
        "losses": bound * np.maximum.accumulate(steps, axis=-1),
        "risk": risk,
        "bound": np.full(shape, bound),
    }


SKIPPED = with_skip(pairs())


# ----------------------------------------------------------------------------------------------- printed numbers


def test_the_printed_thresholds():
    """cu-hlm prints .8117 and .0810; its inputs give .8118. u-hlm prints .431; its inputs give .440."""
    averse, prone = skip_thresholds(0.815, -0.066, non_acceptance=0.5956)
    assert round(float(averse), 4) == 0.0810
    assert round(float(prone), 4) == 0.8118
    averse, prone = skip_thresholds(0.82, -0.06, non_acceptance=0.301)
    assert round(float(averse), 3) == 0.073
    assert round(float(prone), 3) == 0.440
    slope = (0.301 + 0.06) / 0.431  # the slope that its threshold implies, if b and Δ are right
    assert round(slope, 3) == 0.838
    slope = 0.301 / (0.431 - 0.073)  # or both of its thresholds
    assert round(slope, 3) == 0.841


@given(drawn("skipping.mean_rejection"))
def test_non_acceptance_is_what_a_fit_counts_among_drafts(instance):
    """Δ is the probability of the drafts with β > 0, by the sum over the vocabulary and by tokens drawn from q."""
    target, draft = (np.asarray(instance[name], dtype=np.float64) for name in ("target", "draft"))
    beta = verification.rejection_probability(target, draft)
    delta = non_acceptance(target, draft)
    np.testing.assert_allclose(delta, np.sum(np.where(beta > 0, draft, 0.0), axis=-1), rtol=1e-6, atol=1e-9)
    assert np.all(delta >= 1.0 - verification.acceptance_rate(target, draft) - 1e-9)


def test_a_fit_gives_the_thresholds_their_non_acceptance():
    """With 1 - α, the mean β, the risk-prone threshold would be .44."""
    u, beta = [0.0, 0.25, 0.5, 1.0], [0.0, 0.125, 0.25, 0.5]
    fit = uncertainty.fit_linear(u, beta)
    assert fit.non_acceptance == 0.75
    assert float(skip_thresholds(**fit.line).risk_prone) == pytest.approx(1.5)
    with pytest.raises(TypeError, match="positional"):
        skip_thresholds(fit.slope, fit.intercept, float(np.mean(beta)))


def test_the_printed_bound_fixes_the_density():
    """cu-hlm: R < 9.87e-3 with a = .815, Δ = .5956 implies ‖f‖_2 = .0336 over I: almost no mass there."""
    factor = 0.5956**1.5 / math.sqrt(3 * 0.815)
    assert 9.87e-3 / factor == pytest.approx(0.03358, abs=1e-5)
    # by Cauchy-Schwarz with 1, P(I) ≤ ‖f‖_2 √|I|: at most 2.9% of the drafts lie in I
    averse, prone = skip_thresholds(0.815, -0.066, non_acceptance=0.5956)
    assert 0.03358 * math.sqrt(float(prone) - float(averse)) == pytest.approx(0.0287, abs=1e-4)


# ---------------------------------------------------------------------------------------------------- one step


@given(with_skip(grid_pairs()))
def test_the_one_step_risk_by_enumeration(instance):
    """Every draft (skipped or sent, accepted or not) and every replacement, in rational arithmetic."""

    def exact(p, q, s):
        p, q, s = (oracles.exact(row) for row in (p, q, s))
        return float(oracles.total_variation(oracles.emitted(p, q, s), p))

    ours = one_step_risk(instance["target"], instance["draft"], instance["skip"])
    theirs = oracles.row_by_row(exact, (instance["target"], 1), (instance["draft"], 1), (instance["skip"], 1))
    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-15)


@given(SKIPPED)
def test_the_one_step_risk_at_its_ends(instance):
    p, q = instance["target"], instance["draft"]
    risk = one_step_risk(p, q, instance["skip"])
    everything = verification.total_variation(p, q)
    np.testing.assert_allclose(one_step_risk(p, q, 1.0), everything, rtol=1e-12, atol=1e-14)
    assert np.all(one_step_risk(p, q, 0.0) == 0.0)
    assert np.all(risk <= everything * (1 + 1e-12) + 1e-14)


def test_the_rule_of_the_papers_from_logits_to_risk():
    """Sampled uncertainty, threshold, skip probability, risk: the mean over the sampling noise is E[s_d β_d]."""
    rng = np.random.default_rng(5)
    logits = rng.normal(0, 1, 12)
    draft = verification.softmax(logits)
    target = verification.softmax(logits + rng.normal(0, 1, 12))
    skip = uncertainty.skip_probability(uncertainty.vocabulary_uncertainty(logits), 0.8, 20)
    risk = float(one_step_risk(target, draft, skip))
    token = rng.choice(12, 100_000, p=draft)
    u = uncertainty.sample_uncertainty(np.broadcast_to(logits, (100_000, 12)), token, rng=rng)
    lost = verification.rejection_probability(target, draft)[token] * (u <= 0.8)
    assert risk > 0.01
    assert lost.mean() == pytest.approx(risk, abs=4 * lost.std() / math.sqrt(100_000))


# ------------------------------------------------------------------------------------------------ the surrogate


@settings(suppress_health_check=[HealthCheck.filter_too_much])  # half of the laws have more cells than are integrated
@given(with_law("cell_probabilities", 1), EXPONENT)
def test_the_surrogate_and_its_bound_against_adaptive_integration(instance, exponent):
    density, (a, b, delta) = instance["cell_probabilities"], (instance[name] for name in LINE)
    assume(density.ndim == 1 and density.size <= 12)
    low, high = (min(max(float(end), 0.0), 1.0) for end in skip_thresholds(a, b, non_acceptance=delta))
    edges = np.unique(np.clip([low, high, *np.arange(density.size + 1) / density.size], low, high))

    def integral(function):
        return sum(quad(function, *pair, epsabs=1e-13)[0] for pair in itertools.pairwise(edges))

    def height(u):
        return density[min(int(u * density.size), density.size - 1)] * density.size

    risk = float(rejection_risk(density, a, b, non_acceptance=delta))
    assert risk == pytest.approx(integral(lambda u: (a * u + b) * height(u)), abs=1e-9)
    assert risk <= float(holder_bound(density, a, b, non_acceptance=delta, exponent=exponent)) * (1 + 1e-9) + 1e-12
    if float(exponent) == 2.0:
        norm = math.sqrt(integral(lambda u: height(u) ** 2))
        assert float(holder_bound(density, a, b, non_acceptance=delta)) == pytest.approx(
            delta**1.5 / math.sqrt(3 * a) * norm, rel=1e-6
        )


def test_the_ends_of_the_exponent():
    density, line = [0.125, 0.5, 0.375, 0.0], dict(zip(LINE, (2.0, -0.25, 0.75), strict=True))  # I = [1/8, 1/2]
    share = 0.125 / 2 + 0.5
    assert float(holder_bound(density, **line, exponent=math.inf)) == pytest.approx(0.75 * share)
    assert float(holder_bound(density, **line, exponent=1.0)) == pytest.approx(0.75**2 / 4 * 2.0)
    for near, end in ((1.0 + 1e-9, 1.0), (1e9, math.inf)):
        assert float(holder_bound(density, **line, exponent=near)) == pytest.approx(
            float(holder_bound(density, **line, exponent=end))
        )
    mass = [0.25, 0.25, 0.5]
    assert float(holder_bound_discrete(mass, 1.0, 0.0, non_acceptance=1.0, exponent=math.inf)) == pytest.approx(1.0)
    assert float(holder_bound_discrete(mass, 1.0, 0.0, non_acceptance=1.0, exponent=1.0)) == pytest.approx(1.5 * 0.5)


@pytest.mark.parametrize("discrete", [False, True])
def test_the_best_exponent_against_a_grid(discrete):
    rng = np.random.default_rng(8)
    density = rng.dirichlet(np.full(21, 0.4), 20)
    line = {
        name: rng.uniform(*ends, 20) for name, ends in zip(LINE, ((0.3, 1.5), (-0.3, 0.1), (0.1, 1.0)), strict=True)
    }
    bound = holder_bound_discrete if discrete else holder_bound
    best = best_holder_bound(density, **line, discrete=discrete)
    exponents = (1 / inverse if inverse else math.inf for inverse in np.linspace(0, 1, 401))
    grid = [bound(density, **line, exponent=exponent) for exponent in exponents]
    assert np.all(best.bound <= np.min(grid, axis=0) * (1 + 1e-12))
    np.testing.assert_allclose(best.bound, np.min(grid, axis=0), rtol=1e-4)
    np.testing.assert_allclose(bound(density, **line, exponent=best.exponent), best.bound, rtol=1e-12)
    assert len(set(np.round(best.exponent, 3))) > 5
    assert np.mean(best.bound < 0.99 * bound(density, **line, exponent=2.0)) > 0.5


def test_nothing_between_the_thresholds():
    """Δ = 0, or all mass outside I: the surrogate risk and all bounds are 0."""
    for values in ((1.0, 0.0, 0.0), (1.0, -0.75, 0.125), (1e-300, 0.5, 0.25), (1e-300, -0.5, 0.25)):
        line = dict(zip(LINE, values, strict=True))
        assert float(rejection_risk([1.0, 0.0], **line)) == 0.0
        assert float(holder_bound([1.0, 0.0], **line)) == 0.0
        assert float(best_holder_bound([1.0, 0.0], **line).bound) == 0.0
    assert float(rejection_risk_discrete([1.0, 0.0], 1.0, -0.5, non_acceptance=0.25)) == 0.0
    assert float(holder_bound_discrete([1.0, 0.0], 1.0, -0.5, non_acceptance=0.25)) == 0.0


def test_the_border_of_the_grid_is_inside():
    """(Δ - b)/a = 0.3 differs from the point 6/20 by a rounding, which must not decide about its mass."""
    mass = np.zeros(21)
    mass[6] = 1.0
    for shift in (-1e-15, 0.0, 1e-15):
        assert float(rejection_risk_discrete(mass, 1.0, 0.0, non_acceptance=0.3 + shift)) == pytest.approx(0.3)


def test_the_border_of_the_grid_is_no_wider_than_rounding():
    mass = np.zeros(21)
    mass[6] = 1.0
    for beside, risk in ((1e-13, 0.3), (1e-11, 0.0), (1e-9, 0.0)):
        assert float(rejection_risk_discrete(mass, 1.0, 0.0, non_acceptance=0.3 - beside)) == pytest.approx(risk)
        assert float(rejection_risk_discrete(mass, 1.0, -0.3 - beside, non_acceptance=1.0)) == 0.0
        gap = surrogate_gap([0.3], [1.0], 1.0, 0.0, non_acceptance=0.3 - beside)
        assert float(gap.exact) == (1.0 if risk else 0.0)
        gap = surrogate_gap([0.3], [1.0], 1.0, -0.3 - beside, non_acceptance=1.0)
        assert float(gap.below) == (0.0 if risk else 1.0)
    narrow = mass.astype(np.float32)
    assert float(rejection_risk_discrete(narrow, 1.0, 0.0, non_acceptance=0.3)) == pytest.approx(0.3)
    assert float(rejection_risk_discrete(narrow, 1.0, 0.0, non_acceptance=0.3 - 1e-5)) == 0.0


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_an_uncertainty_at_the_threshold_is_skipped(library, dtype):
    """(0.29 + 0.09)/0.95 = 0.4, but 0.95 · 0.4 - 0.09 rounds to more than 0.29."""
    gap = surrogate_gap(to(library, [0.4], dtype), to(library, [1.0], dtype), 0.95, -0.09, non_acceptance=0.29)
    assert (float(gap.exact), float(gap.below)) == (1.0, 0.0)
    assert float(gap.surrogate) == pytest.approx(0.29)


def test_lines_that_are_all_but_flat_or_upright():
    for density, bound in (([0.5, 0.5], holder_bound), ([0.25, 0.75], holder_bound)):
        assert float(rejection_risk(density, 1e-308, -10.0, non_acceptance=0.5)) == 0.0
        assert float(rejection_risk(density, 1e-308, 0.25, non_acceptance=0.5)) == pytest.approx(0.25)
        for exponent in (1.0, 2.0, math.inf):
            assert float(bound(density, 1e-308, -10.0, non_acceptance=0.5, exponent=exponent)) == 0.0
        assert float(best_holder_bound(density, 1e-308, -10.0, non_acceptance=0.5).bound) == 0.0
    averse, prone = skip_thresholds([1e8, 1e308, 1e-308], [0.0, -1.0, -1.0], non_acceptance=0.5)
    assert averse.tolist() == [0.0, 1e-308, math.inf]
    assert prone.tolist() == [5e-9, 1.5e-308, math.inf]


def test_the_surrogate_of_the_tokens_is_that_of_their_histogram():
    rng = np.random.default_rng(9)
    u = rng.integers(0, 21, 4000) / 20
    beta = np.clip(0.8 * u - 0.06 + rng.normal(0, 0.2, 4000), 0, 1)
    fit = uncertainty.fit_linear(u, beta)
    share = np.mean(beta > 0)
    gap = surrogate_gap(u, beta, fit.slope, fit.intercept, non_acceptance=share)
    mass = np.bincount(np.rint(20 * u).astype(int), minlength=21) / 4000
    assert float(gap.surrogate) == pytest.approx(
        float(rejection_risk_discrete(mass, fit.slope, fit.intercept, non_acceptance=share))
    )
    assert float(gap.exact) == pytest.approx(np.mean(beta * (u <= (share - fit.intercept) / fit.slope)))


# ------------------------------------------------------------------------------------------------------ sequences


def tree(rng, size, length, kinds=1):
    """For each prefix, rows of p and q that are sometimes equal, and skip probabilities; all prefixes differ."""
    levels = []
    for step in range(length):
        p, q = rng.dirichlet(np.full(size, 0.5), (2, size**step))
        alike = rng.random((size**step, 1)) < 0.3
        skip = rng.random((kinds, size**step, size)) ** 2
        levels.append((p, np.where(alike, p, q), skip))
    return levels


def grown(law, rows):
    """Return the law of texts that are one token longer."""
    return (law[:, None] * rows).ravel()


@pytest.mark.parametrize("seed", range(20))
def test_whole_texts_by_enumeration(seed):
    """V = 4, T = 6: all 4,096 texts, each prefix with its own rows."""
    rng = np.random.default_rng(seed)
    by_p = by_h = np.ones(1)
    from_target = from_system = 0.0
    for p, q, skip in tree(rng, 4, 6):
        risk = one_step_risk(p, q, skip[0])
        from_target += by_p @ risk
        from_system += by_h @ risk
        law = verification.output_distribution(p, q, skip=skip[0])
        by_p, by_h = grown(by_p, p), grown(by_h, law)
    distance = 0.5 * np.abs(by_p - by_h).sum()
    assert by_h.sum() == pytest.approx(1.0)
    assert 0.1 < distance <= min(from_target, from_system)


@pytest.mark.parametrize("seed", range(10))
def test_a_policy_with_a_state_is_bounded_along_its_own_texts(seed):
    """The last skip decides the next one, so the policy is not a function of the text."""
    rng = np.random.default_rng(seed)
    by_p, by_h = np.ones(1), np.array([[1.0], [0.0]])  # by_h: per state, per prefix
    from_system = 0.0
    for p, q, skip in tree(rng, 3, 5, kinds=2):
        following = np.zeros((2, p.size))
        for state in range(2):
            from_system += by_h[state] @ one_step_risk(p, q, skip[state])
            law = verification.output_distribution(p, q, skip=skip[state])
            skipped = q * skip[state]
            following[1] += grown(by_h[state], skipped)
            following[0] += grown(by_h[state], law - skipped)
        by_p, by_h = grown(by_p, p), following
    assert 0.5 * np.abs(by_p - by_h.sum(axis=0)).sum() <= from_system


def test_a_policy_with_a_state_may_leave_the_large_models_texts_bound_behind():
    """The state is whether the first draft was skipped, which the text does not show; after a skip it skips the second.

    First token: p = (1/2, 1/2), q = (1, 0); draft 0 is skipped with probability 1/2. Along the target model's text the
    state would have to be guessed from the token: a state of "not skipped" gives the second step no risk at all.
    """
    p, q = np.array([0.5, 0.5]), np.array([1.0, 0.0])
    first = float(one_step_risk(p, q, 0.5))
    second = {True: float(one_step_risk([1.0, 0.0], [0.0, 1.0], 1.0)), False: 0.0}
    skipped_first = 0.5
    law_first = verification.output_distribution(p, q, skip=0.5)
    texts = np.zeros((2, 2))
    texts[0, 1] = skipped_first  # skipped, then skipped again: token 1 for the target model's 0
    texts[:, 0] = law_first - [skipped_first, 0.0]
    distance = 0.5 * np.abs(texts - np.outer(p, [1.0, 0.0])).sum()
    assert distance <= first + skipped_first * second[True]
    assert distance > first + second[False]


def test_the_texts_of_the_chains_have_all_their_tokens():
    """A fair coin and a draft that is always 0: the texts agree only on 0…0, 1 of 2^HORIZON texts."""
    instance = {
        "target_chain": np.full((2, 2), 0.5),
        "draft_chain": [[1.0, 0.0], [1.0, 0.0]],
        "skip_chain": np.ones((2, 2)),
    }
    assert chains_.HORIZON == 4
    assert float(chains_.text_distance(**instance)) == 1 - 0.5**4
    assert float(chains_.from_target(**instance)) == 4 * 0.5


def test_the_sum_is_clipped_after_the_mean():
    assert float(sequence_risk([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])) == 1.0
    assert float(sequence_risk([[0.75, 0.75], [0.0, 0.0]])) == 0.75
    assert sequence_risk(np.zeros((3, 2, 0))).tolist() == [0.0, 0.0, 0.0]


# ---------------------------------------------------------------------------------------------------- calibration


def test_the_guarantee_where_the_risk_is_known():
    """A prompt skips a wrong token from its U ~ U(0, 1) on: the loss at λ is 1{U ≤ λ}, with mean λ."""
    rng = np.random.default_rng(12)
    grid, wanted, prompts, runs = np.arange(1, 1000) / 1000, 0.1, 99, 1000
    chosen = []
    for _ in range(runs):
        losses = threshold_losses(rng.random((prompts, 1)), np.ones((prompts, 1)), grid)
        chosen.append(max(calibrate_threshold(losses, grid, risk=wanted, bound=1.0).threshold, 0.0))
    risk, noise = np.mean(chosen), np.std(chosen) / math.sqrt(runs)
    assert risk <= wanted + 4 * noise
    assert risk >= wanted - 2 / (prompts + 1) - 0.001 - 4 * noise  # and the rule is not much more cautious than needed
    assert np.mean(np.array(chosen) > wanted) > 0.2  # the guarantee is for the mean, not for every run


@pytest.mark.parametrize("risk", [0.02, 0.05, 0.07, 0.12])
def test_three_equal_texts_of_a_prompt_count_once(risk):
    """The worst case for 20 prompts: a prompt loses 1 from its U ~ U(0, 1) on, so that the mean loss at λ is λ.

    Taken as 60 prompts, the rule at 0.07 stops before the second smallest U, whose mean is 2/21.
    """
    rng = np.random.default_rng(15)
    grid, prompts, runs = np.arange(1, 1000) / 1000, 20, 2000
    if risk < 1 / (prompts + 1):
        losses = np.repeat(rng.random((prompts, 1)) <= grid, 3, axis=0).astype(float)
        with pytest.raises(ValueError, match=r"^losses must come from at least 49 prompts, .* got 20; "):
            calibrate_threshold(losses, grid, risk=risk, bound=1.0, prompt=np.repeat(np.arange(prompts), 3))
        return
    chosen = []
    for _ in range(runs):
        losses = np.repeat(rng.random((prompts, 1)) <= grid, 3, axis=0).astype(float)
        found = calibrate_threshold(losses, grid, risk=risk, bound=1.0, prompt=np.repeat(np.arange(prompts), 3))
        assert found.prompts == prompts
        chosen.append(max(found.threshold, 0.0))
    assert np.mean(chosen) <= risk + 3 * np.std(chosen) / math.sqrt(runs)
    assert np.mean(chosen) >= risk - 1 / (prompts + 1) - 0.005


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_prompt_loses_the_mean_of_its_texts(library):
    losses, own = to(library, [[0.0, 0.5], [0.25, 0.25], [0.5, 1.0]]), to(library, [4, -1, 4])
    found = calibrate_threshold(losses, [0.1, 0.2], risk=0.5, bound=1.0, prompt=own)
    assert (found.threshold, found.empirical_risk, found.corrected_risk, found.prompts) == (0.1, 0.25, 0.5, 2)
    means = to(library, [[0.25, 0.75], [0.25, 0.25]])
    assert found == calibrate_threshold(means, [0.1, 0.2], risk=0.5, bound=1.0)
    assert found == calibrate_threshold(means, [0.1, 0.2], risk=0.5, bound=1.0, prompt=[0, 1])


def test_tokens_may_depend_on_each_other():
    """All tokens of a prompt are good or bad: taken as i.i.d. prompts they break the guarantee; prompts keep it."""
    rng = np.random.default_rng(13)
    grid, tokens, prompts = np.arange(1, 40) / 40, 20, 60

    def sample(count):
        bad = rng.random((count, 1)) < 0.1
        return np.broadcast_to(rng.random((count, 1)), (count, tokens)), np.where(bad, 1.0, 0.0) * np.ones(tokens)

    fresh = threshold_losses(*sample(20_000), grid).mean(axis=0) / tokens
    risks = []
    for _ in range(300):
        losses = threshold_losses(*sample(prompts), grid) / tokens
        found = calibrate_threshold(losses, grid, risk=0.05, bound=1.0).threshold
        risks.append(0.0 if found == -math.inf else fresh[np.searchsorted(grid, found)])
    assert np.mean(risks) <= 0.05 + 4 * np.std(risks) / math.sqrt(300) + 0.002
    assert np.mean(risks) > 0.02


def test_the_bound_of_a_loss_is_stated_not_guessed():
    """Losses of 50 on 2% of the prompts: 55% of the runs of 30 prompts see none, so the observed 0 is not a bound."""
    quiet = np.zeros((30, 2))
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'bound'"):
        calibrate_threshold(quiet, [0.1, 0.2], risk=0.05)
    with pytest.raises(ValueError, match=r"^losses must come from at least 999 prompts, n \+ 1 ≥ bound/risk; got 30; "):
        calibrate_threshold(quiet, [0.1, 0.2], risk=0.05, bound=50.0)


@pytest.mark.parametrize("prompts", [999, 1500, 2999])
@pytest.mark.parametrize("share", [1e-4, 5e-4, 1e-3, 2e-3, 0.02])
def test_with_the_true_bound_the_risk_of_rare_large_losses_is_controlled(prompts, share):
    """Loss 50 on a share of the prompts, exactly: Σ over the number of heavy prompts among n of P · true risk ≤ ε."""
    bound, wanted = 50.0, 0.05
    heavy = np.arange(5)
    losses = np.zeros((5, prompts, 2))
    for count in heavy:
        losses[count, :count, 1] = bound
    found = [calibrate_threshold(table, [0.1, 0.2], risk=wanted, bound=bound).threshold for table in losses]
    trusting = np.array(found) == 0.2
    true_risk = share * bound
    chance = binom.pmf(heavy, prompts, share)
    assert trusting[0]
    assert not trusting[-1]
    assert np.sum(chance * trusting) * true_risk <= wanted
    if true_risk > wanted:  # Markov: a risk of true_risk may be taken in a share ε/true_risk of the runs at most
        assert np.sum(chance * trusting) <= wanted / true_risk


def test_sums_of_a_text_are_bounded_by_its_tokens():
    losses = threshold_losses(np.zeros((4, 50)), np.ones((4, 50)), [0.0, 0.5])
    assert losses.max() == 50.0
    with pytest.raises(ValueError, match=r"^losses must be in \[0, bound\]"):
        calibrate_threshold(losses, [0.0, 0.5], risk=0.5, bound=1.0)
    assert calibrate_threshold(losses / 50, [0.0, 0.5], risk=0.5, bound=1.0).threshold == -math.inf


PROMPTS = st.lists(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=4), min_size=2)


@given(PROMPTS, st.integers(1, 12))
def test_the_threshold_of_ragged_prompts_is_that_of_the_padded_table(prompts, parts):
    """And the leave-one-out risk is at most ε: the guarantee for exchangeable prompts, without a draw."""
    prompts, limit = [np.array(prompt) / 4 for prompt in prompts], parts / 4
    length = max(map(len, prompts))
    u, beta = (np.array([np.pad(rows[:, i], (0, length - len(rows))) for rows in prompts]) for i in range(2))
    grid = np.unique(np.concatenate([rows[:, 0] for rows in prompts]))
    losses = threshold_losses(u, beta, grid) / np.array([[len(rows)] for rows in prompts])
    if limit * len(prompts) >= 1:
        left_out = []
        for i, rows in enumerate(prompts):
            threshold = calibrate(prompts[:i] + prompts[i + 1 :], limit).threshold
            left_out.append(np.mean(np.where(rows[:, 0] <= threshold, rows[:, 1], 0.0)))
        assert np.mean(left_out) <= limit + 1e-12
        found, table = calibrate(prompts, limit), calibrate_threshold(losses, grid, risk=limit + 1e-12, bound=1.0)
        assert dataclasses.astuple(found) == pytest.approx(dataclasses.astuple(table))


@pytest.mark.parametrize(
    ("prompts", "message"),
    [
        ([[(0.5, 0.0)]] * 100, "losses_by_prompt needs 101 prompts for a limit of 0.00987; got 100; add prompts"),
        ([], "losses_by_prompt needs 101 prompts for a limit of 0.00987; got 0; add prompts"),
        (
            [[(0.5, 0.0)], [0.5, 0.0]],
            r"losses_by_prompt\[1\] must be rows \(u, β\), one for each token; got shape \(2,\)",
        ),
        ([[(0.5, 1.5)]], r"losses_by_prompt\[0\] must be in \[0, 1\]; got 1.5"),
    ],
)
def test_prompts_that_cannot_be_calibrated_are_refused_with_a_remedy(prompts, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        calibrate(prompts, 9.87e-3)


def test_the_calibration_by_hand():
    losses, grid = [[0.0, 0.25, 0.5], [0.0, 0.5, 0.75], [0.0, 0.0, 1.0]], [0.1, 0.2, 0.3]
    found = calibrate_threshold(losses, grid, risk=0.4375, bound=1.0)
    assert (found.threshold, found.empirical_risk, found.corrected_risk, found.prompts) == (0.2, 0.25, 0.4375, 3)
    assert calibrate_threshold(losses, grid, risk=0.43, bound=1.0).threshold == 0.1
    assert calibrate_threshold(losses, grid, risk=2.0, bound=1.0).threshold == 0.3


def test_nothing_is_skipped_where_every_threshold_is_too_high():
    found = calibrate_threshold([[1.0], [1.0], [1.0]], [0.1], risk=0.5, bound=1.0)
    assert (found.threshold, found.empirical_risk, found.corrected_risk) == (-math.inf, 0.0, 0.25)


def test_one_prompt_is_enough_for_half_the_largest_loss():
    assert calibrate_threshold([[0.0, 0.25]], [0.1, 0.2], risk=0.5, bound=1.0).threshold == 0.1
    with pytest.raises(ValueError, match=r"^losses must come from at least 2 prompts, n \+ 1 ≥ bound/risk; got 1; "):
        calibrate_threshold([[0.0, 0.25]], [0.1, 0.2], risk=0.4, bound=1.0)


def test_one_prompt_less_than_the_rule_takes_is_refused():
    """1/(1/49) rounds to more than 49, but (0 + 1)/49 ≤ 1/49 holds."""
    for needed in range(1, 200):
        risk = 1 / (needed + 1)
        found = calibrate_threshold(np.zeros((needed, 1)), [0.5], risk=risk, bound=1.0)
        assert (found.threshold, found.corrected_risk) == (0.5, risk)
        if needed > 1:
            with pytest.raises(ValueError, match=rf"^losses must come from at least {needed} prompts"):
                calibrate_threshold(np.zeros((needed - 1, 1)), [0.5], risk=risk, bound=1.0)
    with pytest.raises(ValueError, match=r"^losses must come from at least \d{324} prompts"):
        calibrate_threshold(np.zeros((9, 1)), [0.5], risk=5e-324, bound=1.0)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("count", range(1, 21))
def test_an_uncertainty_on_the_grid_is_skipped_as_it_was_calibrated(library, dtype, count):
    """Every prompt's u is exactly a grid point, so the next lower threshold is the right result."""
    u = to(library, np.full((200, 1), count / 20), dtype)
    grid = np.arange(21) / 20
    for thresholds in (grid.tolist(), to(library, grid)):
        losses = threshold_losses(u, to(library, np.ones((200, 1)), dtype), thresholds)
        found = calibrate_threshold(losses, thresholds, risk=0.01, bound=1.0)
        assert found.threshold == grid[count - 1]
        assert not np.any(numbers(u <= found.threshold))
        assert np.all(numbers(u <= float(grid[count])))


def test_losses_block_by_block_are_those_at_once(monkeypatch):
    rng = np.random.default_rng(3)
    u, beta, grid = rng.random((5, 40)), rng.random((5, 40)), np.arange(1, 12) / 12
    at_once = np.sum(np.where(u[:, None, :] <= grid[:, None], beta[:, None, :], 0.0), axis=-1)
    for block in (1, 450, 10**6):
        monkeypatch.setattr(calibration, "_BLOCK", block)
        np.testing.assert_array_equal(threshold_losses(u, beta, grid), at_once)


def test_scores_may_be_whole_numbers_and_thresholds_may_not_merge():
    assert threshold_losses([[0, 1, 2]], [[0.25, 0.5, 1.0]], [0.5, 1.5]).tolist() == [[0.25, 0.75]]
    with pytest.raises(ValueError, match=r"^thresholds must be rising; two are not"):
        threshold_losses(np.float32([[0.5]]), [[0.5]], [0.5, 0.5 + 1e-12])


@given(loss_tables(one=True))
def test_the_held_out_risk_by_calibrating_without_each(instance):
    losses, bound = instance["losses"], instance["bound"]
    risk = np.maximum(instance["risk"], bound / losses.shape[0] * (1 + 1e-12))
    grid = np.arange(losses.shape[-1]) / 10
    total = 0.0
    for index in range(len(losses)):
        found = calibrate_threshold(np.delete(losses, index, axis=0), grid, risk=float(risk), bound=float(bound))
        total += 0.0 if found.threshold == -math.inf else losses[index, np.searchsorted(grid, found.threshold)]
    assert float(held_out_risk(losses, risk, bound)) == pytest.approx(total / len(losses), rel=1e-9, abs=1e-12)


def test_losses_of_texts():
    losses = threshold_losses(
        [[0.5, 0.1, 0.9], [0.5, 0.5, 0.0]], [[0.5, 0.25, 1.0], [0.125, 0.5, 0.0]], [0.0, 0.5, 1.0]
    )
    assert losses.tolist() == [[0.0, 0.75, 1.75], [0.0, 0.625, 0.625]]
