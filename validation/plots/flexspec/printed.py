"""Read the tables that flexspec (li2025flexspec) prints."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_STORED = tomllib.loads((Path(__file__).parents[1] / "printed_tables.toml").read_text(encoding="utf-8"))["flexspec"]

NETWORKS, DATASETS, METHODS, DEVICE_DATASETS = (
    tuple(_STORED[key]) for key in ("networks", "datasets", "methods", "device_datasets")
)
SYNCHRONISATION: list[tuple[str, float, float, float]] = _STORED["synchronisation"]
"""Table I: network, rate in bit/s, minutes, unit of their last digit."""
DRAFT_BYTES: float = _STORED["draft_bytes"]
"""Size of the draft model of Table I, as Section III-B prints it."""
ACCEPTANCE: list[tuple[str, str, float]] = _STORED["acceptance"]
"""Table II: version of Llama-2-70B, domain, acceptance rate of Llama-2-7B."""
DEVICES: list[tuple[str, float, list[float]]] = _STORED["devices"]
"""Table V: device, ms of a draft, speed-up over 4G by dataset."""
TARGETS: list[tuple[str, list[float], list[float]]] = _STORED["targets"]
"""Table VI: target model, ms of Cloud-Only over 5G and 4G, speed-up over each."""


def _table(table: str, what: str) -> NDArray[np.float64]:
    values = np.asarray(_STORED[table][what], dtype=np.float64)
    return values.reshape(len(DATASETS), len(NETWORKS), len(METHODS))


LATENCIES: dict[str, Any] = {
    table: (_table(table, "milliseconds"), _table(table, "speed_ups")) for table in ("III", "IV")
}
"""Tables III and IV: latencies in ms and speed-ups, shapes (datasets, networks, methods)."""
