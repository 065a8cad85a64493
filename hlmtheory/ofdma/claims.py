"""Claims of the module, each with its proof above its record."""

from __future__ import annotations

import math
from typing import Any

from hlmtheory._array import Array
from hlmtheory.claims import Attained, Claim, Origin, Relation, Source
from hlmtheory.ofdma.shares import (
    band_seconds,
    checked_users,
    kkt_residual,
    latency_of,
    shares_of,
    sum_latency,
    sum_shares,
    times_of,
)

# Any positive weights, divided by their sum, are shares w. "Fixed SNR" says that η_k does not depend on w_k, as in the
# paper: a user's power then grows with its share.
#
# Proofs, by the last part of the id.
#
# minmax. Let t be the last finish time: c_k ≤ t w_k B for all k. Summed over k: Σ c_k ≤ t B.
# minmax_printed. (26) gives t* with log₂(1 + p_k g_k/σ²). The next line prints p_k/g_k, correct only if g_k = 1.
# minmax_kkt. At w_k = c_k/Σc every t_k is Σc/B. The multipliers are μ_k = w_k²/c_k over their sum, positive.
# own_gain. w_k = c_k/(c_k + the others' sum) rises with c_k, and c_k falls as SNR_k rises.
# sum. Cauchy–Schwarz: (Σ √c_k)² = (Σ √(c_k/w_k) √w_k)² ≤ Σ c_k/w_k · Σ w_k, with equality for w_k ∝ √c_k.


def _shares_of(xp: Any, weights: Array) -> Array:
    return weights / xp.sum(weights, axis=-1, keepdims=True)


def _last_finish(bits: Array, spectral_efficiency: Array, weights: Array, bandwidth_hz: Array) -> Array:
    xp, w = checked_users(weights=weights)
    return xp.max(times_of(bits, spectral_efficiency, _shares_of(xp, w), bandwidth_hz), axis=-1)


def _summed_finish(bits: Array, spectral_efficiency: Array, weights: Array, bandwidth_hz: Array) -> Array:
    xp, w = checked_users(weights=weights)
    return xp.sum(times_of(bits, spectral_efficiency, _shares_of(xp, w), bandwidth_hz), axis=-1)


def _users(bits: Array, spectral_efficiency: Array) -> Array:
    xp, need = band_seconds(bits, spectral_efficiency)
    return xp.ones_like(need[..., 0]) * need.shape[-1]


def _certificate(objective: str) -> Any:
    shares = shares_of if objective == "minmax" else sum_shares

    def certified(bits: Array, spectral_efficiency: Array) -> Array:
        w = shares(bits, spectral_efficiency)
        return 1.0 - kkt_residual(bits, spectral_efficiency, w, objective=objective)

    return certified


def _one(bits: Array, spectral_efficiency: Array) -> Array:
    xp, need = band_seconds(bits, spectral_efficiency)
    return xp.ones_like(need[..., 0])


def _first_share(bits: Array, snr: Array, boost: Array) -> Array:
    """Return the first user's share after its SNR is raised by the factor ``boost``."""
    xp, sent, ratio, factor = checked_users(bits=bits, snr=snr, boost=boost)
    first = xp.concat([ratio[..., :1] * factor[..., None], ratio[..., 1:]], axis=-1)
    return shares_of(sent, xp.log1p(first))[..., 0]


def _first_share_before(bits: Array, snr: Array, boost: Array) -> Array:
    xp, factor = checked_users(boost=boost)
    return _first_share(bits, snr, xp.ones_like(factor))


def _latency_of_radio(bits: Array, power: Array, gain: Array, noise: Array, bandwidth_hz: Array) -> Array:
    """Return the finish time of the best shares, with SNR_k = p_k g_k/σ²."""
    xp, p, g, n, sent, band = checked_users(power=power, gain=gain, noise=noise, bits=bits, bandwidth_hz=bandwidth_hz)
    rate = xp.log1p(p * g / n[..., None]) / math.log(2)
    return xp.max(times_of(sent, rate, shares_of(sent, rate), band), axis=-1)


def _latency_as_printed(bits: Array, power: Array, gain: Array, noise: Array, bandwidth_hz: Array) -> Array:
    """Return the finish time by the line after (26), which prints p_k/g_k."""
    xp, p, g, n, sent, band = checked_users(power=power, gain=gain, noise=noise, bits=bits, bandwidth_hz=bandwidth_hz)
    return latency_of(sent, xp.log1p(p / g / n[..., None]) / math.log(2), band)


_CELL = {"bits": [100.0, 100.0], "spectral_efficiency": [1.0, 4.0]}
_RADIO = {"bits": [100.0, 100.0], "power": [0.5, 0.5], "gain": [0.5, 1.0], "noise": 0.25, "bandwidth_hz": 100.0}

CLAIMS = (
    Claim(
        id="ofdma.minmax",
        source=Source("zhu2025edgesd", "(26), (27)"),
        origin=Origin.PUBLISHED,
        statement="at a fixed SNR, t* = Σ_k λI_k/(B η_k) ≤ max_k t_k for all shares, attained by w_k ∝ λI_k/η_k",
        lhs=latency_of,
        rhs=_last_finish,
        attained=Attained({**_CELL, "weights": [0.8, 0.2], "bandwidth_hz": 100.0}),
    ),
    Claim(
        id="ofdma.minmax_printed",
        source=Source("zhu2025edgesd", "below (26), as printed"),
        origin=Origin.MISPRINT,
        statement="at a fixed SNR, t* = Σ_k λI_k/(B log₂(1 + p_k/(g_k σ²))), the gain in the denominator",
        relation=Relation.EQ,
        lhs=_latency_of_radio,
        rhs=_latency_as_printed,
        refuted=_RADIO,
    ),
    Claim(
        id="ofdma.minmax_kkt",
        source=Source("zhu2025edgesd", "(26)"),
        statement="at a fixed SNR, certificate: at w_k ∝ λI_k/η_k all finish times are equal, Σw = 1, multipliers ≥ 0",
        relation=Relation.EQ,
        lhs=_certificate("minmax"),
        rhs=_one,
        attained=Attained(_CELL),
        condition=_users,
    ),
    Claim(
        id="ofdma.own_gain",
        source=Source("zhu2025edgesd", "Remark 1, from (27)"),
        origin=Origin.PUBLISHED,
        statement="at a fixed SNR, a user's share never rises with its own power or gain",
        lhs=_first_share,
        rhs=_first_share_before,
        attained=Attained({"bits": [100.0, 100.0], "snr": [1.0, 3.0], "boost": 1.0}),
        ceiling=1.0,
    ),
    Claim(
        id="ofdma.sum",
        source=Source("zhu2025edgesd", "(26), for the sum in place of the maximum"),
        statement="at a fixed SNR, (Σ_k √(λI_k/η_k))²/B ≤ Σ_k t_k for all shares, attained by w_k ∝ √(λI_k/η_k)",
        lhs=sum_latency,
        rhs=_summed_finish,
        attained=Attained({**_CELL, "weights": [2.0, 1.0], "bandwidth_hz": 100.0}),
    ),
)
