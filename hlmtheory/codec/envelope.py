"""The envelope of a message: which round it is of, under which policy and in which session, and proof of both.

========= ======= ======================================================================
bytes     field   what
========= ======= ======================================================================
1 to 5    round   from 0 on, LEB128
4         mark    of the policy, the session and the direction, first bytes of SHA-256
n         body    a message, or the answer to one
4 or 16   seal    CRC-32; with a key HMAC-SHA-256, its first 16 bytes
========= ======= ======================================================================

The seal is over the direction, the whole SHA-256 of policy and session, and all bytes before it. A CRC-32 finds damage,
but anyone can compute it; only the HMAC keeps out a message that somebody else wrote. 16 bytes are half of the digest,
as RFC 2104 (section 5) asks at least.
"""

from __future__ import annotations

import hashlib
import hmac
import zlib
from dataclasses import dataclass

from hlmtheory.codec.frame import ChecksumError, CodecError, ExtendedError, Reader, TruncatedError, varint

UP, DOWN = b"up", b"dn"
"""The directions of a message and of its answer."""

MARK, CHECK, HMAC = 4, 4, 16
"""Bytes of the fields."""

MOST_ROUNDS = 2**32
_VERSION = b"hlm-envelope-1"


class ForeignError(CodecError):
    """The message is of another policy, session or direction."""


class AuthenticationError(CodecError):
    """The HMAC is wrong: the message was changed, or its sender does not have the key."""


class ReplayedError(CodecError):
    """The message is of a round that is over."""


class OutOfOrderError(CodecError):
    """The message is of a round that has not begun: an earlier one was lost or overtaken."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """What the two sides of a session share: SHA-256 of policy, session and whether there is a key, and the key."""

    context: bytes
    key: bytes | None

    @classmethod
    def of(cls, policy: str, session: bytes, key: bytes | None) -> Envelope:
        """Return the envelope of a policy's text in one session."""
        kind = b"crc" if key is None else b"mac"
        head = _VERSION + kind + bytes((len(session),)) + session
        return cls(hashlib.sha256(head + policy.encode()).digest(), key)

    def seal(self, body: bytes, *, direction: bytes, place: int) -> bytes:
        """Return the sealed bytes of round ``place``."""
        data = varint(place) + self._mark(direction) + body
        return data + self._seal(direction, data)

    def unseal(self, data: bytes, *, direction: bytes, place: int, longest: int) -> bytes:
        """Return the body, of ``longest`` bytes at most, if the bytes are those of round ``place``."""
        # Step 1: the first bytes say whether the message is meant for this side
        found = Reader(data[: len(varint(MOST_ROUNDS))]).varint("the round", 0, MOST_ROUNDS)
        head = len(varint(found)) + MARK
        if len(data) < head:
            raise TruncatedError(f"{len(data)} bytes are fewer than an envelope has; the message was cut")
        if not hmac.compare_digest(data[head - MARK : head], self._mark(direction)):
            raise ForeignError(
                "the message is of another policy, session or direction; give both sides one policy.json, session and "
                "key, and answer messages alone"
            )
        # Step 2: the length, then the seal
        size = CHECK if self.key is None else HMAC
        if len(data) > (most := head + longest + size):
            raise ExtendedError(f"{len(data):,} bytes, and at most {most:,} are expected; something was appended")
        if len(data) < head + size:
            raise TruncatedError(f"{len(data)} bytes are fewer than an envelope has; the message was cut")
        if not hmac.compare_digest(data[-size:], self._seal(direction, data[:-size])):
            if self.key is None:
                raise ChecksumError("the checksum does not fit; ask for the message again")
            raise AuthenticationError("the HMAC does not fit; the message was changed, or its sender has another key")
        # Step 3: the round
        if found < place:
            raise ReplayedError(f"the message is of round {found}, and round {place} is expected; leave it out")
        if found > place:
            raise OutOfOrderError(
                f"the message is of round {found}, and round {place} is expected; deliver messages in order"
            )
        return data[head:-size]

    def _mark(self, direction: bytes) -> bytes:
        return hashlib.sha256(direction + self.context).digest()[:MARK]

    def _seal(self, direction: bytes, data: bytes) -> bytes:
        whole = direction + self.context + data
        if self.key is None:
            return zlib.crc32(whole).to_bytes(CHECK, "big")
        return hmac.new(self.key, whole, hashlib.sha256).digest()[:HMAC]
