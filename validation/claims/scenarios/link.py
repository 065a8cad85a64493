"""Simulated instances for the claims of channel, ofdma and draft_length: links, cells and rounds.

SNR from a cell of 400 m with Rayleigh fading (edge-sd Section IV), payloads and times of cu-hlm Section V-A, round
costs of flexspec Sections IV-V over 3G to 5G rates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hlmtheory.channel import dbm_to_watts, log_distance_gain
from hlmtheory.claims import Instance
from hlmtheory.draft_length import round_costs

Rng = np.random.Generator
Row = np.ndarray[Any, Any]

COUNT = 2000
"""Instances in a batch of scalars; a batch of vectors has a tenth of them."""

USERS = 100
MAX_DRAFT_LENGTH = 16


def _between(rng: Rng, low: float, high: float, shape: Any = COUNT) -> Row:
    """Return log-uniform numbers between ``low`` and ``high``."""
    return np.asarray(np.exp(rng.uniform(np.log(low), np.log(high), shape)))


# ---------------------------------------------------------------------------------------------------------- ofdma


def _radio(rng: Rng) -> dict[str, Row]:
    """Return users in a disc of 400 m: path loss exponent 2, -30 dB at 1 m, Rayleigh fading, 0.2 W, -106 dBm."""
    shape = (COUNT // 10, USERS)
    distance = 400.0 * np.sqrt(rng.random(shape))
    gain = log_distance_gain(np.maximum(distance, 1.0), reference_gain=1e-3, exponent=2.0) * rng.exponential(size=shape)
    return {
        "bits": 16.0 * rng.integers(1, 513, shape),
        "power": np.full(shape, 0.2),
        "gain": gain,
        "noise": np.full(shape[0], float(dbm_to_watts(-106.0))),
        "bandwidth_hz": _between(rng, 10e6, 40e6, shape[0]),
    }


def _cell(rng: Rng) -> dict[str, Row]:
    """Return the same cells, given by spectral efficiency."""
    radio = _radio(rng)
    snr = radio["power"] * radio["gain"] / radio["noise"][:, None]
    return {"bits": radio["bits"], "spectral_efficiency": np.log1p(snr) / np.log(2.0)}


def _shared_cell(rng: Rng) -> Instance:
    """Return cells and competing shares, near to and far from the optimal shares, including about equal ones."""
    cell = _cell(rng)
    tilt = rng.choice([0.0, 0.5, 1.0], (len(cell["bits"]), 1))
    weights = (cell["bits"] / cell["spectral_efficiency"]) ** tilt * np.exp(rng.normal(0.0, 0.2, cell["bits"].shape))
    return {**cell, "weights": weights, "bandwidth_hz": _between(rng, 10e6, 40e6, len(weights))}


def _spread_cell(rng: Rng) -> Instance:
    """Return the same cells, given by the SNR over the whole band."""
    radio = _radio(rng)
    snr = radio["power"] * radio["gain"] / radio["noise"][:, None]
    return {"bits": radio["bits"], "full_band_snr": snr, "bandwidth_hz": radio["bandwidth_hz"]}


def _spread_users(rng: Rng) -> Instance:
    cell = _spread_cell(rng)
    return {"bits": cell["bits"], "full_band_snr": cell["full_band_snr"]}


def _spread_shares(rng: Rng) -> Instance:
    """Return cells and competing shares, near to and far from the closed form, including about equal ones."""
    cell = _spread_cell(rng)
    tilt = rng.choice([0.0, 0.5, 1.0], (len(cell["bits"]), 1))
    need = cell["bits"] / np.log1p(cell["full_band_snr"])
    return {**cell, "weights": need**tilt * np.exp(rng.normal(0.0, 0.2, need.shape))}


def _raised_user(rng: Rng) -> Instance:
    cell = _cell(rng)
    snr = 2.0 ** cell["spectral_efficiency"] - 1.0
    return {"bits": cell["bits"], "snr": snr, "boost": _between(rng, 1.0, 100.0, len(snr))}


def _cell_and_band(rng: Rng) -> Instance:
    cell = _cell(rng)
    return {**cell, "bandwidth_hz": _between(rng, 10e6, 40e6, len(cell["bits"]))}


# -------------------------------------------------------------------------------------------------------- channel


def _mean_snr(rng: Rng, shape: Any = COUNT) -> Row:
    """Return mean SNRs of -20 to 30 dB, as in cu-hlm Fig. 10."""
    return np.asarray(10.0 ** (rng.uniform(-20.0, 30.0, shape) / 10.0))


def _k_factor(rng: Rng) -> Row:
    return np.where(rng.random(COUNT) < 0.2, 0.0, _between(rng, 0.1, 100.0))


def _payload(rng: Rng) -> Instance:
    sizes = np.array([32_000, 32_064, 50_257, 128_256, 151_936, 256_000])
    return {
        "vocabulary": np.where(rng.random(COUNT) < 0.5, rng.choice(sizes, COUNT), rng.integers(1, 300_000, COUNT)),
        "bits_per_probability": rng.choice(np.array([4, 8, 16, 32]), COUNT),
    }


def _transmission(rng: Rng) -> Instance:
    snr = _mean_snr(rng) * rng.exponential(size=COUNT)
    return {"bits": _between(rng, 100.0, 1e7), "bandwidth_hz": _between(rng, 1e5, 1e8), "snr": snr}


def _times(rng: Rng) -> Row:
    """Return round times of cu-hlm: 25.6 ms of drafting; if verified, a Rayleigh-faded upload and 104.6 ms more."""
    shape = (COUNT // 10, 100)
    snr = _mean_snr(rng, (shape[0], 1)) * rng.exponential(size=shape)
    uplink = 736_000 / (10e6 * np.log1p(snr) / np.log(2.0))
    return 0.0256 + np.where(rng.random(shape) < 0.3, uplink + 0.1046, 0.0)


def _rounds(rng: Rng) -> Instance:
    count = COUNT // 10
    share = rng.random((count, 1))
    return {
        "draft_s": _between(rng, 0.005, 0.1, count),
        "uplink_s": _between(rng, 1e-5, 1.0, count),
        "verify_s": _between(rng, 0.01, 0.5, count),
        "sent": (rng.random((count, 100)) < share).astype(np.float64),
    }


def _strip(rng: Rng) -> dict[str, Row]:
    return {"mean_snr": _mean_snr(rng), "cut": _between(rng, 1e-12, 1e-3), "width": _between(rng, 1.0, 1e6)}


def _rician(rng: Rng) -> dict[str, Row]:
    return {"mean_snr": _mean_snr(rng), "k_factor": _k_factor(rng)}


def _trace(rng: Rng) -> Instance:
    """Return throughput traces in steps of about a second at 0 to 8 Mbit/s, a tenth at 0, as in the 3G traces."""
    shape = (COUNT // 10, 60)
    rates = np.where(rng.random(shape) < 0.1, 0.0, rng.gamma(1.5, 1e6, shape))
    rates[:, 0] += 1e5
    return {
        "time_s": np.cumsum(rng.uniform(0.3, 1.5, shape), axis=-1),
        "throughput_bps": rates,
        "bits": _between(rng, 1e3, 1e8, shape[0]),
        "start_s": rng.uniform(0.0, 100.0, shape[0]),
    }


def _upload(rng: Rng) -> dict[str, Row]:
    """Return uploads of cu-hlm over blocks of 1 ms to 100 s; few, because each needs a renewal equation."""
    few = COUNT // 20
    return {
        "mean_snr": _mean_snr(rng, few),
        "bits": _between(rng, 1e3, 1e6, few),
        "bandwidth_hz": _between(rng, 1e6, 2e7, few),
        "coherence_s": _between(rng, 1e-3, 100.0, few),
    }


def _rician_upload(rng: Rng) -> Instance:
    upload = _upload(rng)
    count = len(upload["bits"])
    return {**upload, "k_factor": np.where(rng.random(count) < 0.3, 0.0, _between(rng, 0.1, 30.0, count))}


# --------------------------------------------------------------------------------------------------- draft length


def _gamma(rng: Rng) -> Row:
    return np.where(rng.random(COUNT) < 0.1, rng.integers(0, 2, COUNT), rng.beta(4.0, 2.0, COUNT))


def _off_air(rng: Rng) -> dict[str, Row]:
    """Return a round's costs without transmission: 10-80 ms propagation, 20-400 ms server, 5-150 ms per draft token."""
    return {
        "fixed": rng.uniform(0.01, 0.08, COUNT) + _between(rng, 0.02, 0.4),
        "marginal": _between(rng, 0.005, 0.15) + _between(rng, 1e-4, 5e-3),
    }


