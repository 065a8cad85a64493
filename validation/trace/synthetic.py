"""A synthetic trace of any length, generated while it is read, to measure speed and memory without model or disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from validation.trace.format import FIELDS, complete
from validation.trace.reader import TraceChunk

TEXT = 160  # positions in a synthetic sequence
SYNTHETIC = "synthetic:"  # how the address of such a trace begins


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
    def at(cls, address: str) -> SyntheticTrace:
        """Return the trace of an address."""
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
