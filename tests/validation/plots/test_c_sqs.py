"""The figures of c-sqs: their counts and curves equal those of the decoded runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hlmtheory.conformal import regret_bound_sharp
from hlmtheory.lattice import payload_bits
from validation.collection.prompts import Prompt
from validation.decoding.methods.quantized import BUDGET_BITS, EPSILON, LEARNING_RATE
from validation.decoding.records import GenerationRecord, Round
from validation.models.pair import Pair
from validation.plots import EXHIBITS
from validation.plots.c_sqs import numbers as csqs_numbers
from validation.plots.c_sqs import runs as csqs_runs
from validation.plots.c_sqs import tables as csqs_tables
from validation.plots.c_sqs import texts_file
from validation.plots.c_sqs.numbers import ADAPTIVE, BUDGETED, BY_SIZE, GUARDED, MAIN, interval
from validation.plots.c_sqs.runs import Cell, CSqsStudy, Scale, Times
from validation.plots.ours import budget_table

KEYS = [*(("c-sqs", number) for number in "2456"), ("ours", "2"), ("ours", "III"), ("ours", "VIII")]
SCALE = Scale(prompts=3, new_tokens=5, long_tokens=9, temperatures=(0.0, 1.0))
TIMES = Times(0.001, 0.004, 0.0005)
PROMPTS = [Prompt(text, text, "test") for text in ("two and two make", "it was the best of", "what is the sum")]


@pytest.fixture(scope="module")
def found(pair: Pair) -> Iterator[CSqsStudy]:
    """Three texts by every method on the tiny pair; all figures use them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csqs_runs, "load_pair", lambda: pair)
        patch.setattr(csqs_runs, "some_prompts", lambda count: PROMPTS[:count])
        patch.setattr(csqs_runs, "pass_times", lambda pair: TIMES)
        one = csqs_runs.decode_texts(1, SCALE)
        for module in (csqs_numbers, csqs_tables, budget_table):
            patch.setattr(module, "study", lambda seed: one)
        yield one


def cell(*rows: dict[str, float], by_bytes: bool = False) -> Cell:
    """Texts of one round each."""
    texts = []
    for number, one in enumerate(rows):
        fields = dict(one)
        tokens = int(fields.pop("tokens", 1))
        texts.append(
            GenerationRecord("m", str(number), "none", 1, 1.0, 1.0, tokens=[0] * tokens, rounds=[Round(**fields)])
        )  # type: ignore[arg-type]
    return Cell(texts, np.zeros(len(rows)), by_bytes)


# --------------------------------------------------------------------------------------------------------- the runs


def test_rounds_stay_within_the_budget(found: CSqsStudy):
    for one in found.cells.values():
        for row in one.rows:
            for turn in row.rounds:
                assert (8 * turn.bytes if one.by_bytes else turn.bits) <= BUDGET_BITS


def test_at_temperature_0_one_token_is_looked_at(found: CSqsStudy):
    looked = {name: found.cells[name, 0.0] for name in MAIN}
    for one in looked.values():
        count = one.totals("accepted") + one.totals("resampled")
        assert not one.totals("dropped").any()
        assert not one.totals("rounding").any()
        assert (one.rounding <= count / 4).all()
    assert looked[BY_SIZE[64]].rounding == pytest.approx(
        (looked[BY_SIZE[64]].totals("accepted") + looked[BY_SIZE[64]].totals("resampled")) / 400
    )


def test_the_published_rounding_of_a_fixed_size(found: CSqsStudy):
    one = found.cells[BY_SIZE[64], 1.0]
    count = one.totals("accepted") + one.totals("resampled")
    assert one.rounding == pytest.approx(count * 64 / 400)
    assert one.totals("bits") == pytest.approx(one.totals("drafted") * float(payload_bits(found.vocabulary, 64, 100)))
    dense = found.cells["QS dense", 1.0]
    assert dense.rounding == pytest.approx((dense.totals("accepted") + dense.totals("resampled")) * 300 / 400)


