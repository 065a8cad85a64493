"""Sharing one uplink band among users: bandwidth shares, their optimality, and what they gain.

Paper: edge-sd (zhu2025edgesd) (15), (26), (27) and Fig. 9.

========== =============================================== ========= ===========
symbol     name                                            unit      shape
========== =============================================== ========= ===========
λI_k       ``bits``, what user k uploads                   bit       (..., K)
η_k        ``spectral_efficiency``, log₂(1 + SNR_k)        bit/s/Hz  (..., K)
c_k        λI_k/η_k, the band-seconds user k needs         Hz s      (..., K)
w_k        ``shares`` of the band                          1         (..., K)
B          ``bandwidth_hz``                                Hz        (...)
t_k        c_k/(w_k B), when user k has finished           s         (..., K)
========== =============================================== ========= ===========

As in the paper, the SNR of a user does not depend on its share. Where a user spreads its power over its own
share of a white noise, SNR_k rises as w_k falls, and these closed forms no longer hold.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hlmtheory._array import Array
from hlmtheory._domains import DomainError
from hlmtheory._quantities import at_least_one, checked, positive
from hlmtheory.claims import Attained, Claim, Origin, Relation, Source

_SIZES = {
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
    "boost": at_least_one("give by which factor the gain is raised"),
}
_PER_USER = ("bits", "spectral_efficiency", "shares", "weights", "power", "gain", "snr")
_OBJECTIVES = ("minmax", "sum")


def finish_times(bits: Array, spectral_efficiency: Array, shares: Array, bandwidth_hz: Array) -> Array:
    """When each user has uploaded its bits: t_k = λI_k/(w_k B η_k).

    Parameters
    ----------
    bits : array, shape (..., K)
        What each user uploads, in bit.
    spectral_efficiency : array, shape (..., K)
        η_k = log₂(1 + SNR_k), in bit/s/Hz.
    shares : array, shape (..., K)
        w_k; their sum is not looked at.
    bandwidth_hz : array, shape (...)
        B, in Hz.

    Returns
    -------
    array, shape (..., K)
        In seconds; edge-sd (15).

    Raises
    ------
    ValueError
        If a value is not positive and finite, or there is no user.

    Examples
    --------
    >>> finish_times([100.0, 100.0], [1.0, 4.0], [0.5, 0.5], 100.0).tolist()
    [2.0, 0.5]
    """
    _, sent, rate, w, band = _checked(
        bits=bits, spectral_efficiency=spectral_efficiency, shares=shares, bandwidth_hz=bandwidth_hz
    )
    return sent / rate / (w * band[..., None])  # (15)


def minmax_shares(bits: Array, spectral_efficiency: Array) -> Array:
    """Shares under which the last user finishes first: w_k ∝ λI_k/η_k, and all finish together.

    Parameters
    ----------
    bits : array, shape (..., K)
        What each user uploads, in any unit common to all.
    spectral_efficiency : array, shape (..., K)
        η_k = log₂(1 + SNR_k), in bit/s/Hz.

    Returns
    -------
    array, shape (..., K)
        Positive, summing to 1; edge-sd (27).

    Raises
    ------
    ValueError
        If a value is not positive and finite, or there is no user.

    Examples
    --------
    >>> minmax_shares([100.0, 100.0], [1.0, 4.0]).tolist()
    [0.8, 0.2]
    """
    xp, need = _band_seconds(bits, spectral_efficiency)
    return need / xp.sum(need, axis=-1, keepdims=True)  # (27)


def minmax_latency(bits: Array, spectral_efficiency: Array, bandwidth_hz: Array) -> Array:
    """The least time in which all users can have finished: t* = Σ_k λI_k/(B η_k).

    Parameters
    ----------
    bits : array, shape (..., K)
        What each user uploads, in bit.
    spectral_efficiency : array, shape (..., K)
        η_k = log₂(1 + SNR_k), in bit/s/Hz.
    bandwidth_hz : array, shape (...)
        B, in Hz.

    Returns
    -------
    array, shape (...)
        In seconds; solves edge-sd (26), which prints p_k/(g_k σ²) here for the SNR p_k g_k/σ².

    Raises
    ------
    ValueError
        If a value is not positive and finite, or there is no user.

    Examples
    --------
    >>> float(minmax_latency([100.0, 100.0], [1.0, 4.0], 100.0))
    1.25
    """
    xp, sent, rate, band = _checked(bits=bits, spectral_efficiency=spectral_efficiency, bandwidth_hz=bandwidth_hz)
    return xp.sum(sent / rate, axis=-1) / band


def sum_shares(bits: Array, spectral_efficiency: Array) -> Array:
    """Shares that make the summed (so the mean) finish time least: w_k ∝ √(λI_k/η_k).

    Parameters
    ----------
    bits : array, shape (..., K)
        What each user uploads, in any unit common to all.
    spectral_efficiency : array, shape (..., K)
        η_k = log₂(1 + SNR_k), in bit/s/Hz.

    Returns
    -------
    array, shape (..., K)
        Positive, summing to 1.

    Raises
    ------
    ValueError
        If a value is not positive and finite, or there is no user.

    Examples
    --------
    >>> sum_shares([100.0, 400.0], [1.0, 0.25]).tolist()
    [0.2, 0.8]
    """
    xp, need = _band_seconds(bits, spectral_efficiency)
    root = xp.sqrt(need)
    return root / xp.sum(root, axis=-1, keepdims=True)


def sum_latency(bits: Array, spectral_efficiency: Array, bandwidth_hz: Array) -> Array:
    """The least sum of finish times: (Σ_k √(λI_k/η_k))²/B.

    Parameters
    ----------
    bits : array, shape (..., K)
        What each user uploads, in bit.
    spectral_efficiency : array, shape (..., K)
        η_k = log₂(1 + SNR_k), in bit/s/Hz.
    bandwidth_hz : array, shape (...)
        B, in Hz.

    Returns
    -------
    array, shape (...)
        In seconds.

    Raises
    ------
    ValueError
        If a value is not positive and finite, or there is no user.

    Examples
    --------
    >>> float(sum_latency([100.0, 400.0], [1.0, 0.25], 100.0))
    25.0
    """
    xp, sent, rate, band = _checked(bits=bits, spectral_efficiency=spectral_efficiency, bandwidth_hz=bandwidth_hz)
    return xp.sum(xp.sqrt(sent / rate), axis=-1) ** 2 / band


def kkt_residual(bits: Array, spectral_efficiency: Array, shares: Array, *, objective: str = "minmax") -> Array:
    """By how much shares miss the conditions of optimality: 0 exactly at the optimum, of both problems unique.

    "minmax": t_k ≤ t and Σw = 1 with multipliers μ_k ≥ 0, Σμ = 1. Stationarity in w_k, ν = μ_k c_k/w_k²,
    makes every μ_k positive, so complementary slackness asks for equal finish times.
    "sum": stationarity is c_k/w_k² = ν for all k. Both problems are convex, so the conditions suffice.

    Parameters
    ----------
    bits, spectral_efficiency : array, shape (..., K)
        As in :func:`minmax_shares`.
    shares : array, shape (..., K)
        The w_k to judge.
    objective : {"minmax", "sum"}
        Which problem: the last finish time, or the sum of all.

    Returns
    -------
    array, shape (...)
        The larger of |Σw - 1| and 1 - min/max over the users of t_k ("minmax") or of c_k/w_k² ("sum").

    Raises
    ------
    ValueError
        If a value is not positive and finite, there is no user, or the objective has another name.

    Examples
    --------
    >>> float(kkt_residual([100.0, 100.0], [1.0, 4.0], [0.5, 0.5]))
    0.75
    """
    if objective not in _OBJECTIVES:
        raise DomainError(f"objective must be one of {', '.join(_OBJECTIVES)}; got {objective!r}; choose one")
    xp, sent, rate, w = _checked(bits=bits, spectral_efficiency=spectral_efficiency, shares=shares)
    level = sent / rate / w if objective == "minmax" else sent / rate / w / w
    spread = 1.0 - xp.min(level, axis=-1) / xp.max(level, axis=-1)
    return xp.maximum(xp.abs(xp.sum(w, axis=-1) - 1.0), spread)


def uniform_gain(bits: Array, spectral_efficiency: Array) -> Array:
    """What the best shares gain over equal ones in the last finish time: max_k c_k / mean_k c_k.

    Parameters
    ----------
    bits : array, shape (..., K)
        What each user uploads, in any unit common to all.
    spectral_efficiency : array, shape (..., K)
        η_k = log₂(1 + SNR_k), in bit/s/Hz.

    Returns
    -------
    array, shape (...)
        Uniform over optimal latency of the upload alone, in [1, K]: known before any simulation. The share of
        the *total* latency that is saved, which edge-sd Fig. 9 prints, is smaller: whatever else takes time dilutes it.

    Raises
    ------
    ValueError
        If a value is not positive and finite, or there is no user.

    Examples
    --------
    >>> float(uniform_gain([100.0, 100.0], [1.0, 4.0]))
    1.6
    """
    xp, need = _band_seconds(bits, spectral_efficiency)
    # Of K numbers up to 1, one of them 1, rounding leaves the sum in [1, K]; over the mean it may end outside
    return need.shape[-1] / xp.sum(need / xp.max(need, axis=-1, keepdims=True), axis=-1)


def _checked(**values: Any) -> tuple[Any, ...]:
    """The namespace and the values, each in its domain, in their common floating type."""
    for name, value in values.items():
        shape = np.shape(value)
        if name in _PER_USER and (not shape or shape[-1] == 0):
            raise DomainError(f"{name} must have an entry for each user; got shape {tuple(shape)}; give K ≥ 1")
    return checked(_SIZES, **values)


def _band_seconds(bits: Array, spectral_efficiency: Array) -> tuple[Any, Array]:
    """c_k = λI_k/η_k."""
    xp, sent, rate = _checked(bits=bits, spectral_efficiency=spectral_efficiency)
    return xp, sent / rate


# --------------------------------------------------------------------------------------------- claims
#
# Any positive weights, divided by their sum, are shares w.
#
# minmax. Let t be the last finish time: c_k ≤ t w_k B for all k. Summed over k: Σ c_k ≤ t B.
# minmax_kkt. At w_k = c_k/Σc every t_k is Σc/B; the multipliers are μ_k = w_k²/c_k over their sum, positive.
# sum. Cauchy–Schwarz: (Σ √c_k)² = (Σ √(c_k/w_k) √w_k)² ≤ Σ c_k/w_k · Σ w_k, with equality for w_k ∝ √c_k.
# gain. Equal shares finish at K max c/B, the best at Σc/B.
# gain_bound. max c ≤ Σc = K mean c; near equality when one user needs nearly all.
# same_sum. Under w_k = c_k/Σc all K users take Σc/B; under w_k = 1/K user k takes K c_k/B: both sum to K Σc/B. So
#   the best shares for the last user leave the mean finish time where equal shares have it.
# own_gain. w_k = c_k/(c_k + the others' sum) rises with c_k, and c_k falls as SNR_k rises.
# printed. (26) gives t* with log₂(1 + p_k g_k/σ²); the next line prints p_k/g_k, right only where g_k = 1.


def _shares_of(xp: Any, weights: Array) -> Array:
    return weights / xp.sum(weights, axis=-1, keepdims=True)


def _last_finish(bits: Array, spectral_efficiency: Array, weights: Array, bandwidth_hz: Array) -> Array:
    xp, w = _checked(weights=weights)
    return xp.max(finish_times(bits, spectral_efficiency, _shares_of(xp, w), bandwidth_hz), axis=-1)


def _summed_finish(bits: Array, spectral_efficiency: Array, weights: Array, bandwidth_hz: Array) -> Array:
    xp, w = _checked(weights=weights)
    return xp.sum(finish_times(bits, spectral_efficiency, _shares_of(xp, w), bandwidth_hz), axis=-1)


def _summed_finish_of_the_best(bits: Array, spectral_efficiency: Array, bandwidth_hz: Array) -> Array:
    return _summed_finish(bits, spectral_efficiency, minmax_shares(bits, spectral_efficiency), bandwidth_hz)


def _summed_finish_of_equal_shares(bits: Array, spectral_efficiency: Array, bandwidth_hz: Array) -> Array:
    xp, need = _band_seconds(bits, spectral_efficiency)
    return _summed_finish(bits, spectral_efficiency, xp.ones_like(need), bandwidth_hz)


def _uniform_over_best(bits: Array, spectral_efficiency: Array) -> Array:
    xp, need = _band_seconds(bits, spectral_efficiency)
    best = _last_finish(bits, spectral_efficiency, minmax_shares(bits, spectral_efficiency), xp.ones_like(need[..., 0]))
    return _last_finish(bits, spectral_efficiency, xp.ones_like(need), xp.ones_like(need[..., 0])) / best


def _users(bits: Array, spectral_efficiency: Array) -> Array:
    xp, need = _band_seconds(bits, spectral_efficiency)
    return xp.ones_like(need[..., 0]) * need.shape[-1]


def _certificate(objective: str) -> Any:
    shares = minmax_shares if objective == "minmax" else sum_shares

    def certified(bits: Array, spectral_efficiency: Array) -> Array:
        w = shares(bits, spectral_efficiency)
        return 1.0 - kkt_residual(bits, spectral_efficiency, w, objective=objective)

    return certified


def _one(bits: Array, spectral_efficiency: Array) -> Array:
    xp, need = _band_seconds(bits, spectral_efficiency)
    return xp.ones_like(need[..., 0])


def _first_share(bits: Array, snr: Array, boost: Array) -> Array:
    """The first user's share after its SNR was raised by the factor ``boost``."""
    xp, sent, ratio, factor = _checked(bits=bits, snr=snr, boost=boost)
    first = xp.concat([ratio[..., :1] * factor[..., None], ratio[..., 1:]], axis=-1)
    return minmax_shares(sent, xp.log1p(first))[..., 0]


