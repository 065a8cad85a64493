"""Supports, counts and allocations: the arithmetic behind :mod:`hlmtheory.lattice`, with that module's notation."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory._array import NUMPY, Array, arrays, sort_descending, tail_sums, take, to_numpy
from hlmtheory._combinatorics import ceil_log2, log2_binomial
from hlmtheory._domains import Domain, DomainError, leading_dimensions
from hlmtheory._remember import remembered
from hlmtheory._simplex import distributions, largest

LARGEST_RESOLUTION = 2**24
"""The largest ℓ, which :mod:`hlmtheory.codec` can send. Its ℓ·V roundings are far below 1, so counts sum to ℓ."""

SLACK_BITS = 1e-9
"""The largest error of a number of bits computed in float64; a budget may be exceeded by this much."""

REMEMBERED_BUDGETS = 4
"""Calls with more budgets than this are not cached, so the cache holds at most 32 rows of V whole numbers."""

RESOLUTION = Domain(
    f"a whole number in 1..{LARGEST_RESOLUTION:,}",
    lambda xp, value: (value >= 1) & (value <= LARGEST_RESOLUTION),
    "ℓ is the number of units that the probability 1 is divided into, such as 100",
    kind="integer",
)
SIZE = Domain(
    "a whole number, 1 or more",
    lambda xp, value: value >= 1,
    "K counts the tokens that are kept; an empty support leaves no distribution",
    kind="integer",
)
BUDGET = Domain(
    "positive and finite", lambda xp, value: (value > 0) & xp.isfinite(value), "give the bits that the link may carry"
)


@dataclass(frozen=True, slots=True)
class Allocation:
    """A support size K and resolution ℓ for each row, with payload in bit and distortion.

    The distortion is the dropped mass plus the sharp bound on the rounding, rounded up: TV(q, q̂) is at most this.
    """

    k: Array
    resolution: Array
    bits: Array
    distortion: Array


def size_within(vocabulary: int) -> Domain:
    """K of a row: 1..V."""
    return Domain(
        f"a whole number in 1..V with V = {vocabulary}",
        lambda xp, value: (value >= 1) & (value <= vocabulary),
        "K counts the tokens of a row that are kept",
        kind="integer",
    )


def row_and_size(draft: Array, k: Array) -> tuple[Any, Array, Array]:
    """The namespace, q in float64 and K (..., 1), both broadcast to one batch."""
    xp, draft, k = arrays(draft=draft, top_k=k)
    _, _, q = distributions(draft=draft)
    k = size_within(q.shape[-1]).check(xp, "top_k", k)
    batch = leading_dimensions(draft=tuple(q.shape[:-1]), top_k=tuple(k.shape))
    return xp, xp.broadcast_to(q, (*batch, q.shape[-1])), xp.broadcast_to(k, batch)[..., None]


def sizes(k: Array, resolution: Array) -> tuple[Any, Array, Array]:
    """The namespace, K and ℓ as int64, each 1 or more."""
    xp, size, units = arrays(top_k=k, resolution=resolution)
    size, units = SIZE.check(xp, "top_k", size), RESOLUTION.check(xp, "resolution", units)
    leading_dimensions(top_k=tuple(size.shape), resolution=tuple(units.shape))
    return xp, size, units


def refuse_more_than_positive(xp: Any, q: Array, k: Array) -> None:
    """Refuse a K for which the support would hold tokens of probability 0."""
    positive = xp.count_nonzero(q > 0, axis=-1, keepdims=True)
    if bool(xp.any(k > positive)):
        stray = int(xp.argmax(xp.reshape(k - positive, (-1,))))
        asked, held = (int(xp.reshape(value, (-1,))[stray]) for value in (k, positive))
        raise DomainError(
            f"top_k must be at most the number of non-zero probabilities; got {asked} for a row with {held}; "
            "keep fewer tokens: one of probability 0 is never drawn"
        )


@remembered
def kept_part(xp: Any, q: Array, support: Array) -> tuple[Array, Array]:
    """q̄, the kept part of q over its mass, and the dropped mass; q̄ is zero where nothing is kept."""
    kept = xp.where(support, q, 0.0)
    mass = xp.sum(kept, axis=-1, keepdims=True)
    return kept / xp.where(mass > 0, mass, 1.0), xp.sum(xp.where(support, 0.0, q), axis=-1)


def rounded(xp: Any, row: Array, support: Array, resolution: Array) -> Array:
    """Counts of the lattice point nearest to the row."""
    # Step 1: round ℓ·row down
    scaled = row * xp.astype(resolution, xp.float64)
    floor = xp.floor(scaled)
    # Step 2: give the missing units to the largest remainders
    missing = resolution - xp.astype(xp.sum(floor, axis=-1, keepdims=True), xp.int64)
    up = largest(xp, xp.where(support, scaled - floor, -1.0), missing)
    return xp.astype(floor, xp.int64) + xp.astype(up, xp.int64)


def log2_payload(xp: Any, vocabulary: Array, k: Array, resolution: Array, *, adaptive: bool) -> Array:
    """Bits of the support, of the counts and, if it varies, of the support's size: c-sqs (1)."""
    v, size, units = (xp.astype(value, xp.float64) for value in (vocabulary, k, resolution))
    bits = log2_binomial(xp, v, size) + log2_binomial(xp, units + size - 1.0, size - 1.0)  # (5) + (2)
    return bits + xp.astype(ceil_log2(xp, vocabulary), xp.float64) if adaptive else bits


