"""The claim on skipping over a fading link, with its proof above its record."""

from __future__ import annotations

from hlmtheory._array import Array, arrays
from hlmtheory._quantities import checked
from hlmtheory.channel import Rician
from hlmtheory.claims import Attained, Claim, Source
from hlmtheory.policy.fading import DOMAINS, fading_skip

# Proofs, by the last part of the id.
#
# fading_cut. For each SNR S, sending costs τ + D/(W log₂(1 + S)) seconds, which falls in S, and a skip costs μ β̂/θ.
#   The former is at most the latter exactly where W x log₂(1 + S) ≥ D with x = μ β̂/θ - τ > 0, that is S ≥ 2^{D/(W x)}
#   - 1. So this cut takes the smaller cost at every S, and no rule has a smaller mean. Near S = 0 nothing is sent, and
#   the mean is at most μ β̂/θ.

_TERMS = 1e3  # roundings in a quadrature


def _least(
    mean_snr: Array, k_factor: Array, bits: Array, bandwidth_hz: Array, server_s: Array, worth_s: Array
) -> Array:
    found = fading_skip(Rician(mean_snr, k_factor), bits, bandwidth_hz, server_s, worth_s)
    return found.seconds + worth_s * (1.0 - found.sent)


def _at(
    mean_snr: Array, k_factor: Array, bits: Array, bandwidth_hz: Array, server_s: Array, worth_s: Array, cut: Array
) -> Array:
    """The mean cost if a message is sent from another SNR on."""
    _, m, k, payload, band, server, worth, low = checked(
        DOMAINS,
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
