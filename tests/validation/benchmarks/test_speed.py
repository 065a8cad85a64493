"""The benchmarks beside others' code run, and give a line for each variant; the values depend on the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.validation.tiny_texts import PROMPTS
from validation.benchmarks import speed
from validation.benchmarks.__main__ import ROWS
from validation.models.pair import load_pair

ROOT = Path(__file__).resolve().parents[3]


def test_ours_stand_beside_transformers(folders: tuple[Path, Path]) -> None:
    pair = load_pair(draft=folders[0], target=folders[1])
    found = speed.measure_generate(pair, PROMPTS, new_tokens=3, rounds=1, batches=(1, 2))
    assert len(found) == 12
    assert all(one.value > 0 for one in found)
    assert [one.ratio for one in found if one.what.endswith(", generate")] == [1.0, 1.0]


def test_a_run_that_is_too_slow_counts_as_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "_DECODED", "import time; print('ready', {tokens}, {threads}); print(5.0)")
    found = speed.measure_threads(tokens=2)
    assert {one.what for one in found} == {
        f"{where}, {threads}"
        for where in ("idle", "one busy core")
        for threads in ("1 threads, passive", "2 threads, active", "2 threads, passive")
    }
    assert {one.value for one in found} == {5.0}
    monkeypatch.setattr(speed, "_DECODED", "import time; time.sleep(600)")
    assert speed._decoded(2, "ACTIVE", 4, patience_s=0.2) == pytest.approx(160.0)


def test_checks_stand_beside_a_copy() -> None:
    found = speed.measure_bandwidth(positions=16, vocabulary=64, copied=2**10)
    assert len(found) == 3 + 4 * len(speed.CLAIMS)
    assert found[0].ratio == 1.0
    assert all(one.value > 0 for one in found)


def test_every_row_is_known() -> None:
    assert {"generate", "threads", "bandwidth", "pareto"} <= set(ROWS)


@pytest.mark.parametrize(("given", "expected"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_threads_of_the_command_line_sleep_while_they_wait(given: str | None, expected: str) -> None:
    """The policy is set before torch is loaded, and a user's own choice stays."""
    code = (
        "import os, sys; sys.argv[1:] = ['--help']; from validation.cli import start\n"
        "try: start._commands()\n"
        "except SystemExit: pass\n"
        "print(os.environ['OMP_WAIT_POLICY'], 'torch' in sys.modules)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    environment |= {} if given is None else {"OMP_WAIT_POLICY": given}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[-2:] == [expected, "False"]
