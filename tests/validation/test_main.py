"""The command line, end to end on tiny models, and what it says of bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import hlmtheory
from validation.__main__ import main


def run(*words: str) -> Result:
    """One command line."""
    return CliRunner().invoke(main, list(words))


@pytest.fixture(scope="module")
def finished(folders: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[str, ...]]:
    """The folder of a finished run, and the command."""
    base = tmp_path_factory.mktemp("run")
    (base / "prompts.txt").write_text("two and two\nwhat is <b>bold</b>\nthe best of times\n")
    words = ("validate", "--small", str(folders[0]), "--large", str(folders[1]), "--positions", "150")
    words += ("--new-tokens", "24", "--prompts", str(base / "prompts.txt"), "--out", str(base / "out"))
    result = run(*words)
    assert result.exit_code == 0, result.output
    assert "Report: file://" in result.output
    return base / "out", words


def test_validate_writes_verdicts_figures_and_report(finished: tuple[Path, tuple[str, ...]]) -> None:
    folder, _ = finished
    tallies = json.loads((folder / "claims.json").read_text())["tallies"]
    assert set(tallies) == set(hlmtheory.all_claims())
    report = (folder / "report.html").read_text()
    assert all(name in report for name in tallies)
    assert "<b>bold</b>" not in report
    assert "&lt;b&gt;bold&lt;/b&gt;" in report
    for name in ("cu-hlm-fig5a", "cu-hlm-fig5b", "cu-hlm-fig6"):
        assert (folder / "figures" / f"{name}.svg").stat().st_size
        assert json.loads((folder / "figures" / f"{name}.json").read_text())


def test_the_same_command_uses_the_trace_again(finished: tuple[Path, tuple[str, ...]]) -> None:
    folder, words = finished
    before = (folder / "trace" / "tokens.npy").stat().st_mtime_ns
    result = run(*words)
    assert "Using the trace at" in result.output
    assert (folder / "trace" / "tokens.npy").stat().st_mtime_ns == before


def test_other_settings_collect_again(finished: tuple[Path, tuple[str, ...]]) -> None:
    folder, words = finished
    before = (folder / "trace" / "tokens.npy").stat().st_mtime_ns
    result = run(*words, "--seed", "2")
    assert result.exit_code == 0, result.output
    assert (folder / "trace" / "tokens.npy").stat().st_mtime_ns != before


def test_a_folder_that_is_no_trace_is_not_removed(finished: tuple[Path, tuple[str, ...]], tmp_path: Path) -> None:
    _, words = finished
    (tmp_path / "trace").mkdir()
    (tmp_path / "trace" / "diary.txt").write_text("mine")
    result = run(*words, "--out", str(tmp_path))
    assert result.exit_code == 1
    assert "There is no trace at" in result.output
    assert (tmp_path / "trace" / "diary.txt").exists()


def test_a_figure_of_a_trace(finished: tuple[Path, tuple[str, ...]], tmp_path: Path) -> None:
    folder, _ = finished
    result = run("figure", "cu-hlm", "6", "--trace", str(folder / "trace"), "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert (tmp_path / "cu-hlm-fig6.svg").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("figure", "cu-hlm", "77"), "5a"),
        (("figure", "cu-hlm", "5a", "--trace", "nowhere"), "There is no trace at nowhere"),
        (("claims", "truncation.none"), "There is no claim 'truncation.none'"),
        (("validate", "--small", "only-one"), "name the large one too"),
        (("validate", "--pair", "nobody"), "Unknown pair 'nobody'"),
        (("validate", "--prompts", "missing.txt"), "missing.txt"),
    ],
)
def test_bad_input_is_one_sentence(words: tuple[str, ...], said: str) -> None:
    result = run(*words)
    assert result.exit_code == 1
    assert said in " ".join(result.output.split())
    assert "Traceback" not in result.output


def test_an_empty_prompt_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("")
    result = run("validate", "--prompts", str(tmp_path / "empty.txt"))
    assert result.exit_code == 1
    assert "empty.txt" in result.output


def test_claims_lists_all_and_shows_one() -> None:
    assert str(len(hlmtheory.all_claims())) in run("claims").output
    shown = run("claims", "truncation.tvd_sharp").output
    assert "TV(r, r̂) ≤ Δ_k / max(TV(q, p), TV(q̂, p))" in shown
    assert "largest lhs/rhs known: 1" in shown


def test_help_explains_itself() -> None:
    for words in ((), ("validate",), ("claims",), ("figure",), ("repro",)):
        result = run(*words, "--help")
        assert result.exit_code == 0
        assert "Usage" in result.output