def test_stored_texts_give_the_same_figures(found: CSqsStudy, monkeypatch: pytest.MonkeyPatch):
    """Every number that is drawn is the same to the last digit, though the file holds sums over the rounds alone."""
    again = texts_file.read(json.loads(texts_file.text(found)))
    numbers = {key: EXHIBITS[key].simulate(1) for key in KEYS}  # type: ignore[attr-defined]
    for module in (csqs_numbers, csqs_tables, budget_table):
        monkeypatch.setattr(module, "study", lambda seed: again)
    assert {key: EXHIBITS[key].simulate(1) for key in KEYS} == numbers  # type: ignore[attr-defined]


# ------------------------------------------------------------------------------------------------------- the numbers


def test_intervals_of_a_mean_are_about_students():
    from scipy.stats import ttest_1samp

    values = np.random.default_rng(3).normal(5.0, 1.0, 40)
    found, known = interval([(values, np.ones(40))]), ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert found.value == pytest.approx(values.mean())
    assert found.ends == pytest.approx((known.low, known.high), abs=0.1 * float(known.high - known.low))


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


def test_one_text_has_no_interval():
    one = interval([(np.array([3.0]), np.array([2.0]))])
    assert (one.plain(), one.sign, one.ends, one.told("g")) == ([1.5, None, None], 0, (1.5, 1.5), "1.5")


def test_crossings_are_told_apart():
    """One number for each K, τ₁ and end; only the latency differs."""
    scale = replace(SCALE, prompts=2)
    quick, slow = ({"bits": bits, "resampled": r} for bits, r in ((1000.0, 0), (2000.0, 1)))

    def build(by_size: tuple[Any, Any], by_mass: tuple[Any, Any]) -> CSqsStudy:
        cells = {}
        for names, ends in ((BY_SIZE, by_size), (ADAPTIVE, by_mass)):
            cells |= {(name, t): cell(e, e) for name in names.values() for t, e in zip((0.0, 1.0), ends, strict=True)}
        return CSqsStudy("a pair", 300, scale, Times(0.0, 0.0, 0.0), cells)

    cases = {
        "crossing": ((quick, slow), (slow, quick)),
        "reverse": ((slow, quick), (quick, slow)),
        "k": ((quick, quick), (slow, slow)),
        "c": ((slow, slow), (quick, quick)),
    }
    for kind, (by_size, by_mass) in cases.items():
        for line in csqs_numbers.crossovers(build(by_size, by_mass)):
            assert line[kind] == 9
            assert sum(line[other] for other in cases) == 9
            assert line["clear"] == len(line["which"]) == (9 if kind == "crossing" else 0)
    equal = csqs_numbers.crossovers(build((quick, quick), (quick, quick)))
    assert all(line[kind] == 0 for line in equal for kind in cases)


def test_the_mended_controller_keeps_the_sharp_bound(found: CSqsStudy):
    about = csqs_numbers.simulate_regret(1)
    assert about["statistics"]["above_sharp"][0] == 0
    for threshold, name in ADAPTIVE.items():
        texts = csqs_numbers.paths(found.cells[name, 1.0])
        for text in texts + (csqs_numbers.paths(found.long[name]) if name in found.long else []):
            bounds = regret_bound_sharp(EPSILON, LEARNING_RATE, threshold, np.array(text["x"]))
            assert (np.array(text["mean"]) <= bounds + 1e-9).all()


def test_the_budget_is_kept_in_every_text(found: CSqsStudy):
    cells = [one for (name, _), one in found.cells.items() if name in (BUDGETED, GUARDED)]
    for one in (*cells, found.long[BUDGETED], found.long[GUARDED]):
        for text in csqs_numbers.paths(one):
            assert (np.array(text["mean"]) <= EPSILON * (1 + 1e-9)).all()
