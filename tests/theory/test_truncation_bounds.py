"""Worst targets, other distances, the samplers' rules and the bit budget, against solvers and enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from hlmtheory import truncation, verification
from hlmtheory.skipping.risk import truncated_step_risk
from hlmtheory.truncation.budget import optimal_sizes, solve_exactly
from hlmtheory.truncation.distances import deviation_bounds
from hlmtheory.truncation.rules import min_p_of_size, top_n_sigma_of_size, top_p_of_size
from hlmtheory.truncation.sizes import bias_size
from hlmtheory.truncation.worst_case import worst_case_target

from .kinds import LIBRARIES, kind_of, numbers, to
from .strategies import rows, vocabularies

Q = [0.4, 0.25, 0.2, 0.1, 0.05]


def drawn(seed, *shape):
    """Rows similar to a draft model's."""
    return verification.softmax(np.random.default_rng(seed).normal(scale=2.0, size=shape))


# ----------------------------------------------------------------------------------------------------- worst case


@given(st.data())
def test_the_constructed_target_is_as_far_as_asked_and_suffers_the_bound(data):
    draft = data.draw(rows((), data.draw(vocabularies(2))))
    k = data.draw(st.integers(1, len(draft)))
    sent = float(np.sort(draft)[::-1][: min(k, len(draft) - 1)].sum())  # if k = V, the last entry takes it
    distance = sent * data.draw(st.floats(0.01, 1.0))
    target = worst_case_target(draft, k, distance)
    deviation = float(truncation.tail_deviation(draft)[k])
    assert float(verification.total_variation(target, draft)) == pytest.approx(distance, abs=1e-12)
    if deviation > 1e-9:
        expected = min(1.0, deviation / distance)
        assert float(truncation.resampling_distortion(target, draft, k)) == pytest.approx(expected, abs=1e-6)


def test_with_all_entries_sent_the_target_is_as_far_as_asked():
    for token, expected in ((None, [0.25, 0.15, 0.6]), (0, [0.1, 0.3, 0.6]), (2, [0.5, 0.5, 0.0])):
        distance = 0.2 if token == 2 else 0.4
        target = worst_case_target([0.5, 0.3, 0.2], 3, distance, draft_token=token)
        np.testing.assert_allclose(target, expected, atol=1e-15)
        assert float(verification.total_variation(target, [0.5, 0.3, 0.2])) == pytest.approx(distance, rel=1e-12)
    with pytest.raises(ValueError, match=r"^distance must be in \[2\^-44, 0.8\]"):
        worst_case_target([0.5, 0.3, 0.2], 3, 0.81)
    with pytest.raises(ValueError, match=r"^distance must be in \[2\^-44, 0.8\]"):
        worst_case_target([0.5, 0.3, 0.2], 3, 2.0**-44.5)
    with pytest.raises(ValueError, match=r"^distance must be in \[2\^-44, 0\]"):
        worst_case_target([1.0], 1, 0.5)


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


def test_a_distance_that_is_known_allows_less_where_nothing_is_sent():
    """TV(q, p) = 0.25 > Δ_0 = 0.2: both targets at this distance have Bias 0 at k = 0."""
    for target in ([0.45, 0.55], [0.95, 0.05]):
        assert float(truncation.resampling_bias(target, [0.7, 0.3], 0)) == pytest.approx(0.0, abs=1e-15)
    found = bias_size([0.7, 0.3], total_variation_bound=0.25, bias_tolerance=0.1)
    assert int(found) == 1  # for a bound on TV(q, p): TV(q, p) = 0.2 has Bias 0.4


@pytest.mark.parametrize("library", LIBRARIES)
def test_worst_targets_of_a_batch(library):
    draft, k, distance = drawn(1, 3, 20), np.array([1, 5, 9]), np.array([0.01, 0.05, 0.2])
    token = np.argmax(draft, axis=-1)
    distance = np.minimum(distance, np.max(draft, axis=-1))
    for options in ({}, {"draft_token": to(library, token)}):
        found = worst_case_target(to(library, draft), to(library, k), to(library, distance), **options)
        np.testing.assert_allclose(verification.total_variation(numbers(found), draft), distance, rtol=1e-9)
        assert kind_of(found) == (library, "float64")
    lost = numbers(found) < draft - 1e-12
    assert (lost == (np.arange(20) == token[:, None])).all()


@pytest.mark.parametrize(
    ("k", "distance", "token"), [(1, 0.0, None), (1, 1e-17, None), (1, 0.41, None), (0, 0.1, None), (1, 0.1, 1)]
)
def test_a_distance_that_what_is_sent_cannot_give_is_refused(k, distance, token):
    with pytest.raises(
        ValueError, match=r"^distance must be in \[2\^-44, [\d.]+\], the mass .*at distance 0 there is no resid"
    ):
        worst_case_target(Q, k, distance, draft_token=token)


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


