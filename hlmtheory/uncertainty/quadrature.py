"""Means of softmax(z/θ) for a uniform temperature θ in [0, θmax], by quadrature with 40 softmax passes.

With h_v = (max z - z_v)/θmax and φ = θ/θmax the integrand is e^{-h_d/φ} / Σ_v e^{-h_v/φ}, flat as φ → 0. Gauss nodes
are on x with φ = x³: bends at small φ, which have little weight, get few nodes.
"""

import math
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from hlmtheory._array import Array, sort_ascending, take
from hlmtheory._remember import remembered

NODES = 40
_BEYOND = 400.0  # gaps above 800 θmax are clipped: e^{-800} is 0 in float64, at every θ
_NEGLIGIBLE = 50.0  # 2^20 · e^{-50} is below the rounding error of a sum that is at least 1
_BLOCK = 2**17  # entries processed in one block

Rule = tuple[tuple[float, float], ...]
"""Pairs of φ and its weight."""


@cache
def quick_rule() -> Rule:
    """Return the Gauss-Legendre rule with NODES nodes in x, φ = x³; the weights sum to 1."""
    x, weight = np.polynomial.legendre.leggauss(NODES)
    x, weight = (x + 1.0) / 2.0, weight / 2.0  # on [0, 1]
    weights = 3.0 * weight * x**2 / np.sum(3.0 * weight * x**2)
    return tuple(zip((x**3).tolist(), weights.tolist(), strict=True))


@remembered
def scaled_gaps(xp: Any, logits: Array, max_temperature: float) -> Array:
    """Return (max z - z)/θmax in float64, clipped where larger gaps change nothing; masked entries do not overflow."""
    halves = 0.5 * xp.astype(logits, xp.float64)
    halves = xp.max(halves, axis=-1, keepdims=True) - halves
    return 2.0 * (xp.clip(halves, max=_BEYOND * max_temperature) / max_temperature)


def mean_at(xp: Any, gaps: Array, chosen: Array, rule: Rule) -> Array:
    """Return softmax(z/θ) at chosen entries, averaged over the rule's θ; ``chosen`` (..., C) holds their gaps."""
    parts = []
    hottest_first = sorted(rule, reverse=True)
    for part in _blocks(gaps):
        rows, own = sort_ascending(xp, _flat(xp, gaps)[part, :]), xp.reshape(chosen, (-1, chosen.shape[-1]))[part, :]
        mean = xp.zeros_like(own)
        for fraction, weight in hottest_first:
            near = xp.count_nonzero(rows < _NEGLIGIBLE * fraction, axis=-1)
            rows = rows[:, : int(xp.max(near))]
            mass = xp.sum(xp.exp(rows * (-1.0 / fraction)), axis=-1, keepdims=True)
            mean = mean + weight * (xp.exp(own * (-1.0 / fraction)) / mass)
        parts.append(mean)
    return xp.reshape(xp.concat(parts), chosen.shape) if parts else xp.zeros_like(chosen)


def mean_rows(xp: Any, gaps: Array, rule: Rule) -> Array:
    """Return the mean over the rule of softmax(z/θ), for every entry of each row."""
    parts = []
    for part in _blocks(gaps):
        rows = _flat(xp, gaps)[part, :]
        mean = xp.zeros_like(rows)
        for fraction, weight in rule:
            e = xp.exp(rows * (-1.0 / fraction))
            mean = mean + e * (weight / xp.sum(e, axis=-1, keepdims=True))
        parts.append(mean)
    return xp.reshape(xp.concat(parts), gaps.shape) if parts else xp.zeros_like(gaps)


def coldest(xp: Any, logits: Array) -> Array:
    """Return the limit of softmax(z/θ) as θ → 0: uniform over the largest logits."""
    top = xp.astype(logits == xp.max(logits, axis=-1, keepdims=True), xp.float64)
    return top / xp.sum(top, axis=-1, keepdims=True)


def gap_of(xp: Any, gaps: Array, token: Array) -> Array:
    """Return the gaps at the tokens (...); rows and tokens broadcast against each other."""
    shape = np.broadcast_shapes(tuple(gaps.shape[:-1]), tuple(token.shape))
    rows = xp.broadcast_to(gaps, (*shape, gaps.shape[-1]))
    return take(xp, rows, xp.broadcast_to(token, shape)[..., None])[..., 0]


def _flat(xp: Any, gaps: Array) -> Array:
    return xp.reshape(gaps, (-1, gaps.shape[-1]))


def _blocks(gaps: Array) -> Iterator[slice]:
    """Return slices of consecutive rows, short enough that one pass stays in the processor's cache."""
    count, size = math.prod(gaps.shape[:-1]), gaps.shape[-1]
    step = max(1, _BLOCK // size)
    return (slice(start, min(start + step, count)) for start in range(0, count, step))
