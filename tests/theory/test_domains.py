"""The values that are accepted and refused, and the messages of the refusals."""

import numpy as np
import pytest

from hlmtheory import _domains
from hlmtheory._array import arrays
from hlmtheory._domains import SIMPLEX, DomainError

from .kinds import LIBRARIES, to

NAN, INF = float("nan"), float("inf")
libraries = pytest.mark.parametrize("library", LIBRARIES)


def check(domain, value, name="x"):
    xp, value = arrays(value=value)
    return domain.check(xp, name, value)


INSIDE = {
    "SIMPLEX": [[1.0], [0.5, 0.5], [[1.0, 0.0], [0.0, 1.0]], [1.0, -0.0], [1 - 5e-324, 5e-324], [1, 0]],
    "LOGITS": [[0.0, -1e300], [[1.0], [2.0]], [3, 4]],
    "UNIT_INTERVAL": [0.0, 1.0, 5e-324, [0.0, 1.0], [[0.5]], 1, -0.0, []],
    "COUNT": [0, 7, [0, 2**62], []],
}
OUTSIDE = {
    "SIMPLEX": [[0.5, 0.5 - 2e-4], [2.0, -1.0], [NAN, 1.0], [INF, 0.0], [-INF, INF], [], 1.0, [0.0, 0.0], [2, -1]],
    "LOGITS": [[0.0, INF], [NAN], [[0.0], [-INF]], [], 0.0],
    "UNIT_INTERVAL": [-5e-324, 1 + 2**-52, NAN, INF, -INF, [0.5, 2.0]],
    "COUNT": [-1, [0, -1], 0.0, 2.5, True],
}


@pytest.mark.parametrize("name", INSIDE)
def test_inside_is_returned_as_it_is(name):
    for value in INSIDE[name]:
        xp, array = arrays(value=value)
        if name == "COUNT":
            array = xp.astype(array, xp.int64)
        assert getattr(_domains, name).check(xp, "x", array) is array


@pytest.mark.parametrize("name", OUTSIDE)
def test_outside_is_refused_with_the_name_and_the_remedy(name):
    domain = getattr(_domains, name)
    for value in OUTSIDE[name]:
        with pytest.raises(DomainError) as caught:
            check(domain, value, name="speed")
        message = str(caught.value)
        assert message.startswith(f"speed must be {domain.description}; got ")
        assert message.endswith(f"; {domain.remedy}")


@libraries
@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ([[0.5, 0.5], [0.5, 0.25]], r"got a row at index \(1,\) that sums to 0\.75;"),
        ([[[1.0, 0.0]], [[NAN, 1.0]]], r"got a row at index \(1, 0\) that holds nan at entry 0;"),
        ([0.5, INF], r"got a row that holds inf at entry 1;"),
        ([1.5, -0.5], r"got a row that holds -0\.5 at entry 1;"),
        ([[-0.5, 1.5], [NAN, 1.0]], r"got a row at index \(0,\) that holds -0\.5 at entry 0;"),
        ([0.5, 0.5 + 2e-4], r"sums to 1\.0002;"),
    ],
    ids=["sum", "NaN", "infinity", "negative", "the first of two", "a small excess"],
)
def test_the_first_fault_is_named(library, row, fault):
    with pytest.raises(DomainError, match=fault):
        check(SIMPLEX, to(library, row))


SLACK = {"float64": 1e-4, "float32": 1e-4, "float16": 2 * 2.0**-10, "bfloat16": 2 * 2.0**-7}


@pytest.mark.parametrize("dtype", SLACK)
def test_rounding_is_admitted_as_the_type_rounds(dtype):
    for share in (0.5, -0.5):
        check(SIMPLEX, to("torch", [0.5, 0.5 + share * SLACK[dtype]], dtype))
    for share in (2.0, -2.0):
        with pytest.raises(DomainError, match="sums to"):
            check(SIMPLEX, to("torch", [0.5, 0.5 + share * SLACK[dtype]], dtype))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("vocabulary", [50_257, 151_936])
def test_a_stored_softmax_is_admitted_at_the_vocabularies_in_use(dtype, vocabulary):
    """Flat and peaked rows; float16 has no number between 0 and 6e-8."""
    rng = np.random.default_rng(7)
    for scale in (0.0, 1.0, 4.0):
        logits = rng.normal(size=(2, vocabulary)) * scale
        weights = np.exp(logits - logits.max(-1, keepdims=True))
        check(SIMPLEX, to("torch", weights / weights.sum(-1, keepdims=True), dtype))
