"""The claim on skipping over a fading link, with its proof above its record.

cu-hlm (oh2025cuhlm) (5) sends over one fading block, and the mean of its time is infinite, since the SNR may be near 0.
A plan that skips if a message of D bits takes longer than μ β̂/θ never waits for such a block.
"""

from __future__ import annotations

import math

import numpy as np

from hlmtheory._array import Array, arrays
from hlmtheory._quantities import checked, not_negative, positive
from hlmtheory.channel import Rician
from hlmtheory.channel.fading import LAW
from hlmtheory.claims import Attained, Claim, Source

# Proofs, by the last part of the id.
#
# fading_cut. For each SNR S, sending costs τ + D/(W log₂(1 + S)) seconds, which falls in S, and a skip costs μ β̂/θ.
#   The former is at most the latter exactly where W x log₂(1 + S) ≥ D with x = μ β̂/θ - τ > 0, that is S ≥ 2^{D/(W x)}
#   - 1. So this cut takes the smaller cost at every S, and no rule has a smaller mean. Near S = 0 nothing is sent, and
#   the mean is at most μ β̂/θ.

_FASTEST = 1000.0  # bit/s/Hz, which no block reaches
_SMALLEST = 1e-30  # SNR: below it a block has no rate
_TERMS = 1e3  # roundings in a quadrature
_DOMAINS = {
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
    """Return s* = 2^{D/(W x)} - 1, infinite for x ≤ 0, P(S ≥ s*), and the mean seconds of a draft, sent if S ≥ s*."""
    given = {"bits": bits, "bandwidth_hz": bandwidth_hz, "server_s": server_s, "worth_s": worth_s}
    xp, *values = checked(_DOMAINS, **given)
    payload, band, server, worth = xp.broadcast_arrays(*(xp.astype(value, xp.float64) for value in values))
    left = worth - server
    with np.errstate(over="ignore"):
        slow = payload / band
        efficiency = slow / xp.where(left > 0, left, 1.0)  # in bit/s/Hz: the air time is then x
        cut = xp.expm1(xp.where(efficiency < _FASTEST, efficiency, 0.0) * math.log(2.0))
    sends = (left > 0) & (efficiency < _FASTEST)
    known = xp.where(sends, xp.clip(cut, min=_SMALLEST), 1.0)
    share = 1.0 - link.distribution(known)
    seconds = slow * link.inverse_efficiency(known).value + server * share
    none = xp.zeros_like(share)
    return xp.where(sends, known, math.inf) + none, xp.where(sends, share, none), xp.where(sends, seconds, none)


def _least(
    mean_snr: Array, k_factor: Array, bits: Array, bandwidth_hz: Array, server_s: Array, worth_s: Array
) -> Array:
    _, sent, seconds = fading_skip(Rician(mean_snr, k_factor), bits, bandwidth_hz, server_s, worth_s)
    return seconds + worth_s * (1.0 - sent)


def _at(
    mean_snr: Array, k_factor: Array, bits: Array, bandwidth_hz: Array, server_s: Array, worth_s: Array, cut: Array
) -> Array:
    """The mean cost if a message is sent from another SNR on."""
    _, m, k, payload, band, server, worth, low = checked(
        _DOMAINS,
        mean_snr=mean_snr,
        k_factor=k_factor,
        bits=bits,
        bandwidth_hz=bandwidth_hz,
        server_s=server_s,
        worth_s=worth_s,
        cut=cut,
    )
    link = Rician(m, k)
    below = link.distribution(low)
    return payload / band * link.inverse_efficiency(low).value + server * (1.0 - below) + worth * below


def _quadrature(mean_snr: Array, bits: Array, bandwidth_hz: Array, server_s: Array, worth_s: Array) -> Array:
    """The relative error of the quadrature, in units of a rounding."""
    _, m, payload, band, server, worth = arrays(
        mean_snr=mean_snr, bits=bits, bandwidth_hz=bandwidth_hz, server_s=server_s, worth_s=worth_s
    )
    return _TERMS * (server + worth + payload / band + 0.0 * m)


FADING_CLAIMS = (
    Claim(
        id="policy.fading_cut",
        source=Source("oh2025cuhlm", "(5), with a skip if the SNR is low"),
        statement=(
            "mean cost of sending if S ≥ 2^{D/(W x)} − 1, x = μ β̂/θ − τ, ≤ that of any other SNR threshold; a message "
            "costs its time, a skip μ β̂/θ"
        ),
        lhs=_least,
        rhs=_at,
        attained=Attained(
            {
                "mean_snr": 10.0,
                "k_factor": 0.0,
                "bits": 1e5,
                "bandwidth_hz": 1e6,
                "server_s": 0.0625,
                "worth_s": 0.1625,
                "cut": 1.0,
            }
        ),
        condition=_quadrature,
    ),
)
