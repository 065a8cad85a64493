"""Paint the figures of c-sqs (bhattacharjee2025csqs), Section 4 and Appendix A.4."""

from collections.abc import Sequence
from typing import Any

from validation.decoding.methods.catalogue import info_of
from validation.plots.c_sqs.numbers import ADAPTIVE, ALLOCATED, BUDGETED, BY_SIZE, BYTES, DENSE, FIXED, PRINTED
from validation.plots.common.ends import label_ends
from validation.plots.common.record import Numbers
from validation.plots.common.style import AMBER, DARK, LIGHT, MIDDLE, MOST, PAGE, Canvas, canvas, name_axes, name_panels

_DASHED, _DOTTED = (0, (4, 2)), (0, (1, 1.5))
_AS_PRINTED = "C-SQS (τ₁ = 0, as printed)"  # as registered, with the default threshold
_AMBERS = (("#e8c877", "^"), (AMBER, "o"), ("#85620f", "s"))
_REDS = (("#e39a63", "D"), (MIDDLE, "s"), ("#6b2a0b", "^"))


def _look(name: str) -> dict[str, Any]:
    bare = name.replace(", bytes)", ")").replace(" (bytes)", "")
    families = ([*BY_SIZE.values()], [*ADAPTIVE.values()], [*FIXED.values()])
    for names, looks, line in zip(families, (_AMBERS, _REDS, _REDS), ("-", "-", _DOTTED), strict=True):
        if bare in names:
            color, marker = looks[names.index(bare)]
            found = {"color": color, "marker": marker, "linestyle": line}
            break
    else:
        found = {"linestyle": "-"} | info_of(_AS_PRINTED if bare == PRINTED else bare).style.options()
        found |= {"color": "black"} if bare == PRINTED else {}
    return found | ({"linestyle": _DASHED, "markerfacecolor": "white"} if bare != name else {})


def _rows(names: Sequence[str]) -> list[tuple[str, list[str]]]:
    fixed, adaptive, by_size = ([one for one in names if one in kind.values()] for kind in (FIXED, ADAPTIVE, BY_SIZE))
    if len(names) <= MOST:
        return [("", list(names))]
    if fixed and not by_size:
        return [("adaptive threshold", [one for one in names if one not in fixed]), ("fixed threshold", fixed)]
    if len(adaptive) == len(by_size) > 1:
        parts = by_size[:-1], by_size[-1:]
        return [
            (f"C-SQS beside {', '.join(part)}".replace("), K-SQS (", " and "), [*part, *adaptive]) for part in parts
        ]
    return [("", [one for one in names if one not in (*BYTES, *FIXED.values())])]


def paint(numbers: Numbers) -> Canvas:
    columns = len(numbers["axes"])
    kinds = [list(dict.fromkeys(one["name"] for one in numbers["series"] if one["panel"] == c)) for c in range(columns)]
    rows = [_rows(names) for names in kinds]
    count = max(map(len, rows))
    figure, panels = canvas((PAGE[0], 0.8 + 2.5 * count), panels=columns, rows=count)
    for column, names in enumerate(numbers["axes"]):
        for row, (title, shown) in enumerate(rows[column]):
            axes = panels[columns * row + column]
            name_axes(axes, names)
            axes.set(title=title, ylabel=axes.get_ylabel().replace("rate", "rate (of rounds)"))
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
    told = {DENSE: f"{DENSE}: all tokens"} | {name: f"ours: {name}" for name in (ALLOCATED, BUDGETED)}
    told |= {PRINTED: PRINTED.replace(", as printed)", "), line 12 by its formula")}
    told |= {name: f"C-SQS (τ = {tau:g})" for tau, name in FIXED.items()}
    for axes in panels:
        label_ends(axes, told, wrap=22)
    (bar,) = panels[0].plot([], [], "|", color="0.4", markersize=9)
    figure.legend([bar], ["95% interval over the prompts"], loc="outside lower center")
    return figure


def paint_regret(numbers: Numbers) -> Canvas:
    figure, panels = canvas(PAGE, panels=2)
    bounds = numbers["bounds"]
    name_panels(panels, numbers["axes"])
    for axes, one in zip(panels, numbers["series"], strict=True):
        names = {False: "a text", True: "a text that exceeds the sharp bound"}
        for text in one["texts"]:
            above = any(mean > bounds["sharp"][int(x) - 1] for x, mean in zip(text["x"], text["mean"], strict=True))
            axes.plot(text["x"], text["mean"], color=(LIGHT, AMBER)[above], linewidth=0.9, label=names.pop(above, ""))
        axes.plot(bounds["x"], bounds["sharp"], color=DARK, label="sharp bound")
        axes.plot(bounds["x"], bounds["published"], color=MIDDLE, linestyle=_DASHED, label="bound (9), printed")
        axes.axhline(1.0, color="0.45", linewidth=0.8, linestyle=_DOTTED, label="1: says nothing")
        axes.set_title(f"Algorithm 1, line 12 by its {'words' if one['name'] == 'mended' else 'formula'}")
    figure.legend(*panels[1].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return figure
