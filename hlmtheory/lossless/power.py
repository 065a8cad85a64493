"""How much a number of draws can show: the smallest distance that is found, and an upper bound on the distance."""

from __future__ import annotations

import math

import numpy as np

from hlmtheory._array import Array
from hlmtheory._domains import COUNT, SIMPLEX, DomainError, number, numbers
from hlmtheory._quantities import open_unit, whole_from_one
from hlmtheory.lossless.evidence import DOMAINS

_DRAWS = whole_from_one("count the draws")
_TESTS = whole_from_one("count the test functions")
_POWER = open_unit("the probability that the distance is found, such as 0.9")
_DISTANCE = open_unit("a total variation, such as 0.01")
_CELLS = whole_from_one("count the cells")


def distance_ceiling(counts: Array, target: Array, error: float) -> float:
    """Return an upper bound on the total variation between a sampler's law on cells and the target's.

    The draws of a prompt are independent and have one law. Over C prompts the distance is the mean, weighted by their
    numbers of draws. With n_c draws of prompt c and n in all,
    TV(Q, P) ≤ TV(Q̂, P) + Σ_c (n_c/n) √(m_c/n_c)/2 + √(log(1/δ)/(2n)), where m_c + 1 is the number of cells.

    Parameters
    ----------
    counts : integer array, shape (C, m) or (m,)
        Draws of each prompt in each cell.
    target : array, shape (C, m) or (m,)
        The target's probability of each cell; a row may end in zeros.
    error : float
        δ in (0, 1).

    Returns
    -------
    float
        In [0, 1], rounded up. It exceeds the distance with probability 1 - δ or more, at one number of draws.

    Raises
    ------
    ValueError
        If a count is negative, a row is no distribution, or the shapes differ.

    Examples
    --------
    >>> round(distance_ceiling([50_100, 49_900], [0.5, 0.5], error=0.001), 4)
    0.0085
    """
    n = numbers(COUNT, "counts", counts).astype(np.float64)
    p = numbers(SIMPLEX, "target", target)
    delta = number(DOMAINS["error"], "error", error)
    if n.shape != p.shape or n.ndim > 2:
        raise DomainError(f"counts and target must share the shape (C, m); got {n.shape} and {p.shape}")
    n, p = np.atleast_2d(n), np.atleast_2d(p)
    draws = n.sum(axis=-1)
    total = draws.sum()
    if total == 0:
        return 1.0
    n, p, draws = n[draws > 0], p[draws > 0], draws[draws > 0]
    apart = 0.5 * np.abs(n - draws[:, None] * p).sum() / total
    cells = np.count_nonzero((n > 0) | (p > 0), axis=-1)
    del cells
    spread = 0.5 * (draws / total * np.sqrt((n.shape[-1] - 1) / draws)).sum()
    return float(min(1.0, (apart + spread + math.sqrt(-math.log(delta) / (2.0 * total))) * (1.0 + 2.0**-40)))
