"""Sending k of V probabilities, against sorting by hand and exact rational arithmetic."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hlmtheory
from hlmtheory import truncation, verification
from hlmtheory.claims import Status

from . import oracles
from .kinds import LIBRARIES, kind_of, numbers, to
from .oracles import exact, row_by_row
from .strategies import grid_pairs, grid_rows, pairs, rows, shapes, vocabularies, with_size, with_sizes

SIZED_FUNCTIONS = ("resampling_distortion", "resampling_bias", "tvd_bound", "tvd_bound_sharp")
"""Functions of two probability rows and k."""

NAIVE = {
    "resampling_distortion": oracles.distortion,
    "resampling_bias": oracles.bias,
    "tvd_bound": oracles.tvd_bound,
    "tvd_bound_sharp": oracles.tvd_bound_sharp,
}
P, Q = [0.25, 0.5, 0.125, 0.125], [0.5, 0.25, 0.25, 0.0]

sized_functions = pytest.mark.parametrize("name", SIZED_FUNCTIONS)


def of_pair(name, target, draft, k):
    """Call the public function by its name."""
    return getattr(truncation, name)(target, draft, k)


def every_size(row):
    """Return all k for a row."""
    return np.arange(np.shape(row)[-1] + 1)


# ------------------------------------------------------------------------------------------------------- truncate


@given(st.data())
def test_truncate_against_sorting(data):
    draft = data.draw(rows(data.draw(shapes()), data.draw(vocabularies())))
    k = data.draw(st.integers(0, draft.shape[-1]))
    expected = row_by_row(lambda row, size: oracles.truncate(row.tolist(), size), (draft, 1), (k, 0))
    np.testing.assert_allclose(truncation.truncate(draft, k), expected, rtol=1e-12, atol=1e-323)


@given(st.data())
def test_truncate_keeps_what_it_sends(data):
    """Up to the rounding of one division by the row's sum."""
    draft = data.draw(rows((), data.draw(vocabularies())))
    k = data.draw(st.integers(0, draft.shape[-1]))
    sent = np.argsort(-draft, kind="stable")[:k]
    np.testing.assert_allclose(truncation.truncate(draft, k)[sent], draft[sent], rtol=1e-13, atol=5e-324)


@given(st.data())
def test_truncating_twice_changes_nothing_more(data):
    draft = data.draw(grid_rows(data.draw(shapes()), data.draw(vocabularies())))
    k = data.draw(st.integers(0, draft.shape[-1]))
    once = truncation.truncate(draft, k)
    np.testing.assert_allclose(once.sum(-1), 1, rtol=0, atol=1e-14)
    np.testing.assert_allclose(truncation.truncate(once, k), once, rtol=0, atol=1e-15)


def test_ties_are_kept_by_lowest_index():
    assert truncation.truncate([0.25, 0.25, 0.25, 0.25, 0.0], 2).tolist() == [0.25, 0.25, 0.5 / 3, 0.5 / 3, 0.5 / 3]
    assert truncation.truncate([0.0, 0.5, 0.0, 0.5], 1).tolist() == [0.5 / 3, 0.5, 0.5 / 3, 0.5 / 3]


@pytest.mark.parametrize("library", LIBRARIES)
def test_ties_fall_alike_in_every_library(library):
    """A wide row with few distinct values: an unstable sort would give another result."""
    row = np.random.default_rng(5).integers(0, 3, size=200) + 1.0
    row /= row.sum()
    for k in (1, 37, 100, 199):
        np.testing.assert_allclose(
            numbers(truncation.truncate(to(library, row), k)), oracles.truncate(row.tolist(), k), rtol=1e-13
        )


def test_sending_nothing_and_everything():
    assert truncation.truncate([0.5, 0.25, 0.25, 0.0], 0).tolist() == [0.25] * 4
    for k in (3, 4):
        assert truncation.truncate([0.5, 0.25, 0.0, 0.25], k).tolist() == [0.5, 0.25, 0.0, 0.25]


