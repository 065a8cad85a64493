"""Skipping over a fading link whose SNR the device knows: below a cut it keeps its draft instead of sending it.

cu-hlm (oh2025cuhlm) (5) sends over one fading block. The mean of its time is infinite under Rayleigh fading, since the
SNR may be near 0. A plan that may skip never waits for such a block: at the price θ of a second and μ of a unit of
risk, a message of D bits is sent only if μ β̂ ≥ θ (τ + D/(W log₂(1 + S))). So the mean time is finite.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hlmtheory._array import Array
from hlmtheory._domains import instance
from hlmtheory._quantities import checked, not_negative, positive
from hlmtheory.channel import Rician
from hlmtheory.channel.fading import LAW

_FASTEST = 1000.0  # bit/s/Hz, which no block reaches
_SMALLEST = 1e-30  # SNR: below it a block has no rate

DOMAINS = {
    "mean_snr": LAW["mean_snr"],
    "k_factor": LAW["k_factor"],
    "bits": positive("a round that sends nothing takes no time: leave it out"),
    "bandwidth_hz": positive("give the band of the uplink in Hz"),
    "server_s": not_negative("give the time of a round but for its air time, in seconds"),
    "worth_s": not_negative("give the seconds that a verification is worth: μ β̂/θ"),
    "cut": positive("give an SNR as a ratio, not in dB"),
}


class FadingSkip(NamedTuple):
    """When a message is sent over a fading link, and what it takes in the mean over the blocks.

    Attributes
    ----------
    cut : array
        s*: it is sent if the SNR is at least this ratio; infinite if it is never sent.
    sent : array
        P(S ≥ s*).
    seconds : array
        Mean time with the server and on air, 0 for a skipped draft.
    error : array
        Bound on the error of ``seconds`` by the quadrature.
    """

    cut: Array
    sent: Array
    seconds: Array
    error: Array


def fading_skip(link: Rician, bits: Array, bandwidth_hz: Array, server_s: Array, worth_s: Array) -> FadingSkip:
    """Return the SNR below which a draft is kept instead of sent, and the mean time of a draft.

    A message of D ``bits`` takes ``server_s`` = τ and its air time; a verification is worth ``worth_s`` = μ β̂/θ
    seconds, and the device knows the block's SNR before it decides. Then s* = 2^{D/(W x)} - 1 with x = μ β̂/θ - τ;
    infinite for x ≤ 0. The mean time is τ P(S ≥ s*) + D/W E[1/log₂(1 + S); S ≥ s*], and finite.
    """
    instance("link", link, Rician)
    xp, payload, band, server, worth = checked(
        DOMAINS, bits=bits, bandwidth_hz=bandwidth_hz, server_s=server_s, worth_s=worth_s
    )
    payload, band, server, worth = xp.broadcast_arrays(
        *(xp.astype(v, xp.float64) for v in (payload, band, server, worth))
    )
    left = worth - server
    with np.errstate(over="ignore"):
        slow = payload / band
        efficiency = slow / xp.where(left > 0, left, 1.0)  # in bit/s/Hz: the air time is then x
        cut = xp.expm1(xp.where(efficiency < _FASTEST, efficiency, 0.0) * math.log(2.0))
    sends = (left > 0) & (efficiency < _FASTEST)
    known = xp.where(sends, xp.clip(cut, min=_SMALLEST), 1.0)
    share = 1.0 - link.distribution(known)
    air, error = link.inverse_efficiency(known)
    none = xp.zeros_like(share)
    slow = xp.where(sends, slow, none)
    return FadingSkip(
        xp.where(sends, known, math.inf) + none,
        xp.where(sends, share, none),
        slow * air + xp.where(sends, server, none) * share,
        slow * error,
    )
