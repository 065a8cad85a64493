"""The link: closed forms against high precision, scipy and simulation, and the infinite mean latency."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hlmtheory
from hlmtheory import channel
from hlmtheory.channel import GilbertElliott, Rayleigh, Rician, TraceLink
from hlmtheory.channel.latency import dbm_to_watts

from .strategies import quantity

INNER = st.one_of(st.integers(1, 15).map(lambda n: n / 16), quantity(1e-12, 0.5), st.floats(0.01, 0.999))


@st.composite
def traces(draw):
    """Traces with zero throughput in between, and a payload that may take several of their periods."""
    count = draw(st.integers(2, 8))
    steps = draw(st.lists(quantity(0.0625, 4.0), min_size=count, max_size=count))
    rates = draw(st.lists(st.one_of(st.just(0.0), quantity(1.0, 1e3)), min_size=count, max_size=count))
    rates[draw(st.integers(0, count - 1))] = 8.0
    return {
        "time_s": np.cumsum(steps),
        "throughput_bps": np.array(rates),
        "bits": np.array(draw(quantity(1.0, 1e5))),
        "start_s": np.array(draw(st.one_of(st.just(0.0), quantity(0.0625, 100.0)))),
    }


def test_units_by_hand():
    assert channel.db_to_linear([0.0, 10.0, 30.0]).tolist() == pytest.approx([1.0, 10.0, 1000.0])
    assert dbm_to_watts([0.0, 23.0103, -30.0]).tolist() == pytest.approx([1e-3, 0.2, 1e-6], rel=1e-6)


def test_the_papers_payloads():
    assert int(channel.vocabulary_payload_bits(32_000, 8)) == 736_000  # 92 kB, cu-hlm
    assert channel.vocabulary_payload_bits(32_000, [16, 32], index=False).tolist() == [512_000, 1_024_000]  # u-hlm


@pytest.mark.parametrize("power", range(1, 40))
def test_the_index_is_long_enough_and_no_longer(power):
    sizes = np.array([2**power - 1, 2**power, 2**power + 1])
    index = channel.vocabulary_payload_bits(sizes, 1) // sizes - 1
    assert index.tolist() == [(int(v) - 1).bit_length() for v in sizes]
    assert int(channel.vocabulary_payload_bits(1, 8)) == 8


def test_table_2_is_a_ratio_of_totals_without_fading():
    """cu-hlm Table II at 10 dB: 6.3 ms are .297 of the uplink's time."""
    uplink = float(channel.shannon_latency(736_000, 10e6, 10.0))
    assert 0.297 * uplink * 1e3 == pytest.approx(6.3, abs=0.05)
    link = Rayleigh(10.0)
    assert float(link.latency_quantile(0.5, 736_000, 10e6)) == pytest.approx(0.0246, abs=1e-4)  # and in the mean ∞
    assert float(link.mean_latency(736_000, 10e6, outage=0.01).value) == pytest.approx(0.0384, abs=1e-4)


@pytest.mark.parametrize("mean", [1e-3, 0.01, 0.99, 1.0, 1.01, 10.0, 1e6])
def test_rayleigh_capacity_in_high_precision(mean):
    with mpmath.workdps(40):
        z = 1 / mpmath.mpf(mean)
        assert float(Rayleigh(mean).capacity()) == pytest.approx(
            float(mpmath.exp(z) * mpmath.e1(z) / mpmath.log(2)), rel=1e-14
        )


@pytest.mark.parametrize("k_factor", [0.5, 10.0, 300.0])
def test_rician_against_scipy(k_factor):
    law = pytest.importorskip("scipy.stats").ncx2(2, 2 * k_factor)
    link, scale = Rician(10.0, k_factor), 10.0 / (2 * (1 + k_factor))
    points = scale * law.ppf([0.001, 0.1, 0.5, 0.9, 0.999])
    np.testing.assert_allclose(link.distribution(points), law.cdf(points / scale), rtol=1e-9)
    np.testing.assert_allclose(link.density(points), law.pdf(points / scale) / scale, rtol=1e-9)
    np.testing.assert_allclose(link.quantile([0.001, 0.5]), scale * law.ppf([0.001, 0.5]), rtol=1e-9)


@pytest.mark.parametrize(
    ("k_factor", "probability"),
    [(0.5, 1e-200), (100.0, 1e-60), (100.0, 1e-43), (1000.0, 1e-290), (100.0, 1 - 1e-12), (2.0, 0.5)],
)
def test_rician_quantiles_far_out_in_high_precision(k_factor, probability):
    """The integral of the density up to the quantile, or from the quantile on, equals the probability."""
    y = float(Rician(1.0 + k_factor, k_factor).quantile(probability))
    upper = probability > 0.5
    assert float(high_precision_tail(k_factor, y, upper, 1.0 - probability if upper else probability)) == pytest.approx(
        1.0, rel=1e-9
    )


