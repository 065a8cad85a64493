"""Define the fields and files of a trace of format version 2, described in :mod:`validation.trace.reader`."""

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validation.errors import UserError
from validation.trace.journal import JOURNAL, LOCK, Committed, check_file, read_journal, refuse_link
from validation.trace.remote import Place, RemotePath
from validation.trace.zarr_store import FOLDER, LIST_ROWS, chunk_rows, describe

FORMAT = "hlm-trace"
VERSION = 2
DTYPES = ("float16", "float32")  # types of stored logits


@dataclass(frozen=True, slots=True)
class Field:
    """Type and shape of one array of a trace."""

    dtype: str | None
    wide: bool = False  # the array has shape (N, V) and not (N,)
    width: int = 0  # the array has shape (N, width) if this is at least 1
    most_rows: int | None = None  # maximum number of rows per chunk; None for the usual ones

    def row(self, vocabulary: int) -> tuple[int, ...]:
        """Return the shape of the field at one position."""
        if self.width:
            return (self.width,)
        return (vocabulary,) if self.wide else ()

    def chunk_rows(self, vocabulary: int, logits: str) -> int:
        return chunk_rows(self.row(vocabulary), self.stored_dtype(logits).itemsize, self.most_rows)

    def stored_dtype(self, logits: str) -> np.dtype[Any]:
        """Return the stored little-endian type in a trace whose logits have the type ``logits``."""
        return np.dtype(self.dtype or logits).newbyteorder("<")


FIELDS = {
    "draft_logits": Field(None, wide=True),
    "target_logits": Field(None, wide=True),
    "tokens": Field("int32"),  # that the target model emitted there
    "prompt_index": Field("int32"),  # row of the manifest's ``prompts``
    "position": Field("int32"),  # 0 for the first token after the prompt; a text's rows follow each other
}
"""Arrays of a trace of logits."""
ARRAYS = tuple(FIELDS)
LOGITS, LISTS = "logits", "top-k"  # kinds of traces: of whole rows, and of lists of the most probable tokens
LIST_DTYPE = "float64"
LONGEST_LIST = 2**20
MANIFEST = "manifest.json"
NO_TOKEN = -1  # in place of a token that is not known
LARGEST_VOCABULARY = 2**31 - 1  # ids are stored as int32
SHAPE = ("vocabulary", "dtype")  # what the header of the journal and the manifest both say
TAIL = re.compile(r"tail-\d+\.npz")
CHUNK = re.compile(rf"{FOLDER}/((?P<field>\w+)/)?(zarr\.json|c\.\d+(\.0)?)")


def list_fields(draft_k: int, target_k: int) -> dict[str, Field]:
    """Return the arrays of a trace of top-k lists: ``draft_k`` tokens of q and ``target_k`` of p at each position."""
    fields = {}
    for model, k in (("draft", draft_k), ("target", target_k)):
        fields[f"{model}_tokens"] = Field("int32", width=k, most_rows=LIST_ROWS)
        fields[f"{model}_log_probabilities"] = Field(LIST_DTYPE, width=k, most_rows=LIST_ROWS)
    return fields | {name: Field("int32", most_rows=LIST_ROWS) for name in ("tokens", "prompt_index", "position")}


def fields_of(header: Mapping[str, Any]) -> Mapping[str, Field]:
    if header.get("kind", LOGITS) == LOGITS:
        return FIELDS
    widths = header.get("widths")
    good = isinstance(widths, list) and len(widths) == 2 and all(_is_length(k) for k in widths)
    if header["kind"] != LISTS or not good:
        raise UserError(f"A trace of kind {header['kind']!r} with lists of {widths!r} is not known to this program.")
    return list_fields(*header["widths"])


def _is_length(k: object, longest: int = LONGEST_LIST) -> bool:
    return isinstance(k, int) and not isinstance(k, bool) and 1 <= k <= longest


def complete(
    fields: Mapping[str, Field], arrays: Sequence[Any], named: Mapping[str, Any], vocabulary: int, dtype: str
) -> dict[str, NDArray[Any]]:
    """Return a copy of one array for each field in its stored form, (n, V) or (n,)."""
    given = dict(zip(fields, arrays, strict=False)) | dict(named)
    if len(arrays) + len(named) != len(fields) or given.keys() != fields.keys():
        raise UserError(
            f"A trace has the fields {', '.join(fields)}; {len(arrays)} arrays were given in order, and by name "
            f"{', '.join(named) or 'none'}: give each field once."
        )
    rows = len(np.atleast_1d(given["tokens"]))
    return {
        name: _as_stored(name, given[name], (rows, *field.row(vocabulary)), field.stored_dtype(dtype))
        for name, field in fields.items()
    }


