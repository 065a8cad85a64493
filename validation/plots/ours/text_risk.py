"""Table IV and Figure 6 of ours: the loss of whole texts at each threshold, and promised against measured risk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from validation.decoding.trace_drafts import POINTS, Row
from validation.plots.common.cells import NONE, cell, told
from validation.plots.common.record import Numbers, Table, plain
from validation.plots.common.skipping.numbers import interval, number
from validation.plots.common.style import DARK, LIGHT, MIDDLE, PAGE, axis, canvas, name_axes
from validation.plots.ours.calibration_splits import (
    FEWEST,
    SPLITS,
    Outcome,
    calibration_size,
    fewest_prompts,
    mean_of_tests,
    over_splits,
    random_splits,
    share_of_tests,
)
from validation.plots.ours.text_losses import Losses, losses_of
from validation.trace.reader import Trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

LENGTHS = (10, 20, 40, 160)
ALLOWED = (0.05, 0.1, 0.2)
"""Risks of the table."""
PROMISED = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3)
"""Risks of the figure."""
WHOLE = "overlap, bound 1"
SUM = "sum, bound T"
TOKEN = "sum / T, bound 1"


@dataclass(frozen=True, slots=True)
class Loss:
    """One loss of texts: its name, and its values (prompts, 21) with their bound for texts of T tokens."""

    name: str

    def of(self, losses: Losses, length: int) -> tuple[Row, float]:
        if self.name == WHOLE:
            return losses.overlap(length), 1.0
        total = losses.total(length)
        return (total, float(length)) if self.name == SUM else (total / length, 1.0)


ALL = tuple(Loss(name) for name in (WHOLE, SUM, TOKEN))


def lengths_of(losses: Losses) -> list[int]:
    """Return the evaluated lengths: those below the longest text, and the longest."""
    return [*(length for length in LENGTHS if length < losses.longest), losses.longest]


def measure_table(trace: Trace, seed: int) -> Numbers:
    """Measure the thresholds that calibration allows for the losses of whole texts."""
    losses = losses_of(trace, seed)
    allowed = _allowed(losses, lengths_of(losses), seed)
    return {
        "axes": [],
        "series": [],
        "statistics": _about(losses) | {"allowed": allowed},
        "tables": [_allowed_table(allowed, losses).plain()],
        "positions_drawn": losses.positions,
    }


def _about(losses: Losses) -> dict[str, Any]:
    return {
        "texts": len(losses.length),
        "prompts": losses.prompts,
        "calibrating": calibration_size(losses.prompts),
        "longest": losses.longest,
        "mean_length": plain(losses.length.mean()),
        "surprise": plain(losses.surprise, 4),
        "of_the_target_model": losses.of_the_target_model,
    }


def _allowed(losses: Losses, lengths: list[int], seed: int) -> list[dict[str, Any]]:
    """Return the thresholds that each loss allows at each ε, and the test prompts' losses, over random splits."""
    splits = random_splits(losses.prompts, seed)
    count = int(splits[0].sum())
    rows = []
    for length in lengths:
        overlap = losses.overlap(length)
        for risk in ALLOWED:
            for loss in ALL:
                values, bound = loss.of(losses, length)
                row: dict[str, Any] = {"length": length, "risk": risk, "loss": loss.name, "bound": bound}
                outcome = over_splits(values, splits, risk=risk, bound=bound)
                if outcome is None:
                    row |= {"needs": fewest_prompts(bound, risk), "calibrating": count}
                else:
                    row |= _reached(outcome)
                    row["sent"] = number(share_of_tests(*losses.sent_tokens(length), splits, outcome.column))
                    row["overlap_met"] = number(mean_of_tests(overlap, splits, outcome.column))
                rows.append(row)
    return rows


def _reached(outcome: Outcome) -> dict[str, Any]:
    """Return the thresholds of the splits, and the risk met; a threshold is null where nothing may be skipped."""
    places = np.quantile(outcome.column, (0.05, 0.5, 0.95), method="inverted_cdf").astype(int)
    low, middle, high = (plain(POINTS[place]) if place >= 0 else None for place in places)
    return {"threshold": middle, "threshold_low": low, "threshold_high": high, "met": interval(outcome.mean)}


