"""Bandwidth shares, the finish times of users, and the distance of shares from the optimum."""

import math
from typing import Any

import numpy as np

from hlmtheory._array import Array, arrays, floating
from hlmtheory._domains import DomainError, broadcast, entry_for_each, option
from hlmtheory._quantities import at_least_one, positive

SIZES = {
    "bits": positive("leave out users who send nothing"),
    "spectral_efficiency": positive(
        "a user of zero gain never finishes, and one of infinite SNR needs no band: leave it out"
    ),
    "shares": positive("a user without a share never finishes"),
    "weights": positive("a user without a share never finishes"),
    "bandwidth_hz": positive("give the band that the users share, in Hz"),
    "power": positive("give the transmit power in watts, not in dBm"),
    "gain": positive("give the channel gain as a ratio, not in dB; a user of zero gain never finishes"),
    "noise": positive("give the noise power in watts, not in dBm"),
    "snr": positive("give the signal-to-noise ratio as a ratio, not in dB"),
    "boost": at_least_one("give the factor by which the gain is raised"),
}
PER_USER = ("bits", "spectral_efficiency", "shares", "weights", "power", "gain", "snr")
_RANGE = positive("the result leaves the range of its floating type: take other units, or float64")
_OBJECTIVES = ("minmax", "sum")


def finish_times(
    bits: Array,
    *,
    snr: Array | None = None,
    spectral_efficiency: Array | None = None,
    shares: Array,
    bandwidth_hz: Array,
) -> Array:
    """Return the finish time of each user's upload in seconds: t_k = λI_k/(w_k B η_k), edge-sd (15)."""
    rate = _efficiency(bits, snr, spectral_efficiency)
    given = {"bits": bits, "spectral_efficiency": rate, "shares": shares, "bandwidth_hz": bandwidth_hz}
    xp, sent, rate, w, band = checked_users(**given)
    with np.errstate(all="ignore"):  # in_range raises on overflow and underflow
        times = sent / rate / (w * band[..., None])  # (15)
    return in_range(xp, "bits / (spectral_efficiency * shares * bandwidth_hz)", times)


def minmax_shares(bits: Array, *, snr: Array | None = None, spectral_efficiency: Array | None = None) -> Array:
    """Return the shares that minimise the last finish time: w_k ∝ λI_k/η_k; all users finish together.

    Parameters
    ----------
    bits : array, shape (..., K)
        What each user uploads, in any unit common to all.
    snr, spectral_efficiency : array, shape (..., K)
        One of the two: SNR_k as a ratio, or η_k = log₂(1 + SNR_k) in bit/s/Hz.

    Returns
    -------
    array, shape (..., K)
        Positive, summing to 1; edge-sd (27).

    Raises
    ------
    ValueError
        If not one of the two is given, a value is not positive and finite, the shapes do not broadcast, there is no
        user, or a result leaves the range of the floating type.

    Examples
    --------
    >>> minmax_shares([100.0, 100.0], snr=[1.0, 15.0]).tolist()
    [0.8, 0.2]
    """
    xp, need = relative_need(bits, _efficiency(bits, snr, spectral_efficiency))
    return need / xp.sum(need, axis=-1, keepdims=True)  # (27)


def minmax_latency(
    bits: Array, *, snr: Array | None = None, spectral_efficiency: Array | None = None, bandwidth_hz: Array
) -> Array:
    """Return the smallest time by which all users can finish: t* = Σ_k λI_k/(B η_k).

    Parameters
    ----------
    bits : array, shape (..., K)
        What each user uploads, in bit.
    snr, spectral_efficiency : array, shape (..., K)
        One of the two: SNR_k as a ratio, or η_k = log₂(1 + SNR_k) in bit/s/Hz.
    bandwidth_hz : array, shape (...)
        B, in Hz.

    Returns
    -------
    array, shape (...)
        In seconds; the solution of edge-sd (26), which prints p_k/(g_k σ²) here for the SNR p_k g_k/σ².

    Raises
    ------
    ValueError
        If not one of the two is given, a value is not positive and finite, the shapes do not broadcast, there is no
        user, or a result leaves the range of the floating type.

    Examples
    --------
    >>> float(minmax_latency([100.0, 100.0], spectral_efficiency=[1.0, 4.0], bandwidth_hz=100.0))
    1.25
    """
    rate = _efficiency(bits, snr, spectral_efficiency)
    xp, sent, rate, band = checked_users(bits=bits, spectral_efficiency=rate, bandwidth_hz=bandwidth_hz)
    with np.errstate(all="ignore"):
        time = xp.sum(sent / rate, axis=-1) / band
    return in_range(xp, "sum(bits / spectral_efficiency) / bandwidth_hz", time)


