"""Accept, reject, resample: against loops over the vocabulary and enumeration of all outcomes."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hlmtheory
from hlmtheory import verification
from hlmtheory.verification.tokens import expected_tokens_profile

from . import oracles
from .kinds import LIBRARIES, kind_of, numbers, to
from .oracles import exact, row_by_row
from .strategies import acceptances, grid_pairs, grid_rows, pairs, profiles, rows

PAIR_FUNCTIONS = (
    "total_variation",
    "rejection_probability",
    "acceptance_rate",
    "residual_distribution",
    "output_distribution",
    "greedy_output_distribution",
)
"""Functions of two probability rows."""

ROWS_OUT = {"rejection_probability", "residual_distribution", "output_distribution", "greedy_output_distribution"}
P, Q = [0.25, 0.5, 0.25], [0.5, 0.25, 0.25]

pair_functions = pytest.mark.parametrize("name", PAIR_FUNCTIONS)


def of_pair(name, target, draft):
    """Call the public function by its name."""
    return getattr(verification, name)(target, draft)


def argument_names(name):
    """Return the names of the two rows in the signature, and so in the messages."""
    return ("p", "q") if name == "total_variation" else ("target", "draft")


# ------------------------------------------------------------------------------------- oracles, row by row, exact


def naive_residual(p, q):
    return oracles.residual(p, q) or [0] * len(q)


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
    "residual_distribution": naive_residual,
    "output_distribution": oracles.emitted,
    "greedy_output_distribution": naive_greedy,
}


@pair_functions
def test_against_the_definition(name):
    @given(grid_pairs())
    def agrees(pair):
        expected = row_by_row(lambda p, q: NAIVE[name](exact(p), exact(q)), (pair["target"], 1), (pair["draft"], 1))
        np.testing.assert_allclose(of_pair(name, **pair), expected, rtol=0, atol=1e-14)

    agrees()


@given(pairs())
def test_the_output_law_is_the_target(pair):
    law = verification.output_distribution(**pair)
    np.testing.assert_allclose(law, pair["target"], rtol=0, atol=1e-14)


@given(pairs())
def test_ranges(pair):
    target, draft = pair["target"], pair["draft"]
    assert np.min(verification.rejection_probability(target, draft)) >= 0
    assert np.max(verification.rejection_probability(target, draft)) <= 1
    for measure in (verification.total_variation(target, draft), verification.acceptance_rate(target, draft)):
        assert (measure >= 0).all()
        assert (measure <= 1 + 1e-14).all()
    residual = verification.residual_distribution(target, draft)
    mass = residual.sum(-1)
    assert (residual >= 0).all()
    assert ((np.abs(mass - 1) < 1e-14) | (mass == 0)).all()
    np.testing.assert_allclose(verification.greedy_output_distribution(target, draft).sum(-1), 1, rtol=0, atol=1e-13)


@given(pairs())
def test_total_variation_is_symmetric(pair):
    forth = verification.total_variation(pair["target"], pair["draft"])
    back = verification.total_variation(pair["draft"], pair["target"])
    np.testing.assert_array_equal(forth, back)


@pair_functions
def test_equal_rows(name):
    row = np.array([0.5, 0.25, 0.25, 0.0])
    expected = {
        "total_variation": 0.0,
        "rejection_probability": np.zeros(4),
        "acceptance_rate": 1.0,
        "residual_distribution": np.zeros(4),
        "output_distribution": row,
        "greedy_output_distribution": [0.75, 0.125, 0.125, 0.0],
    }
    np.testing.assert_array_equal(of_pair(name, row, row), expected[name])


@pair_functions
def test_disjoint_rows(name):
    expected = {
        "total_variation": 1.0,
        "rejection_probability": [1.0, 0.0],
        "acceptance_rate": 0.0,
        "residual_distribution": [0.0, 1.0],
        "output_distribution": [0.0, 1.0],
        "greedy_output_distribution": [0.0, 1.0],
    }
    np.testing.assert_array_equal(of_pair(name, [0.0, 1.0], [1.0, 0.0]), expected[name])


@pair_functions
def test_one_token_vocabulary(name):
    expected = {"total_variation": 0.0, "rejection_probability": [0.0], "residual_distribution": [0.0]}
    result = of_pair(name, [1.0], [1.0])
    np.testing.assert_array_equal(result, expected.get(name, [1.0] if name in ROWS_OUT else 1.0))


def test_a_subnormal_draft_probability_does_not_overflow():
    beta = verification.rejection_probability([1.0, 0.0, 5e-324], [1.0, 5e-324, 1e-323])
    assert beta.tolist() == [0.0, 1.0, 0.5]


def test_rejection_keeps_its_digits_next_to_equality():
    q = 0.5 + 2.0**-50
    beta = verification.rejection_probability([0.5, 0.5], [q, 1 - q])
    assert float(beta[0]) == pytest.approx(float((Fraction(q) - Fraction(1, 2)) / Fraction(q)), rel=1e-15)


# ------------------------------------------------------------------------------------------------ skip, residual


@st.composite
def skipping(draw):
    """A pair, skip probabilities in eighths, and another distribution in place of the residual."""
    pair = draw(grid_pairs())
    shape = pair["draft"].shape
    eighths = draw(st.lists(st.integers(0, 8), min_size=shape[-1], max_size=shape[-1]))
    return pair, np.array(eighths) / 8, draw(grid_rows(shape[:-1], shape[-1]))


@given(skipping())
def test_the_law_with_skips_and_another_residual(case):
    pair, skip, other = case
    for s, r in ((skip, None), (None, other), (skip, other)):
        expected = row_by_row(
            lambda p, q, o, s=s, r=r: oracles.emitted(
                exact(p), exact(q), None if s is None else exact(s), None if r is None else exact(o)
            ),
            (pair["target"], 1),
            (pair["draft"], 1),
            (other, 1),
        )
        law = verification.output_distribution(**pair, skip=s, residual=r)
        np.testing.assert_allclose(law, expected, rtol=0, atol=1e-14)
        np.testing.assert_allclose(law.sum(-1), 1, rtol=0, atol=1e-14)


@given(pairs())
def test_skipping_all_or_nothing(pair):
    target, draft = pair["target"], pair["draft"]
    everything = verification.output_distribution(target, draft, skip=np.ones_like(draft))
    np.testing.assert_allclose(everything, draft, rtol=0, atol=1e-15)
    nothing = verification.output_distribution(target, draft, skip=np.zeros_like(draft))
    np.testing.assert_array_equal(nothing, verification.output_distribution(target, draft))


@given(pairs())
def test_the_true_residual_may_be_given(pair):
    """output_distribution accepts every answer of residual_distribution, zeros included."""
    residual = verification.residual_distribution(**pair)
    np.testing.assert_allclose(
        verification.output_distribution(**pair, residual=residual), pair["target"], rtol=0, atol=1e-14
    )


def test_a_residual_of_another_batch_is_refused_by_name():
    """The draft's shape fits, the target's does not."""
    with pytest.raises(ValueError, match=r"residual has \(3,\), target has \(2,\)"):
        verification.output_distribution(np.full((2, 2), 0.5), [0.5, 0.5], residual=np.full((3, 2), 0.5))


@pytest.mark.parametrize(
    ("target", "draft"),
    [([1.0, 0.0], [1.0, 5e-324]), ([0.5, 0.5], [0.5, 0.5 + 2**-53])],
    ids=["subnormal", "rounding"],
)
def test_a_residual_of_zeros_is_fine_where_only_rounding_is_rejected(target, draft):
    residual = verification.residual_distribution(target, draft)
    assert residual.tolist() == [0.0, 0.0]
    law = verification.output_distribution(target, draft, residual=residual)
    np.testing.assert_allclose(law, target, rtol=0, atol=1e-15)


def test_a_residual_of_zeros_is_refused_where_something_is_rejected():
    with pytest.raises(ValueError, match=r"residual must be rows of probabilities.*sums to 0"):
        verification.output_distribution(P, Q, residual=[0.0, 0.0, 0.0])


def test_skip_may_be_one_number_for_all():
    assert verification.output_distribution(P, Q, skip=0.5).tolist() == [0.375, 0.375, 0.25]


# --------------------------------------------------------------------------------------------------- input, dtype


@pair_functions
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_rounded_half_rows_are_accepted(name, dtype):
    """A softmax in a half type sums to 1 only approximately; the result is equally accurate."""
    logits = np.random.default_rng(3).normal(size=(2, 20, 300)) * 3
    target, draft = (numbers(verification.softmax(z)) for z in logits)
    result = of_pair(name, to("torch", target, dtype), to("torch", draft, dtype))
    tolerance = {"float16": 2e-3, "bfloat16": 2e-2}[dtype]
    if name in {"rejection_probability", "residual_distribution"}:  # ratios of differences of rounded numbers
        assert np.isfinite(numbers(result)).all()
        return
    np.testing.assert_allclose(numbers(result), of_pair(name, target, draft), rtol=0, atol=tolerance)


@pair_functions
def test_numbers_and_lists_become_float64_of_numpy(name):
    for one, other in (([0, 1], [1, 0]), ([0.0, 1.0], [1, 0]), ((0, 1), np.array([1, 0]))):
        assert kind_of(of_pair(name, one, other)) == ("numpy", "float64")


def test_options_do_not_widen_the_answer():
    for library in ("numpy", "torch"):
        p, q = to(library, P, "float32"), to(library, Q, "float32")
        assert kind_of(verification.output_distribution(p, q, skip=[0.5, 0.5, 0.5])) == (library, "float32")
        assert kind_of(verification.output_distribution(p, q, skip=0.5)) == (library, "float32")
        assert kind_of(verification.output_distribution(p, q, residual=P)) == (library, "float32")


@pair_functions
def test_leading_dimensions_broadcast(name):
    target = np.stack([P, Q, [1.0, 0.0, 0.0]])
    draft = np.stack([Q, P])[:, None, :]
    result = of_pair(name, target, draft)
    assert result.shape[:2] == (2, 3)
    for i, j in np.ndindex(2, 3):
        np.testing.assert_array_equal(result[i, j], of_pair(name, target[j], draft[i, 0]))


@pair_functions
def test_permutation_equivariance(name):
    @given(grid_pairs(), st.randoms(use_true_random=False))
    def renaming_the_tokens_renames_the_answer(pair, random):
        size = pair["draft"].shape[-1]
        order = random.sample(range(size), size)
        renamed = of_pair(name, pair["target"][..., order], pair["draft"][..., order])
        answer = of_pair(name, **pair)
        ties = (pair["target"] == pair["target"].max(-1, keepdims=True)).sum(-1).max() > 1
        if name == "greedy_output_distribution" and ties:
            return  # the lowest index wins
        np.testing.assert_allclose(renamed, answer[..., order] if name in ROWS_OUT else answer, rtol=0, atol=1e-15)

    renaming_the_tokens_renames_the_answer()


BAD_ROWS = {
    "short of 1": ([0.5, 0.25, 0.22], "sums to 0.97"),
    "more than 1": ([0.5, 0.25, 0.35], "sums to 1.1"),
    "NaN": ([0.5, float("nan"), 0.5], "holds nan at entry 1"),
    "infinity": ([0.5, 0.5, float("inf")], "holds inf at entry 2"),
    "minus infinity": ([float("-inf"), 0.5, 0.5], "holds -inf at entry 0"),
    "negative": ([1.25, -0.25, 0.0], r"holds -0\.25 at entry 1"),
    "logits": ([3.0, -1.0, 2.0], r"holds -1\.0 at entry 1"),
    "empty": ([], r"got shape \(0,\)"),
    "scalar": (1.0, r"got shape \(\)"),
    "second of a batch": ([[0.5, 0.25, 0.25], [0.5, 0.25, 0.22]], r"at index \(1,\) that sums to 0\.97"),
}
REMEDY = "; apply a softmax to logits, or divide each row by its sum$"


@pair_functions
@pytest.mark.parametrize("case", BAD_ROWS)
def test_bad_rows_are_refused(name, case):
    row, words = BAD_ROWS[case]
    first, second = argument_names(name)
    opening = " must be rows of probabilities: finite, non-negative, summing to 1; .*"
    for library in ("numpy", "torch"):
        good, bad = to(library, P), to(library, row)
        with pytest.raises(ValueError, match=f"^{first}{opening}{words}{REMEDY}"):
            of_pair(name, bad, good)
        with pytest.raises(ValueError, match=f"^{second}{opening}{words}{REMEDY}"):
            of_pair(name, good, bad)


@pair_functions
def test_different_vocabularies_are_refused(name):
    first, second = argument_names(name)
    sizes = f"{first} rows have 3 entries, {second} rows have 2 entries"
    with pytest.raises(ValueError, match=rf"^{first} and {second} must share one vocabulary; {sizes}; .*tokenizer"):
        of_pair(name, P, [0.5, 0.5])


@pytest.mark.parametrize("value", [["a", "b", "c"], None, [[0.5, 0.5], [1.0]]], ids=["text", "None", "ragged"])
def test_no_numbers_no_answer(value):
    with pytest.raises((TypeError, ValueError)):
        verification.acceptance_rate(value, value)


def test_complex_rows_are_refused_by_name():
    with pytest.raises((TypeError, ValueError), match=r"target.*complex"):
        verification.acceptance_rate(np.array(P, dtype=complex), Q)


@pytest.mark.parametrize(("skip", "words"), [(1.5, "got 1.5"), (-0.5, "got -0.5"), (float("nan"), "got nan")])
def test_a_skip_probability_outside_0_1_is_refused(skip, words):
    with pytest.raises(ValueError, match=rf"^skip must be in \[0, 1\]; {words} at index \(1,\); give a probability"):
        verification.output_distribution(P, Q, skip=[0.0, skip, 0.0])


def test_a_residual_over_another_vocabulary_is_refused_by_its_name():
    with pytest.raises(ValueError, match=r"residual.* 2 "):
        verification.output_distribution(P, Q, residual=[0.5, 0.5])


def test_a_skip_over_another_vocabulary_is_refused_by_its_name():
    with pytest.raises(ValueError, match=r"skip"):
        verification.output_distribution(P, Q, skip=[0.5, 0.5])


def test_a_residual_that_is_no_distribution_is_refused():
    with pytest.raises(ValueError, match=r"^residual must be rows of probabilities.*sums to 0\.97"):
        verification.output_distribution(P, Q, residual=[0.5, 0.25, 0.22])


# -------------------------------------------------------------------------------------------------------- softmax


@given(rows((3,), 5))
def test_softmax_undoes_the_logarithm(row):
    logits = np.log(np.maximum(row, 1e-300))
    np.testing.assert_allclose(verification.softmax(logits), row, rtol=1e-12, atol=1e-290)


@pytest.mark.parametrize("library", LIBRARIES)
def test_softmax_of_large_logits(library):
    result = verification.softmax(to(library, [[1e4, 1e4, -1e4]], "float32"))
    assert kind_of(result) == (library, "float32")
    assert numbers(result).tolist() == [[0.5, 0.5, 0.0]]


@pytest.mark.parametrize("stray", [float("nan"), float("inf")])
def test_softmax_refuses_what_overflowed(stray):
    with pytest.raises(ValueError, match=rf"^logits must be rows of logits, .*{stray} at entry 1.*overflow"):
        verification.softmax([0.0, stray])


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


# ------------------------------------------------------------------------------------------------ expected tokens


@given(acceptances(), st.integers(0, 6))
def test_tokens_against_all_outcomes(alpha, length):
    exactly = oracles.expected_tokens([Fraction(alpha)] * length)
    assert float(verification.expected_tokens(alpha, length)) == pytest.approx(float(exactly), rel=1e-14)


@given(acceptances().filter(lambda alpha: alpha < 1), st.sampled_from([0, 1, 7, 1000, 10**6, 2**53]))
def test_tokens_against_the_printed_quotient(alpha, length):
    with mpmath.workdps(400):
        exactly = (1 - mpmath.mpf(alpha) ** (length + 1)) / (1 - mpmath.mpf(alpha))
    assert float(verification.expected_tokens(alpha, length)) == pytest.approx(float(exactly), rel=1e-13)


@pytest.mark.parametrize(
    ("alpha", "length", "tokens"),
    [
        (0.0, 5, 1.0),
        (0.0, 0, 1.0),
        (1.0, 5, 6.0),
        (1.0, 0, 1.0),
        (1.0, 2**40, 2.0**40 + 1),
        (5e-324, 10, 1.0),
        (0.5, 0, 1.0),
        (0.5, 2**40, 2.0),
        (1 - 1e-12, 3, 4 - 6e-12),
        (1 - 2**-53, 10**9, 10**9 + 1 - 5e17 * 2**-53),
    ],
)
def test_tokens_at_the_edges(alpha, length, tokens):
    assert float(verification.expected_tokens(alpha, length)) == pytest.approx(tokens, rel=1e-14)


@given(st.floats(0, 1), st.floats(0, 1), st.integers(0, 100), st.integers(0, 100))
def test_tokens_grow_with_both(alpha, other, length, more):
    low, high = sorted((alpha, other))
    tokens = [verification.expected_tokens(a, n) for a, n in ((low, length), (high, length), (high, length + more))]
    assert tokens[0] >= 1
    assert all(less <= next_ * (1 + 1e-14) for less, next_ in pairwise(tokens))
    assert tokens[2] <= length + more + 1


@given(profiles(max_draft_length=6))
def test_profile_against_all_outcomes(case):
    rates = case["acceptances"]
    expected = row_by_row(lambda row: oracles.expected_tokens(exact(row)), (rates, 1))
    np.testing.assert_allclose(expected_tokens_profile(rates), expected, rtol=1e-14)


@given(acceptances(), st.integers(0, 30))
def test_a_flat_profile_is_the_iid_case(alpha, length):
    flat = expected_tokens_profile([alpha] * length)
    assert float(flat) == pytest.approx(float(verification.expected_tokens(alpha, length)), rel=1e-13)


def test_marginal_rates_are_the_wrong_ones():
    """One stream accepts both drafts, one accepts none: 2 tokens on average; the marginal rates give 1.75."""
    streams = [[Fraction(1), Fraction(1)], [Fraction(0), Fraction(0)]]
    truth = sum(oracles.expected_tokens(stream) for stream in streams) / 2
    given_the_first = [0.5, 1.0]
    marginal = [0.5, 0.5]
    assert float(truth) == float(expected_tokens_profile(given_the_first)) == 2.0
    assert float(expected_tokens_profile(marginal)) == 1.75


def test_no_draft_gives_the_servers_own_token():
    assert float(expected_tokens_profile([])) == 1.0
    assert float(verification.expected_tokens(0.7, 0)) == 1.0


def test_tokens_of_half_types_and_integers():
    assert kind_of(verification.expected_tokens(to("torch", [0.5], "bfloat16"), 3)) == ("torch", "float32")
    assert kind_of(verification.expected_tokens(1, 3)) == ("numpy", "float64")
    assert kind_of(expected_tokens_profile([1, 0])) == ("numpy", "float64")


def test_tokens_of_a_number_and_a_tensor_of_lengths():
    """A Python number keeps its 53 bits next to an integer tensor."""
    tokens = verification.expected_tokens(0.1, to("torch", [3]))
    np.testing.assert_allclose(numbers(tokens), [1.111], rtol=1e-15)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_the_acceptance_of_a_softmax_is_an_acceptance(library, dtype):
    """The rate of rows that sum to 1 up to rounding is accepted by expected_tokens."""
    weights = np.random.default_rng(0).gamma(0.3, size=(1000, 50))
    row = to(library, weights / weights.sum(-1, keepdims=True), dtype)
    alpha = verification.acceptance_rate(row, row)
    assert numbers(alpha).max() <= 1.0
    assert numbers(verification.expected_tokens(alpha, 3)).max() <= 4.0


def test_total_variation_does_not_exceed_1_by_rounding():
    weights = np.random.default_rng(0).gamma(0.3, size=(1000, 50))
    row = weights / weights.sum(-1, keepdims=True)
    nowhere = np.zeros_like(row)
    assert verification.total_variation(np.hstack([row, nowhere]), np.hstack([nowhere, row])).max() <= 1.0


@pytest.mark.parametrize(("alpha", "words"), [(1.2, "got 1.2"), (-0.1, "got -0.1"), (float("nan"), "got nan")])
def test_a_rate_outside_0_1_is_refused(alpha, words):
    with pytest.raises(ValueError, match=rf"^acceptance must be in \[0, 1\]; {words}; give a probability$"):
        verification.expected_tokens(alpha, 3)
    with pytest.raises(ValueError, match=rf"^acceptances must be in \[0, 1\]; {words} at index \(1,\); give a"):
        expected_tokens_profile([0.5, alpha])


@pytest.mark.parametrize(("length", "words"), [(-1, "got -1"), (2.5, "got 2.5"), ([3, -2], r"got -2 at index \(1,\)")])
def test_a_draft_length_that_counts_nothing_is_refused(length, words):
    words = rf"^draft_length must be a whole number, 0 or more; {words}.*give a non-negative integer$"
    with pytest.raises(ValueError, match=words):
        verification.expected_tokens(0.5, length)


def test_a_profile_needs_an_axis_of_drafts():
    with pytest.raises(ValueError, match=r"acceptances .*shape \(\)"):
        expected_tokens_profile(0.5)


def test_tokens_that_do_not_fit_together_are_refused():
    with pytest.raises(ValueError, match=r"acceptance has \(2,\), draft_length has \(3,\)"):
        verification.expected_tokens([0.5, 0.5], [1, 2, 3])


def test_the_package_has_its_modules_and_the_shortcuts():
    assert set(hlmtheory.__all__) <= set(dir(hlmtheory))
    for module in hlmtheory.MODULES:
        assert getattr(hlmtheory, module).__name__ == f"hlmtheory.{module}"
    for name, module in hlmtheory.SHORTCUTS.items():
        assert getattr(hlmtheory, name) is getattr(getattr(hlmtheory, module), name)