def _allowed_table(rows: list[dict[str, Any]], losses: Losses) -> Table:
    heads = ("T", "ε", "loss", "threshold", "risk met", "overlap loss there", "sent")
    cells = []
    for row in rows:
        start = (str(row["length"]), f"{row['risk']:g}", row["loss"])
        if "needs" in row:
            cells.append((*start, f"needs {row['needs']:,} prompts", *3 * (NONE,)))
            continue
        cells.append(
            (
                *start,
                _thresholds(row),
                cell(row["met"], ".3f"),
                told(row["overlap_met"], ".3f"),
                told(row["sent"], ".3f"),
            )
        )
    count = calibration_size(losses.prompts)
    title = (
        f"Thresholds by conformal risk control with {count} prompts: median over {SPLITS} random splits [5%, 95%]; the "
        f"other columns are means over the splits, on the {losses.prompts - count} prompts that did not calibrate"
    )
    return Table(title, heads, tuple(cells))


def _thresholds(row: dict[str, Any]) -> str:
    middle, low, high = (
        "skip nothing" if row[key] is None else f"{row[key]:g}"
        for key in ("threshold", "threshold_low", "threshold_high")
    )
    return middle if low == high else f"{middle} [{low}, {high}]"


def measure_figure(trace: Trace, seed: int) -> Numbers:
    """Measure the risk met by the prompts that did not calibrate, for each ε, over random splits."""
    losses = losses_of(trace, seed)
    shown_lengths = [20, losses.longest] if losses.longest > 20 else [losses.longest]
    curves = [(Loss(WHOLE), length) for length in shown_lengths]
    curves += [(Loss(SUM), shown_lengths[0]), (Loss(TOKEN), shown_lengths[-1])]
    series = []
    if losses.prompts >= FEWEST:
        splits = random_splits(losses.prompts, seed)
        series = [_curve(loss, length, losses, splits) for loss, length in curves]
    return {
        "axes": [
            {"x": axis("risk promised ε"), "y": axis("risk met, mean over splits")},
            {"x": axis("risk promised ε"), "y": axis("share of splits above ε")},
        ],
        "series": series,
        "statistics": _about(losses) | {"splits": SPLITS},
        "positions_drawn": losses.positions,
    }


def _curve(loss: Loss, length: int, losses: Losses, splits: Any) -> dict[str, Any]:
    values, bound = loss.of(losses, length)
    points = []
    for risk in PROMISED:
        outcome = over_splits(values, splits, risk=risk, bound=bound)
        if outcome is not None:
            low, high = np.quantile(outcome.met, (0.05, 0.95))
            points.append(
                {
                    "risk": risk,
                    "met": interval(outcome.mean),
                    "of_splits": plain([low, high]),
                    "above": plain(np.mean(outcome.met > risk)),
                    "overlap_met": number(mean_of_tests(losses.overlap(length), splits, outcome.column)),
                }
            )
    return {
        "name": f"{loss.name}, T = {length}",
        "loss": loss.name,
        "length": length,
        "points": points,
        "needs": [fewest_prompts(bound, risk) for risk in PROMISED],
    }


_STYLES: dict[str, dict[str, Any]] = {
    WHOLE: {"color": DARK},
    SUM: {"color": MIDDLE, "linestyle": (0, (4, 2))},
    TOKEN: {"color": "0.55", "linestyle": ":"},
}
_MARKERS = ({"marker": "o"}, {"marker": "s", "mfc": "white"}, {"marker": "D"}, {"marker": "^"})


def paint(numbers: Numbers) -> Canvas:
    figure, (left, right) = canvas(PAGE, panels=2)
    for axes, names in zip((left, right), numbers["axes"], strict=True):
        name_axes(axes, names)
        axes.set_xlim(0, 1.05 * PROMISED[-1])
    if not numbers["series"]:
        words = f"{numbers['statistics']['prompts']} prompts are too few to calibrate;\nat least {FEWEST} are needed"
        left.text(0.5, 0.5, words, ha="center", va="center", transform=left.transAxes)
        return figure
    ends = [0.0, 1.05 * PROMISED[-1]]
    left.plot(ends, ends, color=LIGHT, linewidth=1, label="promised = met")
    for one, marker in zip(numbers["series"], _MARKERS, strict=False):
        if not one["points"]:
            continue
        style = _STYLES[one["loss"]] | marker | {"markersize": 3.5, "linewidth": 1}
        x = [point["risk"] for point in one["points"]]
        y, low, high = ([point["met"][key] for point in one["points"]] for key in ("value", "low", "high"))
        left.errorbar(x, y, [np.subtract(y, low), np.subtract(high, y)], capsize=2, label=one["name"], **style)
        right.plot(x, [point["above"] for point in one["points"]], label=one["name"], **style)
    ends_met = [point["met"]["high"] for one in numbers["series"] for point in one["points"]]
    left.set_ylim(0, 1.05 * max([PROMISED[-1], *ends_met]))
    right.set_ylim(0, 1)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure
