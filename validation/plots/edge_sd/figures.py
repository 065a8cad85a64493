"""Paint Figs. 6 to 9 of edge-sd (zhu2025edgesd): savings by drafting, batching and bandwidth shares."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from validation.plots.common import style
from validation.plots.common.ends import label_ends
from validation.plots.common.record import Numbers
from validation.plots.common.stored import stored
from validation.plots.common.style import DARK, GREY, MIDDLE, PAGE, PALE, PRINTED, Canvas, canvas, draw_band, name_axes
from validation.plots.edge_sd.numbers import NAMES

LOOKS: dict[str, dict[str, Any]] = {
    "paper": {"color": MIDDLE, "marker": "o", "markerfacecolor": "white", "linestyle": (0, (4, 2))},
    "proposed": {"color": MIDDLE, "marker": "o"},
    "free": {"color": DARK, "marker": "s"},
    "compared": {"color": "black", "marker": "d", "markerfacecolor": "white", "linestyle": (0, (1, 1.5))},
    "sequential": {"color": GREY, "marker": "v"},
    "none": {"color": GREY, "marker": "^", "linestyle": (0, (4, 2))},
    "fixed-length": {"color": GREY, "marker": "x", "linestyle": (0, (1, 1.5))},
    "autoregressive": {"color": "0.65", "marker": "P"},
    "static": {"color": GREY, "marker": "^", "linestyle": (0, (4, 2))},
    "max": {"color": GREY, "marker": "v"},
    "heuristic": {"color": "0.65", "marker": "P"},
}
OURS = ("paper", "proposed", "free", "compared")
"""Schemes of the first panel, with the baseline of the printed saving; the other baselines are in the second."""


def _draw_over_memory(axes: Any, series: dict[str, Any], broken: Sequence[bool], **look: Any) -> None:
    """Draw a curve whose marks are filled where the caches fit, and hollow where they break the memory."""
    draw_band(axes, series, **look | {"marker": ""})
    for hollow, face in ((False, look["color"]), (True, "white")):
        at = [place for place, over in enumerate(broken) if over == hollow]
        x, y = ([series[key][place] for place in at] for key in ("x", "mean"))
        axes.plot(x, y, look["marker"], color=look["color"], markerfacecolor=face, markersize=3.5)


def _mark_printed(axes: Any, numbers: Numbers) -> None:
    """Mark the printed saving; a bracket beside it is that of Algorithm 1 under (24b), where this is drawn."""
    curves = {one["scheme"]: one for one in numbers["series"]}
    if "printed" not in curves:
        return
    (at,), (saving, _, baseline) = curves["printed"]["x"], curves["printed"]["name"].partition(" below ")
    (mark,) = axes.plot(at, curves["printed"]["mean"], **PRINTED)
    if "paper" not in curves:
        axes.legend([mark], [f"{saving}\nbelow our {baseline}"], loc="lower right")
        return
    x, percent = curves["paper"]["x"], numbers["statistics"]["ours_percent"]["mean"]
    top, bottom = (curves[scheme]["mean"][x.index(at)] for scheme in ("compared", "paper"))
    beside, down = at + 0.03 * (x[-1] - x[0]), [[top - bottom], [0]]
    bracket = axes.errorbar(beside, top, down, fmt="none", ecolor="black", elinewidth=0.9, capsize=2.5)
    axes.legend([bracket, mark], [f"Algorithm 1, (24b): {percent:.1f}%\nbelow {baseline}", f"{saving} below it"])


def paint_schemes(numbers: Numbers, *, plans: bool) -> Canvas:
    """Paint plans beside the baselines, or in one panel ours and Algorithm 1 in waves among them."""
    figure, panels = canvas((PAGE[0] if plans else 4.6, 3.2), panels=1 + plans)
    ours, baselines = panels[0], panels[-1]
    limit, memory = (numbers["statistics"][key] for key in ("memory_limit_gb", "memory_gb"))
    broken = [gigabytes > limit for gigabytes in memory]
    curves = {one["scheme"]: one for one in numbers["series"] if one["scheme"] != "printed"}
    for scheme, one in curves.items():
        if scheme != "paper":
            draw_band(ours if scheme in OURS else baselines, one, **LOOKS[scheme])
        else:
            _draw_over_memory(ours, one, broken, **LOOKS[scheme])
    if plans:
        draw_band(baselines, curves["proposed"], **LOOKS["proposed"])
    _share_height(panels, numbers)
    for axes in panels:
        label_ends(axes, _IN_WAVES | ({NAMES["paper"]: f"{_MENDED}, breaks the memory"} if any(broken) else {}))
    _mark_printed(ours, numbers)
    return figure


def paint_pairs(numbers: Numbers) -> Canvas:
    pairs = sorted({one["pair"] for one in numbers["series"]})
    figure, panels = canvas((PAGE[0], 3.2), panels=len(pairs))
    limit, memory = (numbers["statistics"][key] for key in ("memory_limit_gb", "memory_gb"))
    for axes, pair in zip(panels, pairs, strict=True):
        for series in (one for one in numbers["series"] if one["pair"] == pair):
            title, _, name = series["name"].partition(": ")
            one = series | {"name": _IN_WAVES.get(name, name)}
            look = {"marker": ""} if series["scheme"] == "autoregressive" else {}
            if name == NAMES["paper"]:
                _draw_over_memory(axes, one, [each > limit for each in memory[pair]], **LOOKS["paper"])
            else:
                draw_band(axes, one, **LOOKS[series["scheme"]] | look)
        plans = {tuple(one["mean"]) for one in numbers["series"] if one["pair"] == pair and one["scheme"] in OURS}
        axes.set_title(f"models of {title}{': plans coincide' if len(plans) == 1 else ''}")
    hollow = {name: LOOKS["paper"][name] for name in ("color", "marker", "markerfacecolor")}
    panels[0].plot([], [], **hollow, linestyle="", markersize=3.5, label="hollow: breaks the memory")
    panels[0].fill_between([], [], color="0.85", linewidth=0, label="bands: 95% intervals")
    _share_height(panels, numbers)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


_IN_WAVES = {NAMES["proposed"]: "Algorithm 1, in waves that fit", NAMES["free"]: "ours, no barrier, in waves that fit"}
_IN_WAVES |= {NAMES["paper"]: (_MENDED := "Algorithm 1, (24b), misprints mended")}


def paint_shares(numbers: Numbers) -> Canvas:
    looks = LOOKS | {"equal": LOOKS["max"], "best": LOOKS["paper"], "waves": LOOKS["proposed"]}
    users = sorted({one["users"] for one in numbers["series"] if "users" in one})
    figure, panels = canvas((PAGE[0], 3.2), panels=len(users))
    shown: dict[int, list[dict[str, Any]]] = {}
    for axes, count in zip(panels, users, strict=True):
        axes.set_title(f"K = {count} tasks")
        shown[count] = _distinct(numbers, count)
        for series in shown[count]:
            draw_band(axes, series, **looks[series["scheme"]])
    _share_height(panels, numbers)
    for axes in panels:
        label_ends(axes)
    _mark_printed(panels[-1], numbers)  # the printed saving is of the most tasks
    return figure


def _distinct(numbers: Numbers, count: int) -> list[dict[str, Any]]:
    """Return the curves of a number of tasks with short names; those that coincide are the last of them."""
    found: dict[tuple[float, ...], dict[str, Any]] = {}
    for one in (one for one in numbers["series"] if one.get("users") == count):
        means = tuple(one["mean"])
        name = "best shares, by all plans" if means in found else style.CURVES["shares_drawn"][one["scheme"]]
        found[means] = one | {"name": name}
    return list(found.values())


def _share_height(panels: Sequence[Any], numbers: Numbers) -> None:
    highest = max(axes.get_ylim()[1] for axes in panels)
    for axes in panels:
        name_axes(axes, numbers["axes"][0])
        axes.set_ylim(0, highest)
    for axes in panels[1:]:
        axes.set_ylabel("")


def simulate_stages(seed: int) -> Numbers:
    """Return the stored times of Fig. 5; the seed is that of the measurement."""
    numbers, made_of = stored("forward_times")
    return {**numbers, **made_of}


def paint_stages(numbers: Numbers) -> Canvas:
    figure, (left, right) = canvas(PAGE, panels=2)
    last = numbers["series"][-1]  # the target model follows the draft model
    shades = (("0.65", "v"), (GREY, "^"), (PALE, "s"), (DARK, "o"))
    for tokens, (shade, mark) in zip(sorted(set(last["input_tokens"])), shades, strict=False):
        here = np.asarray(last["input_tokens"]) == tokens
        batch, mean, fitted = (np.asarray(last[key])[here] for key in ("batch_size", "mean", "fitted"))
        left.plot(batch, fitted, color=shade)
        left.plot(batch, mean, color=shade, linestyle="", marker=mark, markersize=4, label=f"{tokens} tokens")
    left.set_title(f"{last['name']}: measured, and c₁Fb + c₂ (lines)")
    for series, shade, mark in zip(numbers["series"], (PALE, DARK, "0.65", GREY), ("s", "o", "v", "^"), strict=False):
        order = np.argsort(series["x"])
        x, fitted = (np.asarray(series[key])[order] for key in ("x", "fitted"))
        right.plot(x, np.where(fitted > 0, fitted, np.nan), color=shade)
        right.plot(
            series["x"], series["mean"], color=shade, linestyle="", marker=mark, markersize=4, label=series["name"]
        )
    for axes, names in zip((left, right), numbers["axes"], strict=True):
        name_axes(axes, names)
        axes.legend(loc="upper left")
    return figure
