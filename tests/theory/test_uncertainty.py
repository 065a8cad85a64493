"""Temperature perturbation: the quadrature against adaptive integration, the binomial law, and the fits."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import binom, t

from hlmtheory.uncertainty import expected_uncertainty, fit_linear, sample_uncertainty
from hlmtheory.uncertainty.binomial import skip_probability
from hlmtheory.uncertainty.perturbation import vocabulary_uncertainty

from .kinds import LIBRARIES, numbers, to
from .strategies import quantity, shapes

LOGIT = st.one_of(
    st.integers(-8, 8).map(lambda n: n / 2), st.floats(-30.0, 30.0), st.sampled_from((-1e4, 1e4, 1e-6, 60.0))
)
UNIT = st.one_of(st.integers(0, 8).map(lambda n: n / 8), st.floats(0.0, 1.0))


@st.composite
def logit_rows(draw, with_token=True, draws=0):
    """Rows of logits with ties, near ties, large margins and masked entries; a token; temperatures."""
    shape, size = draw(shapes()), draw(st.integers(1, 9))
    logits = draw(hnp.arrays(np.float64, (*shape, size), elements=LOGIT))
    if draw(st.booleans()):
        masked = draw(hnp.arrays(np.bool_, (*shape, size)))
        masked[..., draw(st.integers(0, size - 1))] = False
        logits = np.where(masked, -np.inf, logits)
    instance = {"logits": logits}
    if with_token:
        instance["token"] = draw(hnp.arrays(np.int64, shape, elements=st.integers(0, size - 1)))
    if draws:
        instance["temperatures"] = draw(hnp.arrays(np.float64, (*shape, draws), elements=quantity(1e-3, 2.0)))
    return instance


def like_a_model(seed, size=4096):
    """Logits like a small language model's: a few large ones, then a broad bulk; in steps of 2^-7 as in float16."""
    rng = np.random.default_rng(seed)
    crowd = rng.normal(0.0, 2.7, size)
    crowd[rng.choice(size, 12, replace=False)] += rng.exponential(rng.choice([0.3, 2.0, 5.0]), 12) + 9.0
    return np.round(crowd * 128) / 128


@given(logit_rows())
def test_an_expected_uncertainty_is_a_probability(instance):
    value = expected_uncertainty(instance["logits"], instance["token"])
    assert np.all((value >= 0) & (value <= 1))
    everywhere = vocabulary_uncertainty(instance["logits"])
    own = np.take_along_axis(everywhere, instance["token"][..., None], axis=-1)[..., 0]
    np.testing.assert_allclose(own, value, rtol=0, atol=1e-14)
    np.testing.assert_allclose(np.sum(1.0 - everywhere, axis=-1), 1.0, rtol=1e-12)
    order = np.argsort(instance["logits"], axis=-1)
    assert np.all(np.diff(np.take_along_axis(everywhere, order, axis=-1), axis=-1) <= 1e-15)


@given(logit_rows(), st.floats(-1e4, 1e4), quantity(1e-3, 1e3))
def test_only_gaps_over_the_largest_temperature_count(instance, shift, scale):
    logits, token = instance["logits"], instance["token"]
    ours = expected_uncertainty(logits, token)
    moved = expected_uncertainty(scale * logits, token, max_temperature=2.0 * scale)
    np.testing.assert_allclose(moved, ours, rtol=0, atol=1e-9)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_masked_draft_always_differs(library, dtype):
    logits = to(library, [[2.0, -math.inf, -3.0], [-math.inf, -math.inf, 1.0]], dtype)
    for warmest in (0.0, 2.0):
        assert numbers(expected_uncertainty(logits, 1, max_temperature=warmest)).tolist() == [1.0, 1.0]
        rng = np.random.default_rng(1)
        assert numbers(sample_uncertainty(logits, 1, max_temperature=warmest, rng=rng)).tolist() == [1.0, 1.0]
        assert numbers(vocabulary_uncertainty(logits, max_temperature=warmest))[1].tolist() == [1.0, 1.0, 0.0]


def test_the_least_gap_is_no_tie():
    rng = np.random.default_rng(1)
    assert float(expected_uncertainty([5e-324, 0.0], 0, max_temperature=0.0)) == 0.0
    assert vocabulary_uncertainty([5e-324, 0.0], max_temperature=0.0).tolist() == [0.0, 1.0]
    assert float(sample_uncertainty([5e-324, 0.0], 1, max_temperature=0.0, rng=rng)) == 1.0


@pytest.mark.parametrize("size", [1e4, 1e300, 1.7e308])
@pytest.mark.parametrize("temperature", [1e-300, 2.0, 1e300])
def test_logits_of_any_size(size, temperature):
    logits = np.array([size, -size, size])
    values = vocabulary_uncertainty(logits, max_temperature=temperature)
    assert np.isfinite(values).all()
    assert values.sum() == pytest.approx(2.0)
    assert float(expected_uncertainty(logits, 0, max_temperature=temperature)) == pytest.approx(values[0])


