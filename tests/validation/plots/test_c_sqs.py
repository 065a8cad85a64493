"""The figures of c-sqs: intervals, crossings, and the bounds on the stored texts."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hlmtheory.conformal.controller import regret_bound_sharp
from validation.decoding.methods.quantized import BUDGET_BITS, EPSILON, LEARNING_RATE
from validation.plots.c_sqs.numbers import ADAPTIVE, BUDGETED, BY_SIZE, GUARDED, crossovers, interval, paths
from validation.plots.c_sqs.texts import Cell, Texts, texts


def test_rounds_stay_within_the_budget() -> None:
    for one in texts().cells.values():
        assert (one.bits <= BUDGET_BITS * one.rounds).all()
        assert (one.looked_at <= one.sums["drafted"]).all()


def test_the_published_rounding_of_a_fixed_size() -> None:
    """The last round of a text may be cut behind its verification, so a draft or two more or less are counted."""
    for name, size in ((BY_SIZE[64], 64), ("QS dense", 4096)):
        one = texts().cells[name, 1.0]
        assert one.rounding * 400 / size == pytest.approx(one.looked_at, abs=2.5)


def test_intervals_of_a_ratio_hold_it_as_often_as_they_say():
    rng, held = np.random.default_rng(5), 0
    for _ in range(300):
        below = rng.gamma(4.0, size=32)
        above = 0.5 * below + rng.gamma(2.0, 0.5, size=32)  # E above = 0.5 · 4 + 1
        low, high = interval([(above, below)]).ends
        held += low <= 3.0 / 4.0 <= high
    assert 0.92 * 300 <= held <= 0.985 * 300


def test_a_difference_is_taken_prompt_by_prompt():
    values = np.array([1.0, 4.0, 2.0, 2.5, 7.0])
    one = interval([(values + 1.0, np.ones(5)), (values, np.ones(5))])
    assert (one.value, *one.ends) == pytest.approx((1.0, 1.0, 1.0))
    assert one.sign == 1
    assert interval([(values, np.ones(5)), (values + 1.0, np.ones(5))]).sign == -1
    assert interval([(values, np.ones(5)), (values[::-1], np.ones(5))]).sign == 0


def test_crossings_are_told_apart():
    """One number for each K, τ₁ and end; only the latency differs."""
    quick, slow = ((1000.0, 0.0), (2000.0, 1.0))
    ones = np.ones(2)

    def cell(bits: float, resampled: float) -> Cell:
        sums = {"bits": bits * ones, "resampled": resampled * ones, "drafted": 0 * ones, "draft_s": 0 * ones}
        return Cell(sums, ones, ones, ones, False)

    def build(by_size: tuple[Any, Any], by_mass: tuple[Any, Any]) -> Texts:
        cells = {}
        for names, ends in ((BY_SIZE, by_size), (ADAPTIVE, by_mass)):
            cells |= {(name, t): cell(*e) for name in names.values() for t, e in zip((0.0, 1.0), ends, strict=True)}
        return replace(texts(), about={"scale": {"temperatures": [0.0, 1.0]}}, cells=cells)

    cases = {
        "crossing": ((quick, slow), (slow, quick)),
        "reverse": ((slow, quick), (quick, slow)),
        "k": ((quick, quick), (slow, slow)),
        "c": ((slow, slow), (quick, quick)),
    }
    for kind, (by_size, by_mass) in cases.items():
        for line in crossovers(build(by_size, by_mass)):
            assert line[kind] == 9
            assert sum(line[other] for other in cases) == 9
            assert line["clear"] == len(line["which"]) == (9 if kind == "crossing" else 0)
    assert all(line[kind] == 0 for line in crossovers(build((quick, quick), (quick, quick))) for kind in cases)


def test_the_stored_texts_keep_the_bounds_of_their_controllers() -> None:
    for name, threshold in ((ADAPTIVE[0.001], 0.001), ("C-SQS (τ₁ = 0)", 0.0)):
        for text in paths(texts().long[name]):
            bounds = regret_bound_sharp(EPSILON, LEARNING_RATE, threshold, np.array(text["x"]))
            assert (np.array(text["mean"]) <= bounds + 1e-9).all()
    for name in (BUDGETED, GUARDED):
        for text in paths(texts().long[name]):
            assert (np.array(text["mean"]) <= EPSILON * (1 + 1e-6)).all()  # masses of float32 rows