def sharp_distortion(xp: Any, k: Array, resolution: Array) -> Array:
    """i(K - i)/(Kℓ), i = min(ℓ, ⌊K/2⌋), in float64."""
    up = xp.minimum(resolution, k // 2)
    up, size, units = (xp.astype(value, xp.float64) for value in (up, k, resolution))
    return up * (size - up) / (size * units)


def finest_resolutions(xp: Any, vocabulary: int, budget: Array, *, adaptive: bool) -> Array:
    """For each K = 1..V the largest ℓ whose payload is within the budget (...), or 0; shape (..., V)."""
    budgets, place = np.unique(to_numpy(budget), return_inverse=True)
    find = _remembered if budgets.size <= REMEMBERED_BUDGETS else _finest
    table = find(vocabulary, tuple(budgets.tolist()), adaptive)
    return xp.asarray(table[place.reshape(budget.shape)], device=budget.device)  # a copy of the cached table


def _finest(vocabulary: int, budgets: tuple[float, ...], adaptive: bool) -> NDArray[np.int64]:
    """A read-only row (V,) of resolutions for each budget, by bisection on ℓ: the payload rises with ℓ."""
    k = np.arange(1, vocabulary + 1)
    allowed = np.asarray(budgets)[:, None] + SLACK_BITS
    low = np.zeros((len(budgets), vocabulary), dtype=np.int64)
    high = low + LARGEST_RESOLUTION
    while (low < high).any():
        middle = (low + high + 1) // 2
        fits = log2_payload(NUMPY, np.full_like(k, vocabulary), k, middle, adaptive=adaptive) <= allowed
        low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
    low.flags.writeable = False
    return low


_remembered = lru_cache(maxsize=8)(_finest)


def best_allocation(xp: Any, q: Array, budget: Array, *, adaptive: bool) -> Allocation:
    """The smallest K that, with its finest ℓ, minimises dropped mass plus sharp distortion."""
    # Step 1: the finest ℓ of each K
    vocabulary = q.shape[-1]
    finest = finest_resolutions(xp, vocabulary, budget, adaptive=adaptive)
    k = xp.arange(1, vocabulary + 1, dtype=xp.int64, device=q.device)
    fits = finest >= 1
    finest = xp.where(fits & (k > 1), finest, 1)  # one token has all ℓ units, whatever ℓ is
    # Step 2: dropped mass and distortion of each K
    dropped = tail_sums(xp, sort_descending(xp, q))[..., 1:]
    positive = xp.count_nonzero(q > 0, axis=-1, keepdims=True)
    total = xp.where(fits & (k <= positive), dropped + sharp_distortion(xp, k, finest), xp.inf)
    # Step 3: the smallest, with its bits
    best = xp.argmin(total, axis=-1, keepdims=True)
    chosen = take(xp, xp.broadcast_to(finest, total.shape), best)[..., 0]
    size = best[..., 0] + 1
    bits = log2_payload(xp, xp.full_like(size, vocabulary), size, chosen, adaptive=adaptive)
    most = take(xp, total, best)[..., 0]
    return Allocation(size, chosen, bits, most + (vocabulary + 8) * 2.0**-52 * most)
