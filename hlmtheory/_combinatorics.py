"""Logarithms of binomial coefficients for arrays, by Stirling's series, and counts of lattice points.

Three log-gammas near 1.7 million would lose log₂ C(n, k)'s digits: leading terms are combined analytically, and only
μ(n) = ln n! - (n + ½) ln n + n - ½ ln 2π is summed.
"""

import math
from typing import Any

from hlmtheory._array import Array

SERIES_FROM = 16
"""From here on four terms of Stirling's series give μ to 2e-14; below, μ is tabulated."""

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_SMALL = [0.0] + [
    math.log(math.factorial(n)) - (n + 0.5) * math.log(n) + n - _HALF_LOG_2PI for n in range(1, SERIES_FROM)
]


def log2_binomial(xp: Any, n: Array, k: Array) -> Array:
    """log₂ C(n, k) for whole numbers 0 ≤ k ≤ n given in float64, to a relative error of about 1e-15."""
    k = xp.where(2 * k <= n, k, n - k)
    inner = k > 0  # C(n, 0) = 1
    n, k = xp.where(inner, n, 2.0), xp.where(inner, k, 1.0)
    m = n - k
    leading = k * xp.log(n / k) - m * xp.log1p(-k / n)
    middle = 0.5 * xp.log(n / (k * m)) - _HALF_LOG_2PI
    nats = leading + middle + (_remainder(xp, n) - _remainder(xp, k) - _remainder(xp, m))
    return xp.where(inner, nats / math.log(2.0), 0.0)


def about_log2(n: int, k: int) -> float:
    """log₂ C(n, k) in float64, without computing C(n, k) itself."""
    fewer = min(k, n - k)  # subtract whole numbers: n and k may round to the same float64
    if fewer == 0:
        return 0.0
    rest = n - fewer
    leading = fewer * math.log(n / fewer) - rest * math.log1p(-fewer / n)
    middle = 0.5 * math.log(n / fewer / rest) - _HALF_LOG_2PI
    return (leading + middle + _mu(n) - _mu(fewer) - _mu(rest)) / math.log(2.0)


def _mu(n: int) -> float:
    """μ(n) of one n ≥ 1."""
    return _SMALL[n] if n < SERIES_FROM else _series(1.0 / n)


def _series(inverse: Any) -> Any:
    """μ(n) by the terms of Stirling's series, from 1/n."""
    square = inverse * inverse
    return inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680)))


def _remainder(xp: Any, n: Array) -> Array:
    """μ(n) for n ≥ 1."""
    table = xp.asarray(_SMALL, dtype=n.dtype, device=n.device)
    small = n < SERIES_FROM
    index = xp.astype(xp.where(small, n, 0.0), xp.int64)
    tabulated = xp.reshape(xp.take(table, xp.reshape(index, (-1,))), n.shape)
    inverse = 1.0 / xp.where(small, float(SERIES_FROM), n)
    return xp.where(small, tabulated, _series(inverse))


def ceil_log2(xp: Any, value: Array) -> Array:
    """⌈log₂ v⌉ of whole numbers v ≥ 1, without rounding: the number of powers of 2 below v."""
    places = xp.zeros_like(value)
    for n in range(62):
        places = places + xp.astype(value > 2**n, value.dtype)
    return places


def lattice_points(size: int, resolution: int) -> int:
    """The number of rows of ``size`` counts that sum to the resolution: C(ℓ + K - 1, K - 1)."""
    return math.comb(resolution + size - 1, size - 1)
