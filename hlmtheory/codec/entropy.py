"""The entropy coder: parametric models for the gaps of the supports and for the counts; the row itself for tokens.

A whole number v is sent as a class (v itself below 16, then four classes for each octave) and the remaining bits. The
weight of a class is the sum of (v + a)^(-e) over it. The encoder chooses (a, e) out of 256 pairs and sends the choice
in a byte. These models range from a power law to nearly a geometric one. They fit gaps, and counts, which are mostly 0
with a few large ones. The weights are whole numbers, so both sides have the same model on any machine. The library is
constriction (an ANS coder).
"""

from __future__ import annotations

import math
from decimal import Context, Decimal
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory.codec.enumerative import refuse_too_many
from hlmtheory.codec.frame import MalformedError, MessageError, MissingCoderError, Reader, varint
from hlmtheory.codec.messages import LARGEST_VOCABULARY, LONGEST_BATCH, Integers, LatticeDraft, LatticeMessage
from hlmtheory.lattice.arithmetic import LARGEST_RESOLUTION

DIRECT, CLASSES = 16, 100
"""Values below the first have a class each; the second is the number of classes, enough for values up to 2²⁵."""

EXPONENTS = (1, 2, 3, 4, 6, 8, 16, 32)
OFFSETS = tuple(math.isqrt(2**n) for n in range(32))


def library() -> Any:
    """The constriction package."""
    try:
        import constriction
    except ImportError as error:
        raise MissingCoderError(
            'The entropy coder needs constriction, the extra "codec": pip install "hlmtheory[codec]".'
        ) from error
    return constriction


def encode_entropy(message: LatticeMessage) -> bytes:
    """The body of an entropy-coded message: header, two model bytes, then the words of the coder."""
    stream = library().stream
    drafts = message.drafts
    sizes = [draft.size for draft in drafts]
    gaps = np.concatenate([np.diff(draft.support, prepend=-1) for draft in drafts]) - 1
    counts = np.concatenate([draft.counts for draft in drafts])
    coder = stream.stack.AnsCoder()
    # Step 1: the tokens. The coder is a stack: symbols that are decoded first are encoded last
    for draft in reversed(drafts):
        drawn = draft.counts > 0
        place = np.searchsorted(draft.support[drawn], draft.token)
        if (model := _token_model(stream, draft.counts[drawn])) is not None:
            coder.encode_reverse(np.asarray([place], dtype=np.int32), model)
    # Step 2: counts, then gaps, each with the model that costs least
    chosen = [push_values(coder, values) for values in (counts, gaps)]
    # Step 3: the header
    one_size = len(set(sizes)) == 1
    head = varint(message.vocabulary) + varint(len(drafts)) + bytes((one_size,))
    head += b"".join(map(varint, sizes[:1] if one_size else sizes)) + bytes(reversed(chosen))
    body: bytes = head + coder.get_compressed().astype("<u4").tobytes()
    refuse_too_many(sum(sizes), len(body), MessageError)
    return body


def decode_entropy(body: bytes) -> LatticeMessage:
    """The batch of a body that :func:`encode_entropy` made."""
    stream = library().stream
    reader = Reader(body)
    vocabulary = reader.varint("the vocabulary", 2, LARGEST_VOCABULARY)
    count = reader.varint("the number of drafts", 1, LONGEST_BATCH)
    one_size = reader.varint("the flag", 0, 1)
    sizes = [reader.varint("a support size", 1, vocabulary) for _ in range(1 if one_size else count)]
    sizes = sizes * count if one_size else sizes
    refuse_too_many(sum(sizes), len(body), MalformedError)
    rest = reader.rest()
    if len(rest) < 2 or len(rest) % 4 != 2:
        raise MalformedError("the words are not whole; no encoder writes that")
    try:
        coder = stream.stack.AnsCoder(np.frombuffer(rest[2:], dtype="<u4").astype(np.uint32))
    except ValueError as error:
        raise MalformedError("the words end in zero; no encoder writes that") from error
    total = sum(sizes)
    gaps, counts = (pop_values(coder, chosen, total) for chosen in rest[:2])
    drafts = _drafts(stream, coder, vocabulary, sizes, gaps, counts)
    if not coder.is_empty():
        raise MalformedError("words are left over; no encoder writes that")
    return LatticeMessage(vocabulary, drafts)


