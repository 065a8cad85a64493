"""Evidence about a sampler's law: exact on short runs, against fractions and enumeration, simulated on long ones."""

import decimal
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hlmtheory import lossless
from hlmtheory.lossless.ceiling import _above, _of_frequencies, _of_halves, _of_likeliest, _zeros_together
from hlmtheory.lossless.evidence import SHARE, distance_bound, law_wealth
from hlmtheory.lossless.power import power_to_find, smallest_found

from .kinds import LIBRARIES, kind_of, numbers, to

UNIT = st.one_of(st.integers(0, 8).map(lambda n: n / 8), st.floats(0.0, 1.0))
INNER = st.one_of(st.integers(1, 15).map(lambda n: n / 16), st.floats(1e-3, 0.999))
BET = st.one_of(st.sampled_from([0.25, 1.0, 4.0, 256.0]), st.floats(1e-3, 1e3))

EVENTS = st.lists(st.tuples(UNIT, UNIT), min_size=1, max_size=5)


@given(st.lists(EVENTS, min_size=1, max_size=2), st.lists(BET, min_size=1, max_size=3))
def test_the_wealth_is_that_of_its_definition(tests, bets):
    draws = min(map(len, tests))
    outcome, expected = ([[pair[i] for pair in one[:draws]] for one in tests] for i in range(2))
    wealths = [Fraction(1)] * (len(tests) * len(bets))
    found = law_wealth(outcome, expected, bets)
    for t in range(draws):
        for place, (k, bet) in enumerate(itertools.product(range(len(tests)), bets)):
            seen, mean = Fraction(outcome[k][t]), Fraction(expected[k][t])
            used = Fraction(bet) if mean == 0 else min(Fraction(bet), Fraction(SHARE) / mean)
            wealths[place] *= 1 + used * (seen - mean)
        assert math.exp(float(found[t])) == pytest.approx(float(sum(wealths) / len(wealths)), rel=1e-9)


@given(EVENTS, st.lists(BET, min_size=1, max_size=3), INNER)
def test_the_bound_is_where_the_wealth_less_its_price_is_one_over_the_error(pairs, bets, error):
    outcome, expected = ([[pair[i] for pair in pairs]] for i in range(2))
    found = distance_bound(outcome, expected, error, bets)
    for t in range(1, len(pairs) + 1):
        gains = [
            sum(
                math.log1p((b if e * b <= SHARE else SHARE / e) * (o - e))
                for o, e in zip(outcome[0][:t], expected[0][:t], strict=True)
            )
            for b in bets
        ]
        total = float(found[t - 1]) * t

        def price(s, gains=gains):
            return float(np.mean([math.exp(g - b * s) for g, b in zip(gains, bets, strict=True)])) * error

        if total > 0:
            assert price(total) == pytest.approx(1.0, rel=1e-5)
            assert price(total) >= 1.0
        else:
            assert price(0.0) <= 1.0 + 1e-9


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_chunks_give_the_same_numbers(library, dtype):
    rng = np.random.default_rng(1)
    expected = rng.random((3, 60)).astype(dtype)
    outcome = (rng.random((3, 60)) < 0.3 + 0.7 * expected).astype(dtype)
    streams = to(library, outcome, dtype), to(library, expected, dtype)
    test = lossless.LawTest(3, 0.05)
    for part in (slice(0, 7), slice(7, 8), slice(8, 60)):
        test.update(streams[0][:, part], streams[1][:, part])
    wealth, bound = law_wealth(*streams), distance_bound(*streams, 0.05)
    assert kind_of(bound) == kind_of(streams[0])
    assert test.draws == 60
    assert test.log_wealth == pytest.approx(float(numbers(wealth)[-1]), rel=1e-6)
    assert test.bound == pytest.approx(float(numbers(bound)[-1]), rel=1e-6)
    assert 0 < test.bound < 0.3
    assert lossless.LawTest(3, 0.05).bound == lossless.LawTest(3, 0.05).log_wealth == 0.0


@pytest.mark.parametrize(("draws", "event"), [(300, 0.5), (2000, 0.1), (2000, 0.001)])
def test_the_power_is_reached(draws, event):
    distance = smallest_found(draws, 0.01, tests=3, power=0.8, event=event)
    rng = np.random.default_rng(4)
    outcome = np.zeros((400, 3, draws))
    outcome[:, 0] = rng.random((400, draws)) < event + distance
    expected = np.stack([np.full(draws, event), np.full(draws, 0.5), np.full(draws, 0.5)])
    outcome[:, 1:] = rng.random((400, 2, draws)) < 0.5
    found = np.asarray(law_wealth(outcome, np.broadcast_to(expected, outcome.shape))) >= -math.log(0.01)
    share = found.any(axis=-1).mean()
    assert share > 0.74  # 80% less three standard errors
    assert share < 0.99  # the distance is not far too large
    assert power_to_find(draws, distance, 0.01, 3, event) >= 0.8
    assert power_to_find(draws, 0.9 * distance, 0.01, 3, event) < 0.8


