"""The budget of dropped mass: against fractions and brute force, rolled back, with a limit and a threshold, mutants."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hlmtheory import conformal
from hlmtheory.conformal import MassBudgetController, mass_budget, mass_budget_bound, smallest_support

from .kinds import LIBRARIES, kind_of, numbers, to
from .strategies import grid_rows, quantity

FLAT, PEAKED = [0.25] * 4, [1.0, 0.0, 0.0, 0.0]
ONE, HALF = [True, False, False, False], [True, True, False, False]


# --------------------------------------------------------------------------------------------- against an oracle


def least_by_brute_force(row, allowance):
    """The fewest tokens of a support whose dropped mass, in fractions, is at most the allowance."""
    for size in range(1, len(row) + 1):
        for kept in itertools.combinations(range(len(row)), size):
            if sum(x for v, x in enumerate(row) if v not in kept) <= allowance:
                return size
    raise AssertionError


@given(st.data(), st.integers(1, 6), st.integers(1, 6), st.integers(1, 15), st.one_of(st.none(), st.integers(1, 24)))
def test_every_support_is_the_smallest_by_brute_force(data, length, size, sixteenths, limit):
    drafts = data.draw(grid_rows((length,), size))
    epsilon = Fraction(sixteenths, 16)
    most = Fraction(10) if limit is None else Fraction(limit, 16)
    controller = MassBudgetController(float(epsilon), None if limit is None else float(most))
    saved = Fraction(0)
    for row in drafts:
        exact = [Fraction(float(x)) for x in row]
        allowance = min(saved + epsilon, most)
        assert Fraction(float(controller.allowance)) == allowance
        support = np.asarray(controller.step(row))
        mass = sum(x for x, kept in zip(exact, support, strict=True) if not kept)
        assert mass <= allowance
        assert support[np.argmax(row)]
        assert int(support.sum()) == least_by_brute_force(exact, allowance)
        saved = allowance - mass
        assert Fraction(float(controller.saved)) == saved


def supports_of(drafts, epsilon, steps):
    """The supports of the first steps of a run."""
    controller = MassBudgetController(float(epsilon))
    return [np.asarray(controller.step(row)) for row in drafts[:steps]]


@given(st.integers(0, 2**32 - 1), quantity(1e-4, 0.9), st.sampled_from((0.05, 0.3, 2.0)))
def test_the_sum_keeps_the_budget_at_every_position_in_exact_arithmetic(seed, epsilon, flatness):
    """Up to the rounding of T sums; thresholds change at each position, as an adversary would have them."""
    rng = np.random.default_rng(seed)
    controller = MassBudgetController(epsilon)
    total = Fraction(0)
    for n in range(1, 41):
        row = rng.dirichlet(np.full(16, flatness))
        row = row / row.sum()
        support = np.asarray(controller.step(row, rng.choice([0.0, 0.01, 0.1, 2.0])))
        total += sum((Fraction(float(x)) for x in row[~support]), Fraction(0))
        assert total <= Fraction(epsilon) * n * (1 + n * Fraction(2) ** -50) + Fraction(2) ** -50


def test_an_adversary_cannot_exceed_the_budget_and_spends_all_of_it():
    """Rows whose second token is just what is left: the mean is ε at every T. A token above it is kept."""
    controller, total = MassBudgetController(0.125), 0.0
    for n in range(1, 50):
        left = float(controller.allowance)
        too_much = [1.0 - left - 0.25, left + 0.25] if n % 2 else [1.0 - left, left]
        support = controller.step(too_much)
        total += 0.0 if n % 2 else left
        assert support.tolist() == [True, bool(n % 2)]
        assert total <= 0.125 * n
        assert n % 2 or total == 0.125 * n


@given(st.data())
def test_the_least_total_is_that_of_foresight(data):
    """Brute force over all supports of two rows: the controller's total is above it where it spends too early."""
    drafts = np.concatenate([data.draw(grid_rows((1,), 4)), data.draw(grid_rows((1,), 4))])
    masks = [np.array(mask) for mask in itertools.product((False, True), repeat=4) if any(mask)]
    mass = [[float(row[~mask].sum()) for mask in masks] for row in drafts]
    best = min(
        int(a.sum() + b.sum())
        for (i, a), (j, b) in itertools.product(enumerate(masks), repeat=2)
        if mass[0][i] <= 0.25 and mass[0][i] + mass[1][j] <= 0.5
    )
    total = sum(int(support.sum()) for support in supports_of(drafts, 0.25, 2))
    assert total >= best


