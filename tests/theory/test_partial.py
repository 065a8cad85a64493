"""Lists of the top k and boxes: both ends by linear programs and by all sets, rows that attain them, bad input."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from scipy.optimize import linprog

from hlmtheory import truncation
from hlmtheory.verification import rejection_probability, total_variation

from .public import theory
from .strategies import pairs

SOLVER = 1e-6  # the feasibility tolerance of the linear programs is 1e-7 an entry


def top(row, k):
    token = np.argsort(-row, axis=-1, kind="stable")[..., :k]
    with np.errstate(divide="ignore"):
        return token, np.log(np.take_along_axis(row, token, axis=-1))


def lists(target, draft, k, j):
    return *top(target, k), *top(draft, j), target.shape[-1]


def box(row, k):
    token, _ = top(row, k)
    known = np.isin(np.arange(len(row)), token)
    return np.where(known, row, 0.0), np.where(known, row, row[token].min() if k else 1.0)


def random_pair(rng):
    """Rows of up to 7 tokens: dense, peaked, or on a coarse grid with ties and zeros."""
    size = int(rng.integers(1, 8))
    if rng.random() < 0.5:
        return rng.dirichlet([rng.choice([0.1, 0.4, 1.0, 5.0])] * size, size=2)
    unit = int(rng.choice([4, 16]))
    return (
        np.array([np.diff(np.sort(rng.integers(0, unit + 1, size - 1)), prepend=0, append=unit) for _ in "pq"]) / unit
    )


def nearest_by_program(low, high, low_q, high_q):
    """Smallest TV(q, p) by a linear program over p, q and t ≥ p - q."""
    size = len(low)
    eye, one, none = np.eye(size), np.ones(size), np.zeros(size)
    found = linprog(
        np.r_[none, none, one],
        A_ub=np.hstack([eye, -eye, -eye]),
        b_ub=none,
        A_eq=[np.r_[one, none, none], np.r_[none, one, none]],
        b_eq=[1, 1],
        bounds=[*zip(low, high, strict=True), *zip(low_q, high_q, strict=True), *[(0, None)] * size],
    )
    assert found.success
    return found.fun


def farthest_by_sets(low, high, low_q, high_q):
    """Largest p(S) - q(S) over all sets and all rows."""
    best = 0.0
    for chosen in itertools.product([False, True], repeat=len(low)):
        s = np.array(chosen)
        most = min(high[s].sum(), 1 - low[~s].sum())
        best = max(best, most - max(low_q[s].sum(), 1 - high_q[~s].sum()))
    return best


@pytest.mark.parametrize("seed", range(30))
def test_both_ends_are_those_of_all_rows(seed):
    rng = np.random.default_rng(seed)
    for _ in range(5):
        target, draft = random_pair(rng)
        k, j = rng.integers(0, len(target) + 1, 2)
        found = truncation.partial_distance(*lists(target, draft, k, j)).total_variation
        bounds = *box(target, k), *box(draft, j)
        assert float(found.lower) == pytest.approx(nearest_by_program(*bounds), abs=SOLVER)
        assert float(found.upper) == pytest.approx(farthest_by_sets(*bounds), abs=1e-12)


@given(pairs())
def test_the_interval_shrinks_to_the_value_as_the_list_grows(pair):
    target, draft = np.broadcast_arrays(pair["target"], pair["draft"])
    size = target.shape[-1]
    true, before = total_variation(target, draft), None
    for k in sorted({0, 1, size // 2, size}):
        found = truncation.partial_distance(*lists(target, draft, k, k)).total_variation
        assert (found.lower <= true + 1e-12).all()
        assert (found.upper >= true - 1e-12).all()
        if before is not None:
            assert (found.lower >= before.lower - 1e-12).all()
            assert (found.upper <= before.upper + 1e-12).all()
        before = found
    np.testing.assert_allclose(before.lower, true, atol=1e-12)
    np.testing.assert_allclose(before.upper, true, atol=1e-12)


def deviation_by_counts(listed, k, vocabulary):
    """The largest Δ_k in fractions: max over the number s of unlisted entries in a set of q(S) - s μ."""
    q = [Fraction(float(x)) for x in listed]
    rest, count = 1 - sum(q), vocabulary - len(q)
    mean = (1 - sum(q[:k])) / (vocabulary - k) if k < vocabulary else 0
    cap = q[-1] if q else Fraction(1)
    known = sum(max(x - mean, 0) for x in q[k:])
    return known, known + max(min(cap * s, rest) - s * mean for s in range(count + 1))


@pytest.mark.parametrize("seed", range(40))
def test_the_deviation_is_that_of_all_rows(seed):
    rng = np.random.default_rng(seed)
    unit = int(rng.choice([8, 64]))
    draft = np.sort(np.diff(np.sort(rng.integers(0, unit + 1, 6)), prepend=0, append=unit))[::-1] / unit
    for j in range(8):
        if j == 0 or draft[j - 1] > 0:
            for k in range(j + 1):
                found = theory.partial_deviation(np.log(draft[:j]), k, 7)
                least, most = deviation_by_counts(draft[:j], k, 7)
                assert float(found.lower) == pytest.approx(float(least), abs=1e-14)
                assert float(found.upper) == pytest.approx(float(most), abs=1e-14)
                assert found.lower - 1e-14 <= truncation.tail_deviation(draft)[k] <= found.upper + 1e-14


@pytest.mark.parametrize("seed", range(8))
def test_no_completion_exceeds_the_bias(seed):
    rng = np.random.default_rng(seed)
    target, draft = rng.dirichlet([rng.choice([0.2, 1.0])] * 8, size=2)
    for j in range(1, 8):
        for k in range(j + 1):
            most = float(truncation.partial_bias(*lists(target, draft, j, j), top_k=k).upper)
            rows = [np.stack([completed(rng, row, j) for _ in range(30)]) for row in (target, draft)]
            assert (truncation.resampling_bias(*rows, k) <= most + 1e-12).all()


def completed(rng, row, k):
    """A random row with the same k largest entries: the rest dealt to the others in random order under the cap."""
    token, _ = top(row, k)
    others = rng.permutation(np.setdiff1d(np.arange(len(row)), token))
    built, rest, cap = row.copy(), row[others].sum(), row[token].min()
    for place, one in enumerate(others):
        least = max(rest - cap * (len(others) - place - 1), 0.0)
        most = max(min(cap, rest), least)
        built[one] = rng.choice([least, most, rng.uniform(least, most)])
        rest -= built[one]
    return np.clip(built, 0.0, None) / np.clip(built, 0.0, None).sum()


def entry_by_program(row, k, token):
    """Smallest and largest probability of a token under a list."""
    bounds = list(zip(*box(row, k), strict=True))
    chosen = np.eye(len(row))[token]
    return [sign * linprog(sign * chosen, A_eq=[np.ones(len(row))], b_eq=[1], bounds=bounds).fun for sign in (1, -1)]


@pytest.mark.parametrize("seed", range(30))
def test_the_fate_of_a_draft_is_that_of_all_rows(seed):
    rng = np.random.default_rng(seed)
    target, draft = rng.dirichlet([rng.choice([0.3, 1.0, 20.0])] * int(rng.integers(1, 7)), size=2)
    k, j = rng.integers(0, len(target) + 1, 2)
    for token in range(len(target)):
        (p_low, p_high), (q_low, q_high) = entry_by_program(target, k, token), entry_by_program(draft, j, token)
        low, high = (min(1.0, p / q) if q > 1e-12 else 1.0 for p, q in ((p_low, q_high), (p_high, q_low)))
        uniform = np.linspace(0.0, 1.0, 9)
        found = theory.partial_draft(*lists(target, draft, k, j), token=token, uniform=uniform)
        assert float(found.probability.lower) == pytest.approx(low, abs=SOLVER)
        assert float(found.probability.upper) == pytest.approx(high, abs=SOLVER)
        kept = uniform < 1 - rejection_probability(target, draft)[token]
        assert (kept | ~found.accepted).all()
        assert (~kept | ~found.rejected).all()
        assert not (found.accepted & found.rejected).any()


@pytest.mark.parametrize("parts", [6, 7, 10, 12, 14, 20, 24])
def test_a_rest_that_just_fits_leaves_a_smallest_probability_of_zero(parts):
    # the last listed entry is 1/parts, and so is the rest: it may be on one of the two other tokens, or on the other
    draft = np.array([1.0, parts - 2.0, 1.0, 0.0]) / parts
    found = theory.partial_draft(*lists(np.array([1.0, 0.0, 0.0, 0.0]), draft, 4, 2), token=[2, 3], uniform=0.5)
    assert found.probability.upper.tolist() == [1.0, 1.0]  # with q_d = 0, min(1, p_d/q_d) is 1


def test_the_largest_distance_of_boxes_is_the_partition_problem():
    """With entries in [0, w] the rows can be disjoint only if the weights split evenly; the outer end does not know."""
    for weights, most in (((0.5, 0.5, 0.6, 0.4), 1.0), ((0.8, 0.8, 0.4), 0.8)):
        bounds = np.zeros(len(weights)), np.array(weights), np.zeros(len(weights)), np.array(weights)
        assert farthest_by_sets(*bounds) == pytest.approx(most)
        assert float(theory.box_distance(*bounds).upper) == pytest.approx(1.0)


def test_quantised_rows_give_an_interval_of_about_their_error():
    """16 bits over 16 nats, as llama.cpp stores them: the interval is 2e-4 wide, and holds the true value."""
    target, draft = np.random.default_rng(0).dirichlet(np.full(4096, 0.3), size=(2, 3))
    step = 16 / 65535
    ends = []
    for row in (target, draft):
        log = np.log(row)
        floor = log.max(axis=-1, keepdims=True) - 16
        stored = np.maximum(floor + np.round((log - floor) / step) * step, floor)
        bounds = theory.quantised_box(stored, error=0.51 * step, floor=floor[..., 0])
        assert ((bounds.lower <= row) & (row <= bounds.upper)).all()
        ends += [bounds.lower, bounds.upper]
    found = theory.box_distance(*ends)
    true = total_variation(target, draft)
    assert ((found.lower <= true) & (true <= found.upper)).all()
    assert (found.upper - found.lower < 5e-4).all()


def test_a_list_of_all_tokens_with_too_much_mass_is_divided_by_it():
    """A mass of 1 + 5e-5 is still taken as 1: the rest is then nothing, and not less."""
    draft = np.asarray([0.5, 0.3, 0.15, 0.05])
    for k in range(5):
        found = theory.partial_deviation(np.log(draft * (1.0 + 5e-5)), k, 4)
        exact = float(truncation.tail_deviation(draft)[k])
        assert (float(found.lower), float(found.upper)) == pytest.approx((exact, exact), rel=1e-12, abs=1e-14)


HALF, QUARTER = math.log(0.5), math.log(0.25)
GOOD = {
    "target_token": [0, 1],
    "target_log_probability": [HALF, QUARTER],
    "draft_token": [2, 1],
    "draft_log_probability": [HALF, QUARTER],
    "vocabulary": 5,
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target_log_probability": [HALF, math.log(0.6)]}, "target_log_probability must be in descending order"),
        (
            {"draft_log_probability": [math.log(0.7), math.log(0.4)]},
            "draft_log_probability must have a mass of at most 1",
        ),
        ({"draft_token": [2, 2]}, "draft_token must list each token once; got 2"),
        ({"target_token": [0, 5]}, r"target_token must be a token in 0..V-1 with V = 5"),
        ({"target_token": [-1, 1]}, r"target_token must be a token in 0..V-1"),
        ({"target_log_probability": [HALF, math.log(0.01)]}, "target_log_probability must leave a rest that fits"),
        ({"target_log_probability": [HALF]}, "target_token and target_log_probability must list the same tokens"),
        ({"target_log_probability": [0.5, 0.0]}, "target_log_probability must be logarithms of probabilities"),
        ({"vocabulary": 1}, r"must "),
        ({"vocabulary": 0}, "vocabulary must be a whole number"),
        ({"vocabulary": 2.5}, "vocabulary must be a whole number"),
        ({"draft_token": [[2, 1]] * 2, "target_token": [[0, 1]] * 3}, "leading dimensions must broadcast"),
    ],
)
def test_bad_lists_are_named(change, message):
    assert truncation.partial_distance(**GOOD).total_variation.upper > 0
    with pytest.raises(ValueError, match=message):
        truncation.partial_distance(**{**GOOD, **change})


def test_more_is_sent_than_is_listed():
    with pytest.raises(ValueError, match=r"^top_k must be a whole number in 0..V with V = 2"):
        theory.partial_deviation([HALF, QUARTER], 3, 5)
    with pytest.raises(ValueError, match=r"^top_k must be a whole number in 0..V with V = 2"):
        truncation.partial_bias(**GOOD, top_k=3)


def random_boxes(rng):
    size, width = int(rng.integers(1, 8)), rng.choice([0.0, 0.1, 0.5, 1.0])
    rows = rng.dirichlet([rng.choice([0.2, 1.0])] * size, size=2)
    return [
        end
        for row in rows
        for end in (row * (1 - width * rng.random(size)), np.minimum(row + width * rng.random(size), 1.0))
    ]


def inside(rng, low, high):
    """A row of the box: bounds are filled in random order, from the lower ones."""
    row, left = low.copy(), 1.0 - low.sum()
    for v in rng.permutation(len(low)):
        given = min(left, high[v] - low[v]) * (1.0 if rng.random() < 0.5 else rng.random())
        row[v], left = row[v] + given, left - given
    for v in rng.permutation(len(low)):
        given = min(left, high[v] - row[v])
        row[v], left = row[v] + given, left - given
    return row


def all_ends(boxes):
    return boxes.target.lower, boxes.target.upper, boxes.draft.lower, boxes.draft.upper, boxes.count


@pytest.mark.parametrize("seed", range(12))
def test_every_row_inside_has_its_deviation_and_its_bias_in_the_intervals(seed):
    rng = np.random.default_rng(seed)
    bounds = random_boxes(rng)
    for k in range(len(bounds[0]) + 1):
        deviation, bias = theory.box_deviation(*bounds[2:], k), theory.box_bias(*bounds, k)
        for _ in range(10):
            p, q = inside(rng, *bounds[:2]), inside(rng, *bounds[2:])
            assert deviation.lower - 1e-12 <= truncation.tail_deviation(q)[k] <= deviation.upper + 1e-12
            assert bias.lower - 1e-12 <= truncation.resampling_bias(p, q, k) <= bias.upper + 1e-12


@pytest.mark.parametrize("seed", range(8))
def test_a_row_that_is_known_leaves_nothing_open(seed):
    """On a coarse grid too, where entries are equal: the lower columns are sent."""
    p, q = random_pair(np.random.default_rng(seed))
    for k in range(len(p) + 1):
        deviation, bias = theory.box_deviation(q, q, k), theory.box_bias(p, p, q, q, k)
        assert float(deviation.lower) == pytest.approx(truncation.tail_deviation(q)[k], abs=1e-12)
        assert float(deviation.upper) == pytest.approx(truncation.tail_deviation(q)[k], abs=1e-12)
        assert bias.lower - 1e-12 <= truncation.resampling_bias(p, q, k) <= bias.upper + 1e-12
        if len(set(q)) == len(q):
            assert bias.upper == pytest.approx(truncation.resampling_bias(p, q, k), abs=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_lists_as_boxes_give_the_sharp_ends(seed):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 40))
    target, draft = rng.dirichlet(np.full(size, 0.3), size=2)
    k, j = rng.integers(0, min(size, 12) + 1, 2)
    given = lists(target, draft, k, j)
    boxes = theory.partial_boxes(*given)
    assert boxes.count.sum() == size
    found, sharp = theory.box_distance(*all_ends(boxes)), truncation.partial_distance(*given).total_variation
    assert float(found.lower) == pytest.approx(float(sharp.lower), abs=1e-12)
    assert sharp.upper - 1e-12 <= found.upper <= sharp.upper + 0.1
    for sent in range(j + 1):
        mine = theory.box_deviation(boxes.draft.lower, boxes.draft.upper, sent, boxes.count)
        best = theory.partial_deviation(given[3], sent, size)
        assert float(mine.lower) == pytest.approx(float(best.lower), abs=1e-12)
        assert float(mine.upper) == pytest.approx(float(best.upper), abs=1e-12)
        bias = theory.box_bias(*all_ends(boxes)[:4], sent, boxes.count)
        assert bias.lower - 1e-12 <= truncation.resampling_bias(target, draft, sent) <= bias.upper + 1e-12


@pytest.mark.parametrize("seed", range(8))
def test_rounded_lists_hold_the_truth(seed):
    """Half precision rounds by a share of the logarithm, so each entry has its own error."""
    target, draft = np.random.default_rng(seed).dirichlet(np.full(50, 0.3), size=(2, 4))
    (token, x), (token_q, y) = top(target, 9), top(draft, 7)
    half, half_q = np.float16(x).astype(float), np.float16(y).astype(float)
    boxes = theory.partial_boxes(token, half, token_q, half_q, 50, 2.0**-11 * -half + 1e-9, 2.0**-11 * -half_q + 1e-9)
    apart, true = theory.box_distance(*all_ends(boxes)), total_variation(target, draft)
    assert ((apart.lower <= true) & (true <= apart.upper)).all()
    deviation = theory.box_deviation(boxes.draft.lower, boxes.draft.upper, 3, boxes.count)
    assert (
        (deviation.lower <= truncation.tail_deviation(draft)[:, 3])
        & (truncation.tail_deviation(draft)[:, 3] <= deviation.upper)
    ).all()


@pytest.mark.parametrize("seed", range(8))
def test_a_column_of_several_tokens_is_as_many_columns(seed):
    rng = np.random.default_rng(seed)
    count = rng.integers(0, 4, 4) + (np.arange(4) == 0)
    full = np.repeat(np.arange(4), count)
    ends = []
    for row in rng.dirichlet(np.ones(len(full)), size=2):
        low = np.array([row[full == c].min() if count[c] else 0.25 for c in range(4)])
        high = np.array([row[full == c].max() if count[c] else 0.5 for c in range(4)])
        ends += [0.9 * low, np.minimum(1.1 * high, 1.0)]
    wide = [end[full] for end in ends]
    k = int(rng.integers(0, len(full) + 1))
    for mine, expanded in (
        (theory.box_distance(*ends, count), theory.box_distance(*wide)),
        (theory.box_deviation(*ends[2:], k, count), theory.box_deviation(*wide[2:], k)),
        (theory.box_bias(*ends, k, count), theory.box_bias(*wide, k)),
    ):
        assert float(mine.lower) == pytest.approx(float(expanded.lower), abs=1e-12)
        assert float(mine.upper) == pytest.approx(float(expanded.upper), abs=1e-12)
