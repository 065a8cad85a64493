"""Paint figures of uncertainty and skipping: cu-hlm (oh2025cuhlm) III and V-B, u-hlm (oh2024uhlm)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from validation.plots.common import style
from validation.plots.common.printed import CU, U, value
from validation.plots.common.record import Numbers
from validation.plots.common.style import Axes, Canvas

_MEASURES = ({"color": style.MIDDLE}, {"color": style.GREY, **style.DASHED}, style.LOOKS[2])
"""Of the uncertainty: the papers' measure and its two baselines."""


def _inside(series: dict[str, Any]) -> dict[str, Any]:
    cut = {side: np.clip(style.values(series[side]), 0.0, 1.0) for side in ("low", "high") if side in series}
    return series | cut


def mark_thresholds(axes: Axes, ours: Sequence[float] | None, paper: str) -> None:
    """Mark our thresholds and the paper's, the risk-averse one to the left; omit those outside [0, 1]."""
    theirs = [value(paper, name) for name in ("averse", "prone")]
    known = {"ours": (ours or [], style.DARK, style.DASHED), paper: (theirs, "black", style.DOTTED)}
    for name, (places, color, line) in known.items():
        both = zip(("averse", "prone"), places, strict=False)
        told = ", ".join(f"risk-{one} {f'{x:.3f}' if x >= 0 else 'below 0'}" for one, x in both)
        inside = [place for place in places if 0 <= place <= 1]
        for number, place in enumerate(inside):
            label = None if number else f"thresholds, {name}: {told}"
            axes.axvline(place, color=color, linewidth=0.9, label=label, **line)


def mark_printed(axes: Axes, paper: str) -> None:
    """Mark the share sent that a paper prints, and of cu-hlm the accepted share of what is skipped."""
    sent, place = 1 - value(paper, "skipped"), value(paper, "chosen" if paper == CU else "prone")
    axes.plot([place], [sent], label="printed: sent", **style.PRINTED)
    if paper == CU:
        axes.plot([place], [value(CU, "true_skips")], label="printed: accepted", **style.PRINTED | {"marker": "s"})


CORRELATIONS = {"temperature perturbation": "correlation", "MC dropout": "dropout"}


def paint_baselines(numbers: Numbers, paper: str) -> Canvas:
    figure, (axes,) = style.canvas((style.COLUMN[0], 3.2))
    known = numbers["statistics"]["pearson_r"]
    for series, look in zip(numbers["series"], _MEASURES, strict=False):
        name, r = series["name"], known[series["name"]]
        told = f"{name}: r = {'undefined' if r is None else f'{r:.2f}'}"
        told += f", {CU} prints {value(CU, CORRELATIONS[name]):.2f}"
        style.draw_band(axes, series | {"name": told}, marker=".", markersize=3, **look)
    _draw_printed_line(axes, paper)
    style.name_axes(axes, numbers["axes"][0])
    axes.set(xlim=(-0.02, 1.02), ylim=(0, 1))
    figure.legend(loc="outside lower center")
    return figure


def _draw_printed_line(axes: Axes, paper: str) -> None:
    slope, intercept = value(paper, "slope"), value(paper, "intercept")
    fit = f" {slope:g}u − {-intercept:g}" + (f", R² {value(CU, 'r_squared'):.3f}" if paper == CU else "")
    axes.plot([0, 1], [intercept, slope + intercept], color="black", label=f"{paper} prints{fit}")


def _relation(axes: Axes, numbers: Numbers, series: list[dict[str, Any]], paper: str) -> None:
    means, *lines = series
    style.draw_band(
        axes, means | {"name": "means, 95% band"}, color=style.DARK, linestyle="none", marker=".", markersize=4
    )
    for line, (color, width, order) in zip(lines, (("0.75", 4, 1.5), (style.DARK, 1, 2)), strict=False):
        start, end = line["mean"]
        told = f"{line['name']}: {end - start:.3f}u {'−' if start < 0 else '+'} {abs(start):.3f}"
        style.draw_band(axes, line | {"name": told}, color=color, linewidth=width, zorder=order)
    _draw_printed_line(axes, paper)
    mark_thresholds(axes, numbers["statistics"]["bins"]["thresholds"], paper)
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.08, 1))


