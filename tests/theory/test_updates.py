"""Acceptance after an update of the target: bounds against enumeration in fractions, and the largest distance."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import brentq

from hlmtheory.verification import acceptance_after_update, acceptance_rate, largest_distance, total_variation
from hlmtheory.verification.update_claims import HORIZON, _divergence

from .strategies import TARGETS, pairs


@st.composite
def versions(draw):
    """A draft and two versions, which are often near each other or equal."""
    pair = draw(pairs())
    return {
        "draft": pair["draft"],
        "old": pair["target"],
        "new": draw(st.sampled_from(TARGETS))(draw, pair["target"]),
    }


VERSIONS = versions()
DIVERGENCES = st.one_of(
    st.sampled_from((0.0, 1e-300, 1e-12, 9.9e-5, 1e-4, 0.5, 39.9, 40.0, 41.0, 1e6)), st.floats(0.0, 60.0)
)


# ------------------------------------------------------------------------------------------------- the enumeration


def texts(size):
    """Yield the texts of HORIZON tokens, each as its pairs of the token before and the token."""
    for text in itertools.product(range(size), repeat=HORIZON):
        yield list(zip((0, *text), text, strict=False))


# ------------------------------------------------------------------------------------------------ the divergence


def binary_divergence(a, b):
    """Return kl(a, b) of two probabilities strictly inside (0, 1)."""
    return a * math.log(a / b) + (1 - a) * math.log((1 - a) / (1 - b))


@pytest.mark.parametrize("divergence", [1e-3, 0.01, 0.1, 0.5, 1.0, 2.0])
def test_the_largest_distance_is_that_of_a_search_over_pairs(divergence):
    best = 0.0
    for b in np.linspace(0.001, 0.999, 2_001):
        if binary_divergence(1 - 1e-15, b) > divergence:
            best = max(best, brentq(lambda a, b=b: binary_divergence(a, b) - divergence, b, 1 - 1e-15) - b)
    found = float(largest_distance(divergence))
    assert best <= found
    assert found == pytest.approx(best, rel=1e-5)


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


def test_the_limits_of_the_largest_distance():
    assert largest_distance([0.0, 1e9]).tolist() == [0.0, 1.0]
    assert float(largest_distance(1e-8)) == pytest.approx(math.sqrt(0.5e-8), rel=1e-12)


@given(pairs())
def test_the_divergence_is_that_of_its_definition(pair):
    p, r = (pair[name].reshape(-1, pair[name].shape[-1]) for name in ("target", "draft"))
    found = np.asarray(_divergence(p, r)).reshape(-1)
    with mpmath.workdps(40):
        for one, other, value in zip(p, r, found, strict=True):
            a, b = ([mpmath.mpf(float(x)) for x in row] for row in (one, other))
            a, b = [x / mpmath.fsum(a) for x in a], [x / mpmath.fsum(b) for x in b]
            terms = [x * mpmath.log(x / y) if y else mpmath.inf for x, y in zip(a, b, strict=True) if x]
            exact = float(mpmath.fsum(terms))
            assert value == pytest.approx(exact, rel=1e-9, abs=1e-13)


# ------------------------------------------------------------------------------------------------- the functions


@given(VERSIONS)
def test_the_acceptance_lies_in_its_interval(found):
    draft, old, new = (found[name] for name in ("draft", "old", "new"))
    interval = acceptance_after_update(acceptance_rate(old, draft), total_variation(old, new))
    after = acceptance_rate(new, draft)
    assert (interval.lower <= after + 1e-12).all()
    assert (after <= interval.upper + 1e-12).all()
    assert (interval.lower >= 0).all()
    assert (interval.upper <= 1).all()


def test_when_the_bound_says_something():
    """Table II of flexspec: from .72 down to .45 and .18 needs versions at least .27 and .54 apart."""
    assert float(acceptance_after_update(0.72, 0.27).lower) == pytest.approx(0.45)
    assert float(acceptance_after_update(0.72, 0.72).lower) == 0.0
    divergence = brentq(lambda nats: float(largest_distance(nats)) - 0.72, 0.1, 3.0)
    assert divergence == pytest.approx(1.2106, rel=1e-3)  # nats a token: above, α(0) = .72 guarantees nothing
