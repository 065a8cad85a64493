"""The best policy: against solvers, against enumeration, and in closed form; the claims on drawn instances."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate

from hlmtheory import channel, codec, draft_length, policy
from hlmtheory.codec.selection import CodecChoice
from hlmtheory.draft_length.optimum import optimal_draft_length_profile
from hlmtheory.draft_length.rates import etgr_profile
from hlmtheory.policy import band_shares
from hlmtheory.policy.hulls import Priced
from hlmtheory.policy.rounds import Decisions, Prices, Rounds
from hlmtheory.sides import served_sides
from hlmtheory.sides.fading_sides import fading_skip


def users(rng: np.random.Generator, count: int) -> tuple[np.ndarray, ...]:
    tokens, fixed = rng.uniform(1.0, 6.0, count), np.exp(rng.normal(-2.0, 1.0, count))
    return tokens, fixed, np.exp(rng.normal(-2.0, 1.5, count)), rng.uniform(0.3, 3.0, count)


def utility_of(utility: str, tokens, fixed, air, weights, shares) -> float:
    rates = tokens * shares / (fixed * shares + air)
    return float(weights @ (np.log(rates) if utility == "log" else rates))


@pytest.mark.parametrize("utility", ["linear", "log"])
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
    }[utility]()
    cvxpy.Problem(cvxpy.Maximize(goal), [cvxpy.sum(w) == 1, w >= 1e-12]).solve(solver=cvxpy.CLARABEL)
    shares = policy.throughput_shares(tokens, fixed, air, weights, utility=utility)
    assert shares.sum() == pytest.approx(1.0, abs=1e-12)
    found = utility_of(utility, tokens, fixed, air, weights, shares)
    best = utility_of(utility, tokens, fixed, air, weights, np.clip(w.value, 1e-12, None) / np.sum(w.value))
    assert found >= best - 1e-7 * abs(best)
    assert found == pytest.approx(best, rel=1e-4)


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
    found = policy.plan_user(hulls, costs, profile, risk_limit=math.inf, skipping=False, draft_lengths=range(1, 7))
    assert found.draft_length == int(optimal_draft_length_profile(profile, fixed, marginal))
    assert found.rate == pytest.approx(float(etgr_profile(profile, fixed, marginal).max()), rel=1e-12)
    assert found.gap < 1e-9


MENU = codec.CodecMenu(widths=(3, 8), sizes=(1, 2, 4, 7), resolutions=(2, 4, 9, 32))
LATTICES = codec.CodecMenu(kinds=("lattice", "mixture"), sizes=(1, 2, 4, 7), resolutions=(2, 4, 9, 32))
"""Without top-k, whose sizes are not restricted in :func:`hlmtheory.codec.cheapest_codec`."""


def rows(rng: np.random.Generator, vocabulary: int, count: int = 12) -> np.ndarray:
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
            message = codec.coded_message(row, CodecChoice(**one), token=int(np.argmax(row)))
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


@pytest.mark.parametrize(("mean", "factor"), [(10.0, 0.0), (0.5, 0.0), (100.0, 4.0)])
@pytest.mark.parametrize("worth", [0.03, 0.1, 2.0])
def test_the_mean_time_over_a_fading_link_is_that_of_its_quantiles(mean, factor, worth):
    link = channel.Rician(mean, factor)
    cut, sent, taken = map(float, fading_skip(link, bits=1e5, bandwidth_hz=2e6, server_s=0.02, worth_s=worth))
    if not math.isfinite(cut):
        assert sent == taken == 0.0
        return

    def seconds(p):
        return 0.02 + 0.05 / math.log2(1.0 + float(link.quantile(p)))

    start = float(link.distribution(cut))
    assert sent == pytest.approx(1.0 - start, abs=1e-12)
    if start > 1.0 - 1e-9:
        assert taken < 1e-9 * worth * 1.01
        return
    assert seconds(start) == pytest.approx(worth, rel=1e-6)  # at the cut both cost the same
    area = integrate.quad(seconds, start, 1.0 - 1e-13, limit=200, epsrel=1e-7)[0]
    assert taken == pytest.approx(area, rel=1e-6)


def test_a_link_that_is_not_worth_it_is_never_used():
    cut, sent, seconds = fading_skip(channel.Rayleigh(10.0), 1e5, 1e6, 0.05, [0.04, 0.05, 0.0500000001])
    assert np.isinf(cut).all()
    assert not sent.any()
    assert not seconds.any()


@pytest.mark.parametrize("cells", [1, 2, 3, 7])
@pytest.mark.parametrize("seed", range(4))
def test_the_bounds_of_a_band_are_above_the_best_of_all_shares(cells, seed):
    rng = np.random.default_rng(seed)
    one = {
        "tokens": rng.uniform(1.0, 6.0, (2, 3)),
        "fixed_s": rng.uniform(0.1, 1.0, (2, 3)),
        "plan_bits": rng.uniform(0.01, 2.0, (2, 3)),
        "weights": rng.uniform(0.5, 2.0, 2),
    }
    weights = one["weights"]
    made = served_sides._curves(one | {"plan_load": np.zeros((2, 3))}, weights, 0.0)
    w = np.arange(1, 1000) / 1000
    first, second = (
        np.max(e * s[:, None] / (a * s[:, None] + b), axis=1)
        for e, a, b, s in zip(one["tokens"], one["fixed_s"], one["plan_bits"], (w, 1.0 - w), strict=True)
    )
    best = float((weights[0] * first + weights[1] * second).max())
    assert band_shares.grid_bound(made, weights, "linear", cells=cells)[1] >= best
    prices, lines = np.geomspace(0.01, 100.0, 400), band_shares.lines_of(made, weights, "linear")
    assert min(band_shares.price_bound(lines, price)[0] for price in prices.tolist()) >= best


def test_many_users_get_plans_near_the_bound():
    rng = np.random.default_rng(2)
    hulls = policy.codec_hulls(rows(rng, 40, 40), menu=LATTICES)
    costs = [policy.StageCosts(0.006, 0.03, s, round_trip_s=0.02) for s in np.exp(rng.uniform(-7.0, -5.0, 30)) * 1e-3]
    rejection = rng.beta(0.5, 2.0, hulls.positions)
    users_of_band = [
        policy.BandUser(hulls, one, [0.8] * 4, rejection=rejection, utility_weight=float(rng.uniform(0.5, 2.0)))
        for one in costs
    ]
    for utility in ("linear", "log"):
        found = policy.plan_users(users_of_band, utility=utility)
        assert found.shares.sum() == pytest.approx(1.0, abs=1e-9)
        assert found.value <= found.upper_bound
        assert found.gap <= (0.02 * 30 * 2 if utility == "log" else 0.02)
        if utility != "log":
            assert found.gap == pytest.approx(found.upper_bound / found.value - 1.0, abs=1e-12)
            assert found.gap > 0.0


def test_a_plan_without_a_risk_limit_has_no_risk():
    hulls, costs = policy.lower_hulls([[1000.0, 8000.0]], [[0.25, 0.0]]), policy.StageCosts(0.0125, 0.03125, 1e-6)
    given = (hulls, costs, [0.75] * 4, [0.25])
    found = policy.plan_user(*given[:3], rejection=given[3])
    assert (found.risk, found.skip_share) == (0.0, 0.0)
    assert found.rate < policy.plan_user(*given[:3], rejection=given[3], risk_limit=math.inf).rate
    assert policy.plan_users([policy.BandUser(*given)]).users[0].risk == 0.0


def test_limits_that_cannot_be_met_name_the_nearest():
    hulls = policy.lower_hulls([[400.0, 900.0]], [[0.25, 0.0625]])
    costs = policy.StageCosts(0.01, 0.03, 1e-5)
    given = {"draft_lengths": [1, 2], "rejection": [0.5]}
    with pytest.raises(ValueError, match=r"risk_limit must be at least (\S+) a token") as refused:
        policy.plan_user(hulls, costs, [0.5, 0.5], **given)  # without a limit the risk is 0
    nearest = float(str(refused.value).split("at least ")[1].split()[0])
    assert policy.plan_user(hulls, costs, [0.5, 0.5], risk_limit=nearest, **given).risk <= nearest
    with pytest.raises(ValueError, match="seconds_per_bit must be positive"):
        policy.StageCosts(0.01, 0.03, math.inf)


def test_a_device_that_knows_the_rule_alone_makes_the_decisions_of_the_plan():
    rng = np.random.default_rng(6)
    hulls = policy.codec_hulls(rows(rng, 40, 400))
    rejection = rng.beta(0.5, 2.0, hulls.positions)
    costs = policy.StageCosts(0.006, 0.03, 1e-5, round_trip_s=0.01)
    options = {"rejection": rejection, "risk_limit": 0.03, "draft_lengths": range(1, 7), "mixing": False}
    found = policy.plan_user(hulls, costs, [0.9] * 6, **options)
    assert found.skip.any()
    assert not found.skip.all()
    rule = found.rule
    for n in range(hulls.positions):
        own = slice(int(hulls.start[n]), int(hulls.start[n + 1]))
        for place, corners in enumerate((found.first, *found.later), 1):
            cost = rule.bit_price * hulls.bits[own] + rule.risk_price(place) * hulls.risk[own]
            assert cost[corners[n] - own.start] <= cost.min() * (1.0 + 1e-9)
        level = rule.skip_slope * rejection[n] - rule.bit_price * hulls.bits[found.first[n]] - rule.skip_level
        assert abs(level) < 1e-9 or found.skip[n] == (rule.skips and level <= 0)


@pytest.mark.parametrize("length", [0, 1, 3])
@pytest.mark.parametrize("skipping", [False, True])
def test_the_value_at_prices_is_the_largest_of_all_decisions(length, skipping):
    """Without skips it is attained; with skips the bound on it is close, and above both charges."""
    rng = np.random.default_rng(length)
    hulls = policy.lower_hulls([[40.0, 90.0], [30.0, 60.0]], [[0.25, 0.0], [0.5, 0.125]])
    costs = policy.StageCosts(0.01, 0.03, 1e-4)
    weight, rejection, alpha = np.asarray([0.25, 0.75]), np.asarray([0.25, 0.5]), np.asarray([0.75, 0.5, 0.5])
    priced = Priced(hulls, weight)
    model = Rounds(hulls, priced, costs, alpha, rejection, length, skipping=skipping, bonus=True)
    limit = 0.125
    places = [list(itertools.product([0, 1], [2, 3]))] * max(length - 1, 0)
    for _ in range(20):
        prices = Prices(*rng.uniform(0.0, (40.0, 5.0)).tolist())
        values = {True: [], False: []}
        for skip in itertools.product([False, True], repeat=2) if length and skipping else [(False, False)]:
            for first, *later in itertools.product(itertools.product([0, 1], [2, 3]), *places):
                made = Decisions(np.asarray(skip), np.asarray(first), np.asarray(later, dtype=int).reshape(-1, 2))
                for charged, found in values.items():
                    one = model.totals(made, charged=charged)
                    over = prices.risk * (one.risk - 0.125 * one.tokens)
                    found.append(one.tokens - prices.rate * one.seconds - over)
        value = model.value(prices, limit)
        assert value >= max(values[False]) - 1e-12
        assert max(values[False]) >= max(values[True]) - 1e-12
        assert value == pytest.approx(max(values[False]), rel=1e-12, abs=0.01 if skipping else 1e-12)
        if not skipping:
            choice, totals = model.best(prices, limit, charged=True)
            assert totals == model.totals(choice.made)
            spent = prices.rate * totals.seconds + prices.risk * (totals.risk - 0.125 * totals.tokens)
            assert totals.tokens - spent == pytest.approx(value, rel=1e-12, abs=1e-12)


def test_a_subnormal_risk_is_as_good_as_none():
    """The price at which such a step pays is beyond float64."""
    hulls = policy.lower_hulls([[4.0, 1.0], [1.0, 1.0]], [[0.0, 5e-324], [5e-324, 5e-324]])
    found = policy.plan_user(hulls, policy.StageCosts(1.0, 1.0, 1e-6), [0.0], rejection=[0.0, 0.0], risk_limit=0.125)
    assert found.rate == pytest.approx(1.0)


def test_users_of_other_acceptances_have_curves_of_their_own():
    """The band goes to the user whose drafts are accepted, whoever is named first."""
    hulls, costs = policy.lower_hulls([[400.0, 900.0]], [[0.25, 0.0]]), policy.StageCosts(0.002, 0.05, 2e-5)
    found = policy.plan_users([policy.BandUser(hulls, costs, [x] * 3) for x in (0.1, 0.9)])
    assert found.shares[1] > 0.99
    assert found.upper_bound < 1.001 * found.value


def test_of_a_flat_row_nothing_is_sent():
    hulls = policy.codec_hulls(np.full((1, 8), 0.125), menu=MENU)
    assert hulls.bits.tolist() == [6.0]  # kind, k + 1 = 1, 3 bits a probability
    assert float(hulls.risk[0]) < 1e-12
