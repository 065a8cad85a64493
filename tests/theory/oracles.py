"""Simple second implementations: one row at a time, in exact rational arithmetic, directly from the definitions."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

Row = Sequence[Fraction]


def exact(row: Any) -> list[Fraction]:
    return [Fraction(float(entry)) for entry in np.asarray(row, dtype=np.float64)]


def over_its_sum(row: Any) -> list[Fraction]:
    values = exact(row)
    total = sum(values)
    return [value / total for value in values]


def row_by_row(oracle: Callable[..., Any], *arguments: tuple[Any, int]) -> np.ndarray:
    """Apply an oracle to each instance of a batch; each argument has its own number of axes (1 for a row)."""
    batch = np.broadcast_shapes(*(np.shape(array)[: np.ndim(array) - axes] for array, axes in arguments))
    spread = [np.broadcast_to(array, (*batch, *np.shape(array)[np.ndim(array) - axes :])) for array, axes in arguments]
    results = [np.asarray(oracle(*(array[index] for array in spread)), dtype=np.float64) for index in np.ndindex(batch)]
    return np.reshape(results, (*batch, *results[0].shape))


def total_variation(p: Row, q: Row) -> Fraction:
    return sum((abs(a - b) for a, b in zip(p, q, strict=True)), Fraction(0)) / 2


def rejection(p: Row, q: Row) -> list[Fraction]:
    """1 - p/q where that is positive; a draft of probability 0 is never rejected."""
    return [max(1 - a / b, Fraction(0)) if b else Fraction(0) for a, b in zip(p, q, strict=True)]


def residual(p: Row, q: Row) -> list[Fraction] | None:
    """(p - q)⁺ normalised, or None where it is 0/0."""
    excess = [max(a - b, Fraction(0)) for a, b in zip(p, q, strict=True)]
    return [entry / sum(excess) for entry in excess] if any(excess) else None


def emitted(
    p: Row, q: Row, skip: Row | None = None, replacement: Row | None = None, drawn: Row | None = None
) -> list[Fraction]:
    """Law of the emitted token, over every draft v (skipped or not, accepted or not) and every replacement w."""
    size, drawn = len(q), drawn or q
    skip = skip or [Fraction(0)] * size
    replacement = replacement or residual(p, q) or [Fraction(0)] * size
    beta = rejection(p, q)
    law = [Fraction(0)] * size
    for v in range(size):
        law[v] += drawn[v] * skip[v]
        law[v] += drawn[v] * (1 - skip[v]) * (1 - beta[v])
        for w in range(size):
            law[w] += drawn[v] * (1 - skip[v]) * beta[v] * replacement[w]
    return law


def truncate(q: Sequence[Any], k: int) -> list[Any]:
    """Keep the k largest, ties by lowest index; give each of the others their mean."""
    order = sorted(range(len(q)), key=lambda v: (-q[v], v))
    result = list(q)
    rest = order[k:]
    for v in rest:
        result[v] = sum(q[w] for w in rest) / len(rest)
    return result


def deviation(q: Row, k: int) -> Fraction:
    return total_variation(q, truncate(q, k))


def distortion(p: Row, q: Row, k: int) -> Fraction:
    """TV(r, r̂); 0 if nothing is rejected, 1 if r̂ is 0/0."""
    true, distorted = residual(p, q), residual(p, truncate(q, k))
    if true is None:
        return Fraction(0)
    return Fraction(1) if distorted is None else total_variation(true, distorted)


def bias(p: Row, q: Row, k: int) -> Fraction:
    """Σ |law - p| of the emitted token; where r̂ is 0/0, the worst r̂: one with no mass where r has some."""
    true, distorted = residual(p, q), residual(p, truncate(q, k))
    if true is None:
        return Fraction(0)
    if distorted is None:
        return 2 * total_variation(p, q)
    return sum((abs(a - b) for a, b in zip(emitted(p, q, replacement=distorted), p, strict=True)), Fraction(0))


def tvd_bound(p: Row, q: Row, k: int) -> float:
    """2 Δ_k / TV(q, p), infinite or 0 where TV(q, p) is 0."""
    return _quotient(2 * deviation(q, k), total_variation(p, q))


def tvd_bound_sharp(p: Row, q: Row, k: int) -> float:
    """Δ_k / max(TV(q, p), TV(q̂, p))."""
    return _quotient(deviation(q, k), max(total_variation(p, q), total_variation(p, truncate(q, k))))


def _quotient(numerator: Fraction, denominator: Fraction) -> float:
    if denominator:
        return float(numerator / denominator)
    return float("inf") if numerator else 0.0
