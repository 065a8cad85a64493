"""Acceptance after an update of the target: bounds against enumeration in fractions, and the largest distance."""

import mpmath
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hlmtheory.sides.update_sides import divergence_side
from hlmtheory.verification.updates import largest_distance

from .strategies import pairs

DIVERGENCES = st.one_of(
    st.sampled_from((0.0, 1e-300, 1e-12, 9.9e-5, 1e-4, 0.5, 39.9, 40.0, 41.0, 1e6)), st.floats(0.0, 60.0)
)


@given(st.floats(1e-4, 39.0))
@example(37.0)  # 1 less than half the spacing of the floating-point numbers below 1
def test_the_largest_distance_is_an_upper_bound_in_high_precision(divergence):
    with mpmath.workdps(60):
        target = mpmath.mpf(divergence)

        def pair(s):
            b = 1 / s - 1 / mpmath.expm1(s)
            return s * b * (1 - b), s * (b + s * b * (1 - b)) - mpmath.log(mpmath.expm1(s) / s)

        low, high = mpmath.mpf("1e-3"), mpmath.mpf(10) ** 18
        for _ in range(150):
            middle = mpmath.sqrt(low * high)
            low, high = (low, middle) if pair(middle)[1] >= target else (middle, high)
        exact = pair(high)[0]
        found = mpmath.mpf(float(largest_distance(divergence)))
        assert exact <= found
        assert found <= exact * (1 + mpmath.mpf("1e-9")) or found == 1


@given(DIVERGENCES, DIVERGENCES, st.floats(0.0, 1.0))
def test_the_largest_distance_rises_and_is_concave(first, second, share):
    ends = [float(largest_distance(x)) for x in (first, second)]
    assert (ends[0] <= ends[1] * (1 + 1e-9)) == (first <= second) or ends[0] == pytest.approx(ends[1], rel=1e-9)
    middle = float(largest_distance(share * first + (1 - share) * second))
    assert middle >= (share * ends[0] + (1 - share) * ends[1]) * (1 - 1e-5)  # Pinsker's part lies 3e-6 too high


@given(pairs())
def test_the_divergence_is_that_of_its_definition(pair):
    p, r = (pair[name].reshape(-1, pair[name].shape[-1]) for name in ("target", "draft"))
    found = np.asarray(divergence_side(p, r)).reshape(-1)
    with mpmath.workdps(40):
        for one, other, value in zip(p, r, found, strict=True):
            a, b = ([mpmath.mpf(float(x)) for x in row] for row in (one, other))
            a, b = [x / mpmath.fsum(a) for x in a], [x / mpmath.fsum(b) for x in b]
            terms = [x * mpmath.log(x / y) if y else mpmath.inf for x, y in zip(a, b, strict=True) if x]
            assert value == pytest.approx(float(mpmath.fsum(terms)), rel=1e-9, abs=1e-13)
