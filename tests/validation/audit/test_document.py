"""The page about the audit: its examples run as they stand."""

import re
from pathlib import Path

import pytest

from tests.validation.audit.test_plugin import run_pytest
from tests.validation.command_line import run

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


def test_the_transformers_example_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """With 8 draws in place of 1,000; the verdict must then be that they are too few."""
    code, _ = BLOCKS
    assert "draws=1_000" in code
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {}
    exec(compile(code.replace("draws=1_000", "draws=8"), "docs/audit.md", "exec"), names)
    assert "\nNot enough draws: no difference was found" in capsys.readouterr().out
    assert names["report"].draws == 8  # type: ignore[attr-defined]


def test_the_test_of_an_engine_passes(tmp_path: Path) -> None:
    (tmp_path / "test_law.py").write_text(BLOCKS[1])
    found = run_pytest(tmp_path)
    assert found.returncode == 0, found.stdout
    assert "test_the_engine_keeps_the_law\n  Kept: the law of the next 2 tokens is at most" in found.stdout


def test_the_first_example_ends_with_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    found = run(*re.findall(r"python3 hlm (audit .*)", PAGE)[0].split())
    assert found.exit_code == 0, found.output
    assert "Kept: the law of the next 4 tokens, in the mean over 4 prompts, is at most 0.04" in found.stdout