def test_the_draws_are_those_of_the_power():
    draws = lossless.draws_to_find(0.05, 0.001, tests=10)
    assert power_to_find(draws, 0.05, 0.001, tests=10) >= 0.9
    assert power_to_find(draws - 40, 0.05, 0.001, tests=10) < 0.9
    assert lossless.draws_to_find(0.025, 0.001, tests=10) == pytest.approx(4 * draws, rel=0.1)  # as 1/TV²


@pytest.mark.parametrize("cells", [2, 40, 400])
@pytest.mark.parametrize("share", [0.0, 0.05, 0.5])
def test_both_ceilings_cover_the_distance(cells, share):
    """At δ = 20%: each of the two bounds alone, for laws that differ little and much, with cells of probability 0."""
    rng = np.random.default_rng(5)
    target = rng.dirichlet(np.full(cells, 0.5))
    target[: cells // 3] = 0.0
    target /= target.sum()
    law = (1 - share) * target + share * rng.dirichlet(np.full(cells, 0.1))
    distance = 0.5 * np.abs(law - target).sum()
    below = {"frequencies": 0, "halves": 0}
    for _ in range(200):
        a, b = (rng.multinomial(2000, law)[None].astype(float) for _ in range(2))
        below["frequencies"] += _of_frequencies(a + b, target[None], 0.2) < distance
        below["halves"] += _of_halves(a, b, target[None], 0.2) < distance
    assert max(below.values()) <= 40


def test_the_halves_are_those_of_their_proof():
    """Two prompts, by loops: the product's upper end, and the root of the square that the other half leaves."""
    target = [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]]
    a, b, delta = [[300, 100, 100], [80, 160, 60]], [[290, 120, 100], [70, 160, 60]], 0.1
    n, limit, union = 800, math.log(6 / delta), math.log(3 * 6 / delta)
    h, second = {}, []
    for c, v in itertools.product(range(2), range(3)):
        share_a, share = sum(a[c]) / n, sum(b[c]) / n
        weight = 0.5 * (share * target[c][v] + 1 / 6)
        h[c, v] = share * (a[c][v] / sum(a[c]) - target[c][v]) / weight
        draws, count = sum(a[c]) + sum(b[c]), a[c][v] + b[c][v]
        root = math.sqrt(2 * union / draws)
        above = min(1.0, (0.5 * (root + math.sqrt(root**2 + 4 * count / draws))) ** 2)
        second.append(share * above * share / (share_a * weight))
    product = sum((b[c][v] - sum(b[c]) * target[c][v]) / n * h[c, v] for c, v in h)
    mean = sum(b[c][v] * h[c, v] for c, v in h) / n
    variance = sum(b[c][v] * (h[c, v] - mean) ** 2 for c, v in h) / (n - 1)
    width = max(h.values()) - min(h.values())
    most = product + math.sqrt(2 * variance * limit / n) + 7 * width * limit / (3 * (n - 1))
    slope = math.sqrt(2 * max(second) * limit / n)
    rest = 2 * max(sum(b[c]) / sum(a[c]) for c in range(2)) * limit / (3 * n)
    expected = (slope + math.sqrt(slope**2 + 4 * (most + rest))) / 4
    expected *= max((sum(a[c]) + sum(b[c])) / (2 * sum(b[c])) for c in range(2))
    found = _of_halves(*(np.array(one, dtype=float) for one in (a, b, target)), delta)
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("exponent", [8.0, 12.0])
def test_a_share_is_above_its_bound_as_rarely_as_the_exponent_says(exponent):
    """By the exact binomial law; half of the exponent would be too little."""
    worst = []
    for draws in (10, 100, 5000):
        counts = np.arange(draws + 1)
        share = np.geomspace(1e-3, 0.5, 60)[:, None]
        missed = _above(counts, np.array(draws), exponent) < share
        worst.append((stats.binom.pmf(counts, draws, share) * missed).sum(axis=1).max())
    assert max(worst) <= math.exp(-exponent)
    missed = _above(counts, np.array(draws), exponent / 2) < share
    assert (stats.binom.pmf(counts, draws, share) * missed).sum(axis=1).max() > math.exp(-exponent)


