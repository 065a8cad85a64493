"""A request for a plan, in parsed numbers, with the defaults of what is left out; from it comes the setting."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from hlmtheory.channel import Rayleigh, Rician, TraceLink
from validation.errors import UserError
from validation.planning.quantities import LARGEST, SMALLEST
from validation.planning.setting import Passes, PlanLink, Setting, constant_link, fading_link, recorded_link

NUMBERS = {
    **{"--rate": "rate_bps", "--snr": "snr", "--k-factor": "k_factor", "--rtt": "round_trip_s"},
    **{"--down-rate": "down_bps", "--draft-time": "draft_s", "--verify-time": "verify_s"},
    **{"--server-draft-time": "server_draft_s", "--verify-token-time": "verify_token_s", "--between-time": "between_s"},
    **{"--device-power": "device_w", "--transmit-power": "transmit_w"},
    **{"--server-price": "server_price", "--time-price": "time_price", "--bias": "bias"},
}
"""Options of a size that a product of a few of them stays finite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the user asks for. Every field has the default that the command states."""

    rate_bps: float = 10e6
    fading: str = "none"
    snr: float = 10.0
    k_factor: float = 10.0
    round_trip_s: float = 0.020
    down_bps: float | None = None
    draft_s: float = 0.012
    verify_s: float = 0.030
    verify_token_s: float = 0.0
    bias: float = 0.05
    risk: tuple[str, float] = ("text", 0.0)
    latency: tuple[float, float] | None = None
    energy_j: float | None = None
    leak_bits: float | None = None
    device_w: float = 5.0
    transmit_w: float = 1.0
    server_price: float = 1.0
    time_price: float = 0.1
    objective: str = "throughput"
    users: int = 1
    server_batch: int = 1
    batch_assumed: bool = True  # it was left out
    server_draft_s: float | None = None
    server_draft_basis: str = "given"
    between_s: float = 0.0
    vocabulary: int = 32_000
    shared_seed: bool = True
    block: bool = False
    passes: Passes | None = None
    draft_passes: Passes | None = None  # of the draft model on the server
    reads_again: bool = False  # whether that reads the verified tokens again
    recorded: tuple[str, TraceLink] | None = None

    def with_server_draft(self, ratio: float | None) -> Request:
        """Return the request with a pass of the draft model on the server; what is not given is assumed."""
        if self.server_draft_s is not None:
            return self
        if ratio is None:
            seconds, basis = self.draft_s, "as long as the device: the ratio of parameters is not known"
        else:
            verify_s = self.verify_s if self.passes is None else float(self.passes.seconds(np.array(1.0)))
            seconds = min(verify_s / ratio, self.draft_s)
            basis = f"{1e3 * verify_s:.3g} ms / {ratio:.3g}, the ratio of parameters"
            if seconds == self.draft_s:
                basis = "as long as the device: by the ratio of parameters it would be slower"
        return replace(self, server_draft_s=float(f"{1e3 * seconds:.3g}") / 1e3, server_draft_basis=basis)

    def link(self) -> PlanLink:
        if self.recorded is not None:
            name, source = self.recorded
            return recorded_link(source, self.round_trip_s, self.down_bps, name)
        if self.fading == "none":
            return constant_link(self.rate_bps, self.round_trip_s, self.down_bps)
        law = Rayleigh(self.snr) if self.fading == "rayleigh" else Rician(self.snr, self.k_factor)
        decibels = f"{10 * np.log10(self.snr):g} dB"
        name = f"{self.fading.title()} fading, {self.rate_bps / 1e6:g} Mbit/s at the mean SNR, {decibels}"
        return fading_link(self.rate_bps, law, self.snr, self.round_trip_s, self.down_bps, name)

    def setting(self) -> Setting:
        for option, name in NUMBERS.items():
            value = getattr(self, name)
            if value and not SMALLEST <= abs(value) <= LARGEST:
                raise UserError(
                    f"{option} is {value:g} in SI units; give a number from {SMALLEST:g} to {LARGEST:g}, or 0."
                )
        for name in ("--draft-time", "--verify-time", "--server-draft-time"):
            if getattr(self, NUMBERS[name]) == 0:
                raise UserError(f"{name} is 0: a model that takes no time needs no plan; give the time of a pass.")
        shortest = self.verify_s if self.passes is None else min(map(min, self.passes.table))
        if shortest + self.between_s <= 0:
            raise UserError(
                f"--between-time is {1e3 * self.between_s:g}ms: a pass would take no time; give more than that."
            )
        if self.objective == "goodput" and self.latency is None:
            raise UserError("The objective goodput counts what arrives in time; give --latency, such as p95=80ms.")
        if self.objective == "cost" and not (self.server_price or self.time_price):
            raise UserError("--server-price and --time-price are both 0: then every plan costs nothing.")
        if self.objective == "fair" and self.users < 2:
            raise UserError("The objective fair shares a band between users; give --users 2 or more, or a CSV file.")
        share, limit = self.latency if self.latency is not None else (0.95, None)
        named = {field.name for field in fields(Setting)} & {field.name for field in fields(Request)}
        values = {name: getattr(self, name) for name in named}
        kind, most = self.risk
        return Setting(self.link(), risk_kind=kind, risk_limit=most, latency_share=share, latency_s=limit, **values)
