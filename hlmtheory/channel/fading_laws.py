"""Density, distribution, quantiles and means of the SNR under fading, for numpy arrays.

The arguments ``m`` and ``k`` are the mean SNR and the Rician factor κ.
"""

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from hlmtheory._array import Array
from hlmtheory._domains import DomainError

_NODES = (24, 16)  # nodes of a Gauss-Legendre panel: for the value, and for its error estimate
_REACH = 6.5  # integrate to √y = √κ + 6.5; the mass above is below e^{-42}
_LEVELS = 100  # terms of the continued fraction of e^z E_n(z); for z ≥ 1 the error is below float64 rounding
_CLOSE = 1e-9  # relative error of the probability at a quantile before the last Newton step
_leggauss = cache(np.polynomial.legendre.leggauss)
_STEPS = 60  # maximum number of Newton steps; about a dozen are needed


def scaled_expn(order: int, z: Array) -> Array:
    """Return e^z E_n(z) for z > 0, without underflow; for z ≥ 1 by a continued fraction."""
    from scipy import special

    large = z >= 1.0
    w = np.where(large, z, 1.0)
    tail = w + order + 2.0 * _LEVELS
    for i in range(_LEVELS, 0, -1):
        tail = w + order + 2.0 * (i - 1) - i * (order + i - 1.0) / tail
    small = np.where(large, 1.0, z)
    return np.where(large, 1.0 / tail, np.exp(small) * special.expn(order, small))


def _terms(k: Array) -> int:
    """Return the number of terms of the Poisson mixture; the weights after it are below float64 rounding."""
    largest = float(np.max(k, initial=0.0))
    return int(largest + 12.0 * math.sqrt(largest) + 40.0)


def density(m: Array, k: Array, s: Array) -> Array:
    """Return the density of the SNR at s."""
    from scipy import special

    y = (1.0 + k) * s / m
    return (1.0 + k) / m * np.exp(-((np.sqrt(k) - np.sqrt(y)) ** 2)) * special.i0e(2.0 * np.sqrt(k * y))


def distribution(m: Array, k: Array, s: Array) -> Array:
    """Return P(S ≤ s)."""
    return np.minimum(_tail(k, (1.0 + k) * s / m, np.zeros(np.shape(s), dtype=bool)), 1.0)


def _tail(k: Array, y: Array, upper: Array) -> Array:
    """Return P(Y ≤ y), or P(Y > y) if ``upper``, for Y = (1 + κ)S/m; all terms of the mixture are positive."""
    from scipy import special

    total = np.zeros(y.shape)
    for j in range(_terms(np.maximum(k, np.where(upper, np.sqrt(k * y), 0.0))) if np.any(k > 0) else 1):
        weight = np.exp(special.xlogy(j, k) - k - special.gammaln(j + 1.0))
        total = total + weight * np.where(upper, special.gammaincc(j + 1.0, y), special.gammainc(j + 1.0, y))
    return total


def quantile(m: Array, k: Array, p: Array) -> Array:
    """Return the s with P(S ≤ s) = p."""
    return _invert(m, k, p, 1.0 - p)


def upper_quantile(m: Array, k: Array, p: Array) -> Array:
    """Return the s with P(S > s) = p, also if p is so small that 1 - p rounds to 1."""
    return _invert(m, k, 1.0 - p, p)


def _invert(m: Array, k: Array, below: Array, above: Array) -> Array:
    """Return the s with P(S ≤ s) = below and P(S > s) = above.

    The smaller probability is inverted, since it has the smaller rounding error. Rayleigh fading has a closed form.
    """
    upper = below > above
    tail: Array = np.where(upper, above, below)
    y = np.where(upper, -np.log(tail), -np.log1p(-tail))
    direct = k > 0
    y[direct] = _newton(k[direct], tail[direct], upper[direct]) ** 2
    return m / (1.0 + k) * y


def _newton(k: Array, p: Array, upper: Array) -> Array:
    """Return the r = √y at which the tail is p ≤ ½, by Newton's method for the logarithm of the tail.

    Both tails of the density of r are log-concave, so every step but the first ends on the side from which it
    converges. A complex Gaussian outside |r - √κ| gives the start; for a lower tail near e^{-κ} it is e^{-κ}y.
    """
    reach = np.sqrt(-np.log(p))
    near = np.exp(np.minimum(np.log(p) + k, 0.0) / 2.0)
    r = np.where(upper, np.sqrt(k) + reach, np.maximum(np.sqrt(k) - reach, near))
    for _ in range(_STEPS):
        reached, slope = _tail(k, r**2, upper), 2.0 * r * density(1.0 + k, k, r**2)
        if not ((reached > 0) & (slope > 0)).all():
            break  # outside the range of float64
        gap = np.log(p) - np.log(reached)
        r = r + np.where(upper, -gap, gap) * reached / slope
        if (np.abs(gap) < _CLOSE).all():  # the step above is the last one
            return r
    raise DomainError(
        "probability, or outage, must be further from 0 and 1 under this k_factor, where float64 holds its tail; got a "
        f"tail of {float(np.min(p))!r}; 1e-290 and more is safe"
    )


def capacity(m: Array, k: Array) -> Array:
    """Return E[log₂(1 + S)]."""
    from scipy import special

    z = (1.0 + k) / m
    total = scaled_expn(1, z)
    if np.any(k > 0):
        for n in range(1, _terms(k)):
            total = total + special.gammainc(float(n), k) * scaled_expn(n + 1, z)
    return total / math.log(2)


def inverse_efficiency(s: Array) -> Array:
    """Return 1 / log₂(1 + s)."""
    return math.log(2) / np.log1p(s)


def mean_of(
    weight: Callable[[Array], Array], m: Array, k: Array, lower: Array, upper: Array | None = None
) -> tuple[Array, Array]:
    """Return E[weight(S); lower ≤ S ≤ upper] and its error, for lower > 0, by panels in r = √y, below 1 in ln r."""
    scale = m / (1.0 + k)
    begin, end = np.sqrt(lower / scale), np.sqrt(k) + _REACH
    if upper is not None:
        end = np.minimum(end, np.sqrt(upper / scale))
    end = np.maximum(begin, end)
    knee = np.clip(1.0, begin, end)

    def in_r(r: Array) -> Array:
        return (
            2.0
            * r
            * scale[..., None]
            * density(m[..., None], k[..., None], scale[..., None] * r**2)
            * weight(scale[..., None] * r**2)
        )

    values = []
    for nodes in _NODES:
        low = _panels(lambda x: np.exp(x) * in_r(np.exp(x)), np.log(begin), np.log(knee), 2.0, nodes)
        values.append(low + _panels(in_r, knee, end, 1.0, nodes))
    beyond = weight(scale * end**2) * math.exp(-(_REACH**2)) if upper is None else 0.0
    return values[0], np.abs(values[0] - values[1]) + beyond


def _panels(function: Callable[[Array], Array], begin: Array, end: Array, width: float, nodes: int) -> Array:
    """Return ∫ of the function from begin to end by Gauss-Legendre panels no wider than ``width``."""
    count = max(1, math.ceil(float(np.max(end - begin, initial=0.0)) / width))
    x, w = _leggauss(nodes)
    total = np.zeros(np.shape(begin))
    half = (end - begin) / (2.0 * count)
    for i in range(count):
        middle = begin + (2 * i + 1) * half
        total = total + half * np.sum(w * function(middle[..., None] + half[..., None] * x), axis=-1)
    return total
