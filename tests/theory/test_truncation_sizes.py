"""The rules for k, against every k computed separately, and at the limits of every argument."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hlmtheory import truncation, verification
from hlmtheory._array import NUMPY
from hlmtheory.truncation._search.pairs import SHORT, SortedPair
from hlmtheory.truncation._search.tails import Tails
from hlmtheory.truncation.reconstruction import NOISE

from .kinds import LIBRARIES, kind_of, numbers, to
from .strategies import pairs, rows, vocabularies

P, Q = [0.5, 0.25, 0.25, 0.0], [0.625, 0.25, 0.125, 0.0]
ONE_HOT = [1.0, 0.0, 0.0, 0.0]


def drawn(seed, *shape, scale=3.0):
    """Pairs of rows similar to a model's."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(scale=scale, size=shape)
    return verification.softmax(logits + rng.normal(size=shape)), verification.softmax(logits)


def is_least(bounds, k, limit, slack=1e-12):
    """Assert that k is the first that meets the limit, up to rounding."""
    assert bounds[k] <= limit + slack
    assert k == 0 or bounds[k - 1] > limit - slack


# ------------------------------------------------------------------------------------------------- certified_size


@given(st.data())
def test_the_certified_size_is_the_least(data):
    draft = data.draw(rows((), data.draw(vocabularies())))
    tolerance = data.draw(st.one_of(st.sampled_from((0.0, 1.0, 2.0)), st.floats(1e-9, 1.5)))
    is_least(2 * truncation.tail_deviation(draft), int(truncation.certified_size(draft, tolerance)), tolerance)


@pytest.mark.parametrize("size", [63, 64, 65, 1000, 4096, 33_000])
def test_a_wide_row_is_searched_in_few_rounds(size):
    _, draft = drawn(size, 3, size)
    deviation = 2 * truncation.tail_deviation(draft)
    for tolerance in (1e-9, 0.01, 0.1, 0.5, 1.0):
        for row, k in zip(deviation, truncation.certified_size(draft, tolerance), strict=True):
            is_least(row, int(k), tolerance)


def test_the_tails_agree_with_all_deviations():
    _, draft = drawn(4, 5, 777)
    sizes = np.broadcast_to(np.arange(778), (5, 778))
    np.testing.assert_allclose(
        Tails.of(NUMPY, draft).deviation(sizes)[0], truncation.tail_deviation(draft), rtol=1e-12, atol=1e-16
    )


def test_a_small_tail_keeps_its_digits_in_the_search():
    draft = np.array([0.5, 0.5, 3e-300, 1e-300, 0.0])
    assert truncation.certified_size(draft, [0.0, 1e-301, 1.1e-300, 4e-300]).tolist() == [4, 4, 3, 2]
    assert truncation.certified_size([1.0, 5e-324, 0.0, 0.0], [0.0, 1e-323]).tolist() == [2, 1]


SIZES = {
    # row: sizes at tolerance 0, 0.1, 1, 2 and 5
    "one token": ([1.0], [0, 0, 0, 0, 0]),
    "two tokens": ([0.75, 0.25], [1, 1, 0, 0, 0]),
    "two equal": ([0.5, 0.5], [0, 0, 0, 0, 0]),
    "one-hot": (ONE_HOT, [1, 1, 1, 0, 0]),
    "ties": ([0.25, 0.25, 0.25, 0.25, 0.0, 0.0], [4, 4, 0, 0, 0]),
    "zero tail": ([0.5, 0.25, 0.25, 0.0, 0.0], [3, 3, 0, 0, 0]),
    "uniform": ([0.25] * 4, [0, 0, 0, 0, 0]),
}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("case", SIZES)
def test_sizes_at_the_edges(case, library):
    draft, expected = SIZES[case]
    tolerance = to(library, [0.0, 0.1, 1.0, 2.0, 5.0])
    found = truncation.certified_size(to(library, draft), tolerance)
    assert (kind_of(found), numbers(found).tolist()) == ((library, "int64"), expected)


