"""Claims of the module, each with its proof above its record."""

from __future__ import annotations

import math

import numpy as np

from hlmtheory._array import Array, arrays, to_numpy
from hlmtheory._quantities import checked
from hlmtheory.channel.fading import (
    QuadratureEstimate,
    Rayleigh,
    Rician,
    capacity_by_quadrature,
    distribution_by_quadrature,
)
from hlmtheory.channel.latency import (
    DOMAINS,
    efficiency,
    mean_round_throughput,
    shannon_latency,
    throughput,
    vocabulary_payload_bits,
)
from hlmtheory.channel.leak_claims import LEAK_CLAIMS
from hlmtheory.channel.links import GilbertElliott
from hlmtheory.channel.split import SPLIT_CLAIMS
from hlmtheory.claims import Attained, Claim, Origin, Relation, Source

# Proofs, by the last part of the id.
#
# payload. ⌈log₂ V⌉ is the smallest number of bits that can distinguish V tokens.
# latency. The mutual information of a Gaussian input over Gaussian noise grows with the SNR at the rate of the
#   minimum mean square error of the input's estimate, 1/(1 + s) (I-MMSE). The right side integrates this by quadrature
#   and uses no logarithm.
# throughput_means. False: by ``throughput`` the two means differ unless all rounds take the same time.
# rayleigh_mean, rician_mean. Here S stays constant for the whole transfer.
#   f(s) = (1+κ)/m e^{-κ-(1+κ)s/m} I₀(·) ≥ f(0) e^{-(1+κ)s/m}, as I₀ ≥ 1, and with the floor
#   above ∫_a^b f/log₂(1+s) ds ≥ ln 2 f(0) e^{-(1+κ)b/m} ln(b/a). With b fixed and a → 0 this is unbounded: the mean
#   latency is infinite at every mean SNR and every κ. So E[T_step] in flexspec (2) is infinite too, and a run's
#   throughput tends to 0, unless blocks in outage are dropped.
# finite_mean. By the above, the mean above a small enough cut exceeds any given number.
# capacity. E[log(1 + S)] = ∫ P(S > s)/(1 + s) ds = e^{1/m} E₁(1/m) for an exponential S. For a Gamma(j
#   + 1) S, by parts, e^z Σ_{k≤j+1} E_k(z); summing the Poisson mixture over j in the other
#   order gives the closed form.
# capacity_jensen. log is concave.
# outage. F(F⁻¹(p)) = p.
# rician_outage. The mixture of Gamma laws has the Bessel density.
# markov. πP = π.


def _index_bits(vocabulary: Array, bits_per_probability: Array) -> Array:
    """Return V (b + n), where n is the binary length of V - 1."""
    xp, size, width = arrays(vocabulary=vocabulary, bits_per_probability=bits_per_probability)
    lengths = np.vectorize(lambda v: int(v - 1).bit_length(), otypes=[np.int64])(to_numpy(size))
    return size * (width + xp.asarray(lengths, device=size.device))


def _latency_of_information(bits: Array, bandwidth_hz: Array, snr: Array) -> Array:
    """Return B over W times the mutual information ∫₀^S mmse(s) ds/ln 2, where mmse(s) = 1/(1 + s)."""
    xp, payload, band, ratio = checked(DOMAINS, bits=bits, bandwidth_hz=bandwidth_hz, snr=snr)
    nodes, weights = np.polynomial.legendre.leggauss(24)
    most = to_numpy(ratio)
    area, begin = np.zeros_like(most), np.zeros_like(most)
    while np.any(begin < most):
        half = (np.minimum(2.0 * begin + 1.0, most) - begin) / 2.0  # panels no wider than 1 + s, over which mmse halves
        mmse = 1.0 / (1.0 + begin[..., None] + half[..., None] * (1.0 + nodes))
        area, begin = area + half * np.sum(weights * mmse, axis=-1), begin + 2.0 * half
        begin = np.where(begin >= most * (1.0 - 1e-15), most, begin)
    return payload * math.log(2) / (band * xp.asarray(area, device=ratio.device))


