"""The certified codes of one row that a device may choose from: the lower hull of (bits, risk) over a menu."""

from __future__ import annotations

import numpy as np

from hlmtheory.codec import CodecChoice, CodecMenu
from hlmtheory.codec.menu import KINDS, LATTICE, MIXTURE, TOP_K, candidates, grid, top_k_bits
from hlmtheory.codec.rounding import (
    SortedRow,
    certified,
    least_distance,
    rounding,
    top_k_distance,
    top_k_losses,
)
from hlmtheory.policy.costs import Numbers
from hlmtheory.policy.hulls import Hulls, hull

CHUNK = 256
"""Candidates whose lower bounds are computed at a time."""

Columns = tuple[int, int, int, bool, int, float]


def row_hulls(draft: Numbers, menu: CodecMenu) -> Hulls:
    """The lower hull of one canonical row (V,): top-k at the menu's sizes and widths, and its lattices and mixtures."""
    row = SortedRow.of(draft)
    found = [*_top_k(row, menu), *_lattices(row, menu)]
    kind, k, parameter, mixture, bits, bias = (np.asarray(column) for column in zip(*found, strict=True))
    cost = bits.astype(np.float64)
    corners = hull(cost, bias / 2.0)
    choice = CodecChoice(kind[corners], k[corners], parameter[corners], mixture[corners], bits[corners], bias[corners])
    start = np.asarray([0, len(corners)], dtype=np.int64)
    return Hulls(start, cost[corners], bias[corners] / 2.0, corners, choice)


def _top_k(row: SortedRow, menu: CodecMenu) -> list[Columns]:
    if TOP_K not in menu.kinds:
        return []
    found: list[Columns] = []
    sizes = np.unique(np.append(grid(row.vocabulary, menu)[0], 0))
    for width in menu.widths:
        distances = top_k_distance(row, sizes, top_k_losses(row, int(sizes[-1]), width))
        bits = top_k_bits(row.vocabulary, sizes, width)
        found += [
            (KINDS.index(TOP_K), size, width, True, cost, certified(row, distance))
            for size, cost, distance in zip(sizes.tolist(), bits.tolist(), distances.tolist(), strict=True)
        ]
    return found


def _lattices(row: SortedRow, menu: CodecMenu) -> list[Columns]:
    """The lattices and mixtures, by rising bits, that are better than all before them."""
    entries, best, found = candidates(row.vocabulary, menu), np.inf, []
    for start in range(0, len(entries.bits), CHUNK):
        place = np.arange(start, min(start + CHUNK, len(entries.bits)))
        bound = 2.0 * least_distance(row, entries.size[place], entries.resolution[place], entries.mixture[place])
        for n in place[bound < best].tolist():
            size, units, mixture = int(entries.size[n]), int(entries.resolution[n]), bool(entries.mixture[n])
            bias = certified(row, rounding(row, size, units, mixture=mixture).distance)
            if bias < best:
                kind = KINDS.index(MIXTURE if mixture else LATTICE)
                best = bias
                found.append((kind, size, units, mixture, int(entries.bits[n]), bias))
    return found