def test_a_sent_token_is_charged_by_its_own_loss():
    """β_d min(1, Δ_k/q_d) is too small; min(β_d, Δ_k/q_d) is right, because TV(q, p) ≥ q_d β_d."""
    draft = np.array([0.5, 0.3, 0.2])
    target = worst_case_target(draft, 1, 0.05, draft_token=0)
    beta, deviation = verification.rejection_probability(target, draft), float(truncation.tail_deviation(draft)[1])
    emitted = float((draft * beta).sum() * truncation.resampling_distortion(target, draft, 1))
    assert (draft * beta * np.minimum(1, deviation / draft)).sum() == pytest.approx(0.005)
    assert emitted == pytest.approx(0.05)
    assert emitted <= (draft * np.minimum(beta, deviation / draft)).sum() + 1e-15


# ------------------------------------------------------------------------------------------------ other distances


@given(st.data())
def test_the_distances_against_scipy(data):
    draft = data.draw(rows((), data.draw(vocabularies())))
    k = data.draw(st.integers(0, len(draft)))
    found, flat = deviation_bounds(draft, k), truncation.truncate(draft, k)
    order, ranks = np.argsort(-draft, kind="stable"), np.arange(len(draft))
    kept = order[:k]
    descending = (
        np.concatenate([draft[kept], np.full(len(draft) - k, flat[order[-1]])]) if k < len(draft) else draft[order]
    )
    np.testing.assert_allclose(found.divergence, stats.entropy(draft, flat), rtol=1e-6, atol=1e-12)
    wasserstein = stats.wasserstein_distance(ranks, ranks, draft[order], descending)
    np.testing.assert_allclose(found.wasserstein, wasserstein, rtol=1e-6, atol=1e-9)
    bounds = np.array([found.pinsker, found.bretagnolle_huber, found.wasserstein])
    assert (bounds >= float(found.total_variation) - 1e-12).all()


@pytest.mark.parametrize("library", LIBRARIES)
def test_distances_of_a_batch(library):
    found = deviation_bounds(to(library, [Q, Q]), to(library, [0, 5]))
    assert numbers(found.total_variation)[1] == numbers(found.wasserstein)[1] == numbers(found.divergence)[1] == 0
    assert kind_of(found.pinsker) == (library, "float64")
    assert deviation_bounds([1.0, 0.0], [0, 1]).divergence.tolist() == [np.log(2.0), 0.0]


# ---------------------------------------------------------------------------------------------------------- rules


@given(st.data())
def test_the_rules_give_back_the_size_that_they_came_from(data):
    weights = np.array(data.draw(st.lists(st.integers(1, 1000), min_size=1, max_size=12, unique=True)), dtype=float)
    draft = weights / weights.sum()
    k = data.draw(st.integers(1, len(draft)))
    just = 1 - 1e-12  # away from the border, where a rounding decides
    p, low = top_p_of_size(draft, k), min_p_of_size(draft, k)
    width = top_n_sigma_of_size(np.log(draft), k)
    assert int(truncation.size_from_top_p(draft, just * p)) == k
    assert int(truncation.size_from_min_p(draft, just * low)) == k
    assert int(truncation.size_from_top_n_sigma(np.log(draft), (1 + 1e-12) * width + 1e-12)) == k


@given(st.data())
def test_the_rules_against_their_definitions(data):
    draft = data.draw(rows((), data.draw(vocabularies())))
    p = data.draw(st.floats(0.0, 0.999))
    descending = np.sort(draft)[::-1]
    k = int(truncation.size_from_top_p(draft, p))
    assert descending[:k].sum() >= p - 1e-12
    assert k == 0 or descending[: k - 1].sum() < p + 1e-12
    assert int(truncation.size_from_min_p(draft, p)) == sum(entry >= p * draft.max() for entry in draft)


@pytest.mark.parametrize("library", LIBRARIES)
def test_top_n_sigma_is_min_p_with_its_own_threshold(library):
    logits = np.random.default_rng(3).normal(size=(4, 300))
    for n in (0.0, 0.5, 1.0, 2.5):
        found = numbers(truncation.size_from_top_n_sigma(to(library, logits), n))
        p = np.exp(-n * logits.std(axis=-1))
        assert found.tolist() == truncation.size_from_min_p(verification.softmax(logits), p * (1 - 1e-12)).tolist()
    width = top_n_sigma_of_size(to(library, logits, "float32"), to(library, [0, 1, 5, 300]))
    assert kind_of(width) == (library, "float32")
    assert numbers(width)[:2].tolist() == [0.0, 0.0]


