"""The enumerative coder: a batch of quantised drafts as one whole number, its index among all such batches.

The number is written in mixed radix, first draft first: its size (only if sizes differ; V values), its support
(C(V, K) values), its counts (C(ℓ + K - 1, K - 1) values), and its token (one value for each token with a count). So the
whole batch takes less than one bit more than c-sqs (1) and the log₂ of the tokens, plus the padding of the last byte.
"""

import math

import numpy as np

from hlmtheory._combinatorics import about_log2, lattice_points
from hlmtheory.codec.frame import Limits, MalformedError, MessageError, Reader, varint
from hlmtheory.codec.messages import LARGEST_VOCABULARY, LONGEST_BATCH, Integers, LatticeDraft, LatticeMessage
from hlmtheory.lattice.arithmetic import LARGEST_RESOLUTION

LONGEST_INDEX = 2**12
"""Largest size of the number in bytes, so that arithmetic on it is fast; MOST_STEPS bounds all other work."""

NEAR = 32
"""Across a gap of at most max(this, k), the binomial is updated; across a larger gap it is computed anew."""

MOST_STEPS = 2**32
"""Largest value of :func:`steps`, summed over a batch, that is encoded or decoded; about half a second."""

ENTRIES_PER_BYTE, FREE_ENTRIES = 64, 2**12
"""A message of n bytes may decode to at most ENTRIES_PER_BYTE n + FREE_ENTRIES support entries."""


def refuse_too_many(entries: int, length: int, kind: type[Exception]) -> None:
    """Refuse too many entries for a message of this length, so that a short message cannot fill the memory."""
    if entries > ENTRIES_PER_BYTE * length + FREE_ENTRIES:
        raise kind(
            f"{entries} support entries in {length} bytes; remove tokens without a count from the supports; "
            "the quantised rows stay the same"
        )


