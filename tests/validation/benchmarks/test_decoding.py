"""The decoding benchmarks run and measure what they name; speeds are not tested."""

from __future__ import annotations

from typing import Any

import pytest

from tests.validation.tiny_texts import PROMPTS
from validation.benchmarks import decoding
from validation.benchmarks.__main__ import ROWS
from validation.benchmarks.decoding import measure_equal_texts, measure_loop, measure_verification
from validation.collection.prompts import Prompt
from validation.decoding.loop import decode
from validation.decoding.methods.base import Method
from validation.decoding.methods.multi_draft import FixedLength
from validation.decoding.methods.single_draft import Hlm
from validation.decoding.records import GenerationRecord
from validation.models.pair import Pair


def test_the_loop_is_measured_beside_the_passes(pair: Pair) -> None:
    found = measure_loop(pair, [Prompt("a", "two and two", "test")], [FixedLength(2), Hlm()], new_tokens=3)
    assert [one.what.split(":")[0] for one in found] == ["fixed K = 2"] * 3 + ["HLM"] * 3
    assert all(one.value > 0 and one.ratio > 0 and one.against == "forward passes" for one in found)


def test_verification_is_measured_beside_that_of_transformers() -> None:
    found = measure_verification(50, 2, repeats=2)
    assert len(found) == 6
    assert [one.ratio for one in found[2::3]] == [1.0, 1.0]
    assert found[1].value > found[0].value


def test_the_rows_of_the_bench_name_the_loops_largest_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "BILLION_S", 0.0)
    monkeypatch.setattr(decoding, "BILLION_LAYERS", 1)
    found = decoding.measure_decoding(new_tokens=2, vocabulary=100, texts=2, repeats=1)
    worst = [one for one in found if one.what.endswith("largest share of the loop")]
    assert [one.against for one in worst] == [
        "the limit, 10% of the forward passes",
        "the limit, 3% of the forward passes",
    ]
    for one, name in zip(worst, ("built-in pair", "1.1 B, simulated"), strict=True):
        loops = [m.ratio for m in found if m.what.startswith(name) and m.what.endswith(": loop")]
        assert len(loops) == 7
        assert one.value == pytest.approx(100 * max(loops))
    equal = [one for one in found if one.what.startswith("equal texts of batches of 1 and 32")]
    assert [one.against for one in equal] == ["the least, 99%"] * 6
    assert {"decoding", "verification"} <= set(ROWS)


def test_texts_of_a_batch_are_counted_that_are_equal_alone(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    found = measure_equal_texts(pair, PROMPTS, [Hlm(), FixedLength(2)], new_tokens=6, batch=5)
    assert [(one.what.split(", ")[1], one.value) for one in found] == [
        ("HLM: 5 of 5", 100.0),
        ("fixed K = 2: 5 of 5", 100.0),
        ("all methods", 100.0),
    ]
    assert found[-1].ratio == pytest.approx(1 / 0.99)
    monkeypatch.setattr(decoding, "decode", _shifted)
    (one, _) = measure_equal_texts(pair, PROMPTS, [Hlm()], new_tokens=6, batch=5)
    assert one.value == pytest.approx(80.0)
    assert one.ratio == pytest.approx(0.8 / 0.99)


def _shifted(pair: Pair, prompts: list[Prompt], method: Method, **settings: Any) -> list[GenerationRecord]:
    """Return the decoded records with a change in the first text of a batch of several."""
    rows = decode(pair, prompts, method, **settings)
    if settings["batch"] > 1:
        rows[0].tokens[-1] += 1
    return rows


def test_a_simulated_pair_is_decoded_as_any_other() -> None:
    pair = decoding.simulated_pair(50, seconds=0.0)
    for row in decode(pair, [Prompt("a", "one two three", "test")], FixedLength(2), new_tokens=4):
        assert len(row.tokens) == 4
