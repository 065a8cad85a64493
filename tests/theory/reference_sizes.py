"""The rules for k directly from their definitions, in fractions: every k is computed separately, smallest first.

A rule takes one distribution, as a list of fractions that sum to 1, and returns the bounded quantity for every k =
0..V. The rule's k is the smallest one whose value is within the tolerance.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from . import oracles

Row = list[Fraction]
Bounds = list[Fraction | float]


def over_its_sum(row: Any) -> Row:
    """Return the row over its sum, without rounding."""
    values = oracles.exact(row)
    return [value / sum(values) for value in values]


def deviations(q: Row) -> Row:
    """Δ_k."""
    return [oracles.deviation(q, k) for k in range(len(q))] + [Fraction(0)]


def certified(q: Row) -> Row:
    """2 Δ_k, which bounds the Bias."""
    return [2 * deviation for deviation in deviations(q)]


def exact(p: Row, q: Row) -> Row:
    """TV(r, r̂_k) of cu-hlm (19); 0 where Δ_k = 0, since q̂ is then q."""
    each = zip(range(len(q) + 1), deviations(q), strict=True)
    return [oracles.distortion(p, q, k) if deviation else Fraction(0) for k, deviation in each]


def offline(pairs: list[tuple[Row, Row]]) -> Bounds:
    """mean_t 2 Δ_k / TV(q, p) of cu-hlm (21)."""
    each = [[2 * d / oracles.total_variation(p, q) for d in deviations(q)] for p, q in pairs]
    return [sum(column) / len(pairs) for column in zip(*each, strict=True)]


def online(q: Row, token: int, beta: float, sharpness: float) -> Bounds:
    """2 Δ_k / D of cu-hlm (24)."""
    softplus = [np.log1p(np.exp(-sharpness * z)) / sharpness for z in (1.0, beta)]
    denominator = (1 - q[token]) * Fraction(softplus[0]) + q[token] * Fraction(softplus[1])
    return [2 * deviation / denominator for deviation in deviations(q)]


def top_p(q: Row) -> Row:
    """The mass outside the k largest entries, which must be at most 1 - p."""
    ordered = sorted(q, reverse=True)
    return [sum(ordered[k:], Fraction(0)) for k in range(len(q) + 1)]
