"""The draft length, against high precision; the trackers, against simulation."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hlmtheory
from hlmtheory import draft_length as module
from hlmtheory.claims import Status

from .public import theory
from .strategies import acceptances, batches, quantity

GAMMA = st.one_of(
    acceptances(), quantity(1e-6, 0.5), quantity(1e-9, 0.5).map(lambda x: 1.0 - x), st.sampled_from((0.0, 1.0))
)
FIXED = st.one_of(st.integers(0, 8).map(lambda n: n / 4), quantity(1e-4, 1e3))
MARGINAL = quantity(1e-5, 1e2)
LINK = {"acceptance": GAMMA, "fixed": FIXED, "marginal": MARGINAL}


@st.composite
def profiles(draw):
    return draw(batches((1, 12), rows_acceptances=acceptances(), fixed=FIXED, marginal=MARGINAL))


def random_links(count: int, seed: int) -> tuple[np.ndarray, ...]:
    """γ from 1e-6 to 1 - 1e-9 and T_fixed/T_marginal from 1e-4 to 1e8, both by their logarithms."""
    rng = np.random.default_rng(seed)
    near = rng.random(count) < 0.5
    gamma = np.where(near, 1.0 - 10.0 ** rng.uniform(-9, 0, count), 10.0 ** rng.uniform(-6, 0, count))
    marginal = 10.0 ** rng.uniform(-5, 1, count)
    return np.clip(gamma, 1e-6, 1.0 - 1e-9), marginal * 10.0 ** rng.uniform(-4, 8, count), marginal


def test_high_precision_finds_nothing_better():
    gamma, fixed, marginal = random_links(3_000, seed=2)
    real = theory.stationary_draft_length(gamma, fixed, marginal)
    best = module.optimal_draft_length(gamma, fixed, marginal, 2**60)
    with mpmath.workdps(50):
        for i in np.flatnonzero(real > 4096)[:300]:
            g, f, m = (mpmath.mpf(float(x[i])) for x in (gamma, fixed, marginal))
            a = -mpmath.log(g)
            c = a * (f / m - 1)
            exact = (-c - 1 - mpmath.lambertw(-mpmath.exp(-c - 1), -1)).real / a - 1
            assert abs(exact - real[i]) <= 1e-13 * exact

            def rate(k, g=g, f=f, m=m):
                return (1 - g ** (k + 1)) / (1 - g) / (f + k * m)

            low = int(mpmath.floor(exact))
            assert rate(int(best[i])) >= max(rate(low), rate(low + 1)) * (1 - mpmath.mpf(10) ** -12)


@pytest.mark.parametrize(
    ("gamma", "ratio"), [(1 - 1e-9, 1 + 1e-7), (0.5, 1 + 1e-12), (1e-6, 1e8), (0.9, 1e300), (1e-300, 1e307)]
)
def test_the_equation_is_solved_at_its_ends(gamma, ratio):
    """Very small c, where e^v - 1 - v cancels, and very large c, where Lambert's argument underflows."""
    with mpmath.workdps(60):
        a = -mpmath.log(mpmath.mpf(gamma))
        c = a * (mpmath.mpf(ratio) - 1)
        v = mpmath.sqrt(2 * c) if c < 1 else mpmath.log(c + 1 + mpmath.log(c + 1))
        for _ in range(20):
            v -= (mpmath.expm1(v) - v - c) / mpmath.expm1(v)
        expected = float(v / a - 1)
    assert float(theory.stationary_draft_length(gamma, ratio, 1.0)) == pytest.approx(expected, rel=1e-12)


