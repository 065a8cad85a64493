"""Intervals of the acceptance rate: by definition, over whole runs, round by round, and refused input."""

import itertools

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from hlmtheory.truncation import tail_deviation, truncate
from hlmtheory.verification import acceptance_interval, acceptance_rate
from hlmtheory.verification.intervals import _TILTS, FORMS, decoded_acceptance_rate

from .strategies import pairs


def evidence(form, accepted, examined, rate):
    """The wealth against a rate: the binomial probability, or the mean over the tilts."""
    if form == "constant":
        return 1.0 / ((examined + 1) * binom.pmf(accepted, examined, rate))
    terms = [mpmath.exp(eta * accepted) / (1 + rate * mpmath.expm1(eta)) ** examined for eta in _TILTS]
    return float(sum(terms) / len(terms))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("accepted", "examined"), [(0, 1), (1, 1), (0, 9), (9, 9), (3, 7), (70, 100), (99, 100)])
@pytest.mark.parametrize("error", [0.05, 0.5])
def test_the_ends_are_where_the_evidence_is_one_over_the_error(form, accepted, examined, error):
    lower, upper = map(float, acceptance_interval(accepted, examined, error, form=form))
    assert lower <= accepted / examined <= upper
    for end, limit in ((lower, 0.0), (upper, 1.0)):
        if end == limit:
            assert evidence(form, accepted, examined, abs(limit - 1e-9)) < 1 / error
        else:
            assert evidence(form, accepted, examined, end) == pytest.approx(1 / error, rel=1e-6)
            assert evidence(form, accepted, examined, end) >= 1 / error * (1 - 1e-12)


def rounds_of(hazards, rounds):
    """Every run of rounds: probability, and after each examined draft the accepted ones and the sum of the rates."""
    length = len(hazards)
    for outcome in itertools.product(range(length + 1), repeat=rounds):
        probability, accepted, total, seen = 1.0, 0, 0.0, []
        for kept in outcome:
            for depth in range(min(kept + 1, length)):
                taken = depth < kept
                probability *= hazards[depth] if taken else 1 - hazards[depth]
                accepted, total = accepted + taken, total + hazards[depth]
                seen.append((accepted, total))
        yield probability, seen


@pytest.mark.parametrize("hazards", [(0.25, 0.9, 0.5), (0.9, 0.1), (0.6,)])
@pytest.mark.parametrize("error", [0.2, 0.5])
def test_rounds_that_stop_at_the_first_rejection_are_covered(hazards, error):
    missed = everything = 0.0
    for probability, seen in rounds_of(hazards, 4):
        everything += probability
        accepted, totals = np.array(seen).T
        examined = np.arange(1, len(seen) + 1)
        lower, upper = acceptance_interval(accepted, examined, error, form="varying")
        means = totals / examined
        missed += probability * bool(((means < lower) | (means > upper)).any())
    assert everything == pytest.approx(1.0)
    assert missed <= error


@given(pairs(), st.integers(0, 12))
def test_the_decoded_interval_holds_the_rate(pair, k):
    size = min(k, pair["draft"].shape[-1])
    decoded = truncate(pair["draft"], size)
    deviation = tail_deviation(pair["draft"])[..., size]
    lower, upper = decoded_acceptance_rate(pair["target"], decoded, deviation)
    rate = acceptance_rate(**pair)
    assert ((lower - 1e-12 <= rate) & (rate <= upper + 1e-12)).all()
    assert (upper - lower <= 2 * deviation + 1e-12).all()
    exact = decoded_acceptance_rate(pair["target"], pair["draft"], 0.0)
    np.testing.assert_allclose(exact.lower, np.minimum(rate, 1.0), atol=1e-12)
