"""Acceptance by depth from counts: against enumeration, fractions and linear programs, and what counts do not say."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.stats import binomtest

import hlmtheory
from hlmtheory import draft_length as module
from hlmtheory.draft_length.published import mean_interval, position_interval, single_rate
from hlmtheory.verification.tokens import expected_tokens_profile

KNOWN = hlmtheory.all_claims()


def counted(rounds, depth):
    table = np.zeros((depth + 1, depth + 1), dtype=np.int64)
    for k, i in rounds:
        table[k, i] += 1
    return table


ROUNDS = st.integers(1, 5).flatmap(
    lambda depth: st.tuples(
        st.just(depth),
        st.lists(st.integers(0, depth).flatmap(lambda k: st.tuples(st.just(k), st.integers(0, k))), max_size=30),
    )
)


def chance(accepted, examined, rate):
    return math.comb(examined, accepted) * rate**accepted * (1 - rate) ** (examined - accepted)


@given(ROUNDS)
def test_counts_by_depth_are_those_of_a_loop(drawn):
    depth, rounds = drawn
    found = module.acceptance_by_depth(counted(rounds, depth))
    for d in range(1, depth + 1):
        at_risk = [i for k, i in rounds if k >= d and i >= d - 1]
        assert found.examined[d - 1] == len(at_risk)
        assert found.accepted[d - 1] == sum(i >= d for i in at_risk)
        if at_risk:
            exact = binomtest(sum(i >= d for i in at_risk), len(at_risk)).proportion_ci(0.95)
            np.testing.assert_allclose([found.low[d - 1], found.high[d - 1]], exact, rtol=1e-9, atol=1e-12)
            passed, of = sum(i >= d for i in at_risk), len(at_risk)
            low, high = (Fraction(float(end[d - 1])) for end in (found.low, found.high))
            assert sum(chance(a, of, low) for a in range(passed, of + 1)) <= Fraction(1, 40) or passed == 0
            assert sum(chance(a, of, high) for a in range(passed + 1)) <= Fraction(1, 40) or passed == of
        else:
            assert np.isnan(found.acceptances[d - 1])
            assert (found.low[d - 1], found.high[d - 1]) == (0.0, 1.0)


def test_the_identity_is_exact_in_fractions():
    """E n[k][i] for independent k gives α_d without any error, for every law on a grid."""
    grid = [Fraction(n, 3) for n in range(4)]
    lengths = [Fraction(1, 6), Fraction(1, 2), Fraction(1, 3)]
    for alphas in itertools.product(grid, repeat=2):
        expected = {}
        for k, outcome in itertools.product(range(3), itertools.product((0, 1), repeat=2)):
            chance = lengths[k] * math.prod(a if one else 1 - a for a, one in zip(alphas, outcome, strict=True))
            i = next((d for d in range(k) if not outcome[d]), k)
            expected[k, i] = expected.get((k, i), Fraction(0)) + chance
        for d in (1, 2):
            examined = sum(n for (k, i), n in expected.items() if k >= d and i >= d - 1)
            assert sum(n for (k, i), n in expected.items() if k >= d and i >= d) == examined * alphas[d - 1]
            verdict = KNOWN["draft_length.censored"].check(
                {"length_law": [float(x) for x in lengths], "acceptances": [float(x) for x in alphas], "depth": d}
            )
            assert verdict.holds == (examined > 0)


@given(ROUNDS)
def test_tokens_are_those_of_the_profile_and_the_band_holds_them(drawn):
    depth, rounds = drawn
    table = counted([*rounds, *((depth, i) for i in range(depth + 1))], depth)
    found, by_depth = module.tokens_by_length(table), module.acceptance_by_depth(table, error=1 - 0.95 ** (1 / depth))
    for k in range(1, depth + 1):
        for ours, rates in ((found.tokens, by_depth.acceptances), (found.low, by_depth.low)):
            assert ours[k - 1] == pytest.approx(float(expected_tokens_profile(rates[:k])))
    assert (found.low <= found.tokens).all()
    assert (found.tokens <= found.high).all()


def rates(tables, weights):
    pooled = np.tensordot(weights, tables.astype(float), 1)
    return np.divide(*([pooled[d:, d - one :].sum() for d in (1, 2, 3)] for one in (0, 1)))


def tokens(tables, weights):
    return 1 + np.cumsum(np.cumprod(rates(tables, weights)))


def jackknife(of, tables, step=1e-5):
    """The root of the sum of squares of d/d(weight of a request), by differences."""
    ends = [[of(tables, np.ones(7) + change * e) for e in np.eye(7)] for change in (step, -step)]
    return np.sqrt(np.sum(np.square(np.subtract(*ends) / (2 * step)), axis=0))


def test_the_sandwich_is_the_infinitesimal_jackknife():
    tables = np.tril(np.random.default_rng(3).integers(0, 6, (7, 4, 4)))
    found = module.tokens_by_length(tables, error=0.1, method="clustered")
    half = 1.9431802803927816 * np.sqrt(7 / 6) * jackknife(tokens, tables)  # t of 6 degrees
    np.testing.assert_allclose(found.tokens, tokens(tables, np.ones(7)), rtol=1e-12)
    np.testing.assert_allclose(found.high - found.tokens, half, rtol=1e-6)
    np.testing.assert_allclose(found.tokens - found.low, half, rtol=1e-6)


@given(ROUNDS)
def test_the_anytime_interval_is_that_of_its_definition(drawn):
    """α is inside if P(Binomial(r, α) = a) > δ/(r + 1), in fractions; the band shares δ out as 1/(d(d + 1))."""
    depth, rounds = drawn
    table = counted(rounds, depth)
    found = module.acceptance_by_depth(table, error=0.25, method="anytime")
    for r, a, low, high in zip(found.examined, found.accepted, found.low, found.high, strict=True):
        r, a = int(r), int(a)
        for end, step in ((Fraction(float(low)), -1), (Fraction(float(high)), 1)):
            inner, outer = end - step * Fraction(1, 10**6), end + step * Fraction(1, 10**6)
            assert chance(a, r, inner) > Fraction(1, 4 * (r + 1)) or not 0 <= inner <= 1
            assert outer < 0 or outer > 1 or chance(a, r, outer) < Fraction(1, 4 * (r + 1))
    band = module.tokens_by_length(table, error=0.25, method="anytime")
    each = [
        module.acceptance_by_depth(table, error=0.25 / (d * (d + 1)), method="anytime") for d in range(1, depth + 1)
    ]
    for ours, name in ((band.low, "low"), (band.high, "high")):
        ends = [getattr(one, name)[d] for d, one in enumerate(each)]
        np.testing.assert_allclose(ours, 1 + np.cumsum(np.cumprod(ends)), rtol=1e-9)


def test_the_sandwich_of_each_depth_is_the_infinitesimal_jackknife():
    """Two of the seven requests never examined depth 3."""
    tables = np.tril(np.random.default_rng(4).integers(1, 6, (7, 4, 4)))
    tables[:2, 3, 2:] = 0
    found = module.acceptance_by_depth(tables, error=0.1, method="clustered")

    t, count = np.array([1.9431802803927816, 1.9431802803927816, 2.1318467863266495]), np.array([7, 7, 5])
    half = t * np.sqrt(count / (count - 1)) * jackknife(rates, tables)
    np.testing.assert_allclose(found.high, np.minimum(found.acceptances + half, 1), rtol=1e-6)
    np.testing.assert_allclose(found.low, np.maximum(found.acceptances - half, 0), rtol=1e-6)


def test_one_request_says_nothing_of_a_depth():
    tables = np.array([[[0, 0, 0], [5, 5, 0], [5, 2, 3]], [[0, 0, 0], [5, 4, 0], [0, 0, 0]]])
    found = module.acceptance_by_depth(tables, method="clustered")
    assert (found.low[1], found.high[1]) == (0.0, 1.0)


def test_a_depth_that_was_never_examined():
    """Nothing is said of it; where no draft was accepted above, it does not count."""
    unseen = [[0, 0, 0], [5, 5, 0], [0, 0, 0]]
    assert np.isnan(module.tokens_by_length(unseen).tokens).tolist() == [False, True]
    assert module.tokens_by_length(unseen).high[1] <= 3.0
    assert module.tokens_by_length([[0, 0, 0], [0, 0, 0], [9, 0, 0]]).tokens.tolist() == [1.0, 1.0]


def kept_by_program(rates, mean, d, sign):
    """The extreme P(k ≥ d)/P(k ≥ d-1) by a linear program in P(k ≥ e) over P(k ≥ d-1)."""
    size = len(rates)
    ratios = [rate / b if b > 0 else 0.0 for rate, b in zip(rates, [1.0, *rates[:-1]], strict=True)]
    least, least_rhs = [], []
    for e in range(1, size):  # ratios[e] y[e-1] ≤ y[e] ≤ y[e-1]
        for low, high in (((e - 1), e), (e, (e - 1))):
            row = np.zeros(size + 1)
            row[high], row[low] = (-1.0, ratios[e]) if high == e else (-1.0, 1.0)
            least.append(row)
            least_rhs.append(0.0)
    equal = np.zeros((3, size + 1))
    equal[0, 0], equal[0, size] = 1.0, -1.0  # P(k ≥ 1) = 1, in the scale s = y[size]
    equal[1, :size], equal[1, size] = 1.0, -mean
    equal[2, d - 2] = 1.0
    cost = np.zeros(size + 1)
    cost[d - 1] = sign
    found = linprog(cost, A_ub=least, b_ub=least_rhs, A_eq=equal, b_eq=[0.0, 0.0, 1.0], bounds=(0, None))
    assert found.success
    return sign * found.fun


@given(st.integers(2, 5), st.integers(0, 2**32 - 1))
def test_positions_give_the_interval_of_a_linear_program(size, seed):
    rng = np.random.default_rng(seed)
    rates = np.cumprod(rng.uniform(0.2, 1.0, size))
    least = 1 + rates[1:].sum() / rates[0]
    mean = least + rng.random() * (size - least)
    low, high = position_interval(rates, mean)
    for d in range(2, size + 1):
        ratio = rates[d - 1] / rates[d - 2]
        most, fewest = kept_by_program(rates, mean, d, -1.0), kept_by_program(rates, mean, d, 1.0)
        np.testing.assert_allclose([low[d - 1], high[d - 1]], [ratio / most, ratio / fewest], rtol=1e-7)
    assert low[0] == high[0] == rates[0]


def test_one_number_at_fixed_lengths_and_none_without_them():
    rates = [0.75, 0.5, 0.125]
    np.testing.assert_allclose(position_interval(rates, 3.0), [[0.75, 2 / 3, 0.25]] * 2, rtol=1e-15)
    # the shortest lengths that the rates allow: every accepted draft was the last one drafted, unless the first
    np.testing.assert_allclose(position_interval(rates, 1 + 0.625 / 0.75)[0], [0.75, 1.0, 1.0], rtol=1e-12)
    # a depth that no round accepts was rejected, if it was examined at all
    np.testing.assert_allclose(position_interval([0.5, 0.0], 1.5), [[0.5, 0.0], [0.5, 0.0]])
    np.testing.assert_allclose(position_interval([0.5, 0.0], 1.0), [[0.5, 0.0], [0.5, 1.0]])
    np.testing.assert_allclose(position_interval([0.0, 0.0], 1.5), [[0.0, 0.0], [0.0, 1.0]])


EXACT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


@given(st.integers(1, 6), st.integers(1, 6), st.floats(0.0, 1.0))
@example(6, 3, 1e-8)
def test_the_mean_gives_the_interval_of_a_linear_program(length, other, share):
    size, mean = max(length, other), share * length
    falls = [np.eye(size)[d] - np.eye(size)[d - 1] for d in range(1, size)] or [np.zeros(size)]
    total = [[1.0] * length + [0.0] * (size - length)]
    ends = []
    for sign in (1.0, -1.0):
        cost = sign * np.array([1.0] * other + [0.0] * (size - other))
        sides = {"A_ub": falls, "b_ub": np.zeros(len(falls)), "A_eq": total, "b_eq": [mean]}
        found = linprog(cost, **sides, bounds=(0, 1), options=EXACT)
        assert found.success
        ends.append(1.0 + sign * found.fun)
    np.testing.assert_allclose(mean_interval(mean, length, other), ends, rtol=1e-9, atol=1e-9)


@given(st.floats(0.0, 1.0), st.integers(1, 12))
def test_a_single_rate_is_the_root_of_its_polynomial(rate, length):
    mean = sum(rate**d for d in range(1, length + 1))
    found = float(single_rate(min(mean, float(length)), length))
    assert sum(found**d for d in range(1, length + 1)) == pytest.approx(mean, abs=1e-12)


def rounds_by_loop(runs, length):
    at, found = 0, []
    while at < len(runs):
        found.append(min(runs[at], length))
        at += found[-1] + 1
    return found


def test_copied_passages_split_exactly():
    """Passages of 8 tokens: rounds of 7 drafts take one each, rounds of one draft four; the profile says 2 of 2."""
    runs = np.tile(np.arange(7, -1, -1), 5)
    assert float(module.split_tokens(np.eye(8)[7], 1)) == 2.0
    assert rounds_by_loop(runs.tolist(), 1) == [1] * 20


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_ends_are_rounded_outwards(dtype):
    rates = np.asarray([0.7, 0.3, 0.1], dtype=dtype)
    mean = np.asarray(2.3, dtype=dtype)
    narrow = position_interval(rates, mean)
    wide = position_interval(rates.astype(np.float64), mean.astype(np.float64))
    assert (narrow[0][1:] <= wide[0][1:]).all()
    assert (narrow[1][1:] >= wide[1][1:]).all()
    low, high = mean_interval(mean, 7, 3)
    exact = mean_interval(np.float64(mean), 7, 3)
    assert low <= exact[0]
    assert high >= exact[1]
