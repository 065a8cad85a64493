"""The adaptive threshold and the budget, against a plain recursion, fractions and brute force; paper errors."""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hlmtheory import all_claims
from hlmtheory.arguments import instance
from hlmtheory.claims import Status, le
from hlmtheory.conformal import MassBudgetController, ThresholdController
from hlmtheory.sides import conformal_sides

from .kinds import LIBRARIES, kind_of, numbers, to
from .strategies import grid_rows, quantity, shapes

EPSILON = st.one_of(st.integers(1, 7).map(lambda n: n / 8), quantity(1e-4, 0.9))


@st.composite
def exact_runs(draw):
    """Rows and settings on a coarse grid: sums are exact, so a tie at the threshold is a tie in any order."""
    shape = (*draw(shapes()), draw(st.integers(1, 6)))
    eighths = {"epsilon": (1, 7), "learning_rate": (1, 16), "threshold": (0, 12)}
    settings = {
        name: draw(hnp.arrays(np.int64, shape[:-1], elements=st.integers(*ends))) / 8 for name, ends in eighths.items()
    }
    return {"drafts": draw(grid_rows(shape, draw(st.integers(1, 8)))), **settings}


PEAKED, FLAT = [1.0, 0.0, 0.0, 0.0], [0.25] * 4


def plain(draft, epsilon, rate, tau):
    """(6) and (8) in plain numbers: return the dropped mass and the next threshold."""
    top = max(range(len(draft)), key=lambda i: draft[i])
    dropped = sum(x for i, x in enumerate(draft) if x < tau and i != top)
    return dropped, tau - rate * (dropped - epsilon)


@given(exact_runs())
def test_the_controller_is_the_plain_recursion(instance):
    setting = [instance[name] for name in ("epsilon", "learning_rate", "threshold")]
    controller = ThresholdController(*setting)
    supports = [controller.step(instance["drafts"][..., n, :]) for n in range(instance["drafts"].shape[-2])]
    for index in np.ndindex(instance["threshold"].shape):
        epsilon, rate, tau = (float(value[index]) for value in setting)
        for draft, support in zip(instance["drafts"][index], supports, strict=True):
            dropped, tau = plain((draft / draft.sum()).tolist(), epsilon, rate, tau)
            assert float(draft[~support[index]].sum()) == pytest.approx(dropped, abs=1e-9)
        assert float(np.asarray(controller.threshold)[index]) == pytest.approx(tau, abs=1e-9 * (1 + rate))


@given(st.floats(0.02, 0.5), st.floats(0.5, 8.0), st.integers(0, 2))
def test_the_constant_of_the_sharp_bound_is_the_smallest(epsilon, rate, known):
    """The rows of the proof of conformal.regret_sharp come within δ + 1/V of εT + 1 − ε, at τ₁ = 0 and T = 3."""
    delta, size = epsilon / 50, 10 ** (4 + known)
    top = 1 - 2 * epsilon + delta  # is kept; the many others are below it and below the threshold
    many = int(2 / min(rate * epsilon, top)) + 2
    spread = np.array([top, *[(1 - top) / many] * many, *[0.0] * (size - many - 1)])
    controller, total = ThresholdController(epsilon, rate, 0.0), 0.0
    for row in (np.full(size, 1 / size), spread, np.full(size, 1 / size)):
        total += float(row[~np.asarray(controller.step(row))].sum())
    least = 2 * epsilon + 1 - delta - 1 / size
    assert total == pytest.approx(least, abs=1e-9)
    assert total <= 3 * epsilon + 1 - epsilon + 1e-12


def sharp_without_the_last_step(drafts, epsilon, learning_rate, threshold):
    """A wrong second case: τ_{T+1} ≥ 0 in place of τ_{T+1} ≥ −η(1 − ε); 0 where nothing is dropped."""
    bound = conformal_sides.sharp(drafts, epsilon, learning_rate, threshold)
    return np.maximum(bound - (1 - epsilon) / conformal_sides.positions(drafts), 0.0)


@pytest.mark.parametrize("bound", [conformal_sides.sharp, sharp_without_the_last_step])
def test_a_wrong_case_of_the_proof_is_caught_from_a_low_threshold(bound):
    """Without the first case, Σ d = 0, the sharp bound is violated, and so is one that is too small in the second."""
    claim = all_claims()["conformal.regret_sharp"]
    wrong = replace(
        claim,
        assumptions=(),
        sides=lambda drafts, epsilon, learning_rate, threshold: le(
            conformal_sides.mean_dropped(drafts, epsilon, learning_rate, threshold),
            bound(drafts, epsilon, learning_rate, threshold),
        ),
    )
    caught = 0
    for seed in range(20):
        values = instance(claim, np.random.default_rng(seed), (50,))
        low = ~conformal_sides.high_enough(values["epsilon"], values["learning_rate"], values["threshold"])
        caught += np.count_nonzero(low & (wrong.check(values).status == Status.VIOLATED))
    assert caught > 3


