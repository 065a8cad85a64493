"""The frame of an encoded message: version, kind, length, checksum; whole numbers in bytes; and the named refusals.

========= ======= ======================================================================
bytes     field   what
========= ======= ======================================================================
1         version 1
1         kind    0 lattice rows; 2 truncated rows; 3 a codec for each row; 4 tokens alone
1 to 5    length  of the whole message in bytes, LEB128
n         body    by kind
4         check   CRC-32 of everything before, big-endian
========= ======= ======================================================================

The length makes sure that a cut or extended message is refused. The checksum finds every single flipped bit, and every
burst of up to 32.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.uint8]
Integers = NDArray[np.int64]

VERSION = 1
LATTICE_ROWS, TRUNCATED_ROWS, MIXED_ROWS, TOKENS = 0, 2, 3, 4
"""The kinds of a message."""

LONGEST_MESSAGE = 2**24
"""In bytes; a batch of drafts takes a few hundred bytes."""

_CHECK = 4


class CodecError(ValueError):
    """Bytes that are not a message, or a message that cannot be encoded; the subclass says why."""


class TruncatedError(CodecError):
    """The bytes end before the message does."""


class ExtendedError(CodecError):
    """There are bytes after the end of the message."""


class VersionError(CodecError):
    """The version byte is not that of this decoder."""


class ChecksumError(CodecError):
    """The checksum is wrong: a bit was flipped in transmission."""


class MalformedError(CodecError):
    """The frame is intact, but no encoder writes such a body."""


class UnexpectedError(CodecError):
    """The frame is intact, but the receiver expects another kind, vocabulary, length or resolution."""


class MessageError(CodecError):
    """A message that the format cannot hold."""


def varint(value: int) -> bytes:
    """A whole number in groups of 7 bits, the lowest first (LEB128)."""
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


class Reader:
    """Reads bytes from the front; refuses to read past the end, and numbers in more bytes than needed."""

    def __init__(self, data: bytes) -> None:
        self._data, self._place = data, 0

    def varint(self, name: str, least: int, most: int) -> int:
        """A whole number in least..most, written in as few bytes as possible."""
        value = shift = 0
        while True:
            if self._place == len(self._data):
                raise TruncatedError(f"the bytes end within {name}; the message was cut")
            byte = self._data[self._place]
            self._place += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
            if shift > 35:
                raise MalformedError(f"{name} takes more than 5 bytes; no encoder writes that")
        if (byte == 0 and shift > 7) or not least <= value <= most:
            raise MalformedError(f"{name} is {value}, not a plain number in {least}..{most}; no encoder writes that")
        return value

    def rest(self) -> bytes:
        """The remaining bytes."""
        found = self._data[self._place :]
        self._place = len(self._data)
        return found


def frame_length(body: int) -> int:
    """The bytes of a whole message around a body of this many."""
    bare = 2 + body + _CHECK
    return next(bare + size for size in range(1, 6) if len(varint(bare + size)) == size)


def framed(kind: int, body: bytes) -> bytes:
    """The whole message around a body."""
    total = frame_length(len(body))
    if total > LONGEST_MESSAGE:
        raise MessageError(
            f"the message would take {total} bytes of {LONGEST_MESSAGE} at most; send fewer drafts at a time"
        )
    head = bytes((VERSION, kind)) + varint(total) + body
    return head + zlib.crc32(head).to_bytes(_CHECK, "big")


def unframed(data: bytes) -> tuple[int, bytes]:
    """Kind and body of a whole message."""
    if not data:
        raise TruncatedError("there are no bytes; the message was lost")
    if data[0] != VERSION:
        raise VersionError(f"the version is {data[0]}, and this decoder reads {VERSION}; update one of the two sides")
    reader = Reader(data[2 : 2 + 6])
    total = reader.varint("the length", 7, LONGEST_MESSAGE)
    if len(data) < total:
        raise TruncatedError(f"{len(data)} of {total} bytes; the message was cut")
    if len(data) > total:
        raise ExtendedError(f"{len(data)} bytes, and the message has {total}; something was appended")
    if zlib.crc32(data[:-_CHECK]) != int.from_bytes(data[-_CHECK:], "big"):
        raise ChecksumError("the checksum does not fit; ask for the message again")
    return data[1], data[2 + len(varint(total)) : -_CHECK]


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


@dataclass(frozen=True, slots=True)
class Limits:
    """The messages that one receiver expects, compared with each field before anything is decoded for it.

    ``row`` takes the place of a draft, the kind of its row, K, and b or ℓ, and raises an UnexpectedError.
    """

    kind: int  # of the frame
    vocabulary: int
    drafts: int  # the most
    longest: int  # bytes of a whole message
    row: Callable[[int, str, int, int], None]

    def check_length(self, length: int) -> None:
        """Refuse a message of more bytes than expected."""
        if length > self.longest:
            raise UnexpectedError(f"{length:,} bytes, and at most {self.longest:,} are expected")

    def check_kind(self, kind: int) -> None:
        """Refuse another kind of frame."""
        if kind != self.kind:
            raise UnexpectedError(f"kind {kind} of message, and kind {self.kind} is expected")

    def check_head(self, vocabulary: int, drafts: int) -> None:
        """Refuse another vocabulary, or too many drafts."""
        if vocabulary != self.vocabulary or drafts > self.drafts:
            raise UnexpectedError(f"{drafts} drafts over V = {vocabulary}")
