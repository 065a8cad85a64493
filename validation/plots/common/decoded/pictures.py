"""Paint figures of decoded texts: cu-hlm (oh2025cuhlm) V and u-hlm (oh2024uhlm) IV."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from validation.decoding.methods.registry import info_of
from validation.plots.common.decoded.numbers import METRICS, RIGHT
from validation.plots.common.names import name_points
from validation.plots.common.record import Numbers
from validation.plots.common.skipping.printed import CU, U, value
from validation.plots.common.style import (
    DARK,
    LIGHT,
    MIDDLE,
    PAGE,
    canvas,
    groups,
    name_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

_GREY = "0.45"
_WORDS = {"median": "median over texts", "total": "ratio of totals", "round_mean": "mean over rounds, cu-hlm (6)"}


def _look(method: str) -> dict[str, Any]:
    """Return the style that the method's registration declares."""
    return info_of(method).style.options()


def _values(row: list[float | None]) -> Any:
    """Return numbers to draw, with NaN for null."""
    return np.array(row, dtype=np.float64)


def _draw(axes: Axes, series: dict[str, Any], **look: Any) -> None:
    """Draw a curve with its 95% interval."""
    low, high = _values(series["low"]), _values(series["high"])
    axes.fill_between(series["x"], low, high, color=look["color"], alpha=0.18, linewidth=0)
    axes.plot(series["x"], _values(series["mean"]), label=series["name"], **({"markersize": 3} | look))


def _hold_zeros(axes: Axes, names: Sequence[str], values: Sequence[float | None], below: float = 0.02) -> None:
    """Give an axis of shares that are all 0 the range of shares, and room below 0 for what is written there."""
    if set(names) == {RIGHT} and not any(values):
        axes.set(ylim=(-below, 1.02), yticks=np.linspace(0.0, 1.0, 6))


def _cross(axes: Axes, x: dict[str, Any], y: dict[str, Any], look: dict[str, Any]) -> None:
    """Draw a point with horizontal and vertical intervals."""
    at = [_values([one[end] for end in ("value", "low", "high")]) for one in (x, y)]
    errors = [[[one[0] - one[1]], [one[2] - one[0]]] for one in at]
    size = 9 if look["marker"] == "*" else 5
    axes.errorbar(
        [at[0][0]],
        [at[1][0]],
        xerr=errors[0],
        yerr=errors[1],
        color=look["color"],
        marker=look["marker"],
        markersize=size,
        elinewidth=0.8,
        linestyle="none",
    )


def paint_both(numbers: Numbers) -> Canvas:
    """Paint accuracy against throughput: a panel for each accuracy metric, each method's name beside its point."""
    names = numbers["statistics"]["accuracies"]
    figure, panels = canvas((PAGE[0], 3.6), panels=max(1, len(names)))
    for axes, name, both in zip(panels, names or [None], numbers["axes"], strict=True):
        points, bars = [], []
        for one in numbers["series"]:
            x, y = one["throughput"]["median"], one["perplexity"] if name is None else one["accuracy"][name]
            _cross(axes, x, y, _look(one["name"]))
            if None not in (x["value"], y["value"]):
                points.append((x["value"], y["value"], one["name"]))
                bars.append([(x["value"], end) for end in (y["low"], y["high"]) if end is not None])
                bars.append([(end, y["value"]) for end in (x["low"], x["high"]) if end is not None])
        name_axes(axes, both)
        if name is not None:
            axes.set_title(METRICS[name], fontsize=7)
        axes.margins(0.12)
        if name is not None:
            _hold_zeros(axes, [name], [one["accuracy"][name]["high"] for one in numbers["series"]], below=0.3)
        name_points(axes, points, size=5.5, avoid=bars)
    return figure


_ABOVE: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": 2, "fontsize": 5.5}
"""Legend position that covers no curve."""
_RATES: dict[str, dict[str, Any]] = {
    "transmission": {"color": DARK},
    "accepted_if_skipped": {"color": MIDDLE, "linestyle": (0, (4, 2))},
    "skipped_if_accepted": {"color": _GREY, "linestyle": (0, (1, 1.5))},
    "similarity_reference": {"color": DARK},
    "similarity_large": {"color": MIDDLE, "linestyle": (0, (4, 2))},
    "right": {"color": _GREY, "linestyle": (0, (1, 1.5))},
    "formula": {"color": DARK},
    "encoded": {"color": MIDDLE, "linestyle": (0, (4, 2))},
}


def _mark(axes: Axes, numbers: Numbers, paper: str) -> None:
    """Mark our threshold and the paper's."""
    theirs = [value(paper, name) for name in ("averse", "prone")]
    for name, places, color, form in (
        ("thresholds, ours", numbers["statistics"]["thresholds"], DARK, (0, (4, 2))),
        (f"thresholds, {paper}", theirs, MIDDLE, (0, (1, 1.5))),
    ):
        inside = [place for place in places if 0 <= place <= 1]
        for number, place in enumerate(inside):
            axes.axvline(place, color=color, linestyle=form, linewidth=0.9, label=None if number else name)


def _panels(numbers: Numbers, left: tuple[str, ...], right: tuple[str, ...]) -> tuple[Canvas, list[Axes]]:
    """Return a figure with the named series in two panels."""
    figure, panels = canvas((PAGE[0], 3.2), panels=2)
    for axes, kinds, both in zip(panels, (left, right), numbers["axes"], strict=True):
        there = [one for one in numbers["series"] if one["kind"] in kinds]
        for one in there:
            _draw(axes, one, marker=".", **_RATES[one["kind"]])
        if not there:
            axes.text(0.5, 0.5, "no text was scored", ha="center", transform=axes.transAxes)
        name_axes(axes, both)
        _hold_zeros(axes, [one["kind"] for one in there], [high for one in there for high in one["high"]])
    return figure, panels