def test_a_batch_is_rolled_back_to_the_rejected_draft():
    drafts = [FLAT, PEAKED, FLAT]
    for accepted in range(4):
        controller = ThresholdController(0.25, 0.5, 0.5)
        tau = 0.5
        for n, draft in enumerate(drafts):
            controller.step(draft)
            tau = plain(draft, 0.25, 0.5, tau)[1] if n <= accepted else tau
        assert float(controller.roll_back(accepted)) == tau == float(controller.threshold)
        controller.step(FLAT)
        assert float(controller.roll_back(0)) == plain(FLAT, 0.25, 0.5, tau)[1]  # the next batch starts from there


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("made", [ThresholdController, MassBudgetController])
def test_a_controller_answers_in_the_library_of_its_rows(library, made):
    """Settings may be plain numbers, or arrays of that library; another library is refused."""
    settings = {ThresholdController: (0.25, 0.5, 0.5), MassBudgetController: (0.25,)}[made]
    other = "torch" if library == "numpy" else "numpy"
    for given_ in (settings, [to(library, value) for value in settings]):
        controller, plain_ = made(*given_), made(*settings)
        for rows_ in ([PEAKED, FLAT], [FLAT, FLAT]):
            support = controller.step(to(library, rows_, "float32"))
            assert numbers(support).tolist() == np.asarray(plain_.step(rows_)).tolist()
        with pytest.raises(TypeError, match="two libraries"):
            controller.step(to(other, [FLAT, FLAT]))
        kept = controller.roll_back(to(library, [0, 1]))
        assert kind_of(kept) == (library, "float64")
        assert numbers(kept).tolist() == np.asarray(plain_.roll_back([0, 1])).tolist()


def line_12(thresholds, dropped, accepted, epsilon, rate):
    """β_{T+1} = β_T - η(d_T - ε), word for word; the lists begin with n = 1. For T = 0 there is no β_0."""
    if accepted == 0:
        return thresholds[0]
    return thresholds[accepted - 1] - rate * (dropped[accepted - 1] - epsilon)


def batch(draft_rows, epsilon, rate, tau):
    """Return β_n and d_n of lines 4 to 9 in plain numbers."""
    thresholds, dropped = [tau], []
    for draft in draft_rows:
        mass, after = plain(draft, epsilon, rate, thresholds[-1])
        dropped.append(mass)
        thresholds.append(after)
    return thresholds, dropped


@pytest.mark.parametrize("accepted", range(4))
@pytest.mark.parametrize("library", LIBRARIES)
def test_line_12_as_printed_is_what_line_8_has_done(accepted, library):
    drafts = [FLAT, PEAKED, [0.5, 0.25, 0.125, 0.125]]
    controller = ThresholdController(to(library, 0.25), to(library, 0.5), to(library, 0.375))
    for draft in drafts:
        controller.step(to(library, draft))
    thresholds, dropped = batch(drafts, 0.25, 0.5, 0.375)
    found = numbers(controller.roll_back(to(library, accepted), printed=True))
    assert float(found) == line_12(thresholds, dropped, accepted, 0.25, 0.5) == thresholds[accepted]


def least_by_brute_force(row, allowance):
    """The fewest tokens of a support whose dropped mass, in fractions, is at most the allowance."""
    for size in range(1, len(row) + 1):
        for kept in itertools.combinations(range(len(row)), size):
            if sum(x for v, x in enumerate(row) if v not in kept) <= allowance:
                return size
    raise AssertionError


@given(st.data(), st.integers(1, 6), st.integers(1, 6), st.integers(1, 15))
def test_every_support_is_the_smallest_by_brute_force(data, length, size, sixteenths):
    drafts = data.draw(grid_rows((length,), size))
    epsilon = Fraction(sixteenths, 16)
    controller = MassBudgetController(float(epsilon))
    saved = Fraction(0)
    for row in drafts:
        exact = [Fraction(float(x)) for x in row]
        allowance = saved + epsilon
        assert Fraction(float(controller.allowance)) == allowance
        support = np.asarray(controller.step(row))
        mass = sum(x for x, kept in zip(exact, support, strict=True) if not kept)
        assert mass <= allowance
        assert support[np.argmax(row)]
        assert int(support.sum()) == least_by_brute_force(exact, allowance)
        saved = allowance - mass
        assert Fraction(float(controller.saved)) == saved


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


def test_a_threshold_keeps_tokens_that_the_budget_would_drop():
    greedy, priced = (MassBudgetController(0.25) for _ in range(2))
    row = [0.5, 0.25, 0.125, 0.125]
    assert greedy.step(row).tolist() == [True, True, False, False]
    assert priced.step(row, 0.125).tolist() == [True] * 4
    assert (float(greedy.saved), float(priced.saved)) == (0.0, 0.25)
    assert priced.step(row, 0.2).tolist() == [True, True, False, False]
    assert priced.step(row, 2.0).tolist() == [True, False, False, False]


def test_a_budget_is_rolled_back_to_the_rejected_draft():
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
