"""Messages to bytes and back: the frame, and the coder of each kind.

Truncated rows (cu-hlm (4)) take k(b + ⌈log₂V⌉) bits each, and ⌈log₂V⌉ + 64 for the token and its exact probability.
Mixed rows are written bit by bit, in the formats of :mod:`hlmtheory.codec.menu`, each with its token, and q_d if the
server accepts by it. Tokens alone take ⌈log₂ V⌉ bits each. Quantised rows: :mod:`hlmtheory.codec.enumerative`.
"""

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from hlmtheory._array import brief
from hlmtheory._combinatorics import about_log2, lattice_points
from hlmtheory._domains import DomainError, instance
from hlmtheory.codec import enumerative, frame, messages
from hlmtheory.codec.menu import KIND_BITS, LONGEST_NUMBER, PROBABILITY_BITS, number_bits, steps_of_row
from hlmtheory.lattice.arithmetic import LARGEST_RESOLUTION

_DOUBLE = np.dtype(">f8")


def encode(message: messages.Message) -> bytes:
    """The bytes of a batch of drafts.

    Parameters
    ----------
    message : LatticeMessage, TruncatedMessage, MixedMessage or TokenMessage

    Returns
    -------
    bytes
        A lattice message is within one bit of c-sqs (1) and the tokens.

    Raises
    ------
    MessageError
        If the batch is too long for the coder.

    Examples
    --------
    >>> from hlmtheory.codec.messages import LatticeDraft, LatticeMessage
    >>> message = LatticeMessage(4, (LatticeDraft([0, 2], [6, 4], token=2),))
    >>> encode(message).hex(" ")
    '01 00 0d 04 01 03 02 0a 67 0e 5c 6d 7a'
    >>> decode(encode(message)) == message
    True
    """
    if isinstance(message, messages.TruncatedMessage):
        return frame.framed(frame.TRUNCATED_ROWS, _encode_truncated(message))
    if isinstance(message, messages.MixedMessage):
        return frame.framed(frame.MIXED_ROWS, _encode_mixed(message))
    if isinstance(message, messages.TokenMessage):
        return frame.framed(frame.TOKENS, _encode_tokens(message))
    return frame.framed(
        frame.LATTICE_ROWS, enumerative.encode_lattice(instance("message", message, messages.LatticeMessage))
    )


def decode(data: bytes) -> messages.Message:
    """The message in these bytes, or an error that says what is wrong with them.

    A message has one form in bytes: encoding the answer gives the same bytes.

    Parameters
    ----------
    data : bytes

    Returns
    -------
    LatticeMessage, TruncatedMessage, MixedMessage or TokenMessage

    Raises
    ------
    TruncatedError, ExtendedError, VersionError, ChecksumError, MalformedError
        If the bytes were cut, extended or damaged, have another version, or are not the output of an encoder.

    Examples
    --------
    >>> from hlmtheory.wire import TruncatedError
    >>> try:
    ...     decode(bytes.fromhex("01 00 0d 04"))
    ... except TruncatedError as error:
    ...     print(error)
    4 of 13 bytes; the message was cut
    """
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"data must be bytes; got {brief(data)}; give what encode returned")
    return decoded(bytes(data), None)


def decoded(data: bytes, limits: frame.Limits | None) -> messages.Message:
    """The message in these bytes, if it is within the limits; they exclude truncated rows."""
    if limits is not None:
        limits.check_length(len(data))
    kind, body = frame.unframed(data)
    if limits is not None:
        limits.check_kind(kind)
    if kind not in _DECODERS:
        raise frame.MalformedError(f"there is no kind {kind} of message; no encoder writes that")
    try:
        message = _DECODERS[kind](body, limits)
        again = encode(message)
    except (
        DomainError,
        frame.MessageError,
        frame.TruncatedError,
    ) as error:  # the check is right, but the body is not a message
        raise frame.MalformedError(f"{error}; no encoder writes that") from error
    if again != data:
        raise frame.MalformedError("the message has other bytes when it is encoded again; no encoder writes that")
    return message


def _width(vocabulary: int) -> int:
    """⌈log₂V⌉."""
    return (vocabulary - 1).bit_length()


def _encode_tokens(message: messages.TokenMessage) -> bytes:
    tokens = np.array([draft.token for draft in message.drafts], dtype=np.int64)
    head = frame.varint(message.vocabulary) + frame.varint(len(message.drafts))
    return head + np.packbits(frame.columns(tokens, _width(message.vocabulary))).tobytes()


