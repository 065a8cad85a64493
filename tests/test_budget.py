"""The house does not grow: folders and pages have at most the lines and words of ``budget.toml``.

``python -m tests.test_budget`` prints how much may be added; new files count before ``git add`` too.
"""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
WORD = re.compile(r"[^\s|]*\w[^\s|]*")  # but for the borders of tables
BUDGET = tomllib.loads((ROOT / "tests" / "budget.toml").read_text(encoding="utf-8"))


def used(name: str, *more: str) -> int:
    patterns = {"all": ["*.py", "hlm"], "words": ["*.md", ":!CHANGELOG.md"]}.get(name, [f"{name}/*.py"])
    command = ["git", "-C", str(ROOT), "ls-files", "-z", *more, *patterns]
    listed = subprocess.run(command, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout, so which files belong to the project is not known")
    files = [ROOT / file for file in listed.stdout.split("\0") if file]
    texts = [file.read_text(encoding="utf-8") for file in files if file.is_file()]
    return sum(len(WORD.findall(text) if name == "words" else text.splitlines()) for text in texts)


@pytest.mark.parametrize("name", BUDGET)
def test_nothing_is_above_its_number(name):
    count, limit = used(name), BUDGET[name]
    assert 0 < count <= limit, f"{name}: {count:,} of {limit:,}; what to do: the last section of CONTRIBUTING.md"


if __name__ == "__main__":
    new_too = ("--cached", "--others", "--exclude-standard")
    rest = {row: limit - used(row, *new_too) for row, limit in BUDGET.items()}
    for row, limit in BUDGET.items():
        free = rest[row] if row in ("all", "words") else min(rest[row], max(rest["all"], 0))
        change = "may grow" if free >= 0 else "must shrink"
        print(f"{row:10} {limit - rest[row]:7,} of {limit:7,}, {change} by {abs(free):,}")
    print("No folder may grow by more than `all`. To add more, delete as much: the last section of CONTRIBUTING.md.")
