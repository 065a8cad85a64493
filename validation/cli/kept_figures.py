"""Keep the figures of a run whose data and code did not change since they were drawn."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from validation.plots import Figure
    from validation.trace.reader import Trace

MARKS = ".drawn"
"""File beside the figures: for each one the mark of its data and code, and the hashes of its files."""


def figure_marks(figures: Iterable[Figure], trace: Trace, seed: int) -> dict[str, str]:
    """Return for each figure, by stem, a hash of all that determines it: trace, fit, seed, code and libraries."""
    from validation.claims.progress import mark_of
    from validation.decoding.fitting import stored_fit

    settings = {"seed": seed, "fit": stored_fit(trace), "drawn by": version("matplotlib")}
    shared = mark_of(trace, [], settings)
    return {one.stem: hashlib.sha256(f"{shared} {one.stem}".encode()).hexdigest() for one in figures}


def take_unchanged(stem: str, mark: str, folder: Path, into: Path) -> Path | None:
    """Copy a figure's files from ``folder`` if they are those that were drawn with this mark; return its sidecar."""
    try:
        known = json.loads((folder / MARKS).read_text(encoding="utf-8"))[stem]
        if known["mark"] != mark or not known["files"]:
            return None
        if any(_hash(folder / name) != digest for name, digest in known["files"].items()):
            return None
        for name in known["files"]:
            shutil.copyfile(folder / name, into / name)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # no such file, or a damaged one
        return None
    return into / f"{stem}.json"


def write_marks(folder: Path, marks: Mapping[str, str]) -> None:
    """Write the marks of the figures in a folder, with the hashes of their files."""
    known = {
        stem: {"mark": mark, "files": {file.name: _hash(file) for file in sorted(folder.glob(f"{stem}.*"))}}
        for stem, mark in marks.items()
    }
    (folder / MARKS).write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def _hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