def _first_share_before(bits: Array, snr: Array, boost: Array) -> Array:
    xp, factor = _checked(boost=boost)
    return _first_share(bits, snr, xp.ones_like(factor))


def _latency_of_radio(bits: Array, power: Array, gain: Array, noise: Array, bandwidth_hz: Array) -> Array:
    """The finish time of the best shares, SNR_k = p_k g_k/σ²."""
    xp, p, g, n, sent, band = _checked(power=power, gain=gain, noise=noise, bits=bits, bandwidth_hz=bandwidth_hz)
    rate = xp.log1p(p * g / n[..., None]) / math.log(2)
    return xp.max(finish_times(sent, rate, minmax_shares(sent, rate), band), axis=-1)


def _latency_as_printed(bits: Array, power: Array, gain: Array, noise: Array, bandwidth_hz: Array) -> Array:
    """The line after (26), with p_k/g_k."""
    xp, p, g, n, sent, band = _checked(power=power, gain=gain, noise=noise, bits=bits, bandwidth_hz=bandwidth_hz)
    return minmax_latency(sent, xp.log1p(p / g / n[..., None]) / math.log(2), band)


_CELL = {"bits": [100.0, 100.0], "spectral_efficiency": [1.0, 4.0]}
_RADIO = {"bits": [100.0, 100.0], "power": [0.5, 0.5], "gain": [0.5, 1.0], "noise": 0.25, "bandwidth_hz": 100.0}

