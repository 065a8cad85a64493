"""Tables of c-sqs: Theorem 1 beside rejections, bits beside bytes, the two forms of line 12, and crossing curves."""

from __future__ import annotations

from typing import Any

import numpy as np

from hlmtheory.conformal import regret_bound, regret_bound_sharp
from validation.decoding.methods.quantized import BUDGET_BITS, EPSILON, LEARNING_RATE
from validation.plots.c_sqs.numbers import ADAPTIVE, BYTES, MAIN, PRINTED, Interval, basis, crossovers, interval
from validation.plots.c_sqs.runs import MIDDLE_THRESHOLD, Cell, CSqsStudy
from validation.plots.c_sqs.texts_file import study
from validation.plots.common.record import Numbers, Table, plain


def simulate_table(seed: int) -> Numbers:
    """Return all four tables."""
    found = study(seed)
    bounds, lines = theorem(found), crossovers(found)
    return {
        "statistics": {"theorem": bounds, "line_12": line_12(found), "crossovers": lines},
        "tables": [
            one.plain() for one in (_theorem_table(bounds), _bytes_table(found), _line_table(found), _crossing(lines))
        ],
        **basis(found),
    }


# ------------------------------------------------------------------------------------------------------- Theorem 1


def theorem(found: CSqsStudy) -> list[dict[str, Any]]:
    """Return rejections of each text and the terms of Theorem 1 over the same positions, by method and temperature.

    A bonus token has no draft and so no rejection. Its position is omitted: the bound is then smaller and still holds.
    """
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


# --------------------------------------------------------------------------------------------------- bits and bytes


def _bytes_table(found: CSqsStudy) -> Table:
    """Return the table of bits per draft and drafts per round."""
    rows = []
    for name in (*MAIN, *BYTES):
        for temperature in (found.scale.temperatures[0], found.scale.temperatures[-1]):
            cell = found.cells[name, temperature]
            drafted = cell.totals("drafted")
            ratios = [
                (cell.totals("bits"), drafted),
                (8.0 * cell.totals("bytes"), drafted),
                (drafted, cell.rounds),
                (cell.tokens, cell.rounds),
            ]
            rows.append((name, f"{temperature:g}", *(f"{interval([one]).value:,.1f}" for one in ratios)))
    heads = (
        "method",
        "temperature",
        "bits a draft, formula",
        "bits a draft, encoded",
        "drafts a round",
        "tokens a round",
    )
    return Table(f"What {BUDGET_BITS:,.0f} bits carry", heads, tuple(rows))


# ----------------------------------------------------------------------------------------------------------- line 12


def line_12(found: CSqsStudy) -> list[dict[str, Any]]:
    """Return the mean dropped mass over accepted and resampled positions, with line 12 corrected and as printed."""
    lines = []
    for temperature in found.scale.temperatures:
        line: dict[str, Any] = {"temperature": temperature}
        for key, name in (("mended", ADAPTIVE[MIDDLE_THRESHOLD]), ("printed", PRINTED)):
            cell = found.cells[name, temperature]
            steps = cell.looked_at
            dropped = interval([(cell.totals("dropped"), steps)])
            counts = steps.astype(np.int64)
            setting = (EPSILON, LEARNING_RATE, MIDDLE_THRESHOLD, np.maximum(counts, 1))
            line[key] = {
                "dropped": dropped.plain(),
                "sharp": plain((steps * regret_bound_sharp(*setting)).sum() / steps.sum(), 4),
                "published": plain((steps * regret_bound(*setting)).sum() / steps.sum(), 4),
                "threshold": plain(np.mean([row.rounds[-1].threshold for row in cell.rows if row.rounds]), 4),
                "resampling": plain(interval([(cell.totals("resampled"), cell.rounds)]).value, 4),
            }
        lines.append(line)
    return lines


def _line_table(found: CSqsStudy) -> Table:
    rows = []
    for line in line_12(found):
        for key, name in (("mended", "the rejected position's own"), ("printed", "as printed")):
            one = line[key]
            rows.append(
                (
                    f"{line['temperature']:g}",
                    name,
                    Interval(*one["dropped"]).told(".4f"),
                    f"{one['sharp']:.4f}",
                    f"{one['published']:.1f}",
                    f"{one['threshold']:.6f}",
                    f"{one['resampling']:.3f}",
                )
            )
    heads = (
        "temperature",
        "update in line 12",
        "mean dropped mass",
        "sharp bound",
        "published bound",
        "last threshold",
        "resampling rate",
    )
    return Table(f"Algorithm 1 from τ₁ = {MIDDLE_THRESHOLD:g}", heads, tuple(rows))


# -------------------------------------------------------------------------------------------------------- crossings


def _crossing(lines: list[dict[str, Any]]) -> Table:
    rows = []
    for one in lines:
        which = ", ".join(f"({size}, {threshold:g})" for size, threshold in one["which"]) or "–"
        rate = "" if one["rate_bps"] is None else f"{one['rate_bps'] / 1e6:g} Mbit/s"
        kinds = ("crossing", "clear", "reverse", "k", "c")
        rows.append((one["metric"], one["times"], rate, *(str(one[kind]) for kind in kinds), which))
    heads = (
        "metric",
        "times of the models",
        "link",
        "cross as in the paper",
        "of them beyond the intervals",
        "cross the other way",
        "K-SQS better at both ends",
        "C-SQS better at both ends",
        "(K, τ₁) that cross",
    )
    return Table("Pairs of K and τ₁, from the lowest temperature to the highest", heads, tuple(rows))