def _decode_tokens(body: bytes, limits: frame.Limits | None) -> messages.TokenMessage:
    reader = frame.Reader(body)
    vocabulary, count = _head(reader, limits)
    data, width = reader.rest(), _width(vocabulary)
    if len(data) != -(-count * width // 8):
        raise frame.MalformedError(f"{count} tokens do not take {len(data)} bytes; no encoder writes that")
    tokens = frame.BitReader(data).columns(count, width)
    return messages.TokenMessage(vocabulary, tuple(messages.TokenDraft(token) for token in tokens.tolist()))


def _head(reader: frame.Reader, limits: frame.Limits | None) -> tuple[int, int]:
    vocabulary = reader.varint("the vocabulary", 2, messages.LARGEST_VOCABULARY)
    count = reader.varint("the number of drafts", 1, messages.LONGEST_BATCH)
    if limits is not None:
        limits.check_head(vocabulary, count)
    return vocabulary, count


def _encode_truncated(message: messages.TruncatedMessage) -> bytes:
    """Header, sizes, tokens, levels, and the drawn tokens' probabilities."""
    drafts = message.drafts
    tokens = np.concatenate([np.append(draft.support, draft.token) for draft in drafts])
    levels = np.concatenate([draft.values for draft in drafts])
    own = np.asarray([draft.probability for draft in drafts], dtype=_DOUBLE)
    head = frame.varint(message.vocabulary) + bytes((message.bits,)) + frame.varint(len(drafts))
    head += b"".join(frame.varint(draft.support.size) for draft in drafts)
    fields = np.concatenate([frame.columns(tokens, _width(message.vocabulary)), frame.columns(levels, message.bits)])
    return head + np.packbits(fields).tobytes() + own.tobytes()


def _decode_truncated(body: bytes, limits: frame.Limits | None) -> messages.TruncatedMessage:
    reader = frame.Reader(body)
    vocabulary = reader.varint("the vocabulary", 2, messages.LARGEST_VOCABULARY)
    bits = reader.varint("the bits of a probability", 1, messages.MOST_BITS)
    count = reader.varint("the number of drafts", 1, messages.LONGEST_BATCH)
    sizes = [reader.varint("a size", 0, vocabulary) for _ in range(count)]
    width, sent = _width(vocabulary), sum(sizes)
    data = reader.rest()
    packed = -(-((sent + count) * width + sent * bits) // 8)
    if len(data) != packed + count * _DOUBLE.itemsize:
        raise frame.MalformedError(
            f"{sent} entries and {count} tokens do not take {len(data)} bytes; no encoder writes that"
        )
    fields = frame.BitReader(data[:packed])
    tokens, levels = fields.columns(sent + count, width), fields.columns(sent, bits)
    own = np.frombuffer(data[packed:], dtype=_DOUBLE).tolist()
    drafts, start = [], 0
    for place, (size, probability) in enumerate(zip(sizes, own, strict=True)):
        kept = tokens[start + place :][: size + 1]  # the drawn token follows each row's
        part = levels[start : start + size]
        drafts.append(messages.MixedDraft(messages.TOP_K, kept[:-1], part, None, bits, int(kept[-1]), probability))
        start += size
    return messages.TruncatedMessage(vocabulary, tuple(drafts))


def _encode_mixed(message: messages.MixedMessage) -> bytes:
    """Vocabulary, number of drafts, whether q_d is sent, then the drafts bit by bit."""
    known = message.drafts[0].probability is not None
    head = frame.varint(message.vocabulary) + frame.varint(len(message.drafts)) + bytes((known,))
    lattices = [draft for draft in message.drafts if draft.kind != messages.TOP_K]
    effort = sum(steps_of_row(message.vocabulary, d.support.size, d.counts.size, d.resolution) for d in lattices)
    if effort > enumerative.MOST_STEPS:
        raise frame.MessageError("the batch takes too long to decode; send fewer drafts at a time")
    parts = [part for draft in message.drafts for part in _fields(draft, message.vocabulary)]
    body = head + np.packbits(np.concatenate(parts)).tobytes()
    enumerative.refuse_too_many(sum(draft.support.size for draft in message.drafts), len(body), frame.MessageError)
    return body


def _fields(draft: messages.MixedDraft, vocabulary: int) -> list[frame.Bits]:
    """The bits of one draft: its row, its token, its probability."""
    width = _width(vocabulary)
    parts = [frame.fixed(messages.KINDS.index(draft.kind), KIND_BITS)]
    if draft.kind == messages.TOP_K:
        parts += [frame.gamma(draft.support.size + 1), frame.gamma(draft.bits), frame.columns(draft.support, width)]
        parts.append(frame.columns(draft.values, draft.bits))
    else:
        parts += [frame.gamma(draft.support.size), frame.gamma(draft.resolution), _number(draft, vocabulary)]
    parts.append(frame.fixed(draft.token, width))
    if draft.probability is not None:
        own = np.asarray(draft.probability, dtype=_DOUBLE).tobytes()
        parts.append(np.unpackbits(np.frombuffer(own, dtype=np.uint8)))
    return parts


def _number(draft: messages.MixedDraft, vocabulary: int) -> frame.Bits:
    """Support and counts as one number."""
    length = number_bits(vocabulary, draft.support.size, draft.counts.size, draft.resolution)
    if length > LONGEST_NUMBER:
        raise frame.MessageError(
            f"a row takes a number of {length} bits of {LONGEST_NUMBER} at most; send fewer tokens"
        )
    supports = math.comb(vocabulary, draft.support.size)
    return frame.fixed(
        enumerative.rank(draft.support) + supports * enumerative.rank_counts(draft.counts, draft.resolution), length
    )


def _decode_mixed(body: bytes, limits: frame.Limits | None) -> messages.MixedMessage:
    reader = frame.Reader(body)
    vocabulary, count = _head(reader, limits)
    known = bool(reader.varint("the flag", 0, 1))
    bits = frame.BitReader(reader.rest())
    entries, effort, drafts = 0, 0, []
    for place in range(count):
        number = bits.fixed(KIND_BITS)
        if number >= len(messages.KINDS):
            raise frame.MalformedError(f"there is no kind {number} of row; no encoder writes that")
        kind = messages.KINDS[number]
        size = bits.gamma("a size", vocabulary + 1) - int(kind == messages.TOP_K)
        entries += size
        enumerative.refuse_too_many(entries, len(body), frame.MalformedError)
        expect = None if limits is None else partial(limits.row, place, kind, size)
        support, values, rest, width, more = _row(bits, kind, size, vocabulary, effort, expect)
        effort += more
        token = bits.fixed(_width(vocabulary))
        own = bits.fixed(PROBABILITY_BITS).to_bytes(8, "big") if known else None
        probability = None if own is None else float(np.frombuffer(own, dtype=_DOUBLE)[0])
        drafts.append(messages.MixedDraft(kind, support, values, rest, width, token, probability))
    if bits.left >= 8:
        raise frame.MalformedError("there are bytes after the last draft; no encoder writes that")
    return messages.MixedMessage(vocabulary, tuple(drafts))


def _row(
    bits: frame.BitReader, kind: str, size: int, vocabulary: int, effort: int, expect: Callable[[int], None] | None
) -> tuple[messages.Integers, messages.Integers, int | None, int, int]:
    """Support, values, rest, b and effort of one row; ``expect`` refuses a b or ℓ before the rest is read."""
    if kind == messages.TOP_K:
        width = bits.gamma("the bits of a level", messages.MOST_BITS)
        if expect is not None:
            expect(width)
        support = bits.columns(size, _width(vocabulary))
        return support, bits.columns(size, width), None, width, 0
    if size > vocabulary or (kind == messages.MIXTURE and size == vocabulary):
        raise frame.MalformedError(f"a support has {size} tokens of {vocabulary}; no encoder writes that")
    resolution, cells = bits.gamma("a resolution", LARGEST_RESOLUTION), size + int(kind == messages.MIXTURE)
    if expect is not None:
        expect(resolution)
    # refuse before making a number longer than the bits
    about = about_log2(vocabulary, size) + about_log2(resolution + cells - 1, cells - 1)
    if about > min(bits.left, LONGEST_NUMBER) + 1:
        raise frame.MalformedError("a row takes more bits than there are; no encoder writes that")
    more = steps_of_row(vocabulary, size, cells, resolution)
    if effort + more > enumerative.MOST_STEPS:
        raise frame.MalformedError("the drafts take too long to decode; no encoder writes that")
    index = bits.fixed(number_bits(vocabulary, size, cells, resolution))
    index, place = divmod(index, math.comb(vocabulary, size))
    if index >= lattice_points(cells, resolution):
        raise frame.MalformedError("a number is not that of a row; no encoder writes that")
    counts = enumerative.unrank_counts(index, cells, resolution)
    rest = int(counts[-1]) if kind == messages.MIXTURE else None
    return enumerative.unrank(place, size, vocabulary), counts[:size], rest, 0, more


_DECODERS: dict[int, Callable[[bytes, frame.Limits | None], messages.Message]] = {
    frame.LATTICE_ROWS: enumerative.decode_lattice,
    frame.TRUNCATED_ROWS: _decode_truncated,
    frame.MIXED_ROWS: _decode_mixed,
    frame.TOKENS: _decode_tokens,
}
