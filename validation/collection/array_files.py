"""Read arrays from npy, safetensors and zarr files, and llama.cpp's stores, in blocks of rows.

Pickled data is never loaded.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validation.collection.llama_cpp import MAGIC, Store, open_store
from validation.errors import UserError, first_line
from validation.trace.zarr_store import load_zarr

KINDS = ".npy, .safetensors, .zarr or a store of llama-perplexity --kl-divergence-base"

Blocks = Callable[[int, int], Iterator[NDArray[Any]]]


@dataclass(frozen=True, slots=True)
class ArraySource:
    """An array in a file, with its shape and dtype; ``blocks(size, first)`` yields its rows starting at ``first``."""

    path: Path
    key: str | None
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    blocks: Blocks
    store: Store | None = None

    @property
    def where(self) -> str:
        return f"{self.path}:{self.key}" if self.key else str(self.path)

    @property
    def label(self) -> str:
        return f"{self.path.name}:{self.key}" if self.key else self.path.name

    def mark(self) -> str:
        """Return a readable mark that changes when the file changes."""
        return file_mark(self.path, self.label)


def file_mark(path: Path, label: str) -> str:
    files = [path] if path.is_file() else sorted(f for f in path.rglob("*") if f.is_file())
    stats = [file.stat() for file in files]
    newest = datetime.fromtimestamp(max((stat.st_mtime for stat in stats), default=0), UTC)
    return f"{label} ({sum(stat.st_size for stat in stats):,} bytes of {newest.isoformat(' ')})"


def open_source(where: str | Path) -> ArraySource:
    path, key = Path(where), None
    if not path.exists() and ":" in str(where):
        head, _, tail = str(where).rpartition(":")
        path, key = Path(head), tail
    if not path.exists():
        raise UserError(f"There is no file {path}; check the path.")
    opener = _zarr if path.is_dir() else {".npy": _npy, ".safetensors": _safetensors}.get(path.suffix.lower())
    if path.is_file() and opener is None:
        with path.open("rb") as file:
            opener = _llama_cpp if file.read(len(MAGIC)) == MAGIC else None
    if opener is None:
        raise UserError(f"{path} is not one of {KINDS}; save the logits as one of them.")
    with _explained(path):
        return opener(path, key)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        if any(word in str(error) for word in ("allow_pickle", "pickled", "Python objects")):
            raise UserError(
                f"{path} holds Python objects (a pickle), which are never loaded; save plain numbers."
            ) from error
        raise UserError(f"{path} cannot be read ({first_line(error)}); check that it is complete.") from error


def _sliced(path: Path, shape: tuple[int, ...], part: Callable[[int, int], Any]) -> Blocks:
    def blocks(size: int, first: int) -> Iterator[NDArray[Any]]:
        with _explained(path):
            for start in range(first, shape[0], size):
                yield np.asarray(part(start, min(start + size, shape[0])))

    return blocks


def _llama_cpp(path: Path, key: str | None) -> ArraySource:
    if key is not None:
        raise UserError(f"{path} holds one array without a name; leave out ':{key}'.")
    store = open_store(path)
    shape = store.rows, store.vocabulary
    return ArraySource(path, None, shape, np.dtype("float32"), _sliced(path, shape, store.log_probabilities), store)


def _npy(path: Path, key: str | None) -> ArraySource:
    if key is not None:
        raise UserError(f"{path} holds one array without a name; leave out ':{key}'.")
    with path.open("rb") as file:
        if not b"\x93NUMPY".startswith(file.read(6)):  # np.load explains an empty or truncated file
            raise UserError(f"{path} is not a .npy file, whatever its name; write it with numpy.save.")
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    return ArraySource(path, None, array.shape, array.dtype, _sliced(path, array.shape, lambda a, b: array[a:b]))


def _choose(path: Path, key: str | None, keys: list[str]) -> str:
    if key is None and len(keys) == 1:
        return keys[0]
    known = ", ".join(sorted(keys)[:10]) or "none"
    if key is None:
        example = f"{path.name}:{keys[0]}" if keys else "FILE:KEY"
        raise UserError(f"{path} holds {len(keys)} arrays ({known}); name one, as in {example}.")
    if key not in keys:
        raise UserError(f"{path} holds no array {key!r}; there are: {known}.")
    return key


def _safetensors(path: Path, key: str | None) -> ArraySource:
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        key = _choose(path, key, list(file.keys()))
        view = file.get_slice(key)
        shape, kind = tuple(view.get_shape()), str(view.get_dtype())
    known = {"F16": "float16", "F32": "float32", "F64": "float64", "BF16": "float32", "I32": "int32", "I64": "int64"}
    if kind not in known:
        raise UserError(f"{path}:{key} holds {kind}; save it as one of {', '.join(known)}.")

    def part(start: int, stop: int) -> NDArray[Any]:
        framework = "pt" if kind == "BF16" else "numpy"  # numpy has no bfloat16
        with safe_open(path, framework=framework) as file:
            rows = file.get_slice(key)[start:stop]
        return np.asarray(rows.float().numpy() if framework == "pt" else rows)

    return ArraySource(path, key, shape, np.dtype(known[kind]), _sliced(path, shape, part))


def _zarr(path: Path, key: str | None) -> ArraySource:
    zarr = load_zarr()
    found = zarr.open(str(path), mode="r")
    if isinstance(found, zarr.Group):
        key = _choose(path, key, [name for name, _ in found.arrays()])
        found = found[key]
    elif key is not None:
        raise UserError(f"{path} is one array without a name; leave out ':{key}'.")
    return ArraySource(
        path, key, found.shape, np.dtype(found.dtype), _sliced(path, found.shape, lambda a, b: found[a:b])
    )