def paint_thresholds(numbers: Numbers, paper: str) -> Canvas:
    """Paint rates over the threshold on the left, accuracy on the right."""
    rate = "accepted_if_skipped" if paper == CU else "skipped_if_accepted"
    figure, (left, right) = _panels(numbers, ("transmission", rate), tuple(METRICS))
    for axes in (left, right):
        _mark(axes, numbers, paper)
        axes.set_xlim(-0.02, 1.02)
    left.set_ylim(-0.02, 1.02)
    for axes in (left, right):
        axes.legend(**_ABOVE)
    return figure


def paint_sizes(numbers: Numbers) -> Canvas:
    """Paint accuracy over k on the left, bits by the formula and as encoded on the right."""
    figure, (left, right) = _panels(numbers, tuple(METRICS), ("formula", "encoded"))
    for axes in (left, right):
        axes.axvline(numbers["statistics"]["offline_k"], color=_GREY, linewidth=0.9, label="k* of this pair")
        axes.legend(**_ABOVE)
    return figure


def _curves(axes: Axes, numbers: Numbers, word: str, names: Sequence[str]) -> None:
    """Draw the curves of a panel; each marks different points, so that curves that coincide are all visible."""
    shown = [one for one in numbers["series"] if one["word"] == word and one["name"] in names]
    for number, one in enumerate(shown):
        _draw(axes, one, **(_look(one["name"]) | {"markevery": (number % 3, 3)}))


def _methods(numbers: Numbers) -> list[list[str]]:
    """Return the methods of each panel."""
    return groups(list(dict.fromkeys(one["name"] for one in numbers["series"])))


def _hold(panels: Sequence[Axes], numbers: Numbers, words: Sequence[str]) -> None:
    """Give panels one height that holds all curves; intervals of a slow link that reach 0 are cut."""
    means = [_values(one["mean"]) for one in numbers["series"] if one["word"] in words]
    drawn = np.concatenate(means) if means else np.ones(1)
    drawn = drawn[np.isfinite(drawn) & (drawn > 0)]
    if drawn.size:
        for axes in panels:
            axes.set_ylim(drawn.min() / 1.6, drawn.max() * 1.6)


def paint_speeds(numbers: Numbers) -> Canvas:
    """Paint throughput over the SNR: a column for each way to average, a row for each group of methods."""
    rows = _methods(numbers)
    figure, panels = canvas((PAGE[0], 0.4 + 2.6 * len(rows)), panels=len(_WORDS), rows=len(rows))
    for number, names in enumerate(rows):
        row = panels[len(_WORDS) * number : len(_WORDS) * (number + 1)]
        for axes, (word, title), both in zip(row, _WORDS.items(), numbers["axes"], strict=True):
            _curves(axes, numbers, word, names)
            name_axes(axes, both)
            if number == 0:
                axes.set_title(title, fontsize=7)
        for axes in row[1:]:
            axes.set_ylabel("")
        for axes in row if number < len(rows) - 1 else ():
            axes.set_xlabel("")
    _hold(panels, numbers, tuple(_WORDS))
    handles = [axes.get_legend_handles_labels() for axes in panels[:: len(_WORDS)]]
    shown = [[one for pair in handles for one in pair[side]] for side in (0, 1)]
    figure.legend(*shown, loc="outside upper center", ncols=5, fontsize=6)
    return figure


def paint_methods(numbers: Numbers) -> Canvas:
    """Paint the rates of each method on the left, throughput over the SNR on the right."""
    from matplotlib.figure import Figure

    rows = _methods(numbers)
    figure = Figure(figsize=(PAGE[0], max(3.6, 0.6 + 2.2 * len(rows))), layout="constrained")
    sides = figure.add_gridspec(len(rows), 2)
    left = figure.add_subplot(sides[:, 0])
    right = [figure.add_subplot(sides[number, 1]) for number in range(len(rows))]
    names = {"transmission": "TR", "skipped_if_accepted": "TSR, P(skipped | accepted)"}
    names["accepted_if_skipped"] = "cu-hlm's, P(accepted | skipped)"
    bars = numbers["bars"]
    for number, ((key, name), color) in enumerate(zip(names.items(), (DARK, MIDDLE, LIGHT), strict=True)):
        places = np.arange(len(bars)) + 0.26 * (number - 1)
        middle, low, high = (_values([one[key][end] for one in bars]) for end in ("value", "low", "high"))
        left.barh(places, middle, height=0.24, color=color, label=name)
        left.errorbar(middle, places, xerr=(middle - low, high - middle), fmt="none", ecolor="black", elinewidth=0.7)
    left.axvline(
        1 - value(U, "skipped"), color=DARK, linestyle=(0, (1, 1.5)), linewidth=0.9, label="TR from the printed skips"
    )
    left.set_yticks(range(len(bars)), [one["name"].replace(" (", "\n(") for one in bars], fontsize=6)
    left.invert_yaxis()
    left.set(xlim=(0, 1.02), xlabel=numbers["axes"][0]["x"]["label"])
    left.legend(**_ABOVE)
    for axes, methods in zip(right, rows, strict=True):
        _curves(axes, numbers, "median", methods)
        axes.axvline(numbers["statistics"]["link_snr_db"], color=_GREY, linewidth=0.9)
        name_axes(axes, numbers["axes"][1])
        axes.yaxis.label.set_fontsize(6)
        axes.legend(loc="lower right", fontsize=5.5)
    for axes in right[:-1]:
        axes.set_xlabel("")
    _hold(right, numbers, ("median",))
    return figure
