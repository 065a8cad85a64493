"""Sides of the theorems on shares of a band."""

import math

import numpy as np

from hlmtheory._array import Array
from hlmtheory.ofdma.shares import finish_times, kkt_residual, minmax_latency, minmax_shares
from hlmtheory.sides.host import Values

# Any positive weights, divided by their sum, are shares w. "Fixed SNR" says that η_k does not depend on w_k, as in the
# paper: a user's power then grows with its share.


def least(one: Values, rate: Array) -> float:
    return float(minmax_latency(one["bits"], spectral_efficiency=rate, bandwidth_hz=one["bandwidth_hz"]))


def times_side(one: Values, rate: Array, weights: Array) -> Array:
    band, shares = one["bandwidth_hz"], weights / weights.sum()
    return finish_times(one["bits"], spectral_efficiency=rate, shares=shares, bandwidth_hz=band)


def shared(one: Values) -> Array:
    return times_side(one, one["spectral_efficiency"], one["weights"])


def certified(one: Values) -> float:
    bits, rate = one["bits"], one["spectral_efficiency"]
    return 1.0 - float(kkt_residual(bits, rate, minmax_shares(bits, spectral_efficiency=rate)))


def first_share(one: Values, boost: float) -> float:
    """Return the first user's share after its SNR is raised by this factor."""
    snr = np.concatenate([one["snr"][:1] * boost, one["snr"][1:]])
    return float(minmax_shares(one["bits"], spectral_efficiency=np.log1p(snr))[0])


def latency_of_radio(one: Values) -> float:
    rate = np.log1p(one["power"] * one["gain"] / one["noise"]) / math.log(2)
    return float(times_side(one, rate, minmax_shares(one["bits"], spectral_efficiency=rate)).max())


def latency_as_printed(one: Values) -> float:
    return least(one, np.log1p(one["power"] / one["gain"] / one["noise"]) / math.log(2))