def _strip(mean_snr: Array, k_factor: Array, cut: Array, width: Array) -> QuadratureEstimate:
    _, low, factor = checked(DOMAINS, cut=cut, width=width)
    return Rician(mean_snr, k_factor).inverse_efficiency(low, low * factor)


def _growth(mean_snr: Array, k_factor: Array, cut: Array, width: Array) -> Array:
    xp, m, k = arrays(mean_snr=mean_snr, k_factor=k_factor, cut=cut)[:3]
    _, low, factor = checked(DOMAINS, cut=cut, width=width)
    return Rician(m, k).latency_growth() * xp.exp(-(1.0 + k) * low * factor / m) * xp.log(factor)


def _mean_beyond(mean_snr: Array, cut: Array) -> Array:
    return Rayleigh(mean_snr).inverse_efficiency(cut).value


def _no_fading(mean_snr: Array) -> Array:
    xp, m = arrays(mean_snr=mean_snr)
    return efficiency(xp, m)


def _stays_stationary(leave_good: Array, leave_bad: Array) -> Array:
    bad = GilbertElliott(1.0, 0.0, leave_good, leave_bad, 1.0).share_of_bad()
    return bad * (1.0 - leave_bad) + (1.0 - bad) * leave_good


_CUHLM = "oh2025cuhlm"
_LINE = {"bits": 736_000.0, "bandwidth_hz": 10e6}

