"""Draft length by delay: the thresholds in fractions, the logarithmic law, the printed critical delay."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hlmtheory.draft_length import critical_delays

EIGHTHS = st.integers(0, 8).map(lambda n: Fraction(n, 8))
PROFILES = st.lists(EIGHTHS, min_size=1, max_size=6)


def rates(profile, fixed, marginal):
    tokens, kept, found = Fraction(1), Fraction(1), [1 / fixed]
    for length, acceptance in enumerate(profile, 1):
        kept *= acceptance
        tokens += kept
        found.append(tokens / (fixed + length * marginal))
    return found


@given(PROFILES, st.integers(1, 200), st.integers(1, 16))
def test_the_best_length_is_the_number_of_critical_delays_below(profile, fixed, marginal):
    by_length = rates(profile, Fraction(fixed, 8), Fraction(marginal, 8))
    delays = critical_delays(np.array(profile, dtype=float), fixed / 8, marginal / 8)
    assert (np.diff(delays[np.isfinite(delays)]) >= -1e-9).all()
    near = np.abs(delays) < 1e-9
    if not near.any():
        assert by_length.index(max(by_length)) == int((delays < 0).sum())
    for length in np.flatnonzero(near):
        assert by_length[length] == by_length[length + 1]


@given(PROFILES, st.integers(1, 16), st.integers(0, 5))
def test_at_a_critical_delay_two_lengths_tie(profile, marginal, length):
    kept = np.cumprod(profile)
    if length >= len(profile) or kept[length] == 0:
        return
    delay = float(critical_delays(np.array(profile, dtype=float), 0.0, marginal / 8)[length])
    by_length = rates(profile, Fraction(delay), Fraction(marginal, 8))
    assert float(by_length[length + 1] / by_length[length]) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(("acceptance", "draft_s", "verify_s"), [(0.7, 1.0, 0.5), (0.5, 15.0, 3.0), (0.9, 2.0, 40.0)])
def test_the_critical_delay_of_the_paper(acceptance, draft_s, verify_s):
    """T = K (c_d + c_v) + 2 d + c_v, with the delay d each way: two drafts are better than one from here on."""
    printed = (draft_s + verify_s) * (1 + acceptance) / (2 * acceptance**2) - (draft_s + 2 * verify_s) / 2
    assert critical_delays([acceptance] * 2, verify_s, draft_s + verify_s)[1] / 2 == pytest.approx(printed)
