"""Bandwidth shares where each user spreads its power over its share: SNR_k = s_k/w_k, s_k over the whole band."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hlmtheory._array import Array
from hlmtheory.ofdma.shares import checked_users, in_range

_STEPS = 64  # bisection steps; the logarithm is then exact to its last digits
_NEWTON = 60  # maximum number of decreasing steps; about ten are needed
_SMALL, _TERMS = 0.0625, 14  # x below which ln(1 + x) uses its series, and its number of terms


def spread_finish_times(bits: Array, *, full_band_snr: Array, shares: Array, bandwidth_hz: Array) -> Array:
    """Return the finish time λI_k/(w_k B log₂(1 + s_k/w_k)) of each user that spreads its power over its share.

    Parameters
    ----------
    bits : array, shape (..., K)
        What each user uploads, in bit.
    full_band_snr : array, shape (..., K)
        s_k = p_k g_k/(N₀ B), the SNR of user k if it had the whole band, a ratio.
    shares : array, shape (..., K)
        w_k; their sum is not checked.
    bandwidth_hz : array, shape (...)
        B, in Hz.

    Returns
    -------
    array, shape (..., K)
        In seconds.

    Raises
    ------
    ValueError
        If a value is not positive and finite, the shapes do not broadcast, there is no user, or a result leaves the
        range of the floating type.

    Examples
    --------
    >>> spread_finish_times([1e2, 1e2], full_band_snr=[0.5, 1.5], shares=[0.5, 0.5], bandwidth_hz=100.0).tolist()
    [2.0, 1.0]
    """
    xp, sent, snr, w, band = checked_users(
        bits=bits, full_band_snr=full_band_snr, shares=shares, bandwidth_hz=bandwidth_hz
    )
    with np.errstate(all="ignore"):  # in_range raises on overflow and underflow
        times = sent * math.log(2) / (w * band[..., None] * xp.log1p(snr / w))
    return in_range(xp, "bits / (shares * bandwidth_hz * log2(1 + full_band_snr / shares))", times)


def spread_minmax_shares(bits: Array, *, full_band_snr: Array) -> Array:
    """Return the shares that minimise the last finish time if each user spreads its power over its share.

    The rate w log₂(1 + s/w) rises with w, up to s/ln 2. So for a time t above max_k λI_k ln 2/(s_k B) each user has
    one share with which it finishes at t. These shares fall as t rises, and the best t is where they sum to 1: two
    users that do not finish together could exchange some of the band. Bisection finds the time; the share
    w = s/x follows from ln(1 + x)/x = λI ln 2/(s B t) by Newton's method. Its iterates decrease from every start above
    the solution. If ρ is the right side, two such starts are ρ^-2 - 1, since ln(1 + x) ≤ x/√(1 + x), and (2/ρ) ln(2/ρ).

    Parameters
    ----------
    bits : array, shape (..., K)
        What each user uploads, in any unit common to all.
    full_band_snr : array, shape (..., K)
        s_k = p_k g_k/(N₀ B), the SNR of user k if it had the whole band, a ratio.

    Returns
    -------
    array, shape (..., K)
        Positive, summing to 1.

    Raises
    ------
    ValueError
        If a value is not positive and finite, the shapes do not broadcast, there is no user, or a result leaves the
        range of the floating type.

    Examples
    --------
    >>> spread_minmax_shares([80.0, 40.0], full_band_snr=[0.8, 0.6]).round(12).tolist()
    [0.8, 0.2]
    """
    xp, sent, snr = checked_users(bits=bits, full_band_snr=full_band_snr)
    kind = sent.dtype
    sent, snr = xp.astype(sent, xp.float64), xp.astype(snr, xp.float64)
    with np.errstate(all="ignore"):
        least = sent / snr  # finish time of an unlimited share, times B/ln 2
    in_range(xp, "bits / full_band_snr", least)
    need = least / xp.max(least, axis=-1, keepdims=True)  # lower limit of each time, divided by the largest one
    ends = [
        xp.max(need * (1.0 + _delay(xp, snr / w)), axis=-1, keepdims=True) - 1.0 for w in (1.0, 1.0 / snr.shape[-1])
    ]
    low, high = (xp.log(xp.where(end > 1e-18, end, 1e-18 * xp.ones_like(end))) for end in ends)
    low, high = low - 1.0, high + 1.0  # for the whole band and for equal shares, widened for rounding
    for _ in range(_STEPS):
        middle = (low + high) / 2.0
        over = xp.sum(_shares_at(xp, need, snr, xp.exp(middle)), axis=-1, keepdims=True) > 1.0
        low, high = xp.where(over, middle, low), xp.where(over, high, middle)
    shares = _shares_at(xp, need, snr, xp.exp((low + high) / 2.0))
    shares = shares / xp.sum(shares, axis=-1, keepdims=True)
    return xp.astype(in_range(xp, "shares for bits and full_band_snr", shares), kind)


def _shares_at(xp: Any, need: Array, snr: Array, late: Array) -> Array:
    """Return the w with which all finish at (1 + late) × the largest bound: ln(1 + x)/x = need/(1 + late), x = s/w."""
    ratio, miss = need / (1.0 + late), (1.0 - need + late) / (1.0 + late)  # they sum to 1, and both have full accuracy
    with np.errstate(all="ignore"):
        near, far = miss * (1.0 + ratio) / (ratio * ratio), 2.0 / ratio * xp.log(2.0 / ratio)
        x = xp.where(near < far, near, far)  # both are above the solution
        for _ in range(_NEWTON):
            gap = xp.where(x < 1.0, miss * x - _lag(xp, x), xp.log1p(x) - ratio * x)  # no cancellation
            step = gap / xp.where(x < 1.0, miss - x / (1.0 + x), 1.0 / (1.0 + x) - ratio)
            down = step > 1e-16 * x
            x = xp.where(down, x - step, x)
            if not bool(xp.any(down)):
                break
        return snr / x


def _delay(xp: Any, x: Array) -> Array:
    """Return the excess x/ln(1 + x) - 1, the relative delay against an unlimited share."""
    return _lag(xp, x) / xp.log1p(x)


def _lag(xp: Any, x: Array) -> Array:
    """Return the gap x - ln(1 + x), by its series where the difference loses digits."""
    small = x < _SMALL
    z = xp.where(small, x, xp.zeros_like(x))
    series = xp.zeros_like(z)
    for n in range(_TERMS, 1, -1):
        series = 1.0 / n - z * series
    return xp.where(small, z * z * series, x - xp.log1p(x))
