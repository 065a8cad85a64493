"""Read the tables that cu-hlm and u-hlm print on decoded texts, with the names that they give the methods."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from hlmtheory.channel import vocabulary_payload_bits

_STORED = tomllib.loads((Path(__file__).parents[2] / "printed_tables.toml").read_text(encoding="utf-8"))["hlm"]

SETS: tuple[str, ...] = tuple(_STORED["sets"])
LATENCIES: dict[str, dict[str, tuple[float, float, float]]] = _STORED["latency"]
"""cu-hlm Table II: ms per token of link and target model, and tokens per second, by method and pair."""
METHODS = {
    "large only": "LLM",
    "small only": "SLM",
    "HLM": "HLM",
    "Rand-HLM": "Rand-HLM",
    "U-HLM risk-prone": "U-HLM",
    "CU-HLM offline": "CU-HLM (Offline)",
    "CU-HLM online": "CU-HLM (Online)",
}
"""Our method names, without the bracketed part, and the papers' names."""
LARGER_DRAFT_S = 0.064
"""Time of one pass of the 7B draft model, cu-hlm Table II."""
VOCABULARY, BITS = 32_000, 8
SNR_DB = 10.0
U_TIMES = (0.0246, 0.1046)
"""Seconds of one pass of each model, u-hlm Section I; cu-hlm prints 25.6 ms for the draft model."""


def accuracy_of(paper: str) -> dict[str, Any]:
    """Return Table I of a paper: by pair and method, in the order of ``SETS``."""
    found: dict[str, Any] = _STORED[paper]
    return found


def printed_name(method: str) -> str | None:
    """Return the papers' name of a method, or None.

    >>> printed_name("CU-HLM offline (k = 105)"), printed_name("CU-HLM certified (bias 0.1)")
    ('CU-HLM (Offline)', None)
    """
    return METHODS.get(method.split(" (")[0])


def row_bits(vocabulary: int = VOCABULARY) -> float:
    """Return the bits of a full distribution by cu-hlm (4)."""
    return float(vocabulary_payload_bits(vocabulary, BITS))
