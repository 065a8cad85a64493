"""The random numbers of a run: one for each seed, prompt, position and purpose, whatever else is decoded beside it.

A position that is drafted again, since an earlier draft was rejected and the rest thrown away, is drafted by another
number: that of how far behind the kept text it lies, which falls each time. The same one would change the law of a
method that learns from what was thrown away (flexspec's K counts the drafts, and the link's rate their time): its next
K decides whether the position is drafted or replaced, and would then know the number. Whether a draft is accepted
depends on the numbers up to its own position alone; what lies behind a rejection is never looked at.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

DRAFT, ACCEPT, REPLACE, SKIP = range(4)
"""What a number decides: the draft, its acceptance, the server's own token, whether the server is asked at random."""
PURPOSES = 4
_TEXT, _LINK, _EXTRA, _FINE, _AHEAD = range(5)  # streams of a prompt

Array = NDArray[Any]


class Noise:
    """Uniform numbers in [0, 1) for the prompts of a batch.

    Parameters
    ----------
    seed : int
    names : sequence of str
        The prompts' ids; a row of numbers depends on its own id and the seed alone.
    positions : int
        New tokens of a text at most.
    """

    def __init__(self, seed: int, names: Sequence[str], positions: int) -> None:
        self.seed, self.names, self.positions = seed, list(names), positions
        self._table = np.stack([self._stream(name, _TEXT).random((positions + 1, PURPOSES)) for name in self.names])
        self._links = [self._stream(name, _LINK) for name in self.names]
        self._extra: dict[int, Array] = {}
        self._fine: dict[int, Array] = {}
        self._ahead: dict[tuple[int, int], Array] = {}

    def uniform(self, purpose: int, rows: Array, positions: Array) -> Array:
        """One number for each row (index of a prompt) at its position (0 for the first new token), float64."""
        found: Array = self._table[rows, positions, purpose]
        return found

    def uniforms(self, purpose: int, rows: Array, positions: Array, count: int) -> Array:
        """So many numbers for each row at its position, (n, count); the first is that of :meth:`uniform`."""
        first = self.uniform(purpose, rows, positions)[:, None]
        if count == 1:
            return first
        if count not in self._fine:
            self._fine[count] = self._tables(_FINE, (PURPOSES, count - 1), count)
        return np.concatenate([first, self._fine[count][rows, positions, purpose]], axis=1)

    def drafts(self, rows: Array, positions: Array, ahead: Array, count: int) -> Array:
        """So many numbers, (n, count), for a draft at a position with ``ahead`` (n,) drafts in flight before it."""
        found = self.uniforms(DRAFT, rows, positions, count)
        for offset in set(ahead[ahead > 0].tolist()):
            if (offset, count) not in self._ahead:
                self._ahead[offset, count] = self._tables(_AHEAD, (count,), offset, count)
            some = ahead == offset
            found[some] = self._ahead[offset, count][rows[some], positions[some]]
        return found

    def link(self, row: int) -> np.random.Generator:
        """The generator of a row's link, block after block."""
        return self._links[row]

    def several(self, rows: Array, positions: Array, count: int) -> Array:
        """So many further numbers for each row at its position, shape (count, n)."""
        if count not in self._extra:
            self._extra[count] = self._tables(_EXTRA, (count,), count)
        found: Array = self._extra[count][rows, positions].T
        return found

    def _tables(self, purpose: int, shape: tuple[int, ...], *key: int) -> Array:
        """A table (positions + 1, *shape) of each prompt, from a stream of that key."""
        size = (self.positions + 1, *shape)
        return np.stack([self._stream(name, purpose, *key).random(size) for name in self.names])

    def _stream(self, name: str, purpose: int, *key: int) -> np.random.Generator:
        """A counter-based generator of its own for each prompt, use and key."""
        entropy = [self.seed, purpose, *name.encode()]
        return np.random.Generator(np.random.Philox(np.random.SeedSequence(entropy, spawn_key=key)))


_UNUSED = np.random.PCG64(0)


class Columns(np.random.Generator):
    """Rows of numbers in the form that a function asks of a generator: ``random(shape)`` gives the next row."""

    def __init__(self, numbers: Array) -> None:
        super().__init__(_UNUSED)
        self._rows = iter(numbers)

    def random(self, shape: tuple[int, ...]) -> Array:  # type: ignore[override]
        """The next row, which must have that shape."""
        return np.reshape(next(self._rows), shape)


def label(*parts: object) -> str:
    """A short name for a text, to compare runs by."""
    return f"{zlib.crc32(repr(parts).encode()):08x}"
