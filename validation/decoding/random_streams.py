"""Random numbers of a run: each depends on the seed, the prompt's id, position and purpose, not on the batch.

A position may be drafted again after a rejection. The number of drafts in flight before it selects the new number:
if the old one were used again, a method that learns from dropped drafts, as flexspec does, would leave its law.
Acceptance uses no number behind a rejected draft. Block verification does, so its numbers are selected likewise.
"""

import hashlib
import zlib
from collections.abc import Sequence

import numpy as np

from hlmtheory.shared_seed import stream_key
from validation.arrays import Array

DRAFT, ACCEPT, REPLACE, SKIP = range(4)
"""Purpose of a random number: the draft, its acceptance, the server's token, and whether verification is skipped."""
PURPOSES = 4
_TEXT, _LINK, _EXTRA, _FINE, _AHEAD, _ROUND, _BLOCK = range(7)  # streams of a prompt


class Chance:
    """Random decisions, one after the other; each takes a new number of the generator."""

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator

    def happens(self, part: float, whole: float) -> bool:
        """Return True with probability part/whole, at most 1."""
        return self._generator.random() * whole < part

    def token(self, weights: Array) -> int:
        """Draw a token with probabilities proportional to non-negative weights (V,); one of weight 0 is never drawn."""
        cumulative = np.cumsum(weights, dtype=np.float64)
        aim = min(self._generator.random() * cumulative[-1], np.nextafter(cumulative[-1], 0.0))
        return int(np.searchsorted(cumulative, aim, side="right"))


class Noise:
    """Uniform numbers in [0, 1) for the prompts of a batch, at up to ``positions`` new tokens."""

    def __init__(self, seed: int, names: Sequence[str], positions: int) -> None:
        self.seed, self.names, self.positions = seed, list(names), positions
        self._table = np.stack([self._stream(name, _TEXT).random((positions + 1, PURPOSES)) for name in self.names])
        self._links = [self._stream(name, _LINK) for name in self.names]
        self._known: dict[tuple[int, ...], Array] = {}

    def stream_keys(self) -> Array:
        """Return the key of each prompt's stream of :mod:`hlmtheory.shared_seed`, from the seed and its id, int64."""
        digests = [hashlib.blake2b(name.encode(), digest_size=8).digest() for name in self.names]
        prompts = [int.from_bytes(digest, "big") >> 1 for digest in digests]
        return np.asarray(stream_key(self.seed, np.array(prompts, dtype=np.int64)))

    def uniform(self, purpose: int, sequences: Array, positions: Array) -> Array:
        """Return a random number for each sequence (its index) at its position (0 for the first new token), float64."""
        return np.asarray(self._table[sequences, positions, purpose])

    def uniforms(self, purpose: int, sequences: Array, positions: Array, count: int) -> Array:
        """Return random numbers (n, count) for each sequence at its position; the first is :meth:`uniform`'s."""
        first = self.uniform(purpose, sequences, positions)[:, None]
        if count == 1:
            return first
        fine = self._tables(_FINE, (PURPOSES, count - 1), count)
        return np.concatenate([first, fine[sequences, positions, purpose]], axis=1)

    def drafts(self, sequences: Array, positions: Array, ahead: Array, count: int) -> Array:
        """Return random numbers (n, count) for a draft at a position with ``ahead`` (n,) drafts in flight before it."""
        numbers = self.uniforms(DRAFT, sequences, positions, count)
        for offset in set(ahead[ahead > 0].tolist()):
            some = ahead == offset
            numbers[some] = self._tables(_AHEAD, (count,), offset, count)[sequences[some], positions[some]]
        return numbers

    def blocks(self, sequence: int, position: int, count: int) -> Array:
        """Return a random number (count,) for each block of drafts of a round that begins at this position."""
        draws = self.uniform(ACCEPT, np.full(count, sequence), np.minimum(position + np.arange(count), self.positions))
        for offset in range(1, count):
            draws[offset] = self._tables(_BLOCK, (), offset)[sequence, position]
        return draws

    def link(self, sequence: int) -> np.random.Generator:
        return self._links[sequence]

    def several(self, sequences: Array, positions: Array, count: int) -> Array:
        """Return ``count`` further numbers for each sequence at its position, (count, n)."""
        return np.asarray(self._tables(_EXTRA, (count,), count)[sequences, positions].T)

    def chance(self, sequence: int, position: int) -> Chance:
        """Return the decisions of a round of a tree of drafts that begins at this position; no two rounds share any."""
        return Chance(self._stream(self.names[sequence], _ROUND, position))

    def _tables(self, purpose: int, shape: tuple[int, ...], *key: int) -> Array:
        size = (self.positions + 1, *shape)
        if (purpose, *key) not in self._known:
            each = [self._stream(name, purpose, *key).random(size) for name in self.names]
            self._known[purpose, *key] = np.stack(each)
        return self._known[purpose, *key]

    def _stream(self, name: str, purpose: int, *key: int) -> np.random.Generator:
        entropy = [self.seed, purpose, *name.encode()]
        return np.random.Generator(np.random.Philox(np.random.SeedSequence(entropy, spawn_key=key)))


_UNUSED = np.random.PCG64(0)


class Columns(np.random.Generator):
    """A generator that replays given numbers: ``random(shape)`` returns their next row."""

    def __init__(self, numbers: Array) -> None:
        super().__init__(_UNUSED)
        self._rows = iter(numbers)

    def random(self, shape: tuple[int, ...]) -> Array:  # type: ignore[override]
        return np.reshape(next(self._rows), shape)


def label(*parts: object) -> str:
    return f"{zlib.crc32(repr(parts).encode()):08x}"
