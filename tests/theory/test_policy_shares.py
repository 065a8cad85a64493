"""No other shares of the band, and no other rates of a server, beat those that the closed forms give."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hlmtheory.policy.capacity import server_rates
from hlmtheory.policy.shares import throughput_shares

UTILITIES = ("linear", "log")
COARSE = st.sampled_from([0.125, 0.25, 0.5, 1.0, 2.0, 8.0])


def utility_of(rates, weights, utility):
    """Return Σ ω X, or Σ ω log X."""
    with np.errstate(divide="ignore"):
        return np.sum(weights * (rates if utility == "linear" else np.log(rates)), axis=-1)


def users(data, count, names):
    return {name: np.array(data.draw(st.lists(COARSE, min_size=count, max_size=count))) for name in names}


@pytest.mark.parametrize("utility", UTILITIES)
@given(st.data(), st.integers(1, 4), st.integers(0, 2**32))
def test_no_other_shares_are_better(utility, data, count, seed):
    user = users(data, count, ("tokens", "fixed_s", "band_s", "weights"))
    rate = lambda w: user["tokens"] * w / (user["fixed_s"] * w + user["band_s"])  # noqa: E731
    shares = throughput_shares(*user.values(), utility=utility)
    assert shares.sum() == pytest.approx(1.0)
    others = np.random.default_rng(seed).dirichlet(np.ones(count), size=200)
    best = utility_of(rate(shares), user["weights"], utility)
    assert (utility_of(rate(others), user["weights"], utility) <= best + 1e-9 * (1 + abs(best))).all()


@pytest.mark.parametrize("utility", ["linear", "log"])
@given(st.data(), st.integers(1, 4), st.integers(0, 2**32))
def test_no_other_rates_of_a_server_are_better(utility, data, count, seed):
    user = users(data, count, ("most", "load_s", "weights"))
    rates = server_rates(user["most"], user["load_s"], user["weights"], utility=utility)
    assert (rates <= user["most"] * (1 + 1e-12)).all()
    assert rates @ user["load_s"] <= 1 + 1e-9
    others = np.random.default_rng(seed).uniform(0, user["most"], size=(200, count))
    others /= np.maximum(1.0, others @ user["load_s"])[:, None]
    best = utility_of(rates, user["weights"], utility)
    assert (utility_of(others, user["weights"], utility) <= best + 1e-9 * (1 + abs(best))).all()