def test_the_ends_of_the_acceptance():
    assert module.optimal_draft_length(0.0, [0.0, 1.0, 1e9], 1.0, 16).tolist() == [1, 1, 1]
    assert module.optimal_draft_length(1.0, [2.0, 1.0, 0.5, 0.0], 1.0, 16).tolist() == [16, 1, 1, 1]
    assert module.optimal_draft_length([0.5, 0.0], 1.0, 0.0, 16).tolist() == [16, 1]
    gamma = np.array([0.0, 1.0])
    assert module.optimal_draft_length(gamma, 1.0, 0.1, 8).tolist() == [1, 8]
    assert module.optimal_draft_length(gamma, 1.0, 0.1, 8, min_draft_length=0).tolist() == [0, 8]
    assert module.optimal_draft_length(1.0, 0.1, 1.0, 8) == 1  # a draft that costs more than a round
    assert theory.surrogate_draft_length(gamma, 1.0, 0.1, 8).tolist() == [1, 8]
    assert module.etgr(gamma, [8, 8], 1.0, 0.125).tolist() == [0.5, 4.5]
    assert module.draft_length_regret(gamma, gamma[::-1], 1.0, 0.1, 8).min() > 0
    assert theory.stationary_draft_length(gamma, 1.0, 0.1).tolist() == [-1.0, math.inf]


def test_of_equals_the_shorter():
    """γ = 1 and F = M: every K gives one token per unit; γ = ½: K = 1 and 2 tie at 3/2/(F + M) = 7/4/(F + 2M)."""
    assert int(module.optimal_draft_length(1.0, 1.0, 1.0, 16)) == 1
    assert float(module.etgr(0.5, 1, 5.0, 1.0)) == float(module.etgr(0.5, 2, 5.0, 1.0)) == 0.25
    assert int(module.optimal_draft_length(0.5, 5.0, 1.0, 16)) == 1
    assert int(theory.optimal_draft_length_profile([0.5, 0.5, 0.5], 5.0, 1.0)) == 1


@pytest.mark.parametrize("max_draft_length", [2**63 - 1, 2**63 - 2, 2**62 + 1, 2**53 + 1])
def test_the_longest_draft_that_an_int64_holds(max_draft_length):
    """Drafts that cost nothing are always worth sending, so the result is K_max, to the last digit."""
    assert int(module.optimal_draft_length(1.0, 1.0, 0.0, max_draft_length)) == max_draft_length
    assert int(module.optimal_draft_length(1.0, 2.0, 1.0, max_draft_length)) == max_draft_length
    assert int(module.optimal_draft_length(0.8, 0.1, 0.02, max_draft_length)) == 4
    assert 0 < int(module.optimal_draft_length(1.0 - 2**-53, 1e300, 1e-8, max_draft_length)) <= max_draft_length


@given(profiles())
def test_a_profile_may_be_no_draft_at_all(instance):
    """0 if the server alone is at least as fast, as for geometric acceptance."""
    best = theory.optimal_draft_length_profile(**instance, min_draft_length=0)
    alone = np.broadcast_to(instance["acceptances"][..., 0] * instance["fixed"] <= instance["marginal"], best.shape)
    assert (best[alone] == 0).all()
    assert (best[~alone] == theory.optimal_draft_length_profile(**instance)[~alone]).all()
    some = instance["fixed"] > 0
    rates = theory.etgr_profile(**instance).max(-1)
    assert (rates <= np.maximum(1.0 / np.where(some, instance["fixed"], 1.0), rates * ~alone) * (1 + 1e-12))[some].all()


def test_profile_and_rate_choose_no_draft_together():
    gamma, fixed, marginal = np.array([0.1, 0.9, 0.9]), np.array([0.1, 0.1, 0.1]), np.array([0.1, 0.1, 0.02])
    alphas = np.repeat(gamma[:, None], 8, -1)
    by_profile = theory.optimal_draft_length_profile(alphas, fixed, marginal, min_draft_length=0)
    assert by_profile.tolist() == module.optimal_draft_length(gamma, fixed, marginal, 8, min_draft_length=0).tolist()
    with pytest.raises(ValueError, match=r"^min_draft_length must be 0 or 1; got 2"):
        theory.optimal_draft_length_profile([0.5], 1.0, 1.0, min_draft_length=2)


def test_a_header_makes_a_slow_link_ask_for_long_drafts():
    """flexspec's (8) with 40 bytes of TCP/IP headers and 16-bit indices; the paper's text says the opposite."""
    rates = [1e6, 1e5, 1e4, 1e3]
    costs = module.round_costs(
        rates, bits_per_token=16, header_bits=320, propagation_s=0.01, cloud_base_s=0.01, edge_slope_s=0.0125
    )
    lengths = module.optimal_draft_length(0.8, *costs, 64).tolist()
    assert lengths == sorted(lengths)
    assert (lengths[0], lengths[-1]) == (1, 6)


def test_the_printed_table_fits_3_2_gb_at_nine_tenths_of_the_bandwidth():
    assert (theory.synchronisation_time(3.2e9, [10e6, 50e6, 300e6]) / 60).round(1).tolist() == [42.7, 8.5, 1.4]
    goodput = theory.synchronisation_time(3.2e9, [0.896 * rate for rate in (10e6, 50e6, 300e6)]) / 60
    assert goodput.round(1).tolist() == [47.6, 9.5, 1.6]
    assert (theory.synchronisation_time(3.2e9 / 0.896, [10e6, 50e6, 300e6]) / 60) == pytest.approx(goodput)
    printed, storm = (hlmtheory.all_claims()[f"draft_length.update_storm{end}"] for end in ("_printed", ""))
    inside = printed.check({"size_bytes": np.linspace(3.15e9, 3.25e9, 101)})
    assert inside.count(Status.VIOLATED) == inside.in_scope > 90
    ends = storm.check({"size_bytes": np.array([3.5625e9, 3.58125e9])})  # at the upper end the quotient is rounded up
    assert ends.lhs[1] > 1.0
    assert ends.count(Status.HOLDS) == 2


def test_costs_are_the_sum_of_their_parts():
    parts = {
        "propagation_s": 0.03,
        "cloud_base_s": 0.05,
        "cloud_slope_s": 0.002,
        "edge_start_s": 0.001,
        "edge_slope_s": 0.0085,
        "downlink_s": 0.004,
    }
    fixed, marginal = module.round_costs(np.array([1e4, 1e6]), bits_per_token=15, header_bits=320, **parts)
    np.testing.assert_allclose(fixed, 0.03 + 0.05 + 0.004 + np.array([0.032, 0.00032]) + 0.001, rtol=1e-14)
    np.testing.assert_allclose(marginal, 0.0085 + np.array([0.0015, 0.000015]) + 0.002, rtol=1e-14)


def test_regret_of_a_wrong_belief():
    regret = module.draft_length_regret(0.8, np.linspace(0.05, 0.95, 19), 0.1, 0.01, 16)
    assert regret[15] == pytest.approx(0.0, abs=1e-15)  # the belief is .8
    assert (regret >= 0).all()
    assert (np.diff(regret[:15]) <= 0).all()
    assert (np.diff(regret[15:]) >= 0).all()


def simulate(method: str, gamma: float, length: int, rounds: int, step: float, runs: int) -> np.ndarray:
    rng = np.random.default_rng(11)
    accepted, examined = np.full(runs, 0.8), np.ones(runs)
    for _ in range(rounds):
        tau = np.minimum(rng.geometric(1 - gamma, runs) - 1, length)
        if method == "ema_printed":
            accepted = (1 - step) * accepted + step * tau / length
        else:
            accepted = (1 - step) * accepted + tau
            examined = (1 - step) * examined + np.minimum(tau + 1, length)
    return accepted / examined


@pytest.mark.parametrize("method", ["ema_printed", "consistent"])
def test_the_object_does_what_the_simulation_does(method):
    tracker = module.AcceptanceTracker(step=0.1, method=method)
    rng = np.random.default_rng(11)
    for _ in range(20):
        tracker = tracker.update(min(int(rng.geometric(0.2, 1)[0]) - 1, 6), 6)
    assert tracker.estimate == pytest.approx(simulate(method, 0.8, 6, 20, 0.1, 1)[0], rel=1e-12)


def test_a_round_takes_some_time():
    with pytest.raises(ValueError, match=r"fixed \+ draft_length \* marginal must be positive"):
        theory.etgr_profile([0.5, 0.25], 0.0, 0.0)
