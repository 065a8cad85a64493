"""The rules for k, against every k computed separately, and at the limits of every argument."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hlmtheory import truncation, verification
from hlmtheory._array import NUMPY
from hlmtheory._simplex import exact_sums
from hlmtheory.truncation._search.tails import Tails

from . import oracles
from .kinds import LIBRARIES, kind_of, numbers, to
from .public import theory
from .strategies import pairs, rows, vocabularies

P, Q = [0.5, 0.25, 0.25, 0.0], [0.625, 0.25, 0.125, 0.0]
ONE_HOT = [1.0, 0.0, 0.0, 0.0]


def drawn(seed, *shape, scale=3.0):
    rng = np.random.default_rng(seed)
    logits = rng.normal(scale=scale, size=shape)
    return verification.softmax(logits + rng.normal(size=shape)), verification.softmax(logits)


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
    found = truncation.certified_size(to(library, draft), to(library, [0.0, 0.1, 1.0, 2.0, 5.0]))
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


@given(st.data())
def test_the_size_with_rounding_is_the_least_of_all(data):
    draft = data.draw(rows((), data.draw(vocabularies())))
    bits = data.draw(st.integers(1, 12))
    bias = 2 * theory.message_deviation(draft, bits_per_probability=bits)
    tolerance = float(data.draw(st.sampled_from(bias.tolist()))) * (1 + 1e-9) + 1e-12
    k = int(truncation.certified_size(draft, tolerance, bits_per_probability=bits))
    assert bias[k] <= tolerance + 1e-12
    assert (bias[:k] > tolerance - 2e-12).all()


def test_too_few_bits_are_refused_with_what_they_can_do():
    with pytest.raises(ValueError, match=r"^bias_tolerance must be at least 0\.\d+ at row 1 .*4 bits .*more bits"):
        truncation.certified_size([ONE_HOT, [0.3, 0.26, 0.24, 0.2]], 1e-3, bits_per_probability=4)


@given(pairs(), st.floats(0.001, 0.9))
def test_leaps_miss_no_size(pair, tolerance):
    target, draft = (pair[name].reshape(-1, pair[name].shape[-1])[0] for name in ("target", "draft"))
    k = int(theory.exact_size(target, draft, tolerance))
    every = theory.resampling_distortion(target, draft, np.arange(len(draft) + 1))
    exists = verification.total_variation(target, truncation.truncate(draft, np.arange(len(draft) + 1))) > 1e-12
    slack = 1e-14 / max(float(verification.total_variation(target, draft)), 1e-300)
    assert (every[:k][exists[:k]] > tolerance - slack).all()
    assert every[k] <= tolerance + slack or not exists[k]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("sharp", [False, True])
def test_the_offline_size_against_every_size(library, sharp):
    target, draft = drawn(6, 3, 5, 70)
    sizes = np.arange(71)
    bound = truncation.tvd_bound(target[:, :, None], draft[:, :, None], sizes).mean(axis=1) / (2 if sharp else 1)
    for tolerance in (0.05, 0.3, 2.0):
        found = truncation.offline_size(to(library, target), to(library, draft), tolerance, sharp=sharp)
        assert numbers(found).tolist() == np.argmax(bound <= tolerance, axis=-1).tolist()
    near, draft = [[0.5, 0.5, 5e-313, 0.0]], [[0.5, 0.5, 0.0, 0.0]]  # at a distance whose inverse is infinite
    assert truncation.offline_size(to(library, near), to(library, draft), 0.1, sharp=sharp) == 2


def test_equal_rows_leave_the_offline_bound_undefined():
    words = r"^draft must differ from target, or the bound is undefined; they agree at token 1 .*leave such tokens out"
    with pytest.raises(ValueError, match=words):
        truncation.offline_size([P, Q], [Q, Q], 0.1)


@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0])
def test_the_online_size_against_every_size(beta):
    _, draft = drawn(8, 50)
    for sharpness, tolerance in ((0.5, 0.1), (5.0, 0.3), (50.0, 0.9), (5.0, 0.0), (5.0, 5.0)):
        bound = truncation.online_bound(draft, 3, beta, np.arange(51), sharpness=sharpness)
        k = int(truncation.online_size(draft, 3, beta, tolerance, sharpness=sharpness))
        assert bound[k] <= tolerance + 1e-12
        assert k == 0 or bound[k - 1] > tolerance - 1e-12


@pytest.mark.parametrize("scale", [1.0, 3.0, 6.0])
def test_leaps_by_the_set_miss_no_size_of_a_wide_row(scale):
    p, q = drawn(23, 3, 1200, scale=scale)
    for tolerance in (0.02, 0.1, 0.3):
        distortions = (theory.resampling_distortion(*row, np.arange(1201)) for row in zip(p, q, strict=True))
        expected = [int(np.argmax(found <= tolerance)) for found in distortions]
        assert theory.exact_size(p, q, tolerance).tolist() == expected


def test_a_residual_that_cannot_be_normalised_is_left_to_the_bound():
    draft = np.array([1.0, 1e-102, 1e-137, 1e-155, 1e-310])
    target = np.array([1.0, 3e-103, 2e-138, 6e-156, 4e-310])
    deviation = truncation.tail_deviation(draft)
    apart = float(verification.total_variation(target, draft))
    assert int(theory.exact_size(target, draft, 0.3)) == int(np.argmax(deviation <= 0.3 * apart))
    assert int(theory.exact_size([1.0, 0.0], [1.0, 5e-324], 0.5)) == 0


@pytest.mark.parametrize("size", [6000, 32_000])
@pytest.mark.parametrize("larger", [1, 2000])
def test_a_tail_of_many_entries_is_summed_to_few_roundings(size: int, larger: int):
    """The server's tail equals p: r̂ is 0/0, and the distortion is 1, not rounding noise."""
    draft, target = np.ones(size), np.full(size, 1.0 / size)
    draft[:larger] = 1.001
    assert theory.exact_size(target, draft / draft.sum(), 0.5) > 0


