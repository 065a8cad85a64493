"""Define the figures of edge-sd (zhu2025edgesd), Section IV and Fig. 5: savings by drafting, batching and shares."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from validation.plots.common.ends import label_ends
from validation.plots.common.names import name_points
from validation.plots.common.record import Numbers, Simulation, Tag
from validation.plots.common.style import DARK, MIDDLE, PAGE, canvas, name_axes
from validation.plots.edge_sd.beside import beside_words, percent, saving_message
from validation.plots.edge_sd.numbers import (
    IN_FIG_7,
    IN_FIG_8,
    NAMES,
    simulate_acceptance,
    simulate_bandwidth,
    simulate_sweep,
)
from validation.plots.edge_sd.printed import PAIR_NAMES, PRINTED
from validation.plots.edge_sd.stages import caption_stages, message_stages, paint_stages, simulate_stages

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

LOOKS: dict[str, dict[str, Any]] = {
    "paper": {"color": DARK, "marker": "o", "markerfacecolor": "white", "linestyle": (0, (4, 2))},
    "proposed": {"color": DARK, "marker": "o"},
    "free": {"color": MIDDLE, "marker": "D"},
    "sequential": {"color": "0.35", "marker": "v"},
    "none": {"color": "0.35", "marker": "^", "linestyle": (0, (4, 2))},
    "fixed-length": {"color": "0.35", "marker": "x", "linestyle": (0, (1, 1.5))},
    "autoregressive": {"color": "0.6", "marker": "P"},
    "static": {"color": "0.35", "marker": "^", "linestyle": (0, (4, 2))},
    "max": {"color": "0.35", "marker": "v"},
    "heuristic": {"color": "0.6", "marker": "P"},
}
OURS = ("paper", "proposed", "free")
"""Schemes of the first panel; the baselines are in the second."""
BREAKS = "Algorithm 1, (24b), breaks the memory"
ALL_BEST = "best shares, by all plans"
_MARK: dict[str, Any] = {"color": "black", "marker": "*", "markersize": 8, "linestyle": "", "zorder": 5}
"""Marker of a printed saving."""

_PAPER: dict[str, Any] = {"paper": "edge-sd", "source": "zhu2025edgesd"}


# -------------------------------------------------------------------------------------------------- pictures


def _draw(axes: Any, series: dict[str, Any], **look: Any) -> None:
    axes.fill_between(series["x"], series["low"], series["high"], color=look["color"], alpha=0.15, linewidth=0)
    axes.plot(series["x"], series["mean"], label=series["name"], **({"markersize": 3.5} | look))


def _draw_over_memory(axes: Any, series: dict[str, Any], broken: Sequence[bool], **look: Any) -> None:
    """Draw a curve whose marks are filled where the caches fit, and hollow where they break the memory."""
    _draw(axes, series, **look | {"marker": ""})
    for hollow, face in ((False, look["color"]), (True, "white")):
        at = [place for place, over in enumerate(broken) if over == hollow]
        x, y = ([series[key][place] for place in at] for key in ("x", "mean"))
        axes.plot(x, y, look["marker"], color=look["color"], markerfacecolor=face, markersize=3.5)


def _mark_printed(axes: Any, printed: Sequence[dict[str, Any]], curves: Sequence[dict[str, Any]]) -> None:
    """Mark a printed saving with a star, and its name beside it; needs the limits."""
    for one in printed:
        axes.plot(one["x"], one["mean"], **_MARK)
        avoid = [list(zip(curve["x"], curve["mean"], strict=True)) for curve in curves]
        name_points(axes, [(one["x"][0], one["mean"][0], "printed")], avoid=avoid)


def _paint_schemes(numbers: Numbers) -> Canvas:
    """Paint Algorithm 1 and ours on the left, the baselines beside Algorithm 1 on the right."""
    figure, (ours, baselines) = canvas((PAGE[0], 3.2), panels=2)
    limit, memory = (numbers["statistics"][key] for key in ("memory_limit_gb", "memory_gb"))
    broken = [gigabytes > limit for gigabytes in memory["paper"]]
    curves = {one["scheme"]: one for one in numbers["series"] if one["panel"] == 0 and one["scheme"] != "printed"}
    for scheme, one in curves.items():
        if scheme == "paper":
            _draw_over_memory(ours, one, broken, **LOOKS[scheme])
        else:
            _draw(ours if scheme in OURS else baselines, one, **LOOKS[scheme])
    _draw(baselines, curves["proposed"], **LOOKS["proposed"])
    highest = max(ours.get_ylim()[1], baselines.get_ylim()[1])
    for axes in (ours, baselines):
        name_axes(axes, numbers["axes"][0])
        axes.set_ylim(0, highest)
    baselines.set_ylabel("")
    for axes in (ours, baselines):
        label_ends(axes, _told(any(broken)))
    printed = [one for one in numbers["series"] if one["scheme"] == "printed"]
    _mark_printed(ours, printed, [curves[scheme] for scheme in OURS])
    return figure


def _paint_pairs(numbers: Numbers) -> Canvas:
    """Paint the smallest and the largest pair of models; numbers of an earlier run have no memory and no waves."""
    pairs = sorted({one["pair"] for one in numbers["series"]})
    figure, panels = canvas((PAGE[0], 3.2), panels=2)
    limit, memory = (numbers["statistics"].get(key) for key in ("memory_limit_gb", "memory_gb"))
    names: list[dict[str, str]] = []
    for axes, pair in zip(panels, (pairs[0], pairs[-1]), strict=True):
        for series in (one for one in numbers["series"] if one["pair"] == pair):
            title, _, name = series["name"].partition(": ")
            look = {"marker": ""} if series["scheme"] == "autoregressive" else {}
            if name == NAMES["paper"]:
                broken = [one > limit for one in memory[pair]] if memory else [False] * len(series["x"])
                _draw_over_memory(axes, series | {"name": name}, broken, **LOOKS["paper"])
            else:
                _draw(axes, series | {"name": name}, **LOOKS[series["scheme"]] | look)
            axes.set_title(f"models of {title.replace(', ', ' and ')}")
        names.append(_told(any(broken)) | ({} if memory else UNKNOWN))
    _share_height(panels, numbers)
    for axes, told in zip(panels, names, strict=True):
        label_ends(axes, told)
    return figure


UNKNOWN = {
    "Algorithm 1, (24b)": "Algorithm 1, (24b): memory of each batch alone",
    "ours, free, waves": "ours, in waves that fit",
}
"""Names at the ends of the curves of an earlier run."""


def _told(broken: bool) -> dict[str, str]:
    """Return the names at the ends of the curves; the published plan's says whether its caches break the memory."""
    told = {"paper": BREAKS, "proposed": "Algorithm 1, in waves that fit", "free": "ours, in waves that fit"}
    return {NAMES[scheme]: name for scheme, name in told.items() if broken or scheme != "paper"}


