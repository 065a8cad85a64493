"""A mixed message to bytes and back: its drafts bit by bit, in the formats of :mod:`hlmtheory.codec.menu`."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from hlmtheory._combinatorics import about_log2, lattice_points
from hlmtheory.codec.bitfields import BitReader, Bits, columns, fixed, gamma
from hlmtheory.codec.entropy_rows import entropy_fields, entropy_row
from hlmtheory.codec.enumerative import MOST_STEPS, rank_counts, refuse_too_many, unrank_counts
from hlmtheory.codec.frame import MalformedError, MessageError, Reader, varint
from hlmtheory.codec.limits import Limits
from hlmtheory.codec.menu import (
    ENTROPY,
    KIND_BITS,
    KINDS,
    LONGEST_NUMBER,
    MIXTURE,
    PROBABILITY_BITS,
    TOP_K,
    number_bits,
    steps_of_row,
)
from hlmtheory.codec.messages import LARGEST_VOCABULARY, LONGEST_BATCH, MOST_BITS, Integers
from hlmtheory.codec.mixed import MixedDraft, MixedMessage
from hlmtheory.codec.ranks import rank, unrank
from hlmtheory.lattice.arithmetic import LARGEST_RESOLUTION


def encode_mixed(message: MixedMessage) -> bytes:
    """The body of a mixed message: vocabulary, number of drafts, whether q_d is sent, then the drafts bit by bit."""
    known = message.drafts[0].probability is not None
    head = varint(message.vocabulary) + varint(len(message.drafts)) + bytes((known,))
    effort = sum(_effort(draft, message.vocabulary) for draft in message.drafts)
    if effort > MOST_STEPS:
        raise MessageError("the batch takes too long to decode; send fewer drafts at a time")
    parts = [part for draft in message.drafts for part in _fields(draft, message.vocabulary)]
    body = head + np.packbits(np.concatenate(parts)).tobytes()
    refuse_too_many(sum(draft.support.size for draft in message.drafts), len(body), MessageError)
    return body


def _effort(draft: MixedDraft, vocabulary: int) -> int:
    if draft.kind in (TOP_K, ENTROPY):
        return 0
    cells = draft.support.size + int(draft.rest is not None)
    return steps_of_row(vocabulary, draft.support.size, cells, draft.resolution)


def _fields(draft: MixedDraft, vocabulary: int) -> list[Bits]:
    """The bits of one draft: its row, its token, its probability."""
    width = (vocabulary - 1).bit_length()
    parts = [fixed(KINDS.index(draft.kind), KIND_BITS)]
    if draft.kind == TOP_K:
        parts += [gamma(draft.support.size + 1), gamma(draft.bits), columns(draft.support, width)]
        parts.append(columns(draft.values, draft.bits))
    elif draft.kind == ENTROPY:
        parts += entropy_fields(draft.support, _counts(draft), mixture=draft.rest is not None)
    else:
        parts += [gamma(draft.support.size), gamma(draft.resolution), _number(draft, vocabulary)]
    parts.append(fixed(draft.token, width))
    if draft.probability is not None:
        parts.append(np.unpackbits(np.frombuffer(np.asarray(draft.probability, dtype=">f8").tobytes(), dtype=np.uint8)))
    return parts


def _counts(draft: MixedDraft) -> Integers:
    """The counts of a row, with that of all other tokens last if it has one."""
    return draft.values if draft.rest is None else np.append(draft.values, draft.rest)


def _number(draft: MixedDraft, vocabulary: int) -> Bits:
    """Support and counts as one number."""
    counts = _counts(draft)
    length = number_bits(vocabulary, draft.support.size, counts.size, draft.resolution)
    if length > LONGEST_NUMBER:
        raise MessageError(f"a row takes a number of {length} bits of {LONGEST_NUMBER} at most; send fewer tokens")
    supports = math.comb(vocabulary, draft.support.size)
    return fixed(rank(draft.support) + supports * rank_counts(counts, draft.resolution), length)


def decode_mixed(body: bytes, limits: Limits | None = None) -> MixedMessage:
    """The batch of a body that :func:`encode_mixed` made."""
    reader = Reader(body)
    vocabulary = reader.varint("the vocabulary", 2, LARGEST_VOCABULARY)
    count = reader.varint("the number of drafts", 1, LONGEST_BATCH)
    if limits is not None:
        limits.check_head(vocabulary, count)
    known = bool(reader.varint("the flag", 0, 1))
    bits = BitReader(reader.rest())
    entries, effort, drafts = 0, 0, []
    for place in range(count):
        kind = KINDS[bits.fixed(KIND_BITS)]
        size = bits.gamma("a size", vocabulary + 1) - int(kind == TOP_K)
        entries += size
        refuse_too_many(entries, len(body), MalformedError)
        expect = None if limits is None else partial(limits.row, place, kind, size)
        support, values, rest, width, more = _row(bits, kind, size, vocabulary, effort, expect)
        effort += more
        token = bits.fixed((vocabulary - 1).bit_length())
        own = bits.fixed(PROBABILITY_BITS).to_bytes(8, "big") if known else None
        probability = None if own is None else float(np.frombuffer(own, dtype=">f8")[0])
        drafts.append(MixedDraft(kind, support, values, rest, width, token, probability))
    if bits.left >= 8:
        raise MalformedError("there are bytes after the last draft; no encoder writes that")
    return MixedMessage(vocabulary, tuple(drafts))


def _row(
    bits: BitReader, kind: str, size: int, vocabulary: int, effort: int, expect: Callable[[int], None] | None
) -> tuple[Integers, Integers, int | None, int, int]:
    """Support, values, rest, b and effort of one row; ``expect`` refuses a b or ℓ before the rest is read."""
    if kind == TOP_K:
        width = bits.gamma("the bits of a level", MOST_BITS)
        if expect is not None:
            expect(width)
        support = bits.columns(size, (vocabulary - 1).bit_length())
        return support, bits.columns(size, width), None, width, 0
    if size > vocabulary or (kind == MIXTURE and size == vocabulary):
        raise MalformedError(f"a support has {size} tokens of {vocabulary}; no encoder writes that")
    if kind == ENTROPY:
        if expect is not None:
            expect(0)
        return *entropy_row(bits, size, vocabulary), 0, 0
    resolution, cells = bits.gamma("a resolution", LARGEST_RESOLUTION), size + int(kind == MIXTURE)
    if expect is not None:
        expect(resolution)
    # refuse before making a number longer than the bits
    about = about_log2(vocabulary, size) + about_log2(resolution + cells - 1, cells - 1)
    if about > min(bits.left, LONGEST_NUMBER) + 1:
        raise MalformedError("a row takes more bits than there are; no encoder writes that")
    more = steps_of_row(vocabulary, size, cells, resolution)
    if effort + more > MOST_STEPS:
        raise MalformedError("the drafts take too long to decode; no encoder writes that")
    index = bits.fixed(number_bits(vocabulary, size, cells, resolution))
    index, place = divmod(index, math.comb(vocabulary, size))
    if index >= lattice_points(cells, resolution):
        raise MalformedError("a number is not that of a row; no encoder writes that")
    counts = unrank_counts(index, cells, resolution)
    rest = int(counts[-1]) if kind == MIXTURE else None
    return unrank(place, size, vocabulary), counts[:size], rest, 0, more
