"""The benchmarks run on tiny input and give finite values; no times are compared."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from validation.benchmarks import __main__ as bench
from validation.benchmarks.measurement import Measurement
from validation.collection.prompts import Prompt
from validation.errors import UserError
from validation.models.pair import Pair
from validation.trace.synthetic import TEXT, SyntheticTrace

PROMPTS = [
    Prompt(id=str(i), text=text, source="test")
    for i, text in enumerate(["two and two", "the best of times", "what is"])
]


def plausible(found: list[Measurement]) -> dict[str, Measurement]:
    """Return the lines by name; assert that every value and ratio is finite and positive."""
    assert found
    for one in found:
        assert math.isfinite(one.value)
        assert one.value > 0
        assert math.isfinite(one.ratio)
        assert one.ratio > 0
    return {one.what: one for one in found}


def test_imports() -> None:
    found = plausible(bench.measure_imports(repeats=1))
    assert found["import numpy"].ratio == 1.0
    assert "import hlmtheory" in found


def test_collection(pair: Pair) -> None:
    found = plausible(bench.measure_collection(pair, PROMPTS, rounds=1, positions=30, new_tokens=12, batch=3))
    assert set(found) == {"forward passes", "collect"}


def test_check() -> None:
    found = plausible(bench.measure_check(positions=40, vocabulary=50))
    assert {"read", "verification, numpy", "verification, torch cpu", "truncation, numpy"} <= set(found)


def test_memory() -> None:
    found = bench.measure_memory(positions=640, vocabulary=50)  # a tenth of the positions also fills windows
    plausible(found)
    assert [one.against for one in found] == ["a tenth as many", "the limit, 1,500 MB"]


def test_a_synthetic_trace_is_like_a_real_one() -> None:
    trace = SyntheticTrace(TEXT + 40, 30)
    chunks = list(trace.chunks(64))
    assert sum(len(chunk.tokens) for chunk in chunks) == trace.positions
    assert {chunk.draft_logits.dtype for chunk in chunks} == {np.dtype(np.float16)}
    assert all(chunk.draft_logits.shape == chunk.target_logits.shape == (len(chunk.tokens), 30) for chunk in chunks)
    assert np.concatenate([chunk.prompt_index for chunk in chunks]).tolist() == [0] * TEXT + [1] * 40
    assert chunks[-1].position[-1] == 39
    again = list(trace.chunks(64))
    np.testing.assert_array_equal(chunks[2].target_logits, again[2].target_logits)
    assert not np.array_equal(chunks[0].target_logits, chunks[1].target_logits)


def test_the_command_writes_a_row_and_keeps_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(bench.ROWS, "import", lambda: [Measurement("one", 2.0, "ms", "two", 0.5)])
    monkeypatch.setitem(bench.ROWS, "memory", lambda: [Measurement("all", 3.0, "MB", "a tenth", 1.5)])
    out = tmp_path / "runs" / "bench.json"
    for name in ("import", "memory"):
        result = CliRunner().invoke(bench.main, [name, "--out", str(out)])
        assert result.exit_code == 0, result.output
    rows = json.loads(out.read_text())
    assert list(rows) == ["import", "memory"]
    assert rows["import"]["measurements"][0] == {
        "what": "one",
        "value": 2.0,
        "unit": "ms",
        "against": "two",
        "ratio": 0.5,
    }
    assert set(rows["memory"]) == {"date", "machine", "command", "measurements"}
    known = {"cores", "processor", "flags", "gpus", "load", "versions"}  # the machine's name is not stored
    assert set(rows["memory"]["machine"]) == known


def test_a_row_that_cannot_run_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> list[Measurement]:
        raise UserError("There is no model.")

    monkeypatch.setitem(bench.ROWS, "collection", refuse)
    result = CliRunner().invoke(bench.main, ["collection", "--out", str(tmp_path / "bench.json")])
    assert result.exit_code == 2
    assert result.output.strip().endswith("Error: There is no model.")
    assert CliRunner().invoke(bench.main, ["nothing"]).exit_code == 2


def test_what_is_streamed_is_a_claim_of_each_module_that_rows_serve() -> None:
    assert [name.split(".")[0] for name in bench.STREAMED] == list(bench._modules())
    assert all(name in claims for name, claims in zip(bench.STREAMED, bench._modules().values(), strict=True))