def test_one_token_vocabulary():
    for k in (0, 1):
        assert truncation.truncate([1.0], k).tolist() == [1.0]
        for name in SIZED_FUNCTIONS:
            assert of_pair(name, [1.0], [1.0], k) == 0
    assert truncation.tail_deviation([1.0]).tolist() == [0.0, 0.0]


# ------------------------------------------------------------------------------------------------- tail deviation


@given(st.data())
def test_the_deviation_is_the_distance_to_the_truncated_row(data):
    draft = data.draw(rows((), data.draw(vocabularies())))
    distance = verification.total_variation(draft, truncation.truncate(draft, every_size(draft)))
    np.testing.assert_allclose(truncation.tail_deviation(draft), distance, rtol=0, atol=1e-13)


@given(st.data())
def test_small_tails_keep_their_digits(data):
    """The error is relative to the tail's mass, not to 1; against exact rationals, down to subnormal numbers."""
    draft = data.draw(rows((), data.draw(vocabularies())))
    row = exact(draft)
    sizes = every_size(draft) if len(row) <= 12 else (0, 10, 150, 198)
    deviation = truncation.tail_deviation(draft)
    descending = sorted(row, reverse=True)
    for k in sizes:
        tail = float(sum(descending[k:], Fraction(0)))
        error = abs(Fraction(float(deviation[k])) - oracles.deviation(row, k))
        assert float(error) <= 4 * len(row) * 2.0**-53 * tail + len(row) * 5e-324


def test_a_tail_of_1e_300_is_not_lost():
    head, tail = [0.5, 0.5], [3e-300, 1e-300, 0.0]
    deviation = truncation.tail_deviation([*head, *tail])
    np.testing.assert_allclose(deviation[2], 5e-300 / 3, rtol=1e-14)
    np.testing.assert_allclose(deviation[3], 0.5e-300, rtol=1e-14)


@given(st.data())
def test_the_deviation_never_rises(data):
    """Except by the rounding of a tail's sum, so that a binary search is right."""
    draft = data.draw(rows(data.draw(shapes()), data.draw(vocabularies())))
    deviation = truncation.tail_deviation(draft)
    assert deviation.shape == (*draft.shape[:-1], draft.shape[-1] + 1)
    assert (deviation >= 0).all()
    assert (np.diff(deviation, axis=-1) <= 1e-13 * np.maximum(deviation[..., :-1], 1e-3)).all()
    assert (deviation[..., -2:] == 0).all()


@given(st.data())
def test_the_deviation_does_not_depend_on_the_order(data):
    draft = data.draw(rows((), data.draw(vocabularies())))
    np.testing.assert_allclose(
        truncation.tail_deviation(draft), truncation.tail_deviation(draft[::-1]), rtol=0, atol=1e-15
    )


# ---------------------------------------------------------------------------------------- distortion, bias, bounds


@sized_functions
def test_against_the_definition(name):
    @given(with_size(grid_pairs()))
    def agrees(case):
        expected = row_by_row(
            lambda p, q, k: float(NAIVE[name](exact(p), exact(q), int(k))),
            (case["target"], 1),
            (case["draft"], 1),
            (case["k"], 0),
        )
        np.testing.assert_allclose(of_pair(name, **case), expected, rtol=1e-12, atol=1e-13)

    agrees()


@given(with_size(pairs()))
def test_ranges(case):
    distortion = truncation.resampling_distortion(**case)
    bias = truncation.resampling_bias(**case)
    assert (distortion >= 0).all()
    assert (distortion <= 1 + 1e-14).all()
    assert (bias >= 0).all()
    assert (bias <= 2 * verification.total_variation(case["target"], case["draft"]) + 1e-13).all()
    assert (truncation.tvd_bound_sharp(**case) <= 2 + 1e-12).all()
    assert (truncation.tvd_bound_sharp(**case) <= truncation.tvd_bound(**case)).all()


