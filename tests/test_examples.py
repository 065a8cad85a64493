"""The scripts and notebooks of examples/ run without a change."""

import copy
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXACT = re.compile(r"exit code|With: |Use: | pair \w+: ")  # verdicts and plans; other numbers may differ


@pytest.mark.parametrize("name", sorted(path.name for path in (ROOT / "examples").glob("*.py")))
def test_an_example_runs_without_a_warning(name, tmp_path):
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / name)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def lines_of(notebook):
    outputs = ["".join(one.get("text", "") for one in cell.get("outputs", [])) for cell in notebook.cells]
    lines = [re.sub("[ ─]+", " ", text).splitlines() for text in outputs]
    return [{line if EXACT.match(line) else re.sub(r"\d[\d.,]*", "#", line) for line in part} for part in lines]


@pytest.mark.deep
@pytest.mark.parametrize("name", sorted(path.name for path in (ROOT / "examples").glob("*.ipynb")))
def test_a_notebook_prints_what_it_holds(name, tmp_path, monkeypatch):
    nbclient = pytest.importorskip("nbclient", reason="python3 hlm setup validation test notebooks")
    nbformat = pytest.importorskip("nbformat")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    stored = nbformat.read(ROOT / "examples" / name, as_version=4)
    client = nbclient.NotebookClient(copy.deepcopy(stored), timeout=600, resources={"metadata": {"path": tmp_path}})
    assert [old - new for old, new in zip(lines_of(stored), lines_of(client.execute()), strict=True) if old - new] == []