def high_precision_tail(k_factor: float, y: float, upper: bool, unit: float) -> mpmath.mpf:
    """Return P(Y ≤ y) or P(Y > y) in units of ``unit``, since the integrator's error is absolute; by √Y's density."""
    with mpmath.workdps(25):
        k, middle = mpmath.mpf(k_factor), mpmath.sqrt(y)
        step = 3.0 / (1.0 + abs(math.sqrt(y) - math.sqrt(k_factor)))
        ends = [middle + n * step for n in range(9)] if upper else [max(middle - n * step, 0) for n in range(9, -1, -1)]
        return mpmath.quad(
            lambda r: 2 * r * mpmath.exp(-k - r * r) * mpmath.besseli(0, 2 * mpmath.sqrt(k) * r) / unit,
            sorted(set(ends)),
        )


@pytest.mark.parametrize("k_factor", [0.0, 0.01, 1.0, 30.0, 1000.0, 10_000.0])
def test_quantiles_and_back_in_both_tails(k_factor):
    """The upper tail has no function of its own; it is tested by small quantiles of the latency."""
    link, lower = Rician(2.0, np.full(3, k_factor)), np.array([1e-290, 1e-30, 0.25])
    np.testing.assert_allclose(link.distribution(link.quantile(lower)), lower, rtol=1e-10)
    middle = np.array([0.25, 0.5, 0.75])
    snr = np.expm1(math.log(2) / link.latency_quantile(middle, 1.0, 1.0))
    np.testing.assert_allclose(link.distribution(snr), 1.0 - middle, rtol=1e-9)
    assert (np.diff(link.latency_quantile(np.array([1e-290, 1e-30, 1e-20]), 1.0, 1.0)) > 0).all()


def test_quantiles_near_the_mass_of_no_scattering():
    """Near p = e^{-κ} the two starts of Newton's method meet."""
    k_factor, share = np.geomspace(1e-2, 600.0, 25), np.array([0.5, 0.9, 0.999, 1.0, 1.001, 1.1])
    probability = np.minimum(np.exp(-k_factor * share[:, None]), 0.999)
    link = Rician(1.0, k_factor)
    np.testing.assert_allclose(link.distribution(link.quantile(probability)), probability, rtol=1e-10)


def test_a_quantile_where_float64_ends_is_refused_by_name():
    with pytest.raises(
        ValueError, match=r"^probability, or outage, must be further from 0 and 1 .* got a tail of 1e-320; "
    ):
        Rician(1.0, np.array([0.0, 9_000.0])).quantile(np.array([1e-320, 1e-320]))
    assert float(Rayleigh(1.0).quantile(1e-307)) == pytest.approx(1e-307, rel=1e-12)


def test_without_a_line_of_sight_rician_is_rayleigh():
    ours, theirs = Rician(np.array([0.1, 10.0]), np.zeros(2)), Rayleigh(np.array([0.1, 10.0]))
    for method, argument in (("density", 0.3), ("distribution", 0.3), ("quantile", 0.3), ("outage_probability", 2.0)):
        np.testing.assert_array_equal(getattr(ours, method)(argument), getattr(theirs, method)(argument))
    np.testing.assert_allclose(theirs.distribution(0.3), -np.expm1(-0.3 / np.array([0.1, 10.0])), rtol=1e-14)
    assert repr(Rayleigh(10.0)) == "Rayleigh(mean_snr=10.0)"


@pytest.mark.parametrize("link", [Rayleigh(10.0), Rician(10.0, 10.0), Rician(0.01, 3.0)], ids=repr)
def test_samples_follow_the_law(link):
    blocks = np.sort(link.sample(np.random.default_rng(1), 50_000))
    assert blocks.mean() == pytest.approx(float(link.mean_snr), rel=0.02)
    gap = np.abs(link.distribution(blocks) - (np.arange(blocks.size) + 0.5) / blocks.size)
    assert gap.max() < 1.95 / math.sqrt(blocks.size)  # Kolmogorov at the level 0.1%
    assert np.log2(1 + blocks).mean() == pytest.approx(float(link.capacity()), rel=0.02)


@pytest.mark.parametrize("link", [Rayleigh(10.0), Rayleigh(0.01), Rician(10.0, 10.0), Rician(1.0, 2.0)], ids=repr)
def test_the_mean_grows_like_the_logarithm_of_the_cut(link):
    """Each time the cut falls by a factor e, the mean grows by ln 2 f(0); the quadrature is exact."""
    cuts = np.array([10.0**-n for n in range(2, 13)] + [1e-30, 1e-100, 1e-300])
    values, errors = link.inverse_efficiency(cuts)
    assert (errors <= 1e-12 * values + 1e-15).all()
    slopes = np.diff(values) / -np.diff(np.log(cuts))
    growth = float(link.latency_growth())
    np.testing.assert_allclose(slopes[6:], growth, rtol=1e-6)
    assert growth == pytest.approx(math.log(2) * float(link.density(0.0)))


def test_the_quadrature_against_high_precision():
    def integrand(x, mean):
        return mpmath.exp(x - mpmath.exp(x) / mean) / mean * mpmath.log(2) / mpmath.log1p(mpmath.exp(x))

    with mpmath.workdps(20):
        for mean, cut in ((0.01, 1e-6), (10.0, 1e-3), (1e4, 0.5)):
            ends = mpmath.linspace(mpmath.log(cut), mpmath.log(mean * 60), 16)
            exact = mpmath.quad(lambda x, mean=mean: integrand(x, mean), ends)
            value, error = Rayleigh(mean).inverse_efficiency(cut)
            assert abs(float(value) - float(exact)) <= float(error) + 1e-13 * float(exact)


