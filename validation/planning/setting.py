"""The setting of a plan: pass times, link, limits and prices, and how fast the expected counts of a text then are."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from hlmtheory.channel import Rician, TraceLink
from validation.arrays import Array
from validation.decoding.seconds import PASSES, Times, parts
from validation.errors import UserError
from validation.planning.rounds import COUNTS, named

SHARES = (np.arange(200) + 0.5) / 200
"""Quantiles whose rates stand for a link in means over time; a percentile is exact, see ``PlanLink.quantile``."""
_ROUNDING = 1e-12  # of a sum of times
_LEAST = 1e-12  # seconds of a server for a token, where nothing needs it


@dataclass(frozen=True, slots=True, eq=False)
class PlanLink:
    """The rates of a link over time, and its round trip."""

    name: str
    rates: Array  # (n,): equally likely uplink rates in bit/s, ascending, for means over time; 0 where the link is down
    round_trip_s: float
    down_bps: float  # Rate of the downlink, constant
    exceeded: Callable[[float], float] | None = None  # The exact quantile of a rate that changes: see :meth:`quantile`

    def part(self, users: int) -> Self:
        """Return the link of one user, if several share the median rate of this one."""
        return replace(self, rates=np.array([self.quantile(0.5) / users]), exceeded=None)

    def quantile(self, share: float) -> float:
        """Return the largest rate that the link has or exceeds in at least this share of the time."""
        if self.exceeded is not None:
            return self.exceeded(share)
        return _held(self.rates, np.ones(len(self.rates)), share)


def _held(rates: Array, spans: Array, share: float) -> float:
    """Return the largest of ascending rates that is reached or exceeded in a share of the time."""
    slower = np.cumsum(spans) - spans
    allowed = (1.0 - share + _ROUNDING) * float(spans.sum())
    return float(rates[int(np.count_nonzero(slower <= allowed)) - 1])


def constant_link(rate_bps: float, round_trip_s: float, down_bps: float | None = None) -> PlanLink:
    if rate_bps <= 0:
        raise UserError("--rate is 0: over a dead link only the device alone generates; give a rate above 0.")
    return PlanLink(f"{rate_bps / 1e6:g} Mbit/s", np.array([rate_bps]), round_trip_s, down_bps or rate_bps)


def fading_link(
    rate_bps: float, law: Rician, mean_snr: float, round_trip_s: float, down_bps: float | None = None, name: str = ""
) -> PlanLink:
    """Return a link whose rate at the mean SNR is ``rate_bps`` and whose SNR follows a law."""
    constant_link(rate_bps, round_trip_s)  # which refuses a dead link
    scale = rate_bps / float(np.log2(1.0 + mean_snr))

    def exceeded(share: float) -> float:
        return scale * float(law.rate_quantile(1.0 - share))

    rates = scale * np.asarray(law.rate_quantile(SHARES))
    return PlanLink(name or "fading", rates, round_trip_s, down_bps or exceeded(0.5), exceeded)


def recorded_link(source: TraceLink, round_trip_s: float, down_bps: float | None = None, name: str = "") -> PlanLink:
    """Return a link with the rates of a recording, each weighted by its time."""
    times, recorded = (np.asarray(x, dtype=np.float64) for x in (source.time_s, source.throughput_bps))
    order = np.argsort(recorded, kind="stable")
    spans = np.diff(times, append=2.0 * times[-1] - times[-2])[order]
    rates = recorded[order]
    levels = rates[np.minimum(np.searchsorted(np.cumsum(spans) / spans.sum(), SHARES), len(rates) - 1)]

    def exceeded(share: float) -> float:
        return _held(rates, spans, share)

    typical = down_bps or exceeded(0.5) or float(rates[rates > 0].min())
    return PlanLink(name or "recorded", levels, round_trip_s, typical, exceeded)


@dataclass(frozen=True, slots=True)
class Passes:
    """Measured passes of the target model: seconds by batch and width, in between by interpolation."""

    batches: tuple[int, ...]  # Texts of a pass; ascending
    widths: tuple[int, ...]  # New tokens of each text; ascending
    table: tuple[tuple[float, ...], ...]  # Seconds, (batches, widths)

    def seconds(self, width: Array, batch: int = 1) -> Array:
        """Return the seconds of a pass over ``batch`` texts of ``width`` tokens each."""
        by_batch = np.stack([_along(width, self.widths, row) for row in self.table], axis=-1)
        place = int(np.clip(np.searchsorted(self.batches, batch) - 1, 0, max(len(self.batches) - 2, 0)))
        if len(self.batches) == 1:
            return np.asarray(by_batch[..., 0])
        low, high = by_batch[..., place], by_batch[..., place + 1]
        share = (batch - self.batches[place]) / (self.batches[place + 1] - self.batches[place])
        return np.asarray(low + share * (np.maximum(high - low, 0.0) if share > 1 else high - low))


def _along(at: Array, places: tuple[int, ...], values: tuple[float, ...]) -> Array:
    """Return values between places on straight lines; beyond the last one, the last slope if it rises."""
    inside = np.interp(at, places, values)
    if len(places) < 2:
        return np.asarray(inside)
    slope = max((values[-1] - values[-2]) / (places[-1] - places[-2]), 0.0)
    return np.asarray(inside + slope * np.maximum(at - places[-1], 0.0))


@dataclass(frozen=True, slots=True)
class Setting:
    """All numbers of a plan but the models' own."""

    link: PlanLink
    draft_s: float
    verify_s: float  # Seconds of a pass of the target model on the server; draft_s: of the draft model on the device
    verify_token_s: float = 0.0  # Seconds that each token adds to a pass of the target model
    device_w: float = 5.0  # Watts of the device while it drafts
    transmit_w: float = 1.0  # Watts of its radio while it sends
    server_price: float = 1.0  # Of a second of the server, for the objective "cost"
    time_price: float = 0.1  # Of a second of waiting
    bias: float = 0.05  # Largest Bias of a truncated message
    risk_kind: str = "text"  # Or "token"
    risk_limit: float = 0.0  # 0 is lossless
    latency_share: float = 0.95
    latency_s: float | None = None  # Of a round, in that share of the time
    energy_j: float | None = None  # Largest energy of the device for a token
    objective: str = "throughput"  # "goodput", "fair", "cost" or "capacity": tokens of a full server in a second
    server_draft_s: float | None = None  # Seconds of a pass of the draft model on the server
    between_s: float = 0.0  # Between two passes of a text that the server writes; below 0 if they take less than others
    leak_bits: float | None = None  # The most bits that the sizes of a round may tell
    server_batch: int = 1  # Texts of a pass of a full server
    passes: Passes | None = None  # Passes of the target model as measured
    draft_passes: Passes | None = None  # Of the draft model on the server: how its passes grow with the batch

    @property
    def own_draft_s(self) -> float:
        return self.draft_s if self.server_draft_s is None else self.server_draft_s

    def seconds(self, counts: Array, rate_bps: Array | float) -> Array:
        """Return the seconds of texts with these counts (..., counts) at an uplink rate that broadcasts with (...)."""
        return np.asarray(sum(self.parts(counts, rate_bps).values()))

    def parts(self, counts: Array, rate_bps: Array | float) -> dict[str, Array]:
        """Return the parts of these seconds; passes of the server take what :meth:`server_seconds` says."""
        times = Times(self.draft_s, 0.0, 0.0, self.link.round_trip_s, rate_bps, self.link.down_bps)
        return parts(named(counts), times) | {PASSES: self.server_seconds(counts)}

    def pass_seconds(self, counts: Array, batch: int = 1) -> Array:
        """Return the seconds of a mean pass of these counts over ``batch`` such texts; 0 without passes."""
        passes, verified = (counts[..., COUNTS.index(name)] for name in ("passes", "verified"))
        some = passes > 0
        width = np.where(some, verified, 0.0) / np.where(some, passes, 1.0)
        if self.passes is not None:
            return np.where(some, self.passes.seconds(width, batch), 0.0)
        return np.where(some, self.verify_s + batch * width * self.verify_token_s, 0.0)

    def server_seconds(self, counts: Array, batch: int = 1) -> Array:
        """Return the seconds of the server for a text: its part of passes of both models that ``batch`` texts share."""
        c, token, drafts = named(counts), np.ones(()), self.draft_passes
        grows = 1.0 if drafts is None else drafts.seconds(token, batch) / drafts.seconds(token)
        shared = c["passes"] * self.pass_seconds(counts, batch) + c["server_drafts"] * self.own_draft_s * grows
        return np.asarray((shared + (c["passes"] - c["exchanges"]) * self.between_s) / batch)

    def joules(self, counts: Array, rate_bps: float) -> Array:
        drafts, bits = counts[..., COUNTS.index("drafts")], counts[..., COUNTS.index("up_bits")]
        return np.asarray(drafts * self.draft_s * self.device_w + bits / max(rate_bps, 1e-9) * self.transmit_w)

    def speeds(self, total: Array, rates: Array | None = None, batch: int = 1) -> Array:
        """Return the tokens/s at each rate of the link, of total counts (..., counts) in passes of ``batch`` texts."""
        seconds = self.seconds(total[..., None, :], self.link.rates if rates is None else rates)
        longer = batch * self.server_seconds(total, batch) - self.server_seconds(total) if batch > 1 else np.zeros(())
        return np.asarray(total[..., None, 0] / (seconds + longer[..., None]))

    def mean_seconds(self, counts: Array) -> Array:
        """Return seconds (texts,) of counts (texts, C): tokens over them give the mean speed and about its spread."""
        each = np.stack([self.seconds(counts, rate) for rate in self.link.rates])
        with np.errstate(invalid="ignore", divide="ignore"):
            often = 1.0 / each.sum(axis=-1)
            return np.asarray(np.where(np.isfinite(each), each, 0.0).T @ often**2 / (len(often) * np.mean(often) ** 2))

    def value(self, total: Array) -> Array:
        if self.objective == "capacity":
            return np.asarray(1.0 / np.maximum(self.server_seconds(total, self.server_batch) / total[..., 0], _LEAST))
        speeds = self.speeds(total)
        if self.objective == "cost":
            spent = self.server_price * self.server_seconds(total) / total[..., 0]
            waiting = self.time_price * np.mean(1.0 / np.maximum(speeds, 1e-12), axis=-1)
            return np.asarray(1.0 / np.maximum(spent + waiting, _LEAST))
        if self.objective == "goodput" and self.latency_s is not None:
            within = self.round_seconds(total, self.link.rates) <= self.latency_s
            return np.asarray(np.mean(speeds * within, axis=-1))
        return np.asarray(np.mean(speeds, axis=-1))

    def round_seconds(self, total: Array, rates: Array | float) -> Array:
        """Return the mean seconds from the first draft of an exchange to its reply, at each rate, (..., rates)."""
        exchanges, skipped = total[..., COUNTS.index("passes")], total[..., COUNTS.index("skipped")]
        some = exchanges > 1e-9 * np.maximum(total[..., 0], 1.0)
        sent = total.copy()
        sent[..., COUNTS.index("drafts")] -= skipped
        each = sent / np.where(some, exchanges, 1.0)[..., None]
        rounds = self.seconds(each[..., None, :], np.asarray(rates))
        return np.where(some[..., None], rounds, self.draft_s)
