"""What a trace of format 2 consists of; :mod:`validation.traces` describes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validation.errors import UserError
from validation.store.chunks import describe
from validation.store.journal import JOURNAL, Committed, check_file, read_journal

FORMAT = "hlm-trace"
VERSION = 2
ARRAYS = ("draft_logits", "target_logits", "tokens", "prompt_index", "position")
DTYPES = ("float16", "float32")
MANIFEST = "manifest.json"


def array_dtypes(dtype: str) -> dict[str, np.dtype[Any]]:
    """What each array holds, in little-endian order."""
    return {name: np.dtype(dtype if name.endswith("logits") else "int32").newbyteorder("<") for name in ARRAYS}


def read_committed(path: Path) -> Committed:
    """The journal of a trace of this format version.

    Raises
    ------
    UserError
        A damaged journal, or one of another format.
    """
    committed = read_journal(path)
    if committed.header.get("format") != FORMAT:
        raise UserError(f"{path / JOURNAL} is not that of a trace; check the path.")
    if committed.header.get("version") != VERSION:
        raise other_version(path, committed.header.get("version"))
    return committed


def check_files(path: Path, committed: Committed, *, content: bool) -> None:
    """Refuse a store with a file missing, of another size, or (``content``) not matching its checksum."""
    for name, (size, crc) in committed.files.items():
        file = path / name
        if content or not file.is_file() or file.stat().st_size != size:
            check_file(file, size, crc, describe(name))


def read_tail(path: Path, committed: Committed) -> dict[str, NDArray[Any]]:
    """The rows after the last whole chunk of each array, by name; empty for a finished trace."""
    if committed.tail is None:
        return {}
    check_file(path / committed.tail, *committed.files[committed.tail], what="the rows after the last whole chunk")
    with np.load(path / committed.tail, allow_pickle=False) as found:
        return dict(found)


def other_version(path: Path, version: object) -> UserError:
    """The sentence for a trace of a format that is not known here."""
    return UserError(
        f"The trace at {path} has format version {version!r}, this program reads 1 and {VERSION}; "
        "use the program that wrote it, or collect the trace again."
    )
