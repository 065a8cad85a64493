"""Decide what a writer does with an existing folder: start a trace, continue one, or refuse the folder."""

import contextlib
import json
from collections.abc import Mapping
from typing import Any

from validation.errors import UserError
from validation.trace.format import FORMAT, MANIFEST, array_folders, name_in, own_files, read_committed, refuse_links
from validation.trace.journal import JOURNAL, LOCK, Committed, has_begun
from validation.trace.remote import Place

FIRST = b'{"n":0,"format":"%s"' % FORMAT.encode()  # first bytes of every trace journal


def what_to_go_on_from(
    path: Place, vocabulary: int, dtype: str, settings: Mapping[str, Any] | None, *, fresh: bool, kind: dict[str, Any]
) -> Committed | None:
    """Return the commits of an earlier writer, or None if the folder is empty and a new trace starts."""
    inside = {file.name for file in path.iterdir()} - {LOCK}
    if not inside:
        return None
    refuse_links(path)
    if not (_our_journal(path) or _our_manifest(path)):
        found = next((f" ({name} is not that of a trace)" for name in (JOURNAL, MANIFEST) if name in inside), "")
        raise UserError(f"Something other than a trace lies at {path}{found}; choose another path.")
    if fresh:
        clear(path)
        return None
    if JOURNAL not in inside:
        raise UserError(
            f"A trace without a journal lies at {path}, which cannot be continued; choose another path, or collect the "
            "trace again with --fresh."
        )
    if not has_begun(path):  # the writer was killed before the first line was complete
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
    now = json.loads(json.dumps(dict(settings) | {"vocabulary": vocabulary, "dtype": dtype} | kind))
    there |= {
        name: committed.header[name] for name in ("vocabulary", "dtype", "kind", "widths") if name in committed.header
    }
    if there != now:
        raise UserError(
            f"An unfinished trace of other settings lies at {path} ({differences(there, now)}); "
            "use those, choose another path, or start anew with --fresh."
        )
    return committed


def clear(path: Place) -> None:
    """Remove the trace except the lock; the journal goes first, so that a partial trace is never taken as complete."""
    own = [file for file in own_files(path) if file != path / MANIFEST or _our_manifest(path)]
    for file in (*([path / JOURNAL] if _our_journal(path) else ()), *own):
        file.unlink(missing_ok=True)
    for folder in reversed(array_folders(path)):
        with contextlib.suppress(OSError):  # the folder holds foreign files
            folder.rmdir()


def _our_journal(path: Place) -> bool:
    try:
        first = (path / JOURNAL).read_bytes()[: len(FIRST)]
    except OSError:
        return False
    return FIRST.startswith(first)


def _our_manifest(path: Place) -> bool:
    try:
        content = (path / MANIFEST).read_bytes()
    except OSError:
        return False
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return f'"format": "{FORMAT}"'.encode() in content
    return isinstance(found, dict) and found.get("format") == FORMAT


def remove_strays(path: Place, committed: Committed) -> None:
    """Remove uncommitted files of an earlier writer; files that are not of the format stay."""
    for file in own_files(path):
        if name_in(file, path) not in committed.files:
            file.unlink()


def differences(there: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    names = [name for name in {**there, **now} if there.get(name) != now.get(name)]
    return "; ".join(f"{name}: {there.get(name, 'none')} there, {now.get(name, 'none')} now" for name in names)
