"""The same code runs for numpy, torch and any other array library."""

import array_api_strict
import numpy as np
import pytest
import torch

from hlmtheory import _array, truncation, verification
from hlmtheory._array import arrays
from hlmtheory.skipping.risk import tokens_and_line

from .kinds import LIBRARIES, kind_of, numbers, to
from .public import theory

libraries = pytest.mark.parametrize("library", LIBRARIES)


@libraries
def test_an_array_is_passed_on_uncopied(library):
    value = to(library, [1.0, 2.0])
    assert arrays(a=value)[1] is value


@pytest.mark.parametrize("pair", [("numpy", "torch"), ("torch", "strict"), ("strict", "numpy")], ids="+".join)
def test_two_libraries_are_refused(pair):
    full = {"numpy": r"numpy\.ndarray", "torch": r"torch\.Tensor", "strict": r"array_api_strict\..*Array"}
    words = rf"two libraries in one call: a is a {full[pair[0]]}, b is a {full[pair[1]]}; convert one of them"
    with pytest.raises(TypeError, match=words):
        arrays(a=to(pair[0], 1.0), b=to(pair[1], 1.0), c=3)


def test_two_devices_are_refused_by_name():
    here = array_api_strict.asarray([1.0])
    there = array_api_strict.asarray([1.0], device=array_api_strict.Device("device1"))
    with pytest.raises(TypeError, match=r"two devices in one call: .*'there'.*device1.*; move one of them"):
        arrays(here=here, there=there)


def test_a_number_goes_where_the_array_is():
    there = array_api_strict.asarray([1.0], device=array_api_strict.Device("device1"))
    assert arrays(there=there, number=2.0)[2].device == there.device


ROW = torch.tensor([[0.5, 0.25, 0.25]], dtype=torch.float64)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ROW.to_sparse(), r"a dense array; got the layout torch\.sparse_coo; give its \.to_dense\(\)"),
        (lambda: ROW.to_sparse_csr(), r"a dense array; got the layout torch\.sparse_csr; give its \.to_dense\(\)"),
        (lambda: torch.nested.nested_tensor([ROW[0], ROW[0]]), r"a dense array; got a nested tensor; give"),
        (lambda: ROW.to("meta"), "values; got a tensor on the meta device; load it"),
        (lambda: ROW.to(torch.float8_e4m3fn), r"16 bits a number or more; got torch\.float8_e4m3fn; give its \.to\("),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")  # torch calls some of these kinds new
def test_tensors_without_a_number_of_16_bits_in_each_place_are_refused(make, message):
    value = make()
    for beside in (ROW, [[0.5, 0.25, 0.25]]):
        with pytest.raises(TypeError, match=f"^target must (be|hold|have) {message}"):
            verification.acceptance_rate(value, beside)
    with pytest.raises(TypeError, match=r"^the array must"):
        _array.to_numpy(value)


@pytest.mark.parametrize("depth", [70, 3_000, 100_000])
def test_lists_that_are_nested_too_deep_are_refused(depth):
    deep = 1.0
    for _ in range(depth):
        deep = [deep]
    with pytest.raises(ValueError, match=r"^target must be numbers in lists of one length; got"):
        verification.acceptance_rate(deep, [0.5, 0.5])


def test_functions_work_where_the_array_is():
    device = array_api_strict.Device("device1")
    p, q = (array_api_strict.asarray(row, device=device) for row in ([0.25, 0.5, 0.25], [0.5, 0.25, 0.25]))
    results = [
        verification.output_distribution(p, q, skip=0.5),
        theory.greedy_output_distribution(p, q),
        truncation.truncate(q, 1),
        truncation.tail_deviation(q),
        theory.resampling_distortion(p, q, 1),
        truncation.resampling_bias(p, q, 1),
        truncation.tvd_bound(p, q, 1),
        theory.tvd_bound_sharp(p, q, 1),
        verification.expected_tokens(p, 3),
    ]
    assert {result.device for result in results} == {device}


@pytest.mark.parametrize(
    ("dtypes", "wide"),
    [
        (["float32"], "float32"),
        (["float64"], "float64"),
        (["float32", "float64"], "float64"),
        (["int64"], "float64"),
        (["int64", "float32"], "float32"),
    ],
    ids=lambda value: value if isinstance(value, str) else "+".join(value),
)
@libraries
def test_the_common_floating_type(library, dtypes, wide):
    values = [to(library, [1, 0], dtype) for dtype in dtypes]
    xp, *_ = arrays(value=values[0])
    assert {kind_of(value) for value in _array.floating(xp, *values)} == {(library, wide)}


@libraries
@pytest.mark.parametrize("number", [0.1, np.float64(0.1), [0.1]], ids=["float", "numpy", "list"])
def test_a_number_that_must_be_exact_is_not_narrowed(library, number):
    row = to(library, [0.5, 0.5], "float32")
    _, given_array, exact, whole, narrow = arrays("b", "c", a=row, b=number, c=3, d=number)
    assert given_array is row
    assert (kind_of(exact), kind_of(narrow)) == ((library, "float64"), (library, "float32"))
    assert numbers(exact).reshape(-1).tolist() == [0.1]
    assert numbers(narrow).reshape(-1).tolist() == [float(np.float32(0.1))]
    assert (kind_of(whole)[0], int(whole)) == (library, 3)


@libraries
@pytest.mark.parametrize("size", [1, 63, 64, 65, 129, 1000])
def test_tails_of_every_length(library, size):
    """Tails that end before, at and after the borders of the blocks."""
    row = np.random.default_rng(size).random((2, size))
    xp, values = arrays(values=to(library, row))
    expected = [[np.sum(one[k:]) for k in range(size + 1)] for one in row]
    np.testing.assert_allclose(numbers(_array.tail_sums(xp, values)), expected, rtol=1e-13)


def test_a_line_beside_float32_keeps_its_coefficients():
    """Intercept and slope as Python numbers give the same result with float32 rows as with float64 rows."""
    narrow = np.array([0.1, 0.35, 0.55]).astype(np.float32)
    for tokens in (narrow, narrow.astype(np.float64)):
        _, u, *_, a, b, delta = tokens_and_line(tokens, tokens, 0.7, -0.1, 0.3)
        assert [float(value[0]) for value in (a, b, delta)] == [0.7, -0.1, 0.3]
        assert u.dtype == np.float64
