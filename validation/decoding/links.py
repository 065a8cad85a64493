"""Radio links of the papers: transmission times of each round's messages, by the models of :mod:`hlmtheory.channel`.

Each sequence has its own fading, drawn from its own random numbers. One fading block lasts one round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hlmtheory.channel import Rayleigh, Rician, db_to_linear, log_distance_gain, shannon_latency
from hlmtheory.channel.latency import dbm_to_watts
from validation.arrays import Array
from validation.decoding.random_streams import Noise
from validation.decoding.records import Round
from validation.decoding.seconds import Times, seconds

BANDWIDTH_HZ, K_FACTOR_DB = 1e7, 10.0  # W and the Rician K-factor of cu-hlm Section V
AVERAGE_SNR_DB = tuple(range(-20, 11, 5))  # the average SNRs of cu-hlm Fig. 10, in its steps of 5 dB.
_BLOCKS = 64  # fading blocks drawn at a time


@dataclass(frozen=True, slots=True)
class Way:
    """One-way propagation time and downlink rate of a link."""

    propagation_s: float = 0.0
    down_bps: float = float("inf")

    def extra(self, up_bits: Array, down_bits: Array) -> Array:
        """Return the seconds for propagation and the downlink; 0 where nothing is sent in either direction."""
        counts = {"exchanges": (up_bits > 0) | (down_bits > 0), "down_bits": down_bits}
        return seconds(counts, Times(round_trip_s=2.0 * self.propagation_s, down_bps=self.down_bps))


@dataclass(frozen=True, slots=True)
class FadingLink:
    """Block fading: one SNR a round (a ratio, not dB; a number if it is constant), and B/(W log₂(1 + S)) seconds."""

    name: str
    bandwidth_hz: float
    fading: Rician | float
    way: Way = Way()

    def open(self, noise: Noise) -> Channel:
        return Channel(self, noise)


class Channel:
    """A link, opened for a batch of sequences."""

    def __init__(self, link: FadingLink, noise: Noise) -> None:
        self._link, self._noise, self.way = link, noise, link.way
        self._snr = np.zeros(len(noise.names))
        self._blocks: dict[int, list[float]] = {}

    def rate(self, sequence: int) -> float:
        """Begin a round of a sequence, and return its uplink rate in bit/s."""
        if isinstance(fading := self._link.fading, Rician):
            blocks = self._blocks.setdefault(sequence, [])
            if not blocks:
                blocks.extend(fading.sample(self._noise.link(sequence), _BLOCKS)[::-1].tolist())
            self._snr[sequence] = blocks.pop()
        else:
            self._snr[sequence] = fading
        return float(self._link.bandwidth_hz * np.log1p(self._snr[sequence]) / np.log(2.0))

    def transmission(self, sequences: Array, up_bits: Array) -> Array:
        """Return the seconds that the uplink sends these messages, without propagation."""
        return airtime(up_bits, self._link.bandwidth_hz, self._snr[sequences])

    def time(self, sequences: Array, rounds: Sequence[Round], real_bytes: bool) -> None:
        up = np.array([8.0 * exchange.bytes if real_bytes else exchange.bits for exchange in rounds])
        down = np.array([8.0 * exchange.down_bytes for exchange in rounds])
        spent = self.transmission(sequences, up) + self.way.extra(up, down)
        for exchange, value in zip(rounds, spent.tolist(), strict=True):
            exchange.link_s = value


def airtime(bits: Array, bandwidth_hz: float, snr: Array) -> Array:
    """Return the seconds that messages take at their SNR (messages,); 0 where nothing is sent."""
    sent, airtimes = bits > 0, np.zeros(len(bits))
    if sent.any():
        airtimes[sent] = shannon_latency(bits[sent], bandwidth_hz, snr[sent])
    return airtimes


def fading_links(
    average_snr_db: Sequence[float], *, k_factor_db: float | None = None, bandwidth_hz: float = BANDWIDTH_HZ
) -> list[FadingLink]:
    """Return a link for each average SNR, with Rayleigh fading, or Rician fading if a K-factor is given."""
    kind = "Rayleigh" if k_factor_db is None else f"Rician (K = {k_factor_db:g} dB)"
    links = []
    for snr_db in average_snr_db:
        mean = float(db_to_linear(float(snr_db)))
        law = Rayleigh(mean) if k_factor_db is None else Rician(mean, float(db_to_linear(float(k_factor_db))))
        links.append(FadingLink(f"{kind}, {snr_db:g} dB", bandwidth_hz, law, Way()))
    return links


def uhlm_link() -> FadingLink:
    """The link of u-hlm Section IV: 1 MHz, 23 dBm, -104 dBm of noise, path loss exponent 4 over 2.5 km, Rayleigh."""
    gain = log_distance_gain(2500.0, reference_gain=1.0, exponent=4.0)
    mean = float(dbm_to_watts(23.0) * gain / dbm_to_watts(-104.0))
    return FadingLink(f"u-hlm, {10 * np.log10(mean):.1f} dB", 1e6, Rayleigh(mean))
