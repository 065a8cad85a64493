"""Accept, reject, resample: against loops over the vocabulary and enumeration of all outcomes."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hlmtheory
from hlmtheory import verification

from . import oracles
from .kinds import LIBRARIES, kind_of, numbers, to
from .oracles import exact, row_by_row
from .public import theory
from .strategies import acceptances, grid_pairs, rows

PAIR_FUNCTIONS = (
    "total_variation",
    "rejection_probability",
    "acceptance_rate",
    "residual_distribution",
    "output_distribution",
    "greedy_output_distribution",
)
"""Functions of two probability rows."""

P, Q = [0.25, 0.5, 0.25], [0.5, 0.25, 0.25]

pair_functions = pytest.mark.parametrize("name", PAIR_FUNCTIONS)


def naive_greedy(p, q):
    """Draw the draft; keep it if it is the argmax (lowest index on ties), otherwise sample from p."""
    top = max(range(len(p)), key=lambda v: (p[v], -v))
    law = [Fraction(0)] * len(p)
    for v, drafted in enumerate(q):
        for w, sampled in enumerate(p):
            law[top if v == top else w] += drafted * sampled
    return law


NAIVE = {
    "total_variation": oracles.total_variation,
    "rejection_probability": oracles.rejection,
    "acceptance_rate": lambda p, q: sum(map(min, p, q)),
    "residual_distribution": lambda p, q: oracles.residual(p, q) or [0] * len(q),
    "output_distribution": oracles.emitted,
    "greedy_output_distribution": naive_greedy,
}


@pair_functions
def test_against_the_definition(name):
    @given(grid_pairs())
    def agrees(pair):
        expected = row_by_row(lambda p, q: NAIVE[name](exact(p), exact(q)), (pair["target"], 1), (pair["draft"], 1))
        np.testing.assert_allclose(getattr(theory, name)(pair["target"], pair["draft"]), expected, rtol=0, atol=1e-14)

    agrees()


def test_a_subnormal_draft_probability_does_not_overflow():
    beta = verification.rejection_probability([1.0, 0.0, 5e-324], [1.0, 5e-324, 1e-323])
    assert beta.tolist() == [0.0, 1.0, 0.5]


def test_rejection_keeps_its_digits_next_to_equality():
    q = 0.5 + 2.0**-50
    beta = verification.rejection_probability([0.5, 0.5], [q, 1 - q])
    assert float(beta[0]) == pytest.approx(float((Fraction(q) - Fraction(1, 2)) / Fraction(q)), rel=1e-15)


@given(grid_pairs(), st.data())
def test_the_law_with_skips(pair, data):
    size = pair["draft"].shape[-1]
    skip = np.array(data.draw(st.lists(st.integers(0, 8), min_size=size, max_size=size))) / 8
    expected = row_by_row(
        lambda p, q: oracles.emitted(exact(p), exact(q), exact(skip)), (pair["target"], 1), (pair["draft"], 1)
    )
    law = verification.output_distribution(**pair, skip=skip)
    np.testing.assert_allclose(law, expected, rtol=0, atol=1e-14)
    np.testing.assert_allclose(law.sum(-1), 1, rtol=0, atol=1e-14)


@given(rows((3,), 5))
def test_softmax_undoes_the_logarithm(row):
    logits = np.log(np.maximum(row, 1e-300))
    np.testing.assert_allclose(verification.softmax(logits), row, rtol=1e-12, atol=1e-290)


@pytest.mark.parametrize("library", LIBRARIES)
def test_softmax_of_large_logits(library):
    result = verification.softmax(to(library, [[1e4, 1e4, -1e4]], "float32"))
    assert kind_of(result) == (library, "float32")
    assert numbers(result).tolist() == [[0.5, 0.5, 0.0]]


@pytest.mark.parametrize("library", LIBRARIES)
def test_skipping_by_a_mask_is_skipping_with_probability_1(library):
    p, q = to(library, P), to(library, Q)
    for mask in ([True, False, True], to(library, [True, False, True])):
        law = verification.output_distribution(p, q, skip=mask)
        np.testing.assert_array_equal(
            numbers(law), numbers(verification.output_distribution(p, q, skip=to(library, [1.0, 0.0, 1.0])))
        )
        risk = float(numbers(hlmtheory.skipping.one_step_risk(p, q, mask)))
        assert risk == pytest.approx(float(numbers(verification.total_variation(law, p))))


@given(acceptances().filter(lambda alpha: alpha < 1), st.sampled_from([0, 1, 7, 1000, 10**6, 2**53]))
def test_tokens_against_the_printed_quotient(alpha, length):
    with mpmath.workdps(400):
        exactly = (1 - mpmath.mpf(alpha) ** (length + 1)) / (1 - mpmath.mpf(alpha))
    assert float(verification.expected_tokens(alpha, length)) == pytest.approx(float(exactly), rel=1e-13)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_the_acceptance_of_a_softmax_is_an_acceptance(library, dtype):
    """The rate of rows that sum to 1 up to rounding is accepted by expected_tokens."""
    weights = np.random.default_rng(0).gamma(0.3, size=(1000, 50))
    row = to(library, weights / weights.sum(-1, keepdims=True), dtype)
    alpha = verification.acceptance_rate(row, row)
    assert numbers(alpha).max() <= 1.0
    assert numbers(verification.expected_tokens(alpha, 3)).max() <= 4.0