def _drafts(
    stream: Any, coder: Any, vocabulary: int, sizes: list[int], gaps: Integers, counts: Integers
) -> tuple[LatticeDraft, ...]:
    """Drafts from the decoded gaps and counts; the token of each is decoded from the remaining words."""
    drafts, start = [], 0
    for size in sizes:
        part = slice(start, start + size)
        start += size
        support, units = np.cumsum(gaps[part] + 1) - 1, counts[part]
        drawn = support[units > 0]
        if support[-1] >= vocabulary or not 1 <= int(units.sum()) <= LARGEST_RESOLUTION:
            raise MalformedError("a support or a resolution is out of range; no encoder writes that")
        model = _token_model(stream, units[units > 0])
        place = 0 if model is None else int(coder.decode(model))
        drafts.append(LatticeDraft(support, units, int(drawn[place])))
    return tuple(drafts)


def push_values(coder: Any, values: Integers) -> int:
    """Encode the values onto the stack with the model that costs least, and return its number."""
    classes, widths, extra = _split(values)
    chosen = int(np.argmin(_costs() @ np.bincount(classes, minlength=CLASSES)))
    wide = widths > 0
    if wide.any():
        uniform = library().stream.model.Uniform()
        coder.encode_reverse(extra[wide].astype(np.int32), uniform, (1 << widths[wide]).astype(np.int32))
    coder.encode_reverse(classes.astype(np.int32), _model(chosen))
    return chosen


def pop_values(coder: Any, chosen: int, count: int) -> Integers:
    """Decode as many values, encoded with the model of this number."""
    return _join(coder, library().stream.model.Uniform(), coder.decode(_model(chosen), count))


def information(values: Integers) -> float:
    """Bits of the values under the model that costs least, before it is rounded to the coder's weights."""
    classes, widths, _ = _split(values)
    nats = float((_costs() @ np.bincount(classes, minlength=CLASSES)).min()) * 1e-9
    return nats / math.log(2.0) + float(widths.sum())


def _split(values: Integers) -> tuple[Integers, Integers, Integers]:
    """The class, the number of remaining bits, and those bits."""
    octave = np.frexp(values.astype(np.float64))[1].astype(np.int64) - 1  # ⌊log₂ v⌋, exact below 2⁵³
    far = values >= DIRECT
    widths = np.where(far, octave - 2, 0)
    classes = np.where(far, DIRECT + 4 * (octave - 4) + ((values >> widths) & 3), values)
    return classes, widths, np.where(far, values & ((1 << widths) - 1), 0)


def _join(coder: Any, uniform: Any, classes: NDArray[np.int32]) -> Integers:
    """The values of decoded classes, with the remaining bits from the coder."""
    values = classes.astype(np.int64)
    far = np.flatnonzero(values >= DIRECT)
    if far.size:
        above = values[far] - DIRECT
        widths = (above >> 2) + 2
        extra = coder.decode(uniform, (1 << widths).astype(np.int32))
        values[far] = ((4 + (above & 3)) << widths) + extra
    return values


@lru_cache(maxsize=256)
def _weights(chosen: int) -> tuple[float, ...]:
    """Probability of each class under the pair with this number; exact in whole numbers up to one division."""
    exponent, offset = EXPONENTS[chosen // len(OFFSETS)], OFFSETS[chosen % len(OFFSETS)]
    weights = []
    for index in range(CLASSES):
        width, middle = 1, index
        if index >= DIRECT:
            bits = (index - DIRECT) // 4 + 2
            width = 1 << bits
            middle = ((4 + (index - DIRECT) % 4) << bits) + width // 2
        weights.append(width * ((offset**exponent << 64) // (middle + offset) ** exponent) + 1)
    total = sum(weights)
    return tuple(weight / total for weight in weights)


@lru_cache(maxsize=1)
def _costs() -> NDArray[np.int64]:
    """Information of each class under each pair, in 10^-9 nat."""
    context = Context(prec=20)
    rows = [[-context.ln(Decimal(weight)) for weight in _weights(n)] for n in range(len(EXPONENTS) * len(OFFSETS))]
    return np.asarray([[int(cost * 10**9) for cost in row] for row in rows], dtype=np.int64)


@lru_cache(maxsize=256)
def _model(chosen: int) -> Any:
    return library().stream.model.Categorical(np.asarray(_weights(chosen)), perfect=False)


def _token_model(stream: Any, units: Integers) -> Any:
    """The quantised row over the tokens that have a count; None for a single token, which needs no code."""
    return stream.model.Categorical(units / float(units.sum()), perfect=False) if units.size > 1 else None
