"""The row of the bench on the rules for k; no time is compared with another."""

from __future__ import annotations

import math

import pytest

from validation import bench, sizing
from validation.bench import Measurement


def test_every_rule_stands_beside_the_sorts():
    pytest.importorskip("torch")
    found = sizing.measure([1, 2], [3.0], ["float32"], vocabulary=500, repeats=1)
    assert all(math.isfinite(number) and number > 0 for one in found for number in (one.value, one.ratio))
    rules = len(sizing.rules(*sizing.drawn(1, 500, 3.0, "float32")))
    assert len(found) == 2 * (3 * (rules + 1)) + 1
    ones = [one for one in found if one.ratio == 1.0 and one.what == one.against]
    assert [one.what.split(",")[:2] for one in ones] == [
        ["numpy's sort", " numpy"],
        ["numpy's sort", " torch"],
        ["torch's sort", " torch"],
    ] * 2
    assert found[-1].against == "the limit"
    assert found[-1].value == max(one.ratio for one in found[:-1] if one.against.startswith("numpy's"))


@pytest.mark.parametrize("scale", sizing.SCALES)
def test_the_rules_are_looked_at_where_they_send_something(scale: float):
    sizes = {name: call() for name, call in sizing.rules(*sizing.drawn(2, 4000, scale, "float64")).items()}
    assert all((getattr(k, "k", k) >= 0).all() for k in sizes.values())
    assert (sizes["certified_size"] > 0).all()
    assert (sizes["size_from_top_p"] > 0).all()


def test_the_bench_has_the_row(monkeypatch: pytest.MonkeyPatch):
    one = Measurement("one", 1.0, "ms", "two", 2.0)
    monkeypatch.setattr(sizing, "measure", lambda: [one])
    assert bench.ROWS["truncation"]() == [one]
