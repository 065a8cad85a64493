"""Paint figures of decoded texts: cu-hlm (oh2025cuhlm) V and u-hlm (oh2024uhlm) IV."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from validation.decoding.methods.catalogue import info_of
from validation.decoding.trace_drafts import DRAWS
from validation.plots.common import style
from validation.plots.common.decoded.numbers import ACCURACIES, METRICS, RIGHT
from validation.plots.common.ends import MARKS, label_ends, name_points
from validation.plots.common.printed import CU, U, value
from validation.plots.common.record import Numbers
from validation.plots.common.skipping.pictures import dots, mark_printed, mark_thresholds, name_rows
from validation.plots.common.style import Axes, Canvas

SPEED_PANELS = {"median": "median over texts", "total": "ratio of totals"}
"""Averages of the two panels, and their titles."""


def _look(method: str) -> dict[str, Any]:
    return info_of(method).style.options()


def _cross(axes: Axes, x: dict[str, Any], y: dict[str, Any], look: dict[str, Any]) -> None:
    at = [style.values([one[end] for end in ("value", "low", "high")]) for one in (x, y)]
    errors = [[[one[0] - one[1]], [one[2] - one[0]]] for one in at]
    shown = {"color": look["color"], "marker": look["marker"], "markersize": 5, "markerfacecolor": "none"}
    shown |= {"markersize": 9, "markerfacecolor": look["color"]} if look["marker"] == "*" else {}
    axes.errorbar(*([one[0]] for one in at), *errors[::-1], elinewidth=0.8, linestyle="none", **shown)


def paint_both(numbers: Numbers) -> Canvas:
    shown, told = _drawn(numbers, SHOWN), dict(zip(numbers["statistics"]["accuracies"], numbers["axes"], strict=False))
    for name in [name for name in told if not any(one["accuracy"][name]["value"] for one in numbers["series"])]:
        del told[name]  # nothing is right, which shows nothing
    told = told or {
        None: {"x": numbers["axes"][0]["x"], "y": style.axis("perplexity under the target model", scale="log")}
    }
    figure, panels = style.canvas((style.PAGE[0], 3.4), panels=len(told))
    for axes, (name, both) in zip(panels, told.items(), strict=True):
        points = []
        for one in (one for one in numbers["series"] if one["name"] in shown):
            x, y = one["throughput"]["median"], one["perplexity"] if name is None else one["accuracy"][name]
            look = _look(one["name"])
            _cross(axes, x, y, look)
            if None not in (x["value"], y["value"]):
                points.append((x["value"], y["value"], MARKS[look["marker"]] + shown[one["name"]], look["color"]))
        style.name_axes(axes, both)
        if name is not None:
            axes.set_title(METRICS[name])
        axes.margins(0.12)
        name_points(axes, points)
    return figure


_ABOVE: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": 2, "fontsize": style.SMALLEST}
"""Legend position that covers no curve."""
_RATES = dict(zip(("transmission", "accepted_if_skipped", "skipped_if_accepted"), style.LOOKS, strict=True))
_RATES |= zip((*ACCURACIES, RIGHT), style.LOOKS, strict=True)
_RATES |= zip(("formula", "encoded"), style.LOOKS, strict=False)
_ENDS = style.CURVES["ends"]
"""Names at the ends of the curves; the label of the axis says the rest, and the legend what is printed."""


def _draw_levels(axes: Axes, series: dict[str, Any], *, color: str, **_: Any) -> None:
    """Draw each value at its threshold, with its interval."""
    x, (middle, low, high) = np.array(series["x"]), (style.values(series[key]) for key in ("mean", "low", "high"))
    x = x + 0.4 / DRAWS * (color == style.PALE)  # beside another series
    axes.errorbar(x, middle, (middle - low, high - middle), fmt=".", color=color, label=series["name"], elinewidth=0.8)


def _panels(
    numbers: Numbers, left: tuple[str, ...], right: tuple[str, ...], draw: Callable[..., None] = style.draw_band
) -> tuple[Canvas, list[Axes]]:
    """Draw a panel for each set of kinds; leave out that of scores if no text was scored, or none is right."""
    drawn = []
    for kinds, both in zip((left, right), numbers["axes"], strict=True):
        there = [one for one in numbers["series"] if one["kind"] in kinds and any(one["mean"])]
        if there or kinds != tuple(METRICS):
            drawn.append((there, both))
    figure, panels = style.canvas((style.PAGE[0] if len(drawn) > 1 else 4.6, 3.2), panels=len(drawn))
    for axes, (there, both) in zip(panels, drawn, strict=True):
        for one in there:
            draw(axes, one, marker=".", **_RATES[one["kind"]])
        style.name_axes(axes, both)
        if all(mean is None for one in there for mean in one["mean"]):  # a logarithm needs data
            axes.set(xscale="linear", yscale="linear")
    return figure, panels


def paint_thresholds(numbers: Numbers, paper: str) -> Canvas:
    rate = "accepted_if_skipped" if paper == CU else "skipped_if_accepted"
    figure, panels = _panels(numbers, ("transmission", rate), tuple(METRICS), _draw_levels)
    for axes in panels:
        mark_thresholds(axes, numbers["statistics"]["thresholds"], paper)
        axes.set_xlim(-0.02, 1.04)
    panels[0].set_ylim(-0.02, 1.02)
    mark_printed(panels[0], paper)
    known = [line for line in panels[0].get_lines() if str(line.get_label()).startswith(("thresholds", "printed"))]
    figure.legend(handles=known, loc="outside lower center", ncols=2, fontsize=style.SMALLEST)
    for axes in panels:
        label_ends(axes, _ENDS)
    return figure


def paint_sizes(numbers: Numbers) -> Canvas:
    figure, panels = _panels(numbers, tuple(METRICS), ("formula", "encoded"))
    for axes in panels:
        own = axes.axvline(numbers["statistics"]["offline_k"], color=style.GREY, linewidth=0.9, label="k* of this pair")
        printed = axes.axvline(value(CU, "offline_k"), color="black", linestyle=(0, (1, 1.5)), label="k* printed")
        label_ends(axes, _ENDS)
    figure.legend(handles=[own, printed], loc="outside lower center", ncols=2, fontsize=style.SMALLEST)
    return figure


def _curves(axes: Axes, numbers: Numbers, word: str, names: Sequence[str]) -> None:
    """Draw the curves of a panel; each marks different points, so that curves that coincide are all visible."""
    shown = [one for one in numbers["series"] if one["word"] == word and one["name"] in names]
    for number, one in enumerate(shown):
        style.draw_band(axes, one, **_look(one["name"]), markevery=(number % 3, 3), markersize=5)


def _hold(panels: Sequence[Axes], numbers: Numbers, words: Sequence[str]) -> None:
    """Give panels one height that holds all curves; intervals of a slow link that reach 0 are cut."""
    means = [style.values(one["mean"]) for one in numbers["series"] if one["word"] in words]
    drawn = np.concatenate(means) if means else np.ones(1)
    drawn = drawn[np.isfinite(drawn) & (drawn > 0)]
    if drawn.size:
        for axes in panels:
            axes.set_ylim(drawn.min() / 1.6, drawn.max() * 1.6)


def _drawn(numbers: Numbers, shown: Mapping[str, str]) -> dict[str, str]:
    names = dict.fromkeys(one["name"] for one in numbers["series"])
    bits = numbers["statistics"].get("bits_a_value", 32)
    return {name: shown[info_of(name).name].format(bits=bits) for name in names if info_of(name).name in shown}


SHOWN, SHOWN_OF_U_HLM = style.CURVES["methods"], style.CURVES["methods_of_u_hlm"]
"""Methods of the pictures, by registered name, and their names there; the numbers hold all methods."""
_ALONE = ("small only", "large only")
"""Methods without a link: their speed is a level, the same at every SNR."""


def paint_speeds(numbers: Numbers, gains: Sequence[str] = ()) -> Canvas:
    names = _drawn(numbers, SHOWN)
    figure, panels = style.canvas((style.PAGE[0], 3.2), panels=len(SPEED_PANELS))
    for axes, word, both in zip(panels, SPEED_PANELS, numbers["axes"], strict=False):
        curves = [one for one in numbers["series"] if one["word"] == word and one["name"] in names]
        for one in curves:
            if info_of(one["name"]).name in _ALONE:
                axes.axhline(one["mean"][0], color=style.GREY, linestyle=(0, (4, 2)), linewidth=0.9, label=one["name"])
        _curves(axes, numbers, word, [name for name in names if info_of(name).name not in _ALONE])
        style.name_axes(axes, both)
        axes.set_title(SPEED_PANELS[word])
        axes.set_xlim(min(curves[0]["x"], default=0) - 1, max(curves[0]["x"], default=1)) if curves else None
    _hold(panels, numbers, tuple(SPEED_PANELS))
    for axes, word in zip(panels, SPEED_PANELS, strict=True):
        if gains and numbers["statistics"]["gains_at_snr_db"] == SNR_OF_GAINS:
            _mark_gains(axes, numbers, word, SNR_OF_GAINS, gains)
        label_ends(axes, names, order=list(names))
    return figure


SNR_OF_GAINS = -20
"""Where cu-hlm prints gains, in dB."""


def _mark_gains(axes: Axes, numbers: Numbers, word: str, snr_db: float, gains: Sequence[str]) -> None:
    """Mark printed throughputs, each a multiple of HLM's, at the SNR that is nearest to the printed one."""
    for one in (one for one in numbers["series"] if (one["name"], one["word"]) == ("HLM", word)):
        at = int(np.argmin(np.abs(np.array(one["x"]) - snr_db)))
        speeds = [value(CU, gain) * (one["mean"][at] or np.nan) for gain in gains]
        (marks,) = axes.plot([one["x"][at]] * len(speeds), speeds, clip_on=False, label="_", **style.PRINTED)
        axes.set_ylim(top=max([axes.get_ylim()[1], *(1.6 * speed for speed in speeds if speed > 0)]))
        times = ", ".join(f"HLM × {value(CU, one):,.4g} ({one.split('_')[0]})" for one in gains)
        style.legend_below(axes, handles=[marks], labels=[f"printed: {times}"])