def _paint_shares(numbers: Numbers) -> Canvas:
    """Paint a panel for each number of tasks; curves that coincide are one curve, named with all of their names."""
    looks: dict[str, dict[str, Any]] = {
        "equal": {"color": "0.5", "marker": "s"},
        "best": LOOKS["paper"],
        "waves": LOOKS["proposed"],
        "free": LOOKS["free"],
    }
    users = sorted({one["users"] for one in numbers["series"] if "users" in one})
    figure, panels = canvas((PAGE[0], 3.2), panels=len(users))
    shown: dict[int, list[dict[str, Any]]] = {}
    for axes, count in zip(panels, users, strict=True):
        axes.set_title(f"K = {count} tasks")
        shown[count] = _distinct(numbers, count)
        for series in shown[count]:
            _draw(axes, series, **looks[series["scheme"]])
    _share_height(panels, numbers)
    for axes in panels:
        label_ends(axes)
    # the printed saving is of the most tasks
    _mark_printed(panels[-1], [one for one in numbers["series"] if one["scheme"] == "printed"], shown[users[-1]])
    return figure


def _distinct(numbers: Numbers, count: int) -> list[dict[str, Any]]:
    """Return the curves of a number of tasks with short names; those that coincide are the last of them."""
    found: dict[tuple[float, ...], dict[str, Any]] = {}
    for one in (one for one in numbers["series"] if one.get("users") == count):
        name = ALL_BEST if tuple(one["mean"]) in found else one["name"].partition(": ")[2]
        found[tuple(one["mean"])] = one | {"name": name}
    return list(found.values())


