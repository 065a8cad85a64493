"""Drafts as bytes, in a checked frame: quantised rows, truncated rows, a codec for each row, or tokens alone.

Papers: c-sqs (bhattacharjee2025csqs) (1)-(5), which counts the bits that are sent here; cu-hlm (oh2025cuhlm) (4) and
Section IV-B for truncated rows.

========== =============================================== ========= ===========
symbol     name                                            unit      shape
========== =============================================== ========= ===========
b          ``counts``, units of a quantised row            1         (..., V)
X          ``support``, which tokens are kept              bool      (..., V)
d          ``token``, the draft token                      index     (...)
========== =============================================== ========= ===========

The two sides share only this format: a message holds its vocabulary, sizes and resolutions. Each kind of damage raises
its own subclass of :class:`hlmtheory.wire.CodecError`. A message has one form in bytes, and any other is refused.
Decoding takes at most about 1 KiB of memory for each byte, and about a second for an enumerated batch; both sides
refuse a batch that would take longer. The rows of a truncated message take 8 bytes for each draft and token; more than
half a gigabyte at once is refused.
"""

from hlmtheory.codec.coding import decode, encode
from hlmtheory.codec.menu import CodecMenu
from hlmtheory.codec.messages import truncated_message
from hlmtheory.codec.mixed import coded_message, decoded_rows
from hlmtheory.codec.selection import cheapest_codec
from hlmtheory.codec.text_budget import optimal_codecs

__all__ = [
    "CodecMenu",
    "cheapest_codec",
    "coded_message",
    "decode",
    "decoded_rows",
    "encode",
    "optimal_codecs",
    "truncated_message",
]
