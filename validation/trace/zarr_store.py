"""Store the arrays of a trace as zarr arrays whose chunk files are checked against the journal at every read.

Each array is chunked along its rows only: chunk i is the file ``arrays/<name>/c.<i>.0`` (``c.<i>`` for one axis). A
file is written once and never changed. The metadata (``zarr.json``) stays in memory until the number of rows is final.
"""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from validation.errors import UserError
from validation.trace.journal import Sums, check_file, write_durably
from validation.trace.remote import Place

if TYPE_CHECKING:
    from zarr import Array

FOLDER = "arrays"
LOGIT_BYTES = 2**22  # maximum bytes per chunk of logits, unless one row is larger
LOGIT_ROWS = 256  # maximum rows per chunk, so that checks of a few hundred positions read whole chunks
INDEX_ROWS = 4096
LIST_ROWS = 2**15  # maximum rows per chunk of every array of a trace of top-k lists
ENDLESS = 2**40  # provisional number of rows while an array is written


def chunk_rows(row: tuple[int, ...], itemsize: int, most: int | None = None) -> int:
    """Return the rows per chunk, a power of two, of an array whose rows have the shape ``row``, (V,) or ().

    >>> [chunk_rows((size,), 2) for size in (300, 4096, 32_000, 10**6)], chunk_rows((), 4), chunk_rows((20,), 8, 2**15)
    ([256, 256, 64, 2], 4096, 16384)
    """
    if not row:
        return most or INDEX_ROWS
    fitting = max(1, min(most or LOGIT_ROWS, LOGIT_BYTES // (row[0] * itemsize)))
    return 1 << (fitting.bit_length() - 1)


def load_zarr() -> Any:
    import zarr
    import zarr.abc.store
    import zarr.codecs

    return zarr


class ArrayFiles:
    """Files of one group of arrays: a zarr store, and the checksums of the files read or written."""

    def __init__(self, root: Place, known: Sums) -> None:
        self.root, self.known = root, known
        self.written: Sums = {}
        self.metadata: dict[str, Any] = {}
        self.store = _store_class()(self)

    def name(self, key: str) -> str:
        return f"{FOLDER}/{key}"

    def read(self, key: str) -> bytes | None:
        """Return the checked content of a chunk file, or None if it was never committed."""
        sums = self.known.get(self.name(key))
        if sums is None:
            return None
        return check_file(self.root / self.name(key), *sums, what=describe(self.name(key)))

    def write(self, key: str, content: bytes | memoryview) -> None:
        path = self.root / self.name(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        self.written[self.name(key)] = write_durably(path, content, below=self.root)

    def create(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], most: int | None = None) -> Array:
        """Create an array of at most ``most`` rows per chunk for writing; its metadata stays in memory."""
        zarr = load_zarr()
        row = shape[1:]
        shuffle = zarr.codecs.BloscCodec(cname="zstd", clevel=1, shuffle="shuffle", typesize=dtype.itemsize)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # hide zarr's warnings about its own future changes
            return zarr.create_array(
                self.store,
                name=name,
                shape=shape,
                chunks=(chunk_rows(row, dtype.itemsize, most), *row),
                dtype=dtype,
                compressors=[shuffle, zarr.codecs.Crc32cCodec()],
                fill_value={"f": float("nan"), "i": -1}.get(dtype.kind, 0),
                chunk_key_encoding={"name": "default", "separator": "."},
                config={"write_empty_chunks": True},
                overwrite=True,
            )

    def open(self, name: str) -> Array:
        return load_zarr().open_array(self.store, path=name, mode="r+", zarr_format=3)


def describe(name: str) -> str:
    folder, _, last = name.rpartition("/")
    if last.startswith("c."):
        return f"chunk {last.split('.')[1]} of {folder.removeprefix(FOLDER + '/')}"
    return f"the metadata of {folder.removeprefix(FOLDER + '/')}" if last == "zarr.json" and "/" in folder else last


class StoredArray:
    """An array of a trace on disk, read when it is indexed by rows: a slice, an integer, a mask, or integers."""

    def __init__(
        self, chunks: Array, rows: int, tail: NDArray[Any], name: str = "", allowed: tuple[int, int] | None = None
    ) -> None:
        self._name, self._allowed = name, allowed
        self._chunks, self._whole, self._tail = chunks, rows - len(tail), tail
        self.shape: tuple[int, ...] = (rows, *chunks.shape[1:])
        self.dtype: np.dtype[Any] = np.dtype(chunks.dtype)
        self.ndim, self.chunk_rows = len(self.shape), int(chunks.chunks[0])
        self._held: tuple[int, NDArray[Any]] | None = None

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        if isinstance(rows, slice) and rows.step in (None, 1):
            start, stop, _ = rows.indices(len(self))
            return self._read(start, stop)
        return self._pick(np.arange(len(self))[rows])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        found = self._read(0, len(self))
        return found if dtype is None else found.astype(dtype)

    def _read(self, start: int, stop: int) -> NDArray[Any]:
        if stop <= start:
            return np.empty((0, *self.shape[1:]), self.dtype)
        found = self._stored(start, stop)
        if self._allowed is not None:
            low, high = self._allowed
            if found.min() < low or found.max() > high:
                row = start + int(np.argmax(((found < low) | (found > high)).reshape(len(found), -1).any(axis=1)))
                raise UserError(
                    f"{self._name} of the trace has a value at row {row:,} that is not in {low}..{high}; the trace was "
                    "not written by this program, or belongs to another vocabulary or other prompts: make it again."
                )
        return found

    def _stored(self, start: int, stop: int) -> NDArray[Any]:
        if start >= self._whole:
            return self._tail[start - self._whole : stop - self._whole].copy()
        last, size = min(stop, self._whole), self.chunk_rows
        if len(touched := range(start // size, -(-last // size))) > 2:
            found = [np.asarray(self._chunks[start:last])]
        else:  # each chunk is checked and decompressed as a whole
            found = [self._chunk(n)[max(start - n * size, 0) : last - n * size] for n in touched]
        return np.concatenate([*found, self._tail[: stop - last]])

    def _chunk(self, number: int) -> NDArray[Any]:
        held = self._held
        if held is None or held[0] != number:
            first = number * self.chunk_rows
            held = number, np.asarray(self._chunks[first : min(first + self.chunk_rows, self._whole)])
            self._held = held
        return held[1]

    def _pick(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        found = np.empty((*rows.shape, *self.shape[1:]), self.dtype)
        belongs = rows // self.chunk_rows
        for chunk in np.unique(belongs):
            start = int(chunk) * self.chunk_rows
            block = self._read(start, min(start + self.chunk_rows, len(self)))
            found[belongs == chunk] = block[rows[belongs == chunk] - start]
        return found


@cache
def _store_class() -> type[Any]:
    base = load_zarr().abc.store

    class CheckedStore(base.Store):  # type: ignore[misc, name-defined]
        supports_writes = supports_deletes = supports_listing = True

        def __init__(self, files: ArrayFiles) -> None:
            super().__init__(read_only=False)
            self.files = files

        __eq__ = object.__eq__
        __hash__ = object.__hash__

        async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
            from asyncio import to_thread

            from zarr.core.buffer import default_buffer_prototype

            kind = (prototype or default_buffer_prototype()).buffer
            if key.endswith("zarr.json") and key in self.files.metadata:
                return kind.from_buffer(self.files.metadata[key])
            assert byte_range is None  # chunks are read whole
            content = await to_thread(self.files.read, key)
            return None if content is None else kind.from_bytes(content)

        async def get_partial_values(self, prototype: Any, key_ranges: Iterable[Any]) -> list[Any]:
            return [await self.get(key, prototype, byte_range) for key, byte_range in key_ranges]

        async def set(self, key: str, value: Any, byte_range: Any = None) -> None:
            from asyncio import to_thread

            if key.endswith("zarr.json"):
                self.files.metadata[key] = value
            else:
                await to_thread(self.files.write, key, value.to_bytes())

        async def delete(self, key: str) -> None:
            self.files.metadata.pop(key, None)

        async def exists(self, key: str) -> bool:
            return key in self.files.metadata or self.files.name(key) in self.files.known

        async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
            for key in [key for key in self.files.metadata if key.startswith(prefix)]:
                yield key

        def list(self) -> AsyncIterator[str]:
            return self.list_prefix("")

        async def list_dir(self, prefix: str) -> AsyncIterator[str]:
            async for key in self.list_prefix(prefix):
                yield key.removeprefix(prefix).lstrip("/").split("/")[0]

    return CheckedStore
