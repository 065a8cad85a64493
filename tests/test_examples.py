"""The scripts of examples/ run without a change."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SAID = {
    "check_a_claim.py": [
        "34             0            0.999",
        "truncation.monotone_distortion",
        "1.000  true       truncation.tvd_sharp",
    ],
    "device_and_server.py": ["tokens: ", "kept without verification, the others by "],
    "how_many_drafts.py": ["acceptance  drafts  tokens/s  server alone", "% of the speed."],
    "send_fewer_probabilities.py": ["of 4096", "guaranteed at most 0.01"],
}


@pytest.mark.parametrize("name", list(SAID))
def test_an_example_runs_without_a_warning(name, tmp_path):
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / name)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [words for words in SAID[name] if words not in done.stdout] == []
