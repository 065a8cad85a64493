"""Entropy-coded rows of a mixed message: one lattice or mixture, with its gaps and counts in the coder's words.

After its size K a row has a bit for a mixture, the number of words plus 1 in Elias's gamma code, the two bytes of the
models, and the words. How many words there are depends on the counts themselves, so the coder is run to know the bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory.codec.bitfields import BitReader, fixed, gamma
from hlmtheory.codec.entropy import information, library, pop_values, push_values
from hlmtheory.codec.frame import MalformedError
from hlmtheory.codec.menu import ENTROPY, KIND_BITS, CodecMenu, Found, gamma_bits, grid, most_tokens
from hlmtheory.codec.messages import Integers
from hlmtheory.codec.rounding import Bounds, SortedRow, certified, least_distance, rounding, units_of
from hlmtheory.lattice.arithmetic import LARGEST_RESOLUTION

WORD = 32
MOST_WORDS = 2**20
"""The most words of a row, 4 MiB."""

LEAST_SHARE, FREE_BITS = 0.999, 8.0
"""The coder rounds its weights, so a row may take less than its information by so much, and no less."""


def least_entropy(row: SortedRow, limit: float, menu: CodecMenu, best: Found | None) -> Found | None:
    """The entropy-coded row of fewest bits, if it has fewer than the best so far."""
    tried = sorted(_coarsest(row, limit, menu), key=lambda candidate: candidate[0])
    cheapest: Found | None = None
    for least, size, resolution, mixture, support, counts, distance in tried:
        cap = cheapest.bits if cheapest else best.bits if best else None
        if cap is not None and least >= cap:
            break
        bits = row_bits(support, counts, mixture=mixture)
        if (cap is None or bits < cap) and size <= int(most_tokens(np.asarray(bits))):
            cheapest = Found(ENTROPY, size, resolution, mixture, bits, certified(row, distance))
    return cheapest


def _coarsest(row: SortedRow, limit: float, menu: CodecMenu) -> list[tuple[Any, ...]]:
    """Each size's coarsest certified rounding, with a lower bound on its bits first."""
    order = np.argsort(-row.source, kind="stable")
    sizes, resolutions = grid(row.vocabulary, menu)
    bounds, candidates = Bounds(row), []
    for size in sizes.tolist():
        for mixture in (False, True)[: 1 + (size < row.vocabulary)]:
            units = resolutions
            for bound in (least_distance, lambda _, *values: bounds.distances(*values)):  # the quick one first
                same = np.full(units.shape, size), units, np.full(units.shape, mixture)
                units = units[2.0 * bound(row, *same) <= limit] if len(units) else units
            for resolution in units.tolist():
                done = rounding(row, size, resolution, mixture=mixture)
                if certified(row, done.distance) <= limit:
                    places = np.argsort(order[:size])
                    support, counts = order[:size][places], units_of(done, size)[places]
                    counts = np.append(counts, done.spread) if mixture else counts
                    least = LEAST_SHARE * (information(_gaps(support)) + information(counts)) - FREE_BITS
                    candidates.append((least, size, resolution, mixture, support, counts, done.distance))
                    break
    return candidates


def row_bits(support: Integers, counts: Integers, *, mixture: bool) -> int:
    """Bits of an entropy-coded row, as they are written."""
    _, words = _words(support, counts)
    head = KIND_BITS + int(gamma_bits(np.asarray(support.size))) + 1 + int(gamma_bits(np.asarray(len(words) + 1)))
    return head + 16 + WORD * len(words)


def _gaps(support: Integers) -> Integers:
    return np.diff(support, prepend=-1) - 1


def _words(support: Integers, counts: Integers) -> tuple[list[int], NDArray[np.uint32]]:
    """The numbers of both models, and the coder's words."""
    coder = library().stream.stack.AnsCoder()
    chosen = [push_values(coder, values) for values in (counts, _gaps(support))]
    return chosen[::-1], np.asarray(coder.get_compressed())


def entropy_fields(support: Integers, counts: Integers, *, mixture: bool) -> list[NDArray[np.uint8]]:
    """The bits of a row after its kind; the last count of a mixture is that of all other tokens."""
    models, words = _words(support, counts)
    written = np.unpackbits(np.frombuffer(words.astype(">u4").tobytes(), dtype=np.uint8))
    head = [gamma(support.size), fixed(int(mixture), 1), gamma(len(words) + 1)]
    return [*head, *(fixed(model, 8) for model in models), written]


def entropy_row(bits: BitReader, size: int, vocabulary: int) -> tuple[Integers, Integers, int | None]:
    """Support, counts and the count of the rest, after the size was read."""
    stack = library().stream.stack
    mixture = bool(bits.fixed(1))
    count = bits.gamma("the number of words", MOST_WORDS) - 1
    models = [bits.fixed(8), bits.fixed(8)]
    words = np.frombuffer(np.packbits(bits.take(WORD * count)).tobytes(), dtype=">u4").astype(np.uint32)
    try:
        coder = stack.AnsCoder(words)
    except ValueError as error:
        raise MalformedError("the words end in zero; no encoder writes that") from error
    support = np.cumsum(pop_values(coder, models[0], size) + 1) - 1
    counts = pop_values(coder, models[1], size + int(mixture))
    if not coder.is_empty():
        raise MalformedError("words are left over; no encoder writes that")
    if support[-1] >= vocabulary or not 1 <= int(counts.sum()) <= LARGEST_RESOLUTION:
        raise MalformedError("a support or a resolution is out of range; no encoder writes that")
    return support, counts[:size], int(counts[-1]) if mixture else None