@pytest.mark.parametrize(
    ("target", "draft", "tolerance", "size"),
    [
        ([1.0, 0.0, 4e-310, 0.0, 0.0], [1.0, 4e-310, 0.0, 0.0, 0.0], 0.1, 2),
        ([0.5, 0.5, 0.0, 0.0, 0.0], [1.0, 4e-323, 0.0, 0.0, 0.0], 1e-323, 1),
    ],
)
def test_deviations_below_the_normal_numbers(target: list[float], draft: list[float], tolerance: float, size: int):
    assert theory.exact_size(target, draft, tolerance) == size


NEARLY = Fraction(1, 2**40)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_certified_size_is_certified_exactly(dtype):
    """At tolerances slightly below, at and slightly above 2 Δ_k."""
    for row in np.random.default_rng(1).dirichlet(np.ones(7), 30).astype(dtype):
        exact = oracles.over_its_sum(row)
        every = [2 * oracles.deviation(exact, k) for k in range(8)]
        for share in (1 - 1e-9, 1 + 1e-9):
            for tolerance in (share * float(value) for value in every[:6]):
                k = int(truncation.certified_size(row, tolerance))
                assert every[k] <= tolerance * (1 + NEARLY)
                assert k == 0 or every[k - 1] > tolerance * (1 - NEARLY)


def nearly_even(seed, count, size, unit=2.0**-52):
    """Rows whose entries differ by a few units in the last place, and sum to exactly 1."""
    steps = np.random.default_rng(seed).integers(-40, 40, (count, size))
    steps[:, 0] -= steps.sum(-1)
    return 1.0 / size + unit * steps


def test_a_tolerance_of_a_few_roundings_is_kept():
    rows = nearly_even(8, 20, 16)
    for tolerance in (0.0, 1e-16, 1e-15, 1e-14, 1e-12):
        for row, k in zip(rows, truncation.certified_size(rows, tolerance).tolist(), strict=True):
            exact = oracles.over_its_sum(row)
            assert 2 * oracles.deviation(exact, k) <= Fraction(tolerance)


@pytest.mark.parametrize("size", [5, 64, 300, 1500])
def test_a_deviation_is_rounded_by_less_than_is_counted(size):
    """All k of a flat row, of a peaked row, and of a row whose entries differ by units in the last place."""
    rng = np.random.default_rng(size)
    peaked = verification.softmax(rng.normal(scale=3.0, size=size))
    flat = rng.dirichlet(np.full(size, 50.0))
    sizes = np.unique(np.linspace(0, size, 7).astype(np.int64))[None]
    for row in (peaked, flat, 1.0 / size + 2.0**-60 * rng.integers(-9, 9, size)):
        own = Tails.of(NUMPY, row)
        ordered = sorted((Fraction(x) for x in row.tolist()), reverse=True)
        for k, found, slack in zip(sizes[0], *(values[0] for values in own.deviation(sizes)), strict=True):
            tail = ordered[k:]
            mean = sum(tail) / max(len(tail), 1)
            exact = sum(max(x - mean, 0) for x in tail)
            assert abs(Fraction(found) - exact) <= Fraction(slack)


@pytest.mark.parametrize("size", [1, 2, 31, 33, 1000, 1025, 33_000])
def test_sums_are_exact_and_rounded_once(size: int) -> None:
    rng = np.random.default_rng(size)
    tiny = np.where(rng.random((8, size)) < 0.01, 1.0, 2.0**-53)  # near the ends of the intervals that round alike
    spread = rng.integers(0, 3, (8, size)) * 2.0 ** -rng.integers(0, 1074, (8, size)).astype(float)
    for batch in (rng.random((8, size)), rng.dirichlet(np.full(size, 0.05), 8), tiny, spread, np.zeros((8, size))):
        assert exact_sums(batch).tolist() == [math.fsum(row.tolist()) for row in batch]
    assert exact_sums(np.ones((2, 0, size))).shape == (2, 0)
