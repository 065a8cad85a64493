"""Draw a token from a distribution or a residual on the host, by a given random generator."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hlmtheory._array import Array
from hlmtheory._domains import DomainError
from hlmtheory._simplex import canonical

BRANCHES = 64
"""Number of parts from which one random number chooses."""


def numbers_for(vocabulary: int) -> int:
    """How many random numbers a token takes: the smallest n with ``BRANCHES``ⁿ ≥ V."""
    count = 1
    while BRANCHES**count < vocabulary:
        count += 1
    return count


def drawn(row: NDArray[np.float64], rng: np.random.Generator) -> int:
    """Draw a token from a row (V,) of non-negative numbers with a positive sum; one of 0 is never drawn.

    By blocks of tokens, each with a number of its own, so that a last digit of the row changes the token less often.
    """
    cumulative, size = np.cumsum(row), len(row)
    uniform = rng.random((numbers_for(size),))
    lower, first = 0.0, 0  # of the block
    for level in reversed(range(len(uniform))):
        step = BRANCHES**level
        count = min(BRANCHES, -(-size // step))
        ends = np.minimum(first + np.arange(step - 1, count * step, step), size - 1)
        edges = cumulative[ends]
        upper = float(edges[-1])
        aim = min(lower + float(uniform[level]) * (upper - lower), float(np.nextafter(upper, 0.0)))  # it may round up
        part = min(int(np.searchsorted(edges, aim, side="right")), count - 1)
        lower = float(edges[part - 1]) if part else lower
        first = min(first + part * step, size - 1)
    return first


def replacement(target: Array, known: NDArray[np.float64], rng: np.random.Generator) -> int:
    """A token from the residual (p - q̂)⁺, or from p if it is 0."""
    p: NDArray[np.float64] = canonical("target", target)
    if p.shape != known.shape:
        raise DomainError(f"target must have shape {known.shape}; got {p.shape}; give one distribution")
    residual = np.maximum(p - known, 0.0)
    return drawn(residual if residual.max() > 0 else p, rng)
