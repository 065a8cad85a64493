"""The house does not grow: folders and pages have at most the lines and words of ``budget.toml``."""

import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BUDGET = tomllib.loads((ROOT / "tests" / "budget.toml").read_text(encoding="utf-8"))
WORDS = BUDGET.pop("words")
REMEDY = "A first patch may go over; a maintainer makes the room before merging. See CONTRIBUTING.md."


def tracked(*patterns: str) -> list[bytes]:
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z", *patterns], capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout, so which files are tracked is not known")
    files = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [file.read_bytes() for file in files if file.is_file()]


@pytest.mark.parametrize("folder", BUDGET)
def test_a_folder_keeps_its_budget(folder):
    texts = tracked(*(["*.py", "hlm"] if folder == "all" else [f"{folder}/*.py"]))
    assert 0 < sum(len(text.splitlines()) for text in texts) <= BUDGET[folder], REMEDY


def test_the_pages_keep_their_words():
    assert 0 < sum(len(text.split()) for text in tracked("*.md", ":!CHANGELOG.md")) <= WORDS, REMEDY
