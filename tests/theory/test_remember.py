"""Remembered results are the same arrays, and an array that can change is never taken for its former self."""

import numpy as np
import pytest

import hlmtheory
from hlmtheory._remember import HELD, SMALL, freeze, recall, remembered, remembering

WIDE = SMALL // 8 + 1  # float64 entries of an array that is not small

CALLS: list[int] = []


@remembered
def doubled(values: np.ndarray, by: int = 2) -> np.ndarray:
    CALLS.append(by)
    return values * by


def calls(run) -> int:
    CALLS.clear()
    run()
    return len(CALLS)


def test_a_frozen_array_is_computed_once_inside_and_every_time_outside():
    rows = freeze(np.arange(WIDE) / 3.0)
    with remembering():
        assert calls(lambda: [doubled(rows), doubled(rows[:]), doubled(rows, 2)]) == 2  # 2 given, or left out
        assert doubled(rows) is doubled(rows)
        np.testing.assert_array_equal(doubled(doubled(rows)), rows * 4)
        assert calls(lambda: doubled(doubled(rows))) == 0
    assert calls(lambda: [doubled(rows), doubled(rows)]) == 2
    with remembering():
        assert calls(lambda: doubled(rows)) == 1  # nothing is left of the first time


def test_an_array_that_can_change_is_computed_again():
    rows = np.arange(WIDE, dtype=float)
    shown = rows[:]
    shown.flags.writeable = False  # its values change with those of rows
    with remembering():
        before = doubled(rows), doubled(shown)
        rows += 1
        for one, other in zip(before, (doubled(rows), doubled(shown)), strict=True):
            np.testing.assert_array_equal(other, one + 2)


def test_a_small_array_is_recognised_by_its_values_and_type():
    with remembering():
        assert calls(lambda: [doubled(np.array([1.0, 2.0])), doubled(np.array([1.0, 2.0]))]) == 1
        assert (
            calls(lambda: [doubled(np.array([1, 2])), doubled(np.array([[1.0, 2.0]])), doubled(np.array([1.0]))]) == 3
        )
        assert calls(lambda: [doubled(1.0), doubled(1), doubled(True)]) == 3
        assert calls(lambda: [doubled(np.array([0.0])), doubled(np.array([-0.0]))]) == 2


def test_the_memory_of_an_argument_is_not_used_again_while_it_counts():
    with remembering():
        for i in range(3 * HELD):
            rows = freeze(np.full(WIDE, float(i)))
            assert doubled(rows)[0] == 2.0 * i
            del rows


def test_a_remembered_result_cannot_be_changed():
    rows = freeze(np.arange(WIDE) / 3.0)
    with remembering(), pytest.raises(ValueError, match="read-only"):
        doubled(rows)[0] = 1.0


def test_what_cannot_be_recognised_is_computed():
    with remembering():
        assert recall(len, ([1, 2],), {}) == 2
        values = pytest.importorskip("torch").rand(WIDE)
        assert doubled(values) is not doubled(values)


ROWS = {name: claim for name, claim in hlmtheory.all_claims().items() if {"target", "draft"} & set(claim.takes)}


def test_every_claim_has_the_same_verdict_to_the_last_bit():
    """The claims of one instance, checked one after the other with shared results, and each alone."""
    shared = [claim for claim in ROWS.values() if set(claim.takes) <= {"target", "draft", "k", "skip"}]
    assert len(shared) > 30
    rng = np.random.default_rng(1)
    size = SMALL // 4
    instance = {
        "target": rng.dirichlet(np.full(size, 0.1), 3),
        "draft": rng.dirichlet(np.full(size, 0.1), 3),
        "k": rng.integers(1, size, 3),
        "skip": rng.random((3, size)),
    }
    frozen = {name: freeze(value.copy()) for name, value in instance.items()}

    def of(claim, values):
        return {name: values[name] for name in claim.takes}

    with remembering():
        found = [claim.check(of(claim, frozen)) for claim in shared]
    for claim, there in zip(shared, found, strict=True):
        here = claim.check(of(claim, instance))
        for ours, theirs in ((here.lhs, there.lhs), (here.rhs, there.rhs), (here.slack, there.slack)):
            assert ours.tobytes() == theirs.tobytes(), claim.id
        assert here.status.tolist() == there.status.tolist()
    for name, value in instance.items():
        np.testing.assert_array_equal(frozen[name], value)
