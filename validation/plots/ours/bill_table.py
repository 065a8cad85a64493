"""Compute our Table VI from the counts of ``figures/studies/bills``: the bill of each method beside its risk."""

from __future__ import annotations

from typing import Any

import numpy as np

from validation.decoding.intervals import ratio
from validation.estimates import Estimate
from validation.plots.common.record import Numbers, plain, table_of
from validation.plots.common.stored import stored

SAME = 1e-4
"""Risk and bill of a text that differ by no more are equal but for the rounding of logits in float32."""


def _row(method: str, counts: Any) -> dict[str, Any]:
    """Return the numbers of a method, means over tokens and over texts, from the sums of its texts."""
    tokens, risk, skipped, bill, bound = np.asarray(counts, dtype=np.float64).reshape(-1, 5).T
    ones = np.ones_like(tokens)
    ratios = {
        "risk": (risk, tokens),
        "bill": (bill, tokens),
        "difference": (risk - bill, tokens),
        "bound": (bound, tokens),
        "risk_text": (risk, ones),
        "bill_text": (bill, ones),
    }
    return {
        "method": method,
        "texts": len(tokens),
        "tokens": int(tokens.sum()),
        "skipped": plain(skipped.sum() / tokens.sum(), 5),
        **{name: ratio(*parts).plain(digits=5) for name, parts in ratios.items()},
        "risk_below": int(np.count_nonzero(risk < bill - SAME)),
    }


def _shown(name: str, digits: int, sign: str = "") -> Any:
    """Return the cell of an estimate, with its interval if it has a width."""

    def shown(row: dict[str, Any]) -> str:
        ends = row[name] if row[name]["low"] < row[name]["high"] else {"value": row[name]["value"]}
        return Estimate(**ends).map(lambda end: round(end, digits) + 0.0).text(f"{sign}.{digits}f")  # + 0.0: no -0

    return shown


COLUMNS = {
    "method": "{method}",
    "tokens": "{tokens:,}",
    "skipped": "{skipped:.1%}",
    "risk recorded, a token": _shown("risk", 4),
    "bill, a token": _shown("bill", 4),
    "risk less bill, a token": _shown("difference", 4, "+"),
    "bill with Δ, a token": _shown("bound", 4),
    "bill, Σ of a text": _shown("bill_text", 2),
    "texts with risk below bill": "{risk_below} of {texts}",
}


def simulate(seed: int) -> Numbers:
    """Return risk and bill of each method, from the stored counts; the seed is that of the experiment."""
    value, record = stored("bills")
    rows = [_row(one["method"], one["texts"]) for one in value["methods"]]
    scale = value["scale"]
    return {
        "statistics": {"methods": rows, "drafts": scale["drafts"], "new_tokens": scale["new_tokens"]},
        "tables": [table_of("Risk as recorded and the bill", COLUMNS, rows)],
        "basis": (
            f"on the pair {value['pair']}, V = {value['vocabulary']:,}, {scale['prompts']} prompts of "
            f"{scale['new_tokens']} new tokens for each method at temperature 1, with thresholds, line and k* fitted "
            "to the pair's trace"
        ),
        **record,
    }