def sum_shares(bits: Array, spectral_efficiency: Array) -> Array:
    """Return the shares (..., K) that minimise the sum, and so the mean, of the finish times: w_k ∝ √(λI_k/η_k)."""
    xp, need = relative_need(bits, spectral_efficiency)
    root = xp.sqrt(need)
    return root / xp.sum(root, axis=-1, keepdims=True)


def sum_latency(bits: Array, spectral_efficiency: Array, bandwidth_hz: Array) -> Array:
    """Return the smallest sum of finish times in seconds: (Σ_k √(λI_k/η_k))²/B."""
    xp, sent, rate, band = checked_users(bits=bits, spectral_efficiency=spectral_efficiency, bandwidth_hz=bandwidth_hz)
    with np.errstate(all="ignore"):
        time = xp.sum(xp.sqrt(sent / rate), axis=-1) ** 2 / band
    return in_range(xp, "sum(sqrt(bits / spectral_efficiency))² / bandwidth_hz", time)


def kkt_residual(bits: Array, spectral_efficiency: Array, shares: Array, *, objective: str = "minmax") -> Array:
    """Return by how much given shares violate the optimality conditions: 0 exactly at the optimum, which is unique.

    The larger of |Σw - 1| and 1 - min/max over the users of t_k ("minmax") or of c_k/w_k² ("sum"); both are convex.
    """
    option("objective", objective, _OBJECTIVES)
    xp, sent, rate, w = checked_users(bits=bits, spectral_efficiency=spectral_efficiency, shares=shares)
    with np.errstate(all="ignore"):
        level = sent / rate / w if objective == "minmax" else sent / rate / w / w
    in_range(xp, f"bits / (spectral_efficiency * shares{'' if objective == 'minmax' else '²'})", level)
    spread = 1.0 - xp.min(level, axis=-1) / xp.max(level, axis=-1)
    return xp.maximum(xp.abs(xp.sum(w, axis=-1) - 1.0), spread)


def _efficiency(bits: Array, snr: Array | None, spectral_efficiency: Array | None) -> Array:
    if (snr is None) == (spectral_efficiency is None):
        given = "neither" if snr is None else "both"
        raise DomainError(f"one of snr and spectral_efficiency must be given; got {given}; a ratio is an snr")
    if snr is None:
        return spectral_efficiency
    xp, _, ratio = checked_users(bits=bits, snr=snr)
    return xp.log1p(ratio) / math.log(2)


def checked_users(**values: Any) -> tuple[Any, ...]:
    """Return the namespace and the checked values in their common floating type."""
    xp, *given = arrays(**values)
    shapes = {name: tuple(value.shape) for name, value in zip(values, given, strict=True)}
    entry_for_each("user", **{name: shape for name, shape in shapes.items() if name in PER_USER})
    broadcast(**{name: shape if name in PER_USER else (*shape, 1) for name, shape in shapes.items()})
    for name, value in zip(values, given, strict=True):
        SIZES[name].check(xp, name, value)
    return (xp, *floating(xp, *given))


def relative_need(bits: Array, spectral_efficiency: Array) -> tuple[Any, Array]:
    """Return c_k = λI_k/η_k divided by the largest c_k, so that no sum of them overflows."""
    xp, sent, rate = checked_users(bits=bits, spectral_efficiency=spectral_efficiency)
    with np.errstate(all="ignore"):
        need = in_range(xp, "bits / spectral_efficiency", sent / rate)
    return xp, need / xp.max(need, axis=-1, keepdims=True)


def in_range(xp: Any, name: str, value: Array) -> Array:
    """Return the value; raise if it is 0, infinite or NaN, because the result left the range of its type."""
    return _RANGE.check(xp, name, value)