# --------------------------------------------------------------------------------------- limit, threshold, rollback


def test_what_peaked_rows_save_one_flat_row_may_spend_and_a_limit_bounds_it():
    flat = [1 / 64] * 64
    peaked = [1.0] + [0.0] * 63
    for limit, most in ((None, 63 / 64), (0.125, 0.125), (0.015625, 0.015625)):
        controller = MassBudgetController(0.015625, limit)
        for _ in range(200):
            controller.step(peaked)
        support = np.asarray(controller.step(flat))
        assert (~support).sum() / 64 == most <= float(mass_budget_bound(0.015625, 1, 201, limit))


def test_a_threshold_keeps_tokens_that_the_budget_would_drop():
    greedy, priced = (MassBudgetController(0.25) for _ in range(2))
    row = [0.5, 0.25, 0.125, 0.125]
    assert greedy.step(row).tolist() == [True, True, False, False]
    assert priced.step(row, 0.125).tolist() == [True] * 4
    assert (float(greedy.saved), float(priced.saved)) == (0.0, 0.25)
    assert priced.step(row, 0.2).tolist() == [True, True, False, False]
    assert priced.step(row, 2.0).tolist() == [True, False, False, False]


def test_a_batch_is_rolled_back_to_the_rejected_draft():
    drafts = [PEAKED, FLAT, [0.5, 0.25, 0.125, 0.125]]
    for accepted in range(4):
        ahead, alone = (MassBudgetController(0.25) for _ in range(2))
        for draft in drafts:
            ahead.step(draft)
        for draft in drafts[: accepted + 1]:
            alone.step(draft)
        assert float(ahead.roll_back(accepted)) == float(alone.saved) == float(ahead.saved)
        assert (ahead.step(FLAT) == alone.step(FLAT)).all()  # the next batch starts from there
        assert float(ahead.roll_back(0)) == float(alone.saved)


def test_streams_are_rolled_back_one_by_one():
    controller = MassBudgetController([0.25, 0.5])
    controller.step([PEAKED, PEAKED])
    controller.step([FLAT, FLAT])
    assert controller.saved.tolist() == [0.0, 0.25]
    assert controller.roll_back([0, 1]).tolist() == [0.25, 0.25]
    assert MassBudgetController(0.25).roll_back(0) == 0.0


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_the_controller_takes_any_library(library, kind):
    for setting in ((0.25, None), (to(library, 0.25), to(library, 4.0))):
        controller = MassBudgetController(*setting)
        support = controller.step(to(library, [FLAT, PEAKED], kind))
        assert numbers(support).tolist() == [[1.0, 1.0, 1.0, 0.0], PEAKED]
        support = controller.step(to(library, [FLAT, FLAT], kind), to(library, [2.0, 2.0]))
        assert numbers(support).tolist() == [[1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0]]
        saved = controller.roll_back(to(library, [0, 0]))
        assert kind_of(saved) == (kind_of(saved)[0], "float64")
        assert numbers(saved).tolist() == [0.0, 0.25]
    other = "torch" if library == "numpy" else "numpy"
    with pytest.raises(TypeError, match="two libraries"):
        controller.step(to(other, [FLAT, FLAT]))


def test_no_more_is_dropped_than_allowed_and_the_top_token_never():
    assert smallest_support([FLAT, PEAKED], 5.0).tolist() == [ONE, ONE]
    assert smallest_support([0.25, 0.5, 0.25], 0.0).all()
    assert smallest_support([0.0, 1.0, 0.0], 0.0).tolist() == [False, True, False]
    assert smallest_support([1.0], 1.0).tolist() == [True]
    assert smallest_support(np.zeros((0, 3)), 0.5).shape == (0, 3)


def test_a_budget_has_no_regret_where_the_threshold_has():
    """The sharp bound of c-sqs Theorem 2 at τ₁ = 0 exceeds the budget's by (1 - ε)/T, whatever the learning rate."""
    steps = np.array([1, 10, 1000])
    excess = conformal.regret_bound_sharp(0.0005, 0.001, 0.0, steps) - mass_budget_bound(0.0005, steps) / steps
    np.testing.assert_allclose(excess, (1 - 0.0005) / steps)


# ------------------------------------------------------------------------------------------------------- mutants


"""Rows with a further token to drop."""
SMALLEST, STEP = mass_budget._smallest, MassBudgetController.step
