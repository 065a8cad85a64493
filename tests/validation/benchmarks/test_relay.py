"""The benchmark of the relay; times are compared loosely."""

from __future__ import annotations

import pytest

from validation.benchmarks import __main__ as bench
from validation.benchmarks import relay as measured
from validation.benchmarks.measurement import Measurement


def test_the_relay_is_measured_against_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "ROUND_TRIPS_S", (0.02,))
    monkeypatch.setattr(measured, "PINGS", 3)
    found = measured.measure(seconds=0.1, rates=(4e6,))
    assert [one.unit for one in found] == ["s", "s", "ms"]
    assert all(0.95 < one.ratio < 6 for one in found)


def test_the_bench_has_the_row(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Measurement("one", 1.0, "ms", "two", 2.0)
    monkeypatch.setattr(measured, "measure", lambda: [one])
    assert bench.ROWS["relay"]() == [one]
