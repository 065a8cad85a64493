"""Pictures and captions of c-sqs (bhattacharjee2025csqs), Section 4 and Appendix A.4."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from validation.decoding.methods.registry import info_of
from validation.plots.c_sqs.numbers import (
    ADAPTIVE,
    BUDGETED,
    BY_SIZE,
    BYTES,
    FIXED,
    PRINTED,
    RATE_BPS,
    Interval,
)
from validation.plots.c_sqs.runs import MIDDLE_SIZE, MIDDLE_THRESHOLD
from validation.plots.common.ends import label_ends
from validation.plots.common.record import Numbers
from validation.plots.common.style import DARK, LIGHT, MIDDLE, MOST, PAGE, canvas, name_axes

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

_DASHED, _DOTTED = (0, (4, 2)), (0, (1, 1.5))
_MARKS = ("o", "s", "^")
_AS_PRINTED = "C-SQS (τ₁ = 0, as printed)"  # as registered, with the default threshold
_BLUES, _REDS = ("#6f8fbf", DARK, "#0a1020"), ("#e39a63", MIDDLE, "#6b2a0b")


def _look(name: str) -> dict[str, Any]:
    """Return the style of a curve.

    The colour shows the method and the marker the parameter. The line shows how bits are counted, or whether the
    threshold adapts.
    """
    bare = name.replace(", bytes)", ")").replace(" (bytes)", "")
    families = ([*BY_SIZE.values()], [*ADAPTIVE.values()], [*FIXED.values()])
    for names, colors, line in zip(families, (_BLUES, _REDS, _REDS), ("-", "-", _DOTTED), strict=True):
        if bare in names:
            k = names.index(bare)
            found = {"color": colors[k], "marker": _MARKS[k], "linestyle": line}
            break
    else:
        found = {"linestyle": "-"} | info_of(_AS_PRINTED if bare == PRINTED else bare).style.options()
    return found | ({"linestyle": _DASHED, "markerfacecolor": "white"} if bare != name else {})


def _rows(names: Sequence[str]) -> list[list[str]]:
    """Return the curves of each row of panels: a comparison keeps its curves together."""
    fixed, adaptive, by_size = (
        [one for one in names if one in family.values()] for family in (FIXED, ADAPTIVE, BY_SIZE)
    )
    if len(names) <= MOST:
        return [list(names)]
    if fixed and not by_size:
        return [[one for one in names if one not in fixed], fixed]  # adaptive thresholds, then fixed ones
    if len(adaptive) == len(by_size) > 1:
        return [[*by_size[:-1], *adaptive], [by_size[-1], *adaptive]]
    return [[one for one in names if one not in (*BYTES, *FIXED.values())]]


def paint(numbers: Numbers) -> Canvas:
    """Draw a column for each pair of axes and a row for each comparison: curves with their intervals."""
    columns = len(numbers["axes"])
    kinds = [list(dict.fromkeys(one["name"] for one in numbers["series"] if one["panel"] == c)) for c in range(columns)]
    rows = [_rows(names) for names in kinds]
    count = max(map(len, rows))
    figure, panels = canvas((PAGE[0], 0.8 + 2.5 * count), panels=columns, rows=count)
    for column, names in enumerate(numbers["axes"]):
        for row, shown in enumerate(rows[column]):
            axes = panels[columns * row + column]
            name_axes(axes, names)
            for number, name in enumerate(shown):
                (one,) = (one for one in numbers["series"] if (one["name"], one["panel"]) == (name, column))
                sides = [[m - low for m, low in zip(one["mean"], one["low"], strict=True)]]
                sides.append([high - m for m, high in zip(one["mean"], one["high"], strict=True)])
                shift = 0.01 * (number - 2)  # so that the intervals do not overlap
                x = [value + shift for value in one["x"]]
                axes.errorbar(x, one["mean"], yerr=sides, markersize=3.5, elinewidth=0.6, label=name, **_look(name))
    same = numbers["axes"][0]["y"] == numbers["axes"][-1]["y"]
    for column in range(columns):
        alike = panels if same else panels[column::columns]
        highest = max(axes.get_ylim()[1] for axes in alike)
        for axes in alike:
            axes.set_ylim(0, highest)
    for axes in panels:
        label_ends(axes)
    return figure


def paint_regret(numbers: Numbers) -> Canvas:
    """Draw each text's mean dropped mass over its tokens, with both bounds; one panel for each form of line 12."""
    figure, panels = canvas(PAGE, panels=2)
    bounds = numbers["bounds"]
    for axes, names, one in zip(panels, numbers["axes"], numbers["series"], strict=True):
        for k, text in enumerate(one["texts"]):
            axes.plot(text["x"], text["mean"], ".-", color=LIGHT, markeredgecolor=DARK, markersize=3, linewidth=0.8,
                      label="" if k else "a text")  # fmt: skip
        axes.plot(bounds["x"], bounds["sharp"], color=DARK, label="sharp bound")
        axes.plot(bounds["x"], bounds["published"], color=MIDDLE, linestyle=_DASHED, label="published bound")
        axes.axhline(1.0, color="0.45", linewidth=0.8, linestyle=_DOTTED, label="1: no bound at all")
        name_axes(axes, names)
        axes.set_title(f"line 12 {one['name']}")
    panels[1].set_ylabel("")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4)
    return figure


