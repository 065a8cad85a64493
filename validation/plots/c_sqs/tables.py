"""Table III of ours: Theorem 1 of c-sqs beside the rejections of decoded texts."""

from __future__ import annotations

from typing import Any

import numpy as np

from validation.plots.c_sqs.numbers import MAIN, Interval, basis, interval
from validation.plots.c_sqs.runs import Cell, CSqsStudy
from validation.plots.c_sqs.texts_file import study
from validation.plots.common.record import Numbers, Table, plain


def simulate_table(seed: int) -> Numbers:
    """Return the rejections of each text beside both forms of the bound."""
    found = study(seed)
    bounds = theorem(found)
    return {"statistics": {"theorem": bounds}, "tables": [_theorem_table(bounds).plain()], **basis(found)}


def theorem(found: CSqsStudy) -> list[dict[str, Any]]:
    """Return rejections of each text and the terms of Theorem 1 over the same positions, by method and temperature."""
    lines = []
    for name in MAIN:
        for temperature in found.scale.temperatures:
            cell = found.cells[name, temperature]
            ones = np.ones(len(cell.rows))
            rejected = interval([(cell.totals("resampled"), ones)])
            terms = {key: plain(cell.totals(key).mean(), 4) for key in ("mismatch", "dropped")}
            rounding = {"sharp": plain(cell.totals("rounding").mean(), 4), "published": plain(cell.rounding.mean(), 4)}
            looked = float(cell.looked_at.mean())
            excess = interval([(cell.totals("resampled") - _bound(cell), ones)])
            lines.append(
                {"method": name, "temperature": temperature, "rejected": rejected.plain(), "positions": looked}
                | {"rounding": rounding, "excess": excess.plain(), "above": excess.sign > 0}
                | terms
            )
    return lines


def _bound(cell: Cell) -> Any:
    """Return the right-hand side of (3) for each text, with the sharp rounding term."""
    return cell.totals("mismatch") + cell.totals("dropped") + cell.totals("rounding")


def _theorem_table(lines: list[dict[str, Any]]) -> Table:
    rows = []
    for one in lines:
        first, rounding = one["mismatch"] + one["dropped"], one["rounding"]
        rows.append(
            (
                one["method"],
                f"{one['temperature']:g}",
                f"{one['positions']:.1f}",
                Interval(*one["rejected"]).told(".1f"),
                *(f"{value:.2f}" for value in (one["mismatch"], one["dropped"], *rounding.values())),
                *(f"{first + value:.1f}" for value in rounding.values()),
            )
        )
    heads = (
        "method",
        "temperature",
        "drafts looked at",
        "rejected",
        "Σ TV(q, p)",
        "Σ dropped",
        "Σ i(K − i)/(Kℓ)",
        "Σ K/(4ℓ)",
        "bound, sharp",
        "bound, published",
    )
    return Table("Theorem 1 for each text", heads, tuple(rows))