def paint_methods(numbers: Numbers) -> Canvas:
    figure, (left, right) = style.canvas((style.PAGE[0], 3.6), panels=2)
    bars, names = numbers["bars"], _drawn(numbers, SHOWN_OF_U_HLM)
    places = ((-0.2, style.DARK, "o", style.DARK), (0.0, style.PALE, "^", "white"), (0.2, style.GREY, "s", "white"))
    for (key, name), (shift, color, mark, face) in zip(style.CURVES["skips"].items(), places, strict=True):
        dots(left, bars, key, shift, label=name, color=color, marker=mark, markerfacecolor=face)
    sent = 1 - value(U, "skipped")
    left.axvline(sent, color="black", linestyle=(0, (1, 1.5)), linewidth=0.9, label="TR, printed for U-HLM")
    name_rows(left, [names.get(one["name"], one["name"]).replace(", ", ",\n").replace(" (", "\n(") for one in bars])
    left.set_xlabel(numbers["axes"][0]["x"]["label"])
    left.legend(**_ABOVE)
    _curves(right, numbers, "median", list(names))
    style.name_axes(right, numbers["axes"][1])
    _hold([right], numbers, ("median",))
    right.axvline(numbers["statistics"]["link_snr_db"], color=style.GREY, linewidth=0.9)
    for one in (one for one in numbers["series"] if (one["name"], one["word"]) == ("HLM", "median")):
        gain, look = value(U, "u_gain"), {"color": "black", "linewidth": 0.9, **style.DOTTED}
        lines = right.plot(one["x"], gain * style.values(one["mean"]), label="_", **look)
        style.legend_below(right, handles=lines, labels=[f"printed: HLM × {gain:g}, at an SNR that is not printed"])
    right.set_title("line: the paper's link")
    label_ends(right, names, order=list(names))
    return figure
