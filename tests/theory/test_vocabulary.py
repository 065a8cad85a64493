"""Drafts on a part of the vocabulary: rates and laws by enumeration in fractions, and bounds that fail."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from hlmtheory.vocabulary import common_acceptance

from .strategies import grid_rows


def exactly(row):
    return [Fraction(float(x)) / sum(Fraction(float(y)) for y in row) for x in row]


@st.composite
def cases(draw):
    """Return p, q and a set A on which q has mass, in fractions."""
    size = draw(st.integers(1, 5))
    p, q = exactly(draw(grid_rows((), size))), exactly(draw(grid_rows((), size)))
    first = next(v for v in range(size) if q[v])
    kept = [draw(st.booleans()) or v == first for v in range(size)]
    return p, q, kept


def by_cases(p, q, kept, target=None):
    """Return the acceptance rate and the law, draft by draft: drawn on A, accepted, or replaced from the residual."""
    target = p if target is None else target
    mass = sum(x for x, on in zip(q, kept, strict=True) if on)
    own = [x / mass if on else Fraction(0) for x, on in zip(q, kept, strict=True)]
    rest = [max(a - b, Fraction(0)) for a, b in zip(target, own, strict=True)]
    rate, law = Fraction(0), [Fraction(0)] * len(p)
    for v, chance in enumerate(own):
        passes = min(Fraction(1), target[v] / chance) if chance else Fraction(0)
        rate += chance * passes
        law[v] += chance * passes
        for w, r in enumerate(rest):
            law[w] += chance * (1 - passes) * (r / sum(rest) if sum(rest) else 0)
    return rate, law, own


@given(cases())
def test_a_target_that_is_cut_to_the_common_tokens_loses_its_mass_elsewhere(case):
    p, q, kept = case
    inside = sum(x for x, on in zip(p, kept, strict=True) if on)
    if inside:
        cut = [x / inside if on else Fraction(0) for x, on in zip(p, kept, strict=True)]
        _, law, _ = by_cases(p, q, kept, cut)
        assert sum(abs(a - b) for a, b in zip(law, p, strict=True)) / 2 == 1 - inside


def test_fewer_tokens_can_be_accepted_more_often_or_less():
    p, q = [1.0, 0.0], [0.5, 0.5]
    rates = [float(common_acceptance(p, q, kept)) for kept in ([True, False], [True, True], [False, True])]
    assert rates == [1.0, 0.5, 0.0]


def test_nothing_is_accepted_where_nothing_can_be_drafted():
    assert float(common_acceptance([0.5, 0.5], [1.0, 0.0], [False, True])) == 0.0