@given(with_size(pairs()))
def test_the_bias_is_what_the_emitted_law_shows(case):
    """Computed with public functions: truncate, form the residual, emit. A residual of rounding counts as 0/0."""
    rebuilt = truncation.truncate(case["draft"], case["k"])
    distorted = verification.residual_distribution(case["target"], rebuilt)
    mass = verification.total_variation(case["target"], rebuilt)
    exists = mass > 2.0**-44
    stand_in = np.where(exists[..., None], distorted, case["target"])
    law = verification.output_distribution(case["target"], case["draft"], residual=stand_in)
    shown = np.abs(law - case["target"]).sum(-1)
    allowed = 1e-12 + 4e-15 / mass[exists]  # normalising the residual magnifies a rounding by 1/mass
    assert (np.abs(truncation.resampling_bias(**case)[exists] - shown[exists]) <= allowed).all()


DEGENERATE = {
    # target, draft, k, (distortion, bias, published bound, sharp bound)
    "p = q, something deviates": ([0.5, 0.375, 0.125], [0.5, 0.375, 0.125], 1, (0.0, 0.0, np.inf, 1.0)),
    "p = q, nothing deviates": ([0.5, 0.25, 0.25], [0.5, 0.25, 0.25], 1, (0.0, 0.0, 0.0, 0.0)),
    "p = q̂: r̂ is 0/0": ([0.5, 0.25, 0.25], [0.5, 0.375, 0.125], 1, (1.0, 0.25, 2.0, 1.0)),
    "p = q̂ in decimals": ([0.6, 0.2, 0.2], [0.6, 0.3, 0.1], 1, (1.0, 0.2, 2.0, 1.0)),
    "k = 0 of a uniform draft": ([0.5, 0.25, 0.25, 0.0], [0.25] * 4, 0, (0.0, 0.0, 0.0, 0.0)),
    "k = 0 and p uniform": ([0.25] * 4, [0.5, 0.25, 0.25, 0.0], 0, (1.0, 0.5, 2.0, 1.0)),
    "k = V": (P, Q, 4, (0.0, 0.0, 0.0, 0.0)),
    "k = V - 1": (P, Q, 3, (0.0, 0.0, 0.0, 0.0)),
    "disjoint": ([0.0, 0.0, 1.0], [0.5, 0.5, 0.0], 0, (0.0, 0.0, 2 / 3, 1 / 3)),
    "attained": ([0.5, 0.25, 0.25], [0.625, 0.25, 0.125], 1, (0.5, 0.125, 1.0, 0.5)),
}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate_cases(case, library):
    target, draft, k, expected = DEGENERATE[case]
    for name, value in zip(SIZED_FUNCTIONS, expected, strict=True):
        result = of_pair(name, to(library, target), to(library, draft), k)
        np.testing.assert_allclose(numbers(result), value, rtol=0, atol=1e-14, err_msg=name)


@sized_functions
def test_subnormal_distances_do_not_overflow(name):
    """TV(q, p) is 5e-324: the quotient exceeds float64, and the result is infinite without a warning."""
    target, draft = [1.0, 0.0, 0.0], [1.0, 5e-324, 5e-324]
    expected = {"resampling_distortion": 0.0, "resampling_bias": 0.0, "tvd_bound": np.inf, "tvd_bound_sharp": 1.0}
    assert float(of_pair(name, target, draft, 0)) == pytest.approx(expected[name], rel=1e-15)


@pytest.mark.parametrize("shift", [Fraction(1, 39), Fraction(1, 390), Fraction(1, 39_000), Fraction(1, 39 * 10**8)])
def test_the_distortion_can_rise_with_k_by_nearly_1(shift):
    """From k = 0 to 1 by (4/39)/(4/39 + δ), which tends to 1: the heavy middle token is flattened only at k = 1."""
    draft = [Fraction(21, 39), Fraction(13, 39), Fraction(5, 39)]
    target = [draft[0] + shift, draft[1], draft[2] - shift]
    rise = Fraction(4, 39) / (Fraction(4, 39) + shift)
    assert oracles.distortion(target, draft, 1) - oracles.distortion(target, draft, 0) == rise
    floats = [float(entry) for entry in target], [float(entry) for entry in draft]
    distortion = truncation.resampling_distortion(*floats, [0, 1, 2, 3])
    assert distortion[0] <= 1e-15 / float(shift)
    assert float(distortion[1]) == pytest.approx(float(rise), rel=1e-6)
    np.testing.assert_allclose(distortion[2:], [0, 0], atol=1e-15 / float(shift))


