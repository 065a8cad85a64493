"""A measured value with its reference."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Measurement:
    """One line of the table: a value and its ratio to a reference of the same run."""

    what: str
    value: float
    unit: str
    against: str
    ratio: float  # value divided by that of ``against``
