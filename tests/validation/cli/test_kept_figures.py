"""A figure is kept if its data, its code and its files are those of the last run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from validation.claims import progress
from validation.cli.kept_figures import MARKS, figure_marks, take_unchanged, write_marks


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A folder with a figure that was drawn, and an empty one."""
    before, now = tmp_path / "before", tmp_path / "now"
    for folder in (before, now):
        folder.mkdir()
    (before / "a.json").write_text("{}")
    (before / "a.svg").write_text("<svg/>")
    write_marks(before, {"a": "1"})
    return before, now


def test_an_unchanged_figure_is_copied(folders: tuple[Path, Path]) -> None:
    before, now = folders
    assert take_unchanged("a", "1", before, now) == now / "a.json"
    assert {file.name for file in now.iterdir()} == {"a.json", "a.svg"}
    assert (now / "a.svg").read_text() == "<svg/>"


@pytest.mark.parametrize("damage", ["mark", "file", "missing", "no marks", "broken marks"])
def test_any_other_figure_is_drawn_again(damage: str, folders: tuple[Path, Path]) -> None:
    before, now = folders
    if damage == "file":
        (before / "a.svg").write_text("<svg></svg>")
    if damage == "missing":
        (before / "a.svg").unlink()
    if damage == "no marks":
        (before / MARKS).unlink()
    if damage == "broken marks":
        (before / MARKS).write_text("{")
    assert take_unchanged("a", "2" if damage == "mark" else "1", before, now) is None


def test_the_mark_changes_with_all_that_determines_a_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def mark(*, stem: str = "a", seed: int = 1) -> str:
        figure: Any = SimpleNamespace(stem=stem)
        trace: Any = SimpleNamespace(path=tmp_path / "trace", manifest={}, positions=1)
        return figure_marks([figure], trace, seed)[stem]

    (tmp_path / "trace").mkdir()
    seen = [mark(), mark(stem="b"), mark(seed=2)]
    (tmp_path / "trace" / "manifest.json").write_text("{}")
    seen.append(mark())
    monkeypatch.setattr(progress, "code_mark", lambda: "other code")
    seen.append(mark())
    assert seen[-1] == mark()
    assert len(set(seen)) == len(seen)
