"""The link: payload, Shannon latency, throughput, path loss, fading, and what an average latency means.

Papers: cu-hlm (oh2025cuhlm) (4)-(6), u-hlm (oh2024uhlm) (3)-(4), edge-sd (zhu2025edgesd) Section IV; capacity
under Rayleigh fading is in alouini1999capacity.

========== =============================================== ========= ===========
symbol     name                                            unit      shape
========== =============================================== ========= ===========
V          ``vocabulary``                                  tokens    (...)
B          ``bits``, payload                               bit       (...)
W          ``bandwidth_hz``                                Hz        (...)
S          ``snr``, received signal-to-noise ratio         1         (...)
m          ``mean_snr``, E[S]                              1         (...)
κ          ``k_factor``, line-of-sight over scattered      1         (...)
f, F       density and distribution function of S          1         (...)
========== =============================================== ========= ===========

Ratios are never in dB here; :func:`db_to_linear` and the like convert. A block-fading link draws one S per
block. What needs a special function goes through scipy on the host, in float64, and comes back in the library and
on the device of the input.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hlmtheory._array import Array, arrays, floating, to_numpy
from hlmtheory._domains import UNIT_INTERVAL, Domain, DomainError
from hlmtheory._fading import Estimate, Rayleigh, Rician, capacity_by_quadrature, distribution_by_quadrature
from hlmtheory._links import GilbertElliott, TraceLink
from hlmtheory._quantities import at_least_one, checked, not_negative, positive, whole_from_one
from hlmtheory.claims import Attained, Claim, Origin, Relation, Source

__all__ = ["CLAIMS", "Estimate", "GilbertElliott", "Rayleigh", "Rician", "TraceLink"]

_LEVEL = Domain("finite", lambda xp, value: xp.isfinite(value), "a power of 0 has no level in dB")
_DOMAINS = {
    "ratio": positive("a ratio of 0 has no level in dB"),
    "watts": positive("a power of 0 has no level in dBm"),
    "bits": positive("a round that sends nothing takes no time: leave it out"),
    "bandwidth_hz": positive("give the band of the uplink in Hz"),
    "snr": positive("give the ratio, not dB; over a dead link nothing arrives, over a noiseless one at once"),
    "distance_m": positive("give a distance in metres"),
    "frequency_hz": positive("give the carrier in Hz"),
    "reference_m": positive("give a distance in metres"),
    "reference_gain": positive("give the gain at the reference distance as a ratio, not in dB"),
    "exponent": not_negative("give the path-loss exponent: 2 in free space, 2.7 to 5 in towns"),
    "draft_s": not_negative("give a time in seconds"),
    "uplink_s": not_negative("give a time in seconds"),
    "verify_s": not_negative("give a time in seconds"),
    "times_s": positive("a round takes some time, in seconds"),
    "cut": positive("give the SNR below which a block is given up; with none the mean is infinite"),
    "width": at_least_one("give by which factor the strip's upper end exceeds its lower one"),
    "bound": positive("give what the mean is said not to exceed"),
}
_COUNT = whole_from_one("count tokens, or bits")


def db_to_linear(db: Array) -> Array:
    """A ratio of powers from decibels: 10^(dB/10).

    Parameters
    ----------
    db : array, shape (...)
        Finite, in dB.

    Returns
    -------
    array, shape (...)

    Raises
    ------
    ValueError
        If a value is not finite.

    Examples
    --------
    >>> float(db_to_linear(-20.0))
    0.01
    """
    xp, level = arrays(db=db)
    (level,) = floating(xp, _LEVEL.check(xp, "db", level))
    return 10.0 ** (level / 10.0)


def linear_to_db(ratio: Array) -> Array:
    """Decibels of a ratio of powers: 10 log₁₀.

    Parameters
    ----------
    ratio : array, shape (...)
        Positive and finite.

    Returns
    -------
    array, shape (...)
        In dB.

    Raises
    ------
    ValueError
        If a value is not positive and finite.

    Examples
    --------
    >>> float(linear_to_db(100.0))
    20.0
    """
    xp, value = checked(_DOMAINS, ratio=ratio)
    return 10.0 * xp.log10(value)


def dbm_to_watts(dbm: Array) -> Array:
    """Watts from dBm, decibels over a milliwatt.

    Parameters
    ----------
    dbm : array, shape (...)
        Finite, in dBm.

    Returns
    -------
    array, shape (...)
        In watts.

    Raises
    ------
    ValueError
        If a value is not finite.

    Examples
    --------
    >>> float(dbm_to_watts(30.0))
    1.0
    """
    xp, level = arrays(dbm=dbm)
    (level,) = floating(xp, _LEVEL.check(xp, "dbm", level))
    return 10.0 ** ((level - 30.0) / 10.0)


def watts_to_dbm(watts: Array) -> Array:
    """Watts in dBm, decibels over a milliwatt.

    Parameters
    ----------
    watts : array, shape (...)
        Positive and finite.

    Returns
    -------
    array, shape (...)
        In dBm.

    Raises
    ------
    ValueError
        If a value is not positive and finite.

    Examples
    --------
    >>> float(watts_to_dbm(0.001))
    0.0
    """
    xp, value = checked(_DOMAINS, watts=watts)
    return 10.0 * xp.log10(value) + 30.0


# --------------------------------------------------------------------------- payload, latency, throughput


def vocabulary_payload_bits(vocabulary: Array, bits_per_probability: Array, *, index: bool = True) -> Array:
    """Bits of a whole row of probabilities: V (b_prob + ⌈log₂ V⌉), or V b_prob in a fixed order.

    Parameters
    ----------
    vocabulary : integer array, shape (...)
        V, 1 or more.
    bits_per_probability : integer array, shape (...)
        b_prob, 1 or more.
    index : bool
        Whether each probability carries its index, as in cu-hlm (4), which a full row in a known order does not
        need, as in u-hlm.

    Returns
    -------
    int64 array, shape (...)
        B, in bit: 736,000 (92 kB) for V = 32,000 and 8 bits.

    Raises
    ------
    ValueError
        If V or b_prob is below 1 or no integer.

    Examples
    --------
    >>> int(vocabulary_payload_bits(32_000, 8)), int(vocabulary_payload_bits(32_000, 8, index=False))
    (736000, 256000)
    """
    xp, size, width = arrays(vocabulary=vocabulary, bits_per_probability=bits_per_probability)
    size = xp.astype(_COUNT.check(xp, "vocabulary", size), xp.int64)
    width = xp.astype(_COUNT.check(xp, "bits_per_probability", width), xp.int64)
    if not index:
        return size * width
    places = xp.zeros_like(size)
    for n in range(62):  # ⌈log₂ V⌉ is how many powers of 2 are below V: no rounding
        places = places + xp.astype(size > 2**n, xp.int64)
    return size * (width + places)  # (4)


def shannon_latency(bits: Array, bandwidth_hz: Array, snr: Array) -> Array:
    """Time to send a payload at capacity: B/(W log₂(1 + S)).

    Parameters
    ----------
    bits : array, shape (...)
        B, in bit; positive.
    bandwidth_hz : array, shape (...)
        W, in Hz; positive.
    snr : array, shape (...)
        S, a ratio; positive and finite.

    Returns
    -------
    array, shape (...)
        In seconds; cu-hlm (5), u-hlm (3).

    Raises
    ------
    ValueError
        If a value is not positive and finite.

    Examples
    --------
    >>> float(shannon_latency(736_000, 10e6, 1.0))
    0.0736
    """
    xp, payload, band, ratio = checked(_DOMAINS, bits=bits, bandwidth_hz=bandwidth_hz, snr=snr)
    return payload / (band * _efficiency(xp, ratio))  # (5)


def round_throughput(draft_s: Array, uplink_s: Array, verify_s: Array, *, sent: Array = True) -> Array:
    """Tokens a second of one round: 1/(τ_SLM + τ + τ_LLM) if the token is sent, 1/τ_SLM if not.

    Parameters
    ----------
    draft_s, uplink_s, verify_s : array, shape (...)
        τ_SLM, τ(t) and τ_LLM, in seconds.
    sent : bool array, shape (...)
        Whether the server is asked.

    Returns
    -------
    array, shape (...)
        In tokens a second; cu-hlm (6), u-hlm (4).

    Raises
    ------
    ValueError
        If a time is negative or infinite, or the round takes none.

    Examples
    --------
    >>> round_throughput(0.025, 0.075, 0.1, sent=[True, False]).tolist()
    [5.0, 40.0]
    """
    xp, draft, uplink, verify, asked = arrays(draft_s=draft_s, uplink_s=uplink_s, verify_s=verify_s, sent=sent)
    for name, value in (("draft_s", draft), ("uplink_s", uplink), ("verify_s", verify)):
        _DOMAINS[name].check(xp, name, value)
    draft, uplink, verify = floating(xp, draft, uplink, verify)
    total = draft + xp.where(asked, uplink + verify, xp.zeros_like(uplink + verify))
    return 1.0 / _DOMAINS["times_s"].check(xp, "draft_s + uplink_s + verify_s", total)  # (6)


def throughput(times_s: Array) -> Array:
    """Tokens a second over a run of one-token rounds: how many, over how long they took together.

    Parameters
    ----------
    times_s : array, shape (..., n)
        Duration of each round, in seconds; positive.

    Returns
    -------
    array, shape (...)
        The ratio of totals n/Σt, which a user sees. Not :func:`mean_round_throughput`.

    Raises
    ------
    ValueError
        If a time is not positive and finite, or there is none.

    Examples
    --------
    >>> float(throughput([1.0, 3.0]))
    0.5
    """
    xp, times = _rounds(times_s)
    return 1.0 / xp.mean(times, axis=-1)


def mean_round_throughput(times_s: Array) -> Array:
    """The mean over rounds of tokens a second in that round, Σ(1/t)/n: never below :func:`throughput`.

    Parameters
    ----------
    times_s : array, shape (..., n)
        Duration of each round, in seconds; positive.

    Returns
    -------
    array, shape (...)
        The mean of ratios; short rounds count as much as long ones.

    Raises
    ------
    ValueError
        If a time is not positive and finite, or there is none.

    Examples
    --------
    >>> float(mean_round_throughput([1.0, 4.0]))
    0.625
    """
    xp, times = _rounds(times_s)
    return xp.mean(1.0 / times, axis=-1)


# ------------------------------------------------------------------------------------------- path loss


def free_space_gain(distance_m: Array, frequency_hz: Array) -> Array:
    """Power gain between isotropic antennas in free space: (c/(4π d f))².

    Parameters
    ----------
    distance_m : array, shape (...)
        d, in metres, in the far field.
    frequency_hz : array, shape (...)
        f, in Hz.

    Returns
    -------
    array, shape (...)
        A ratio below 1; the path loss is its inverse.

    Raises
    ------
    ValueError
        If a value is not positive and finite.

    Examples
    --------
    >>> round(float(linear_to_db(free_space_gain(100.0, 2.4e9))), 2)
    -80.05
    """
    _, distance, frequency = checked(_DOMAINS, distance_m=distance_m, frequency_hz=frequency_hz)
    return (299_792_458.0 / (4.0 * math.pi * distance * frequency)) ** 2


def log_distance_gain(distance_m: Array, *, reference_gain: Array, exponent: Array, reference_m: Array = 1.0) -> Array:
    """Power gain g₀ (d/d₀)^-α.

    Parameters
    ----------
    distance_m : array, shape (...)
        d, in metres.
    reference_gain : array, shape (...)
        g₀, the gain at d₀, as a ratio: -30 dB in edge-sd Section IV.
    exponent : array, shape (...)
        α: 2 there.
    reference_m : array, shape (...)
        d₀, in metres.

    Returns
    -------
    array, shape (...)
        A ratio.

    Raises
    ------
    ValueError
        If a value is not finite, or not positive (the exponent: negative).

    Examples
    --------
    >>> round(float(linear_to_db(log_distance_gain(100.0, reference_gain=1e-3, exponent=2.0))), 6)
    -70.0
    """
    _, distance, gain, alpha, reference = checked(
        _DOMAINS, distance_m=distance_m, reference_gain=reference_gain, exponent=exponent, reference_m=reference_m
    )
    return gain * (distance / reference) ** -alpha


def _efficiency(xp: Any, snr: Array) -> Array:
    """Bits a second and hertz, log₂(1 + S), to full accuracy for small S."""
    return xp.log1p(snr) / math.log(2)


def _rounds(times_s: Array) -> tuple[Any, Array]:
    if not np.shape(times_s) or np.shape(times_s)[-1] == 0:
        raise DomainError(f"times_s must have an entry for each round; got shape {np.shape(times_s)}; give n ≥ 1")
    xp, times = checked(_DOMAINS, times_s=times_s)
    return xp, times


# --------------------------------------------------------------------------------------------- claims
#
# payload. ⌈log₂ V⌉ is the least number of bits that tell V tokens apart.
# latency, latency_floor. ln(1 + S) ≤ S, so log₂(1 + S) ≤ S/ln 2; equality as S → 0, where only power helps.
# throughput. The harmonic mean of the rounds' rates is at most their arithmetic mean, equal if all rounds are.
# throughput_by_share. A share ρ of the rounds takes τ + τ_LLM longer; the mean round τ_SLM + ρ(τ + τ_LLM).
# rayleigh_mean, rician_mean. f(s) = (1+κ)/m e^{-κ-(1+κ)s/m} I₀(·) ≥ f(0) e^{-(1+κ)s/m}, as I₀ ≥ 1, and with the floor
#   above ∫_a^b f/log₂(1+s) ds ≥ ln 2 f(0) e^{-(1+κ)b/m} ln(b/a). With b fixed and a → 0 this has no bound: the mean
#   latency is infinite at every mean SNR and every κ. So E[T_step] in flexspec (2) is infinite too, and a run's
#   throughput tends to 0, unless a block in outage is given up. A simulated mean latency is a function of the number
#   of samples and of the seed. What is finite: every quantile, the mean beyond an outage, the rate.
# finite_mean. So for every number there is a cut from which on the mean exceeds it.
# capacity. E[log(1 + S)] = ∫ P(S > s)/(1 + s) ds = e^{1/m} E₁(1/m) for an exponential S. For a Gamma(j + 1) S, by
#   parts, e^z Σ_{k≤j+1} E_k(z); the Poisson mixture over j, summed in the other order, gives the closed form.
# capacity_jensen. log is concave.
# outage. F(F⁻¹(p)) = p. rician_outage. The mixture of Gamma laws has the Bessel density.
# markov. πP = π. trace. The transfer time inverts the integral of the throughput.


def _index_bits(vocabulary: Array, bits_per_probability: Array) -> Array:
    """V (b + n), n the length of V - 1 in binary."""
    xp, size, width = arrays(vocabulary=vocabulary, bits_per_probability=bits_per_probability)
    lengths = np.vectorize(lambda v: int(v - 1).bit_length(), otypes=[np.int64])(to_numpy(size))
    return size * (width + xp.asarray(lengths, device=size.device))


def _delivered(bits: Array, bandwidth_hz: Array, snr: Array) -> Array:
    xp, _, band, ratio = checked(_DOMAINS, bits=bits, bandwidth_hz=bandwidth_hz, snr=snr)
    return shannon_latency(bits, band, ratio) * band * _efficiency(xp, ratio)


def _latency_floor(bits: Array, bandwidth_hz: Array, snr: Array) -> Array:
    _, payload, band, ratio = checked(_DOMAINS, bits=bits, bandwidth_hz=bandwidth_hz, snr=snr)
    return payload * math.log(2) / (band * ratio)


def _throughput_of_rounds(draft_s: Array, uplink_s: Array, verify_s: Array, sent: Array) -> Array:
    """Of a run, round by round."""
    _, asked = arrays(sent=sent)
    draft, uplink, verify = (arrays(asked=asked, time=time)[2][..., None] for time in (draft_s, uplink_s, verify_s))
    return throughput(1.0 / round_throughput(draft, uplink, verify, sent=asked > 0))


def _throughput_by_share(draft_s: Array, uplink_s: Array, verify_s: Array, sent: Array) -> Array:
    """1/(τ_SLM + ρ(τ + τ_LLM))."""
    xp, asked = arrays(sent=sent)
    UNIT_INTERVAL.check(xp, "sent", asked)
    share = xp.mean(xp.astype(asked > 0, xp.float64), axis=-1)
    return 1.0 / (draft_s + share * (uplink_s + verify_s))


def _strip(mean_snr: Array, k_factor: Array, cut: Array, width: Array) -> Estimate:
    """E[1/log₂(1 + S); a ≤ S ≤ b] with a = cut and b = width · cut."""
    _, low, factor = checked(_DOMAINS, cut=cut, width=width)
    return Rician(mean_snr, k_factor).inverse_efficiency(low, low * factor)


def _growth(mean_snr: Array, k_factor: Array, cut: Array, width: Array) -> Array:
    """The bound ln 2 f(0) e^{-(1+κ)b/m} ln(b/a)."""
    xp, m, k = arrays(mean_snr=mean_snr, k_factor=k_factor, cut=cut)[:3]
    _, low, factor = checked(_DOMAINS, cut=cut, width=width)
    return Rician(m, k).latency_growth() * xp.exp(-(1.0 + k) * low * factor / m) * xp.log(factor)


def _mean_beyond(mean_snr: Array, cut: Array) -> Array:
    return Rayleigh(mean_snr).inverse_efficiency(cut).value


def _no_fading(mean_snr: Array) -> Array:
    xp, m = arrays(mean_snr=mean_snr)
    return _efficiency(xp, m)


def _stays_stationary(leave_good: Array, leave_bad: Array) -> Array:
    """Share of bad slots one step on: π_bad (1 - leave_bad) + π_good leave_good."""
    bad = GilbertElliott(1.0, 0.0, leave_good, leave_bad, 1.0).share_of_bad()
    return bad * (1.0 - leave_bad) + (1.0 - bad) * leave_good


def _over_traces(function: Callable[[TraceLink, Any, Any, Any], Any]) -> Callable[..., Array]:
    """A function of a link and of the bits, start and end of a transfer, for rows (..., n) of traces."""

    def over(time_s: Array, throughput_bps: Array, bits: Array, start_s: Array) -> Array:
        xp, times, rates, payload, start = arrays(
            time_s=time_s, throughput_bps=throughput_bps, bits=bits, start_s=start_s
        )
        rows = np.broadcast_arrays(*(to_numpy(v) for v in (times, rates, payload[..., None], start[..., None])))
        answer = np.empty(rows[0].shape[:-1])
        for index in np.ndindex(answer.shape):
            link, size, begin = TraceLink(rows[0][index], rows[1][index]), rows[2][index][0], rows[3][index][0]
            answer[index] = function(link, size, begin, begin + link.transfer_time(size, begin))
        return xp.asarray(answer, device=times.device)

    return over


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
        source=Source(_CUHLM, "(5)"),
        origin=Origin.PUBLISHED,
        statement="in B/(W log₂(1 + SNR)) seconds a link at capacity carries B bits",
        relation=Relation.EQ,
        lhs=_delivered,
        rhs=lambda bits: bits,
        attained=Attained({**_LINE, "snr": 10.0}),
    ),
    Claim(
        id="channel.latency_floor",
        source=Source(_CUHLM, "(5)"),
        origin=Origin.NEW,
        statement="B ln 2/(W SNR) ≤ B/(W log₂(1 + SNR)): at low SNR the latency is inversely proportional to it",
        relation=Relation.LE,
        lhs=_latency_floor,
        rhs=shannon_latency,
        attained=Attained({**_LINE, "snr": 1e-12}),
    ),
    Claim(
        id="channel.throughput",
        source=Source(_CUHLM, "(6) and Section V-A"),
        origin=Origin.NEW,
        statement="n/Σt ≤ Σ(1/t)/n: throughput of a run is at most the mean throughput of its rounds",
        relation=Relation.LE,
        lhs=throughput,
        rhs=mean_round_throughput,
        attained=Attained({"times_s": [0.5, 0.5]}),
    ),
    Claim(
        id="channel.throughput_means",
        source=Source(_CUHLM, "(6) and Section V-A, read as one quantity"),
        origin=Origin.PUBLISHED,
        statement="n/Σt = Σ(1/t)/n: tokens a second over the sequence extend those of a round",
        relation=Relation.EQ,
        lhs=throughput,
        rhs=mean_round_throughput,
        refuted={"times_s": [1.0, 3.0]},
    ),
    Claim(
        id="channel.throughput_by_share",
        source=Source("oh2024uhlm", "(4)"),
        origin=Origin.NEW,
        statement="over a run, tokens a second = 1/(τ_SLM + ρ(τ + τ_LLM)) with ρ the share of rounds sent",
        relation=Relation.EQ,
        lhs=_throughput_of_rounds,
        rhs=_throughput_by_share,
        attained=Attained({"draft_s": 0.0256, "uplink_s": 0.0213, "verify_s": 0.1046, "sent": [1.0, 0.0, 0.0]}),
    ),
    Claim(
        id="channel.rayleigh_mean",
        source=Source(_CUHLM, "(5) under Rayleigh fading, Table II, Fig. 10a"),
        origin=Origin.NEW,
        statement="E[1/log₂(1+S); a ≤ S ≤ b] ≥ ln 2 f(0) e^{−b/m} ln(b/a): unbounded as a → 0, the mean is infinite",
        relation=Relation.LE,
        lhs=lambda mean_snr, cut, width: _growth(mean_snr, 0.0, cut, width),
        rhs=lambda mean_snr, cut, width: _strip(mean_snr, 0.0, cut, width).value,
        attained=Attained({"mean_snr": 1.0, "cut": 1e-12, "width": 1e6}),
        error=lambda mean_snr, cut, width: _strip(mean_snr, 0.0, cut, width).error,
    ),
    Claim(
        id="channel.rician_mean",
        source=Source(_CUHLM, "(5) under Rician fading, Fig. 10b"),
        origin=Origin.NEW,
        statement="the same with f(0) = (1+κ)e^{−κ}/m and e^{−(1+κ)b/m}: infinite under Rician fading, too",
        relation=Relation.LE,
        lhs=_growth,
        rhs=lambda mean_snr, k_factor, cut, width: _strip(mean_snr, k_factor, cut, width).value,
        attained=Attained({"mean_snr": 1.0, "k_factor": 10.0, "cut": 1e-14, "width": 1e6}),
        error=lambda mean_snr, k_factor, cut, width: _strip(mean_snr, k_factor, cut, width).error,
    ),
    Claim(
        id="channel.finite_mean",
        source=Source(_CUHLM, "Table II, an average latency under Rayleigh fading"),
        origin=Origin.PUBLISHED,
        statement="E[1/log₂(1 + S); S ≥ cut] stays below some bound however small the cut",
        relation=Relation.LE,
        lhs=_mean_beyond,
        rhs=lambda bound: checked(_DOMAINS, bound=bound)[1],
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
        id="channel.rician_capacity",
        source=Source("alouini1999capacity", "extends it to a line of sight"),
        origin=Origin.NEW,
        statement="E[log₂(1 + S)] = (e^z/ln 2) Σ_k P(N ≥ k − 1) E_k(z), z = (1 + κ)/m, N ~ Poisson(κ)",
        relation=Relation.EQ,
        lhs=lambda mean_snr, k_factor: Rician(mean_snr, k_factor).capacity(),
        rhs=lambda mean_snr, k_factor: capacity_by_quadrature(Rician(mean_snr, k_factor)),
        attained=Attained({"mean_snr": 10.0, "k_factor": 10.0}),
        condition=lambda k_factor: 1.0 + k_factor,
    ),
    Claim(
        id="channel.capacity_jensen",
        source=Source("alouini1999capacity", "capacity with constant power"),
        origin=Origin.PUBLISHED,
        statement="E[log₂(1 + S)] ≤ log₂(1 + m): fading only costs capacity",
        relation=Relation.LE,
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
        source=Source("alouini1999capacity", "outage probability, with a line of sight"),
        origin=Origin.PUBLISHED,
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
    Claim(
        id="channel.trace",
        source=Source(_CUHLM, "(5), with a rate that moves during the transfer"),
        origin=Origin.NEW,
        statement="what a trace carries in the transfer time of B bits, over B, is 1 wherever it starts",
        relation=Relation.EQ,
        lhs=_over_traces(lambda link, bits, begin, end: (link.delivered_bits(end) - link.delivered_bits(begin)) / bits),
        rhs=lambda bits: 0.0 * bits + 1.0,
        attained=Attained({"time_s": [0.0, 1.0, 3.0], "throughput_bps": [4.0, 0.0, 2.0], "bits": 21.0, "start_s": 0.5}),
        # a rounding error of the time moves the bits by the rate times as much
        condition=_over_traces(
            lambda link, bits, begin, end: np.max(link.throughput_bps) * (end + link.period_s()) / bits
        ),
    ),
)
