"""The trace: logits of both models at every position, on disk, written whole or not at all.

A trace is a folder with ``manifest.json`` and five arrays of N positions:

==================  ==========  =======  ==============================================================
file                shape       dtype    content
==================  ==========  =======  ==============================================================
draft_logits.npy    (N, V)      float16  the small model's logits
target_logits.npy   (N, V)      float16  the large model's logits
tokens.npy          (N,)        int32    the token that the large model emitted there
prompt_index.npy    (N,)        int32    row of the manifest's ``prompts``
position.npy        (N,)        int32    0 for the first token after the prompt, and so on
==================  ==========  =======  ==============================================================

q and p are by definition the softmax of the stored values. Rows of one text lie together, in order.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from validation.errors import UserError

FORMAT = "hlm-trace"
VERSION = 1
ARRAYS = ("draft_logits", "target_logits", "tokens", "prompt_index", "position")


@dataclass(frozen=True, slots=True)
class TraceChunk:
    """Consecutive positions of a trace; the logits (n, V) are float16, the rest (n,) int32."""

    draft_logits: NDArray[np.float16]
    target_logits: NDArray[np.float16]
    tokens: NDArray[np.int32]
    prompt_index: NDArray[np.int32]
    position: NDArray[np.int32]


def probabilities(logits: ArrayLike) -> NDArray[np.float64]:
    """Softmax over the last axis in float64: how q and p follow from what is stored.

    >>> probabilities(np.zeros(4, dtype=np.float16)).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    weights = np.array(logits, dtype=np.float64)
    weights -= weights.max(axis=-1, keepdims=True)
    np.exp(weights, out=weights)
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights


def check_disk_space(path: str | Path, positions: int, vocabulary: int) -> None:
    """Refuse to start a collection that the disk cannot hold.

    Raises
    ------
    UserError
        When ``positions`` rows of both models need more bytes than are free where ``path`` will lie.
    """
    needed = positions * (2 * 2 * vocabulary + 3 * 4) + 2**20  # and a mebibyte for the manifest
    folder = Path(path).absolute()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise UserError(
            f"The trace needs about {needed / 1e6:,.0f} MB for {positions:,} positions, but only {free / 1e6:,.0f} MB "
            f"are free at {folder}; free some space, choose another place, or ask for fewer positions."
        )


