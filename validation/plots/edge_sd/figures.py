"""Paint Figs. 6 to 9 of edge-sd (zhu2025edgesd): savings by drafting, batching and bandwidth shares."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from validation.plots.common import style
from validation.plots.common.ends import label_ends
from validation.plots.common.record import Numbers
from validation.plots.common.stored import stored
from validation.plots.common.style import DARK, GREY, MIDDLE, PAGE, PALE, PRINTED, Canvas, canvas, draw_band

LOOKS: dict[str, dict[str, Any]] = {
    "paper": {"color": MIDDLE, "marker": "o", "markerfacecolor": "white", "linestyle": (0, (4, 2))},
    "proposed": {"color": MIDDLE, "marker": "o"},
    "free": {"color": DARK, "marker": "s"},
    "compared": {"color": "black", "marker": ".", "linestyle": (0, (1, 1.5))},
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


def _draw(axes: Any, series: dict[str, Any], broken: Sequence[bool], look: dict[str, Any]) -> None:
    """Draw a curve; Algorithm 1 under (24b) has hollow marks where the caches break the memory."""
    if series["scheme"] != "paper":
        return draw_band(axes, series, **look)
    draw_band(axes, series, **look | {"marker": ""})
    for hollow, face in ((False, look["color"]), (True, "white")):
        at = [place for place, over in enumerate(broken) if over == hollow]
        x, y = ([series[key][place] for place in at] for key in ("x", "mean"))
        axes.plot(x, y, look["marker"], color=look["color"], markerfacecolor=face, markersize=3.5)


def _mark_printed(axes: Any, numbers: Numbers, compared: str, saving: str) -> None:
    """Bracket the curves of a saving where the paper prints one, and mark the printed one."""
    curves = {one["scheme"]: one for one in numbers["series"]}
    if "printed" not in curves:
        return
    (at,), (printed, _, baseline) = curves["printed"]["x"], curves["printed"]["name"].partition(" below ")
    (mark,) = axes.plot(at, curves["printed"]["mean"], **PRINTED)
    x, percent = curves[saving]["x"], numbers["statistics"]["ours_percent"]["mean"]
    top, bottom = (curves[scheme]["mean"][x.index(at)] for scheme in (compared, saving))
    beside, down = at + 0.03 * (x[-1] - x[0]), [[top - bottom], [0]]
    bracket = axes.errorbar(beside, top, down, fmt="none", ecolor="black", elinewidth=0.9, capsize=2.5)
    ours = f"under (24b): {percent:.1f}%\nbelow {baseline.removesuffix(', (24b)')}"
    axes.legend([bracket, mark], [ours, f"{printed} below it"])


def _tell_memory(figure: Canvas, axes: Any, *, curves: bool = False, hollow: bool = True, waves: bool = True) -> None:
    look = {name: LOOKS["paper"][name] for name in ("color", "marker", "markerfacecolor")} | {"markersize": 3.5}
    marks = axes.plot([], [], label="hollow: all that run at once do not fit", linestyle="", **look) if hollow else []
    handles = axes.get_legend_handles_labels()[0] if curves else marks
    rules = "(24b), the paper's memory limit: each batch alone fits"
    rules += "; waves: all batches that run at once fit" * waves
    band = axes.plot([], [], color="0.85", linewidth=6)
    names = [*(str(one.get_label()) for one in handles), "bands: 95% intervals"]
    figure.legend([*handles, *band], names, title=rules, loc="outside lower center", ncols=3)


def paint_schemes(numbers: Numbers) -> Canvas:
    """Paint plans beside the baselines, which serve in waves."""
    figure, (ours, baselines) = canvas((PAGE[0], 3.2), panels=2)
    limit, memory = (numbers["statistics"][key] for key in ("memory_limit_gb", "memory_gb"))
    broken = [gigabytes > limit for gigabytes in memory]
    for one in (one for one in numbers["series"] if one["scheme"] != "printed"):
        _draw(ours if one["scheme"] in OURS else baselines, one, broken, LOOKS[one["scheme"]])
        if one["scheme"] == "proposed":
            _draw(baselines, one, broken, LOOKS["proposed"])
    ours.set_title("plans")
    baselines.set_title("baselines, in waves")
    _share_height((ours, baselines), numbers)
    _tell_memory(figure, ours)
    _mark_printed(ours, numbers, "compared", "paper")
    for axes in (ours, baselines):
        label_ends(axes, wrap=25)
    return figure


def paint_pairs(numbers: Numbers) -> Canvas:
    pairs = sorted({one["pair"] for one in numbers["series"]})
    figure, panels = canvas((PAGE[0], 3.2), panels=len(pairs))
    limit, memory = (numbers["statistics"][key] for key in ("memory_limit_gb", "memory_gb"))
    for axes, pair in zip(panels, pairs, strict=True):
        for series in (one for one in numbers["series"] if one["pair"] == pair):
            title, _, name = series["name"].partition(": ")
            look = LOOKS[series["scheme"]] | ({"marker": ""} if series["scheme"] == "autoregressive" else {})
            _draw(axes, series | {"name": name}, [each > limit for each in memory[pair]], look)
        plans = {tuple(one["mean"]) for one in numbers["series"] if one["pair"] == pair and one["scheme"] in OURS}
        axes.set_title(f"models of {title}{': plans coincide' if len(plans) == 1 else ''}")
    _share_height(panels, numbers)
    _tell_memory(figure, panels[0], curves=True)
    return figure


def paint_shares(numbers: Numbers) -> Canvas:
    looks = LOOKS | {
        "equal": LOOKS["max"],
        "best": LOOKS["paper"] | {"markerfacecolor": MIDDLE},
        "waves": LOOKS["proposed"],
    }
    users = sorted({one["users"] for one in numbers["series"] if "users" in one})
    figure, panels = canvas((PAGE[0], 3.2), panels=len(users))
    for axes, count in zip(panels, users, strict=True):
        axes.set_title(f"K = {count} tasks")
        for series in _distinct(numbers, count):
            draw_band(axes, series, **looks[series["scheme"]])
    _share_height(panels, numbers)
    _tell_memory(figure, panels[0], hollow=False, waves=len(_distinct(numbers, users[-1])) > 2)
    _mark_printed(panels[-1], numbers, "equal", "best")  # the printed saving is of the most tasks
    for axes in panels:
        label_ends(axes, wrap=25)
    return figure


def _distinct(numbers: Numbers, count: int) -> list[dict[str, Any]]:
    """Return the curves of a number of tasks with short names; those that coincide are the last of them."""
    found: dict[tuple[float, ...], dict[str, Any]] = {}
    for one in (one for one in numbers["series"] if one.get("users") == count):
        means = tuple(one["mean"])
        name = "best shares (all plans coincide)" if means in found else one["name"].partition(": ")[2]
        found[means] = one | {"name": name}
    return list(found.values())


def _share_height(panels: Sequence[Any], numbers: Numbers) -> None:
    highest = max(axes.get_ylim()[1] for axes in panels)
    style.name_panels(panels, numbers["axes"] * len(panels))
    for axes in panels:
        axes.set_ylim(0, highest)


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
    style.name_panels((left, right), numbers["axes"])
    for axes in (left, right):
        axes.legend(loc="upper left")
    return figure
