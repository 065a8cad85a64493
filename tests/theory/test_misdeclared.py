"""Drafts from another distribution than the declared one: the law, its distance, and undetected cases."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hlmtheory.verification import total_variation
from hlmtheory.verification.misdeclared import misdeclared_distribution

from .strategies import grid_rows, pairs


def law_by_cases(p, q, drawn):
    """Return the law by enumeration in fractions: each draft, accepted or replaced by each token."""
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


def test_greedy_drafts_that_are_declared_as_samples():
    """An engine's greedy drafts, verified by p/q: the law is off by the probability of all other drafts."""
    p, q = np.array([0.6, 0.4]), np.array([0.6, 0.4])
    assert misdeclared_distribution(p, q, [1.0, 0.0]).tolist() == [1.0, 0.0]
    assert float(total_variation(misdeclared_distribution(p, q, [1.0, 0.0]), p)) == pytest.approx(0.4)


@given(pairs(), st.data())
def test_a_sampler_is_hidden_wherever_the_target_excludes_a_draft(pair, data):
    # w is always replaced from r, so a sampler that draws from r in place of w has the same law
    p, q = pair["target"].copy(), pair["draft"]
    w = data.draw(st.integers(0, p.shape[-1] - 1))
    p[..., w] = 0.0
    left = p.sum(axis=-1, keepdims=True)
    p = np.where(left > 0.01, p / np.maximum(left, 0.01), np.eye(p.shape[-1])[w - 1])
    excess = np.maximum(p - q, 0.0)
    assume(p.shape[-1] > 1 and (excess.sum(axis=-1) > 2.0**-20).all())  # otherwise nothing is replaced
    hidden = q + q[..., w, None] * (excess / excess.sum(axis=-1, keepdims=True) - np.eye(p.shape[-1])[w])
    np.testing.assert_allclose(misdeclared_distribution(p, q, np.maximum(hidden, 0.0)), p, atol=1e-9)
