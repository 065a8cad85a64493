"""Rayleigh and Rician block fading: the distribution of the SNR, of the rate and of the latency within one block.

With y = (1 + κ)S/m, twice y is non-central χ² with 2 degrees of freedom and non-centrality 2κ: a mixture of
Gamma(j + 1) laws with Poisson(κ) weights. Rayleigh is κ = 0.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hlmtheory._array import Array, arrays, to_numpy
from hlmtheory._domains import finite_answer, generator, number
from hlmtheory._quantities import checked, not_negative, open_unit, positive, within
from hlmtheory.channel import fading_laws as laws
from hlmtheory.channel.latency import DRAWS

LAW = {
    "mean_snr": positive("give the ratio, not dB; over a dead link nothing arrives, over a noiseless one at once"),
    "k_factor": within(0, 10_000, "give the ratio, not dB; above 10,000 the SNR hardly varies, take it as constant"),
    "snr": not_negative("give the ratio, not dB"),
    "upper": not_negative("give the ratio, not dB; leave it out if there is no upper end"),
    "rate": within(0, 1_000, "give a spectral efficiency in bit/s/Hz; 1,000 needs a SNR of 3,010 dB"),
    "probability": open_unit("give a probability that is neither 0 nor 1"),
    "outage": open_unit("give the share of the blocks that are given up; without it the mean is infinite"),
    "cut": positive("give the SNR below which a block is given up; without it the mean is infinite"),
    "bits": positive("a round that sends nothing takes no time: leave it out"),
    "bandwidth_hz": positive("give the band of the uplink in Hz"),
}


class QuadratureEstimate(NamedTuple):
    """Number computed by quadrature, and a bound on its error."""

    value: Array
    error: Array


@dataclass(frozen=True)
class Rician:
    """Distribution of a block's SNR with a line of sight.

    Parameters
    ----------
    mean_snr : float or array, shape (...)
        m = E[S], a ratio; positive.
    k_factor : float or array, shape (...)
        κ, line-of-sight over scattered power, a ratio; 0 or more.

    Raises
    ------
    ValueError
        If m is not positive and finite, or κ is negative or infinite.

    Examples
    --------
    >>> link = Rician(mean_snr=10.0, k_factor=10.0)
    >>> round(float(link.capacity()), 4), round(float(link.outage_probability(2.0)), 6)
    (3.3503, 0.020129)
    """

    mean_snr: Array
    k_factor: Array

    def __post_init__(self) -> None:
        """Check the parameters."""
        checked(LAW, mean_snr=self.mean_snr, k_factor=self.k_factor)

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray[Any, Any]:
        """Return the SNR of ``size`` independent blocks, numpy (..., size); at most 10,000,000."""
        _, m, k = self._numpy()
        rng, size = generator("rng", rng), number(DRAWS, "size", size)
        shape = (*np.broadcast_shapes(m.shape, k.shape), size)
        direct, scattered, quadrature = np.sqrt(k)[..., None], rng.standard_normal(shape), rng.standard_normal(shape)
        power = (direct + scattered / math.sqrt(2)) ** 2 + quadrature**2 / 2.0
        return np.asarray((m / (1.0 + k))[..., None] * power)

    def density(self, snr: Array) -> Array:
        """Return the density f of S, float64; at 0 it is (1 + κ)e^{-κ}/m > 0."""
        return self._through(laws.density, snr=snr)

    def distribution(self, snr: Array) -> Array:
        """Return P(S ≤ s), float64, to full relative accuracy in the lower tail."""
        return self._through(laws.distribution, snr=snr)

    def quantile(self, probability: Array) -> Array:
        """Return the s with P(S ≤ s) = p, float64.

        Raises a ValueError if p is not in (0, 1), or κ is positive and p is so small that float64 cannot hold P(S ≤ s).
        """
        return self._through(laws.quantile, probability=probability)

    def capacity(self) -> Array:
        """Return the ergodic capacity E[log₂(1 + S)] in bit/s/Hz: e^z Σ_k P(N ≥ k - 1) E_k(z), z = (1 + κ)/m."""
        return self._through(laws.capacity)

    def outage_probability(self, rate: Array) -> Array:
        """Return P(log₂(1 + S) ≤ R) of a rate R in bit/s/Hz, 0 to 1,000."""
        xp, rate = checked(LAW, rate=rate)
        return self.distribution(xp.expm1(xp.astype(rate, xp.float64) * math.log(2)))

    def rate_quantile(self, probability: Array) -> Array:
        """Return the outage rate R in bit/s/Hz with P(log₂(1 + S) ≤ R) = p; the median rate at p = ½."""
        xp, snr = arrays(snr=self.quantile(probability))
        return xp.log1p(snr) / math.log(2)

    @finite_answer
    def latency_quantile(self, probability: Array, bits: Array, bandwidth_hz: Array) -> Array:
        """Return the seconds that a share p of the blocks does not exceed, with S constant in a transfer.

        B in bit, W in Hz. It is finite, although the mean over S is infinite; a ValueError as in :meth:`quantile`.
        """
        xp, p, payload, band = checked(LAW, probability=probability, bits=bits, bandwidth_hz=bandwidth_hz)
        return payload * math.log(2) / (band * xp.log1p(self._through(laws.upper_quantile, probability=p)))

    @finite_answer
    def mean_latency(self, bits: Array, bandwidth_hz: Array, *, outage: Array) -> QuadratureEstimate:
        """Return the mean seconds without the share ``outage`` of the worst blocks, by quadrature."""
        _, payload, band, share = checked(LAW, bits=bits, bandwidth_hz=bandwidth_hz, outage=outage)
        value, error = self.inverse_efficiency(self.quantile(share))
        seconds = payload / (band * (1.0 - share))
        return QuadratureEstimate(value * seconds, error * seconds)

    @finite_answer
    def inverse_efficiency(self, cut: Array, upper: Array | None = None) -> QuadratureEstimate:
        """Return E[1/log₂(1 + S); cut ≤ S ≤ upper] in Hz s/bit, by quadrature; ``upper`` None is infinite.

        The cut is positive. The value is not divided by P(cut ≤ S ≤ upper).
        """
        _, low = checked(LAW, cut=cut)
        where = {"cut": low} if upper is None else {"cut": low, "upper": upper}
        both = self._through(lambda m, k, *ends: np.stack(laws.mean_of(laws.inverse_efficiency, m, k, *ends)), **where)
        return QuadratureEstimate(both[0, ...], both[1, ...])

    def latency_growth(self) -> Array:
        """Return the growth of E[1/log₂(1 + S); S ≥ cut] for each factor e of the cut: ln 2 f(0), in Hz s/bit.

        The smallest of n samples is near 1/(n f(0)), so a mean over n blocks grows by this for each factor e in n.
        """
        return self._through(lambda m, k: math.log(2) * (1.0 + k) * np.exp(-k) / m)

    def _numpy(self, **values: Array) -> tuple[Any, ...]:
        xp, *given = checked(LAW, mean_snr=self.mean_snr, k_factor=self.k_factor, **values)
        return (xp, *(np.asarray(to_numpy(value), dtype=np.float64) for value in given))

    def _through(self, function: Callable[..., Any], **values: Array) -> Array:
        """Call the function with numpy arrays, and return the result in the library of the input."""
        xp, *plain = self._numpy(**values)
        given = arrays(mean_snr=self.mean_snr, k_factor=self.k_factor, **values)[1]
        return xp.asarray(np.asarray(function(*np.broadcast_arrays(*plain))), device=given.device)


class Rayleigh(Rician):
    """Distribution of a block's SNR without a line of sight: exponential.

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
    """Return E[log₂(1 + S)] by integrating the density, to check the closed form."""
    return link._through(lambda m, k: laws.mean_of(lambda s: np.log1p(s) / math.log(2), m, k, m * 1e-20)[0])


def distribution_by_quadrature(link: Rician, snr: Array) -> Array:
    """Return P(S ≤ s) by integrating the density, to check the mixture."""
    least = np.finfo(np.float64).tiny  # the integral is in ln s near 0
    return link._through(
        lambda m, k, s: laws.mean_of(np.ones_like, m, k, np.maximum(np.minimum(s, m) * 1e-20, least), s)[0], snr=snr
    )
