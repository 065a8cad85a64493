"""The house does not grow: each folder has at most the lines of ``budget.toml``."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BUDGET = tomllib.loads((ROOT / "tests" / "budget.toml").read_text(encoding="utf-8"))


def lines_of(folder: str) -> int:
    patterns = ["*.py", "hlm"] if folder == "all" else [f"{folder}/*.py"]
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z", *patterns], capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout, so which files are tracked is not known")
    files = [ROOT / name for name in listed.stdout.split("\0") if name]
    return sum(len(file.read_bytes().splitlines()) for file in files if file.is_file())


@pytest.mark.parametrize("folder", BUDGET)
def test_a_folder_keeps_its_budget(folder: str) -> None:
    assert 0 < lines_of(folder) <= BUDGET[folder]
