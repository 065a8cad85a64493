"""Compute the table of compressed vocabulary sizes, with the printed values of cu-hlm (oh2025cuhlm) Section V."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from validation.plots.common.printed import CU, value
from validation.plots.common.record import Numbers, Table
from validation.plots.common.truncation.sample import (
    EPSILON,
    PARAMETERS,
    SHARPNESSES,
    SKIP_BELOW,
    THETA,
    Sample,
    sample_of,
)
from validation.plots.common.truncation.values import (
    FULL,
    OFFLINE,
    defined,
    full_bits,
    say,
)
from validation.trace.reader import Trace

ONLINE = ("k_online_mean", "k_online_least", "k_online_largest")


def _span(k: NDArray[Any]) -> str:
    return f"{k.mean():,.0f}; {k.min():,} to {k.max():,}" if len(k) else "undefined"


def _share(k: float | None, vocabulary: int) -> str:
    return "undefined" if k is None else f"{k / vocabulary:.2%}"


def _paper_rows(sample: Sample) -> list[tuple[str, str, str]]:
    mean, least, largest = (f"{value(CU, name):,.0f}" for name in ONLINE)
    offline, sharp = sample.offline(THETA), sample.offline(THETA, sharp=True)
    sent = sample.drafts.uncertainty > SKIP_BELOW  # including positions with q = p
    size = sample.vocabulary
    rows = [
        ("|V|", f"{FULL:,}", f"{size:,}"),
        ("all entries, (4)", f"{full_bits(FULL):,} bit by (4), not printed", f"{full_bits(size):,} bit"),
        ("k* offline, (21)", f"{OFFLINE:.0f}", say(offline)),
        (f"k* offline, over u > {SKIP_BELOW:g} alone", f"{OFFLINE:.0f}", say(sample.offline(THETA, sent=True))),
        ("k* offline, (21) with the sharp bound", "–", say(sharp)),
        ("k(t)* exact, (19)", "–", _span(sample.least)),
        (f"certified, 2Δ_k ≤ {EPSILON:g}", "–", _span(_certified(sample))),
    ]
    printed = f"{mean}; {least} to {largest}"
    for eta in SHARPNESSES[:: max(1, len(SHARPNESSES) // 5)]:
        rows += [
            (f"k(t)* online, (24), η = {eta:g}", printed, _span(sample.online(eta))),
            (f"of these, u > {SKIP_BELOW:g}", printed, _span(sample.online(eta)[sent])),
            ("with β_d itself, all", "–", _span(sample.online(eta, true=True))),
        ]
    rows += [
        ("payload offline over all entries", "less than 0.1%", _share(offline, size)),
        ("payload certified over all entries", "–", _share(float(_certified(sample).mean()), size)),
        ("payload online over all entries, η = 1", "2.6%", _share(float(sample.online(1.0).mean()), size)),
        ("payload online over all entries, η = 5", "2.6%", _share(float(sample.online(5.0).mean()), size)),
    ]
    return rows


def _certified(sample: Sample) -> NDArray[np.int64]:
    return np.asarray(sample.top_k["certified"][:, PARAMETERS["certified"].index(EPSILON)])


def measure_table(trace: Trace, seed: int) -> Numbers:
    """Measure Table II of ours: our k and the paper's."""
    sample = sample_of(trace, seed)
    heads = (f"at θ = {THETA:g}", "paper", "ours")
    return {
        "tables": [Table("k* and payload; mean; least to largest", heads, tuple(_paper_rows(sample))).plain()],
        "statistics": {
            "k_offline": sample.offline(THETA),
            "k_offline_sent": sample.offline(THETA, sent=True),
            "k_online": {f"{eta:g}": defined(sample.online(eta).mean()) for eta in SHARPNESSES},
        },
        "positions_drawn": len(sample.rejected),
    }
