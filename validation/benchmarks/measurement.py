"""A measured value with its reference."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from validation.errors import UserError
from validation.trace.reader import Trace, TraceWriter, open_trace
from validation.trace.synthetic import SyntheticTrace

STREAMED = (
    "verification.tokens",
    "uncertainty.top",
    "skipping.rejection_by_draft",
    "truncation.softplus",
    "lattice.dropped_mass",
    "channel.downlink",
    "shared_seed.match",
)
"""One claim of each module that a trace serves; not the slowest, because 10^6 positions take an hour."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One line of the table: a value and its ratio to a reference of the same run."""

    what: str
    value: float
    unit: str
    against: str
    ratio: float  # value divided by that of ``against``


def resident(name: str) -> int:
    """Return the bytes of this process's memory on Linux, now (VmRSS) or at its peak (VmHWM)."""
    status = Path("/proc/self/status")
    if not status.exists():
        raise UserError(f"Memory is read from {status}, which this system lacks; leave this row out.")
    lines = status.read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024


def stored(trace: SyntheticTrace, path: Path) -> Trace:
    """Store a synthetic trace and open it."""
    with TraceWriter(path, trace.vocabulary) as writer:
        for chunk in trace.chunks(256):
            writer.append(**chunk.arrays)
    return open_trace(path)
