"""The best policy: against solvers, against enumeration, and in closed form."""

from __future__ import annotations

import numpy as np
import pytest

from hlmtheory import codec, draft_length, ofdma, policy


def users(rng: np.random.Generator, count: int) -> tuple[np.ndarray, ...]:
    """Return tokens, fixed and air times of users, and weights."""
    tokens, fixed = rng.uniform(1.0, 6.0, count), np.exp(rng.normal(-2.0, 1.0, count))
    return tokens, fixed, np.exp(rng.normal(-2.0, 1.5, count)), rng.uniform(0.3, 3.0, count)


def utility_of(utility: str, tokens, fixed, air, weights, shares) -> float:
    rates = tokens * shares / (fixed * shares + air)
    if utility == "maxmin":
        return float((rates / weights).min())
    return float(weights @ (np.log(rates) if utility == "log" else rates))


@pytest.mark.parametrize("utility", ["linear", "log", "maxmin"])
@pytest.mark.parametrize("count", [1, 2, 5, 12])
def test_a_convex_solver_finds_the_same_shares(utility, count):
    cvxpy = pytest.importorskip("cvxpy")
    tokens, fixed, air, weights = users(np.random.default_rng(count), count)
    w = cvxpy.Variable(count)
    # E w/(A w + c) = E/A - (E c/A)/(A w + c)
    rates = [
        tokens[u] / fixed[u] - tokens[u] * air[u] / fixed[u] * cvxpy.inv_pos(fixed[u] * w[u] + air[u])
        for u in range(count)
    ]
    goal = {
        "linear": lambda: cvxpy.sum([weights[u] * rates[u] for u in range(count)]),
        "log": lambda: cvxpy.sum([weights[u] * cvxpy.log(rates[u]) for u in range(count)]),
        "maxmin": lambda: cvxpy.minimum(*[rates[u] / weights[u] for u in range(count)]) if count > 1 else rates[0],
    }[utility]()
    problem = cvxpy.Problem(cvxpy.Maximize(goal), [cvxpy.sum(w) == 1, w >= 1e-12])
    problem.solve(solver=cvxpy.CLARABEL)
    shares = policy.throughput_shares(tokens, fixed, air, weights, utility=utility)
    assert shares.sum() == pytest.approx(1.0, abs=1e-12)
    found = utility_of(utility, tokens, fixed, air, weights, shares)
    best = utility_of(utility, tokens, fixed, air, weights, np.clip(w.value, 1e-12, None) / np.sum(w.value))
    assert found >= best - 1e-7 * abs(best)
    assert found == pytest.approx(best, rel=1e-4)


def test_without_a_fixed_time_the_even_shares_are_those_of_the_last_finish():
    _, _, air, _ = users(np.random.default_rng(0), 7)
    shares = policy.throughput_shares(np.ones(7), np.full(7, 1e-12), air, utility="maxmin")
    np.testing.assert_allclose(shares, ofdma.minmax_shares(air, np.ones(7)), rtol=1e-9)


def test_without_limits_and_skips_the_length_is_the_optimal_one():
    profile = np.asarray([0.9, 0.85, 0.8, 0.75, 0.7, 0.65])
    hulls = policy.lower_hulls([[400.0, 900.0]], [[0.25, 0.0]])
    costs = policy.StageCosts(0.01, 0.03, 1e-5, round_trip_s=0.04, header_bits=100.0, verify_token_s=0.001)
    fixed, marginal = draft_length.round_costs(
        1e5,
        bits_per_token=400.0,
        header_bits=100.0,
        propagation_s=0.04,
        cloud_base_s=0.03,
        cloud_slope_s=0.001,
        edge_slope_s=0.01,
    )
    found = policy.plan_user(hulls, costs, profile, skipping=False, draft_lengths=range(1, 7))
    assert found.draft_length == int(draft_length.optimal_draft_length_profile(profile, fixed, marginal))
    rates = draft_length.etgr_profile(profile, fixed, marginal)
    assert found.rate == pytest.approx(float(rates.max()), rel=1e-12)
    assert found.gap < 1e-9


