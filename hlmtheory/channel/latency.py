"""Payload, latency and throughput of one link."""

import math
from typing import Any

from hlmtheory._array import Array, arrays, floating
from hlmtheory._domains import Domain, DomainError, broadcast, entry_for_each, finite_answer, flag
from hlmtheory._quantities import at_least_one, checked, not_negative, positive, whole_from_one, whole_in

_LARGEST = 2**63 - 1  # largest value of an int64

# --------------------------------------------------------------------------- payload, latency, throughput


def vocabulary_payload_bits(vocabulary: Array, bits_per_probability: Array, *, index: bool = True) -> Array:
    """Return the bits of a whole distribution: V (b_prob + ⌈log₂ V⌉), or V b_prob in a fixed order.

    Parameters
    ----------
    vocabulary : integer array, shape (...)
        V, 1 or more.
    bits_per_probability : integer array, shape (...)
        b_prob, 1 or more.
    index : bool
        Whether each probability carries its index, as in cu-hlm (4). A full distribution in a known order does not
        need indices, as in u-hlm.

    Returns
    -------
    int64 array, shape (...)
        B, in bit: 736,000 (92 kB) for V = 32,000 and 8 bits.

    Raises
    ------
    ValueError
        If V or b_prob is below 1 or not an integer, or B is above 2⁶³ - 1.

    Examples
    --------
    >>> int(vocabulary_payload_bits(32_000, 8)), int(vocabulary_payload_bits(32_000, 8, index=False))
    (736000, 256000)
    """
    xp, size, width = arrays(vocabulary=vocabulary, bits_per_probability=bits_per_probability)
    size = xp.astype(COUNT.check(xp, "vocabulary", size), xp.int64)
    width = xp.astype(COUNT.check(xp, "bits_per_probability", width), xp.int64)
    broadcast(vocabulary=size.shape, bits_per_probability=width.shape)
    places = xp.zeros_like(size)
    for n in range(63 if flag("index", index) else 0):  # ⌈log₂ V⌉ is the number of powers of 2 below V: no rounding
        places = places + xp.astype(size > 2**n, xp.int64)
    most = _LARGEST // size - places
    if bool(xp.any(width > most)):
        raise DomainError(
            f"vocabulary must leave the payload below 2⁶³ bits; got up to {int(xp.max(size))} tokens of up to "
            f"{int(xp.max(width))} bits each; give a smaller one"
        )
    return size * (width + places)  # (4)


@finite_answer
def shannon_latency(bits: Array, bandwidth_hz: Array, snr: Array) -> Array:
    """Return the time to send a payload at capacity: B/(W log₂(1 + S)).

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
    xp, payload, band, ratio = checked(DOMAINS, bits=bits, bandwidth_hz=bandwidth_hz, snr=snr)
    return payload / (band * efficiency(xp, ratio))  # (5)


@finite_answer
def throughput(times_s: Array) -> Array:
    """Return the tokens per second over a run of one-token rounds (..., n): n/Σt, which a user observes."""
    xp, times = _rounds(times_s)
    return 1.0 / xp.mean(times, axis=-1)


@finite_answer
def mean_round_throughput(times_s: Array) -> Array:
    """Return the mean over rounds (..., n) of tokens per second in a round, Σ(1/t)/n, at least :func:`throughput`."""
    xp, times = _rounds(times_s)
    return xp.mean(1.0 / times, axis=-1)


def efficiency(xp: Any, snr: Array) -> Array:
    """Return the bits per second and hertz, log₂(1 + S), to full accuracy for small S."""
    return xp.log1p(snr) / math.log(2)


def _rounds(times_s: Array) -> tuple[Any, Array]:
    xp, times = checked(DOMAINS, times_s=times_s)
    entry_for_each("round", times_s=tuple(times.shape))
    return xp, times


@finite_answer
def log_distance_gain(distance_m: Array, *, reference_gain: Array, exponent: Array, reference_m: Array = 1.0) -> Array:
    """Return the power gain g₀ (d/d₀)^-α.

    Parameters
    ----------
    distance_m, reference_m : array, shape (...)
        d and d₀, in metres.
    reference_gain : array, shape (...)
        g₀, the gain at d₀, as a ratio: -30 dB in edge-sd Section IV.
    exponent : array, shape (...)
        α; 2 in edge-sd Section IV.

    Returns
    -------
    array, shape (...)
        A ratio.

    Raises
    ------
    ValueError
        If a value is not finite or not positive, or the exponent is negative.

    Examples
    --------
    >>> round(float(log_distance_gain(100.0, reference_gain=1e-3, exponent=2.0)), 12)
    1e-07
    """
    _, distance, gain, alpha, reference = checked(
        DOMAINS, distance_m=distance_m, reference_gain=reference_gain, exponent=exponent, reference_m=reference_m
    )
    return gain * (distance / reference) ** -alpha


_LEVEL = Domain("finite", lambda xp, value: xp.isfinite(value), "a power of 0 has no level in dB")


@finite_answer
def db_to_linear(db: Array) -> Array:
    """Return the ratio of powers for decibels: 10^(dB/10).

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


@finite_answer
def dbm_to_watts(dbm: Array) -> Array:
    """Return watts for dBm, decibels relative to a milliwatt."""
    xp, level = arrays(dbm=dbm)
    (level,) = floating(xp, _LEVEL.check(xp, "dbm", level))
    return 10.0 ** ((level - 30.0) / 10.0)


DOMAINS = {
    "bits": positive("a round that sends nothing takes no time: leave it out"),
    "bandwidth_hz": positive("give the band of the uplink in Hz"),
    "snr": positive("give the ratio, not dB; over a dead link nothing arrives, over a noiseless one at once"),
    "distance_m": positive("give a distance in metres"),
    "reference_m": positive("give a distance in metres"),
    "reference_gain": positive("give the gain at the reference distance as a ratio, not in dB"),
    "exponent": not_negative("give the path-loss exponent: 2 in free space, 2.7 to 5 in towns"),
    "times_s": positive("a round takes some time, in seconds"),
    "bound": positive("give the number that the mean is claimed not to exceed"),
    "cut": positive("give the SNR below which a block is given up; without it the mean is infinite"),
    "width": at_least_one("give the ratio of the strip's upper end to its lower end"),
}
COUNT = whole_from_one("count tokens, or bits")
DRAWS = whole_in(0, 10_000_000, "draw more in several calls, so that memory suffices")