@pytest.mark.parametrize("cut", [30.0, 40.0, 50.0])
def test_what_the_quadrature_leaves_out_is_in_its_error(cut):
    """Beyond its limit in √S the quadrature adds nothing; its stated error must cover the rest."""
    with mpmath.workdps(30):
        exact = mpmath.quad(lambda s: mpmath.exp(-s) * mpmath.log(2) / mpmath.log1p(s), [cut, cut + 20, cut + 90])
    value, error = Rayleigh(1.0).inverse_efficiency(cut)
    assert 1e-13 * exact < abs(float(value) - exact) <= float(error)
    assert float(error) < 1e-18


def test_a_markov_link():
    link = GilbertElliott(good_bps=8e6, bad_bps=1e6, leave_good=0.05, leave_bad=0.2, slot_s=0.01)
    rates = link.sample(np.random.default_rng(3), 400_000)
    assert rates.shape == (400_000,)
    assert set(np.unique(rates)) == {1e6, 8e6}
    assert rates.mean() == pytest.approx(float(link.mean_rate()), rel=0.01)
    for lag in (1, 5):
        seen = np.corrcoef(rates[:-lag], rates[lag:])[0, 1]
        assert seen == pytest.approx((1.0 - 0.05 - 0.2) ** lag, abs=0.02)


def test_only_one_markov_link_is_sampled():
    with pytest.raises(ValueError, match=r"^sample must be called on one link; got shapes \[\(\), \(2,\)\]; make a"):
        GilbertElliott([8e6, 9e6], 1e6, 0.0625, 0.25, 0.5).sample(np.random.default_rng(0), 3)


def slowly(trace: TraceLink, bits: float, start: float) -> float:
    times = np.append(trace.time_s, 2 * trace.time_s[-1] - trace.time_s[-2]) - trace.time_s[0]
    now, left, i = start % times[-1], bits, 0
    while times[i + 1] <= now:
        i += 1
    spent = 0.0
    while True:
        rate, span = trace.throughput_bps[i], times[i + 1] - now
        if rate * span >= left:
            return spent + left / rate
        left, spent, i = left - rate * span, spent + span, i + 1
        now = times[i]
        if i == len(trace.throughput_bps):
            now, i = 0.0, 0


@given(traces())
def test_a_trace_against_a_loop(instance):
    """The time jumps if a payload ends just as the rate falls to 0, so the loop gives a lower and an upper value."""
    trace = TraceLink(instance["time_s"], instance["throughput_bps"])
    period = float(trace.mean_rate() * trace.period_s())
    assert slowly(trace, period * (1 - 1e-9), 0.0) <= trace.period_s() < slowly(trace, period * (1 + 1e-9), 0.0)
    bits, start = min(float(instance["bits"]), 40 * period), float(instance["start_s"])
    found = float(trace.transfer_time(bits, start))
    slack = 1e-9 + 1e-9 * found
    assert slowly(trace, bits * (1 - 1e-9), start) - slack <= found <= slowly(trace, bits * (1 + 1e-9), start) + slack


def test_a_payload_of_whole_periods_ends_no_sooner_than_they_do():
    """3 · 0.1 rounds to more than 3 periods of 0.1 bit, and the next period begins with a second of zero rate."""
    trace = TraceLink(time_s=[0.0, 1.0], throughput_bps=[0.0, 0.1])
    assert 6.0 <= float(trace.transfer_time(3 * 0.1, 0.0)) <= 7.0 + 1e-12
    assert float(trace.transfer_time(0.3, 0.0)) == pytest.approx(6.0, rel=1e-12)


def test_the_outage_at_no_snr_is_zero_by_both_sides():
    claim = hlmtheory.all_claims()["channel.rician_outage"]
    verdict = claim.check({"mean_snr": 10.0, "k_factor": [0.0, 4.0], "snr": 0.0})
    assert verdict.holds
    assert verdict.rhs.tolist() == [0.0, 0.0]


def test_no_drafts_give_the_printed_gains_as_means_over_rounds():
    """Beside cu-hlm's 1014 and 206 at −20 dB: the means of tokens a second over HLM's, by paper_repro.md."""

    def mean(seconds, bits):
        def rate(x):
            return mpmath.exp(-x) / (seconds + bits / (1e7 * mpmath.log(1 + x / 100, 2)))

        return mpmath.quad(rate, [1e-12, 1e-4, 1e-2, 1, 10, 60])

    hlm, draft = mean(0.0256 + 0.1046, 736_000), 1 / 0.0256
    gains = [(0.252 * mean(0.0256 + 0.1046, 23 * k) + 0.748 * draft) / hlm for k in (32_000, 832, 30)]
    assert [round(float(gain)) for gain in (*gains, draft / hlm)] == [158, 162, 167, 211]
