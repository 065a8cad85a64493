"""The truncated message of cu-hlm: k(b + ⌈log₂V⌉) bits for a row, and ⌈log₂V⌉ + 64 for the token and its probability.

The k values are rounded down, but not the token's own probability. The certificate in :mod:`hlmtheory.truncation`
(claim ``truncation.message``) assumes this.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from hlmtheory._array import brief
from hlmtheory._domains import DomainError
from hlmtheory.codec.frame import MalformedError, MessageError, Reader, varint
from hlmtheory.codec.messages import (
    LARGEST_VOCABULARY,
    LONGEST_BATCH,
    MOST_BITS,
    MOST_DECODED,
    Integers,
    LatticeDraft,
    LatticeMessage,
    TruncatedDraft,
    TruncatedMessage,
)
from hlmtheory.codec.mixed import MixedMessage, mixed_row
from hlmtheory.truncation.levels import completed, values_of

_WHOLE = np.dtype(">f8")


def encode_truncated(message: TruncatedMessage) -> bytes:
    """Return the body of a truncated message: header, sizes, tokens, levels, and the drawn tokens' probabilities."""
    drafts = message.drafts
    tokens = np.concatenate([np.append(draft.indices, draft.token) for draft in drafts])
    levels = np.concatenate([draft.levels for draft in drafts])
    own = np.asarray([draft.probability for draft in drafts], dtype=_WHOLE)
    head = varint(message.vocabulary) + bytes((message.bits,)) + varint(len(drafts))
    head += b"".join(varint(draft.indices.size) for draft in drafts)
    fields = np.concatenate([_bits_of(tokens, _width(message.vocabulary)), _bits_of(levels, message.bits)])
    return head + np.packbits(fields).tobytes() + own.tobytes()


def decode_truncated(body: bytes) -> TruncatedMessage:
    """Return the batch of a body that :func:`encode_truncated` made."""
    reader = Reader(body)
    vocabulary = reader.varint("the vocabulary", 2, LARGEST_VOCABULARY)
    bits = reader.varint("the bits of a probability", 1, MOST_BITS)
    count = reader.varint("the number of drafts", 1, LONGEST_BATCH)
    sizes = [reader.varint("a size", 0, vocabulary) for _ in range(count)]
    width, sent = _width(vocabulary), sum(sizes)
    border, end = (sent + count) * width, (sent + count) * width + sent * bits
    data = reader.rest()
    packed = -(-end // 8)
    if len(data) != packed + count * _WHOLE.itemsize:
        raise MalformedError(f"{sent} entries and {count} tokens do not take {len(data)} bytes; no encoder writes that")
    unpacked = np.unpackbits(np.frombuffer(data[:packed], dtype=np.uint8))
    if np.any(unpacked[end:]):
        raise MalformedError("the padding is not zero; no encoder writes that")
    tokens, levels = _numbers(unpacked[:border], width), _numbers(unpacked[border:end], bits)
    own = np.frombuffer(data[packed:], dtype=_WHOLE).tolist()
    drafts, start = [], 0
    for place, (size, probability) in enumerate(zip(sizes, own, strict=True)):
        kept = tokens[start + place :][: size + 1]  # the drawn token follows each row's
        drafts.append(TruncatedDraft(kept[:-1], levels[start : start + size], int(kept[-1]), probability))
        start += size
    return TruncatedMessage(vocabulary, bits, tuple(drafts))


def decoded_rows(message: LatticeMessage | TruncatedMessage | MixedMessage) -> NDArray[np.float64]:
    """Return the distributions q̂ that the server decodes from a message.

    Those of a truncated message equal :func:`hlmtheory.truncation.decoded_draft` with the draft token d. The remaining
    mass is spread evenly over the tokens that were not sent; if all were sent, it is spread over all tokens except d.
    The rows of a lattice message are its counts over their sum. A mixed message has rows of both kinds.

    Parameters
    ----------
    message : LatticeMessage, TruncatedMessage or MixedMessage
        L V must be at most 2^26, since the result takes 8 L V bytes, even for a short message.

    Returns
    -------
    float64 array, shape (L, V)
        Distributions over the vocabulary.

    Raises
    ------
    ValueError
        If L V exceeds 2^26, or the message has no rows, as one of tokens alone.

    Examples
    --------
    >>> from hlmtheory.codec import decode, encode, truncated_message
    >>> message = truncated_message([0.5, 0.25, 0.125, 0.125], k=2, token=2, bits=1)
    >>> decoded_rows(decode(encode(message))).tolist()
    [[0.0, 0.0, 0.125, 0.875]]
    """
    made: Iterator[NDArray[np.float64]]  # one row at a time, so that masks and sums need little memory
    if isinstance(message, TruncatedMessage):
        made = (_decoded_row(draft, message.vocabulary, message.bits) for draft in message.drafts)
    elif isinstance(message, LatticeMessage):
        made = (_lattice_row(draft, message.vocabulary) for draft in message.drafts)
    elif isinstance(message, MixedMessage):
        made = (mixed_row(draft, message.vocabulary) for draft in message.drafts)
    else:
        raise DomainError(f"message must be a lattice, truncated or mixed one; got {brief(message)}; decode its bytes")
    _refuse_too_large(message)
    rows = np.empty((len(message.drafts), message.vocabulary))
    for row, found in zip(rows, made, strict=True):
        row[:] = found
    return rows


def _refuse_too_large(message: LatticeMessage | TruncatedMessage | MixedMessage) -> None:
    drafts, vocabulary = len(message.drafts), message.vocabulary
    if drafts * vocabulary > MOST_DECODED:
        of = f"{type(message).__name__}(vocabulary, {'bits, ' * isinstance(message, TruncatedMessage)}"
        raise MessageError(
            f"message must hold at most {MOST_DECODED:,} probabilities, drafts times V; got {drafts} drafts of V = "
            f"{vocabulary}; decode fewer at a time, as {of}drafts[:{MOST_DECODED // vocabulary}])"
        )


def _lattice_row(draft: LatticeDraft, vocabulary: int) -> NDArray[np.float64]:
    row = np.zeros(vocabulary)
    row[draft.support] = draft.counts / draft.counts.sum()
    return row


def _decoded_row(draft: TruncatedDraft, vocabulary: int, bits: int) -> NDArray[np.float64]:
    value = np.zeros(vocabulary)
    value[draft.indices] = values_of(draft.levels, bits)
    value[draft.token] = draft.probability
    sent = np.zeros(vocabulary, dtype=np.bool_)
    sent[draft.indices] = sent[draft.token] = True
    return completed(value, sent, np.arange(vocabulary) != draft.token)


def _width(vocabulary: int) -> int:
    """Return ⌈log₂V⌉."""
    return (vocabulary - 1).bit_length()


def _bits_of(values: Integers, width: int) -> NDArray[np.uint8]:
    return ((values[:, None] >> np.arange(width - 1, -1, -1)) & 1).astype(np.uint8).ravel()


def _numbers(bits: NDArray[np.uint8], width: int) -> Integers:
    return bits.reshape(-1, width).astype(np.int64) @ (1 << np.arange(width - 1, -1, -1, dtype=np.int64))
