"""Read a trace: the logits of both models at every position, in a store that survives a crash.

A trace is a folder (format version 2):

===================  =========================================================================================
manifest.json        models, prompts, settings, speed; written when the trace is finished
arrays/              a zarr 3 group: blosc (zstd, level 1, byte shuffle), crc32c, fill value NaN for logits
journal.jsonl        one line per commit: rows, size and CRC-32 of every new file, CRC-32 of the line
tail-<n>.npz, lock   only while it is written: the rows after the last whole chunk; who is writing
===================  =========================================================================================

==============  ==========  ====================  ==============================================
array           shape       dtype                 content
==============  ==========  ====================  ==============================================
draft_logits    (N, V)      float16 or float32    the draft model's logits
target_logits   (N, V)      the same              the target model's logits
tokens          (N,)        int32                 the token that the target model emitted there
prompt_index    (N,)        int32                 row of the manifest's ``prompts``
position        (N,)        int32                 0 for the first token after the prompt, and so on
==============  ==========  ====================  ==============================================

A file is written and synced before the journal names it, and never changed after that. Files that the journal does not
name are removed when the writer is opened again. Chunks are checked against the journal at every read.

A trace of kind ``top-k`` has lists of the most probable tokens instead of logits; its manifest gives the kind and V:

=======================  =======  ======================================================================
array                    shape    content
=======================  =======  ======================================================================
draft_tokens             (N, j)   int32: the most probable tokens of q, the most probable first
draft_log_probabilities  (N, j)   float64: their log-probabilities in nats
target_tokens            (N, k)   the same of p
target_log_probabilities (N, k)   the same of p
=======================  =======  ======================================================================

q and p are by definition the softmax of the stored values. The rows of one sequence are contiguous and in order.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hlmtheory.verification import softmax
from validation.errors import UserError
from validation.trace.format import (
    ARRAYS,
    FIELDS,
    FORMAT,
    LISTS,
    LOGITS,
    MANIFEST,
    NO_TOKEN,
    SHAPE,
    VERSION,
    Field,
    check_files,
    check_rows,
    fields_of,
    other_version,
    read_committed,
    read_tail,
)
from validation.trace.journal import JOURNAL, Committed, check_file
from validation.trace.remote import Place, RemotePath, place
from validation.trace.writer import TraceWriter
from validation.trace.zarr_store import ENDLESS, FOLDER, ArrayFiles, StoredArray

__all__ = [
    "ARRAYS",
    "LISTS",
    "LOGITS",
    "ListChunk",
    "Trace",
    "TraceChunk",
    "TraceWriter",
    "check_disk_space",
    "open_trace",
    "probabilities",
]


@dataclass(frozen=True, slots=True)
class TraceChunk:
    """Consecutive positions of a trace: logits (n, V) in the stored type, other fields (n,) int32."""

    draft_logits: NDArray[np.floating]
    target_logits: NDArray[np.floating]
    tokens: NDArray[np.int32]
    prompt_index: NDArray[np.int32]
    position: NDArray[np.int32]

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        return {name: getattr(self, name) for name in FIELDS}

    def __getitem__(self, rows: slice) -> TraceChunk:
        return TraceChunk(**{name: array[rows] for name, array in self.arrays.items()})


@dataclass(frozen=True, slots=True)
class ListChunk:
    """Consecutive positions of a trace of top-k lists: tokens and log-probabilities (n, k), other fields (n,)."""

    draft_tokens: NDArray[np.int32]
    draft_log_probabilities: NDArray[np.float64]
    target_tokens: NDArray[np.int32]
    target_log_probabilities: NDArray[np.float64]
    tokens: NDArray[np.int32]
    prompt_index: NDArray[np.int32]
    position: NDArray[np.int32]


def probabilities(logits: ArrayLike) -> NDArray[np.float64]:
    """Return q or p: the softmax of stored logits over the last axis, in float64."""
    return np.asarray(softmax(np.asarray(logits, dtype=np.float64)))


def check_disk_space(
    path: str | Path | RemotePath,
    positions: int,
    vocabulary: int,
    dtype: str = "float16",
    fields: Mapping[str, Field] | None = None,
) -> None:
    """Refuse to start a collection that exceeds the free disk space."""
    stored = (FIELDS if fields is None else fields).values()
    row = sum(field.stored_dtype(dtype).itemsize * math.prod(field.row(vocabulary)) for field in stored)
    needed = positions * row + 2**20  # plus one mebibyte for the manifest
    if isinstance(folder := place(path), RemotePath):
        return
    folder = folder.absolute()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise UserError(
            f"The trace needs about {needed / 1e6:,.0f} MB for {positions:,} positions, but only {free / 1e6:,.0f} MB "
            f"are free at {folder}; free some space, choose another place, or ask for fewer positions."
        )


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace on disk with N positions and a vocabulary of V; arrays are read when they are indexed."""

    path: Place
    manifest: dict[str, Any]
    arrays: Mapping[str, Any]
    finished: bool = True

    @property
    def positions(self) -> int:
        return len(self.arrays["tokens"])

    @property
    def kind(self) -> str:
        return str(self.manifest.get("kind", LOGITS))

    @property
    def vocabulary(self) -> int:
        return int(self.manifest["vocabulary"] if self.kind == LISTS else self.arrays["target_logits"].shape[1])

    def first(self, positions: int) -> Trace:
        if not 0 < positions <= self.positions:
            raise UserError(f"The trace has {self.positions:,} positions; {positions:,} are asked for.")
        return replace(self, arrays={name: array.first(positions) for name, array in self.arrays.items()})

    def chunks(self, size: int = 512) -> Iterator[TraceChunk]:
        """Yield a trace of logits in chunks of ``size`` positions; the last chunk may be shorter."""
        if size < 1:
            raise UserError(f"The chunk size is {size}; it must be at least 1.")
        for start in range(0, self.positions, size):
            yield TraceChunk(**self.rows(start, size))

    def rows(self, start: int, size: int) -> dict[str, NDArray[Any]]:
        """Return the arrays at ``size`` positions from ``start`` on, by name; fewer at the end of the trace."""
        return {name: np.array(self.arrays[name][start : start + size]) for name in self.arrays}


