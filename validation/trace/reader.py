"""Read a trace: the logits of both models at every position, in a store that survives a crash.

A trace is a folder: ``manifest.json`` (models, prompts, settings, speed), ``arrays/`` (zarr 3; the fields are those of
:mod:`validation.trace.format`) and ``journal.jsonl`` (for each commit rows, size and CRC-32 of every new file); while
it is written also ``tail-<n>.npz``, the rows after the last whole chunk. A file is synced before the journal names it,
and never changed after that; chunks are checked at every read. q and p are the softmax of the stored values.
"""

import hashlib
import json
import math
import shutil
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hlmtheory.verification import softmax
from validation.errors import UserError
from validation.trace import format as trace_format
from validation.trace.format import ARRAYS, FIELDS, FORMAT, LISTS, LOGITS, MANIFEST, SHAPE, Field, complete
from validation.trace.journal import JOURNAL, Committed, check_file
from validation.trace.remote import Place, RemotePath, place
from validation.trace.writer import TraceWriter
from validation.trace.zarr_store import ENDLESS, FOLDER, ArrayFiles, StoredArray

HASHED = 2**24  # bytes hashed at a time
TEXT = 160  # positions in a synthetic sequence
SYNTHETIC = "synthetic:"  # how the address of such a trace begins
__all__ = ["ARRAYS", "LISTS", "LOGITS", "Trace", "TraceChunk", "TraceWriter", "open_trace", "probabilities"]


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

    def __getitem__(self, rows: slice) -> Self:
        return type(self)(**{name: array[rows] for name, array in self.arrays.items()})


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
    stored = (FIELDS if fields is None else fields).values()
    row = sum(one.stored_dtype(dtype).itemsize * math.prod(one.row(vocabulary)) for one in stored)
    needed = positions * row + 2**20  # plus one mebibyte for the manifest
    if isinstance(folder := place(path), RemotePath):
        return
    folder = folder.absolute()
    while not folder.exists():
        folder = folder.parent
    if needed > (free := shutil.disk_usage(folder).free):
        raise UserError(
            f"The trace needs about {needed / 1e6:,.0f} MB for {positions:,} positions, but only {free / 1e6:,.0f} MB "
            f"are free at {folder}; free some space, choose another place, or ask for fewer positions."
        )


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """A trace on disk with N positions and a vocabulary of V; arrays are read when they are indexed."""

    path: Place
    manifest: dict[str, Any]
    arrays: Mapping[str, Any]
    finished: bool = True

    def _key(self) -> tuple[Any, ...]:
        return str(self.path), self.positions, self.vocabulary, str(self.manifest.get("created"))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Trace) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    @property
    def positions(self) -> int:
        return len(self.arrays["tokens"])

    @property
    def kind(self) -> str:
        return str(self.manifest.get("kind", LOGITS))

    @property
    def vocabulary(self) -> int:
        return int(self.manifest["vocabulary"] if self.kind == LISTS else self.arrays["target_logits"].shape[1])

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
    path = place(path)
    if not (path / JOURNAL).exists():
        raise _no_journal(path)
    committed = trace_format.read_committed(path)
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
    trace_format.check_files(path, committed, content=verify)
    if not committed.rows:
        raise UserError(f"The trace at {path} is empty; collect it again with at least one prompt.")
    manifest = committed.header | {"positions": committed.rows}
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
    files = ArrayFiles(path, committed.files)
    vocabulary, logits = committed.header["vocabulary"], committed.header["dtype"]
    tail = trace_format.read_tail(path, committed)
    arrays: dict[str, StoredArray] = {}
    for name, one in trace_format.fields_of(committed.header).items():
        row, dtype = one.row(vocabulary), one.stored_dtype(logits)
        if committed.finished and f"{FOLDER}/{name}/zarr.json" not in committed.files:
            raise UserError(f"The trace at {path} has no {name}; collect the trace again.")
        chunks = files.open(name) if committed.finished else files.create(name, (ENDLESS, *row), dtype, one.most_rows)
        last = tail.get(name, np.empty((0, *row), dtype))
        trace_format.check_rows(path, committed, name, chunks, last)
        arrays[name] = StoredArray(chunks, committed.rows, last, name, _allowed(name, vocabulary, prompts))
    return arrays


def _allowed(name: str, vocabulary: int, prompts: int | None) -> tuple[int, int] | None:
    largest = 2**31 - 1
    return {
        "tokens": (trace_format.NO_TOKEN, vocabulary - 1),
        "draft_tokens": (0, vocabulary - 1),
        "target_tokens": (0, vocabulary - 1),
        "prompt_index": (0, largest if prompts is None else prompts - 1),
        "position": (0, largest),
    }.get(name)


def _no_journal(path: Place) -> UserError:
    try:
        manifest = json.loads((path / MANIFEST).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return UserError(f"There is no trace at {path}; collect one with `python3 hlm validate`, or check the path.")
    except (ValueError, RecursionError) as error:  # RecursionError for deeply nested brackets
        return UserError(f"The manifest of {path} cannot be read ({error}); collect the trace again.")
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        return UserError(f"{path / MANIFEST} is not that of a trace; check the path.")
    if manifest.get("version") != trace_format.VERSION:
        return trace_format.other_version(path, manifest.get("version"))
    return UserError(f"{path / JOURNAL} is missing; restore it from a copy, or collect the trace again.")


@lru_cache(maxsize=32)
def fingerprint(trace: Trace) -> str:
    """Return 16 hexadecimal digits of the SHA-256 of a trace's values, computed once for each trace."""
    found = hashlib.sha256()
    for name, array in sorted(trace.arrays.items()):
        found.update(f"{name} {np.dtype(array.dtype).str} {tuple(array.shape)}\n".encode())
        row = max(1, int(np.prod(array.shape[1:])) * np.dtype(array.dtype).itemsize)
        step = max(1, HASHED // row)
        for start in range(0, array.shape[0], step):
            found.update(np.ascontiguousarray(array[start : start + step]).tobytes())
    return found.hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class SyntheticTrace:
    """A trace of any length that is generated while it is read; nothing is stored."""

    positions: int
    vocabulary: int
    seed: int = 1
    manifest: dict[str, Any] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return f"{SYNTHETIC}{self.positions}/{self.vocabulary}/{self.seed}"

    @classmethod
    def at(cls, address: str) -> Self:
        positions, vocabulary, seed = map(int, address.removeprefix(SYNTHETIC).split("/"))
        return cls(positions, vocabulary, seed)

    def chunks(self, size: int = 512) -> Iterator[TraceChunk]:
        for start in range(0, self.positions, size):
            yield TraceChunk(**self.rows(start, size))

    def rows(self, start: int, size: int) -> dict[str, Any]:
        """Return the arrays at ``size`` positions from ``start`` on; they depend on both numbers."""
        pool = np.random.default_rng(self.seed).normal(size=2 * self.vocabulary).astype(np.float32)
        windows = np.lib.stride_tricks.sliding_window_view(pool, self.vocabulary)
        rng = np.random.default_rng([self.seed, start])
        count = min(size, self.positions - start)
        offsets = rng.integers(0, len(windows), (2, count))
        scale = rng.uniform(1.0, 6.0, (count, 1)).astype(np.float32)
        draft = scale * windows[offsets[0]]
        target = draft + windows[offsets[1]]
        index = np.arange(start, start + count, dtype=np.int32)
        tokens = rng.integers(0, self.vocabulary, count).astype(np.int32)
        return complete(FIELDS, (draft, target, tokens, index // TEXT, index % TEXT), {}, self.vocabulary, "float16")
