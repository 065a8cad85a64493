"""Bandwidth shares, against a linear program, against competing shares, and in closed form."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hlmtheory import ofdma
from hlmtheory.ofdma import spread
from hlmtheory.ofdma.shares import kkt_residual, latency_of, shares_of, sum_latency, sum_shares, times_of, uniform_gain

from .strategies import batches, quantity

BITS = quantity(1.0, 1e9)
EFFICIENCY = quantity(1e-6, 30.0)
BAND = quantity(1.0, 1e9)
WEIGHT = quantity(1e-6, 1.0)
USERS = (1, 12)

CELL = batches(USERS, rows_bits=BITS, rows_spectral_efficiency=EFFICIENCY)
SHARED = batches(USERS, rows_bits=BITS, rows_spectral_efficiency=EFFICIENCY, rows_weights=WEIGHT, bandwidth_hz=BAND)


def spread_times(bits, snr, shares, band):
    return ofdma.spread_finish_times(bits, full_band_snr=snr, shares=shares, bandwidth_hz=band)


# --------------------------------------------------------------------------------------------- against a solver


def linear_program(need: np.ndarray) -> np.ndarray:
    """Maximise u = 1/t with w_k ≥ c_k u, Σw = 1, w ≥ 0."""
    cvxpy = pytest.importorskip("cvxpy")
    shares, level = cvxpy.Variable(need.size), cvxpy.Variable()
    scaled = need / need.sum()
    problem = cvxpy.Problem(
        cvxpy.Maximize(level), [shares >= cvxpy.multiply(scaled, level), cvxpy.sum(shares) == 1, shares >= 0]
    )
    problem.solve(solver=cvxpy.HIGHS if "HIGHS" in cvxpy.installed_solvers() else None)
    return np.asarray(shares.value)


@pytest.mark.parametrize("users", [1, 2, 7, 40])
def test_a_linear_program_finds_the_same_shares(users):
    rng = np.random.default_rng(users)
    bits, efficiency = rng.integers(1, 513, users) * 16.0, np.log2(1 + rng.exponential(10.0, users))
    np.testing.assert_allclose(shares_of(bits, efficiency), linear_program(bits / efficiency), rtol=1e-6)


def test_a_convex_solver_finds_the_same_sum():
    cvxpy = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(3)
    bits, efficiency = rng.uniform(1, 10, 6), rng.uniform(0.5, 8, 6)
    shares = cvxpy.Variable(6)
    problem = cvxpy.Problem(
        cvxpy.Minimize(cvxpy.sum(cvxpy.multiply(bits / efficiency, cvxpy.inv_pos(shares)))), [cvxpy.sum(shares) == 1]
    )
    assert float(sum_latency(bits, efficiency, 1.0)) == pytest.approx(problem.solve(), rel=1e-6)


@given(
    hnp.arrays(
        np.float64, st.integers(1, 60), elements=st.one_of(st.sampled_from((0.1, 1 / 3, 1e-300)), quantity(1, 9))
    )
)
def test_the_gain_is_in_its_range_to_the_last_bit(need):
    assert 1.0 <= float(uniform_gain(need, np.ones_like(need))) <= need.size


def test_equal_users_gain_nothing_at_all():
    for users in range(1, 200):
        assert float(uniform_gain([0.1] * users, [1.0] * users)) == 1.0


# -------------------------------------------------------------------------------------------------- certificates


@pytest.mark.parametrize("objective", ["minmax", "sum"])
@given(instance=CELL, data=st.data())
def test_the_residual_sees_a_moved_share(objective, instance, data):
    best = {"minmax": shares_of, "sum": sum_shares}[objective](**instance)
    moved = best.copy()
    moved[..., 0] *= 1.25
    assert (kkt_residual(**instance, shares=best, objective=objective) < 1e-12).all()
    if best.shape[-1] > 1:
        assert (kkt_residual(**instance, shares=moved, objective=objective) > 0.1).all()
    else:  # with one user only the sum can be wrong
        assert (kkt_residual(**instance, shares=moved, objective=objective) == 0.25).all()


@given(SHARED)
def test_shares_sum_to_one_and_scale_out(instance):
    bits, efficiency = instance["bits"], instance["spectral_efficiency"]
    for shares in (shares_of, sum_shares):
        np.testing.assert_allclose(shares(bits, efficiency).sum(-1), 1, rtol=1e-12)
        np.testing.assert_allclose(shares(4 * bits, efficiency / 2), shares(bits, efficiency), rtol=1e-12)


def test_the_two_optima_differ():
    cell = ([100.0, 400.0], [1.0, 0.25])
    minmax, total = (times_of(*cell, shares(*cell), 100.0) for shares in (shares_of, sum_shares))
    assert minmax.tolist() == pytest.approx([17.0, 17.0])
    assert total.tolist() == pytest.approx([5.0, 20.0])


def test_the_mean_user_gains_nothing():
    """Shares that are best for the last user have the same mean finish time as equal shares."""
    rng = np.random.default_rng(1)
    bits, efficiency = rng.integers(1, 513, 100) * 1.0, np.log2(1 + rng.exponential(1e3, 100))
    equal = times_of(bits, efficiency, np.full(100, 0.01), 20e6)
    best = times_of(bits, efficiency, shares_of(bits, efficiency), 20e6)
    assert best.mean() == pytest.approx(equal.mean(), rel=1e-12)
    assert best.max() < equal.max()


def test_the_gain_of_edge_sd_cells_is_between_two_and_ten():
    """100 users in a disc of 400 m, Rayleigh fading, the constants of Table II; no batches are simulated."""
    rng = np.random.default_rng(5)
    distance = 400 * np.sqrt(rng.random((200, 100)))
    snr = 0.2 * 1e-3 * rng.exponential(size=(200, 100)) / distance**2 / 10 ** (-13.6)
    gain = uniform_gain(rng.integers(1, 513, (200, 100)) * 1.0, np.log2(1 + snr))
    assert 2 < np.median(gain) < 10


# ------------------------------------------------------------------------------- a power spread over one's share


def edge_sd_cells(cells: int) -> tuple[np.ndarray, np.ndarray]:
    """Bits and SNR over the whole band of 100 users in a disc of 400 m, with the constants of Table II."""
    rng = np.random.default_rng(0)
    distance = np.maximum(400 * np.sqrt(rng.random((cells, 100))), 1.0)
    snr = 0.2 * 1e-3 * rng.exponential(size=(cells, 100)) / distance**2 / 10 ** (-13.6)
    return 16.0 * rng.integers(1, 513, (cells, 100)), snr


def test_where_power_is_spread_the_closed_form_is_no_finish_time_and_its_shares_are_not_the_best():
    bits, snr = edge_sd_cells(200)
    efficiency, band = np.log2(1 + snr), np.full(200, 20e6)
    theirs = spread_times(bits, snr, shares_of(bits, efficiency), band).max(-1)
    best = spread_times(bits, snr, ofdma.spread_minmax_shares(bits, full_band_snr=snr), band).max(-1)
    assert (latency_of(bits, efficiency, band) / theirs).mean() == pytest.approx(1.29, abs=0.01)
    assert (theirs / best).mean() == pytest.approx(1.09, abs=0.005)
    assert 1.13 < (theirs / best).max() < 1.17


@pytest.mark.parametrize("level", [1e-2, 1.0, 1e3, 1e9])
def test_a_root_finder_finds_the_same_spread_shares(level):
    optimize = pytest.importorskip("scipy.optimize")
    rng = np.random.default_rng(7)
    bits, snr = rng.uniform(1, 9, 6), level * rng.exponential(size=6)

    def share(k, time):
        return optimize.brentq(lambda w: w * np.log2(1 + snr[k] / w) - bits[k] / time, 1e-14, 1e6, xtol=1e-16)

    least = (bits / np.log2(1 + snr)).max()
    time = optimize.brentq(lambda t: sum(share(k, t) for k in range(6)) - 1, least, 100 * least, xtol=1e-15 * least)
    found = ofdma.spread_minmax_shares(bits, full_band_snr=snr)
    np.testing.assert_allclose(found, [share(k, time) for k in range(6)], rtol=1e-6)
    np.testing.assert_allclose(spread_times(bits, snr, found, 1.0), time, rtol=1e-12)


def test_a_share_that_is_late_by_next_to_nothing_is_found_to_its_last_digits():
    """At ln(1 + x)/x = 1/(1 + late), x → 2 late: the difference of numbers near 1 would round to 0."""
    late = np.logspace(-18, -10, 161)[:, None]
    found = spread._shares_at(np, np.ones_like(late), np.ones_like(late), late)
    np.testing.assert_allclose(found, 0.5 / late, rtol=1e-9)


def test_a_small_gap_of_the_logarithm_has_all_its_digits():
    """x - ln(1 + x) against its series in fractions, up to where the difference itself is used."""
    for x in [*np.linspace(0.06, spread._SMALL, 40, endpoint=False), 1e-3, 1e-9]:
        series = Fraction(0)
        for n in range(30, 1, -1):
            series = Fraction(1, n) - Fraction(float(x)) * series
        exact = Fraction(float(x)) ** 2 * series
        assert abs(Fraction(float(spread._lag(np, np.asarray(x)))) / exact - 1) < 3e-16


def test_one_user_takes_the_whole_band():
    assert ofdma.spread_minmax_shares([[7.0], [1e-3]], full_band_snr=[[3.0], [1e9]]).tolist() == [[1.0], [1.0]]


def test_a_spread_power_of_high_snr_is_the_fixed_one():
    """At 3,000 dB the share hardly changes the spectral efficiency."""
    bits, snr = np.array([3.0, 1.0]), np.array([1e300, 1e300])
    np.testing.assert_allclose(
        ofdma.spread_minmax_shares(bits, full_band_snr=snr), shares_of(bits, np.log2(snr)), rtol=2e-3
    )


# ------------------------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize("shares", [shares_of, sum_shares])
@pytest.mark.parametrize("size", [1e308, 1e-310])
def test_huge_and_tiny_users_share_like_others(shares, size):
    assert shares([size] * 2, [1.0, 1.0]).tolist() == [0.5, 0.5]
    assert float(uniform_gain([size] * 2, [1.0, 1.0])) == 1.0
    assert float(kkt_residual([size] * 2, [4.0, 4.0], [0.5, 0.5])) == 0.0


@pytest.mark.parametrize(
    "call",
    [
        lambda: shares_of([1.0, 1.0], [1e-310, 1e-310]),
        lambda: sum_shares([1.0, 1.0], [1e-310, 1e-310]),
        lambda: uniform_gain([1.0, 1.0], [1e-310, 1e-310]),
        lambda: kkt_residual([1.0, 1.0], [1.0, 1.0], [1e-310, 1e-310]),
        lambda: kkt_residual([1.0, 1.0], [1.0, 1.0], [1e-310, 1e-310], objective="sum"),
        lambda: latency_of([1e308] * 2, [1.0, 1.0], 1.0),
        lambda: sum_latency([1e308] * 2, [1.0, 1.0], 1.0),
        lambda: times_of([1.0], [1.0], [1.0], 1e-310),
        lambda: shares_of([1e-320], [1e10]),
        lambda: spread_times([1.0], [1.0], [1.0], 1e-310),
        lambda: ofdma.spread_minmax_shares([1.0, 1.0], full_band_snr=[1e-310, 1.0]),
    ],
)
def test_what_leaves_the_range_of_the_type_is_refused(call):
    with pytest.raises(ValueError, match=r"must be positive and finite; got .*; the result leaves the range"):
        call()


def test_an_snr_is_no_spectral_efficiency():
    """Taken for one, the first share of this cell would be .74, not .61."""
    bits, snr = [1.0, 1.0], [3.5, 10.0]
    shares = ofdma.minmax_shares(bits, snr=snr)
    assert shares[0] == pytest.approx(0.614, abs=1e-3)
    np.testing.assert_allclose(shares, ofdma.minmax_shares(bits, spectral_efficiency=np.log2(1.0 + np.array(snr))))
    times = ofdma.finish_times(bits, snr=snr, shares=shares, bandwidth_hz=2.0)
    np.testing.assert_allclose(times, ofdma.minmax_latency(bits, snr=snr, bandwidth_hz=2.0), rtol=1e-12)
    with pytest.raises(TypeError, match="positional"):
        ofdma.minmax_shares(bits, snr)
    for units, words in (({}, "neither"), ({"snr": snr, "spectral_efficiency": snr}, "both")):
        with pytest.raises(ValueError, match=f"^one of snr and spectral_efficiency must be given; got {words}; "):
            ofdma.minmax_latency(bits, **units, bandwidth_hz=1.0)
