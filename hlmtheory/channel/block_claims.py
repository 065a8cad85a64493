"""Claims on transfers longer than a coherence block, each with its proof above its record."""

from __future__ import annotations

import math

from hlmtheory._array import Array, arrays, to_numpy
from hlmtheory._quantities import checked
from hlmtheory.channel.blocks import low_snr_transfer_time, mean_transfer_time
from hlmtheory.channel.fading import LAW, QuadratureEstimate, Rician
from hlmtheory.claims import Source

# Let N be the block in which the transfer ends, R its rate, o the unused time of that block, and
# C = W E[log₂(1 + S)]. Then T = N T_c - o, and B = (bits of N whole blocks) - R o. N is a stopping time, so by Wald the
# N blocks carry E[N] C T_c bits in the mean, and E[T] = B/C + E[o (R/C - 1)].
#
# Proofs, by the last part of the id.
#


def _time(mean_snr: Array, k_factor: Array, bits: Array, bandwidth_hz: Array, coherence_s: Array) -> QuadratureEstimate:
    return mean_transfer_time(Rician(mean_snr, k_factor), bits, bandwidth_hz, coherence_s)


def _mean(mean_snr: Array, k_factor: Array, bits: Array, bandwidth_hz: Array, coherence_s: Array) -> Array:
    return _time(mean_snr, k_factor, bits, bandwidth_hz, coherence_s).value


def _error(mean_snr: Array, k_factor: Array, bits: Array, bandwidth_hz: Array, coherence_s: Array) -> Array:
    return _time(mean_snr, k_factor, bits, bandwidth_hz, coherence_s).error


def _at_capacity(mean_snr: Array, k_factor: Array, bits: Array, bandwidth_hz: Array) -> Array:
    """Return B/(W E[log₂(1 + S)])."""
    _, payload, band = checked(LAW, bits=bits, bandwidth_hz=bandwidth_hz)
    return payload / (band * Rician(mean_snr, k_factor).capacity())


def _excess(mean_snr: Array, k_factor: Array, bits: Array, bandwidth_hz: Array, coherence_s: Array) -> Array:
    """Return E[T] - B/(W E[log₂(1 + S)]) in blocks."""
    beyond = _mean(mean_snr, k_factor, bits, bandwidth_hz, coherence_s)
    return (beyond - _at_capacity(mean_snr, k_factor, bits, bandwidth_hz)) / coherence_s


def _blocks(mean_snr: Array, k_factor: Array, bits: Array, bandwidth_hz: Array, coherence_s: Array) -> Array:
    """Return the number of blocks that is subtracted to get the excess."""
    return 1.0 + _at_capacity(mean_snr, k_factor, bits, bandwidth_hz) / coherence_s


def _linear(mean_snr: Array, bits: Array, bandwidth_hz: Array, coherence_s: Array) -> Array:
    """Return E[T] with the rate W S/ln 2."""
    xp, m, payload, band, coherence = checked(
        LAW, mean_snr=mean_snr, bits=bits, bandwidth_hz=bandwidth_hz, coherence_s=coherence_s
    )
    blocks = to_numpy(payload * math.log(2) / (band * coherence * m))
    return coherence * xp.asarray(low_snr_transfer_time(blocks), device=m.device)


def _one(coherence_s: Array) -> Array:
    xp, coherence = arrays(coherence_s=coherence_s)
    return xp.ones_like(coherence)


_SOURCE = Source("oh2025cuhlm", "(5) with the fading drawn anew every T_c seconds")

BLOCK_CLAIMS = ()
