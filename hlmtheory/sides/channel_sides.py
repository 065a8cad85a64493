"""Sides of the theorems on the link."""

from hlmtheory._array import Array, arrays
from hlmtheory._quantities import checked
from hlmtheory.channel.fading import QuadratureEstimate, Rician
from hlmtheory.channel.latency import DOMAINS


def strip(mean_snr: Array, k_factor: Array, cut: Array, width: Array) -> QuadratureEstimate:
    _, low, factor = checked(DOMAINS, cut=cut, width=width)
    return Rician(mean_snr, k_factor).inverse_efficiency(low, low * factor)


def growth(mean_snr: Array, k_factor: Array, cut: Array, width: Array) -> Array:
    xp, m, k = arrays(mean_snr=mean_snr, k_factor=k_factor, cut=cut)[:3]
    _, low, factor = checked(DOMAINS, cut=cut, width=width)
    return Rician(m, k).latency_growth() * xp.exp(-(1.0 + k) * low * factor / m) * xp.log(factor)
