"""The lower hulls of certified messages of many draft rows: a small menu, computed for all rows together.

Each entry is rounded exactly, by the arithmetic of :mod:`hlmtheory.codec.rounding`; its bits are the same for all rows.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hlmtheory._array import NUMPY, Array, tail_sums
from hlmtheory._domains import DomainError, instance
from hlmtheory._simplex import canonical
from hlmtheory.codec import CodecMenu
from hlmtheory.codec.menu import candidates, grid, top_k_bits
from hlmtheory.codec.messages import KINDS, LATTICE, MIXTURE, TOP_K
from hlmtheory.codec.selection import CodecChoice
from hlmtheory.policy.costs import Integers, Numbers
from hlmtheory.policy.hulls import Hulls
from hlmtheory.truncation.levels import levels_of, slack, values_of

_BLOCK = 64  # rows that are rounded together
_LARGEST, _FINEST = 2**12, 2**19  # K and ℓ of the menu
_DENSE = 16  # K up to which all resolutions, and lattices, are tried
_NEAR, _FAR = 0.7, 200.0  # ℓ/K of the menu: others are hardly ever corners


class Entries(NamedTuple):
    """The entries of a menu by ascending bits; the columns of the tables below."""

    kind: Integers
    k: Integers
    parameter: Integers
    mixture: NDArray[np.bool_]
    bits: Integers


def codec_hulls(draft: Array, *, menu: CodecMenu | None = None) -> Hulls:
    """Return the lower hulls of the certified messages of draft rows, with ``codec``; the risk is half of the bias.

    Parameters
    ----------
    draft : array, shape (N, V)
        Distributions over the vocabulary, V from 2 to 262,144. Memory is that of a few rows besides these.
    menu : CodecMenu, optional
        Messages to choose from. None: mixtures and lattices with two sizes K an octave up to 4,096
        and one resolution ℓ from 0.7 K to 200 K, and top-k.

    Returns
    -------
    Hulls
        C corners of all N positions, shape (C,): bits ascend and the risk falls within a position.

    Raises
    ------
    ValueError
        If a row is not a distribution, the shape is not (N, V), or the menu has no entry.

    Examples
    --------
    >>> found = codec_hulls([[0.5, 0.25, 0.125, 0.125]])
    >>> found.bits.tolist()[:2], found.risk.round(3).tolist()[:2], found.codec.k.tolist()[:2]
    ([6.0, 10.0], [0.5, 0.083], [1, 1])
    """
    rows = canonical("draft", draft)
    if rows.ndim != 2 or not len(rows):
        raise DomainError(f"draft must have shape (N, V); got {rows.shape}; give one row for each position")
    known = entries(rows.shape[-1], None if menu is None else instance("menu", menu, CodecMenu))
    parts = [_hulls(_distances(rows[n : n + _BLOCK], known), known.bits) for n in range(0, len(rows), _BLOCK)]
    count, entry, risk = (np.concatenate([part[n] for part in parts]) for n in range(3))
    start = np.concatenate(([0], np.cumsum(count)))
    kind, k, parameter, mixture, bits = (column[entry] for column in known)
    return Hulls(
        start, bits.astype(np.float64), risk, entry, CodecChoice(kind, k, parameter, mixture, bits, 2.0 * risk)
    )


@lru_cache(maxsize=16)
def entries(vocabulary: int, menu: CodecMenu | None) -> Entries:
    """All entries of a menu for a vocabulary."""
    made = _default(vocabulary) if menu is None else menu
    some = candidates(vocabulary, made)
    keep = np.ones(len(some.bits), dtype=bool)
    if menu is None:
        ratio = some.resolution / some.size
        keep = (ratio >= _NEAR) & (ratio <= _FAR) & (some.mixture | (some.size <= _DENSE))
        # Of large sizes, each with every second resolution: the neighbours in the hull have the others
        octave = np.round(2.0 * np.log2(some.size)) + np.round(np.log2(some.resolution))
        keep &= (some.size <= _DENSE) | (octave % 2 == 0)
    kind = np.where(some.mixture, KINDS.index(MIXTURE), KINDS.index(LATTICE))
    parts = [np.stack([kind, some.size, some.resolution, some.mixture, some.bits])[:, keep]]
    if TOP_K in made.kinds:
        sizes = np.concatenate(([0], grid(vocabulary, made)[0]))
        if menu is None:
            sizes = sizes[(sizes == 0) | (sizes >= _LARGEST // 8)]
        for width in made.widths:
            bits = top_k_bits(vocabulary, sizes, width)
            same = np.zeros_like(sizes)
            parts.append(np.stack([same + KINDS.index(TOP_K), sizes, same + width, same + 1, bits]))
    table = np.concatenate(parts, axis=1)
    if not table.size:
        raise DomainError("menu must hold a message; got none that can be written; give smaller sizes or resolutions")
    kind, k, parameter, mixture, bits = table[:, np.argsort(table[-1], kind="stable")]
    return Entries(kind, k, parameter, mixture.astype(bool), bits)


def _default(vocabulary: int) -> CodecMenu:
    largest = min(vocabulary, _LARGEST)
    sizes = np.unique(np.floor(2.0 ** (np.arange(0, 2 * np.log2(largest) + 1) / 2.0)).astype(int))
    sizes = np.unique(np.concatenate([sizes, [largest], np.minimum(vocabulary, largest * 2 ** np.arange(7))]))
    resolutions = tuple(2**n for n in range(_FINEST.bit_length()))
    return CodecMenu(
        kinds=(TOP_K, LATTICE, MIXTURE), widths=(20,), sizes=tuple(sizes.tolist()), resolutions=resolutions
    )


def _distances(rows: Numbers, known: Entries) -> Numbers:
    """Half of the certified bias of each entry for each row, shape (n, J)."""
    ordered = -np.sort(-rows, axis=1)
    tails = tail_sums(NUMPY, ordered)
    found = np.empty((len(rows), len(known.bits)))
    level = np.empty_like(found)  # of the even rest
    top = known.kind == KINDS.index(TOP_K)
    for j in np.flatnonzero(~top).tolist():
        found[:, j], level[:, j] = _rounded(ordered, tails, int(known.k[j]), int(known.parameter[j]), known.mixture[j])
    for width in np.unique(known.parameter[top]).tolist():
        columns = np.flatnonzero(top & (known.parameter == width))
        found[:, columns], level[:, columns] = _levelled(ordered, tails, known.k[columns], width)
    found += _rest(ordered, tails, np.where(known.mixture, known.k, 0), level) * known.mixture
    certain = (ordered[:, 0] == 1.0) & (np.count_nonzero(ordered, axis=1) == 1)
    found += np.where(certain, 0.0, slack(rows.shape[1]))[:, None]
    return np.minimum(found, 1.0)


def _rounded(
    ordered: Numbers, tails: Numbers, size: int, resolution: int, mixture: np.bool_
) -> tuple[Numbers, Numbers]:
    """What the K largest entries lose, or all if the rest is 0, and the level of the rest: as in ``codec.rounding``."""
    tail, others = tails[:, size], ordered.shape[1] - size
    spread = np.floor(resolution * tail) if mixture else np.zeros(len(tail))
    scaled = resolution * ordered[:, :size]
    whole = np.floor(scaled)
    remainders = scaled - whole
    up = np.minimum(resolution - spread - whole.sum(axis=1), size).astype(np.int64)
    sums = np.cumsum(-np.sort(-remainders, axis=1), axis=1)
    filled = np.where(up > 0, np.take_along_axis(sums, np.maximum(up - 1, 0)[:, None], axis=1)[:, 0], 0.0)
    lost = np.maximum(sums[:, -1] - filled, 0.0) / resolution
    return lost if mixture else lost + tail, spread / resolution / max(others, 1)


def _levelled(ordered: Numbers, tails: Numbers, sizes: Integers, width: int) -> tuple[Numbers, Numbers]:
    """E_k of the k largest entries at b bits, and the mean of the rest: as in ``codec.rounding``."""
    vocabulary = ordered.shape[1]
    most = int(sizes.max())
    each = ordered[:, :most] - values_of(levels_of(ordered[:, :most], width), width)
    losses = np.concatenate([np.zeros((len(ordered), 1)), np.cumsum(each, axis=1)], axis=1)
    lost = losses[:, sizes]
    level = (tails[:, sizes] + lost) / np.maximum(vocabulary - sizes, 1)
    if most == vocabulary:  # what is lost is then spread over all of them
        spread = np.maximum(each - each.mean(axis=1, keepdims=True), 0.0).sum(axis=1)
        lost[:, sizes == vocabulary] = spread[:, None]
    return lost, level


def _rest(ordered: Numbers, tails: Numbers, sizes: Integers, level: Numbers) -> Numbers:
    last = np.stack([np.searchsorted(-row, -one, side="left") for row, one in zip(ordered, level, strict=True)])
    last = np.maximum(last, sizes)
    found = tails[:, sizes] - np.take_along_axis(tails, last, axis=1) - (last - sizes) * level
    return np.asarray(np.maximum(found, 0.0))


def _hulls(risk: Numbers, bits: Integers) -> tuple[Integers, Integers, Numbers]:
    """Corners of each row's hull: their number, their entries and their risks; all rows take a step at a time."""
    price = bits.astype(np.float64)
    least = price == price[0]
    here = np.argmin(np.where(least, risk, np.inf), axis=1)
    place = np.arange(len(risk))
    found, moving = [(place, here.copy())], place
    while len(moving):
        now = here[moving]
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = (risk[moving, now][:, None] - risk[moving]) / (price - price[now][:, None])
        slope[price <= price[now][:, None]] = -np.inf
        best = slope.shape[1] - 1 - np.argmax(slope[:, ::-1], axis=1)  # of equal slopes the most bits
        falls = slope[np.arange(len(moving)), best] > 0
        moving, best = moving[falls], best[falls]
        here[moving] = best
        found.append((moving, best))
    rows, entry = (np.concatenate([one[n] for one in found]) for n in range(2))
    order = np.argsort(rows, kind="stable")
    rows, entry = rows[order], entry[order]
    return np.bincount(rows, minlength=len(risk)), entry, risk[rows, entry]
