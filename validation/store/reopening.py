"""What a writer finds where it is to write: nothing, a trace it may go on with, or something to leave alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from validation.errors import UserError
from validation.store.chunks import FOLDER
from validation.store.journal import JOURNAL, LOCK, Committed, has_begun
from validation.store.layout import ARRAYS, MANIFEST, read_committed


def what_to_go_on_from(
    path: Path, vocabulary: int, dtype: str, settings: Mapping[str, Any] | None, *, fresh: bool
) -> Committed | None:
    """What an earlier writer committed, or None for a new trace; the folder then holds the lock alone.

    Raises
    ------
    UserError
        What lies there is no trace, is finished, or is of other settings.
    """
    inside = {file.name for file in path.iterdir()} - {LOCK}
    if not inside:
        return None
    if not inside & {JOURNAL, MANIFEST}:
        raise UserError(f"Something other than a trace lies at {path}; choose another path.")
    if fresh:
        clear(path)
        return None
    if JOURNAL not in inside:
        raise UserError(f"A trace of format 1 lies at {path}; choose another path, or replace it with --fresh.")
    if not has_begun(path):  # killed before the first line was whole
        clear(path)
        return None
    committed = read_committed(path)
    if committed.finished:
        raise UserError(
            f"Something lies at {path} already: a finished trace; remove it, replace it with --fresh, or "
            "choose another path."
        )
    if settings is None:
        raise UserError(f"An unfinished trace lies at {path}; remove it or choose another path.")
    there = committed.header["settings"] or {}
    now = json.loads(json.dumps(dict(settings) | {"vocabulary": vocabulary, "dtype": dtype}))
    there |= {name: committed.header[name] for name in ("vocabulary", "dtype")}
    if there != now:
        raise UserError(
            f"An unfinished trace of other settings lies at {path} ({differences(there, now)}); "
            "use those, choose another path, or start anew with --fresh."
        )
    return committed


def clear(path: Path) -> None:
    """Remove the trace, but for the lock; the journal first, so that no part passes for a whole."""
    own = (JOURNAL, MANIFEST, *(f"{name}.npy" for name in ARRAYS))
    for file in (*(path / name for name in own), *path.glob("tail-*.npz")):
        file.unlink(missing_ok=True)
    shutil.rmtree(path / FOLDER, ignore_errors=True)


def remove_strays(path: Path, committed: Committed) -> None:
    """Remove what a killed writer left beside what it committed."""
    for file in path.rglob("*"):
        name = file.relative_to(path).as_posix()
        if file.is_file() and name not in committed.files and name not in (JOURNAL, LOCK):
            file.unlink()


def differences(there: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Which settings differ, for a sentence.

    >>> differences({"seed": 1, "batch": 32}, {"seed": 2, "batch": 32})
    'seed: 1 there, 2 now'
    """
    names = [name for name in {**there, **now} if there.get(name) != now.get(name)]
    return "; ".join(f"{name}: {there.get(name, 'none')} there, {now.get(name, 'none')} now" for name in names)
