"""Sending k of V probabilities, against sorting by hand and exact rational arithmetic."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import linprog

import hlmtheory
from hlmtheory import truncation, verification

from . import oracles
from .kinds import LIBRARIES, numbers, to
from .oracles import exact, row_by_row
from .public import theory
from .strategies import grid_pairs, rows, shapes, vocabularies, with_size, with_sizes

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


@given(st.data())
def test_truncate_against_sorting(data):
    draft = data.draw(rows(data.draw(shapes()), data.draw(vocabularies())))
    k = data.draw(st.integers(0, draft.shape[-1]))
    expected = row_by_row(lambda row, size: oracles.truncate(row.tolist(), size), (draft, 1), (k, 0))
    np.testing.assert_allclose(truncation.truncate(draft, k), expected, rtol=1e-12, atol=1e-323)


def test_ties_are_kept_by_lowest_index():
    assert truncation.truncate([0.25, 0.25, 0.25, 0.25, 0.0], 2).tolist() == [0.25, 0.25, 0.5 / 3, 0.5 / 3, 0.5 / 3]
    assert truncation.truncate([0.0, 0.5, 0.0, 0.5], 1).tolist() == [0.5 / 3, 0.5, 0.5 / 3, 0.5 / 3]


@given(st.data())
def test_small_tails_keep_their_digits(data):
    """The error is relative to the tail's mass, not to 1; against exact rationals, down to subnormal numbers."""
    draft = data.draw(rows((), data.draw(vocabularies())))
    row = exact(draft)
    sizes = range(len(row) + 1) if len(row) <= 12 else (0, 10, 150, 198)
    deviation = truncation.tail_deviation(draft)
    descending = sorted(row, reverse=True)
    for k in sizes:
        tail = float(sum(descending[k:], Fraction(0)))
        error = abs(Fraction(float(deviation[k])) - oracles.deviation(row, k))
        assert float(error) <= 4 * len(row) * 2.0**-53 * tail + len(row) * 5e-324


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
        np.testing.assert_allclose(getattr(theory, name)(*case.values()), expected, rtol=1e-12, atol=1e-13)

    agrees()


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
        result = getattr(theory, name)(to(library, target), to(library, draft), k)
        np.testing.assert_allclose(numbers(result), value, rtol=0, atol=1e-14, err_msg=name)


@sized_functions
def test_subnormal_distances_do_not_overflow(name):
    """TV(q, p) is 5e-324: the quotient exceeds float64, and the result is infinite without a warning."""
    target, draft = [1.0, 0.0, 0.0], [1.0, 5e-324, 5e-324]
    expected = {"resampling_distortion": 0.0, "resampling_bias": 0.0, "tvd_bound": np.inf, "tvd_bound_sharp": 1.0}
    assert float(getattr(theory, name)(target, draft, 0)) == pytest.approx(expected[name], rel=1e-15)


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
    verdict = hlmtheory.all_claims()["truncation.certificate_by_draft"].check(case)
    inside = ~np.isnan(verdict.lhs)
    np.testing.assert_allclose(verdict.lhs[inside], np.asarray(expected)[inside], rtol=0, atol=1e-13)


@given(st.data())
def test_a_bound_on_the_distance_alone_allows_a_bias_of_twice_the_smaller_for_every_size(data):
    """The target lies between q and q̂, and needs no sent entries, so it also holds for k = 0."""
    draft = data.draw(rows((), data.draw(vocabularies(2))))
    k = data.draw(st.integers(0, len(draft)))
    flat, deviation = truncation.truncate(draft, k), float(truncation.tail_deviation(draft)[k])
    most = data.draw(st.floats(0.01, 1.0))
    assume(deviation >= 1e-6)
    target = draft + min(1.0, most / deviation) * (1 - 1e-6) * (flat - draft)
    assert float(verification.total_variation(target, draft)) <= most
    assert float(truncation.resampling_bias(target, draft, k)) == pytest.approx(2 * min(most, deviation), rel=1e-5)


@pytest.mark.parametrize("distance", [0.03, 0.2])
def test_the_worst_case_against_linear_programs_of_fixed_signs(distance):
    """The largest Σ_M (γ/δ - ω/s) over p with Σ γ = δ and Σ ω = s, by one linear program for each signs, M and s."""
    q, k = np.array([0.5, 0.3, 0.2]), 1
    flat, deviation = truncation.truncate(q, k), float(truncation.tail_deviation(q)[k])
    best = 0.0
    for up, over in product(product((0, 1), repeat=3), product((0, 1), repeat=2)):
        u, o = np.array(up), np.array([up[0], *over])  # all sent entries have one sign
        ends = [
            (max(low * above for low, above in sides), min(1.0 if above else low for low, above in sides))
            for sides in zip(zip(q, u, strict=True), zip(flat, o, strict=True), strict=True)
        ]
        if any(low > high for low, high in ends):
            continue
        for mass in (0.5 * distance, max(distance, deviation), distance + deviation):
            for m in map(np.array, product(*((0, 1) if sign else (0,) for sign in up))):
                gain = m * (u / distance - o / mass)
                totals = [1.0, distance + u @ q, mass + o @ flat]
                found = linprog(-gain, A_eq=[np.ones(3), u, o], b_eq=totals, bounds=ends)
                if m.any() and found.status == 0:
                    best = max(best, -found.fun - m @ (u * q / distance - o * flat / mass))
    assert best == pytest.approx(min(1.0, deviation / distance), abs=1e-6)


@given(st.data())
def test_the_rules_against_their_definitions(data):
    draft = data.draw(rows((), data.draw(vocabularies())))
    p = data.draw(st.floats(0.0, 0.999))
    descending = np.sort(draft)[::-1]
    k = int(theory.size_from_top_p(draft, p))
    assert descending[:k].sum() >= p - 1e-12
    assert k == 0 or descending[: k - 1].sum() < p + 1e-12
    assert int(theory.size_from_min_p(draft, p)) == sum(entry >= p * draft.max() for entry in draft)
