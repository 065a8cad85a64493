"""The benchmark of the rules for k; no times are compared."""

from __future__ import annotations

import math

import pytest

from validation.benchmarks import __main__ as bench
from validation.benchmarks import truncation
from validation.benchmarks.measurement import Measurement


def test_every_rule_stands_beside_the_sorts():
    pytest.importorskip("torch")
    found = truncation.measure([1, 2], [3.0], ["float32"], vocabulary=500, repeats=1)
    assert all(math.isfinite(number) and number > 0 for one in found for number in (one.value, one.ratio))
    names = tuple(truncation.rules(*truncation.drawn(1, 500, 3.0, "float32")))
    assert len(found) == 2 * 4 * (len(names) + 1) + 4
    ones = [one for one in found if one.ratio == 1.0 and one.what == one.against]
    assert [one.what.split(",")[:2] for one in ones] == [
        ["numpy's sort", " numpy"],
        ["numpy's argsort", " numpy"],
        ["numpy's sort", " torch"],
        ["torch's sort", " torch"],
    ] * 2


def test_the_worst_of_each_sort_stands_beside_the_limit():
    pytest.importorskip("torch")
    found = truncation.measure([1], [1.0, 3.0], ["float64"], vocabulary=500, repeats=1)
    rows, worst = found[:-4], found[-4:]
    assert {one.against for one in worst} == {"the limit"}
    sorts = [("numpy", "numpy's sort"), ("numpy", "numpy's argsort")]
    sorts += [("torch", "torch's sort"), ("torch", "numpy's sort")]
    for (library, sort), one in zip(sorts, worst, strict=True):
        beside = [row for row in rows if row.against.startswith(f"{sort}, {library}")]
        ratios = [row.ratio for row in beside if not row.what.startswith(("numpy's", "torch's", "exact_size"))]
        assert one.value == max(ratios)
        assert one.ratio == pytest.approx(one.value / truncation.LIMIT)
        assert one.unit == f"x {sort}"


def test_a_case_ends_after_its_time(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(truncation, "SECONDS", 0.0)
    calls: list[int] = []
    assert truncation._best({"one": lambda: calls.append(1)}, 50)["one"] > 0
    assert len(calls) == 2


@pytest.mark.parametrize("scale", truncation.SCALES)
def test_the_rules_are_looked_at_where_they_send_something(scale: float):
    sizes = {name: call() for name, call in truncation.rules(*truncation.drawn(2, 4000, scale, "float64")).items()}
    assert all((getattr(k, "k", k) >= 0).all() for k in sizes.values())
    assert (sizes["certified_size"] > 0).all()
    assert (sizes["size_from_top_p"] > 0).all()


def test_the_bench_has_the_row(monkeypatch: pytest.MonkeyPatch):
    one = Measurement("one", 1.0, "ms", "two", 2.0)
    monkeypatch.setattr(truncation, "measure", lambda: [one])
    assert bench.ROWS["truncation"]() == [one]
