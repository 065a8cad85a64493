"""Each row of the benchmark measures what it says, on a small case."""

from __future__ import annotations

from validation.benchmarks import measure_check, measure_generate
from validation.collection.prompts import builtin_prompts


def test_the_check_is_measured_by_module() -> None:
    measured = {line.what: line for line in measure_check(40, 50)}
    assert measured["read"].ratio == 1
    assert {"truncation, numpy", "verification, torch cpu"} <= set(measured)
    assert all(line.value > 0 for line in measured.values())


def test_speeds_stand_beside_those_of_generate() -> None:
    measured = measure_generate(prompts=builtin_prompts(limit=2), new_tokens=4, rounds=1, batches=(1, 2))
    assert len(measured) == 12
    assert all(line.value > 0 and (line.ratio == 1) == line.what.endswith(", generate") for line in measured)
