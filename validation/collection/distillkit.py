"""Read a folder that DistillKit writes: ``compression_config.yaml`` and ``data_{n}.parquet``, a text in each row.

Only the ``exact_k`` largest values are read: the others are a polynomial's, whose error the format does not store.
A value misses the true one by at most u |x|, u the type's unit roundoff. With ``delta_encoding`` it is a difference, of
which all are 0 or less, so their sum has that bound too, and a small absolute error from DistillKit's float32 sums.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validation.collection.top_k import LARGEST_ID, ListedText, ListSource, Rounding
from validation.errors import UserError, first_line

CONFIG = "compression_config.yaml"
LARGEST_CONFIG = 2**16
LONGEST = 2**16  # largest k that is read
TEXTS = 8  # texts in memory at a time
COLUMNS = ("input_ids", "compressed_logprobs", "bytepacked_indices")
BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
ROUNDOFF = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-23, "float64": 2.0**-23}
"""Unit roundoff of the stored type, at least that of the float32 values that were stored."""
ABSOLUTE, ABOVE = 1e-5, 1e-5


@dataclass(frozen=True, slots=True)
class Config:
    """What the reader needs of the configuration: sizes, the exact values' type, bytes of a position's lists."""

    vocabulary: int
    k: int
    exact_k: int
    dtype: str
    delta: bool
    value_bytes: int
    index_bytes: int
    index_bits: int


def open_distillkit(folder: Path) -> ListSource:
    """Return the lists of a folder; a gap in the numbers of its data files means that one is missing."""
    config = read_config(folder / CONFIG)
    names = [file.name for file in folder.iterdir() if re.fullmatch(r"data_\d{1,9}\.parquet", file.name)]
    files = [folder / f"data_{number}.parquet" for number in range(max(1, len(names)))]
    if missing := [file.name for file in files if file.name not in names]:
        raise UserError(f"{folder} has no {missing[0]}; copy it again.")
    rounding = Rounding(ABSOLUTE, ROUNDOFF[config.dtype])
    return ListSource(folder, "distillkit", partial(_texts, files, config), config.vocabulary, rounding)


def read_config(path: Path) -> Config:
    import yaml

    if not path.is_file():
        raise UserError(f"There is no {path}; it belongs to a folder of DistillKit.")
    if path.stat().st_size > LARGEST_CONFIG:
        raise UserError(f"{path} has more than {LARGEST_CONFIG:,} bytes; a configuration is shorter.")
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(f"{path} is not YAML ({str(error).splitlines()[0]}); copy it again.") from error
    if not isinstance(found, Mapping):
        raise UserError(f"{path} must hold names and values; copy it again.")
    vocabulary = _whole(path, found, "d", 2, LARGEST_ID)
    k = _whole(path, found, "k", 1, min(LONGEST, vocabulary))
    exact_k = _whole(path, found, "exact_k", 0, k)
    if exact_k == 0:
        raise UserError(
            f"{path} has exact_k = 0: every value is a polynomial's, whose error the format does not store, so nothing "
            "is known for certain; compress again with exact_k of at least 1."
        )
    dtype = _type(path, found.get("exact_dtype", "float32"))
    bits = math.ceil(np.log2(np.float32(vocabulary)))
    size = exact_k * BYTES[dtype]
    size += len(found.get("polynomial_terms") or []) * BYTES[_type(path, found.get("term_dtype", "float32"))]
    bins = found.get("residual_bins") or []
    if not isinstance(bins, list) or not all(isinstance(one, Mapping) for one in bins):
        raise UserError(f"{path}: residual_bins must be a list; copy it again.")
    for one in bins:
        element = _whole(path, one, "element_bits", 1, 64)
        size += BYTES[_type(path, one.get("scale_dtype"))]
        size += math.ceil(element * _whole(path, one, "num_elements", 1, k - exact_k) / 8)
    delta = found.get("delta_encoding", True)
    if not isinstance(delta, bool):
        raise UserError(f"{path}: delta_encoding is {delta!r}; it must be true or false.")
    return Config(vocabulary, k, exact_k, dtype, delta, size, math.ceil(k * bits / 8), bits)


def _whole(path: Path, found: Mapping[str, Any], name: str, low: int, high: int) -> int:
    value = found.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise UserError(f"{path}: {name} is {str(value)[:40]}; it must be a whole number, {low:,} to {high:,}.")
    return value


def _type(path: Path, name: Any) -> str:
    if name not in BYTES:
        raise UserError(f"{path}: {str(name)[:40]!r} is no type of a value; there are {', '.join(BYTES)}.")
    return str(name)


def _texts(files: list[Path], config: Config) -> Iterator[ListedText]:
    for file in files:
        number = 0
        for batch in _batches(file):
            for one in range(batch.num_rows):
                where = f"{file}, row {number}"
                yield _text(where, [_column(where, batch, name, one) for name in COLUMNS], config)
                number += 1


def _batches(file: Path) -> Iterator[Any]:
    import pyarrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(file, page_checksum_verification=True) as opened:
            if missing := [name for name in COLUMNS if name not in opened.schema_arrow.names]:
                raise UserError(f"{file} has no column {missing[0]}; it is not a data file of DistillKit.")
            yield from opened.iter_batches(TEXTS, columns=list(COLUMNS))
    except (pyarrow.ArrowException, OSError, ValueError, MemoryError) as error:
        raise UserError(f"{file} cannot be read ({first_line(error)}); check that it is complete.") from error


def _column(where: str, batch: Any, name: str, row: int) -> Any:
    values = batch.column(name).slice(row, 1)
    try:
        inner = values.flatten()
        if name == "input_ids":
            tokens = inner.to_numpy(zero_copy_only=False)
            return tokens if tokens.dtype.kind in "iu" else np.array([-1])
        lengths = np.unique(inner.value_lengths().to_numpy(zero_copy_only=False))
        flat = inner.flatten().to_numpy(zero_copy_only=False)
    except (AttributeError, TypeError, ValueError) as error:
        raise UserError(f"{where}: {name} is no list of bytes for each token; the file is damaged.") from error
    if len(lengths) > 1 or flat.dtype != np.uint8:
        raise UserError(f"{where}: the positions of {name} differ in length, or are not bytes; the file is damaged.")
    return flat.reshape(len(inner), -1) if len(inner) else np.empty((0, 0), np.uint8)


def _text(where: str, columns: list[NDArray[Any]], config: Config) -> ListedText:
    ids, values, indices = columns
    n = len(ids) - 1
    if n < 1 or len(values) != n or len(indices) != n:
        raise UserError(
            f"{where} has {len(ids):,} tokens and {len(values):,} and {len(indices):,} lists; there must be one list "
            "for each token but the first."
        )
    for name, found, needed in zip(
        COLUMNS[1:], (values, indices), (config.value_bytes, config.index_bytes), strict=True
    ):
        if found.shape[1] != needed:
            raise UserError(
                f"{where}: {name} has {found.shape[1]} bytes a position, but {CONFIG} needs {needed}; they do not "
                "belong together, or the file is damaged."
            )
    if ids.min() < 0 or ids.max() > LARGEST_ID:
        raise UserError(f"{where} holds a token that is none; the file is damaged.")
    exact = _decoded(values[:, : config.exact_k * BYTES[config.dtype]], config.dtype)
    logs = np.minimum(exact.astype(np.float64), 0.0)
    with np.errstate(invalid="ignore"):
        logs = np.cumsum(logs, axis=1) if config.delta else logs
        wrong = ~(exact <= ABOVE)
        wrong[:, 1:] |= ~(logs[:, 1:] <= logs[:, :-1])
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise UserError(
            f"{where}, place {row + 1}: value {column} ({exact[row, column]:g}) cannot follow those before it in a "
            "list of log-probabilities; the file is damaged, or from a machine with another byte order."
        )
    tokens = _unpacked(indices, config)[:, : config.exact_k]
    return ListedText(tokens, logs, ids[1:].astype(np.int64), lambda row: f"{where}, place {row + 1}")


def _decoded(content: NDArray[np.uint8], dtype: str) -> NDArray[Any]:
    content = np.ascontiguousarray(content)
    if dtype == "bfloat16":
        return (content.view("<u2").astype(np.uint32) << 16).view(np.float32)
    return content.view({"float16": "<f2", "float32": "<f4", "float64": "<f8"}[dtype]).astype(np.float64)


def _unpacked(content: NDArray[np.uint8], config: Config) -> NDArray[np.int64]:
    """Return the tokens of bytes (n, bytes): numbers of ``index_bits`` bits, the most significant first."""
    bits = np.unpackbits(np.ascontiguousarray(content), axis=1)[:, : config.k * config.index_bits]
    bits = bits[:, : config.exact_k * config.index_bits].reshape(len(content), config.exact_k, config.index_bits)
    weights = 1 << np.arange(config.index_bits - 1, -1, -1, dtype=np.int64)
    return np.asarray(bits @ weights, np.int64)
