"""Several drafts of one truncated distribution: the law by enumeration, the certificate, the smallest certified k."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hlmtheory.truncation import certified_size, truncate
from hlmtheory.truncation.multi_draft import multi_draft_distribution

from .strategies import grid_rows


def law_by_cases(p, q, rebuilt, drafts):
    """Return the law over all cases in fractions; after a rejection, the next stage's target is the residual of q̂."""
    excess = [max(a - b, Fraction(0)) for a, b in zip(p, rebuilt, strict=True)]
    after = [x / sum(excess) for x in excess] if sum(excess) else p
    rest = law_by_cases(after, q, rebuilt, drafts - 1) if drafts > 1 else after
    law = [Fraction(0)] * len(p)
    for v, chance in enumerate(q):
        accepted = min(Fraction(1), p[v] / chance) if chance else Fraction(1)
        law[v] += chance * accepted
        law = [x + chance * (1 - accepted) * y for x, y in zip(law, rest, strict=True)]
    return law


@given(st.integers(2, 4).flatmap(lambda size: st.tuples(*(grid_rows((), size) for _ in range(2)))), st.data())
def test_the_law_is_that_of_all_cases(rows, data):
    target, draft = rows
    k, drafts = data.draw(st.integers(0, len(draft))), data.draw(st.integers(1, 4))
    p, q, rebuilt = ([Fraction(float(x)) for x in row] for row in (target, draft, truncate(draft, k)))
    exact = law_by_cases(p, q, [x / sum(rebuilt) for x in rebuilt], drafts)
    found = multi_draft_distribution(target, draft, k, drafts)
    np.testing.assert_allclose(found, [float(x) for x in exact], atol=1e-9)


@pytest.mark.parametrize("bits", [None, 16])
def test_the_certified_size_of_several_drafts(bits):
    draft = np.random.default_rng(3).dirichlet(np.full(200, 0.1), size=20)
    sizes = [certified_size(draft, 0.06, bits_per_probability=bits, draft_count=m) for m in (1, 2, 3)]
    assert (sizes[0] < sizes[1]).all()
    np.testing.assert_array_equal(sizes[2], certified_size(draft, 0.02, bits_per_probability=bits))
    target = np.random.default_rng(4).dirichlet(np.full(200, 0.1), size=20)
    assert (np.abs(multi_draft_distribution(target, draft, sizes[2], 3) - target).sum(-1) <= 0.06).all()
