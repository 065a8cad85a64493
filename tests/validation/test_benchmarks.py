"""Each row of the benchmark measures what it says, on a small case."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from validation import benchmarks
from validation.benchmarks import Measurement, measure_check, measure_generate, save, stream
from validation.collection.prompts import builtin_prompts


def test_the_check_is_measured_by_module() -> None:
    measured = {line.what: line for line in measure_check(40, 50)}
    assert measured["read"].ratio == 1
    assert {"truncation", "verification"} <= set(measured)
    assert all(line.value > 0 for line in measured.values())


def test_speeds_stand_beside_those_of_generate() -> None:
    measured = measure_generate(prompts=builtin_prompts(limit=2), new_tokens=4, rounds=1, batches=(1, 2))
    assert len(measured) == 12
    assert all(line.value > 0 and (line.ratio == 1) == line.what.endswith(", generate") for line in measured)


def test_a_longer_trace_needs_no_more_memory() -> None:
    assert stream(64, 50) > 0


def test_a_row_is_stored_beside_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("import", "check"):
        save(tmp_path / "bench.json", name, [Measurement(name, 1.0, "s", name, 1.0)], "command")
    rows = json.loads((tmp_path / "bench.json").read_text(encoding="utf-8"))
    assert set(rows) == {"import", "check"} <= set(benchmarks.ROWS)
    assert rows["check"]["measurements"][0]["value"] == 1
