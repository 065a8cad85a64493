"""The message with the fewest bits whose certified bias is within a tolerance, for each row.

By ``truncation.any_codec`` the Bias of a position is at most 2 TV(q, q̂), whatever the codec. So each entry of a menu is
certified by the row that its own levels or counts stand for. The search leaves out only entries that a lower bound
excludes, so its answer is that of the whole menu. A row is sorted once. Each lattice that is tried also sorts the
remainders of its entries of at least one unit.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import device
from numpy.typing import NDArray

from hlmtheory._array import Array, arrays, in_kind, to_numpy, upward, widest
from hlmtheory._domains import Domain, DomainError, instance, leading_dimensions, number
from hlmtheory._quantities import not_negative
from hlmtheory._simplex import canonical
from hlmtheory.codec import rounding
from hlmtheory.codec.menu import Candidates, CodecMenu, Found, candidates, top_k_bits
from hlmtheory.codec.messages import KINDS, LARGEST_VOCABULARY, LATTICE, MIXTURE, TOP_K
from hlmtheory.codec.rounding import certified

VOCABULARY = Domain(
    f"a whole number in 2..{LARGEST_VOCABULARY}",
    lambda xp, value: (value >= 2) & (value <= LARGEST_VOCABULARY),
    "V counts the tokens; the only token of a vocabulary of 1 needs no message",
    kind="integer",
)
TOLERANCE = not_negative("the certified bias is a distance from 0 to 2, such as 0.05")
CHUNK = 512
"""Candidates and sizes that are compared at a time."""


@dataclass(frozen=True, slots=True)
class CodecChoice:
    """The codec of each row: its place in ``CODEC_KINDS``, k tokens, b or ℓ, whether the rest has units, bits and bias.

    The bits are those of the row with its kind, k and parameter, without the draft token and its probability. The bias
    is 2 TV(q, q̂) of the levels or counts that are written, rounded up.
    """

    kind: Array
    k: Array
    parameter: Array
    mixture: Array
    bits: Array
    bias: Array


def cheapest_codec(draft: Array, bias_tolerance: Array, *, menu: CodecMenu | None = None) -> CodecChoice:
    """The codec of the fewest bits with a certified bias of at most ε, for each row.

    Parameters
    ----------
    draft : array, shape (..., V)
        Distributions over the vocabulary, V from 2 to 262,144.
    bias_tolerance : array, shape (...) or broadcastable to it
        ε, 0 or more: the largest Σ_v |law_v - p_v| of the emitted token, whatever the target is.
    menu : CodecMenu, optional
        What may be chosen. None: the default menu.

    Returns
    -------
    CodecChoice
        Of equal bits, a lattice before top-k, and a lattice before a mixture.

    Raises
    ------
    ValueError
        If a row is not a distribution, V is out of range, ε is negative or not finite, or nothing on the menu meets it.

    Notes
    -----
    The certificate holds for drafts from q that are accepted by the exact q_d (``truncation.any_codec``), and also by
    the decoded q̂_d, since the row does not depend on the draft (``truncation.decoded_acceptance``). If the device draws
    from q̂ instead, as in c-sqs, the law is exact and half of this bias bounds the loss of acceptance.

    Examples
    --------
    >>> found = cheapest_codec([[0.9, 0.1, 0.0, 0.0], [0.4, 0.3, 0.2, 0.1]], 0.1)
    >>> [KINDS[kind] for kind in found.kind], found.k.tolist(), found.parameter.tolist(), found.bits.tolist()
    (['lattice', 'lattice'], [2, 4], [7, 10], [16, 23])
    """
    xp, given, epsilon = arrays("bias_tolerance", draft=draft, bias_tolerance=bias_tolerance)
    epsilon = TOLERANCE.check(xp, "bias_tolerance", epsilon)
    menu = CodecMenu() if menu is None else instance("menu", menu, CodecMenu)
    rows = canonical("draft", given)
    number(VOCABULARY, "the vocabulary of draft", rows.shape[-1])
    limits = to_numpy(in_kind(xp, epsilon, xp.float64))
    batch = leading_dimensions(draft=rows.shape[:-1], bias_tolerance=limits.shape)
    found = {place: _cheapest(row, limit, place, menu) for place, row, limit in _by_row(rows, limits, batch)}
    return _stacked(xp, [found[place] for place in range(len(found))], batch, given)


def _by_row(
    rows: NDArray[np.float64], limits: NDArray[np.float64], batch: tuple[int, ...]
) -> Iterator[tuple[int, rounding.SortedRow, float]]:
    """Yield each place of the batch with its row and ε, grouped by row, so that a row is sorted once."""
    flat = rows.reshape(-1, rows.shape[-1])
    row_of = np.broadcast_to(np.arange(len(flat)).reshape(rows.shape[:-1]), batch).reshape(-1)
    wanted = np.broadcast_to(limits, batch).reshape(-1)
    for index in range(len(flat)):
        row = rounding.SortedRow.of(flat[index])
        for place in np.flatnonzero(row_of == index).tolist():
            yield place, row, float(wanted[place])


def _stacked(xp: Any, found: list[Found], batch: tuple[int, ...], given: Array) -> CodecChoice:
    """The choices as arrays of the caller's library."""
    columns = list(zip(*found, strict=True)) if found else [()] * len(Found._fields)
    kind, *rest, bias = columns
    whole = [np.asarray([KINDS.index(name) for name in kind], dtype=np.int64)]
    whole += [np.asarray(column, dtype=np.int64) for column in rest]
    kinds, sizes, parameters, mixture, bits = (
        xp.asarray(array.reshape(batch), device=device(given)) for array in whole
    )
    certified = xp.asarray(np.asarray(bias, dtype=np.float64).reshape(batch), device=device(given))
    return CodecChoice(
        kinds, sizes, parameters, xp.astype(mixture, xp.bool), bits, upward(xp, certified, widest(xp, given))
    )


