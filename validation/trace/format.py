"""What a trace of format 2 consists of; :mod:`validation.trace.reader` describes it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validation.errors import UserError
from validation.trace.journal import JOURNAL, LOCK, Committed, check_file, read_journal, refuse_link
from validation.trace.zarr_store import FOLDER, describe

FORMAT = "hlm-trace"
VERSION = 2
ARRAYS = ("draft_logits", "target_logits", "tokens", "prompt_index", "position")
DTYPES = ("float16", "float32")
MANIFEST = "manifest.json"
TAIL = re.compile(r"tail-\d+\.npz")
CHUNK = re.compile(rf"{FOLDER}/(({'|'.join(ARRAYS)})/)?(zarr\.json|c\.\d+(\.0)?)")


def array_dtypes(dtype: str) -> dict[str, np.dtype[Any]]:
    """What each array holds, in little-endian order."""
    return {name: np.dtype(dtype if name.endswith("logits") else "int32").newbyteorder("<") for name in ARRAYS}


def read_committed(path: Path) -> Committed:
    """The journal of a trace of this format version.

    Raises
    ------
    UserError
        A damaged journal, one of another format, or one that names files outside the trace.
    """
    refuse_links(path)
    committed = read_journal(path)
    if committed.header.get("format") != FORMAT:
        raise UserError(f"{path / JOURNAL} is not that of a trace; check the path.")
    if committed.header.get("version") != VERSION:
        raise other_version(path, committed.header.get("version"))
    tail = () if committed.tail is None else (committed.tail,)
    for name in (*committed.files, *tail):
        if not isinstance(name, str) or not is_own(name) or (name in tail and not TAIL.fullmatch(name)):
            raise UserError(f"{path / JOURNAL} names {name!r}, which no trace holds; do not use this trace.")
    if not committed.files.keys() >= set(tail):
        raise UserError(f"{path / JOURNAL} has no checksum of {committed.tail!r}; restore it from a copy.")
    return committed


def is_own(name: str) -> bool:
    """Whether a path in a trace is that of a file that the format defines, the journal and the lock apart.

    >>> [is_own(name) for name in ("manifest.json", "tail-3.npz", "arrays/tokens/c.0", "tail-x.npz", "../tail-3.npz")]
    [True, True, True, False, False]
    """
    return name == MANIFEST or any(kind.fullmatch(name) for kind in (TAIL, CHUNK))


def own_files(path: Path) -> list[Path]:
    """The files in a folder that have the names of a trace's, the journal and the lock apart; links among them."""
    found = [*path.iterdir()]
    for folder in (path / FOLDER, *(path / FOLDER / name for name in ARRAYS)):
        if folder.is_dir() and not folder.is_symlink():
            found += folder.iterdir()
    return [file for file in found if is_own(file.relative_to(path).as_posix())]


def refuse_links(path: Path) -> None:
    """Refuse a trace of which a part is a link, so that nothing is read, written or removed outside its folder.

    Raises
    ------
    UserError
    """
    folders = [path / FOLDER, *(path / FOLDER / name for name in ARRAYS)]
    for part in (path / JOURNAL, path / LOCK, *folders):
        refuse_link(part)
    for file in own_files(path) if path.is_dir() else ():
        refuse_link(file)


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
