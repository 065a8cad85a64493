"""Sides of the theorems on two tokenizers."""

from hlmtheory._array import Array
from hlmtheory._simplex import distributions
from hlmtheory.verification import output_distribution
from hlmtheory.vocabulary.intersection import on_support


def mass_side(row: Array, support: Array) -> Array:
    """Return the mass of a row on A, added token by token."""
    xp, _, inside, _, _ = on_support(row, support)
    return xp.sum(inside, axis=-1)


def whole(target: Array, draft: Array) -> Array:
    xp, _, p, q = distributions(target=target, draft=draft)
    return xp.sum(xp.minimum(p, q), axis=-1)


def law_side(target: Array, draft: Array, support: Array) -> Array:
    """Return the law of the emitted token; p where q has no mass on A, so that the row is a distribution."""
    xp, _, p, _ = distributions(target=target, draft=draft)
    _, _, _, mass, kept = on_support(draft, support)
    return output_distribution(p, xp.where(mass[..., None] > 0, kept, p))