def _cheapest(row: rounding.SortedRow, limit: float, index: int, menu: CodecMenu) -> Found:
    """The cheapest entry of the menu for one row."""
    entries = candidates(row.vocabulary, menu)
    best = _least_lattice(row, limit, entries)
    if TOP_K in menu.kinds:
        best = _least_top_k(row, limit, menu.widths, best) or best
    if best is None:
        raise DomainError(
            f"bias_tolerance must be one that the menu can meet; got {limit:g} at row {index} of the batch, and "
            "nothing on the menu does; allow more bits (widths), or larger sizes and resolutions"
        )
    return best


def _least_lattice(row: rounding.SortedRow, limit: float, entries: Candidates) -> Found | None:
    """The first certified lattice or mixture, by ascending bits."""
    bounds = rounding.Bounds(row)
    for start in range(0, len(entries.bits), CHUNK):
        place = np.arange(start, min(start + CHUNK, len(entries.bits)))
        for bound in (rounding.least_distance, lambda _, *values: bounds.distances(*values)):  # the quick one first
            values = entries.size[place], entries.resolution[place], entries.mixture[place]
            place = place[2.0 * bound(row, *values) <= limit] if len(place) else place
        for n in place.tolist():
            size, resolution, mixture = (int(value[n]) for value in (entries.size, entries.resolution, entries.mixture))
            bias = certified(row, rounding.rounding(row, size, resolution, mixture=bool(mixture)).distance)
            if bias <= limit:
                kind = MIXTURE if mixture else LATTICE
                return Found(kind, size, resolution, bool(mixture), int(entries.bits[n]), bias)
    return None


def _least_top_k(row: rounding.SortedRow, limit: float, widths: tuple[int, ...], best: Found | None) -> Found | None:
    """The cheapest top-k with fewer bits than the best so far; for each b, its smallest certified k."""
    found: Found | None = None
    first = _first_size(row, limit)
    for width in widths:
        cap = found.bits if found else best.bits if best else None
        most = row.vocabulary if cap is None else _last_size(row.vocabulary, width, cap)
        losses = rounding.top_k_losses(row, most, width)
        for sizes in _sizes_in_turn(row, first, most, losses, limit):
            distance = rounding.top_k_distance(row, sizes, losses)
            good = np.flatnonzero(2.0 * (distance + row.slack) <= limit)
            if len(good):
                size = int(sizes[good[0]])
                bits = int(top_k_bits(row.vocabulary, np.asarray(size), width))
                found = Found(TOP_K, size, width, True, bits, certified(row, float(distance[good[0]])))
                break
    return found


def _sizes_in_turn(
    row: rounding.SortedRow, first: int, most: int, losses: NDArray[np.float64], limit: float
) -> Iterator[NDArray[np.int64]]:
    """The sizes that may be certified, in ascending chunks, each twice as long as the one before."""
    last = min(most, row.vocabulary - 1, int(np.searchsorted(losses, limit / 2.0 + row.slack, side="right")))
    start, step = first, CHUNK
    while start <= last:
        yield np.arange(start, min(start + step, last + 1))
        start, step = start + step, 2 * step
    if most == row.vocabulary:
        yield np.asarray([most])


def _last_size(vocabulary: int, width: int, cap: int) -> int:
    """The largest k whose bits are below ``cap``, or -1."""
    size = min(vocabulary, cap // (width + (vocabulary - 1).bit_length()))
    while size >= 0 and int(top_k_bits(vocabulary, np.asarray(size), width)) >= cap:
        size -= 1  # at most a few steps: what is not in proportion to k is some 40 bits
    return size


def _first_size(row: rounding.SortedRow, limit: float) -> int:
    """The smallest k whose Δ_k without rounding of the values is within the limit; rounding never lowers it."""
    low, high = 0, row.vocabulary
    while low < high:
        middle = (low + high) // 2
        fits = 2.0 * (float(row.flat_rest(np.asarray(middle))) - row.slack) <= limit
        low, high = (low, middle) if fits else (middle + 1, high)
    return low
