"""The studies are frozen: script, result and picture have the checksum that was recorded, and a README its command."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SHELF = ROOT / "figures" / "studies"
SUMS = dict(reversed(line.split("  ")) for line in (SHELF / "SHA256SUMS").read_text(encoding="utf-8").splitlines())
COMMAND = re.compile(r"^    (?:\S+ )*?(?:bash|python3|python) (?:-m )?(\S+)", re.MULTILINE)


def test_every_file_of_a_study_has_its_recorded_checksum() -> None:
    """``bash figures/studies/freeze.sh`` records the files after a study was run again."""
    inside = [path for path in SHELF.glob("*/**/*") if path.is_file() and "__pycache__" not in path.parts]
    beside = (ROOT / "validation" / "plots").glob("*/*.json")
    frozen = [path for path in (*inside, *beside) if path.suffix != ".md"]
    digests = {path.relative_to(ROOT).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in frozen}
    assert digests == SUMS


@pytest.mark.parametrize("study", sorted(path.name for path in SHELF.iterdir() if path.is_dir()))
def test_a_readme_names_the_command_of_its_study(study: str) -> None:
    text = (SHELF / study / "README.md").read_text(encoding="utf-8")
    if "This study is archived" in text:
        assert not list((SHELF / study).rglob("*.py"))
        return
    commands = COMMAND.findall(text)
    assert commands
    for command in commands:
        module = ROOT / command.replace(".", "/")
        places = (ROOT / command, SHELF / study / command, module.with_suffix(".py"), module / "__main__.py")
        assert any(place.is_file() for place in places), command
