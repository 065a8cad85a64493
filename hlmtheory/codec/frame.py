"""The frame of an encoded message: version, kind, length, checksum; whole numbers in bytes; and the named refusals.

========= ======= ======================================================================
bytes     field   what
========= ======= ======================================================================
1         version 1
1         kind    0 lattice, enumerated; 1 lattice, entropy-coded; 2 truncated rows; 3 a codec for each row;
                  4 tokens alone
1 to 5    length  of the whole message in bytes, LEB128
n         body    by kind
4         check   CRC-32 of everything before, big-endian
========= ======= ======================================================================

The length makes sure that a cut or extended message is refused. The checksum finds every single flipped bit, and every
burst of up to 32.
"""

from __future__ import annotations

import zlib

VERSION = 1
LATTICE_ROWS, ENTROPY_ROWS, TRUNCATED_ROWS, MIXED_ROWS, TOKENS = range(5)
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


class MissingCoderError(ImportError):
    """The entropy coder's library is not installed."""


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


def framed(kind: int, body: bytes) -> bytes:
    """The whole message around a body."""
    bare = 2 + len(body) + _CHECK
    total = next(bare + size for size in range(1, 6) if len(varint(bare + size)) == size)
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
