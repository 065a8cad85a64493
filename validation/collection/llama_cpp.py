"""Read a store of log-probabilities that ``llama-perplexity --kl-divergence-base FILE`` writes.

A header of 20 bytes (``_logits_``, int32 n_ctx, V, number of chunks), n_chunk x n_ctx int32 tokens, and for each
position of a chunk's second half 2 ceil(V/2) + 4 uint16: float32 step, float32 floor, V levels. A token's
log-probability is floor + step · level, rounded to the nearest level; more than 16 nats below the largest it is 0.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validation.errors import UserError

MAGIC = b"_logits_"
HEADER = 20
BLOCK_VALUES = 2**22
FLOAT32 = 2.0**-22  # rounding error of the sum of a floor and a level in float32, twice, as a share of the floor


@dataclass(frozen=True)
class Store:
    """An opened store, of which only the header has been read."""

    path: Path
    context: int  # n_ctx, V and the number of chunks
    vocabulary: int
    chunks: int

    @property
    def rows(self) -> int:
        return self.chunks * self._chunk_rows

    @property
    def _chunk_rows(self) -> int:
        return self.context - 1 - self.context // 2

    @cached_property
    def tokens(self) -> NDArray[np.int64]:
        flat = np.fromfile(self.path, np.int32, self.chunks * self.context, offset=HEADER).astype(np.int64)
        return flat.reshape(self.chunks, self.context)[:, self.context // 2 + 1 :].reshape(-1)

    @property
    def texts(self) -> NDArray[np.int64]:
        return np.repeat(np.arange(self.chunks), self._chunk_rows)

    def _packed(self, start: int, stop: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        width = _width(self.vocabulary)
        first = HEADER + 4 * self.chunks * self.context + 2 * width * start
        flat = np.fromfile(self.path, np.uint16, (stop - start) * width, offset=first)
        if len(flat) != (stop - start) * width:
            raise UserError(f"{self.path} ends within row {start + len(flat) // width}; copy it again.")
        packed = flat.reshape(-1, width)
        steps, floors = (np.ascontiguousarray(packed[:, at : at + 2]).view(np.float32)[:, 0] for at in (0, 2))
        levels = packed[:, 4 : 4 + self.vocabulary]
        with np.errstate(invalid="ignore", over="ignore"):
            top = floors + steps * levels.max(axis=1)
            good = (steps >= 0) & np.isfinite(steps) & np.isfinite(floors) & (top <= 1e-3)
        if not good.all():
            row = int(np.argmin(good))
            raise UserError(
                f"{self.path}, row {start + row}: step {steps[row]:g} and floor {floors[row]:g} cannot be those "
                "of log-probabilities; the file is damaged, or from a machine with another byte order."
            )
        return steps, floors, levels

    def log_probabilities(self, start: int, stop: int) -> NDArray[np.float32]:
        """Return rows start..stop-1, shape (stop - start, V)."""
        steps, floors, levels = self._packed(start, stop)
        rows: NDArray[np.float32] = floors[:, None] + steps[:, None] * levels.astype(np.float32)
        return rows

    def error(self) -> float:
        """Return the largest error of a stored log-probability above the floor, in nats: half a step, and float32's."""
        worst, size = 0.0, max(1, BLOCK_VALUES // self.vocabulary)
        for start in range(0, self.rows, size):
            steps, floors, _ = self._packed(start, min(start + size, self.rows))
            half = steps.astype(np.float64) / 2 + FLOAT32 * (np.abs(floors) + 1.0)
            worst = max(worst, float(half.max()))
        return worst


def _width(vocabulary: int) -> int:
    return 2 * math.ceil(vocabulary / 2) + 4


def open_store(path: Path) -> Store:
    with path.open("rb") as file:
        head = file.read(HEADER)
    if len(head) < HEADER or not head.startswith(MAGIC):
        raise UserError(f"{path} is not a store of llama-perplexity: it does not begin with {MAGIC.decode()!r}.")
    size = path.stat().st_size
    for order in ("=", "swapped"):
        kind = np.dtype(np.int32) if order == "=" else np.dtype(np.int32).newbyteorder("S")
        context, vocabulary, chunks = (int(value) for value in np.frombuffer(head, kind, 3, 8))
        rows = chunks * (context - 1 - context // 2)
        needed = HEADER + 4 * chunks * context + 2 * _width(vocabulary) * rows
        if min(context, vocabulary, chunks, rows) > 0 and needed == size:
            break
    else:
        context, vocabulary, chunks = np.frombuffer(head, np.int32, 3, 8).tolist()
        raise UserError(
            f"{path} has {size:,} bytes, which contradicts its header (n_ctx = {context}, V = {vocabulary}, "
            f"{chunks} chunks); it was cut, or is still being written."
        )
    if order == "swapped":
        raise UserError(f"{path} is from a machine with another byte order; make it again on this one.")
    return Store(path, context, vocabulary, chunks)