def paint_line(numbers: Numbers) -> Canvas:
    figure, (axes,) = style.canvas((style.COLUMN[0], 3.8))
    style.name_axes(axes, numbers["axes"][0])
    _relation(axes, numbers, numbers["series"], CU)
    style.legend_below(axes)
    return figure


def _bars(axes: Axes, series: dict[str, Any]) -> None:
    axes.bar(series["x"], series["mean"], width=0.035, color=style.LIGHT, edgecolor=style.DARK, label=series["name"])


def paint_density(numbers: Numbers) -> Canvas:
    figure, (axes,) = style.canvas((style.COLUMN[0], 3.3))
    share, density = numbers["series"]
    style.name_axes(axes, numbers["axes"][0])
    bars = share | {"mean": [20 * one for one in share["mean"]], "name": "share at each u, by the step 0.05"}
    _bars(axes, bars)
    style.draw_band(axes, density, color=style.DARK)
    mark_thresholds(axes, numbers["statistics"]["bins"]["thresholds"], CU)
    axes.set(xlim=(-0.04, 1.04), ylim=(0, None))
    style.legend_below(axes)
    return figure


def paint_both(numbers: Numbers) -> Canvas:
    figure, (left, right) = style.canvas((style.PAGE[0], 3.9), panels=2)
    share, *relation = numbers["series"]
    style.name_panels((left, right), numbers["axes"])
    _bars(left, share)
    mark_thresholds(left, numbers["statistics"]["bins"]["thresholds"], U)
    _relation(right, numbers, relation, U)
    known = dict(zip(*reversed(right.get_legend_handles_labels()), strict=True)) | {share["name"]: left.containers[0]}
    figure.legend(known.values(), known, loc="outside lower center", ncols=2, fontsize=style.SMALLEST)
    return figure


def paint_rates(numbers: Numbers, paper: str = CU) -> Canvas:
    figure, (axes,) = style.canvas((style.COLUMN[0], 3.5 if paper == CU else 2.8))
    for series, look in zip(numbers["series"], style.LOOKS, strict=False):
        style.draw_band(axes, _inside(series), drawstyle="steps-post", **look)
    mark_printed(axes, paper)
    style.name_axes(axes, numbers["axes"][0])
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def dots(axes: Axes, rows: Sequence[dict[str, dict[str, float | None]]], key: str, shift: float, **look: Any) -> None:
    """Draw a rate of each row as a point with its interval, one row below the other."""
    middle, low, high = (style.values([row[key][end] for row in rows]) for end in ("value", "low", "high"))
    places = np.arange(len(rows)) + shift
    ends = (np.nan_to_num(middle - low), np.nan_to_num(high - middle))
    axes.errorbar(middle, places, xerr=ends, linestyle="none", markersize=5, elinewidth=1.0, **look)


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.set(ylim=(max(len(names), 1) - 0.5, -0.5), xlim=(-0.02, 1.04))


def paint_methods(numbers: Numbers) -> Canvas:
    figure, (left, right) = style.canvas((style.PAGE[0], 2.8), panels=2)
    series = numbers["series"]
    names = iter(style.CURVES["rates"].items())
    key, name = next(names)
    dots(left, series, key, 0.0, color=style.DARK, marker="o")
    left.set_xlabel(name)
    sent = 1 - value(U, "skipped")
    left.axvline(sent, color="black", linestyle=(0, (1, 1.5)), linewidth=0.9, label="printed, U-HLM")
    left.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0))
    for (key, name), shift, look in zip(names, (-0.12, 0.12), (_OPEN, _FULL), strict=True):
        dots(right, series, key, shift, label=name, **look)
    right.set_xlabel("true skip rate")
    right.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0))
    if not series:
        left.text(0.5, 0.5, "no line rises: no threshold", ha="center", transform=left.transAxes)
    name_rows(left, [one["name"].replace(", ", ",\n") for one in series])
    name_rows(right, [""] * len(series))
    return figure


_FULL: dict[str, Any] = {"color": style.PALE, "marker": "D"}
_OPEN: dict[str, Any] = {"color": style.DARK, "marker": "s", "markerfacecolor": "white"}
