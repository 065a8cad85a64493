"""Sets as whole numbers: the place of a set c_1 < … < c_k in colexicographic order is Σ C(c_i, i)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

NEAR = 32
"""Across a gap of at most max(this, k), the binomial is updated; across a larger gap it is computed anew."""

Integers = NDArray[np.int64]


def rank(members: Integers) -> int:
    """The place of a set, its members ascending, among all sets of the same size."""
    total, value, before, size = 0, 1, -1, 0  # value = C(before + 1, size)
    for member in members.tolist():
        top = before + 1
        value, size = value * (top - size) // (size + 1), size + 1  # C(top, size + 1)
        if member - top > max(NEAR, size):
            value = math.comb(member, size)
        else:
            for n in range(top + 1, member + 1):
                value = value * n // (n - size) if n > size else int(n == size)
        total, before = total + value, member - 1
    return total


def unrank(place: int, size: int, vocabulary: int) -> Integers:
    """The set at this place, 0 ≤ place < C(V, size), ascending."""
    members = np.empty(size, dtype=np.int64)
    top, value = vocabulary, math.comb(vocabulary, size)
    for k in range(size, 0, -1):
        for _ in range(max(NEAR, k)):
            if value <= place:
                break
            value, top = value * (top - k) // top, top - 1  # C(top - 1, k)
        else:
            top = _largest(place, k, top + 1)  # top itself was not tried yet
            value = math.comb(top, k)
        place -= value
        members[k - 1] = top
        value, top = (value * k // top, top - 1) if top else (0, -1)  # C(top - 1, k - 1)
        value = value if value or k > 1 else 1
    return members


def _largest(place: int, k: int, below: int) -> int:
    """The largest c < below with C(c, k) ≤ place."""
    if place == 0:
        return k - 1
    wanted = math.log(place) + math.lgamma(k + 1) + 1e-6
    low, high = k - 1, below - 1
    middle_term = math.exp(wanted / k)
    start = int(middle_term + (k - 1) / 2)
    for near in (start - 1, start + 2 + int(k * k / (24.0 * middle_term))):
        if low < near <= high:
            fits = math.lgamma(near + 1) - math.lgamma(near - k + 1) <= wanted
            low, high = (near, high) if fits else (low, near - 1)
    while low < high:
        middle = (low + high + 1) // 2
        fits = math.lgamma(middle + 1) - math.lgamma(middle - k + 1) <= wanted
        low, high = (middle, high) if fits else (low, middle - 1)
    while math.comb(low, k) > place:
        low -= 1
    return low
