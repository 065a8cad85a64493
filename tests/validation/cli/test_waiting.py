"""A wait is told where the output is no terminal: late enough that a quick step prints nothing, once it lasts."""

import io
import time

import pytest
from rich.console import Console

from validation.cli import display
from validation.cli.display import progress_bar, waiting


def written(monkeypatch: pytest.MonkeyPatch, patience_s: float, steps: tuple[str, ...], step_s: float) -> str:
    monkeypatch.setattr(display, "PATIENCE_S", patience_s)
    output = io.StringIO()
    with waiting(Console(file=output, width=200), "loading the two models") as say:
        for step in steps:
            time.sleep(step_s)
            say(step)
        time.sleep(step_s)
    return output.getvalue()


def test_a_long_wait_names_each_step(monkeypatch):
    lines = written(monkeypatch, 0.05, ("reading a", "reading b"), 0.3).splitlines()
    assert lines == ["Loading the two models ...", "Reading a ...", "Reading b ..."]


def test_a_quick_wait_prints_nothing(monkeypatch):
    assert written(monkeypatch, 30.0, ("reading a",), 0.0) == ""


def test_progress_is_told_within_five_seconds_and_then_now_and_then(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(display, "monotonic", lambda: now[0])
    output = io.StringIO()
    with progress_bar(Console(file=output, width=200)) as report:
        for now[0] in (1.0, 5.0, 20.0, 66.0):
            report(int(now[0]), 100, "checking the claims")
    told = [line for line in output.getvalue().splitlines() if "to go" in line]
    assert [line.split(":")[1].split()[0] for line in told] == ["5", "66"]
