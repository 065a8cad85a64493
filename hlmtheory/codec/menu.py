"""The codecs of a row that :func:`hlmtheory.codec.cheapest_codec` chooses from, and the bits of each.

========= =========================================== ================================================================
kind      what is written                             the rest of the row
========= =========================================== ================================================================
top-k     k tokens, each with a level of b bits       spread evenly
lattice   K tokens, and their counts out of ℓ         0
mixture   K tokens, their counts and that of the      spread evenly: a mixture of a lattice row and an even one
          rest, out of ℓ
========= =========================================== ================================================================

A row begins with its kind (2 bits), its k, and its b or ℓ. Both are written in Elias's gamma code, 2⌊log₂ n⌋ + 1 bits
for n ≥ 1. Tokens and levels of top-k are fields of ⌈log₂ V⌉ and b bits. Tokens and counts of a lattice are one number
of ⌈log₂(C(V, K) C(ℓ + K - 1, K - 1))⌉ bits; in a mixture the counts have K + 1 entries.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hlmtheory._combinatorics import lattice_points, log2_binomial
from hlmtheory._domains import Domain, DomainError, instances, numbers
from hlmtheory.codec.enumerative import ENTRIES_PER_BYTE, MOST_STEPS, steps, steps_of
from hlmtheory.codec.messages import KINDS, LARGEST_VOCABULARY, LATTICE, MIXTURE, MOST_BITS
from hlmtheory.lattice.arithmetic import LARGEST_RESOLUTION

Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]

KIND_BITS = 2
PROBABILITY_BITS = 64
"""Of the exact q_d, where it is sent."""

LONGEST_NUMBER = 2**17
"""The most bits of the number of a row, so that arithmetic on it is quick; the time of the rest has its own limit."""

NEAR = 1e-6
"""A logarithm this near to a whole number is computed again in whole numbers before it is rounded up."""

EXACT_UP_TO = 16
SIZES_PER_OCTAVE, RESOLUTIONS_PER_OCTAVE = 4, 8
"""The default menu: all numbers up to the first, then this many sizes K or resolutions ℓ from each to its double."""


@dataclass(frozen=True, slots=True)
class CodecMenu:
    """What a row may be encoded with.

    Parameters
    ----------
    kinds : tuple of str
        Of "top-k", "lattice" and "mixture".
    widths : tuple of int
        b of top-k, 1..24. Its k is any of 0..V.
    sizes : tuple of int, optional
        K of the others, 1 or more; those above V are left out. None: 1..16, then 4 for each octave, and V.
    resolutions : tuple of int, optional
        ℓ of the others, 1..2²⁴. None: 1..16, then 8 for each octave.

    Raises
    ------
    ValueError
        If a kind is unknown or twice there, a tuple is empty, or a number is out of its range.

    Examples
    --------
    >>> CodecMenu(kinds=("lattice",), sizes=(1, 2, 4), resolutions=(100,)).kinds
    ('lattice',)
    """

    kinds: tuple[str, ...] = KINDS
    widths: tuple[int, ...] = tuple(range(1, MOST_BITS + 1))
    sizes: tuple[int, ...] | None = None
    resolutions: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        kinds = instances("kinds", self.kinds, str)
        if not kinds or not set(kinds) <= set(KINDS) or len(set(kinds)) < len(kinds):
            raise DomainError(f"kinds must be some of {', '.join(KINDS)}, each once; got {kinds}; choose from them")
        object.__setattr__(self, "kinds", kinds)
        for name, most in (("widths", MOST_BITS), ("sizes", LARGEST_VOCABULARY), ("resolutions", LARGEST_RESOLUTION)):
            if (given := getattr(self, name)) is not None or name == "widths":
                object.__setattr__(self, name, _numbers(name, given, most))


def _numbers(name: str, given: Any, most: int) -> tuple[int, ...]:
    """Ascending whole numbers, 1 to ``most``."""
    domain = Domain(
        f"whole numbers in 1..{most}", lambda xp, value: (value >= 1) & (value <= most), "leave it out", kind="integer"
    )
    if isinstance(given, (tuple, list)) and not given:
        raise DomainError(f"{name} must hold a number; got none; give such as (8, 16)")
    return tuple(sorted({int(one) for one in np.atleast_1d(numbers(domain, name, given)).ravel()}))


@dataclass(frozen=True, slots=True)
class Candidates:
    """All lattices and mixtures of a menu, by ascending bits."""

    bits: Integers
    size: Integers
    resolution: Integers
    mixture: Mask


class Found(NamedTuple):
    """One row's codec."""

    kind: str
    size: int
    parameter: int
    mixture: bool
    bits: int
    bias: float


