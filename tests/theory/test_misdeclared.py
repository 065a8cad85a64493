"""Drafts from another distribution than the declared one: the law, its distance, and undetected cases."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hlmtheory.verification.misdeclared import misdeclared_distribution

from .strategies import grid_rows, pairs


def law_by_cases(p, q, drawn):
    excess = [max(a - b, Fraction(0)) for a, b in zip(p, q, strict=True)]
    law = [Fraction(0)] * len(p)
    for v, chance in enumerate(drawn):
        accepted = min(Fraction(1), p[v] / q[v]) if q[v] else Fraction(1)
        law[v] += chance * accepted
        for w, more in enumerate(excess):
            if accepted < 1:
                law[w] += chance * (1 - accepted) * more / sum(excess)
    return law


@given(st.integers(1, 5).flatmap(lambda size: st.tuples(*(grid_rows((), size) for _ in range(3)))))
def test_the_law_is_that_of_all_cases(rows):
    exact = law_by_cases(*([Fraction(float(x)) for x in row] for row in rows))
    np.testing.assert_allclose(misdeclared_distribution(*rows), [float(x) for x in exact], atol=1e-15)


@given(pairs())
def test_a_declared_sampler_gives_the_target(pair):
    law = misdeclared_distribution(pair["target"], pair["draft"], pair["draft"])
    np.testing.assert_allclose(law, pair["target"], atol=1e-12)
