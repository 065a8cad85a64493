"""The rows of a plan's table: numbers, and what each rests on."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validation.decoding.intervals import IntervalEstimate, ratio

Array = NDArray[Any]
PROVED, MEASURED = "proved", "measured"


@dataclass(frozen=True, slots=True)
class Number:
    """A number of a plan, and what it rests on: "proved", "calibrated" or "measured", with the number of prompts."""

    value: float | None
    basis: str
    prompts: int | None = None
    low: float | None = None
    high: float | None = None

    def plain(self) -> dict[str, Any]:
        """Return the number as plain values; what is not finite is null."""
        found = asdict(self)
        return {name: None if isinstance(v, float) and not np.isfinite(v) else v for name, v in found.items()}


@dataclass(frozen=True, slots=True)
class Row:
    """One policy of a plan, at its best option that keeps the limits; ``decides`` is the number of the plan's aim."""

    policy: str
    option: str
    threshold: Number
    k_mean: Number
    k_p95: Number
    draft_length: Number
    bits: Number
    kilobytes_per_token: Number
    tokens_per_s_median: Number
    tokens_per_s_p95: Number
    tokens_per_s_mean: Number
    server_s_per_token: Number
    decides: Number
    gain: Number
    text_risk: Number
    token_risk: Number
    round_s: Number
    joules_per_token: Number
    breaks: tuple[str, ...]
    counts: dict[str, float]

    def plain(self) -> dict[str, Any]:
        """Return the row as plain values."""
        found: dict[str, Any] = {}
        for name in self.__slots__:
            value = getattr(self, name)
            found[name] = value.plain() if isinstance(value, Number) else value
        return found | {"breaks": list(self.breaks)}


def measured_number(found: IntervalEstimate, basis: str, prompts: int) -> Number:
    """Return a number with its interval, which one prompt does not give."""
    if prompts < 2:
        return Number(found.value, basis, prompts)
    return Number(found.value, basis, prompts, found.low, found.high)


def measured_speed(above: Array, seconds: Array, prompts: int) -> Number:
    """Return Σ above/Σ seconds with its interval; 0 where nothing arrives."""
    if not np.isfinite(above).all():
        return Number(None, MEASURED, prompts)
    if not np.isfinite(seconds).all():
        return Number(0.0, MEASURED, prompts)
    return measured_number(ratio(above, seconds), MEASURED, prompts)
