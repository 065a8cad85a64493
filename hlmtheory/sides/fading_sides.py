"""Sides of the theorem on skipping over a fading link.

cu-hlm (oh2025cuhlm) (5) sends over one fading block, and the mean of its time is infinite, since the SNR may be near 0.
A plan that skips if a message of B bits takes longer than χ = μ β̂/θ never waits for such a block.
"""

import math

import numpy as np

from hlmtheory._array import Array, arrays
from hlmtheory._quantities import checked, not_negative, positive
from hlmtheory.channel import Rician
from hlmtheory.channel.fading import LAW

_FASTEST = 1000.0  # bit/s/Hz, which no block reaches
_SMALLEST = 1e-30  # SNR: below it a block has no rate
_TERMS = 1e3  # roundings in a quadrature
DOMAINS = {
    "mean_snr": LAW["mean_snr"],
    "k_factor": LAW["k_factor"],
    "bits": positive("a round that sends nothing takes no time: leave it out"),
    "bandwidth_hz": positive("give the band of the uplink in Hz"),
    "server_s": not_negative("give the time of a round but for its air time, in seconds"),
    "worth_s": not_negative("give the seconds that a verification is worth: μ β̂/θ"),
    "cut": positive("give an SNR as a ratio, not in dB"),
}


def fading_skip(
    link: Rician, bits: Array, bandwidth_hz: Array, server_s: Array, worth_s: Array
) -> tuple[Array, Array, Array]:
    """Return s* = 2^{B/(W (χ - τ))} - 1, infinite for χ ≤ τ, P(SNR ≥ s*), and the mean seconds of sending then."""
    given = {"bits": bits, "bandwidth_hz": bandwidth_hz, "server_s": server_s, "worth_s": worth_s}
    xp, *values = checked(DOMAINS, **given)
    payload, band, server, worth = xp.broadcast_arrays(*(xp.astype(value, xp.float64) for value in values))
    left = worth - server
    with np.errstate(over="ignore"):
        slow = payload / band
        efficiency = slow / xp.where(left > 0, left, 1.0)  # in bit/s/Hz: the air time is then χ - τ
        cut = xp.expm1(xp.where(efficiency < _FASTEST, efficiency, 0.0) * math.log(2.0))
    sends = (left > 0) & (efficiency < _FASTEST)
    known = xp.where(sends, xp.clip(cut, min=_SMALLEST), 1.0)
    share = 1.0 - link.distribution(known)
    seconds = slow * link.inverse_efficiency(known).value + server * share
    none = xp.zeros_like(share)
    return xp.where(sends, known, math.inf) + none, xp.where(sends, share, none), xp.where(sends, seconds, none)


def quadrature_side(mean_snr: Array, bits: Array, bandwidth_hz: Array, server_s: Array, worth_s: Array) -> Array:
    """The relative error of the quadrature, in units of a rounding."""
    _, m, payload, band, server, worth = arrays(
        mean_snr=mean_snr, bits=bits, bandwidth_hz=bandwidth_hz, server_s=server_s, worth_s=worth_s
    )
    return _TERMS * (server + worth + payload / band + 0.0 * m)