def steps(size: int, k: int) -> int:
    """Return the approximate work to rank a set of k out of ``size``, in multiplied bits; the same on every machine."""
    fewer = min(k, size - k)
    bits = fewer * ((size // max(fewer, 1)).bit_length() + 2)
    return k * (min(size // max(k, 1), k) + NEAR) * bits


def steps_of(vocabulary: int, k: int, resolution: int) -> int:
    """Return :func:`steps` for a draft: for its support, and for its counts by the fewer of units and bars."""
    return steps(vocabulary, k) + steps(resolution + k - 1, min(resolution, k - 1))


def encode_lattice(message: LatticeMessage) -> bytes:
    """Return the body of an enumerated message: header, then the number."""
    drafts = message.drafts
    index, states = index_of(message)
    sizes, units = ([getattr(d, name) for d in drafts] for name in ("size", "resolution"))
    one_size, one_resolution = len(set(sizes)) == 1, len(set(units)) == 1
    head = varint(message.vocabulary) + varint(len(drafts)) + bytes((one_size + 2 * one_resolution,))
    head += varint(sizes[0]) if one_size else b""
    head += b"".join(map(varint, units[:1] if one_resolution else units))
    length = -(-(states - 1).bit_length() // 8)
    if length > LONGEST_INDEX:
        raise MessageError(
            f"the enumerated batch takes {length} bytes, more than {LONGEST_INDEX}; send fewer drafts at a time"
        )
    if sum(steps_of(message.vocabulary, draft.size, draft.resolution) for draft in drafts) > MOST_STEPS:
        raise MessageError(
            "the enumerated batch takes too long to decode; send fewer tokens or drafts, or lower the resolution"
        )
    body = head + index.to_bytes(length, "big")
    refuse_too_many(sum(sizes), len(body), MessageError)
    return body


def index_of(message: LatticeMessage) -> tuple[int, int]:
    """Return the number of the batch, and how many batches there are."""
    vary = len({draft.size for draft in message.drafts}) > 1
    digits = []
    for draft in message.drafts:
        k, units = draft.size, draft.resolution
        if about_log2(message.vocabulary, k) + about_log2(units + k - 1, k - 1) > 8 * LONGEST_INDEX + 64:
            raise MessageError(
                f"a draft of {k} tokens at resolution {units} is too long to enumerate; send fewer tokens"
            )
        if vary:
            digits.append((k - 1, message.vocabulary))
        digits.append((rank(draft.support), math.comb(message.vocabulary, k)))
        digits.append((rank_counts(draft.counts, units), lattice_points(k, units)))
        drawn = draft.support[draft.counts > 0]
        digits.append((int(np.searchsorted(drawn, draft.token)), drawn.size))
    index, states = 0, 1
    for digit, base in reversed(digits):
        index, states = digit + base * index, states * base
    return index, states


def decode_lattice(body: bytes, limits: Limits | None = None) -> LatticeMessage:
    """Return the batch of a body that :func:`encode_lattice` made."""
    reader = Reader(body)
    vocabulary = reader.varint("the vocabulary", 2, LARGEST_VOCABULARY)
    count = reader.varint("the number of drafts", 1, LONGEST_BATCH)
    if limits is not None:
        limits.check_head(vocabulary, count)
    flags = reader.varint("the flags", 0, 3)
    size = reader.varint("the support size", 1, vocabulary) if flags & 1 else None
    units = [reader.varint("a resolution", 1, LARGEST_RESOLUTION) for _ in range(1 if flags & 2 else count)]
    data = reader.rest()
    if len(data) > LONGEST_INDEX:
        raise MalformedError(f"the number has {len(data)} bytes, more than {LONGEST_INDEX}; no encoder writes that")
    index, states, entries, taken, drafts = int.from_bytes(data, "big"), 1, 0, 0, []
    for n in range(count):
        k, resolution = size, units[0 if flags & 2 else n]
        if k is None:
            index, digit = divmod(index, vocabulary)
            k, states = digit + 1, states * vocabulary
        if limits is not None:
            limits.row(n, "lattice", k, resolution)
        entries += k
        refuse_too_many(entries, len(body), MalformedError)
        # refuse before making a number longer than the bytes
        needed = about_log2(vocabulary, k) + about_log2(resolution + k - 1, k - 1) + math.log2(states)
        if needed > 8 * len(data) + 1:
            raise MalformedError("the drafts need more bits than the message has; no encoder writes that")
        taken += steps_of(vocabulary, k, resolution)
        if taken > MOST_STEPS:
            raise MalformedError("the drafts take too long to decode; no encoder writes that")
        index, states, draft = _peel(index, states, vocabulary, k, resolution)
        drafts.append(draft)
    if index or len(data) != -(-(states - 1).bit_length() // 8):
        raise MalformedError("the number is not one of a batch of these drafts; no encoder writes that")
    return LatticeMessage(vocabulary, tuple(drafts))


def _peel(index: int, states: int, vocabulary: int, k: int, resolution: int) -> tuple[int, int, LatticeDraft]:
    """Decode the draft in the lowest digits of the number, and return the remaining number, states and the draft."""
    supports, points = math.comb(vocabulary, k), lattice_points(k, resolution)
    index, place = divmod(index, supports)
    support = unrank(place, k, vocabulary)
    index, place = divmod(index, points)
    counts = unrank_counts(place, k, resolution)
    drawn = support[counts > 0]
    index, place = divmod(index, drawn.size)
    return index, states * supports * points * drawn.size, LatticeDraft(support, counts, int(drawn[place]))


def rank_counts(counts: Integers, resolution: int) -> int:
    """Return the index of counts, written as units and bars: the rank of the fewer of the two."""
    k = counts.size
    if resolution < k - 1:
        return rank(np.repeat(np.arange(k), counts) + np.arange(resolution))
    return rank(np.cumsum(counts[:-1]) + np.arange(k - 1))


def unrank_counts(place: int, k: int, resolution: int) -> Integers:
    """Return the K counts at this index."""
    if resolution < k - 1:
        units = unrank(place, resolution, resolution + k - 1) - np.arange(resolution)
        return np.bincount(units, minlength=k).astype(np.int64)
    bars = unrank(place, k - 1, resolution + k - 1) - np.arange(k - 1)
    return np.diff(bars, prepend=0, append=resolution)


def rank(members: Integers) -> int:
    """The colexicographic place Σ C(c_i, i) of a set c_1 < … < c_k among all sets of its size."""
    total, value, before, size = 0, 1, -1, 0  # value = C(before + 1, size)
    for member in members.tolist():
        top = before + 1
        value, size = value * (top - size) // (size + 1), size + 1  # C(top, size + 1)
        if member - top > max(NEAR, size):
            value = math.comb(member, size)
        else:
            for n in range(top + 1, member + 1):
                value = value * n // (n - size) if n > size else int(n == size)
        total, before = total + value, member - 1
    return total


def unrank(place: int, size: int, vocabulary: int) -> Integers:
    """The set at this place, 0 ≤ place < C(V, size), ascending."""
    members = np.empty(size, dtype=np.int64)
    top, value = vocabulary, math.comb(vocabulary, size)
    for k in range(size, 0, -1):
        for _ in range(max(NEAR, k)):
            if value <= place:
                break
            value, top = value * (top - k) // top, top - 1  # C(top - 1, k)
        else:
            top = _largest(place, k, top + 1)  # top itself was not tried yet
            value = math.comb(top, k)
        place -= value
        members[k - 1] = top
        value, top = (value * k // top, top - 1) if top else (0, -1)  # C(top - 1, k - 1)
        value = value if value or k > 1 else 1
    return members


def _largest(place: int, k: int, below: int) -> int:
    """The largest c < below with C(c, k) ≤ place."""
    if place == 0:
        return k - 1
    wanted = math.log(place) + math.lgamma(k + 1) + 1e-6
    low, high = k - 1, below - 1
    middle_term = math.exp(wanted / k)
    start = int(middle_term + (k - 1) / 2)
    for near in (start - 1, start + 2 + int(k * k / (24.0 * middle_term))):
        if low < near <= high:
            fits = math.lgamma(near + 1) - math.lgamma(near - k + 1) <= wanted
            low, high = (near, high) if fits else (low, near - 1)
    while low < high:
        middle = (low + high + 1) // 2
        fits = math.lgamma(middle + 1) - math.lgamma(middle - k + 1) <= wanted
        low, high = (middle, high) if fits else (low, middle - 1)
    while math.comb(low, k) > place:
        low -= 1
    return low
