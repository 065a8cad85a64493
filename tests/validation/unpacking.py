"""Read the integers and numbers of a message that :mod:`validation.decoding.wire` packed."""

import numpy as np


class Unpacker:
    """A reader of what :func:`pack` wrote.

    >>> from validation.decoding.wire import pack
    >>> bits = Unpacker(pack([(5, 3), (1, 7), (2, 7)]))
    >>> bits.take(3), bits.several(2, 7).tolist()
    (5, [1, 2])
    """

    def __init__(self, payload: bytes) -> None:
        self._bits = np.unpackbits(np.frombuffer(payload, dtype=np.uint8)).astype(np.int64)
        self._place = 0

    def take(self, width: int) -> int:
        return int(self.several(1, width)[0])

    def several(self, count: int, width: int) -> np.ndarray:
        end = self._place + count * width
        bits = self._bits[self._place : end].reshape(count, width)
        self._place = end
        return bits @ (1 << np.arange(width - 1, -1, -1, dtype=np.int64))


def float_of(bits: int) -> float:
    """Return the float32 number of 32 bits.

    >>> float_of(0x3F800000)
    1.0
    """
    return float(np.uint32(bits).view(np.float32))