def _air(rng: Rng) -> dict[str, Row]:
    """Return rates from 1 kbit/s to 5G, indices of 15 to 18 bits, and headers of 0 to 60 bytes."""
    return {
        "rate_bps": _between(rng, 1e3, 1e8),
        "bits_per_token": rng.integers(15, 19, COUNT).astype(np.float64),
        "header_bits": rng.choice(np.array([0.0, 32.0, 160.0, 320.0, 480.0]), COUNT),
    }


def _link(rng: Rng) -> dict[str, Row]:
    base, air = _off_air(rng), _air(rng)
    rate = air.pop("rate_bps")
    fixed, marginal = round_costs(rate, **air, cloud_base_s=base["fixed"], cloud_slope_s=base["marginal"])
    return {"acceptance": _gamma(rng), "fixed": fixed, "marginal": marginal}


def _with(*more: str) -> Callable[[Rng], Instance]:
    """Return a scenario of links with the named additional inputs."""

    def instance(rng: Rng) -> Instance:
        max_draft_length = rng.integers(1, MAX_DRAFT_LENGTH + 1, COUNT)
        all_of_them: dict[str, Row] = {
            "max_draft_length": max_draft_length,
            "draft_length": rng.integers(1, max_draft_length + 1),
            "believed": _gamma(rng),
            "rise": _between(rng, 1.0, 30.0),
            "fixed_j": _between(rng, 0.1, 5.0),
            "marginal_j": _between(rng, 0.01, 0.5),
            "price": np.where(rng.random(COUNT) < 0.2, 0.0, _between(rng, 0.01, 1.0)),
        }
        return {**_link(rng), **{name: all_of_them[name] for name in more}}

    return instance