def test_the_samples_are_binomial_with_the_expected_mean():
    logits = like_a_model(3, 200)
    token = int(np.argsort(-logits)[1])
    mean = float(expected_uncertainty(logits, token))
    rng = np.random.default_rng(7)
    counts = np.rint(20 * sample_uncertainty(np.tile(logits, (20_000, 1)), token, rng=rng)).astype(int)
    expected = 20_000 * binom.pmf(np.arange(21), 20, mean)
    enough = expected > 5
    observed = np.bincount(counts, minlength=21)
    statistic = np.sum((observed - expected)[enough] ** 2 / expected[enough])
    assert statistic < enough.sum() + 4 * math.sqrt(2 * enough.sum())
    assert np.mean(counts) / 20 == pytest.approx(mean, abs=4 * math.sqrt(mean * (1 - mean) / 400_000))


def test_samples_at_temperature_0():
    logits = np.tile([3.0, 3.0, 1.0], (4000, 1))
    rng = np.random.default_rng(2)
    assert np.all(sample_uncertainty(logits, 2, max_temperature=0.0, rng=rng) == 1.0)
    tied = sample_uncertainty(logits, 0, max_temperature=0.0, rng=rng)
    assert np.mean(tied) == pytest.approx(0.5, abs=4 * 0.5 / math.sqrt(80_000))