@pytest.mark.parametrize("library", LIBRARIES)
def test_many_tolerances_of_each_row(library):
    """Each row is sorted once and bisected for all tolerances; the sizes are those of one call for each tolerance."""
    draft = drawn(2, 5, 60)[1]
    each = np.array([[0.0, 0.01, 0.3, 2.0]]) * np.linspace(0.5, 1.5, 5)[:, None]
    for tolerance in (each, each[0]):
        found = numbers(truncation.certified_size(to(library, draft[:, None, :]), to(library, tolerance)))
        alone = [truncation.certified_size(draft, tolerance[..., i]) for i in range(4)]
        assert found.T.tolist() == [one.tolist() for one in alone]
    assert truncation.certified_size(np.zeros((0, 1, 4)), [0.1, 0.2]).shape == (0, 2)
    assert truncation.certified_size(Q, np.zeros((2, 0))).shape == (2, 0)


# -------------------------------------------------------------------------------------------------- with rounding


@given(st.data())
def test_the_size_with_rounding_is_the_least_of_all(data):
    draft = data.draw(rows((), data.draw(vocabularies())))
    bits = data.draw(st.integers(1, 12))
    bias = 2 * truncation.message_deviation(draft, bits_per_probability=bits)
    tolerance = float(data.draw(st.sampled_from(bias.tolist()))) * (1 + 1e-9) + 1e-12
    k = int(truncation.certified_size(draft, tolerance, bits_per_probability=bits))
    assert bias[k] <= tolerance + 1e-12
    assert (bias[:k] > tolerance - 2e-12).all()


@pytest.mark.parametrize(
    ("draft", "bias", "k"),
    [([0.5, 0.5, 0, 0, 0], 0.45, 5), ([1 / 3, 1 / 3, 1 / 3, 0, 0], 1e-12, 3), ([0.2] * 5, 1e-12, 0)],
)
def test_the_size_with_rounding_may_be_all_or_all_that_are_not_0(draft, bias, k):
    assert int(truncation.certified_size(draft, bias, bits_per_probability=2)) == k


def test_many_bits_of_a_wide_row_take_little_memory():
    _, draft = drawn(12, 1, 32_000)
    _, other = drawn(13, 2, 32_000)
    tracemalloc.start()
    try:
        found = truncation.certified_size(draft, 0.1, bits_per_probability=16)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8e6
    bias = 2 * truncation.message_deviation(draft[0], bits_per_probability=16)
    assert int(found[0]) == int(np.argmax(bias <= 0.1))
    beside = truncation.certified_size(np.concatenate([draft, other]), 0.1, bits_per_probability=16)
    assert beside[0] == found[0]  # for any other rows in the batch


def test_too_few_bits_are_refused_with_what_they_can_do():
    with pytest.raises(ValueError, match=r"^bias_tolerance must be at least 0\.\d+ at row 1 .*4 bits .*more bits"):
        truncation.certified_size([ONE_HOT, [0.3, 0.26, 0.24, 0.2]], 1e-3, bits_per_probability=4)


# ----------------------------------------------------------------------------------------------------- exact_size


def scanned(p, q, tolerance):
    """Return the smallest k, by resampling_distortion of every k."""
    return int(np.argmax(truncation.resampling_distortion(p, q, np.arange(len(q) + 1)) <= tolerance))


@given(pairs(), st.floats(0.001, 0.9))
def test_leaps_miss_no_size(pair, tolerance):
    target, draft = (pair[name].reshape(-1, pair[name].shape[-1])[0] for name in ("target", "draft"))
    k = int(truncation.exact_size(target, draft, tolerance))
    every = truncation.resampling_distortion(target, draft, np.arange(len(draft) + 1))
    exists = verification.total_variation(target, truncation.truncate(draft, np.arange(len(draft) + 1))) > 1e-12
    slack = 1e-14 / max(float(verification.total_variation(target, draft)), 1e-300)
    assert (every[:k][exists[:k]] > tolerance - slack).all()
    assert every[k] <= tolerance + slack or not exists[k]


