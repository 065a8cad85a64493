"""The studies: results have their recorded checksum, a README its command, and each main script starts."""

import hashlib
import importlib
import re
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from figures.studies import kit
from validation.cli.commands import study

ROOT = Path(__file__).resolve().parents[1]
SHELF = ROOT / "figures" / "studies"
SUMS = dict(reversed(line.split("  ")) for line in (SHELF / "SHA256SUMS").read_text(encoding="utf-8").splitlines())
COMMAND = re.compile(r"^    (?:\S+ )*?(?:bash|python3|python) (?:-m )?(\S+)", re.MULTILINE)


def test_every_result_of_a_study_has_its_recorded_checksum():
    """``bash figures/studies/freeze.sh`` records the files after a study was run again."""
    inside = [path for path in SHELF.glob("*/**/*") if path.is_file() and "__pycache__" not in path.parts]
    beside = (ROOT / "validation" / "plots").glob("*/*.json")
    frozen = [path for path in (*inside, *beside) if path.suffix not in (".md", ".py", ".sh")]
    digests = {path.relative_to(ROOT).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in frozen}
    assert digests == SUMS


def test_every_commit_that_a_result_names_is_in_the_history():
    """With it a reader makes the result again; a commit of a branch that was rebased is lost."""
    done = subprocess.run(["git", "-C", str(ROOT), "rev-list", "HEAD"], capture_output=True, text=True)
    known = set(done.stdout.split())
    if len(known) < 1000:
        pytest.skip("no checkout with the history")
    files = [file for folder in ("figures", "validation") for file in (ROOT / folder).rglob("*.json")]
    named = re.compile(r'"(?:commit|later)": "([0-9a-f]{40})"')
    lost = {file.relative_to(ROOT).as_posix(): set(named.findall(file.read_text("utf-8"))) - known for file in files}
    assert {file: commits for file, commits in lost.items() if commits} == {}


@pytest.mark.parametrize("name", sorted(path.name for path in SHELF.iterdir() if path.is_dir() and path.name[0] != "_"))
def test_a_readme_names_the_commands_of_its_study_or_says_that_it_is_archived(name):
    text = (SHELF / name / "README.md").read_text(encoding="utf-8")
    assert ("Archived script" in text) == (name not in kit.MAIN) == (not list((SHELF / name).rglob("*.py")))
    commands = COMMAND.findall(text) if name in kit.MAIN else []
    assert bool(commands) == (name in kit.MAIN)
    for command in commands:
        module = ROOT / command.replace(".", "/")
        assert any(place.is_file() for place in (ROOT / command, module.with_suffix(".py"), module / "__main__.py"))


@pytest.mark.parametrize("name", kit.MAIN)
def test_hlm_study_starts_the_main_script(name):
    assert callable(importlib.import_module(f"figures.studies.{name}.{kit.MAIN[name]}").main)
    done = CliRunner().invoke(study, [name, "--help"])
    assert done.exit_code == 0, done.output
    assert "usage: " in done.output


def test_a_study_that_is_archived_or_unknown_is_refused():
    for name in ("leak", "nothing"):
        done = CliRunner().invoke(study, [name])
        assert done.exit_code == 2
        assert "shared_seed" in done.output
