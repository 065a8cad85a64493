"""The page about the audit: its example runs as it stands, and its tables are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hlmtheory.lossless import draws_to_find
from tests.validation.audit.test_plugin import run_pytest
from validation.audit import MECHANISMS
from validation.audit.tests_of_law import TokenTests

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


def test_the_transformers_example_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """With 8 draws in place of 5,000; the verdict must then be that they are too few."""
    code, _ = BLOCKS
    assert "draws=5_000" in code
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {}
    exec(compile(code.replace("draws=5_000", "draws=8"), "docs/audit.md", "exec"), names)
    assert capsys.readouterr().out.startswith("Not enough draws: no difference was found")
    assert names["report"].draws == 8  # type: ignore[attr-defined]


def test_the_test_of_an_engine_passes(tmp_path: Path) -> None:
    (tmp_path / "test_law.py").write_text(BLOCKS[1])
    found = run_pytest(tmp_path)
    assert found.returncode == 0, found.stdout
    assert "test_the_engine_keeps_the_law\n  Kept: the law of the next 2 tokens is at most" in found.stdout


def test_the_table_of_mechanisms_is_that_of_the_code() -> None:
    assert dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE, flags=re.MULTILINE)) == MECHANISMS


def test_the_numbers_of_draws_are_computed() -> None:
    share = 0.001 / 5  # of each of the bounds at depths 1 and 2, and of that of repeats
    assert draws_to_find(0.05, share, TokenTests.count) == 4618
    assert "4,618 draws for 0.05" in PAGE
    assert draws_to_find(0.01, share, TokenTests.count) == pytest.approx(110_000, rel=0.05)
