"""Define the figures of edge-sd (zhu2025edgesd), Section IV and Fig. 5: savings by drafting, batching and shares."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from validation.plots.common.record import Numbers, Simulation, Tag
from validation.plots.common.style import DARK, LIGHT, MIDDLE, PAGE, canvas, legend_below, name_axes
from validation.plots.edge_sd.beside import beside_words, percent, saving_message
from validation.plots.edge_sd.numbers import IN_FIG_7, IN_FIG_8, simulate_acceptance, simulate_bandwidth, simulate_sweep
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
_MARK: dict[str, Any] = {"color": "black", "marker": "*", "markersize": 8, "linestyle": "", "zorder": 5}
"""Marker of a printed saving."""

_PAPER: dict[str, Any] = {"paper": "edge-sd", "source": "zhu2025edgesd"}


# -------------------------------------------------------------------------------------------------- pictures


def _draw(axes: Any, series: dict[str, Any], **look: Any) -> None:
    if series["scheme"] == "printed":
        axes.plot(series["x"], series["mean"], label=series["name"], **_MARK)
        return
    axes.fill_between(series["x"], series["low"], series["high"], color=look["color"], alpha=0.15, linewidth=0)
    axes.plot(series["x"], series["mean"], label=series["name"], **({"markersize": 3.5} | look))


def _paint_schemes(numbers: Numbers) -> Canvas:
    """Paint Algorithm 1 and ours, then the baselines, then the certified gaps (Fig. 7) or the memory (Fig. 8)."""
    figure, (ours, baselines, right) = canvas((PAGE[0], 3.4), panels=3)
    for series in numbers["series"]:
        look = LOOKS.get(series["scheme"], {})
        if series["panel"] == 1:
            _draw(right, series, **look)
        elif series["scheme"] in (*OURS, "printed"):
            _draw(ours, series, **look)
        else:
            _draw(baselines, series, **look)
        if series["panel"] == 0 and series["scheme"] == "proposed":
            _draw(baselines, series, **look)
    if numbers["axes"][1]["y"]["unit"] == "GB":
        limit = numbers["statistics"]["memory_limit_gb"]
        right.axhline(limit, color="black", linewidth=0.8)
        place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "va": "top"}
        right.annotate(f"{limit:.0f} GB", (0.98, limit), (0, -8), ha="right", **place)
    for axes, names in zip((ours, baselines, right), (numbers["axes"][0], *numbers["axes"]), strict=True):
        name_axes(axes, names)
    highest = max(ours.get_ylim()[1], baselines.get_ylim()[1])
    for axes in (ours, baselines):
        axes.set_ylim(0, highest)
        legend_below(axes)
    baselines.set_ylabel("")
    right.set_ylim(0, None)
    legend_below(right)
    return figure


def _paint_pairs(numbers: Numbers) -> Canvas:
    """Paint a panel for each pair of models."""
    pairs = list(dict.fromkeys(one["pair"] for one in numbers["series"]))
    figure, panels = canvas((PAGE[0], 3.2), panels=len(pairs))
    looks: dict[str, dict[str, Any]] = {
        "proposed": LOOKS["proposed"],
        "free": LOOKS["free"] | {"linestyle": (0, (1, 1.5))},
        "autoregressive": {"color": "0.5", "linestyle": (0, (4, 2))},
    }
    handles: dict[str, Any] = {}
    for axes, pair in zip(panels, pairs, strict=True):
        for series in (one for one in numbers["series"] if one["pair"] == pair):
            title, _, scheme = series["name"].partition(": ")
            _draw(axes, series | {"name": scheme}, **looks[series["scheme"]])
            axes.set_title(title)
        handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    _share_height(panels, numbers)
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3)
    return figure


def _paint_shares(numbers: Numbers) -> Canvas:
    """Paint a panel for each number of tasks; where curves coincide, the wide one below still shows."""
    looks: dict[str, dict[str, Any]] = {
        "equal": {"color": "0.5", "marker": "s"},
        "best": {"color": LIGHT, "linewidth": 4.0},
        "waves": {"color": DARK, "linestyle": (0, (4, 2)), "marker": "o"},
        "free": {"color": MIDDLE, "linestyle": (0, (1, 1.5)), "marker": "D", "markerfacecolor": "white"},
    }
    users = sorted({one["users"] for one in numbers["series"] if "users" in one})
    figure, panels = canvas((PAGE[0], 3.2), panels=len(users))
    handles: dict[str, Any] = {}
    for axes, count in zip(panels, users, strict=True):
        axes.set_title(f"K = {count} tasks")
        for series in (one for one in numbers["series"] if one.get("users") == count):
            _draw(axes, series | {"name": series["name"].partition(": ")[2]}, **looks[series["scheme"]])
    for series in (one for one in numbers["series"] if one["scheme"] == "printed"):
        _draw(panels[-1], series)  # the saving is of the most tasks
    for axes in panels:
        handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    _share_height(panels, numbers)
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3)
    return figure


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


_SHOWS = "Left, middle: mean total latency, (23); dashed: Algorithm 1 as published{star}. Right: "
_RIGHT_7 = "certified gap of the planned T_inf, for answers of O_max tokens."
_RIGHT_8 = "memory of the weights and all simultaneous caches; line: Γ_s."
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
        shows=_SHOWS.format(star="; star: the printed saving" if number in PRINTED else "")
        + (_RIGHT_7 if number[0] == "7" else _RIGHT_8),
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
            "Lines: mean total latency, (23), of three pairs of draft and target model, with Algorithm 1, with ours, "
            "and without drafts."
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