CLAIMS = (
    Claim(
        id="channel.payload",
        source=Source(_CUHLM, "(4)"),
        origin=Origin.PUBLISHED,
        statement="B = V (b_prob + ⌈log₂ V⌉): 736,000 bits at V = 32,000 and 8 bits",
        relation=Relation.EQ,
        lhs=lambda vocabulary, bits_per_probability: vocabulary_payload_bits(vocabulary, bits_per_probability),
        rhs=_index_bits,
        attained=Attained({"vocabulary": 32_000, "bits_per_probability": 8}),
    ),
    Claim(
        id="channel.latency",
        source=Source(_CUHLM, "(5); guo2005mutual (1)"),
        origin=Origin.PUBLISHED,
        statement="B/(W log₂(1 + SNR)) = B/(W I), mutual information I = ∫₀^SNR mmse(s) ds/ln 2, mmse(s) = 1/(1 + s)",
        relation=Relation.EQ,
        lhs=shannon_latency,
        rhs=_latency_of_information,
        attained=Attained({**_LINE, "snr": 10.0}),
    ),
    Claim(
        id="channel.throughput_means",
        source=Source(_CUHLM, "(6) and Section V-A, read as one quantity"),
        origin=Origin.IMPLIED,
        statement="n/Σt = Σ(1/t)/n: the throughput of a sequence is the mean throughput of its rounds",
        relation=Relation.EQ,
        lhs=throughput,
        rhs=mean_round_throughput,
        refuted={"times_s": [1.0, 3.0]},
    ),
    Claim(
        id="channel.rayleigh_mean",
        source=Source(_CUHLM, "(5) under Rayleigh fading, Table II, Fig. 10a"),
        statement="S constant in a transfer: E[1/log₂(1+S); a ≤ S ≤ b] ≥ ln 2 f(0) e^{−b/m} ln(b/a), infinite as a → 0",
        lhs=lambda mean_snr, cut, width: _growth(mean_snr, 0.0, cut, width),
        rhs=lambda mean_snr, cut, width: _strip(mean_snr, 0.0, cut, width).value,
        attained=Attained({"mean_snr": 1.0, "cut": 1e-12, "width": 1e6}),
        error=lambda mean_snr, cut, width: _strip(mean_snr, 0.0, cut, width).error,
    ),
    Claim(
        id="channel.rician_mean",
        source=Source(_CUHLM, "(5) under Rician fading, Fig. 10b"),
        statement="S constant in a transfer: as rayleigh_mean, f(0) = (1+κ)e^{−κ}/m and e^{−(1+κ)b/m}: infinite, too",
        lhs=_growth,
        rhs=lambda mean_snr, k_factor, cut, width: _strip(mean_snr, k_factor, cut, width).value,
        attained=Attained({"mean_snr": 1.0, "k_factor": 10.0, "cut": 1e-14, "width": 1e6}),
        error=lambda mean_snr, k_factor, cut, width: _strip(mean_snr, k_factor, cut, width).error,
    ),
    Claim(
        id="channel.finite_mean",
        source=Source(_CUHLM, "Table II, an average latency under Rayleigh fading"),
        origin=Origin.IMPLIED,
        statement="S constant in a transfer: E[1/log₂(1 + S); S ≥ cut] stays below some bound for every cut",
        lhs=_mean_beyond,
        rhs=lambda bound: checked(DOMAINS, bound=bound)[1],
        refuted={"mean_snr": 0.01, "cut": 1e-30, "bound": 1381.0},
    ),
    Claim(
        id="channel.capacity",
        source=Source("alouini1999capacity", "capacity with constant power, no diversity"),
        origin=Origin.PUBLISHED,
        statement="E[log₂(1 + S)] = e^{1/m} E₁(1/m)/ln 2 under Rayleigh fading",
        relation=Relation.EQ,
        lhs=lambda mean_snr: Rayleigh(mean_snr).capacity(),
        rhs=lambda mean_snr: capacity_by_quadrature(Rayleigh(mean_snr)),
        attained=Attained({"mean_snr": 10.0}),
    ),
    Claim(
        id="channel.capacity_jensen",
        source=Source("alouini1999capacity", "capacity with constant power"),
        origin=Origin.PUBLISHED,
        statement="E[log₂(1 + S)] ≤ log₂(1 + m): fading only costs capacity",
        lhs=lambda mean_snr, k_factor: Rician(mean_snr, k_factor).capacity(),
        rhs=_no_fading,
        attained=Attained({"mean_snr": 1e-9, "k_factor": 0.0}),
        condition=lambda k_factor: 1.0 + k_factor,
    ),
    Claim(
        id="channel.outage",
        source=Source("alouini1999capacity", "outage probability"),
        origin=Origin.PUBLISHED,
        statement="P(log₂(1 + S) ≤ R) = p at the outage rate R of p, under Rayleigh fading 1 − exp(−(2^R − 1)/m)",
        relation=Relation.EQ,
        lhs=lambda mean_snr, probability: Rayleigh(mean_snr).outage_probability(
            Rayleigh(mean_snr).rate_quantile(probability)
        ),
        rhs=lambda probability: probability,
        attained=Attained({"mean_snr": 10.0, "probability": 0.125}),
    ),
    Claim(
        id="channel.rician_outage",
        source=Source("alouini1999capacity", "extends the outage probability to a line of sight"),
        statement="P(S ≤ s) = Σ_j Poisson(j; κ) P(Gamma(j + 1) ≤ (1 + κ)s/m), the non-central χ²",
        relation=Relation.EQ,
        lhs=lambda mean_snr, k_factor, snr: Rician(mean_snr, k_factor).distribution(snr),
        rhs=lambda mean_snr, k_factor, snr: distribution_by_quadrature(Rician(mean_snr, k_factor), snr),
        attained=Attained({"mean_snr": 10.0, "k_factor": 10.0, "snr": 3.0}),
        condition=lambda k_factor: 1.0 + k_factor,
    ),
    Claim(
        id="channel.markov",
        source=Source("gilbert1960capacity", "the burst-noise channel"),
        origin=Origin.PUBLISHED,
        statement="the share leave_good/(leave_good + leave_bad) of bad slots is stationary",
        relation=Relation.EQ,
        lhs=_stays_stationary,
        rhs=lambda leave_good, leave_bad: GilbertElliott(1.0, 0.0, leave_good, leave_bad, 1.0).share_of_bad(),
        attained=Attained({"leave_good": 0.0625, "leave_bad": 0.25}),
    ),
    *LEAK_CLAIMS,
    *SPLIT_CLAIMS,
)
