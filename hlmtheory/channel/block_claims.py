"""Claims on transfers longer than a coherence block, each with its proof above its record."""

from __future__ import annotations

import math

from hlmtheory._array import Array, arrays, to_numpy
from hlmtheory._quantities import checked
from hlmtheory.channel.blocks import low_snr_transfer_time, mean_transfer_time
from hlmtheory.channel.fading import LAW, QuadratureEstimate, Rayleigh, Rician
from hlmtheory.claims import Attained, Claim, Origin, Relation, Source

# Let N be the block in which the transfer ends, R its rate, o the unused time of that block, and
# C = W E[log₂(1 + S)]. Then T = N T_c - o, and B = (bits of N whole blocks) - R o. N is a stopping time, so by Wald the
# N blocks carry E[N] C T_c bits in the mean, and E[T] = B/C + E[o (R/C - 1)].
#
# Proofs, by the last part of the id.
#
# transfer_floor. Given the b bits that block n still has to carry, o = (T_c - b/R)⁺ never falls as R rises. So by
#   Chebyshev's inequality E[o (R/C - 1)] is at least the product of the means, where E[R/C - 1] = 0. Nearly equal where
#   T_c is small relative to B/C, or where the rate hardly varies.
# transfer_ceiling. E[T] - B/C ≤ E[R o]/C. R o is what a block carries beyond b, given that it carries more than b. The
#   law of y = (1 + κ)S/m has the density e^{-κ-y} I₀(2√(κy)), and I₀(2√z) = Π_j (1 + 4z/j²) over the zeros j of the
#   Bessel function J₀. So the density is log-concave, its hazard rate rises, and so does that of the convex scale
#   log₂(1 + S). Under a law with a rising hazard rate, the expected remainder at any age is at most the mean, so E[R o]
#   ≤ C T_c. The largest excess known is T_c/2, at low SNR over many blocks (transfer_low_snr).
# transfer_low_snr. log₂(1 + S) ≤ S/ln 2, so on every path the transfer ends no earlier than with the rate W S/ln 2. For
#   that rate E[T] has a closed form (low_snr_transfer_time). Sharp as m → 0.
# transfer_one_block. Every transfer spends min(T_c, B/R) in the first block. As T_c → ∞ the mean of this time has no
#   bound, by rayleigh_mean, and the first block holds the whole transfer.


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


def _excess_error(mean_snr: Array, k_factor: Array, bits: Array, bandwidth_hz: Array, coherence_s: Array) -> Array:
    return _error(mean_snr, k_factor, bits, bandwidth_hz, coherence_s) / coherence_s


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


def _rayleigh_mean(mean_snr: Array, bits: Array, bandwidth_hz: Array, coherence_s: Array) -> Array:
    return mean_transfer_time(Rayleigh(mean_snr), bits, bandwidth_hz, coherence_s).value


def _rayleigh_error(mean_snr: Array, bits: Array, bandwidth_hz: Array, coherence_s: Array) -> Array:
    return mean_transfer_time(Rayleigh(mean_snr), bits, bandwidth_hz, coherence_s).error


def _first_block(mean_snr: Array, k_factor: Array, bits: Array, bandwidth_hz: Array, coherence_s: Array) -> Array:
    """Return E[min(T_c, B/R)], computed from the SNR at which one block suffices."""
    xp, m, k, payload, band, coherence = checked(
        LAW, mean_snr=mean_snr, k_factor=k_factor, bits=bits, bandwidth_hz=bandwidth_hz, coherence_s=coherence_s
    )
    enough = xp.expm1(xp.minimum(payload / (band * coherence), 1000.0 + 0.0 * m) * math.log(2))
    link = Rician(m, k)
    return coherence * link.distribution(enough) + payload / band * link.inverse_efficiency(enough).value


def _one(coherence_s: Array) -> Array:
    xp, coherence = arrays(coherence_s=coherence_s)
    return xp.ones_like(coherence)


_UPLOAD = {"mean_snr": 0.01, "k_factor": 0.0, "bits": 736_000.0, "bandwidth_hz": 10e6}
_SOURCE = Source("oh2025cuhlm", "(5) with the fading drawn anew every T_c seconds")

BLOCK_CLAIMS = (
    Claim(
        id="channel.transfer_floor",
        source=_SOURCE,
        origin=Origin.NEW,
        statement="over i.i.d. blocks of T_c, B/(W E[log₂(1 + S)]) ≤ E[T]: approached as T_c → 0",
        relation=Relation.LE,
        lhs=_at_capacity,
        rhs=_mean,
        attained=Attained({**_UPLOAD, "coherence_s": 1e-6}),
        error=_error,
    ),
    Claim(
        id="channel.transfer_ceiling",
        source=_SOURCE,
        origin=Origin.NEW,
        statement="over i.i.d. blocks of T_c, (E[T] − B/(W E[log₂(1 + S)]))/T_c ≤ 1, Rayleigh or Rician",
        relation=Relation.LE,
        lhs=_excess,
        rhs=_one,
        attained=Attained({**_UPLOAD, "mean_snr": 1e-6, "coherence_s": 1e4}, ratio=0.49989287093252277),
        error=_excess_error,
        condition=_blocks,
    ),
    Claim(
        id="channel.transfer_low_snr",
        source=_SOURCE,
        origin=Origin.NEW,
        statement="Rayleigh, a = B ln 2/(W T_c m): a + a(1 + a/2)E₁(a) + (1 − (1 + a)e^{−a})/2 ≤ E[T]/T_c",
        relation=Relation.LE,
        lhs=_linear,
        rhs=_rayleigh_mean,
        attained=Attained(
            {"mean_snr": 1e-5, "bits": 736_000.0, "bandwidth_hz": 10e6, "coherence_s": 1e4}, ratio=0.9999973829421454
        ),
        error=_rayleigh_error,
    ),
    Claim(
        id="channel.transfer_one_block",
        source=_SOURCE,
        origin=Origin.NEW,
        statement="over i.i.d. blocks of T_c, E[min(T_c, B/R)] ≤ E[T]: infinite as T_c → ∞, the mean at constant S",
        relation=Relation.LE,
        lhs=_first_block,
        rhs=_mean,
        attained=Attained({**_UPLOAD, "coherence_s": 1e9}),
        error=_error,
    ),
)