CLAIMS = (
    Claim(
        id="ofdma.minmax",
        source=Source("zhu2025edgesd", "(26), (27)"),
        origin=Origin.PUBLISHED,
        statement="t* = Σ_k λI_k/(B η_k) ≤ max_k t_k for all shares, attained by w_k ∝ λI_k/η_k",
        relation=Relation.LE,
        lhs=minmax_latency,
        rhs=_last_finish,
        attained=Attained({**_CELL, "weights": [0.8, 0.2], "bandwidth_hz": 100.0}),
    ),
    Claim(
        id="ofdma.minmax_printed",
        source=Source("zhu2025edgesd", "below (26), as printed"),
        origin=Origin.PUBLISHED,
        statement="t* = Σ_k λI_k/(B log₂(1 + p_k/(g_k σ²))), the gain in the denominator",
        relation=Relation.EQ,
        lhs=_latency_of_radio,
        rhs=_latency_as_printed,
        refuted=_RADIO,
    ),
    Claim(
        id="ofdma.minmax_kkt",
        source=Source("zhu2025edgesd", "(26)"),
        origin=Origin.NEW,
        statement="certificate: at w_k ∝ λI_k/η_k all finish times are equal, Σw = 1, multipliers ≥ 0",
        relation=Relation.EQ,
        lhs=_certificate("minmax"),
        rhs=_one,
        attained=Attained(_CELL),
        condition=_users,
    ),
    Claim(
        id="ofdma.own_gain",
        source=Source("zhu2025edgesd", "below (27)"),
        origin=Origin.PUBLISHED,
        statement="a user's share never rises with its own power or gain",
        relation=Relation.LE,
        lhs=_first_share,
        rhs=_first_share_before,
        attained=Attained({"bits": [100.0, 100.0], "snr": [1.0, 3.0], "boost": 1.0}),
        ceiling=1.0,
    ),
    Claim(
        id="ofdma.sum",
        source=Source("zhu2025edgesd", "(26), for the sum in place of the maximum"),
        origin=Origin.NEW,
        statement="(Σ_k √(λI_k/η_k))²/B ≤ Σ_k t_k for all shares, attained by w_k ∝ √(λI_k/η_k)",
        relation=Relation.LE,
        lhs=sum_latency,
        rhs=_summed_finish,
        attained=Attained({**_CELL, "weights": [2.0, 1.0], "bandwidth_hz": 100.0}),
    ),
    Claim(
        id="ofdma.sum_kkt",
        source=Source("zhu2025edgesd", "(26), for the sum in place of the maximum"),
        origin=Origin.NEW,
        statement="certificate: at w_k ∝ √(λI_k/η_k) all c_k/w_k² are equal and Σw = 1",
        relation=Relation.EQ,
        lhs=_certificate("sum"),
        rhs=_one,
        attained=Attained(_CELL),
        condition=_users,
    ),
    Claim(
        id="ofdma.gain",
        source=Source("zhu2025edgesd", "Fig. 9"),
        origin=Origin.NEW,
        statement="upload latency of equal over best shares = max_k c_k / mean_k c_k, c_k = λI_k/η_k",
        relation=Relation.EQ,
        lhs=_uniform_over_best,
        rhs=uniform_gain,
        attained=Attained(_CELL),
        condition=_users,
    ),
    Claim(
        id="ofdma.gain_bound",
        source=Source("zhu2025edgesd", "Fig. 9"),
        origin=Origin.NEW,
        statement="upload latency of equal over best shares ≤ K, approached when one user needs nearly all",
        relation=Relation.LE,
        lhs=uniform_gain,
        rhs=_users,
        attained=Attained({"bits": [1e15, 1.0], "spectral_efficiency": [1.0, 1.0]}),
    ),
    Claim(
        id="ofdma.same_sum",
        source=Source("zhu2025edgesd", "(27), Fig. 9"),
        origin=Origin.NEW,
        statement="Σ_k t_k is the same under w_k ∝ λI_k/η_k and under equal shares: the mean user gains nothing",
        relation=Relation.EQ,
        lhs=_summed_finish_of_the_best,
        rhs=_summed_finish_of_equal_shares,
        attained=Attained({**_CELL, "bandwidth_hz": 100.0}),
    ),
)
