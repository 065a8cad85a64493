"""Worst targets, other distances, the samplers' rules and the bit budget, against solvers and enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hlmtheory import truncation, verification

from .strategies import rows, vocabularies

# ----------------------------------------------------------------------------------------------------- worst case


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
    cp = pytest.importorskip("cvxpy")
    q, k = np.array([0.5, 0.3, 0.2]), 1
    flat, deviation = truncation.truncate(q, k), float(truncation.tail_deviation(q)[k])
    p, mass, inverse = cp.Variable(3, nonneg=True), cp.Parameter(nonneg=True), cp.Parameter(nonneg=True)
    best = 0.0
    for up, over in product(product((0, 1), repeat=3), product((0, 1), repeat=2)):
        u, o = np.array(up), np.array([up[0], *over])  # all sent entries have one sign
        gained, distorted = cp.multiply(u, p - q), cp.multiply(o, p - flat)
        signs = [cp.multiply(2 * u - 1, p - q) >= 0, cp.multiply(2 * o - 1, p - flat) >= 0]
        fixed = [cp.sum(p) == 1, cp.sum(gained) == distance, cp.sum(distorted) == mass]
        for chosen in product(*((0, 1) if sign else (0,) for sign in up)):
            if not any(chosen):
                continue
            m = np.array(chosen)
            aim = cp.sum(cp.multiply(m, gained)) / distance - inverse * cp.sum(cp.multiply(m, distorted))
            problem = cp.Problem(cp.Maximize(aim), [*signs, *fixed])
            for value in (0.5 * distance, max(distance, deviation), distance + deviation):
                mass.value, inverse.value = value, 1 / value
                problem.solve(solver=cp.CLARABEL)
                best = max(best, float(problem.value)) if problem.status == "optimal" else best
    assert best == pytest.approx(min(1.0, deviation / distance), abs=1e-6)


# ---------------------------------------------------------------------------------------------------------- rules


@given(st.data())
def test_the_rules_against_their_definitions(data):
    draft = data.draw(rows((), data.draw(vocabularies())))
    p = data.draw(st.floats(0.0, 0.999))
    descending = np.sort(draft)[::-1]
    k = int(truncation.size_from_top_p(draft, p))
    assert descending[:k].sum() >= p - 1e-12
    assert k == 0 or descending[: k - 1].sum() < p + 1e-12
    assert int(truncation.size_from_min_p(draft, p)) == sum(entry >= p * draft.max() for entry in draft)