def open_trace(
    path: str | Path | RemotePath, *, verify: bool = False, partial: bool = False, kinds: Collection[str] = (LOGITS,)
) -> Trace:
    """Open a trace for reading."""
    path = place(path)
    if not (path / JOURNAL).exists():
        raise _no_journal(path)
    committed = read_committed(path)
    if not committed.finished and not partial:
        damage = f" (line {committed.dropped} of its journal is torn or damaged)" if committed.dropped else ""
        raise UserError(
            f"The trace at {path} is not finished{damage}: {committed.rows:,} positions are stored; "
            "run the command that wrote it again, and it continues from there."
        )
    if (kind := committed.header.get("kind", LOGITS)) not in kinds:
        raise UserError(
            f"The trace at {path} holds {'top-k lists' if kind == LISTS else kind}, but {' or '.join(kinds)} of every "
            "token are needed here; `hlm validate --trace` checks what lists decide."
        )
    check_files(path, committed, content=verify)
    if not committed.rows:
        raise UserError(f"The trace at {path} is empty; collect it again with at least one prompt.")
    header = committed.header
    manifest = header | {"positions": committed.rows}
    if committed.finished:
        manifest = _manifest(path, committed)
    prompts = manifest.get("prompts")
    arrays = open_arrays(path, committed, len(prompts) if isinstance(prompts, list) and prompts else None)
    return Trace(path, manifest, arrays, committed.finished)


def _manifest(path: Place, committed: Committed) -> dict[str, Any]:
    if MANIFEST not in committed.files:
        raise UserError(f"{path / JOURNAL} has no checksum of {MANIFEST}; restore it from a copy.")
    content = check_file(path / MANIFEST, *committed.files[MANIFEST], MANIFEST)
    try:
        manifest = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UserError(f"The manifest of {path} cannot be read ({error}); collect the trace again.") from error
    if not isinstance(manifest, dict) or not all(manifest.get(name) == committed.header[name] for name in SHAPE):
        raise UserError(f"The manifest of {path} does not agree with {JOURNAL}; collect the trace again.")
    return manifest


def open_arrays(path: Place, committed: Committed, prompts: int | None = None) -> dict[str, StoredArray]:
    """Return the arrays up to the last commit."""
    files = ArrayFiles(path, committed.files)
    vocabulary, logits = committed.header["vocabulary"], committed.header["dtype"]
    tail = read_tail(path, committed)
    arrays: dict[str, StoredArray] = {}
    for name, field in fields_of(committed.header).items():
        row, dtype = field.row(vocabulary), field.stored_dtype(logits)
        if committed.finished and f"{FOLDER}/{name}/zarr.json" not in committed.files:
            raise UserError(f"The trace at {path} has no {name}; collect the trace again.")
        chunks = files.open(name) if committed.finished else files.create(name, (ENDLESS, *row), dtype, field.most_rows)
        last = tail.get(name, np.empty((0, *row), dtype))
        check_rows(path, committed, name, chunks, last)
        arrays[name] = StoredArray(chunks, committed.rows, last, name, _allowed(name, vocabulary, prompts))
    return arrays


def _allowed(name: str, vocabulary: int, prompts: int | None) -> tuple[int, int] | None:
    largest = 2**31 - 1
    return {
        "tokens": (NO_TOKEN, vocabulary - 1),
        "draft_tokens": (0, vocabulary - 1),
        "target_tokens": (0, vocabulary - 1),
        "prompt_index": (0, largest if prompts is None else prompts - 1),
        "position": (0, largest),
    }.get(name)


def _no_journal(path: Place) -> UserError:
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return UserError(f"There is no trace at {path}; collect one with `python3 hlm validate`, or check the path.")
    except (ValueError, RecursionError) as error:  # RecursionError for deeply nested brackets
        return UserError(f"The manifest of {path} cannot be read ({error}); collect the trace again.")
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        return UserError(f"{path / MANIFEST} is not that of a trace; check the path.")
    if manifest.get("version") != VERSION:
        return other_version(path, manifest.get("version"))
    return UserError(f"{path / JOURNAL} is missing; restore it from a copy, or collect the trace again.")
