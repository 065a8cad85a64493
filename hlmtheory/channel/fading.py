"""Rayleigh and Rician block fading: the law of the SNR, and what follows for rate and latency.

With a line of sight κ times as strong as the scattered rest, y = (1 + κ)S/m has the density
e^{-κ-y} I₀(2√(κy)): twice y is non-central χ² with 2 degrees of freedom and non-centrality 2κ, a mixture of
Gamma(j + 1) laws with Poisson(κ) weights. Rayleigh is κ = 0. All closed forms below follow from the mixture.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hlmtheory._array import Array, arrays, to_numpy
from hlmtheory._domains import COUNT, Domain, DomainError
from hlmtheory._quantities import checked, not_negative, open_unit, positive

_NODES = (24, 16)  # of a Gauss-Legendre panel: for the value, and for its error
_REACH = 6.5  # in √y beyond √κ; the mass further out is below e^{-42}
_LEVELS = 100  # of the continued fraction of e^z E_n(z): below one rounding from z = 1 on
_CLOSE = 1e-9  # relative, of the probability at a quantile, before the last of the Newton steps
_STEPS = 60  # of Newton's method; from its start a dozen do


_DOMAINS = {
    "mean_snr": positive("give the ratio, not dB; over a dead link nothing arrives, over a noiseless one at once"),
    "k_factor": Domain(
        "in [0, 10,000]",
        lambda xp, value: (value >= 0) & (value <= 10_000),
        "give the ratio, not dB: 0 without a line of sight; above 10,000 the SNR hardly varies, take it as constant",
    ),
    "snr": not_negative("give the ratio, not dB"),
    "rate": not_negative("give a spectral efficiency in bit/s/Hz"),
    "probability": open_unit("give a probability that is neither 0 nor 1"),
    "outage": open_unit("say which share of the blocks to give up; with none the mean is infinite"),
    "cut": positive("give the SNR below which a block is given up; with none the mean is infinite"),
    "bits": positive("a round that sends nothing takes no time: leave it out"),
    "bandwidth_hz": positive("give the band of the uplink in Hz"),
}


class Estimate(NamedTuple):
    """A number by quadrature, and by how much it may be off."""

    value: Array
    error: Array


@dataclass(frozen=True)
class Rician:
    """SNR of a block with a line of sight.

    Parameters
    ----------
    mean_snr : float or array, shape (...)
        m = E[S], a ratio; positive.
    k_factor : float or array, shape (...)
        κ, line-of-sight over scattered power, a ratio; 0 or more.

    Raises
    ------
    ValueError
        If m is not positive and finite, or κ negative or infinite.

    Examples
    --------
    >>> link = Rician(mean_snr=10.0, k_factor=10.0)
    >>> round(float(link.capacity()), 4), round(float(link.outage_probability(2.0)), 6)
    (3.3503, 0.020129)
    """

    mean_snr: Array
    k_factor: Array

    def __post_init__(self) -> None:
        """Refuse what is no SNR."""
        checked(_DOMAINS, mean_snr=self.mean_snr, k_factor=self.k_factor)

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray[Any, Any]:
        """Independent blocks, as numpy.

        Parameters
        ----------
        rng : numpy Generator
        size : int
            How many.

        Returns
        -------
        numpy array, shape (..., size)
            S of each block.

        Raises
        ------
        ValueError
            If the size is negative or no integer.
        """
        _, m, k = self._numpy()
        xp, blocks = arrays(size=size)
        COUNT.check(xp, "size", blocks)
        shape = (*np.broadcast_shapes(m.shape, k.shape), size)
        direct, scattered, quadrature = np.sqrt(k)[..., None], rng.standard_normal(shape), rng.standard_normal(shape)
        power = (direct + scattered / math.sqrt(2)) ** 2 + quadrature**2 / 2.0
        return np.asarray((m / (1.0 + k))[..., None] * power)

    def density(self, snr: Array) -> Array:
        """Density f of S, also at 0, where it is (1 + κ)e^{-κ}/m > 0.

        Parameters
        ----------
        snr : array, shape (...)
            0 or more.

        Returns
        -------
        float64 array, shape (...)
        """
        return self._through(_density, snr=snr)

    def distribution(self, snr: Array) -> Array:
        """P(S ≤ s), to full relative accuracy in the lower tail: all terms of the mixture are positive.

        Parameters
        ----------
        snr : array, shape (...)
            0 or more.

        Returns
        -------
        float64 array, shape (...)
        """
        return self._through(_distribution, snr=snr)

    def quantile(self, probability: Array) -> Array:
        """The s with P(S ≤ s) = p.

        Parameters
        ----------
        probability : array, shape (...)
            p in (0, 1).

        Returns
        -------
        float64 array, shape (...)

        Raises
        ------
        ValueError
            If p is not in (0, 1), or κ is positive and p so small that float64 cannot hold P(S ≤ s).
        """
        return self._through(_quantile, probability=probability)

    def capacity(self) -> Array:
        """Ergodic capacity E[log₂(1 + S)].

        E log(1 + S) = Σ_j Poisson(j; κ) e^z Σ_{k≤j+1} E_k(z) = e^z Σ_k P(N ≥ k - 1) E_k(z) with z = (1 + κ)/m; under
        Rayleigh e^{1/m} E₁(1/m).

        Returns
        -------
        float64 array, shape (...)
            In bit/s/Hz.
        """
        return self._through(_capacity)

    def outage_probability(self, rate: Array) -> Array:
        """P(log₂(1 + S) ≤ R).

        Parameters
        ----------
        rate : array, shape (...)
            R in bit/s/Hz, 0 or more.

        Returns
        -------
        float64 array, shape (...)
        """
        xp, rate = checked(_DOMAINS, rate=rate)
        return self.distribution(xp.expm1(xp.astype(rate, xp.float64) * math.log(2)))

    def rate_quantile(self, probability: Array) -> Array:
        """The outage rate: the R in bit/s/Hz with P(log₂(1 + S) ≤ R) = p; the median rate at p = ½.

        Parameters
        ----------
        probability : array, shape (...)
            p in (0, 1).

        Returns
        -------
        float64 array, shape (...)
            In bit/s/Hz.
        """
        xp, snr = arrays(snr=self.quantile(probability))
        return xp.log1p(snr) / math.log(2)

    def latency_quantile(self, probability: Array, bits: Array, bandwidth_hz: Array) -> Array:
        """The time that a share p of the blocks does not exceed: finite, where the mean is not.

        Parameters
        ----------
        probability : array, shape (...)
            p in (0, 1); ½ for the median.
        bits, bandwidth_hz : array, shape (...)
            B in bit, W in Hz.

        Returns
        -------
        float64 array, shape (...)
            In seconds.

        Raises
        ------
        ValueError
            If a value is out of range, as in :meth:`quantile`.
        """
        xp, p, payload, band = checked(_DOMAINS, probability=probability, bits=bits, bandwidth_hz=bandwidth_hz)
        return payload * math.log(2) / (band * xp.log1p(self._through(_upper_quantile, probability=p)))

    def mean_latency(self, bits: Array, bandwidth_hz: Array, *, outage: Array) -> Estimate:
        """Mean time over the blocks that are sent, the worst share of them being given up.

        Parameters
        ----------
        bits, bandwidth_hz : array, shape (...)
            B in bit, W in Hz.
        outage : array, shape (...)
            Share in (0, 1) of the blocks that are given up. As it falls to 0 the mean grows like its logarithm.

        Returns
        -------
        Estimate
            E[B/(W log₂(1 + S)) given S above its quantile], in seconds, by quadrature.
        """
        _, payload, band, share = checked(_DOMAINS, bits=bits, bandwidth_hz=bandwidth_hz, outage=outage)
        value, error = self.inverse_efficiency(self.quantile(share))
        seconds = payload / (band * (1.0 - share))
        return Estimate(value * seconds, error * seconds)

    def inverse_efficiency(self, cut: Array, upper: Array | None = None) -> Estimate:
        """E[1/log₂(1 + S); cut ≤ S ≤ upper], by quadrature.

        Parameters
        ----------
        cut : array, shape (...)
            Positive.
        upper : array, shape (...), optional
            Infinite, if None.

        Returns
        -------
        Estimate
            In Hz s/bit. Not divided by P(cut ≤ S ≤ upper).
        """
        _, low = checked(_DOMAINS, cut=cut)
        where = {"cut": low} if upper is None else {"cut": low, "snr": upper}
        both = self._through(lambda m, k, *ends: np.stack(_mean_of(_inverse_efficiency, m, k, *ends)), **where)
        return Estimate(both[0, ...], both[1, ...])

    def latency_growth(self) -> Array:
        """By how much E[1/log₂(1 + S); S ≥ cut] grows when the cut falls by a factor e: ln 2 f(0).

        Returns
        -------
        float64 array, shape (...)
            In Hz s/bit. As the least of n samples is near 1/(n f(0)), a mean over n blocks grows by this with each
            factor e in n, too.
        """
        return self._through(lambda m, k: math.log(2) * (1.0 + k) * np.exp(-k) / m)

    def _numpy(self, **values: Array) -> tuple[Any, ...]:
        """The namespace, and m, κ and the values in their domains as float64 of numpy."""
        xp, *given = checked(_DOMAINS, mean_snr=self.mean_snr, k_factor=self.k_factor, **values)
        return (xp, *(np.asarray(to_numpy(value), dtype=np.float64) for value in given))

    def _through(self, function: Callable[..., Any], **values: Array) -> Array:
        """The function by numpy and scipy, answered in the library of the input."""
        xp, *plain = self._numpy(**values)
        given = arrays(mean_snr=self.mean_snr, k_factor=self.k_factor, **values)[1]
        return xp.asarray(np.asarray(function(*np.broadcast_arrays(*plain))), device=given.device)


class Rayleigh(Rician):
    """SNR of a block without a line of sight: exponential.

    Parameters
    ----------
    mean_snr : float or array, shape (...)
        m = E[S], a ratio; positive.

    Raises
    ------
    ValueError
        If m is not positive and finite.

    Examples
    --------
    >>> link = Rayleigh(mean_snr=10.0)
    >>> round(float(link.capacity()), 4), round(float(link.outage_probability(1.0)), 4)
    (2.9065, 0.0952)
    """

    def __init__(self, mean_snr: Array) -> None:
        super().__init__(mean_snr, 0.0)

    def __repr__(self) -> str:
        return f"Rayleigh(mean_snr={self.mean_snr!r})"


def capacity_by_quadrature(link: Rician) -> Array:
    """E[log₂(1 + S)] by integrating the density: what the closed form is checked against."""
    return link._through(lambda m, k: _mean_of(lambda s: np.log1p(s) / math.log(2), m, k, m * 1e-20)[0])


def distribution_by_quadrature(link: Rician, snr: Array) -> Array:
    """P(S ≤ s) by integrating the density: what the mixture is checked against."""
    return link._through(lambda m, k, s: _mean_of(np.ones_like, m, k, np.minimum(s, m) * 1e-20, s)[0], snr=snr)


def scaled_expn(order: int, z: Any) -> Any:
    """e^z E_n(z) for z > 0, without underflow: by its continued fraction from z = 1 on."""
    from scipy import special

    large = z >= 1.0
    w = np.where(large, z, 1.0)
    tail = w + order + 2.0 * _LEVELS
    for i in range(_LEVELS, 0, -1):
        tail = w + order + 2.0 * (i - 1) - i * (order + i - 1.0) / tail
    small = np.where(large, 1.0, z)
    return np.where(large, 1.0 / tail, np.exp(small) * special.expn(order, small))


def _terms(k: Any) -> int:
    """Beyond how many terms the Poisson weights are below one rounding."""
    largest = float(np.max(k, initial=0.0))
    return int(largest + 12.0 * math.sqrt(largest) + 40.0)


def _density(m: Any, k: Any, s: Any) -> Any:
    from scipy import special

    y = (1.0 + k) * s / m
    return (1.0 + k) / m * np.exp(-((np.sqrt(k) - np.sqrt(y)) ** 2)) * special.i0e(2.0 * np.sqrt(k * y))


def _distribution(m: Any, k: Any, s: Any) -> Any:
    return np.minimum(_tail(k, (1.0 + k) * s / m, np.zeros(np.shape(s), dtype=bool)), 1.0)


def _tail(k: Any, y: Any, upper: Any) -> Any:
    """P(Y ≤ y), or P(Y > y) where ``upper``, of Y = (1 + κ)S/m: all terms of the mixture are positive."""
    from scipy import special

    total = np.zeros(y.shape)
    for j in range(_terms(np.maximum(k, np.where(upper, np.sqrt(k * y), 0.0))) if np.any(k > 0) else 1):
        weight = np.exp(special.xlogy(j, k) - k - special.gammaln(j + 1.0))
        total = total + weight * np.where(upper, special.gammaincc(j + 1.0, y), special.gammainc(j + 1.0, y))
    return total


def _quantile(m: Any, k: Any, p: Any) -> Any:
    return _invert(m, k, p, 1.0 - p)


def _upper_quantile(m: Any, k: Any, p: Any) -> Any:
    """The s with P(S > s) = p, which 1 - p cannot tell for a small p."""
    return _invert(m, k, 1.0 - p, p)


def _invert(m: Any, k: Any, below: Any, above: Any) -> Any:
    """The s with P(S ≤ s) = below and P(S > s) = above, by the smaller of the two; under Rayleigh in closed form."""
    upper = below > above
    tail = np.where(upper, above, below)
    y = np.where(upper, -np.log(tail), -np.log1p(-tail))
    direct = k > 0
    y[direct] = _newton(k[direct], tail[direct], upper[direct]) ** 2
    return m / (1.0 + k) * y


def _newton(k: Any, p: Any, upper: Any) -> Any:
    """The r = √y at which the tail is p ≤ ½.

    Newton's method on the tail's logarithm over r. The density 2r e^{-κ-r²} I₀(2√κ r) of r is log-concave, and so
    are both its tails, hence every step but the first ends on the side where the tail is below p, from which it
    converges. A complex Gaussian beyond |r - √κ| has e^{-(r-√κ)²}: that gives a start on that side, except for a p
    near or below e^{-κ}, where the distribution is about e^{-κ}y; from there the first step leaves r above 0, or the
    density below is negative and p is refused.
    """
    reach = np.sqrt(-np.log(p))
    near = np.exp(np.minimum(np.log(p) + k, 0.0) / 2.0)
    r = np.where(upper, np.sqrt(k) + reach, np.maximum(np.sqrt(k) - reach, near))
    for _ in range(_STEPS):
        reached, density = _tail(k, r**2, upper), 2.0 * r * _density(1.0 + k, k, r**2)
        if not ((reached > 0) & (density > 0)).all():
            break  # out of the numbers that a double can hold
        gap = np.log(p) - np.log(reached)
        r = r + np.where(upper, -gap, gap) * reached / density
        if (np.abs(gap) < _CLOSE).all():  # and one step beyond
            return r
    raise DomainError(
        "probability, or outage, must be further from 0 and 1 under this k_factor, where float64 holds its tail; got a "
        f"tail of {float(np.min(p))!r}; 1e-290 and more is safe"
    )


def _capacity(m: Any, k: Any) -> Any:
    from scipy import special

    z = (1.0 + k) / m
    total = scaled_expn(1, z)
    if np.any(k > 0):
        for n in range(1, _terms(k)):
            total = total + special.gammainc(float(n), k) * scaled_expn(n + 1, z)
    return total / math.log(2)


def _inverse_efficiency(s: Any) -> Any:
    return math.log(2) / np.log1p(s)


def _mean_of(weight: Callable[[Any], Any], m: Any, k: Any, lower: Any, upper: Any | None = None) -> tuple[Any, Any]:
    """E[weight(S); lower ≤ S ≤ upper] and its error, lower > 0.

    With r = √y the density is a bump of unit width, so panels of width 1 in r do from r = 1 on; below, where the
    weight may be singular at 0, panels of width 2 in ln r.
    """
    scale = m / (1.0 + k)
    begin, end = np.sqrt(lower / scale), np.sqrt(k) + _REACH
    if upper is not None:
        end = np.minimum(end, np.sqrt(upper / scale))
    end = np.maximum(begin, end)
    knee = np.clip(1.0, begin, end)

    def in_r(r: Any) -> Any:
        return (
            2.0
            * r
            * scale[..., None]
            * _density(m[..., None], k[..., None], scale[..., None] * r**2)
            * weight(scale[..., None] * r**2)
        )

    values = []
    for nodes in _NODES:
        low = _panels(lambda x: np.exp(x) * in_r(np.exp(x)), np.log(begin), np.log(knee), 2.0, nodes)
        values.append(low + _panels(in_r, knee, end, 1.0, nodes))
    beyond = weight(scale * end**2) * math.exp(-(_REACH**2)) if upper is None else 0.0
    return values[0], np.abs(values[0] - values[1]) + beyond


def _panels(function: Callable[[Any], Any], begin: Any, end: Any, width: float, nodes: int) -> Any:
    """∫ of the function from begin to end by Gauss-Legendre panels no wider than ``width``."""
    count = max(1, math.ceil(float(np.max(end - begin, initial=0.0)) / width))
    x, w = np.polynomial.legendre.leggauss(nodes)
    total = np.zeros(np.shape(begin))
    half = (end - begin) / (2.0 * count)
    for i in range(count):
        middle = begin + (2 * i + 1) * half
        total = total + half * np.sum(w * function(middle[..., None] + half[..., None] * x), axis=-1)
    return total