def _as_stored(name: str, array: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return a copy in the stored type, because the caller may reuse its own array."""
    array = np.asarray(array)
    if array.shape != shape:
        raise UserError(f"{name} has shape {array.shape}; {shape} is needed.")
    with np.errstate(invalid="ignore"):  # NaN as an integer is refused below
        stored = np.array(array, dtype=dtype)
    if dtype.kind in "iub" and not np.array_equal(stored, array):
        raise UserError(f"{name} holds values that {dtype.name} cannot hold; give integers in its range.")
    return stored


def read_committed(path: Place) -> Committed:
    refuse_links(path)
    committed = read_journal(path)
    if committed.header.get("format") != FORMAT:
        raise UserError(f"{path / JOURNAL} is not that of a trace; check the path.")
    if committed.header.get("version") != VERSION:
        raise other_version(path, committed.header.get("version"))
    _check_header(path, committed.header)
    tail = () if committed.tail is None else (committed.tail,)
    for name in (*committed.files, *tail):
        if not isinstance(name, str) or not is_own(name) or (name in tail and not TAIL.fullmatch(name)):
            raise UserError(f"{path / JOURNAL} names {name!r}, which no trace holds; do not use this trace.")
    if not committed.files.keys() >= set(tail):
        raise UserError(f"{path / JOURNAL} has no checksum of {committed.tail!r}; restore it from a copy.")
    return committed


def _check_header(path: Place, header: Mapping[str, Any]) -> None:
    vocabulary, dtype = (header.get(name) for name in SHAPE)
    if not _is_length(vocabulary, LARGEST_VOCABULARY) or dtype not in (*DTYPES, LIST_DTYPE):
        raise UserError(
            f"{path / JOURNAL} says that V = {vocabulary!r} and that logits are {dtype!r}; V is a whole number of at "
            f"least 1, and logits are {' or '.join(DTYPES)}: restore the file from a copy, or collect the trace again."
        )


def check_rows(path: Place, committed: Committed, name: str, chunks: Any, tail: NDArray[Any]) -> None:
    """Refuse an array that has not exactly the rows that the journal says."""
    field, vocabulary, logits = fields_of(committed.header)[name], *(committed.header[key] for key in SHAPE)
    row, dtype = field.row(vocabulary), field.stored_dtype(logits)
    each = field.chunk_rows(vocabulary, logits)
    end = ".0" if row else ""
    stored = sum(file.startswith(f"{FOLDER}/{name}/c.") for file in committed.files)
    rows = committed.rows
    good = tail.shape[1:] == row and tail.dtype == dtype
    if committed.finished:
        good &= chunks.shape == (rows, *row) and chunks.dtype == dtype and chunks.chunks == (each, *row)
        good &= stored == -(-rows // each)
    else:
        good &= rows == stored * each + len(tail)
    if not good or not all(f"{FOLDER}/{name}/c.{n}{end}" in committed.files for n in range(stored)):
        raise UserError(
            f"{name} of the trace at {path} has not the form that {JOURNAL} says ({rows:,} rows of shape {row}, "
            f"{dtype.name}); restore it from a copy, or collect the trace again with --fresh."
        )


def is_own(name: str) -> bool:
    """Return whether a path in a trace names a file of the format, other than the journal and the lock.

    >>> [is_own(name) for name in ("manifest.json", "tail-3.npz", "arrays/tokens/c.0", "tail-x.npz", "../tail-3.npz")]
    [True, True, True, False, False]
    """
    if (chunk := CHUNK.fullmatch(name)) is not None:
        return chunk["field"] is None or chunk["field"] in _names()
    return name == MANIFEST or TAIL.fullmatch(name) is not None


def _names() -> dict[str, None]:
    return dict.fromkeys((*FIELDS, *list_fields(1, 1)))


def own_files(path: Place) -> list[Place]:
    """Return the files with names of the format, other than the journal and the lock; links are included."""
    if isinstance(path, RemotePath):  # one list, not one for each array
        return [path / name for name in path.sizes() or {} if is_own(name)]
    found: list[Place] = [*path.iterdir()]
    for folder in array_folders(path):
        if isinstance(folder, Path) and folder.is_dir() and not folder.is_symlink():
            found += folder.iterdir()
    return [file for file in found if is_own(name_in(file, path))]


def name_in(file: Place, path: Place) -> str:
    return file.relative_to(path).as_posix()  # type: ignore[arg-type]  # both are of one kind


def array_folders(path: Place) -> list[Place]:
    return [path / FOLDER, *(path / FOLDER / name for name in _names())]


def refuse_links(path: Place) -> None:
    """Refuse a trace that contains a link, so that nothing is read, written or removed outside its folder."""
    if isinstance(path, RemotePath):
        return
    for part in (path / JOURNAL, path / LOCK, *array_folders(path)):
        refuse_link(part)
    for file in own_files(path) if path.is_dir() else ():
        refuse_link(file)


def check_files(path: Place, committed: Committed, *, content: bool) -> None:
    """Refuse a store with a file that is missing, has another size, or (``content``) fails its checksum."""
    if isinstance(path, RemotePath) and not content:
        sizes = path.sizes() if committed.files else None
        for name, (size, crc) in committed.files.items() if sizes is not None else ():
            if sizes is not None and sizes.get(name) != size:
                check_file(path / name, size, crc, describe(name))
        return
    for name, (size, crc) in committed.files.items():
        file = path / name
        if content or isinstance(file, RemotePath) or not file.is_file() or file.stat().st_size != size:
            check_file(file, size, crc, describe(name))


def read_tail(path: Place, committed: Committed) -> dict[str, NDArray[Any]]:
    """Return the rows after the last whole chunk of each array, by name; empty for a finished trace."""
    fields = fields_of(committed.header)
    if committed.tail is None:
        return {}
    sums = committed.files[committed.tail]
    content = check_file(path / committed.tail, *sums, what="the rows after the last whole chunk")
    with np.load(io.BytesIO(content), allow_pickle=False) as found:
        tail = dict(found)
    for name in fields.keys() | tail.keys():
        chunks = any(file.startswith(f"{FOLDER}/{name}/c.") for file in committed.files)
        if name not in fields or (committed.rows and name not in tail and not chunks):
            raise UserError(
                f"The unfinished trace at {path} has not the arrays of its kind (see {name}); finish it with the "
                "program that began it, or collect it again with --fresh."
            )
    return tail


def other_version(path: Place, version: object) -> UserError:
    return UserError(
        f"The trace at {path} has format version {version!r}, but this program reads version {VERSION} only; "
        "collect the trace again."
    )
