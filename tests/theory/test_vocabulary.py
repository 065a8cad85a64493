"""Drafts on a part of the vocabulary: rates and laws by enumeration in fractions, and bounds that fail."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hlmtheory.vocabulary import common_acceptance

from .oracles import over_its_sum
from .strategies import grid_rows


@st.composite
def cases(draw):
    size = draw(st.integers(1, 5))
    p, q = over_its_sum(draw(grid_rows((), size))), over_its_sum(draw(grid_rows((), size)))
    first = next(v for v in range(size) if q[v])
    return p, q, [draw(st.booleans()) or v == first for v in range(size)]


@given(cases())
def test_the_acceptance_is_that_of_each_draft(case):
    p, q, kept = case
    mass = sum(x for x, on in zip(q, kept, strict=True) if on)
    own = [x / mass if on else Fraction(0) for x, on in zip(q, kept, strict=True)]
    exact = sum(x * min(Fraction(1), y / x) for x, y in zip(own, p, strict=True) if x)
    assert float(common_acceptance([float(x) for x in p], [float(x) for x in q], kept)) == pytest.approx(float(exact))


def test_fewer_tokens_can_be_accepted_more_often_or_less():
    p, q = [1.0, 0.0], [0.5, 0.5]
    rates = [float(common_acceptance(p, q, kept)) for kept in ([True, False], [True, True], [False, True])]
    assert rates == [1.0, 0.5, 0.0]
    assert float(common_acceptance([0.5, 0.5], [1.0, 0.0], [False, True])) == 0.0  # nothing can be drafted
