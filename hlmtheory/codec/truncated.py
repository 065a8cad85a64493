"""The truncated message of cu-hlm: fields of fixed width, k(b + ⌈log₂V⌉) bits a row and as many again for the token."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hlmtheory.codec.frame import MalformedError, Reader, varint
from hlmtheory.codec.messages import (
    LARGEST_VOCABULARY,
    LONGEST_BATCH,
    MOST_BITS,
    Integers,
    TruncatedDraft,
    TruncatedMessage,
)


def encode_truncated(message: TruncatedMessage) -> bytes:
    """Header, sizes, then all tokens and all levels."""
    drafts = message.drafts
    tokens = np.concatenate([np.append(draft.indices, draft.token) for draft in drafts])
    levels = np.concatenate([np.append(draft.levels, draft.level) for draft in drafts])
    head = varint(message.vocabulary) + bytes((message.bits,)) + varint(len(drafts))
    head += b"".join(varint(draft.indices.size) for draft in drafts)
    fields = np.concatenate([_bits_of(tokens, _width(message.vocabulary)), _bits_of(levels, message.bits)])
    return head + np.packbits(fields).tobytes()


def decode_truncated(body: bytes) -> TruncatedMessage:
    """The batch of a body that :func:`encode_truncated` made."""
    reader = Reader(body)
    vocabulary = reader.varint("the vocabulary", 2, LARGEST_VOCABULARY)
    bits = reader.varint("the bits of a probability", 1, MOST_BITS)
    count = reader.varint("the number of drafts", 1, LONGEST_BATCH)
    sizes = [reader.varint("a size", 0, vocabulary) for _ in range(count)]
    width, fields = _width(vocabulary), sum(sizes) + count
    data = reader.rest()
    if len(data) != -(-fields * (width + bits) // 8):
        raise MalformedError(f"{fields} fields do not take {len(data)} bytes; no encoder writes that")
    unpacked = np.unpackbits(np.frombuffer(data, dtype=np.uint8))
    if np.any(unpacked[fields * (width + bits) :]):
        raise MalformedError("the padding is not zero; no encoder writes that")
    tokens = _numbers(unpacked[: fields * width], width)
    levels = _numbers(unpacked[fields * width : fields * (width + bits)], bits)
    drafts, start = [], 0
    for size in sizes:
        last = start + size
        drafts.append(TruncatedDraft(tokens[start:last], levels[start:last], int(tokens[last]), int(levels[last])))
        start = last + 1
    return TruncatedMessage(vocabulary, bits, tuple(drafts))


def _width(vocabulary: int) -> int:
    """⌈log₂V⌉."""
    return (vocabulary - 1).bit_length()


def _bits_of(values: Integers, width: int) -> NDArray[np.uint8]:
    return ((values[:, None] >> np.arange(width - 1, -1, -1)) & 1).astype(np.uint8).ravel()


def _numbers(bits: NDArray[np.uint8], width: int) -> Integers:
    return bits.reshape(-1, width).astype(np.int64) @ (1 << np.arange(width - 1, -1, -1, dtype=np.int64))
