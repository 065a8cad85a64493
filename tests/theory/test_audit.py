"""The audit of skipping: exact on every outcome of a run, against fractions, token by token, and refused input."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hlmtheory
from hlmtheory.skipping import SkipAudit, audit_bound
from hlmtheory.skipping.audit import BETS, audit_wealth

from .kinds import LIBRARIES, kind_of, numbers, to

CLAIMS = [claim for claim in hlmtheory.all_claims().values() if claim.id.startswith("skipping.audit_")]

UNIT = st.one_of(st.integers(0, 8).map(lambda n: n / 8), st.floats(0.0, 1.0))
RATE = st.one_of(st.integers(1, 8).map(lambda n: n / 8), st.floats(1e-3, 1.0))
INNER = st.one_of(st.integers(1, 15).map(lambda n: n / 16), st.floats(1e-3, 0.999))


@given(st.lists(UNIT, min_size=1, max_size=6), RATE, INNER, st.lists(INNER, min_size=1, max_size=3))
def test_the_wealth_is_that_of_its_definition(losses, rate, risk, bets):
    pi, epsilon = Fraction(rate), Fraction(risk)
    found = audit_wealth(losses, rate, risk, bets)
    wealths = [Fraction(1) for _ in bets]
    for t, loss in enumerate(losses):
        for j, bet in enumerate(bets):
            wealths[j] *= 1 + Fraction(bet) / (1 / pi - epsilon) * (epsilon - Fraction(loss) / pi)
        assert math.exp(float(found[t])) == pytest.approx(float(sum(wealths) / len(bets)), rel=1e-9)


@given(st.lists(UNIT, min_size=1, max_size=6), RATE, INNER, st.lists(INNER, min_size=1, max_size=3))
def test_the_bound_is_where_the_mixture_is_one_over_the_error(losses, rate, error, bets):
    for t in range(1, len(losses) + 1):
        bound = float(audit_bound(losses[:t], rate, error, bets)[-1])

        def mixture(mean, t=t):
            return np.mean([math.exp(b * rate * mean * t) * math.prod(1 - b * x for x in losses[:t]) for b in bets])

        assert 0 < bound <= 1
        if bound < 1:
            assert mixture(bound) == pytest.approx(1 / error, rel=1e-6)
            assert mixture(bound) >= 1 / error * (1 - 1e-13)


def largest_error(crossed, audit_probability, risk, grid):
    """Largest P(ever a false certificate) over all adversaries, with losses of 0 or 1.

    ``crossed`` (T + 1, T + 1) marks the tokens and losses at which the wealth certifies. At each token an adversary
    who knows the past picks the risk, a multiple of 1/grid. The dynamic programme runs over tokens, losses and the
    sum of the risks.
    """
    horizon = len(crossed) - 1

    def false(t):
        return crossed[t, : t + 1, None] & (np.arange(grid * t + 1) >= risk * grid * t - 1e-9)

    value = false(horizon) * 1.0
    for t in range(horizon - 1, -1, -1):
        options = [
            audit_probability * r / grid * value[1 : t + 2, r : r + grid * t + 1]
            + (1 - audit_probability * r / grid) * value[: t + 1, r : r + grid * t + 1]
            for r in range(grid + 1)
        ]
        value = np.where(false(t), 1.0, np.max(options, axis=0)) if t else np.max(options, axis=0)
    return float(value[0, 0])


def crossings(horizon, audit_probability, risk, error, bets):
    """Where the wealth certifies, by tokens and losses; the order of the losses does not matter."""
    found = np.zeros((horizon + 1, horizon + 1), dtype=bool)
    for lost in range(horizon + 1):
        losses = (np.arange(horizon) < lost) * 1.0
        found[1:, lost] = audit_wealth(losses, audit_probability, risk, bets) >= -math.log(error)
    return found


@pytest.mark.parametrize(
    ("audit_probability", "risk", "error", "grid"), [(0.5, 0.25, 0.05, 4), (0.25, 0.4, 0.2, 5), (1.0, 0.1, 0.05, 10)]
)
def test_no_adversary_makes_a_false_certificate_likelier_than_the_error(audit_probability, risk, error, grid):
    crossed = crossings(60, audit_probability, risk, error, BETS)
    found = largest_error(crossed, audit_probability, risk, grid)
    assert 0.2 * error < found <= error  # the adversary is not idle
    always = largest_error(np.ones_like(crossed), audit_probability, risk, grid)
    assert always == 1.0  # the dynamic programme sees a certificate that is given to everyone
    eager = crossings(60, audit_probability, risk, min(8 * error, 0.99), BETS)
    assert largest_error(eager, audit_probability, risk, grid) > error


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_online_audit_gives_the_same_numbers(library, dtype):
    rng = np.random.default_rng(1)
    streams = to(library, rng.random((3, 40)) * (rng.random((3, 40)) < 0.2), dtype)
    wealth, bound = audit_wealth(streams, 0.25, 0.3), audit_bound(streams, 0.25, 0.05)
    audit = SkipAudit(0.25, 0.3, 0.05)
    assert float(numbers(audit.log_wealth)) == 0.0
    assert float(numbers(audit.bound)) == 1.0
    for t in range(40):
        certified = audit.update(streams[:, t])
        np.testing.assert_allclose(numbers(audit.log_wealth), numbers(wealth[:, t]), rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(numbers(audit.bound), numbers(bound[:, t]), rtol=1e-6)
        np.testing.assert_array_equal(numbers(certified), numbers(wealth[:, t]) >= math.log(20))
    assert audit.tokens == 40
    assert kind_of(audit.bound) == kind_of(bound) == (library, dtype)


def test_a_long_run_without_loss_overflows_nothing():
    """The wealth itself would be above the largest number, exp(709)."""
    wealth = audit_wealth(np.zeros(50_000), 0.5, 0.5)
    assert wealth[-1] > 2_500
    assert (np.diff(wealth) > 0).all()
    assert 0 < audit_bound(np.zeros(50_000), 0.5, 1e-6)[-1] < 1.2e-3