@pytest.mark.parametrize("library", LIBRARIES)
def test_exact_sizes_of_many_tolerances_are_those_of_each(library):
    p, q = drawn(14, 3, 50)
    tolerances = np.array([0.02, 1.0, 0.3, 0.02, 0.7])
    found = truncation.exact_size(to(library, p[:, None]), to(library, q[:, None]), to(library, tolerances))
    assert kind_of(found) == (library, "int64")
    expected = [[scanned(*row, theta) for theta in tolerances] for row in zip(p, q, strict=True)]
    assert numbers(found).tolist() == expected


def test_equal_entries_are_sent_by_lowest_index():
    target, draft = np.array([6, 4, 2, 3, 3, 0]) / 18, np.array([0.4, 0.2, 0.2, 0.1, 0.1, 0.0])
    assert int(truncation.exact_size(target, draft, 0.201)) == 2
    assert int(truncation.exact_size(target[[0, 2, 1, 4, 3, 5]], draft, 0.201)) == 3


def test_an_even_tail_is_enough_whatever_rounding_makes_of_the_distortion():
    """From that k on the exact distortion is 0; the computed one is 0 at some k and 1e-17 at others."""
    target, draft = drawn(40, 300, 12)
    draft = -np.sort(-draft)
    draft[:, 3:] = draft[:, 3:4]
    draft /= draft.sum(-1, keepdims=True)
    assert int(truncation.exact_size(target, draft, 0.0).max()) == 3


def test_any_residual_is_near_enough_for_a_tolerance_of_1():
    """The residuals are disjoint, and their computed distance rounds to more than 1."""
    target = [0.16648661030274356, 0.12839979271407118, 0.654696514824452, 0.05041708215873321]
    draft = [0.09466298102688141, 0.07402159006992894, 0.8281244946290148, 0.0031909342741749266]
    assert truncation.exact_size(target, draft, [1.0, 2.0]).tolist() == [0, 0]


def test_the_exact_size_where_the_distortion_rises():
    """The distortion is 0 at k = 0 and 0.8 at k = 1: bisection could miss k = 0."""
    draft, target = np.array([21, 13, 5]) / 39, np.array([22, 13, 4]) / 39
    assert int(truncation.exact_size(target, draft, 0.1)) == 0


@given(pairs())
def test_the_exact_size_never_exceeds_what_the_bound_allows(pair):
    k = truncation.exact_size(**pair, distortion_tolerance=0.2)
    apart = verification.total_variation(**{"p": pair["target"], "q": pair["draft"]})
    certain = np.count_nonzero(truncation.tail_deviation(pair["draft"]) > 0.2 * apart[..., None], axis=-1)
    # equal deviations may differ by a rounding, magnified where the rows nearly agree
    assert ((k <= certain) | (apart < 1e-9)).all()


def test_equal_rows_need_nothing():
    assert int(truncation.exact_size(Q, Q, 0.0)) == 0
    assert int(truncation.exact_size([1.0], [1.0], 0.0)) == 0


# ---------------------------------------------------------------------------------------------------- offline_size


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("sharp", [False, True])
def test_the_offline_size_against_every_size(library, sharp):
    target, draft = drawn(6, 3, 5, 70)
    sizes = np.arange(71)
    bound = truncation.tvd_bound(target[:, :, None], draft[:, :, None], sizes).mean(axis=1) / (2 if sharp else 1)
    for tolerance in (0.05, 0.3, 2.0):
        found = truncation.offline_size(to(library, target), to(library, draft), tolerance, sharp=sharp)
        assert numbers(found).tolist() == np.argmax(bound <= tolerance, axis=-1).tolist()


