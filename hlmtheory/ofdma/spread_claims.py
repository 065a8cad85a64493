"""Claims where a user spreads its power over its share, SNR_k = s_k/w_k, each with its proof above its record."""

from __future__ import annotations

import math
from typing import Any

from hlmtheory._array import Array, arrays
from hlmtheory.claims import Attained, Claim, Origin, Relation, Source
from hlmtheory.ofdma.shares import checked_users, latency_of, shares_of
from hlmtheory.ofdma.spread import spread_finish_times, spread_minmax_shares

# Proofs, by the last part of the id.
#
# spread_minmax. w log(1 + s/w) rises with w, so t_k falls with w_k. Other shares that sum to 1 give some user no more
#   than the best shares do, and that user finishes no earlier than t*.
# spread_kkt. With the best shares all users finish at t*, and Σw = 1.
# spread_sooner. log(1 + s/w) ≥ log(1 + s) for w ≤ 1.
# spread_loss. By spread_sooner the shares (27) end by Σc/B, c_k = λI_k/log₂(1 + s_k). No shares end before max c/B, as
#   no user does with the whole band. The loss comes near K where one user's SNR is so high that halving its share
#   hardly raises its SNR in dB, and another's so low that its rate hardly depends on its share.


def _spread_last(bits: Array, full_band_snr: Array, shares: Array, bandwidth_hz: Array) -> Array:
    xp, times = arrays(
        times=spread_finish_times(bits, full_band_snr=full_band_snr, shares=shares, bandwidth_hz=bandwidth_hz)
    )
    return xp.max(times, axis=-1)


def _spread_competitor(bits: Array, full_band_snr: Array, weights: Array, bandwidth_hz: Array) -> Array:
    xp, w = checked_users(weights=weights)
    return _spread_last(bits, full_band_snr, w / xp.sum(w, axis=-1, keepdims=True), bandwidth_hz)


def _spread_best(bits: Array, full_band_snr: Array, bandwidth_hz: Array) -> Array:
    return _spread_last(bits, full_band_snr, spread_minmax_shares(bits, full_band_snr=full_band_snr), bandwidth_hz)


def _fixed(bits: Array, full_band_snr: Array) -> tuple[Any, Array, Array]:
    """Return the arguments of the paper's rule: bits, and spectral efficiencies at the SNR over the whole band."""
    xp, sent, snr = checked_users(bits=bits, full_band_snr=full_band_snr)
    return xp, sent, xp.log1p(snr) / math.log(2)


def _spread_at_fixed_shares(bits: Array, full_band_snr: Array, bandwidth_hz: Array) -> Array:
    """Return the last finish time of the shares (27), with the power spread."""
    _, sent, rate = _fixed(bits, full_band_snr)
    return _spread_last(sent, full_band_snr, shares_of(sent, rate), bandwidth_hz)


def _fixed_latency(bits: Array, full_band_snr: Array, bandwidth_hz: Array) -> Array:
    return latency_of(*_fixed(bits, full_band_snr)[1:], bandwidth_hz)


def _spread_loss_bound(bits: Array, full_band_snr: Array, bandwidth_hz: Array) -> Array:
    """Return Σc/max c times the best finish time."""
    xp, sent, rate = _fixed(bits, full_band_snr)
    need = sent / rate
    return xp.sum(need, axis=-1) / xp.max(need, axis=-1) * _spread_best(sent, full_band_snr, bandwidth_hz)


def _spread_certificate(bits: Array, full_band_snr: Array) -> Array:
    """Return 1 minus the larger of |Σw - 1| and the spread of the finish times."""
    xp, w = arrays(shares=spread_minmax_shares(bits, full_band_snr=full_band_snr))
    times = spread_finish_times(bits, full_band_snr=full_band_snr, shares=w, bandwidth_hz=xp.ones_like(w[..., 0]))
    unequal = 1.0 - xp.min(times, axis=-1) / xp.max(times, axis=-1)
    return 1.0 - xp.maximum(xp.abs(xp.sum(w, axis=-1) - 1.0), unequal)


def _spread_one(bits: Array, full_band_snr: Array) -> Array:
    xp, sent, _ = checked_users(bits=bits, full_band_snr=full_band_snr)
    return xp.ones_like(sent[..., 0])


def _spread_users(bits: Array) -> Array:
    xp, sent = checked_users(bits=bits)
    return xp.ones_like(sent[..., 0]) * sent.shape[-1]


_SPREAD = {"bits": [80.0, 40.0], "full_band_snr": [0.8, 0.6], "bandwidth_hz": 100.0}
_HIGH_AND_LOW = {
    "bits": [996.5784284662087, 1.4426950408889634e-12],
    "full_band_snr": [1e300, 1e-12],
    "bandwidth_hz": 1.0,
}

SPREAD_CLAIMS = (
    Claim(
        id="ofdma.spread_minmax",
        source=Source("zhu2025edgesd", "(26), with the power of a user spread over its share"),
        origin=Origin.NEW,
        statement="with SNR_k = s_k/w_k, the shares that finish together end no later than any shares",
        relation=Relation.LE,
        lhs=_spread_best,
        rhs=_spread_competitor,
        attained=Attained({**_SPREAD, "weights": [0.8, 0.2]}),
    ),
    Claim(
        id="ofdma.spread_kkt",
        source=Source("zhu2025edgesd", "(26), with the power of a user spread over its share"),
        origin=Origin.NEW,
        statement="with SNR_k = s_k/w_k, certificate: at the shares found all finish times are equal, Σw = 1",
        relation=Relation.EQ,
        lhs=_spread_certificate,
        rhs=_spread_one,
        attained=Attained({"bits": [80.0, 40.0], "full_band_snr": [0.8, 0.6]}),
        condition=_spread_users,
    ),
    Claim(
        id="ofdma.spread_sooner",
        source=Source("zhu2025edgesd", "(26), (27), with the power of a user spread over its share"),
        origin=Origin.NEW,
        statement="with SNR_k = s_k/w_k, the shares w_k ∝ λI_k/η_k at SNR s_k end by t* = Σ_k λI_k/(B η_k)",
        relation=Relation.LE,
        lhs=_spread_at_fixed_shares,
        rhs=_fixed_latency,
        attained=Attained(
            {"bits": [100.0, 100.0], "full_band_snr": [1e300, 1e300], "bandwidth_hz": 100.0}, 0.9989975725502231
        ),
    ),
    Claim(
        id="ofdma.spread_loss",
        source=Source("zhu2025edgesd", "(26), (27), with the power of a user spread over its share"),
        origin=Origin.NEW,
        statement="with SNR_k = s_k/w_k, w_k ∝ c_k = λI_k/η_k at SNR s_k ends within Σc/max c ≤ K of the best",
        relation=Relation.LE,
        lhs=_spread_at_fixed_shares,
        rhs=_spread_loss_bound,
        attained=Attained(_HIGH_AND_LOW, ratio=0.9989968666645896),
    ),
)