def _share_height(panels: Sequence[Any], numbers: Numbers) -> None:
    """Label panels side by side, with one height for all."""
    highest = max(axes.get_ylim()[1] for axes in panels)
    for axes in panels:
        name_axes(axes, numbers["axes"][0])
        axes.set_ylim(0, highest)
    for axes in panels[1:]:
        axes.set_ylabel("")


# -------------------------------------------------------------------------------------------------- captions


def _schemes_caption(numbers: Numbers) -> str:
    statistics = numbers["statistics"]
    gaps, ours = statistics["certified_gap_percent"], statistics["ours_saves_percent"]
    better = statistics["certified_gap_of_ours_percent"]
    words = (
        [beside_words(statistics)]
        if "printed_percent" in statistics
        else ["The paper prints no number for this figure."]
    )
    if "best_rival" in statistics:
        side = "slower" if statistics["best_rival_is_slower"] else "no slower"
        words.append(f"At this point the best baseline is {statistics['best_rival']}; it is {side} than Algorithm 1.")
    memory, limit = statistics["memory_gb"]["paper"], statistics["memory_limit_gb"]
    words += [
        f"Without the barrier our plan saves {percent(ours)} of the latency of Algorithm 1 in waves, at the right end.",
        f"The mean certified gap of Algorithm 1 in waves is {min(gaps):.1f} to {max(gaps):.1f}%, relative to all plans "
        "with the barrier.",
        f"That of our plan is {min(better):.1f} to {max(better):.1f}%, relative to any schedule.",
        f"Under (24b) all caches together need up to {max(memory):.1f} GB, but there are {limit:.0f} GB.",
        f"Draft lengths of Algorithm 1 under (24b): {', '.join(map(str, statistics['draft_lengths']))}.",
    ]
    return " ".join(words)


def _acceptance_caption(numbers: Numbers) -> str:
    statistics = numbers["statistics"]
    return (
        "This compares means under (24b) with the barrier. The paper says that drafting is faster in all settings and "
        "prints no number. The mean certified gap of our plan, which counts all caches and has no barrier, is at most "
        f"{statistics['largest_certified_gap_percent']:.1f}%."
    )


def _shares_caption(numbers: Numbers) -> str:
    alone = numbers["statistics"]["upload_alone_percent"]
    return (
        f"{beside_words(numbers['statistics'])} The best shares save {percent(alone)} of the upload time alone; the "
        "rest of the latency is decoding. The best shares are optimal (claim ofdma.minmax), so no other shares save "
        "more."
    )


# ------------------------------------------------------------------------------------------- messages, in one sentence


def _schemes_message(numbers: Numbers) -> str:
    statistics = numbers["statistics"]
    if "printed_percent" in statistics:
        return saving_message(statistics)
    return (
        f"Without the barrier our plan saves {percent(statistics['ours_saves_percent'])} of the latency of Algorithm 1 "
        "in waves, at the right end."
    )


def _acceptance_message(numbers: Numbers) -> str:
    statistics = numbers["statistics"]
    return (
        f"Drafting is faster than no drafts in {statistics['settings_with_drafts_faster']} of {statistics['settings']} "
        "settings."
    )


