"""The benchmark of the codec; no times are compared."""

from __future__ import annotations

import pytest

from hlmtheory import codec
from validation.benchmarks import __main__ as bench
from validation.benchmarks import codec as measured
from validation.benchmarks.measurement import Measurement


def test_both_coders_are_measured_on_a_message_that_comes_back():
    pytest.importorskip("constriction")
    message = measured.drawn()
    assert [draft.size for draft in message.drafts] == [512]
    assert all(codec.decode(codec.encode(message, coder=coder)) == message for coder in measured.CODERS)
    found = measured.measure(repeats=1)
    assert [one.unit for one in found] == ["ms", "bit"] * 2
    assert all(one.value > 0 for one in found)
    assert found[3].ratio == pytest.approx(1.0, abs=0.2)  # enumerated: the formula, and a header


def test_the_bench_has_the_row(monkeypatch: pytest.MonkeyPatch):
    one = Measurement("one", 1.0, "ms", "two", 2.0)
    monkeypatch.setattr(measured, "measure", lambda: [one])
    assert bench.ROWS["codec"]() == [one]