@given(st.integers(1, 60), st.floats(0.0, 1.0), st.integers(-1, 61))
def test_the_skip_probability_is_the_binomial_distribution_function(draws, expected, count):
    value = float(skip_probability(expected, count / draws, draws))
    assert value == pytest.approx(binom.cdf(count, draws, expected), rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("count", range(21))
def test_a_share_at_the_threshold_is_skipped(count):
    """u = j/M is compared as floats: 0.15 · 20 rounds to more than 3, but 3/20 is not above 0.15."""
    assert float(skip_probability(0.3, count / 20, 20)) == pytest.approx(binom.cdf(count, 20, 0.3), rel=1e-12)
    assert float(skip_probability(0.3, np.nextafter(count / 20, -1.0), 20)) == pytest.approx(
        binom.cdf(count - 1, 20, 0.3), rel=1e-12
    )


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("count", range(21))
def test_a_threshold_beside_a_narrow_expectation_keeps_its_atom(library, count):
    """7/20 ≤ 0.35, and in float32 as sampled, but 7/20 is above the float32 of 0.35."""
    expected = to(library, [0.3], "float32")
    exact = binom.cdf(count, 20, float(np.float32(0.3)))
    for threshold in (count / 20, [count / 20], np.float32(count / 20), to(library, [count / 20], "float32")):
        assert float(skip_probability(expected, threshold)[0]) == pytest.approx(exact, rel=1e-6)
    below = to(library, np.nextafter(np.float32([count / 20]), np.float32(-1.0)), "float32")
    before = binom.cdf(count - 1, 20, float(np.float32(0.3)))
    assert float(skip_probability(expected, below)[0]) == pytest.approx(before, rel=1e-6, abs=1e-30)


@given(st.integers(1, 2**40), hnp.arrays(np.float32, 1, elements=st.floats(0.0, 1.0, width=32)))
def test_a_narrow_threshold_is_compared_in_its_type(draws, threshold):
    """The threshold in use lies between the largest j/M at or below it, and the next one."""
    from hlmtheory.uncertainty.binomial import _as_compared

    wide = _as_compared(threshold)
    assert wide.astype(np.float32) <= threshold < np.nextafter(wide, 2.0).astype(np.float32)
    count = np.floor(float(threshold[0]) * draws)
    assert bool(np.float32(count / draws) <= threshold[0]) == bool(count / draws <= wide[0])


def tokens(rng, prompts=40, each=25, noise=0.3):
    """u and β of prompts with different levels: the tokens of one prompt depend on each other."""
    groups = np.repeat(np.arange(prompts), each)
    u = np.clip(rng.random(prompts)[groups] * 0.7 + 0.3 * rng.random(prompts * each), 0, 1)
    level = rng.normal(0, 0.08, prompts)[groups]
    return u, np.clip(0.2 + 0.5 * u + level + rng.uniform(-noise, noise, len(u)) / 3, 0, 1), groups


@given(st.lists(st.tuples(UNIT, UNIT), min_size=4, max_size=40), st.booleans())
def test_the_fit_is_that_of_statsmodels(pairs, clustered):
    from statsmodels.api import OLS, add_constant

    u, beta = (np.array(side) for side in zip(*pairs, strict=True))
    assume(np.ptp(u) >= 1e-3 and np.ptp(beta) >= 1e-3)
    groups = np.arange(len(u)) % 3 if clustered else None
    options = {"cov_type": "cluster", "cov_kwds": {"groups": groups}, "use_t": True} if clustered else {}
    fit = fit_linear(u, beta, groups=groups)
    theirs = OLS(beta, add_constant(u)).fit(**options)
    np.testing.assert_allclose([fit.intercept, fit.slope], theirs.params, rtol=1e-6, atol=1e-9)
    ends = theirs.conf_int(0.05)
    np.testing.assert_allclose([fit.intercept_interval, fit.slope_interval], ends, rtol=1e-6, atol=1e-6)
    assert fit.r_squared == pytest.approx(theirs.rsquared, abs=1e-7)
    assert fit.mse == pytest.approx(theirs.ssr / len(u), abs=1e-9)
    assert fit.correlation**2 == pytest.approx(fit.r_squared, abs=1e-7)


def test_bins_by_hand():
    """All bins have equal weight, however many tokens they hold; empty bins are omitted."""
    u, beta = [0.0, 0.01, 0.5, 1.0, 1.0, 1.0], [0.0, 0.2, 0.3, 1.0, 0.4, 0.4]
    fit = fit_linear(u, beta, binned=True)
    same = fit_linear([0.0, 0.5, 1.0], [0.1, 0.3, 0.6])
    assert (fit.points, same.points) == (3, 3)
    assert (fit.slope, fit.intercept, fit.mse) == pytest.approx((same.slope, same.intercept, same.mse))
    assert fit.slope_interval == pytest.approx(same.slope_interval)


def test_the_jackknife_over_prompts_by_hand():
    u, beta, groups = tokens(np.random.default_rng(8), prompts=5)
    fit = fit_linear(u, beta, groups=groups, binned=True)
    without = [fit_linear(u[groups != one], beta[groups != one], binned=True) for one in range(5)]
    for value, interval, left_out in (
        (fit.slope, fit.slope_interval, [other.slope for other in without]),
        (fit.intercept, fit.intercept_interval, [other.intercept for other in without]),
    ):
        deviation = math.sqrt(4 / 5 * np.sum((left_out - np.mean(left_out)) ** 2))
        half = t.ppf(0.975, 4) * deviation
        assert interval == pytest.approx((value - half, value + half))


@pytest.mark.parametrize("binned", [False, True])
@pytest.mark.parametrize("level", [0.025, 0.1, 0.7, 1.0])
def test_constant_rejection_has_no_correlation_whatever_the_rounding(level, binned):
    """(0.025 + 0.025 + 0.025)/3 differs from 0.025."""
    for count in (3, 7, 200):
        fit = fit_linear(np.linspace(0.0, 1.0, count), np.full(count, level), binned=binned)
        assert fit.r_squared is fit.correlation is None


@pytest.mark.parametrize("unit", [1e-310, 2.0**-1060, 1e-200])
@pytest.mark.parametrize("options", [{}, {"groups": [0, 1, 1, 2, 2]}, {"groups": [0, 1, 1, 2, 2], "binned": True}])
def test_the_fit_of_tiny_rejections_is_that_of_others_in_their_unit(unit, options):
    u, beta = np.array([0.1, 0.15, 0.2, 0.3, 0.4]), np.array([1.0, 2.0, 2.0, 3.0, 5.0])
    fit, wide = fit_linear(u, beta * unit, **options), fit_linear(u, beta / 8, **options)
    assert fit.r_squared == pytest.approx(wide.r_squared, rel=1e-9)
    assert fit.correlation == pytest.approx(wide.correlation, rel=1e-9)
    assert fit.slope == pytest.approx(8 * unit * wide.slope, rel=1e-9)
    assert fit.intercept == pytest.approx(8 * unit * wide.intercept, rel=1e-9)
    assert fit.slope_interval == pytest.approx(tuple(8 * unit * end for end in wide.slope_interval), rel=1e-9)
    assert fit.mse == pytest.approx(64 * unit * unit * wide.mse)
    assert fit_linear([0.1, 0.2, 0.3], [1e-310, 2e-310, 3e-310]).r_squared == pytest.approx(1.0)


FIT = ([0.0, 0.5, 1.0, 0.25], [0.0, 0.25, 1.0, 0.5])


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([0.5, 0.5, 0.5], [0.0, 0.5, 1.0]), {}, "uncertainty must vary; got .*0.5"),
        (
            ([0.5, 0.51, 0.5, 0.0], [0.0, 0.5, 1.0, 1.0]),
            {"binned": True},
            "uncertainty must give 3 points or more; got 2",
        ),
        (([0.5, 0.6], [0.0, 0.5]), {}, "uncertainty must give 3 points or more; got 2"),
        (FIT, {"groups": [1, 1, 1, 1]}, "groups must be of two prompts or more; got one"),
        (FIT, {"groups": [1, 2]}, r"groups must be one label per token; got shape \(2,\)"),
        (
            (FIT[0][:3], FIT[1][:3]),
            {"groups": [1, 1, 2], "binned": True},
            "groups must leave 3 points or more without any one prompt; got 1 without the prompt of token 0",
        ),
        (([0.0, 1e-310, 5e-324], [0.0, 0.5, 1.0]), {}, "uncertainty must vary; got 0.0"),
    ],
)
def test_what_cannot_be_fitted_is_refused(arguments, options, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        fit_linear(*arguments, **options)
