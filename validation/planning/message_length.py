"""The length of a device's messages along a text: as many bytes as ``DevicePolicy.message`` makes.

Codec 0 sends q_d and the token of each draft; the last one, a shared seed, the token alone; the others a quantised row,
whose message keeps only tokens with a count, so that its size changes from draft to draft.
"""

from typing import Any

import numpy as np

from hlmtheory.codec.mixed import message_bytes
from hlmtheory.lattice import payload_bits
from validation.arrays import Array
from validation.planning.positions import LATTICES, Lattice

NO_ROW_BITS = 4  # A row of no probabilities: its kind, no size, and a width
_FRAME = 6  # bytes: version, kind, checksum
_ROUNDING = 1e-7  # of a sum of logarithms


def message_bits(sizes: Array, length: Array, most: int, vocabulary: int) -> Array:
    steps = len(sizes)
    drafts = np.clip(length - np.arange(steps)[:, None], 0, most)
    messages = np.zeros(sizes.shape)
    plain = [0, *(message_bytes(vocabulary, np.full(n, NO_ROW_BITS)) for n in range(1, most + 1))]
    messages[:, 0] = 8.0 * np.array(plain)[drafts]
    messages[:, -1] = 8.0 * np.array([0, *(token_bytes(vocabulary, n) for n in range(1, most + 1))])[drafts]
    for codec, lattice in enumerate(LATTICES, 1):
        size = np.maximum(sizes[:, codec], 1).astype(np.int64)
        each, place = np.unique(size, return_inverse=True)
        known = np.asarray(payload_bits(vocabulary, each, lattice.resolution)) + np.log2(each)
        bits = np.concatenate([np.zeros((1, len(length))), np.cumsum(known[place].reshape(size.shape), axis=0)])
        ends = np.minimum(np.arange(steps)[:, None] + drafts, steps)
        total = np.take_along_axis(bits, ends, axis=0) - bits[:-1]
        vary = _vary(size, drafts, most)
        total += np.where(vary, drafts * np.log2(vocabulary), 0.0)
        body = _varint(vocabulary) + 2 + _varint(lattice.resolution) + np.where(vary, 0, _varint(size))
        bare = _FRAME + body + np.ceil((np.ceil(total - _ROUNDING)) / 8.0)
        messages[:, codec] = np.where(drafts > 0, 8.0 * (bare + np.where(bare + 1 < 128, 1, 2)), 0.0)
    return messages


def longest_bytes(codec: int, drafts: int, vocabulary: int) -> int:
    """Return bytes that no message of so many drafts exceeds: of a lattice's number, or for the last codec tokens."""
    if codec > len(LATTICES):
        return token_bytes(vocabulary, drafts)
    lattice = LATTICES[codec - 1]
    each = np.arange(1, most_counts(lattice, vocabulary) + 1)
    row = float(np.max(np.asarray(payload_bits(vocabulary, each, lattice.resolution)) + np.log2(each)))
    total = drafts * row + (drafts * np.log2(vocabulary) if drafts > 1 else 0.0)
    body = _varint(vocabulary) + 2 + _varint(lattice.resolution) + _varint(len(each))
    bare = _FRAME + body + int(np.ceil(total / 8.0))
    return int(bare + (1 if bare + 1 < 128 else 2))


def most_counts(lattice: Lattice, vocabulary: int) -> int:
    """Return how many tokens of a quantised row may have a count."""
    most = lattice.resolution if lattice.k is None else min(lattice.k, lattice.resolution)
    if lattice.threshold:
        most = min(most, int(1.0 / lattice.threshold + _ROUNDING))
    return min(most, vocabulary)


def token_bytes(vocabulary: int, drafts: int) -> int:
    """Return the bytes of a message of tokens alone: its frame, V, their number, and ⌈log₂ V⌉ bits each."""
    bare = _FRAME + _varint(vocabulary) + _varint(drafts) - (-drafts * (vocabulary - 1).bit_length() // 8)
    return int(bare + (1 if bare + 1 < 128 else 2))


def _vary(size: Array, drafts: Array, most: int) -> Array:
    varies = np.zeros(size.shape, dtype=bool)
    for j in range(1, most):
        shifted = np.concatenate([size[j:], size[:j]]) if j < len(size) else size
        varies |= (j < drafts) & (shifted != size)
    return varies


def _varint(value: Any) -> Any:
    return 1 + (np.asarray(value) >= 128) + (np.asarray(value) >= 128**2)