# -------------------------------------------------------------------------------------------------------- captions


def _at(numbers: Numbers, name: str, metric: str) -> str:
    """Format the first and the last value of a curve, with their intervals."""
    one = next(one for one in numbers["series"] if (one["name"], one["metric"]) == (name, metric))
    ends = [Interval(one["mean"][k], one["low"][k], one["high"][k]).told(".3g") for k in (0, -1)]
    return f"{ends[0]} at T = {one['x'][0]:g} and {ends[1]} at T = {one['x'][-1]:g}"


def _gap(numbers: Numbers, metric: str, unit: str = "") -> str:
    """Format C-SQS minus K-SQS at every temperature."""
    at = numbers["series"][0]["x"]
    told = [Interval(*one).told("+.2f") for one in numbers["statistics"]["gap"][metric]]
    return "; ".join(f"{one}{unit} at T = {t:g}" for one, t in zip(told, at, strict=True))


def _crossing(numbers: Numbers, metric: str) -> str:
    """Give the number of pairs that cross as in the paper, for each link and each set of pass times."""
    lines = [one for one in numbers["statistics"]["crossovers"] if one["metric"] == metric]
    name = {"latency": "latency", "resampling": "resampling rate"}[metric]
    if not any(one["crossing"] for one in lines):
        return f"In {name} no pair of K and τ₁ crosses as in the paper, with any link or times tried."
    told = []
    for times in dict.fromkeys(one["times"] for one in lines):
        each = []
        for one in (one for one in lines if one["times"] == times):
            where = f" over {one['rate_bps'] / 1e6:g} Mbit/s" if one["rate_bps"] else ""
            each.append(f"{one['crossing']} ({one['clear']}){where}")
        told.append(", ".join(each) + (f" with passes {times}" if times else ""))
    return (
        f"Pairs of the {len(BY_SIZE) * len(ADAPTIVE)} that cross in {name} (in brackets: beyond the 95% interval at "
        f"both ends): {'; '.join(told)}."
    )


def _ends(values: list[float], digits: int = 1) -> str:
    return f"{values[0]:.{digits}f} and {values[-1]:.{digits}f}"


def caption_main(numbers: Numbers) -> str:
    """Give latency, drafts per round and rejections of both methods."""
    k, c = BY_SIZE[MIDDLE_SIZE], ADAPTIVE[MIDDLE_THRESHOLD]
    lengths, rejected = (numbers["statistics"][key] for key in ("drafts_per_round", "rejected_per_draft"))
    return (
        f"Latency in ms: {k} {_at(numbers, k, 'latency')}; {c} {_at(numbers, c, 'latency')}"
        f"{_budgeted(numbers)}. "
        f"Drafts per round at the lowest and the highest temperature: {_ends(lengths[k])} for {k}, {_ends(lengths[c])} "
        f"for {c}. C-SQS spends few bits on a concentrated distribution and many on a flat one; a round also stops at "
        f"the end of the text. Of the verified drafts, {_ends(rejected[k], 2)} are rejected with {k} and "
        f"{_ends(rejected[c], 2)} "
        f"with {c}. The resampling rate counts rounds, and a longer round is more likely to contain a rejection. "
        f"Difference of the second and the first in latency, by prompt: {_gap(numbers, 'latency', ' ms')}. Difference "
        f"in resampling rate, by prompt: {_gap(numbers, 'resampling')}. A pair of K and τ₁ crosses as in the paper if "
        "K-SQS is better at the lowest temperature and C-SQS at the highest. "
        f"{_crossing(numbers, 'latency')} "
        f"{_crossing(numbers, 'resampling')}"
    )


def _budgeted(numbers: Numbers) -> str:
    """Latency of the budget of dropped mass; nothing for numbers that were drawn before there was one."""
    there = any(one["name"] == BUDGETED for one in numbers["series"])
    return f"; {BUDGETED}, ours, {_at(numbers, BUDGETED, 'latency')}" if there else ""


def caption_sizes(numbers: Numbers) -> str:
    """Give the fastest support size and the fastest threshold."""
    lengths = numbers["statistics"]["drafts_per_round"]
    curves = [(one["name"], one["mean"]) for one in numbers["series"]]
    told = "; ".join(f"{name} {_ends(lengths[name])}" for name, _ in curves)
    best = [min(curves, key=lambda one: one[1][k])[0] for k in (0, -1)]
    quickest = " and ".join(f"{name} ({lengths[name][k]:.1f})" for name, k in zip(best, (0, -1), strict=True))
    return (
        f"Drafts per round at the lowest and the highest temperature: {told}. The fastest settings, with their drafts "
        f"per round: {quickest}."
    )


