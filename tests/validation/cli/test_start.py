"""Start and end of a command line: versions, exit codes, quiet and JSON output, and missing packages."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from validation.cli.commands import main

ROOT = Path(__file__).resolve().parents[3]
WITHOUT = """
import importlib.abc, sys

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
from validation.cli.start import main
main()
"""


def run(*words: str, code: str | None = None) -> subprocess.CompletedProcess[str]:
    start = ["-c", code] if code else ["-m", "validation"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "40"}
    return subprocess.run([sys.executable, *start, *words], env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("module", ["click", "rich"])
def test_a_core_only_install_is_told_which_extra(module):
    done = run("claims", code=WITHOUT.format(module=module))
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    assert f"This command needs {module}; install the extra: pip install '.[validation]'" in done.stderr
    assert run("--help", code=WITHOUT.format(module="click")).returncode == 0


@pytest.mark.parametrize("words", [["claims"], ["claims", "--json"]])
def test_a_reader_that_leaves_is_no_violated_claim(words):
    command, environment = [sys.executable, "-m", "validation", *words], {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as done:
        done.stdout.close()
        assert done.stderr.read() == b""
    assert done.returncode == 141


def test_a_quiet_run_prints_nothing_and_a_violated_claim_is_code_1(trace, monkeypatch):
    done = CliRunner().invoke(main, ["validate", "--trace", "trace", "--out", "run", "--quiet", "--no-figures"])
    assert (done.exit_code, done.output) == (0, "")
    monkeypatch.setattr("validation.claims.results.Tally.outcome", property(lambda self: "violated"))
    done = CliRunner().invoke(main, ["validate", "--trace", "trace", "--out", "run", "--quiet", "--no-figures"])
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "Violated: verification.tokens, truncation.softplus\n"
