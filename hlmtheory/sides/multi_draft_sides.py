"""Sides of the theorems on several drafts of one position."""

from collections.abc import Callable, Iterator
from typing import Any

from hlmtheory._array import Array
from hlmtheory.verification.multi_draft import checked_rows, sure_and_drawn


def subsets(xp: Any, size: int, like: Array) -> Iterator[Array]:
    """Yield a mask (V,) of each set of tokens."""
    for number in range(2**size):
        yield xp.asarray([bool(number >> v & 1) for v in range(size)], device=like.device)


def counted(xp: Any, n: Array) -> range:
    """Return 0, 1, .. for the largest number of drafts."""
    return range(int(xp.max(n)) if 0 not in n.shape else 0)


def _least_cut(xp: Any, p: Array, n: Array, within: Callable[[Array], Array]) -> Array:
    """Return the least of 1 and 1 + p(H) - P(A ⊆ H) over all sets H; ``within`` returns P(A ⊆ H)."""
    best = xp.ones_like(n)
    for inside in subsets(xp, p.shape[-1], p):
        best = xp.minimum(best, 1.0 + xp.sum(xp.where(inside, p, 0.0), axis=-1) - within(inside))
    return best


def independent_cut(target: Array, draft: Array, draft_count: Array) -> Array:
    """Return the least cut over all sets H, with P(A ⊆ H) = q(H)ⁿ multiplied out."""
    xp, _, p, q, n = checked_rows(target, draft, draft_count)

    def within(inside: Array) -> Array:
        mass, found = xp.sum(xp.where(inside, q, 0.0), axis=-1), xp.ones_like(n)
        for number in counted(xp, n):
            found = xp.where(n > number, found * mass, found)
        return found

    return _least_cut(xp, p, n, within)


def top_cut(target: Array, draft: Array, draft_count: Array) -> Array:
    """Return the least cut over all sets H, with P(A ⊆ H) summed over the drawn draft."""
    xp, _, p, q, n = checked_rows(target, draft, draft_count)
    p, sure, last = sure_and_drawn(xp, p, q, n)
    alone = ~xp.any(last > 0, axis=-1)  # nothing is left to draw

    def within(inside: Array) -> Array:
        drawn = xp.where(alone, 1.0, xp.sum(xp.where(inside, last, 0.0), axis=-1))
        return xp.where(xp.all(inside | ~sure, axis=-1), drawn, 0.0)

    return _least_cut(xp, p, n, within)