def _two_links(rng: Rng) -> Instance:
    return {"acceptance": _gamma(rng), **_off_air(rng), **_air(rng), "slowdown": _between(rng, 1.0, 1e3)}


def _profile(rng: Rng) -> Instance:
    """Return acceptance rates that decrease with the position in the draft."""
    link = _link(rng)
    fall = np.cumprod(rng.beta(12.0, 1.0, (COUNT, MAX_DRAFT_LENGTH)), axis=-1)
    return {"acceptances": link["acceptance"][:, None] * fall, "fixed": link["fixed"], "marginal": link["marginal"]}


def _tracked(*more: str) -> Callable[[Rng], Instance]:
    def instance(rng: Rng) -> Instance:
        all_of_them: dict[str, Row] = {
            "rounds": rng.integers(0, 100, COUNT),
            "step": _between(rng, 0.01, 0.5),
            "start": np.full(COUNT, 0.8),
            "other_length": rng.integers(1, MAX_DRAFT_LENGTH + 1, COUNT),
        }
        begin = {"acceptance": _gamma(rng), "draft_length": rng.integers(1, MAX_DRAFT_LENGTH + 1, COUNT)}
        return {**begin, **{name: all_of_them[name] for name in more}}

    return instance


INSTANCES: dict[str, Callable[[Rng], Instance]] = {
    "channel.payload": _payload,
    "channel.latency": _transmission,
    "channel.latency_floor": _transmission,
    "channel.throughput": lambda rng: {"times_s": _times(rng)},
    "channel.throughput_means": lambda rng: {"times_s": _times(rng)},
    "channel.throughput_by_share": _rounds,
    "channel.rayleigh_mean": _strip,
    "channel.rician_mean": lambda rng: {**_strip(rng), "k_factor": _k_factor(rng)},
    "channel.finite_mean": lambda rng: {
        "mean_snr": _mean_snr(rng),
        "cut": _between(rng, 1e-30, 1e-3),
        "bound": _between(rng, 1.0, 1381.0),
    },
    "channel.capacity": lambda rng: {"mean_snr": _mean_snr(rng)},
    "channel.rician_capacity": _rician,
    "channel.capacity_jensen": _rician,
    "channel.outage": lambda rng: {"mean_snr": _mean_snr(rng), "probability": _between(rng, 1e-6, 0.9)},
    "channel.rician_outage": lambda rng: {**_rician(rng), "snr": _mean_snr(rng)},
    "channel.markov": lambda rng: {
        "leave_good": rng.uniform(1e-3, 0.5, COUNT),
        "leave_bad": rng.uniform(0.01, 0.9, COUNT),
    },
    "channel.trace": _trace,
    "channel.transfer_floor": _rician_upload,
    "channel.transfer_ceiling": _rician_upload,
    "channel.transfer_low_snr": _upload,
    "channel.transfer_one_block": _rician_upload,
    "ofdma.minmax": _shared_cell,
    "ofdma.minmax_printed": _radio,
    "ofdma.minmax_kkt": _cell,
    "ofdma.own_gain": _raised_user,
    "ofdma.sum": _shared_cell,
    "ofdma.sum_kkt": _cell,
    "ofdma.gain": _cell,
    "ofdma.gain_bound": _cell,
    "ofdma.same_sum": _cell_and_band,
    "ofdma.spread_minmax": _spread_shares,
    "ofdma.spread_kkt": _spread_users,
    "ofdma.spread_sooner": _spread_cell,
    "ofdma.spread_loss": _spread_cell,
    "draft_length.etgr": _with("draft_length"),
    "draft_length.unimodal": _profile,
    "draft_length.stationary": _with(),
    "draft_length.optimal": _with("draft_length", "max_draft_length"),
    "draft_length.ratio": _with("rise", "max_draft_length"),
    "draft_length.slower_shortens": _two_links,
    "draft_length.slower_shortens_if": _two_links,
    "draft_length.linear": _with("draft_length", "max_draft_length"),
    "draft_length.linear_bonus": _with("draft_length", "max_draft_length"),
    "draft_length.linear_optimal": _with("max_draft_length"),
    "draft_length.linear_adapts": _with("rise", "max_draft_length"),
    "draft_length.regret": _with("believed", "max_draft_length"),
    "draft_length.energy": _with("fixed_j", "marginal_j", "price", "draft_length", "max_draft_length"),
    "draft_length.tracker": _tracked("other_length"),
    "draft_length.tracker_in_use": _tracked(),
    "draft_length.tracker_mean": _tracked("rounds", "step", "start"),
    "draft_length.tracker_variance": _tracked("rounds", "step"),
    "draft_length.tracker_consistent": _tracked(),
    "draft_length.update_storm_printed": lambda rng: {"size_bytes": rng.uniform(3.15e9, 3.25e9, COUNT)},
    "draft_length.update_storm": lambda rng: {"size_bytes": rng.uniform(3.5625e9, 3.58125e9, COUNT)},
}
"""Generator of a batch of instances, by claim id."""