@pytest.mark.parametrize("error", [0.001, 0.2])
@pytest.mark.parametrize("law", [(0.0, 0.0), (0.01, 0.01), (0.3, 0.02), (1.0, 0.1)])
def test_draws_outside_the_likeliest_cells_bound_the_distance(law, error):
    """By the exact law of the draws outside, of two prompts with other shares; the target has 0.02 outside of one."""
    target, draws = np.array([[0.0, 1.0], [0.98, 0.02]]), (60, 20)
    outside = np.convolve(*(stats.binom.pmf(np.arange(n + 1), n, m) for n, m in zip(draws, law, strict=True)))
    distance = (60 * law[0] + 20 * abs(law[1] - 0.02)) / 80
    below = 0.0
    for missed, chance in enumerate(outside):
        first = min(missed, 60)
        counts = np.array([[first, 60 - first], [20 - missed + first, missed - first]], dtype=float)
        below += chance * (_of_likeliest(counts, target, error) < distance)
    assert below <= error


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=6))
def test_cells_of_probability_0_are_one_cell(cells):
    """The distance of any law stays the same, and the counts stay with their cells."""
    p = np.array([[float(mass) for mass, _, _ in cells], [1.0, *[0.0] * (len(cells) - 1)]])
    a, b = (np.array([[one[i] for one in cells]] * 2, dtype=float) for i in (1, 2))
    merged = _zeros_together(a, b, p)
    for before, after in zip((a, b), merged[:2], strict=True):
        np.testing.assert_allclose(np.abs(after - merged[2]).sum(axis=-1), np.abs(before - p).sum(axis=-1))
        assert (after.sum(axis=-1) == before.sum(axis=-1)).all()
    assert merged[2].shape[-1] == max(1, int((p > 0).sum(axis=-1).max())) + 1


def test_halves_of_other_mixtures_of_the_prompts_bound_nothing():
    law, even = np.full((2, 2), 0.5), np.full((2, 2), 500.0)
    assert _of_halves(np.array([[900.0, 900.0], [100.0, 100.0]]), even, law, 0.05) == 1.0
    assert _of_halves(even, even, law, 0.05) < 0.5


def test_no_draws_bound_nothing():
    assert lossless.distance_ceiling([0, 0], [0, 0], [0.5, 0.5], 0.01) == 1.0
    assert 0.9 < lossless.distance_ceiling([1, 0], [0, 0], [0.5, 0.5], 0.01) <= 1.0


def test_a_text_moves_as_far_as_its_steps_allow():
    assert float(lossless.text_distance(0.25, 2)) == pytest.approx(1 - 0.75**2, rel=1e-12)
    assert np.asarray(lossless.text_distance([0.0, 1.0], 5)).tolist() == [0.0, 1.0]
    tau = np.array([1e-9, 1e-3])
    assert (np.asarray(lossless.text_distance(tau, 10**6)) >= 1 - (1 - tau) ** 10**6).all()


def test_a_ceiling_holds_for_the_shares_of_all_draws():
    """The halves have other shares of two prompts, whose distances differ; so many draws are as good as the laws."""
    first, second = np.array([[1.0], [1.25]]) * 1e12, np.full((2, 1), 1e12)
    apart = np.array([0.24, 0.26])
    law = np.stack([0.5 + apart, 0.5 - apart], axis=1)
    halves = (np.rint(one * law).astype(np.int64) for one in (first, second))
    found = lossless.distance_ceiling(*halves, [[0.5, 0.5]] * 2, error=0.001)
    shares = (first + second)[:, 0] / (first + second).sum()
    assert shares @ apart < found < 0.27


def test_the_wealth_is_not_above_its_exact_value():
    """Its logarithm is that of a product, here in exact fractions, whose root is compared by its digits."""
    rng = np.random.default_rng(12)
    with decimal.localcontext() as context:
        context.prec = 60
        for _ in range(40):
            draws, mean, bet = int(rng.integers(1, 300)), float(rng.random()), float(2.0 ** rng.integers(-8, 4))
            seen = (rng.random(draws) < mean).astype(float)
            used = decimal.Decimal(bet if bet * mean <= 0.9 else 0.9 / mean)
            exact = sum((1 + used * (decimal.Decimal(x) - decimal.Decimal(mean))).ln() for x in seen)
            given = [seen], np.full((1, draws), mean)
            found = law_wealth(*given, [bet])[-1]
            test = lossless.LawTest(tests=1, error=0.5, bets=[bet])
            for start in range(0, draws, 50):
                test.update(*(np.asarray(one)[:, start : start + 50] for one in given))
            for one in (float(found), test.log_wealth):
                assert decimal.Decimal(one) <= exact
                assert one == pytest.approx(float(exact), rel=1e-9, abs=1e-9)
