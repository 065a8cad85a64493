"""One measured number beside another."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Measurement:
    """One line of the table: a value, and how it compares with another of the same run."""

    what: str
    value: float
    unit: str
    against: str
    ratio: float  # value over that of ``against``
