"""Drafts as real bytes: quantised rows enumerated or entropy-coded, truncated rows in fields, in a frame with a check.

Papers: c-sqs (bhattacharjee2025csqs) (1)-(5), whose bits are counted there and sent here; cu-hlm (oh2025cuhlm) (4) and
Section IV-B for truncated rows.

========== =============================================== ========= ===========
symbol     name                                            unit      shape
========== =============================================== ========= ===========
b          ``counts``, units of a quantised row            1         (..., V)
X          ``support``, which tokens are kept              bool      (..., V)
d          ``token``, the drawn one                        index     (...)
========== =============================================== ========= ===========

Two sides that share this format need nothing else: a message says its vocabulary, sizes and resolutions. What is
damaged is refused by a class of its own, all of them :class:`CodecError`. A message has one form in bytes: any other is
refused. Decoding takes at most about 1 KiB of memory for each byte, and about a second for an enumerated batch: one
that would take longer is refused by both sides. The rows of a truncated message take 8 bytes for each draft and token:
more than half a gigabyte at once is refused.
"""

from __future__ import annotations

from hlmtheory.codec.claims import CLAIMS
from hlmtheory.codec.coding import decode, encode
from hlmtheory.codec.frame import (
    ChecksumError,
    CodecError,
    ExtendedError,
    MalformedError,
    MessageError,
    MissingCoderError,
    TruncatedError,
    VersionError,
)
from hlmtheory.codec.messages import (
    LatticeDraft,
    LatticeMessage,
    Message,
    TruncatedDraft,
    TruncatedMessage,
    lattice_message,
    truncated_message,
)
from hlmtheory.codec.truncated import decoded_rows

__all__ = [
    "CLAIMS",
    "ChecksumError",
    "CodecError",
    "ExtendedError",
    "LatticeDraft",
    "LatticeMessage",
    "MalformedError",
    "Message",
    "MessageError",
    "MissingCoderError",
    "TruncatedDraft",
    "TruncatedError",
    "TruncatedMessage",
    "VersionError",
    "decode",
    "decoded_rows",
    "encode",
    "lattice_message",
    "truncated_message",
]