def caption_adaptive(numbers: Numbers) -> str:
    """Give the effect of adapting the threshold."""
    told = [
        f"{Interval(*one['latency']).told('+.2f')} ms and {Interval(*one['resampling']).told('+.2f')} "
        f"from τ₁ = {one['threshold']:g}"
        for one in numbers["statistics"]["adaptive_less_fixed"]
    ]
    top = numbers["series"][0]["x"][-1]
    return f"Adaptive minus fixed at T = {top:g}, by prompt, in latency and in resampling rate: {'; '.join(told)}."


def caption_both(numbers: Numbers) -> str:
    """Give the pairs of K and τ₁ whose curves cross."""
    lines = [one for one in numbers["statistics"]["crossovers"] if one["rate_bps"] in (None, RATE_BPS)]
    told = []
    for one in (one for one in lines if one["times"] in ("", "as measured")):
        which = ", ".join(f"({size}, {threshold:g})" for size, threshold in one["which"]) or "none"
        told.append(f"in {one['metric']}: {which}")
    return f"Pairs (K, τ₁) that cross as in the paper: {'; '.join(told)}."


def caption_regret(numbers: Numbers) -> str:
    """Give the dropped mass, and where each bound holds."""
    about = numbers["statistics"]
    means = " and ".join(f"{sum(last) / len(last):.4f}" for last in about["last"])
    return (
        f"Temperature T = {about['temperature']:g}, τ₁ = {MIDDLE_THRESHOLD:g}, texts of {about['new_tokens']} tokens. "
        "The sharp bound is proven for the corrected line 12. At the end of the text the mean dropped mass is "
        f"{means} for the corrected and the printed form. The published bound is below 1 only from "
        f"{about['published_below_1_from']:,} positions on."
    )


def caption_table(numbers: Numbers) -> str:
    """Say whether the rejections stay below Theorem 1."""
    lines = numbers["statistics"]["theorem"]
    vacuous = sum(one["mismatch"] + one["dropped"] + one["rounding"]["published"] >= one["positions"] for one in lines)
    return f"In {vacuous} of {len(lines)} rows the published bound is at least the number of drafts, so it is vacuous."


# ------------------------------------------------------------------------------------------- messages, in one sentence


def message_crossings(numbers: Numbers) -> str:
    """Give the number of pairs that cross as in the paper, over the link of the figure."""
    lines = numbers["statistics"]["crossovers"]
    here = [one for one in lines if one["rate_bps"] in (None, RATE_BPS) and one["times"] in ("", "as measured")]
    told = " and ".join(f"{one['crossing']} in {_METRICS[one['metric']]}" for one in here)
    return f"Of {len(BY_SIZE) * len(ADAPTIVE)} pairs of K and τ₁, {told} cross over the temperature as in the paper."


def message_main(numbers: Numbers) -> str:
    """Say whether the drawn pair of K and τ₁ crosses in latency as in the paper."""
    names = BY_SIZE[MIDDLE_SIZE], ADAPTIVE[MIDDLE_THRESHOLD]
    k, c = (next(one["mean"] for one in numbers["series"] if one["name"] == name) for name in names)
    first, last = ("faster" if k[at] < c[at] else "not faster" for at in (0, -1))
    how = "as in the paper" if (first, last) == ("faster", "not faster") else "other than in the paper"
    return f"{names[0]} is {first} than {names[1]} at the lowest temperature and {last} at the highest, {how}."


_METRICS = {"latency": "latency", "resampling": "resampling rate"}


def _fastest(series: list[dict[str, Any]], k: int) -> str:
    """Return the name of the first series with the smallest mean at index ``k``."""
    return str(min(series, key=lambda one: float(one["mean"][k]))["name"])


def message_sizes(numbers: Numbers) -> str:
    """Give the fastest setting at both ends."""
    low, high = (_fastest(numbers["series"], k) for k in (0, -1))
    if low == high:
        return f"{low} is the fastest at the lowest and at the highest temperature."
    return f"{low} is the fastest at the lowest temperature, {high} at the highest."


def message_adaptive(numbers: Numbers) -> str:
    """Give the smallest and the largest change of the latency by the adaptation."""
    found = [one["latency"][0] for one in numbers["statistics"]["adaptive_less_fixed"]]
    low, high = (f"{value:+.2f}".replace("-", "−") for value in (min(found), max(found)))
    top = numbers["series"][0]["x"][-1]
    return f"Adapting the threshold changes the latency at T = {top:g} by {low} to {high} ms, depending on τ₁."


def message_regret(numbers: Numbers) -> str:
    """Give the number of texts above the sharp bound, for each form of line 12."""
    corrected, printed = numbers["statistics"]["above_sharp"]
    count = len(numbers["series"][0]["texts"])
    return (
        f"With line 12 corrected, {corrected} of {count} texts exceed the sharp bound; with line 12 as printed, "
        f"{printed} do."
    )


def message_table(numbers: Numbers) -> str:
    """Give the number of rows whose rejections exceed the sharp bound."""
    lines = numbers["statistics"]["theorem"]
    above = sum(bool(one["above"]) for one in lines)
    return f"The rejections exceed the sharp bound beyond its interval in {above} of {len(lines)} rows."
