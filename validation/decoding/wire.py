"""Messages as bytes: integers of any width, one after the other, highest bit first."""

from collections.abc import Iterable

import numpy as np

from validation.arrays import Array


def index_bits(vocabulary: int) -> int:
    return (vocabulary - 1).bit_length()


def pack(fields: Iterable[tuple[int | Array, int]]) -> bytes:
    """Return integers, or arrays of them, in given widths as bytes; the last byte is padded with zeros.

    >>> import numpy as np
    >>> pack([(5, 3), (np.array([1, 2]), 7)]).hex()
    'a04100'
    """
    parts = []
    for value, width in fields:
        numbers = np.atleast_1d(np.asarray(value, dtype=np.int64))
        parts.append((numbers[:, None] >> np.arange(width - 1, -1, -1) & 1).astype(np.uint8).reshape(-1))
    return np.packbits(np.concatenate(parts)).tobytes() if parts else b""


def float_bits(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


def unpack(data: bytes, widths: Iterable[int]) -> list[int]:
    """Return the integers that :func:`pack` wrote, one for each width; bytes beyond them are not read.

    >>> unpack(bytes.fromhex("a04100"), [3, 7, 7])
    [5, 1, 2]
    """
    whole, left, numbers = int.from_bytes(data, "big"), 8 * len(data), []
    for width in widths:
        left -= width
        numbers.append(whole >> left & (1 << width) - 1)
    return numbers
