"""Drafts from another distribution than the declared one: the law, its distance, and undetected cases."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hlmtheory.verification.misdeclared import misdeclared_distribution

from . import oracles
from .strategies import grid_rows


@given(st.integers(1, 5).flatmap(lambda size: st.tuples(*(grid_rows((), size) for _ in range(3)))))
def test_the_law_is_that_of_all_cases(rows):
    p, q, drawn = (oracles.exact(row) for row in rows)
    law = oracles.emitted(p, q, drawn=drawn)
    np.testing.assert_allclose(misdeclared_distribution(*rows), [float(x) for x in law], atol=1e-15)
