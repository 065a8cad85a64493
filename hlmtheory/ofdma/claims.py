"""Claims of the module, each with its proof above its record."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from hlmtheory._array import Array
from hlmtheory._sides import Values, host_side
from hlmtheory.claims import Attained, Claim, Origin, Relation, Source
from hlmtheory.ofdma.shares import (
    PER_USER,
    SIZES,
    finish_times,
    kkt_residual,
    minmax_latency,
    minmax_shares,
    sum_latency,
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


def _least(one: Values, rate: Array) -> float:
    return float(minmax_latency(one["bits"], spectral_efficiency=rate, bandwidth_hz=one["bandwidth_hz"]))


def _times(one: Values, rate: Array, weights: Array) -> Array:
    band, shares = one["bandwidth_hz"], weights / weights.sum()
    return finish_times(one["bits"], spectral_efficiency=rate, shares=shares, bandwidth_hz=band)


def _certified(one: Values) -> float:
    bits, rate = one["bits"], one["spectral_efficiency"]
    return 1.0 - float(kkt_residual(bits, rate, minmax_shares(bits, spectral_efficiency=rate)))


def _first_share(one: Values, boost: float) -> float:
    """Return the first user's share after its SNR is raised by this factor."""
    snr = np.concatenate([one["snr"][:1] * boost, one["snr"][1:]])
    return float(minmax_shares(one["bits"], spectral_efficiency=np.log1p(snr))[0])


def _latency_of_radio(one: Values) -> float:
    rate = np.log1p(one["power"] * one["gain"] / one["noise"]) / math.log(2)
    return float(_times(one, rate, minmax_shares(one["bits"], spectral_efficiency=rate)).max())


def _latency_as_printed(one: Values) -> float:
    return _least(one, np.log1p(one["power"] / one["gain"] / one["noise"]) / math.log(2))


_side = partial(host_side, SIZES, dict.fromkeys(PER_USER, 1))
_CELL = {"bits": [100.0, 100.0], "spectral_efficiency": [1.0, 4.0]}
_RADIO = {"bits": [100.0, 100.0], "power": [0.5, 0.5], "gain": [0.5, 1.0], "noise": 0.25, "bandwidth_hz": 100.0}
_BAND = (*_CELL, "bandwidth_hz")

CLAIMS = (
    Claim(
        id="ofdma.minmax",
        source=Source("zhu2025edgesd", "(26), (27)"),
        origin=Origin.PUBLISHED,
        statement="at a fixed SNR, t* = Σ_k λI_k/(B η_k) ≤ max_k t_k for all shares, attained by w_k ∝ λI_k/η_k",
        lhs=_side(lambda one: _least(one, one["spectral_efficiency"]), *_BAND),
        rhs=_side(lambda one: float(_times(one, one["spectral_efficiency"], one["weights"]).max()), *_BAND, "weights"),
        attained=Attained({**_CELL, "weights": [0.8, 0.2], "bandwidth_hz": 100.0}),
    ),
    Claim(
        id="ofdma.minmax_printed",
        source=Source("zhu2025edgesd", "below (26), as printed"),
        origin=Origin.MISPRINT,
        statement="at a fixed SNR, t* = Σ_k λI_k/(B log₂(1 + p_k/(g_k σ²))), the gain in the denominator",
        relation=Relation.EQ,
        lhs=_side(_latency_of_radio, *_RADIO),
        rhs=_side(_latency_as_printed, *_RADIO),
        refuted=_RADIO,
    ),
    Claim(
        id="ofdma.minmax_kkt",
        source=Source("zhu2025edgesd", "(26)"),
        statement="at a fixed SNR, certificate: at w_k ∝ λI_k/η_k all finish times are equal, Σw = 1, multipliers ≥ 0",
        relation=Relation.EQ,
        lhs=_side(_certified, *_CELL),
        rhs=_side(lambda one: 1.0, *_CELL),
        attained=Attained(_CELL),
        condition=_side(lambda one: float(len(one["bits"])), *_CELL),
    ),
    Claim(
        id="ofdma.own_gain",
        source=Source("zhu2025edgesd", "Remark 1, from (27)"),
        origin=Origin.PUBLISHED,
        statement="at a fixed SNR, a user's share never rises with its own power or gain",
        lhs=_side(lambda one: _first_share(one, float(one["boost"])), "bits", "snr", "boost"),
        rhs=_side(lambda one: _first_share(one, 1.0), "bits", "snr", "boost"),
        attained=Attained({"bits": [100.0, 100.0], "snr": [1.0, 3.0], "boost": 1.0}),
        ceiling=1.0,
    ),
    Claim(
        id="ofdma.sum",
        source=Source("zhu2025edgesd", "(26), for the sum in place of the maximum"),
        statement="at a fixed SNR, (Σ_k √(λI_k/η_k))²/B ≤ Σ_k t_k for all shares, attained by w_k ∝ √(λI_k/η_k)",
        lhs=_side(lambda one: float(sum_latency(*(one[name] for name in _BAND))), *_BAND),
        rhs=_side(lambda one: float(_times(one, one["spectral_efficiency"], one["weights"]).sum()), *_BAND, "weights"),
        attained=Attained({**_CELL, "weights": [2.0, 1.0], "bandwidth_hz": 100.0}),
    ),
)
