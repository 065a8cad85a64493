"""Compute our Table VI: the bill of each decoding method beside the risk that its records hold.

The table is made of the counts that ``figures/studies/bills`` stored, with the fit of the built-in pair's published
trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validation.decoding.intervals import IntervalEstimate, ratio
from validation.plots.common.record import Numbers, Table, plain
from validation.plots.common.stored import stored

Values = NDArray[np.float64]

EXPERIMENT = "bills"
FIELDS = ("tokens", "risk", "skipped", "bill", "bound")
SAME = 1e-4
"""Risk and bill of a text that differ by no more are equal but for the rounding of logits in float32."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Set the number of prompts, of new tokens, and of drafts for which a method decides at each position."""

    prompts: int = 10
    new_tokens: int = 24
    drafts: int = 8


@dataclass(frozen=True, slots=True)
class Counts:
    """Hold the sums of a method's texts, arrays of shape (texts,)."""

    method: str
    tokens: Values
    risk: Values
    skipped: Values
    bill: Values
    bound: Values


def read_counts(value: dict[str, Any]) -> tuple[str, int, Scale, list[Counts]]:
    """Return the stored counts."""
    found = [
        Counts(one["method"], *np.asarray(one["texts"], dtype=np.float64).reshape(-1, len(FIELDS)).T)
        for one in value["methods"]
    ]
    return value["pair"], value["vocabulary"], Scale(**value["scale"]), found


def _plain(estimate: IntervalEstimate) -> dict[str, Any]:
    return {key: plain(getattr(estimate, key), 5) for key in ("value", "low", "high")}


def _row(texts: Counts) -> dict[str, Any]:
    """Return the numbers of a method: means over tokens, and over texts."""
    tokens, risk, bill = texts.tokens, texts.risk, texts.bill
    ones = np.ones_like(tokens)
    return {
        "method": texts.method,
        "texts": len(tokens),
        "tokens": int(tokens.sum()),
        "skipped": plain(texts.skipped.sum() / tokens.sum(), 5),
        "risk": _plain(ratio(risk, tokens)),
        "bill": _plain(ratio(bill, tokens)),
        "difference": _plain(ratio(risk - bill, tokens)),
        "bound": _plain(ratio(texts.bound, tokens)),
        "risk_text": _plain(ratio(risk, ones)),
        "bill_text": _plain(ratio(bill, ones)),
        "risk_below": int(np.count_nonzero(risk < bill - SAME)),
    }


def _shown(value: dict[str, float], form: str) -> str:
    digits = int(form[-2])
    rounded = {key: round(number, digits) + 0.0 for key, number in value.items()}  # + 0.0: no -0
    ends = " to ".join(format(rounded[end], form) for end in ("low", "high"))
    return f"{rounded['value']:{form}} ({ends})" if value["low"] < value["high"] else f"{rounded['value']:{form}}"


def simulate(seed: int) -> Numbers:
    """Return risk and bill of each method, from the stored counts; the seed is that of the experiment."""
    value, record = stored(EXPERIMENT)
    return {**table(*read_counts(value)), **record}


def table(name: str, vocabulary: int, scale: Scale, found: Sequence[Counts]) -> Numbers:
    """Return risk and bill of each method from its counts."""
    rows = [_row(one) for one in found]
    heads = (
        "method",
        "tokens",
        "skipped",
        "risk recorded, a token",
        "bill, a token",
        "risk less bill, a token",
        "bill with Δ, a token",
        "bill, Σ of a text",
        "texts with risk below bill",
    )
    cells = tuple(
        (
            row["method"],
            f"{row['tokens']:,}",
            f"{row['skipped']:.1%}",
            _shown(row["risk"], ".4f"),
            _shown(row["bill"], ".4f"),
            _shown(row["difference"], "+.4f"),
            _shown(row["bound"], ".4f"),
            _shown(row["bill_text"], ".2f"),
            f"{row['risk_below']} of {row['texts']}",
        )
        for row in rows
    )
    return {
        "statistics": {"methods": rows, "drafts": scale.drafts, "new_tokens": scale.new_tokens},
        "tables": [Table("Risk as recorded and the bill", heads, cells).plain()],
        "basis": (
            f"on the pair {name}, V = {vocabulary:,}, {scale.prompts} prompts of {scale.new_tokens} new tokens for "
            "each method at temperature 1, with thresholds, line and k* fitted to the pair's trace"
        ),
    }
