"""The levels that are sent and their cost: one arithmetic for the choice of k, the message and the server.

Symbols are those of :mod:`hlmtheory.truncation.message`. Rows are on the host, float64, and canonical
(:func:`hlmtheory._simplex.canonical`). E_k is the mass that the rounding of the k largest entries loses.
"""

import numpy as np
from numpy.typing import NDArray

from hlmtheory._array import NUMPY, tail_sums
from hlmtheory._simplex import exact_sums, over_exact_sums
from hlmtheory.truncation.reconstruction import tail_excess

Rows = NDArray[np.float64]
Mask = NDArray[np.bool_]
ENTRIES_AT_ONCE = 2**17  # entries of the rows that are handled together, so that they fit a cache


def levels_of(rows: Rows, bits: int) -> Rows:
    """For each entry, the largest level whose decoded value does not exceed it: ⌊q (2^b - 1)⌋ up to rounding."""
    near = np.floor(rows * _largest(bits))
    low: Rows = near - (values_of(near, bits) > rows)
    return np.where(values_of(low + 1.0, bits) <= rows, low + 1.0, low)


def values_of(levels: NDArray[np.float64] | NDArray[np.int64], bits: int) -> Rows:
    """The probabilities of levels: level/(2^b - 1), rounded."""
    values: Rows = levels / _largest(bits)
    return values


def _largest(bits: int) -> float:
    """The level 2^b - 1, which stands for 1; exact for b ≤ 52."""
    return float(2**bits - 1)


def completed(value: Rows, sent: Mask, others: Mask) -> Rows:
    """The values (..., V); the missing mass is spread over the unsent entries, or over ``others`` if all are sent."""
    home = np.where(np.all(sent, axis=-1, keepdims=True), others, ~sent)
    rest = np.maximum(1.0 - exact_sums(value)[..., None], 0.0)  # the values exceed 1 by 2^-50 at most
    count = np.maximum(np.count_nonzero(home, axis=-1, keepdims=True), 1)
    return over_exact_sums(value + np.where(home, rest / count, 0.0))


def message_deviations(rows: Rows, bits: int) -> Rows:
    """Upper bounds on TV(q, q̂) for each k = 0..V, shape (..., V + 1), for the bytes that are sent.

    The sums below have at most V terms and are at most 1. With u = 2^-53, E_k and the tails are within 2 V u of their
    exact values, the mean times its entries within (4 V + 2) u, and Δ_k within (10 V + 10) u. The rounding of q, of q_d
    and of the row that the server completes changes the mass by a few 2^-50 each, which is less than the remaining part
    of :func:`slack`. A row with a single entry of 1 needs no slack: its draft is sent with q_d = 1, and the server has
    the row exactly.
    """
    size = rows.shape[-1]
    flat = rows.reshape(-1, size)
    found = np.empty((len(flat), size + 1))
    step = max(1, ENTRIES_AT_ONCE // size)
    for start in range(0, len(flat), step):
        part = flat[start : start + step]
        # a single entry near 1 is rounded as others are
        certain = (np.count_nonzero(part, axis=-1) == 1) & (part.max(axis=-1, initial=0.0) == 1.0)
        margin = np.where(certain, 0.0, slack(size))
        found[start : start + step] = _deviations(np.sort(part, axis=-1)[:, ::-1], bits) + margin[:, None]
    return found.reshape(*rows.shape[:-1], size + 1)


def slack(size: int) -> float:
    """The slack added to each Δ_k of V = ``size`` entries, so that rounding never makes it too small."""
    return (8 * size + 64) * 2.0**-52


def _deviations(ordered: Rows, bits: int) -> Rows:
    """Δ_k, k = 0..V, of rows (R, V) in descending order, up to rounding."""
    ordered = np.ascontiguousarray(ordered)
    lost = ordered - values_of(levels_of(ordered, bits), bits)
    spread = np.concatenate((np.zeros((len(lost), 1)), np.cumsum(lost, axis=-1)), axis=-1)  # E_k
    tails = tail_sums(NUMPY, ordered)
    deviation: Rows = spread + tail_excess(NUMPY, ordered, tails, tails + spread)
    all_sent = np.maximum(lost - lost.mean(axis=-1, keepdims=True), 0.0).sum(axis=-1)  # E_V is spread over all of them
    deviation[:, -1] = all_sent
    return deviation
