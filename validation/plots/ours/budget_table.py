"""Compare C-SQS with the budget of dropped mass on decoded texts: Table VIII of ours.

All methods decode the same prompts with the same seed, as in Figure 2 of c-sqs. All of them keep the target model's
distribution.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from validation.decoding.methods.quantized import EPSILON, CSqs
from validation.plots.c_sqs.numbers import (
    ADAPTIVE,
    BUDGETED,
    GUARDED,
    LARGER_MODELS,
    RATE_BPS,
    Interval,
    Ratio,
    basis,
    interval,
    latency,
    resampling,
)
from validation.plots.c_sqs.runs import MIDDLE_THRESHOLD, Cell, CSqsStudy
from validation.plots.c_sqs.texts_file import study
from validation.plots.common.record import Numbers, Table

CONFORMAL = ADAPTIVE[MIDDLE_THRESHOLD]
RIVALS = (BUDGETED, GUARDED)
FROM_0 = CSqs(0.0).name  # used for the long texts only

HEADS = {
    "dropped": ("mean dropped mass", ".5f"),
    "draft_bits": ("bits a draft", ",.0f"),
    "token_bits": ("bits a token", ",.0f"),
    "drafts": ("drafts a round", ".1f"),
    "latency": ("latency a token, ms", ".2f"),
    "rejected": ("rejected, of verified drafts", ".3f"),
    "resampling": ("resampling rate", ".3f"),
}
"""Compared metrics, each with the head of its column and its format."""


def _metrics() -> dict[str, Callable[[Cell], Ratio]]:
    return {
        "dropped": lambda cell: (cell.totals("dropped"), cell.looked_at),
        "draft_bits": lambda cell: (cell.bits, cell.totals("drafted")),
        "token_bits": lambda cell: (cell.bits, cell.tokens),
        "drafts": lambda cell: (cell.totals("drafted"), cell.rounds),
        "latency": lambda cell: latency(cell, LARGER_MODELS, RATE_BPS),
        "rejected": lambda cell: (cell.totals("resampled"), cell.looked_at),
        "resampling": resampling,
    }


def _cells(found: CSqsStudy) -> list[tuple[str, dict[str, Cell]]]:
    """Return the compared texts: those of Figure 2 by temperature, and the long ones of the highest temperature."""
    names = (CONFORMAL, *RIVALS)
    own = [(f"{t:g}", {name: found.cells[name, t] for name in names}) for t in found.scale.temperatures]
    long = f"{found.scale.temperatures[-1]:g}, {found.scale.long_tokens} tokens"
    return [*own, (long, {name: found.long[name] for name in (*names, FROM_0)})]


def simulate(seed: int) -> Numbers:
    """Compute dropped mass, bits, latency and rejections of the three methods."""
    found = study(seed)
    metrics = _metrics()
    values: list[dict[str, Any]] = []
    for where, cells in _cells(found):
        for name, cell in cells.items():
            one = {key: interval([ratio(cell)]).plain() for key, ratio in metrics.items()}
            values.append({"where": where, "method": name} | one)
    passes = f"{1e3 * LARGER_MODELS.draft_s:g} and {1e3 * LARGER_MODELS.target_s:g} ms"
    heads = ("temperature", "method", *(head for head, _ in HEADS.values()))
    rows = tuple(
        (one["where"], one["method"], *(Interval(*one[key]).told(spec) for key, (_, spec) in HEADS.items()))
        for one in values
    )
    return {
        "statistics": {"epsilon": EPSILON, "values": values},
        "tables": [Table(f"ε = {EPSILON:g}", heads, rows).plain()],
        **basis(found, f"passes of {passes}"),
    }