@pytest.mark.parametrize("first", [0, 1])
def test_of_two_rows_neither_decides_alone(first):
    """One entry of the one-hot row costs nothing, one of the other row 0.4 of its distance: 0.2 on average."""
    draft = np.array([[1.0, 0.0, 0.0, 0.0], [0.4, 0.3, 0.2, 0.1]])
    target = draft[::-1]
    bounds = 2 * truncation.tail_deviation(draft) / verification.total_variation(target, draft)[:, None]
    order = [first, 1 - first]
    for tolerance in np.linspace(0.02, 1.5, 38):
        least = int(np.argmax(bounds.mean(axis=0) <= tolerance))
        assert int(truncation.offline_size(target[order], draft[order], tolerance)) == least


def test_equal_rows_leave_the_offline_bound_undefined():
    words = r"^draft must differ from target, or the bound is undefined; they agree at token 1 .*leave such tokens out"
    with pytest.raises(ValueError, match=words):
        truncation.offline_size([P, Q], [Q, Q], 0.1)


# ----------------------------------------------------------------------------------------------------- online sizes


@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0])
def test_the_online_size_against_every_size(beta):
    _, draft = drawn(8, 50)
    for sharpness, tolerance in ((0.5, 0.1), (5.0, 0.3), (50.0, 0.9), (5.0, 0.0), (5.0, 5.0)):
        bound = truncation.online_bound(draft, 3, beta, np.arange(51), sharpness=sharpness)
        is_least(bound, int(truncation.online_size(draft, 3, beta, tolerance, sharpness=sharpness)), tolerance)


# ------------------------------------------------------------------------------------------- few passes, few calls


def test_a_search_that_the_borders_lead_astray_is_made_again():
    """Blocks of equal entries: the search meets many ties."""
    draft = np.array([[0.5 / 32] * 32 + [0.5 / 96] * 64 + [0.5 / 96] * 32])
    for tolerance in np.linspace(0.0, 0.99, 23):
        expected = int(np.argmax(2 * truncation.tail_deviation(draft[0]) <= tolerance))
        assert int(truncation.certified_size(draft, tolerance)[0]) == expected


@pytest.mark.parametrize("size", [300, 512, 700])
@pytest.mark.parametrize("scale", [0.3, 1.0, 3.0])
def test_the_blocks_of_a_wide_message_rule_no_size_out(size, scale):
    _, draft = drawn(22, 9, size, scale=scale)
    for bits in (10, 12, 16):
        bias = 2 * truncation.message_deviation(draft, bits_per_probability=bits)
        for share in (1e-6, 0.01, 0.1, 0.5, 0.9):
            tolerance = bias.min(-1) + share * (bias.max(-1) - bias.min(-1))
            found = truncation.certified_size(draft, tolerance, bits_per_probability=bits)
            assert found.tolist() == np.argmax(bias <= tolerance[:, None], axis=-1).tolist()


@pytest.mark.parametrize("scale", [1.0, 3.0, 6.0])
def test_leaps_by_the_set_miss_no_size_of_a_wide_row(scale):
    p, q = drawn(23, 3, 2500, scale=scale)
    for tolerance in (0.02, 0.1, 0.3):
        expected = [scanned(*row, tolerance) for row in zip(p, q, strict=True)]
        assert truncation.exact_size(p, q, tolerance).tolist() == expected


def test_a_residual_that_cannot_be_normalised_is_left_to_the_bound():
    draft = np.array([1.0, 1e-102, 1e-137, 1e-155, 1e-310])
    target = np.array([1.0, 3e-103, 2e-138, 6e-156, 4e-310])
    deviation = truncation.tail_deviation(draft)
    apart = float(verification.total_variation(target, draft))
    assert int(truncation.exact_size(target, draft, 0.3)) == int(np.argmax(deviation <= 0.3 * apart))
    assert int(truncation.exact_size([1.0, 0.0], [1.0, 5e-324], 0.5)) == 0


# --------------------------------------------------------------------------------- what the scan for the exact k skips


