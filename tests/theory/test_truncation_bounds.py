"""Worst targets, other distances, the samplers' rules and the bit budget, against solvers and enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hlmtheory.truncation.budget import optimal_sizes, solve_exactly
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from hlmtheory import truncation, verification

from .kinds import LIBRARIES, kind_of, to
from .strategies import rows, vocabularies

Q = [0.4, 0.25, 0.2, 0.1, 0.05]


def drawn(seed, *shape):
    """Rows similar to a draft model's."""
    return verification.softmax(np.random.default_rng(seed).normal(scale=2.0, size=shape))


# ----------------------------------------------------------------------------------------------------- worst case


@given(st.data())
def test_a_bound_on_the_distance_alone_allows_a_bias_of_twice_the_smaller_for_every_size(data):
    """The target lies between q and q̂, and needs no sent entries, so it also holds for k = 0."""
    draft = data.draw(rows((), data.draw(vocabularies(2))))
    k = data.draw(st.integers(0, len(draft)))
    flat, deviation = truncation.truncate(draft, k), float(truncation.tail_deviation(draft)[k])
    most = data.draw(st.floats(0.01, 1.0))
    if deviation < 1e-6:
        return
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


# ------------------------------------------------------------------------------------------------ other distances


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


# --------------------------------------------------------------------------------------------------------- budget


def by_program(deviation, entries):
    """Return the smallest total by a mixed-integer program: each token takes one k."""
    tokens, sizes = deviation.shape
    one_each = np.kron(np.eye(tokens), np.ones(sizes))
    spent = np.tile(np.arange(sizes), tokens)
    found = optimize.milp(
        deviation.reshape(-1),
        integrality=np.ones(tokens * sizes),
        bounds=optimize.Bounds(0, 1),
        constraints=[optimize.LinearConstraint(one_each, 1, 1), optimize.LinearConstraint(spent[None], 0, entries)],
    )
    return float(found.fun)


@pytest.mark.parametrize("seed", range(6))
def test_the_knapsack_against_a_mixed_integer_program(seed):
    rng = np.random.default_rng(seed)
    draft = rng.dirichlet(np.full(6, rng.choice([0.2, 1.0])), size=4)
    draft[0] = [0.5, 0.5, 0, 0, 0, 0]
    price = 8 + 3
    for entries in (0, 1, 3, 7, 30):
        expected = by_program(truncation.tail_deviation(draft), entries)
        best = optimal_sizes(draft, entries * price + 5, exact=True)
        hull = optimal_sizes(draft, entries * price)
        assert best.total == pytest.approx(expected, abs=1e-6)
        assert best.gap == 0.0
        assert best.bits == int(best.k.sum()) * price <= entries * price
        assert hull.lower_bound - 1e-12 <= expected <= hull.total + 1e-6
        assert hull.bits <= entries * price


@pytest.mark.parametrize("entries", range(10))
def test_the_knapsack_takes_the_best_of_all_choices_for_any_falling_rows(entries):
    """Rows whose first zero is the last entry too, and a row of zeros."""
    rows = np.asarray([[0.9, 0.3, 0.2, 0.0], [0.8, 0.7, 0.1, 0.0], [0.5, 0.0, 0.0, 0.0], [0.0] * 4])
    totals = {k: sum(row[i] for row, i in zip(rows, k, strict=True)) for k in product(range(4), repeat=4)}
    sizes, total = solve_exactly(rows, entries)
    assert sizes.sum() <= entries
    assert totals[tuple(sizes.tolist())] == pytest.approx(total, abs=1e-12)
    assert total == pytest.approx(min(value for k, value in totals.items() if sum(k) <= entries), abs=1e-12)


def test_plain_greedy_goes_astray_and_the_hull_says_by_how_much():
    draft = [[0.5, 0.5, 0.0, 0.0], [0.46, 0.18, 0.18, 0.18]]
    deviation = truncation.tail_deviation(draft)
    greedy = deviation[0][1] + deviation[1][1]  # the first entry helps the second token most
    best, hull = (optimal_sizes(draft, 20, exact=exact) for exact in (True, False))
    assert (best.k.tolist(), round(best.total, 3), round(float(greedy), 3)) == ([2, 0], 0.21, 0.333)
    assert hull.total - hull.lower_bound <= 0.5
    one = optimal_sizes(draft[:1], 10)
    assert one.gap == one.total - one.lower_bound == pytest.approx(1 / 3 - 1 / 4)
    assert hull.k.tolist() == [2, 0]


@pytest.mark.parametrize("library", LIBRARIES)
def test_allocations_come_in_kind(library):
    for exact in (True, False):
        found = optimal_sizes(to(library, drawn(2, 3, 9)), 60, exact=exact)
        assert kind_of(found.k) == (library, "int64")
        assert found.bits <= 60


@pytest.mark.parametrize("exact", [True, False])
def test_allocations_at_the_edges(exact):
    def sizes(rows_, budget):
        return optimal_sizes(rows_, budget, exact=exact).k.tolist()

    assert sizes([[1.0, 0.0], [0.5, 0.5]], 0) == [0, 0]
    assert sizes([[1.0, 0.0], [0.5, 0.5]], 10**9) == [1, 0]
    assert sizes([[1.0]], 100) == [0]
    assert sizes(np.zeros((0, 4)), 100) == []
    assert sizes([[0.5, 0.5, 0.0, 0.0]], 10) in ([0], [1])


def test_bad_budgets_are_refused():
    with pytest.raises(ValueError, match=r"^draft_rows must have shape \(T, V\)"):
        optimal_sizes(Q, 10)
    with pytest.raises(ValueError, match=r"^budget_bits must be a whole number, 0 or more"):
        optimal_sizes([Q], -1)
    with pytest.raises(ValueError, match=r"^budget_bits must be one number; got shape"):
        optimal_sizes([Q], [1, 2])
    with pytest.raises(ValueError, match=r"^bits_per_probability must be one whole number, 1 or more"):
        optimal_sizes([Q], 10, bits_per_probability=0)


@given(st.data())
def test_a_bias_near_a_reconstruction_is_within_its_certificate(data):
    """Below, at and above the threshold for 0/0."""
    draft = data.draw(rows((), 5))
    k = data.draw(st.integers(0, 5))
    rebuilt = truncation.truncate(draft, k)
    target = np.abs(
        rebuilt + data.draw(st.sampled_from((0.0, 1.0))) * 2.0 ** -data.draw(st.integers(38, 52)) * (draft - rebuilt)
    )
    target = target / target.sum()
    bias = float(truncation.resampling_bias(target, draft, k))
    most = 2 * float(verification.total_variation(draft, rebuilt))
    assert bias <= most * (1 + 1e-9) + 1e-14
    apart = float(verification.total_variation(target, draft))
    assert float(truncation.resampling_distortion(target, draft, k)) <= 1.0
    if float(verification.total_variation(target, rebuilt)) <= 2.0**-45 and apart > 1e-9:
        assert bias == pytest.approx(2 * apart, rel=1e-3)