def test_the_rules_at_the_edges():
    tied = [0.25, 0.25, 0.25, 0.25]
    assert truncation.size_from_top_p(tied, [0.0, 0.25, 1.0]).tolist() == [0, 1, 4]
    wide = np.full(32_000, 1 / 32_000)  # its sum from the last entry is not 1
    assert truncation.size_from_top_p(wide, [0.0, 1e-300]).tolist() == [0, 1]
    assert truncation.size_from_top_p([0.1] * 10, [0.0, 1e-300]).tolist() == [0, 1]
    assert truncation.size_from_min_p(tied, [0.0, 1.0]).tolist() == [4, 4]
    assert truncation.size_from_top_n_sigma([1.0, 1.0], 0.0).tolist() == 2
    assert top_n_sigma_of_size([1.0, 1.0], 2).tolist() == 0.0
    assert truncation.size_from_top_p([1.0, 0.0], [0.5, 1.0]).tolist() == [1, 1]
    assert min_p_of_size([1.0, 0.0], [0, 1, 2]).tolist() == [1.0, 1.0, 0.0]
    assert top_p_of_size([1.0], [0, 1]).tolist() == [0.0, 1.0]


def test_bad_rules_are_refused():
    with pytest.raises(ValueError, match=r"^p must be in \[0, 1\]"):
        truncation.size_from_top_p(Q, 1.5)
    with pytest.raises(ValueError, match=r"^p must be in \[0, 1\]"):
        truncation.size_from_min_p(Q, -0.5)
    with pytest.raises(ValueError, match=r"^n must be 0 or more and finite"):
        truncation.size_from_top_n_sigma(Q, -1.0)
    with pytest.raises(ValueError, match=r"^logits must be rows of logits, finite or -inf where masked"):
        top_n_sigma_of_size([0.0, np.nan], 1)


@pytest.mark.parametrize("away", [1e-7, 1e-6, 1e-3, 0.1, 0.1249, 0.1251, 0.5, 1.0])
def test_a_small_divergence_keeps_its_digits(away):
    """KL(q ‖ q̂) with 60 digits for nearly flat rows: (1 + y) ln(1 + y) - y is about y²/2, with terms of size y."""
    mpmath = pytest.importorskip("mpmath")
    signs = np.array([1.0, -1.0, 0.5, -0.5, 0.25, -0.25, 0.0])
    q = (1.0 + away * signs) / 7
    q = q / q.sum()
    with mpmath.workdps(60):
        exact = [mpmath.mpf(float(entry)) for entry in q]
        total = mpmath.fsum(exact)
        exact = [entry / total for entry in exact]
        divergence = mpmath.fsum(entry * mpmath.log(7 * entry) for entry in exact if entry)
        expected = [
            float(divergence),
            float(mpmath.sqrt(divergence / 2)),
            float(mpmath.sqrt(-mpmath.expm1(-divergence))),
        ]
    found = deviation_bounds(q, 0)
    ours = [float(found.divergence), float(found.pinsker), float(found.bretagnolle_huber)]
    np.testing.assert_allclose(ours, expected, rtol=1e-14 + 4e-16 / away)


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


@pytest.mark.parametrize(
    ("target", "draft", "k", "bias", "distortion"),
    [
        ([0.7, 0.1, 0.1, 0.1], [0.7, 0.2, 0.06, 0.04], 1, 0.2, 1.0),  # (p - q̂)⁺ is only a rounding error; was .0667
        ([0.625, 0.125, 0.125, 0.125], [0.625, 0.25, 0.0625, 0.0625], 1, 0.25, 1.0),  # exactly 0
        ([0.5, 0.3, 0.2], [0.5, 0.3, 0.2], 1, 0.0, 0.0),  # nothing is rejected
        ([0.5, 0.3, 0.2], [0.5, 0.3, 0.2], 3, 0.0, 0.0),
    ],
)
def test_a_residual_of_rounding_is_taken_at_its_worst_by_every_function(target, draft, k, bias, distortion):
    """All functions use one rule for 0/0: TV(q̂, p) ≤ 2^-44."""
    assert float(truncation.resampling_bias(target, draft, k)) == pytest.approx(bias, abs=1e-12)
    assert float(truncation.resampling_distortion(target, draft, k)) == pytest.approx(distortion, abs=1e-12)
    none = np.zeros(len(draft))
    risk = truncated_step_risk(target, draft, none, np.full(len(draft), k))
    assert 2 * float(risk) == pytest.approx(bias, abs=1e-12)
    if distortion:
        assert int(truncation.exact_size(target, draft, 0.99)) > k


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
