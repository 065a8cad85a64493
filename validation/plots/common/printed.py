"""Read the numbers and the tables that the papers print."""

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validation.plots.common.record import Printed

CU, U = "cu-hlm", "u-hlm"
_STORED = json.loads((Path(__file__).parents[1] / "printed_numbers.json").read_text(encoding="utf-8"))

NUMBERS: dict[str, Printed] = {
    f"{one['paper']} {one['name']}": Printed(one["what"], one["value"], one["place"]) for one in _STORED
}
"""Each printed number by paper and name; the file holds its digits, too, and the words around them."""


def value(paper: str, name: str) -> float:
    return NUMBERS[f"{paper} {name}"].value


_TABLES = tomllib.loads((Path(__file__).parents[1] / "printed_tables.toml").read_text(encoding="utf-8"))
_HLM, _FLEXSPEC = _TABLES["hlm"], _TABLES["flexspec"]

SETS: tuple[str, ...] = tuple(_HLM["sets"])
HLM_LATENCIES: dict[str, dict[str, tuple[float, float, float]]] = _HLM["latency"]
"""cu-hlm Table II: ms per token of link and target model, and tokens per second, by method and pair."""
HLM_NAMES: dict[str, str] = _HLM["names"]
"""Our method names, without the bracketed part, and the papers' names."""
LARGER_DRAFT_S = 0.064
"""Time of one pass of the 7B draft model, cu-hlm Table II."""
SNR_DB = 10.0
U_TIMES = (0.0246, 0.1046)
"""Seconds of one pass of each model, u-hlm Section I; cu-hlm prints 25.6 ms for the draft model."""
HLM_ACCURACIES: dict[str, dict[str, Any]] = {paper: _HLM[paper] for paper in (CU, U)}
"""Table I of each paper: by pair and method, in the order of ``SETS``."""
SAVINGS: dict[str, tuple[str, str, int]] = _TABLES["edge-sd"]["savings"]
"""Savings of edge-sd over the load: baseline, and the one field of Table II that differs, with its value."""

NETWORKS, DATASETS, METHODS, DEVICE_DATASETS = (
    tuple(_FLEXSPEC[key]) for key in ("networks", "datasets", "methods", "device_datasets")
)
SYNCHRONISATION: list[tuple[str, float, float, float]] = _FLEXSPEC["synchronisation"]
"""Table I: network, rate in bit/s, minutes, unit of their last digit."""
DRAFT_BYTES: float = _FLEXSPEC["draft_bytes"]
"""Size of the draft model of Table I, as Section III-B prints it."""
ACCEPTANCE: list[tuple[str, str, float]] = _FLEXSPEC["acceptance"]
"""Table II: version of Llama-2-70B, domain, acceptance rate of Llama-2-7B."""
DEVICES: list[tuple[str, float, list[float]]] = _FLEXSPEC["devices"]
"""Table V: device, ms of a draft, speed-up over 4G by dataset."""
TARGETS: list[tuple[str, list[float], list[float]]] = _FLEXSPEC["targets"]
"""Table VI: target model, ms of Cloud-Only over 5G and 4G, speed-up over each."""


def _table(table: str, what: str) -> NDArray[np.float64]:
    values = np.asarray(_FLEXSPEC[table][what], dtype=np.float64)
    return values.reshape(len(DATASETS), len(NETWORKS), len(METHODS))


LATENCIES: dict[str, Any] = {
    table: (_table(table, "milliseconds"), _table(table, "speed_ups")) for table in ("III", "IV")
}
"""Tables III and IV: latencies in ms and speed-ups, shapes (datasets, networks, methods)."""
