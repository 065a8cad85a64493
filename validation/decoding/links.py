"""The radio link of a run: how long each round's message takes, by the models of :mod:`hlmtheory.channel`.

A link is opened for a batch of texts; each text then has its own fading, drawn from its own numbers, one block a
round, and its own clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hlmtheory.channel import GilbertElliott, Rician, TraceLink, shannon_latency
from validation.decoding.random_streams import Noise

Array = NDArray[Any]
_BLOCKS = 64  # fading blocks drawn at a time


class Channel(Protocol):
    """A link as a batch sees it."""

    def rate(self, row: int, elapsed_s: float) -> float:
        """Begin a round of a text and tell the uplink's rate in it, in bit/s."""

    def seconds(self, rows: Array, up_bits: Array, down_bits: Array, elapsed_s: Array) -> Array:
        """How long the rounds' messages take, both ways."""


class Link(Protocol):
    """Something that can be opened for a batch."""

    @property
    def name(self) -> str:
        """What the results call it."""

    def open(self, noise: Noise) -> Channel:
        """The link for the texts of that noise."""


@dataclass(frozen=True, slots=True)
class Way:
    """What every link has beside the uplink's rate: propagation, one way, and the downlink."""

    propagation_s: float = 0.0
    down_bps: float = float("inf")

    def extra(self, up_bits: Array, down_bits: Array) -> Array:
        """Seconds beside the uplink's transmission; a text that asks nothing of the server waits for nothing."""
        used = (up_bits > 0) | (down_bits > 0)
        return np.where(used, 2.0 * self.propagation_s + down_bits / self.down_bps, 0.0)


@dataclass(frozen=True, slots=True)
class FadingLink:
    """Block fading: one SNR a round, and B/(W log₂(1 + S)) seconds.

    Parameters
    ----------
    name : str
    bandwidth_hz : float
    fading : Rician, Rayleigh or float
        The law of the SNR, or the SNR itself where there is no fading; a ratio, not dB.
    way : Way
    """

    name: str
    bandwidth_hz: float
    fading: Rician | float
    way: Way = Way()

    def open(self, noise: Noise) -> Channel:
        """The link for the texts of that noise."""
        return _Fading(self, noise)


@dataclass(frozen=True, slots=True)
class TracedLink:
    """A link whose rate moves in time: a measured trace, or a two-state Markov chain drawn anew for each text.

    Parameters
    ----------
    name : str
    source : TraceLink or GilbertElliott
    way : Way
    slots : int
        How much of a Markov chain is drawn before it repeats.
    """

    name: str
    source: TraceLink | GilbertElliott
    way: Way = Way()
    slots: int = 4096

    def open(self, noise: Noise) -> Channel:
        """The link for the texts of that noise."""
        return _Traced(self, noise)


class _Fading:
    def __init__(self, link: FadingLink, noise: Noise) -> None:
        self._link, self._noise = link, noise
        self._snr = np.zeros(len(noise.names))
        self._blocks: dict[int, list[float]] = {}

    def rate(self, row: int, elapsed_s: float) -> float:
        fading = self._link.fading
        if isinstance(fading, Rician):
            blocks = self._blocks.setdefault(row, [])
            if not blocks:
                blocks.extend(fading.sample(self._noise.link(row), _BLOCKS)[::-1].tolist())
            self._snr[row] = blocks.pop()
        else:
            self._snr[row] = fading
        return float(self._link.bandwidth_hz * np.log1p(self._snr[row]) / np.log(2.0))

    def seconds(self, rows: Array, up_bits: Array, down_bits: Array, elapsed_s: Array) -> Array:
        sent = up_bits > 0
        up = np.zeros(len(rows))
        if sent.any():
            up[sent] = shannon_latency(up_bits[sent], self._link.bandwidth_hz, self._snr[rows[sent]])
        return up + self._link.way.extra(up_bits, down_bits)


class _Traced:
    def __init__(self, link: TracedLink, noise: Noise) -> None:
        self._link, self._noise = link, noise
        self._traces: dict[int, TraceLink] = {}

    def rate(self, row: int, elapsed_s: float) -> float:
        trace = self._trace(row)
        times = np.asarray(trace.time_s, dtype=np.float64)
        now = np.mod(elapsed_s, trace.period_s()) + times[0]
        return float(np.asarray(trace.throughput_bps)[np.searchsorted(times, now, side="right") - 1])

    def seconds(self, rows: Array, up_bits: Array, down_bits: Array, elapsed_s: Array) -> Array:
        up = np.zeros(len(rows))
        for i in np.flatnonzero(up_bits > 0):
            up[i] = float(self._trace(int(rows[i])).transfer_time(up_bits[i], elapsed_s[i]))
        return up + self._link.way.extra(up_bits, down_bits)

    def _trace(self, row: int) -> TraceLink:
        if isinstance(self._link.source, TraceLink):
            return self._link.source
        if row not in self._traces:
            chain = self._link.source
            rates = chain.sample(self._noise.link(row), self._link.slots)
            self._traces[row] = TraceLink(np.arange(len(rates)) * float(chain.slot_s), rates)
        return self._traces[row]