def _shares_message(numbers: Numbers) -> str:
    return saving_message(numbers["statistics"])


# ---------------------------------------------------------------------------------------------------- records


_SUBJECTS = {"a": "number of tasks", "b": "longest prompt", "c": "longest answer"}


_SHOWS = (
    "Left: mean total latency, (23), of Algorithm 1 and of ours; hollow: the caches of the plan need more than the "
    "memory{star}. Right: the baselines, and Algorithm 1 again."
)
_METHOD = (
    "The latency is with the best bandwidth shares. Algorithm 1 as published has a barrier at each step, (22), and a "
    "memory limit for each batch, (24b). All other lines count the caches of all batches that run at once and serve "
    "the rest in later waves; all but ours keep the barrier."
)
_METHOD_7 = (
    "The certified gap is the largest possible excess of a plan's T_inf over the best plan's. It follows from a lower "
    "bound: over all plans with the barrier for Algorithm 1, over any schedule for ours."
)
_METHOD_8 = "The memory is for answers of O_max tokens."


def _sweep_figure(number: str) -> Simulation:
    baselines, shown = ("serving mechanisms", IN_FIG_7) if number[0] == "7" else ("batching schemes", IN_FIG_8)
    return Simulation(
        **_PAPER,
        number=number,
        tag=Tag.SIMULATED,
        title=f"Latency of {baselines} over the {_SUBJECTS[number[1]]}",
        message=_schemes_message,
        shows=_SHOWS.format(star="; star: the printed saving" if number in PRINTED else ""),
        simulate=partial(simulate_sweep, number[1], shown),
        paint=_paint_schemes,
        caption=_schemes_caption,
        method=f"{_METHOD} {_METHOD_7 if number[0] == '7' else _METHOD_8}",
        printed=(PRINTED[number],) if number in PRINTED else (),
    )


FIGURES = (
    Simulation(
        **_PAPER,
        number="5",
        tag=Tag.MEASURED,
        title="Run time of a forward pass over batch size and operations",
        message=message_stages,
        shows="Points: minimum of several rounds. Lines: c₁ F b + c₂ by least squares, (17).",
        simulate=simulate_stages,
        paint=paint_stages,
        caption=caption_stages,
    ),
    Simulation(
        **_PAPER,
        number="6",
        tag=Tag.SIMULATED,
        title="Latency with and without drafts over the acceptance rate",
        message=_acceptance_message,
        shows=(
            "Lines: mean total latency, (23), of the smallest and the largest pair of draft and target model. (24b) "
            "limits the caches of each batch alone, so those of all batches may need more than the memory."
        ),
        simulate=simulate_acceptance,
        paint=_paint_pairs,
        caption=_acceptance_caption,
        method=(
            "Algorithm 1 has the paper's barrier at each step, (22), and its memory limit for each batch, (24b). Ours "
            "has no barrier, counts all caches, and serves in later waves what does not fit."
        ),
    ),
    *(_sweep_figure(figure + part) for figure in "78" for part in "abc"),
    *(
        Simulation(
            **_PAPER,
            number=f"9{part}",
            tag=Tag.SIMULATED,
            title=f"Latency over the bandwidth, models of {name.replace(', ', ' and ')}",
            message=_shares_message,
            shows=(
                "Lines: mean total latency, (23), by the shares of the band and by the schedule. Star: the printed "
                "saving."
            ),
            method=(
                "(24b): Algorithm 1 with the paper's barrier and its memory limit for each batch. Waves: the same with "
                "the caches of all batches counted. Free: ours, without the barrier, in waves."
            ),
            simulate=partial(simulate_bandwidth, pair),
            paint=_paint_shares,
            caption=_shares_caption,
            printed=(PRINTED[f"9{part}"],),
        )
        for pair, (part, name) in enumerate(zip("abc", PAIR_NAMES, strict=True))
    ),
)
