"""Bits of quantised rows, and the best use of a budget: the functions of :mod:`hlmtheory.lattice` about payload."""

import math
from typing import Any

from hlmtheory._array import Array, arrays, every
from hlmtheory._combinatorics import about_log2, lattice_points
from hlmtheory._domains import DomainError, flag, leading_dimensions, number
from hlmtheory._simplex import distributions
from hlmtheory.lattice import arithmetic

LONGEST_EXACT = 2**18
"""The longest payload, in bit, computed from binomials as whole numbers: a longer one takes seconds."""


def payload_bits(vocabulary: Array, top_k: Array, resolution: Array, *, adaptive: bool = False) -> Array:
    """Bits of a quantised row: log₂C(V, K) + log₂C(ℓ + K - 1, K - 1), plus ⌈log₂V⌉ if K varies.

    Parameters
    ----------
    vocabulary, top_k, resolution : integer arrays, shape (...)
        V, K ≤ V and ℓ, 1 or more.
    adaptive : bool
        Whether K is sent too, as C-SQS needs.

    Returns
    -------
    float64 array, shape (...)
        c-sqs (1), (2), (5), in bit, to 1e-9; without the drawn token.

    Raises
    ------
    ValueError
        If V, K or ℓ is below 1 or not an integer, or K > V.

    Examples
    --------
    >>> payload_bits(4096, [1, 64, 512], 100).round(1).tolist()
    [12.0, 624.2, 2609.1]
    """
    xp, size, units = arithmetic.sizes(top_k, resolution)
    xp, vocabulary, size, units = arrays(vocabulary=vocabulary, top_k=size, resolution=units)
    vocabulary = arithmetic.SIZE.check(xp, "vocabulary", vocabulary)
    leading_dimensions(vocabulary=tuple(vocabulary.shape), top_k=tuple(size.shape), resolution=tuple(units.shape))
    _refuse_more_than_vocabulary(xp, vocabulary, size)
    adaptive = flag("adaptive", adaptive)
    return arithmetic.log2_payload(xp, *xp.broadcast_arrays(vocabulary, size, units), adaptive=adaptive)


def exact_payload_bits(vocabulary: int, top_k: int, resolution: int, *, adaptive: bool = False) -> float:
    """Bits of one quantised row by Python integers: :func:`payload_bits` with only the logarithm rounded."""
    v, size = number(arithmetic.SIZE, "vocabulary", vocabulary), number(arithmetic.SIZE, "top_k", top_k)
    units, adaptive = number(arithmetic.RESOLUTION, "resolution", resolution), flag("adaptive", adaptive)
    xp, size_of_row, kept = arrays(vocabulary=v, top_k=size)
    _refuse_more_than_vocabulary(xp, size_of_row, kept)
    about = about_log2(v, size) + about_log2(units + size - 1, size - 1)
    if about > LONGEST_EXACT:
        raise DomainError(
            f"top_k must give a payload of at most {LONGEST_EXACT:,} bits; got {size}, vocabulary = {v} and "
            f"resolution = {units} with {about:.6g} bits; take payload_bits, which computes in float64"
        )
    bits = math.log2(math.comb(v, size)) + math.log2(lattice_points(size, units))
    return bits + (v - 1).bit_length() if adaptive else bits


def allocate(draft: Array, budget_bits: Array, *, adaptive: bool = True) -> arithmetic.Allocation:
    """The support size K and resolution ℓ that minimise dropped mass plus sharp distortion within the budget.

    For each K the finest ℓ ≤ 2²⁴ that fits is best, since the distortion never rises with ℓ. That ℓ depends only on V,
    K and B, so the server knows it from K.

    Parameters
    ----------
    draft : array, shape (..., V)
        Distributions over the vocabulary.
    budget_bits : array, shape (...) or broadcastable to it
        B for one row, in bit.
    adaptive : bool
        Whether K is sent too; here it varies from row to row.

    Returns
    -------
    Allocation
        Of equal ones, the smallest K.

    Raises
    ------
    ValueError
        If a row is not a distribution, or the budget does not fit a draft of one token.

    Examples
    --------
    >>> found = allocate([0.5, 0.25, 0.125, 0.125], 10.0)
    >>> int(found.k), int(found.resolution), round(float(found.bits), 2)
    (4, 9, 9.78)
    """
    xp, draft, budget = arrays("budget_bits", draft=draft, budget_bits=budget_bits)
    _, _, q = distributions(draft=draft)
    budget = xp.astype(arithmetic.BUDGET.check(xp, "budget_bits", budget), xp.float64)
    batch = leading_dimensions(draft=tuple(q.shape[:-1]), budget_bits=tuple(budget.shape))
    one, adaptive = xp.ones_like(budget, dtype=xp.int64), flag("adaptive", adaptive)
    short = arithmetic.log2_payload(xp, one * q.shape[-1], one, one, adaptive=adaptive) - budget
    if not every(xp, short <= arithmetic.SLACK_BITS):
        raise DomainError(
            f"budget_bits must fit one draft; it is {float(xp.max(short)):.6g} bit too small; "
            "raise it, keep fewer tokens, or lower the resolution"
        )
    return arithmetic.best_allocation(xp, xp.broadcast_to(q, (*batch, q.shape[-1])), budget, adaptive=adaptive)


def _refuse_more_than_vocabulary(xp: Any, vocabulary: Array, k: Array) -> None:
    if bool(xp.any(k > vocabulary)):
        raise DomainError(f"top_k must be at most V; got {k} for V = {vocabulary}; K counts tokens of a row")
