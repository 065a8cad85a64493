"""Whole numbers as bits, the highest first: in a fixed width, or in Elias's gamma code."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hlmtheory.codec.frame import MalformedError

Bits = NDArray[np.uint8]
Integers = NDArray[np.int64]


def fixed(value: int, width: int) -> Bits:
    """A whole number in ``width`` bits, the highest first."""
    data = np.frombuffer(value.to_bytes(-(-width // 8), "big"), dtype=np.uint8)
    return np.unpackbits(data)[data.size * 8 - width :]


def gamma(value: int) -> Bits:
    """Elias's gamma code of a number from 1 on: as many zeros as follow its highest bit, then the number."""
    return fixed(value, 2 * value.bit_length() - 1)


def columns(values: Integers, width: int) -> Bits:
    """Whole numbers in ``width`` bits each."""
    return ((values[:, None] >> np.arange(width - 1, -1, -1)) & 1).astype(np.uint8).ravel()


class BitReader:
    """Reads numbers from the front of bits."""

    def __init__(self, data: bytes) -> None:
        self._bits, self._place = np.unpackbits(np.frombuffer(data, dtype=np.uint8)), 0

    @property
    def left(self) -> int:
        """How many bits there are still."""
        return self._bits.size - self._place

    def take(self, count: int) -> Bits:
        """The next bits."""
        if count > self.left:
            raise MalformedError("the bits end within a draft; no encoder writes that")
        self._place += count
        return self._bits[self._place - count : self._place]

    def fixed(self, width: int) -> int:
        """A whole number in ``width`` bits."""
        found = self.take(width)
        return int.from_bytes(np.packbits(np.concatenate([np.zeros(-width % 8, dtype=np.uint8), found])), "big")

    def columns(self, count: int, width: int) -> Integers:
        """``count`` whole numbers in ``width`` bits each."""
        found = self.take(count * width).reshape(count, width).astype(np.int64)
        return np.asarray(found @ (1 << np.arange(width - 1, -1, -1, dtype=np.int64)))

    def gamma(self, name: str, most: int) -> int:
        """A number of Elias's gamma code, 1 to ``most``."""
        ahead = self._bits[self._place : self._place + most.bit_length()]
        if not ahead.any():
            raise MalformedError(f"{name} is more than {most}; no encoder writes that")
        found = self.fixed(2 * int(np.argmax(ahead)) + 1)
        if found > most:
            raise MalformedError(f"{name} is {found}, more than {most}; no encoder writes that")
        return found