# ------------------------------------------------------------------------------------------------------- messages

MENU = codec.CodecMenu(widths=(3, 8), sizes=(1, 2, 4, 7), resolutions=(2, 4, 9, 32))
LATTICES = codec.CodecMenu(kinds=("lattice", "mixture"), sizes=(1, 2, 4, 7), resolutions=(2, 4, 9, 32))
"""Without top-k, whose sizes are not restricted in :func:`hlmtheory.codec.cheapest_codec`."""


def rows(rng: np.random.Generator, vocabulary: int, count: int = 12) -> np.ndarray:
    """Return confident and flat rows, a uniform one, and one with a single entry."""
    drawn = [rng.dirichlet(np.full(vocabulary, sharp)) for sharp in (0.05, 0.3, 1.0, 5.0) for _ in range(count // 4)]
    return np.stack([*drawn, np.full(vocabulary, 1.0 / vocabulary), np.eye(vocabulary)[vocabulary // 2]])


@pytest.mark.parametrize("vocabulary", [2, 7, 40])
def test_a_corner_is_the_cheapest_message_at_its_own_risk(vocabulary):
    given = rows(np.random.default_rng(vocabulary), vocabulary)
    hulls = policy.codec_hulls(given, menu=LATTICES)
    for n, row in enumerate(given):
        for corner in range(hulls.start[n], hulls.start[n + 1]):
            # the sums are taken in another order, so that the last digits of the risk may differ
            best = codec.cheapest_codec(row, 2.0 * hulls.risk[corner] + 1e-12, menu=LATTICES)
            tie = abs(float(best.bias) - 2.0 * hulls.risk[corner]) < 2e-12
            assert int(best.bits) == hulls.bits[corner] or (int(best.bits) < hulls.bits[corner] and tie)


@pytest.mark.parametrize("menu", [None, MENU])
def test_the_bytes_of_each_corner_keep_its_risk(menu):
    given = rows(np.random.default_rng(3), 40, 8)
    hulls = policy.codec_hulls(given, menu=menu)
    for n, row in enumerate(given):
        for corner in range(hulls.start[n], hulls.start[n + 1]):
            one = {
                name: getattr(hulls.codec, name)[corner]
                for name in ("kind", "k", "parameter", "mixture", "bits", "bias")
            }
            message = codec.coded_message(row, codec.CodecChoice(**one), token=int(np.argmax(row)))
            known = codec.decoded_rows(codec.decode(codec.encode(message)))[0]
            assert 0.5 * np.abs(known - row).sum() <= hulls.risk[corner]


def test_no_message_of_the_menu_is_below_the_hull():
    given = rows(np.random.default_rng(5), 40)
    hulls = policy.codec_hulls(given, menu=LATTICES)
    for n, row in enumerate(given):
        own = slice(hulls.start[n], hulls.start[n + 1])
        for bias in np.geomspace(1e-3, 2.0, 12):
            best = codec.cheapest_codec(row, bias, menu=LATTICES) if bias >= 2.0 * hulls.risk[own][-1] else None
            if best is not None:
                line = np.interp(float(best.bits), hulls.bits[own], hulls.risk[own])
                assert 0.5 * float(best.bias) >= line - 1e-12


def test_the_hulls_of_blocks_are_those_of_all_rows():
    given = rows(np.random.default_rng(7), 40)
    whole = policy.codec_hulls(given)
    joined = policy.join_hulls([policy.codec_hulls(given[:5]), policy.codec_hulls(given[5:])])
    for name in ("start", "bits", "risk", "entry"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(joined, name))
    np.testing.assert_array_equal(whole.codec.k, joined.codec.k)


def test_a_menu_with_entropy_coding_is_refused():
    with pytest.raises(ValueError, match="menu must have top-k"):
        policy.codec_hulls([[0.5, 0.5]], menu=codec.CodecMenu(kinds=("entropy",)))