def test_the_rise_with_k_passes_0_999999():
    draft = np.array([21, 13, 5]) / 39
    distortion = truncation.resampling_distortion(draft + np.array([1e-8, 0, -1e-8]), draft, [0, 1])
    assert distortion[1] - distortion[0] > 0.999999


# ----------------------------------------------------------------------------------------- k that depends on v


@given(with_sizes(grid_pairs()))
def test_the_bias_of_sizes_by_draft_against_enumeration(case):
    def naive(p, q, top_k):
        """Return the Bias if each rejected draft v is replaced from its own r̂, or the worst token where r̂ is 0/0."""
        p, q = exact(p), exact(q)
        worst = max(range(len(q)), key=lambda v: q[v] - p[v])
        law = [Fraction(0)] * len(q)
        for v, beta in enumerate(oracles.rejection(p, q)):
            replacement = oracles.residual(p, oracles.truncate(q, int(top_k[v])))
            replacement = replacement or [Fraction(v == worst) for v in range(len(q))]
            law[v] += q[v] * (1 - beta)
            law = [mass + q[v] * beta * r for mass, r in zip(law, replacement, strict=True)]
        return float(sum(abs(a - b) for a, b in zip(law, p, strict=True)))

    expected = row_by_row(naive, (case["target"], 1), (case["draft"], 1), (case["top_k"], 1))
    claim = hlmtheory.all_claims()["truncation.certificate_by_draft"]
    verdict = claim.check(case)
    inside = ~np.isnan(verdict.lhs)
    np.testing.assert_allclose(verdict.lhs[inside], np.asarray(expected)[inside], rtol=0, atol=1e-13)


# --------------------------------------------------------------------------------------------------- input, dtype


@sized_functions
def test_permutation_equivariance(name):
    @given(with_size(pairs()), st.randoms(use_true_random=False))
    def the_names_of_the_tokens_do_not_matter(case, random):
        size = case["draft"].shape[-1]
        order = random.sample(range(size), size)
        # without ties only: those are settled by index
        draft = case["draft"]
        distinct = all(len(set(row)) == size for row in draft.reshape(-1, size))
        if not distinct:
            return
        distances = [
            verification.total_variation(case["target"], q) for q in (draft, truncation.truncate(draft, case["k"]))
        ]
        # a residual of rounding errors, true or distorted, may point anywhere, and 1/TV magnifies them
        noise = 1e-13 / np.clip(np.minimum(*distances), 1e-13, None)
        renamed = of_pair(name, case["target"][..., order], draft[..., order], case["k"])
        answer = of_pair(name, **case)
        finite = np.isfinite(answer)
        assert (finite == np.isfinite(renamed)).all()
        limit = noise[finite] * np.maximum(1, answer[finite])
        assert (np.abs(renamed[finite] - answer[finite]) <= limit).all()

    the_names_of_the_tokens_do_not_matter()


@given(st.data())
def test_truncate_is_equivariant_without_ties(data):
    size = data.draw(st.integers(1, 12))
    weights = np.array(data.draw(st.permutations(range(1, size + 1))), dtype=float)
    draft = weights / weights.sum()
    order = data.draw(st.permutations(range(size)))
    k = data.draw(st.integers(0, size))
    np.testing.assert_allclose(truncation.truncate(draft[order], k), truncation.truncate(draft, k)[order], rtol=1e-14)


@sized_functions
def test_sizes_broadcast_against_rows(name):
    rng = np.random.default_rng(4)
    target, draft = rng.dirichlet(np.ones(6), size=(2, 5))
    all_sizes = of_pair(name, target[:, None, :], draft[:, None, :], np.arange(7))
    assert all_sizes.shape == (5, 7)
    for i, k in np.ndindex(5, 7):
        np.testing.assert_allclose(all_sizes[i, k], of_pair(name, target[i], draft[i], k), rtol=1e-12, atol=1e-15)


