"""Compare C-SQS with the budget of dropped mass on decoded texts: Table VIII of ours.

All methods decode the same prompts with the same seed, as in Figure 2 of c-sqs. All of them keep the target model's
distribution. Differences are taken prompt by prompt.
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
    """Return each metric as a ratio of totals over the texts."""
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
    """Compute dropped mass, bits, latency and rejections of the three methods, and their differences by prompt."""
    found = study(seed)
    metrics = _metrics()
    values, gaps = [], []
    for where, cells in _cells(found):
        for name, cell in cells.items():
            one = {key: interval([ratio(cell)]).plain() for key, ratio in metrics.items()}
            values.append({"where": where, "method": name} | one)
        for name in [name for name in cells if name != CONFORMAL]:
            pair = (cells[name], cells[CONFORMAL])
            one = {key: interval([ratio(cell) for cell in pair]).plain() for key, ratio in metrics.items()}
            gaps.append({"where": where, "method": name} | one)
    passes = f"{1e3 * LARGER_MODELS.draft_s:g} and {1e3 * LARGER_MODELS.target_s:g} ms"
    heads = ("temperature", "method", *(head for head, _ in HEADS.values()))
    return {
        "statistics": {"epsilon": EPSILON, "values": values, "gaps": gaps},
        "tables": [
            Table(f"ε = {EPSILON:g}", heads, _rows(values)).plain(),
            Table(f"Difference to {CONFORMAL}, by prompt", heads, _rows(gaps, "+")).plain(),
        ],
        **basis(found, f"passes of {passes}"),
    }


def _rows(lines: list[dict[str, Any]], sign: str = "") -> tuple[tuple[str, ...], ...]:
    return tuple(
        (one["where"], one["method"], *(Interval(*one[key]).told(sign + spec) for key, (_, spec) in HEADS.items()))
        for one in lines
    )


def _long(lines: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Return the line of the long texts."""
    return [one for one in lines if one["method"] == name][-1]


def message(numbers: Numbers) -> str:
    """Dropped mass, and whether latency and rejections differ."""
    about = numbers["statistics"]
    ours, theirs = (_long(about["values"], name) for name in (BUDGETED, CONFORMAL))
    gap = _long(about["gaps"], BUDGETED)
    dropped = f"the budget drops {ours['dropped'][0]:.2g} of the mass and {CONFORMAL} {theirs['dropped'][0]:.2g}"
    return (
        f"On long texts {dropped}; its latency is {_compared(gap['latency'])}, its share of rejected drafts "
        f"{_compared(gap['rejected'])}."
    )


def _compared(gap: Any) -> str:
    """Return whether a difference is beyond its interval."""
    return {1: "higher", -1: "lower", 0: "not shown to differ"}[Interval(*gap).sign]


def caption(numbers: Numbers) -> str:
    """Give the differences on the long texts."""
    about = numbers["statistics"]
    told = []
    for name in (*RIVALS, FROM_0):
        gap = _long(about["gaps"], name)
        parts = (
            f"{Interval(*gap[key]).told('+' + HEADS[key][1])} {unit}"
            for key, unit in (("draft_bits", "bits a draft"), ("latency", "ms a token"), ("rejected", "rejected"))
        )
        told.append(f"{name}: {', '.join(parts)}")
    return (
        f"Long texts, difference to {CONFORMAL} by prompt: {'; '.join(told)}. Here ε = {about['epsilon']:g}. "
        "A round takes drafts until its bits are used up. So larger drafts make shorter rounds, and these discard "
        "fewer drafts behind a rejection. The latency can fall although the bits rise."
    )
