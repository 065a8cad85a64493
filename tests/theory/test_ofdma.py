"""Bandwidth shares, against a linear program, against competing shares, and in closed form."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hlmtheory import ofdma
from hlmtheory.ofdma.shares import finish_times, kkt_residual, sum_latency, sum_shares

from .strategies import batches, quantity

BITS = quantity(1.0, 1e9)
EFFICIENCY = quantity(1e-6, 30.0)
USERS = (1, 12)

CELL = batches(USERS, rows_bits=BITS, rows_spectral_efficiency=EFFICIENCY)


def minmax(bits, spectral_efficiency):
    return ofdma.minmax_shares(bits, spectral_efficiency=spectral_efficiency)


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
    np.testing.assert_allclose(
        ofdma.minmax_shares(bits, spectral_efficiency=efficiency), linear_program(bits / efficiency), rtol=1e-6
    )


def test_a_convex_solver_finds_the_same_sum():
    cvxpy = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(3)
    bits, efficiency = rng.uniform(1, 10, 6), rng.uniform(0.5, 8, 6)
    shares = cvxpy.Variable(6)
    problem = cvxpy.Problem(
        cvxpy.Minimize(cvxpy.sum(cvxpy.multiply(bits / efficiency, cvxpy.inv_pos(shares)))), [cvxpy.sum(shares) == 1]
    )
    assert float(sum_latency(bits, efficiency, 1.0)) == pytest.approx(problem.solve(), rel=1e-6)


@pytest.mark.parametrize("objective", ["minmax", "sum"])
@given(instance=CELL, data=st.data())
def test_the_residual_sees_a_moved_share(objective, instance, data):
    best = {"minmax": minmax, "sum": sum_shares}[objective](**instance)
    moved = best.copy()
    moved[..., 0] *= 1.25
    assert (kkt_residual(**instance, shares=best, objective=objective) < 1e-12).all()
    if best.shape[-1] > 1:
        assert (kkt_residual(**instance, shares=moved, objective=objective) > 0.1).all()
    else:  # with one user only the sum can be wrong
        assert (kkt_residual(**instance, shares=moved, objective=objective) == 0.25).all()


def test_an_snr_is_no_spectral_efficiency():
    """Taken for one, the first share of this cell would be .74, not .61."""
    bits, snr = [1.0, 1.0], [3.5, 10.0]
    shares = ofdma.minmax_shares(bits, snr=snr)
    assert shares[0] == pytest.approx(0.614, abs=1e-3)
    np.testing.assert_allclose(shares, ofdma.minmax_shares(bits, spectral_efficiency=np.log2(1.0 + np.array(snr))))
    times = finish_times(bits, snr=snr, shares=shares, bandwidth_hz=2.0)
    np.testing.assert_allclose(times, ofdma.minmax_latency(bits, snr=snr, bandwidth_hz=2.0), rtol=1e-12)
    with pytest.raises(TypeError, match="positional"):
        ofdma.minmax_shares(bits, snr)
    for units, words in (({}, "neither"), ({"snr": snr, "spectral_efficiency": snr}, "both")):
        with pytest.raises(ValueError, match=f"^one of snr and spectral_efficiency must be given; got {words}; "):
            ofdma.minmax_latency(bits, **units, bandwidth_hz=1.0)