def first_by_scan(p, q, tolerance, stop):
    """Return the first k before ``stop`` that meets a tolerance, by computing every k."""
    pair = SortedPair.of(p, q)
    return next((k for k in range(stop) if pair.distortion(k)[0] <= tolerance), stop)


@pytest.mark.parametrize(("scale", "noise"), [(1.0, 1.0), (0.5, 0.3), (1.5, 2.0)])
def test_sizes_are_ruled_out_by_the_thousand_and_rightly(scale, noise, monkeypatch):
    """A flat wide row: the distortion is computed at few k only."""
    looked, distortion = [], SortedPair.distortion
    rng = np.random.default_rng(31)
    logits = rng.normal(scale=scale, size=6000)
    q, p = verification.softmax(logits), verification.softmax(logits + noise * rng.normal(size=6000))
    for tolerance in (0.1, 0.05):
        looked.clear()
        with monkeypatch.context() as patched:
            patched.setattr(SortedPair, "distortion", lambda self, k: looked.append(k) or distortion(self, k))
            k = int(truncation.exact_size(p, q, tolerance))
        assert len(looked) <= 80
        assert first_by_scan(p, q, tolerance, k + 1) == k


@pytest.mark.parametrize("starved", [False, True])
@pytest.mark.parametrize("size", [3, 40, 200])
def test_no_size_that_meets_the_tolerance_is_ruled_out(size, starved):
    """From every k, at every tolerance that it misses, against all distortions."""
    rng = np.random.default_rng(size)
    for scale in (0.3, 1.0, 3.0):
        logits = rng.normal(scale=scale, size=size)
        q, p = verification.softmax(logits), verification.softmax(logits + rng.normal(size=size))
        if scale == 0.3:  # ties
            q = np.floor(q * size * 4) + 1.0
            q /= q.sum()
        if starved:  # the first sent entries do not help the target
            p[np.argsort(-q)[: size // 2]] = 0.0
            p /= p.sum()
        pair, ruled_out = SortedPair.of(p, q), 0
        every, masses = np.array([pair.distortion(k) for k in range(size)]).T
        for k in range(size):
            risen = np.maximum(pair.q[k : size - 1] - pair.mean(k), 0.0).cumsum()  # TV(q̂_k, q̂_n) for n = k + 1, ...
            for theta in np.unique(np.append(0.0, every[every < every[k]])):
                count = pair._ruled_out(theta, k, size, every[k], masses[k])
                assert (every[k + 1 : k + 1 + count] > theta).all()
                assert count == np.count_nonzero(risen < (every[k] - theta - SHORT) * masses[k] - 2.0**-48)
                ruled_out += count
            count = pair._ruled_out(0.0, k, size, every[k], masses[k])
            for enough in range(k + 1, k + 2 + count):  # all sizes before the one that is known to meet it
                assert pair._ruled_out(0.0, k, enough, every[k], masses[k]) == enough - k - 1
        assert ruled_out > 0 or size < 9


def test_a_distortion_is_at_most_1_whatever_the_rounding():
    """p exceeds q where it is small, and the mean where q is large: r and r̂_0 have no token in common."""
    rng, mean = np.random.default_rng(0), 1 / 9
    for q in rng.dirichlet(np.full(9, 0.5), size=500):
        below, above = np.where(q < mean, mean - q, 0.0), np.where(q > mean, q - mean, 0.0)
        p = q + 0.5 * below * rng.random(9)
        p -= above * (p.sum() - 1.0) / above.sum()
        assert 1.0 - 1e-12 < SortedPair.of(p, q).distortion(0)[0] <= 1.0


def test_a_size_that_the_bound_allows_is_found():
    """A tolerance of 0 with a uniform tail, and distributions that differ by roundings."""
    target, draft = drawn(38, 3000, scale=1.0)
    assert int(truncation.exact_size(target, np.full(3000, 1 / 3000), 0.0)) == 0
    even = -np.sort(-draft)
    even[1000:] = even[1000:].mean()
    assert int(truncation.exact_size(target, even, 0.0)) == 1000
    near = draft * (1 + 2.0**-50 * np.random.default_rng(38).integers(-4, 5, 3000))
    size = int(truncation.exact_size(near, draft, 0.5))
    apart = 0.5 * float(np.abs(near - draft).sum())
    assert 0 < apart < NOISE
    assert size == int(np.argmax(truncation.tail_deviation(draft) <= 0.5 * apart))


@pytest.mark.parametrize("share", [1e-9, 1e-3, 1e3, 1e9])
def test_some_entries_that_are_unlike_the_others_mislead_no_search(share):
    """Every third entry is much smaller or larger than the others."""
    p, q = drawn(37, 2, 6000, scale=1.0)
    for rows_ in (p, q):
        rows_[:, ::3] *= share
        rows_ /= rows_.sum(-1, keepdims=True)
    q[1, np.arange(q.shape[-1]) % 3 > 0] = 0.0  # here all other entries are 0
    q[1] /= q[1].sum()
    for row in zip(p, q, strict=True):
        for tolerance, k in zip((0.3, 0.05), truncation.exact_size(*row, [0.3, 0.05]).tolist(), strict=True):
            pair = SortedPair.of(*row)
            allowed = truncation.tail_deviation(row[1]) <= tolerance * pair.apart * (1 + 1e-9)
            assert pair.distortion(k)[0] <= tolerance or allowed[k]
            assert k == 0 or not allowed[k - 1]
            for size in {*range(0, k, 1 + k // 40), *range(max(0, k - 20), k)}:
                assert pair.distortion(size)[0] > tolerance


# ------------------------------------------------------------------------------------------------- few rows and many


def test_an_even_row_deviates_by_nothing_offline_either():
    """Although its mean, a quotient of sums, is often a rounding below its entries."""
    for size in range(2, 300, 3):
        draft = np.full((1, size), 1.0 / size)
        target = np.append(draft[0, 0] + draft[0, -1], np.append(draft[0, 1:-1], 0.0))[None]
        assert int(truncation.offline_size(target, draft, 0.0)) == 0


@pytest.mark.parametrize("size", [6000, 32_000])
@pytest.mark.parametrize("larger", [1, 2000])
def test_a_tail_of_many_entries_is_summed_to_few_roundings(size: int, larger: int):
    """The server's tail equals p: r̂ is 0/0, and the distortion is 1, not rounding noise."""
    draft, target = np.ones(size), np.full(size, 1.0 / size)
    draft[:larger] = 1.001
    assert truncation.exact_size(target, draft / draft.sum(), 0.5) > 0


@pytest.mark.parametrize(
    ("target", "draft", "tolerance", "size"),
    [
        ([1.0, 0.0, 4e-310, 0.0, 0.0], [1.0, 4e-310, 0.0, 0.0, 0.0], 0.1, 2),
        ([0.5, 0.5, 0.0, 0.0, 0.0], [1.0, 4e-323, 0.0, 0.0, 0.0], 1e-323, 1),
    ],
)
def test_deviations_below_the_normal_numbers(target: list[float], draft: list[float], tolerance: float, size: int):
    assert truncation.exact_size(target, draft, tolerance) == size


def test_a_row_that_sums_to_one_is_not_divided_beside_one_that_does_not():
    same, even = np.array([0.7, 0.2, 0.1]), np.full(3, 1.0 / 3.0)  # .7 + .2 + .1 is 1 - 2⁻⁵³
    other = even + np.array([1e-9, 0.0, 0.0])
    assert truncation.exact_size(np.stack([same, other]), np.stack([same, even]), 0.1).tolist()[0] == 0
    rows = np.random.default_rng(1).dirichlet(np.ones(300), 4)
    assert truncation.exact_size(np.asfortranarray(rows), rows, 0.1).tolist() == [0] * 4