@lru_cache(maxsize=16)
def candidates(vocabulary: int, menu: CodecMenu) -> Candidates:
    """The lattices and mixtures of a menu that the enumerative coder can write."""
    sizes, resolutions = grid(vocabulary, menu)
    parts = [
        (size, resolution, np.full(size.shape, kind == MIXTURE))
        for kind in (LATTICE, MIXTURE)
        if kind in menu.kinds
        for size, resolution in [_pairs(sizes[sizes < vocabulary] if kind == MIXTURE else sizes, resolutions)]
    ]
    if not parts:
        none = np.empty(0, dtype=np.int64)
        return Candidates(none, none, none, none.astype(np.bool_))
    size, resolution, mixture = (np.concatenate(part) for part in zip(*parts, strict=True))
    fits = _writable(vocabulary, size, resolution, mixture)
    size, resolution, mixture = size[fits], resolution[fits], mixture[fits]
    bits = lattice_bits(vocabulary, size, resolution, mixture)
    fits = size <= bits * ENTRIES_PER_BYTE // 8  # the most tokens of a row of these bits, so that memory stays bounded
    bits, size, resolution, mixture = bits[fits], size[fits], resolution[fits], mixture[fits]
    order = np.argsort(bits, kind="stable")
    found = Candidates(bits[order], size[order], resolution[order], mixture[order])
    for array in (found.bits, found.size, found.resolution, found.mixture):
        array.flags.writeable = False
    return found


def grid(vocabulary: int, menu: CodecMenu) -> tuple[Integers, Integers]:
    """The sizes K ≤ V and the resolutions ℓ of a menu, ascending."""
    sizes = _octaves(vocabulary, SIZES_PER_OCTAVE) if menu.sizes is None else np.asarray(menu.sizes)
    units = menu.resolutions
    resolutions = _octaves(LARGEST_RESOLUTION, RESOLUTIONS_PER_OCTAVE) if units is None else np.asarray(units)
    return sizes[sizes <= vocabulary].astype(np.int64), resolutions.astype(np.int64)


def _octaves(last: int, each: int) -> Integers:
    """1..16, then geometric up to ``last``, which is included."""
    dense = np.arange(1, min(last, EXACT_UP_TO) + 1)
    count = max(0, math.ceil(each * math.log2(last / EXACT_UP_TO)))
    sparse = np.floor(EXACT_UP_TO * 2.0 ** (np.arange(1, count) / each)).astype(np.int64)
    return np.unique(np.concatenate([dense, sparse[sparse < last], [last]]))


def _pairs(sizes: Integers, resolutions: Integers) -> tuple[Integers, Integers]:
    size, resolution = np.meshgrid(sizes, resolutions, indexing="ij")
    return size.ravel(), resolution.ravel()


def _writable(vocabulary: int, size: Integers, resolution: Integers, mixture: Mask) -> Mask:
    """Whether the number of a row is short enough, and quick enough to decode: as the enumerative coder requires."""
    short = _logarithm(vocabulary, size, resolution, mixture) <= LONGEST_NUMBER - 1
    for n in np.flatnonzero(short).tolist():
        k, units = int(size[n]), int(resolution[n])
        short[n] = steps_of_row(vocabulary, k, k + int(mixture[n]), units) <= MOST_STEPS
    return short


def steps_of_row(vocabulary: int, size: int, cells: int, resolution: int) -> int:
    """About how many bits are multiplied to rank the support and the counts."""
    if cells == size:
        return steps_of(vocabulary, size, resolution)
    return steps(vocabulary, size) + steps(resolution + cells - 1, min(resolution, cells - 1))


def gamma_bits(value: Integers) -> Integers:
    """2⌊log₂ n⌋ + 1 for n ≥ 1."""
    return 2 * np.frexp(value.astype(np.float64))[1].astype(np.int64) - 1


def top_k_bits(vocabulary: int, size: Integers, width: int) -> Integers:
    """Bits of a row of k levels of b bits."""
    head = KIND_BITS + gamma_bits(size + 1) + gamma_bits(np.asarray(width))
    return head + size * (width + (vocabulary - 1).bit_length())


def lattice_bits(vocabulary: int, size: Integers, resolution: Integers, mixture: Mask) -> Integers:
    """Bits of each lattice or mixture, exact: as the coder writes them."""
    logarithm = _logarithm(vocabulary, size, resolution, mixture)
    bits = np.ceil(logarithm).astype(np.int64)
    for n in np.flatnonzero(np.abs(logarithm - np.round(logarithm)) < NEAR).tolist():
        bits[n] = number_bits(vocabulary, int(size[n]), int(size[n] + mixture[n]), int(resolution[n]))
    return KIND_BITS + gamma_bits(size) + gamma_bits(resolution) + bits


def _logarithm(vocabulary: int, size: Integers, resolution: Integers, mixture: Mask) -> NDArray[np.float64]:
    """log₂(C(V, K) C(ℓ + c - 1, c - 1)) for c counts."""
    v, k, units = (np.asarray(value, dtype=np.float64) for value in (vocabulary, size, resolution))
    cells = k + mixture
    found: NDArray[np.float64] = log2_binomial(np, np.broadcast_to(v, k.shape), k)
    found = found + log2_binomial(np, units + cells - 1.0, cells - 1.0)
    return found


def number_bits(vocabulary: int, size: int, cells: int, resolution: int) -> int:
    """Bits of the number of a lattice row with K tokens and this many counts, in whole numbers."""
    return (math.comb(vocabulary, size) * lattice_points(cells, resolution) - 1).bit_length()