@sized_functions
def test_leading_dimensions_of_the_rows_broadcast(name):
    rng = np.random.default_rng(5)
    target, draft = rng.dirichlet(np.ones(6), size=(2, 1)), rng.dirichlet(np.ones(6), size=3)
    assert of_pair(name, target, draft, 2).shape == (2, 3)
    assert of_pair(name, target, draft, np.array([0, 1, 2])).shape == (2, 3)
    assert of_pair(name, target[0, 0], draft, 2).shape == (3,)
    assert of_pair(name, target[0, 0], draft[0], 2).shape == ()
    assert of_pair(name, target[0, 0], draft[0], [0, 1, 2, 3]).shape == (4,)
    for i, j in np.ndindex(2, 3):
        one = of_pair(name, target[i, 0], draft[j], 2)
        np.testing.assert_allclose(of_pair(name, target, draft, 2)[i, j], one, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", [*SIZED_FUNCTIONS, "truncate", "tail_deviation"])
def test_rounded_half_rows_are_accepted(name, dtype):
    """A softmax in a half type sums to 1 only approximately; the result is equally accurate."""
    logits = np.random.default_rng(3).normal(size=(2, 20, 300)) * 3
    pair = [numbers(verification.softmax(z)) for z in logits]
    function = getattr(truncation, name)
    options = {} if name == "tail_deviation" else {"k": 5}
    wanted = pair if name in SIZED_FUNCTIONS else pair[1:]
    result = function(*(to("torch", row, dtype) for row in wanted), **options)
    tolerance = {"float16": 5e-3, "bfloat16": 5e-2}[dtype]
    np.testing.assert_allclose(numbers(result), function(*wanted, **options), rtol=0, atol=tolerance)


@sized_functions
def test_integers_and_lists_become_float64_of_numpy(name):
    assert kind_of(of_pair(name, [0, 1], [1, 0], 1)) == ("numpy", "float64")


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
def test_k_of_any_integer_type(library, dtype):
    """Also if V does not fit into the type of k."""
    rng = np.random.default_rng(8)
    p, q = rng.dirichlet(np.ones(300), size=2)
    k = to(library, [0, 1, 100], dtype)
    for name in SIZED_FUNCTIONS:
        result = of_pair(name, to(library, p), to(library, q), k)
        np.testing.assert_allclose(numbers(result), of_pair(name, p, q, [0, 1, 100]), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(numbers(truncation.truncate(to(library, q), k))[2], truncation.truncate(q, 100))


TAKE_SIZE = {
    "truncate": lambda k: truncation.truncate(Q, k),
    **{name: lambda k, name=name: of_pair(name, P, Q, k) for name in SIZED_FUNCTIONS},
}
"""Every public function that takes k, as a function of k alone."""


@pytest.mark.parametrize("name", TAKE_SIZE)
@pytest.mark.parametrize(
    ("k", "words"),
    [
        (5, "got 5;"),
        (-1, "got -1;"),
        (2.5, "got 2.5"),
        (True, "bool"),
        ([0, 4, 5], r"got 5 at index \(2,\);"),
        (float("nan"), "got nan"),
    ],
    ids=["V + 1", "-1", "2.5", "True", "one of many", "NaN"],
)
def test_a_size_that_counts_no_entries_is_refused(name, k, words):
    with pytest.raises(
        ValueError, match=rf"^k must be a whole number in 0\.\.V with V = 4; .*{words}.*k counts tokens"
    ):
        TAKE_SIZE[name](k)


BAD_ROWS = {
    "short of 1": ([0.5, 0.25, 0.22, 0.0], "sums to 0.97"),
    "NaN": ([0.5, float("nan"), 0.5, 0.0], "holds nan at entry 1"),
    "infinity": ([0.5, 0.5, float("inf"), 0.0], "holds inf at entry 2"),
    "negative": ([1.25, -0.25, 0.0, 0.0], r"holds -0\.25 at entry 1"),
    "empty": ([], r"got shape \(0,\)"),
    "scalar": (1.0, r"got shape \(\)"),
}


@pytest.mark.parametrize("case", BAD_ROWS)
def test_bad_rows_are_refused(case):
    row, words = BAD_ROWS[case]
    words = f" must be rows of probabilities: .*{words}; apply a softmax to logits, or divide each row by its sum$"
    calls = [lambda: truncation.truncate(row, 1), lambda: truncation.tail_deviation(row)]
    for name in SIZED_FUNCTIONS:
        calls.append(lambda name=name: of_pair(name, P, row, 1))
        with pytest.raises(ValueError, match="^target" + words):
            of_pair(name, row, Q, 1)
    for call in calls:
        with pytest.raises(ValueError, match="^draft" + words):
            call()


@sized_functions
def test_different_vocabularies_are_refused(name):
    words = "share one vocabulary; target rows have 4 entries, draft rows have 2 entries; .*same tokenizer"
    with pytest.raises(ValueError, match=words):
        of_pair(name, P, [0.5, 0.5], 1)


def test_inputs_are_left_as_they_were():
    p, q = np.array([P]), np.array([Q])
    for name in SIZED_FUNCTIONS:
        of_pair(name, p, q, 2)
    truncation.truncate(q, 2)
    truncation.tail_deviation(q)
    assert (p.tolist(), q.tolist()) == ([P], [Q])


# ------------------------------------------------------------------------------------------ what a review found


def test_the_certificate_by_draft_needs_the_largest_deviation():
    """On the tight case the likeliest draft has Δ = 0, so a certificate from it alone is caught."""
    claim = hlmtheory.all_claims()["truncation.certificate_by_draft"]

    def likeliest(draft, top_k):
        top = np.argmax(draft, axis=-1)
        return 2 * truncation.tail_deviation(draft)[top_k[top]]

    assert replace(claim, rhs=likeliest).check(claim.attained.instance).count(Status.VIOLATED) == 1


@pytest.mark.parametrize("apart", [0.0, 2.0**-50, 2.0**-44])
def test_a_residual_of_rounding_errors_is_the_worst_by_draft_too(apart):
    """q̂ equals the target up to a rounding, whose sign would decide the replacement: here it would correct the law."""
    claim = hlmtheory.all_claims()["truncation.certificate_by_draft"]
    case = {"target": [0.5, 0.25 - apart, 0.25 + apart], "draft": [0.5, 0.375, 0.125], "top_k": [2, 1, 2]}
    verdict = claim.check(case)
    assert verdict.holds
    assert float(verdict.lhs) == pytest.approx(0.25, abs=1e-12)


def test_the_worst_by_draft_is_within_the_certificate_where_little_is_rejected():
    """TV(q, p) = 2^-43, TV(q̂, p) = 2^-44: r̂ can be wrong by at most half of the rejected mass."""
    claim = hlmtheory.all_claims()["truncation.certificate_by_draft"]
    least = 2.0**-44
    case = {
        "target": [0.5, 0.25 - least, 0.25 + least],
        "draft": [0.5, 0.25 + least, 0.25 - least],
        "top_k": [1, 1, 1],
    }
    verdict = claim.check(case)
    assert verdict.holds
    assert float(verdict.lhs) == pytest.approx(2 * least, rel=1e-9, abs=0)


@pytest.mark.parametrize("vocabulary", [1026, 2050, 4096, 32_000])
@pytest.mark.parametrize("name", ["certificate", "tvd_sharp"])
def test_summation_error_does_not_break_a_tight_claim_at_real_sizes(name, vocabulary):
    """The sides are nearly equal over a long, nearly flat tail: the sums' rounding must stay below the tolerance."""
    tail = vocabulary - 2
    half, level = tail // 2, 0.95 / tail
    flat = np.full(half, level * 1.01), np.full(tail - half, level * (1 - 0.01 * half / (tail - half)))
    draft = np.concatenate([[0.025, 0.025], *flat])
    draft /= draft.sum()
    mean, target = draft[2:].mean(), draft.copy()
    low = (draft < mean) & (np.arange(vocabulary) >= 2)
    high = (draft >= mean) & (np.arange(vocabulary) >= 2)
    target[low] = mean
    excess = target.sum() - 1 + 1e-3
    target[1] += 1e-3
    target[high] -= excess / high.sum()
    verdict = hlmtheory.all_claims()[f"truncation.{name}"].check({"target": target, "draft": draft, "k": 2})
    assert verdict.status.item() is Status.HOLDS
    assert verdict.lhs > 0.99 * verdict.rhs
