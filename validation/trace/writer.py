"""Write a trace: whole chunks as they are complete, the rest with each commit."""

import contextlib
import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from validation.errors import UserError
from validation.trace import format as trace_format
from validation.trace.journal import Committed, Lock, Sums, disk_error, open_journal, sync_folder, write_durably
from validation.trace.remote import RemotePath, place
from validation.trace.reopen import clear, remove_strays, what_to_go_on_from
from validation.trace.zarr_store import ENDLESS, ArrayFiles


class TraceWriter:
    """Write a trace incrementally; committed positions survive the end of the process."""

    def __init__(
        self,
        path: str | Path | RemotePath,
        vocabulary: int,
        manifest: dict[str, Any] | None = None,
        *,
        dtype: str = "float16",
        settings: Mapping[str, Any] | None = None,
        fresh: bool = False,
        lists: tuple[int, int] | None = None,
        finish: bool = True,
    ) -> None:
        self._kind: dict[str, Any] = {} if lists is None else {"kind": trace_format.LISTS, "widths": list(lists)}
        self._fields = trace_format.FIELDS if lists is None else trace_format.fields_of(self._kind)
        if lists is not None:
            dtype = trace_format.LIST_DTYPE
        elif dtype not in trace_format.DTYPES:
            raise UserError(f"Logits cannot be stored as {dtype!r}; choose {' or '.join(trace_format.DTYPES)}.")
        self.path = place(path).absolute()
        self.vocabulary = vocabulary
        self.manifest = dict(manifest or {})
        self.positions = 0
        self.state: dict[str, Any] = {}
        self._dtype, self._settings, self._fresh = dtype, None if settings is None else dict(settings), fresh
        self._dtypes = {name: field.stored_dtype(dtype) for name, field in self._fields.items()}
        self._finishes = finish
        self._stored = 0  # rows up to the last commit
        self._pieces: dict[str, list[NDArray[Any]]] = {name: [] for name in self._fields}
        self._chunked = dict.fromkeys(self._fields, 0)  # rows in whole chunks
        self._failure: BaseException | None = None

    def __enter__(self) -> Self:
        try:
            self._made = not self.path.exists()
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"The folder {self.path} cannot be made ({error.strerror}); choose another.") from error
        try:
            self._lock = Lock(self.path).__enter__()
        except OSError as error:
            raise disk_error(self.path, error) from error
        try:
            self._open()
        except BaseException:
            self._lock.__exit__()
            self._leave()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        finished = False
        try:
            if kind is None and self._finishes:
                self._on_disk(self._finish)
                finished = True
        finally:
            if not finished and (self._settings is None or not self._stored):
                clear(self.path)
            self._lock.__exit__()
            if not finished:
                self._leave()

    def append(self, *arrays: ArrayLike, **named: ArrayLike) -> None:
        rows = trace_format.complete(self._fields, arrays, named, self.vocabulary, self._dtype)
        self.positions += len(rows["tokens"])
        self._on_disk(self._add, rows)

    def commit(self, state: Mapping[str, Any] | None = None) -> None:
        """Commit everything appended so far, with a plain ``state`` for a later writer that continues."""
        self._on_disk(self._commit, self.positions, dict(state or {}))

    def _open(self) -> None:
        committed = what_to_go_on_from(
            self.path, self.vocabulary, self._dtype, self._settings, fresh=self._fresh, kind=self._kind
        )
        if committed is None:
            header = {"format": trace_format.FORMAT, "version": trace_format.VERSION, "vocabulary": self.vocabulary}
            header |= {"dtype": self._dtype, "settings": self._settings} | self._kind
            self._journal = open_journal(self.path)
            try:
                self._on_disk(self._journal.append, header)
                self._on_disk(sync_folder, self.path)
            except UserError:
                clear(self.path)
                raise
            committed, tail = Committed(header), {}
        else:
            trace_format.check_files(self.path, committed, content=False)
            tail = trace_format.read_tail(self.path, committed)
            self._on_disk(remove_strays, self.path, committed)
            self._journal = open_journal(self.path, committed)
        self._known, self._tail = committed.files, committed.tail
        self._stored = self.positions = committed.rows
        self.state = committed.state
        for name, rows in tail.items():
            self._pieces[name] = [rows] if len(rows) else []
        for name in self._fields:
            self._chunked[name] = self._stored - sum(map(len, self._pieces[name]))
        self._files = ArrayFiles(self.path, self._known)
        self._arrays = self._create_arrays(ENDLESS)

    def _leave(self) -> None:
        if self._made:
            with contextlib.suppress(OSError):
                self.path.rmdir()

    def _on_disk(self, work: Callable[..., None], *args: Any) -> None:
        if self._failure is not None:
            raise self._failure
        try:
            work(*args)
        except BaseException as error:
            self._failure = error
            if not isinstance(error, OSError):
                raise
            kept = ""
            if self._stored and self._settings is not None:
                kept = f"what was stored before ({self._stored:,} positions) is safe; "
            self._failure = disk_error(self.path, error, kept)
            raise self._failure from error

    def _add(self, arrays: dict[str, NDArray[Any]]) -> None:
        for name, rows in arrays.items():
            pieces = self._pieces[name]
            pieces.append(rows)
            size = self._fields[name].chunk_rows(self.vocabulary, self._dtype)
            if count := sum(map(len, pieces)) // size * size:
                joined = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
                start = self._chunked[name]
                self._arrays[name][start : start + count] = joined[:count]
                self._pieces[name] = [joined[count:].copy()] if len(joined) > count else []
                self._chunked[name] += count

    def _commit(self, rows: int, state: dict[str, Any]) -> None:
        name = f"tail-{self._journal.lines}.npz"
        content = io.BytesIO()
        arrays: dict[str, Any] = {key: _joined(pieces) for key, pieces in self._pieces.items() if pieces}
        np.savez(content, **arrays)
        files = self._files.written | {name: write_durably(self.path / name, content.getbuffer(), below=self.path)}
        self._record(rows, state, files, tail=name)

    def _finish(self) -> None:
        rows = self.positions
        if not rows:
            raise UserError(f"No positions were collected for {self.path}; give at least one prompt.")
        self._arrays = self._create_arrays(rows)
        for name, pieces in self._pieces.items():
            if pieces:
                self._arrays[name][self._chunked[name] :] = _joined(pieces)
        for key, value in self._files.metadata.items():
            self._files.write(key, value.to_bytes())
        own = {"format": trace_format.FORMAT, "version": trace_format.VERSION, "vocabulary": self.vocabulary}
        own |= {"positions": rows, "dtype": self._dtype} | self._kind
        own |= {} if self._settings is None else {"settings": self._settings}
        text = json.dumps({**own, **self.manifest, **own}, indent=1, ensure_ascii=False) + "\n"
        manifest = write_durably(self.path / trace_format.MANIFEST, text.encode(), below=self.path)
        self._record(rows, self.state, self._files.written | {trace_format.MANIFEST: manifest}, tail=None)

    def _record(self, rows: int, state: dict[str, Any], files: Sums, tail: str | None) -> None:
        for folder in sorted({(self.path / name).parent for name in files}):
            sync_folder(folder)
            sync_folder(folder.parent)
        record = {"rows": rows, "state": state, "tail": tail, "finished": tail is None, "files": files}
        self._journal.append(record)
        self._known |= files
        self._files.written = {}
        before, self._tail = self._tail, tail
        self._stored, self.state = rows, state
        if before:
            del self._known[before]
            (self.path / before).unlink(missing_ok=True)

    def _create_arrays(self, rows: int) -> dict[str, Any]:
        return {
            name: self._files.create(name, (rows, *field.row(self.vocabulary)), self._dtypes[name], field.most_rows)
            for name, field in self._fields.items()
        }


def _joined(pieces: list[NDArray[Any]]) -> NDArray[Any]:
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