class TraceWriter:
    """Write a trace piece by piece; it appears at ``path`` complete, or not at all.

    Use as a context manager. ``manifest`` may be filled until the block ends; an exception discards everything.

    Parameters
    ----------
    path : str or Path
        The folder to make; nothing may lie there yet.
    vocabulary : int
        V, the width of the logits.
    manifest : dict, optional
        What to record beside the format, the version, the vocabulary and the number of positions.

    Raises
    ------
    UserError
        Something lies at ``path`` already, the disk is full, an append of wrong shape, no positions at the end.
    """

    def __init__(self, path: str | Path, vocabulary: int, manifest: dict[str, Any] | None = None) -> None:
        self.path = Path(path).absolute()
        self.vocabulary = vocabulary
        self.manifest = dict(manifest or {})
        self.positions = 0
        self._partial = self.path.with_name(f"{self.path.name}.partial-{os.getpid()}")
        self._files: dict[str, BinaryIO] = {}

    def __enter__(self) -> Self:
        if self.path.exists():
            raise UserError(f"Something lies at {self.path} already; remove it or choose another path.")
        try:
            self._partial.mkdir(parents=True)
        except OSError as error:
            raise UserError(f"The folder {self._partial} cannot be made ({error.strerror}); choose another.") from error
        for name in ARRAYS:
            self._files[name] = (self._partial / f"{name}.npy").open("wb")
            self._write_header(name)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            for file in self._files.values():
                file.close()
            shutil.rmtree(self._partial, ignore_errors=True)

    def append(
        self,
        draft_logits: NDArray[Any],
        target_logits: NDArray[Any],
        tokens: NDArray[Any],
        prompt_index: NDArray[Any],
        position: NDArray[Any],
    ) -> None:
        """Add n positions: two (n, V) arrays of logits and three (n,) arrays of integers."""
        arrays = dict(zip(ARRAYS, (draft_logits, target_logits, tokens, prompt_index, position), strict=True))
        count = len(tokens)
        for name, array in arrays.items():
            if array.shape != self._shape(name, count):
                raise UserError(f"{name} has shape {array.shape}; {self._shape(name, count)} is needed.")
        try:
            for name, array in arrays.items():
                self._files[name].write(np.ascontiguousarray(array, dtype=_dtype(name)).data)
        except OSError as error:
            raise _disk_error(self.path, error) from error
        self.positions += count

    def _shape(self, name: str, count: int) -> tuple[int, ...]:
        return (count, self.vocabulary) if name.endswith("logits") else (count,)

    def _write_header(self, name: str) -> None:
        """The npy header, written first with no rows; numpy pads it so that a larger count has room."""
        header = {"descr": _dtype(name).str, "fortran_order": False, "shape": self._shape(name, self.positions)}
        np.lib.format.write_array_header_1_0(self._files[name], header)

    def _finish(self) -> None:
        if not self.positions:
            raise UserError(f"No positions were collected for {self.path}; give at least one prompt.")
        own = {"format": FORMAT, "version": VERSION, "vocabulary": self.vocabulary, "positions": self.positions}
        text = json.dumps({**own, "dtype": "float16", **self.manifest, **own}, indent=1, ensure_ascii=False) + "\n"
        try:
            for name, file in self._files.items():
                file.seek(0)
                self._write_header(name)
                file.flush()
                os.fsync(file.fileno())
            with (self._partial / "manifest.json").open("w", encoding="utf-8") as manifest:
                manifest.write(text)
                manifest.flush()
                os.fsync(manifest.fileno())
            _sync_folder(self._partial)
            self._partial.rename(self.path)
            _sync_folder(self.path.parent)
        except OSError as error:
            raise _disk_error(self.path, error) from error


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace on disk, read through memory maps: N positions over V entries."""

    path: Path
    manifest: dict[str, Any]
    arrays: dict[str, NDArray[Any]]

    @property
    def positions(self) -> int:
        """N, the number of positions."""
        return len(self.arrays["tokens"])

    @property
    def vocabulary(self) -> int:
        """V, the width of the logits."""
        return int(self.arrays["target_logits"].shape[1])

    def chunks(self, size: int = 512) -> Iterator[TraceChunk]:
        """Go through the trace ``size`` positions at a time (the last chunk may be shorter)."""
        if size < 1:
            raise UserError(f"The chunk size is {size}; it must be at least 1.")
        for start in range(0, self.positions, size):
            yield TraceChunk(**{name: np.array(self.arrays[name][start : start + size]) for name in ARRAYS})


def open_trace(path: str | Path) -> Trace:
    """Open a trace for reading.

    Raises
    ------
    UserError
        No trace there, a manifest that cannot be read, a format version this program does not know, an array that
        is missing or disagrees with the manifest, no positions.
    """
    path = Path(path)
    try:
        manifest = json.loads((path / "manifest.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UserError(f"There is no trace at {path}; collect one first, or check the path.") from error
    except ValueError as error:
        raise UserError(f"The manifest of {path} cannot be read ({error}); collect the trace again.") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise UserError(f"{path / 'manifest.json'} is not that of a trace; check the path.")
    if manifest.get("version") != VERSION:
        raise UserError(
            f"The trace at {path} has format version {manifest.get('version')!r}, this program reads {VERSION}; "
            "use the program that wrote it, or collect the trace again."
        )
    arrays = {name: _open_array(path, name, manifest) for name in ARRAYS}
    if not manifest["positions"]:
        raise UserError(f"The trace at {path} is empty; collect it again with at least one prompt.")
    return Trace(path=path, manifest=manifest, arrays=arrays)


def _open_array(path: Path, name: str, manifest: dict[str, Any]) -> NDArray[Any]:
    file = path / f"{name}.npy"
    try:
        # numpy cannot map an empty array
        array = np.load(file, mmap_mode="r" if manifest["positions"] else None, allow_pickle=False)
    except (OSError, ValueError, EOFError, KeyError) as error:
        raise UserError(f"{file} cannot be read ({error}); collect the trace again.") from error
    width = (manifest.get("vocabulary"),) if name.endswith("logits") else ()
    if array.shape != (manifest["positions"], *width) or array.dtype != _dtype(name):
        raise UserError(
            f"{file} holds {array.dtype} of shape {array.shape}, but the manifest says {_dtype(name)} of shape "
            f"{(manifest['positions'], *width)}; collect the trace again."
        )
    return array


def _dtype(name: str) -> np.dtype[Any]:
    return np.dtype("<f2" if name.endswith("logits") else "<i4")


def _disk_error(path: Path, error: OSError) -> UserError:
    if error.errno == errno.ENOSPC:
        return UserError(f"The disk is full while writing {path}; free some space, or ask for fewer positions.")
    return UserError(f"Writing {path} failed ({error.strerror}); choose another place.")


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut; only POSIX can sync a folder."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
