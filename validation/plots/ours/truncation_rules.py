"""Compare the rules that choose k: tokens that each sends, failures of the published rule, and their reason."""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validation.arrays import Row
from validation.plots.common import style
from validation.plots.common.printed import CU, value
from validation.plots.common.record import Numbers, plain, table
from validation.plots.common.style import Canvas
from validation.plots.common.truncation import looks
from validation.plots.common.truncation import sample as samples
from validation.plots.common.truncation.looks import average, axis, curve, defined, full_bits, say
from validation.plots.common.truncation.sample import EPSILON, PARAMETERS, SHARPNESSES, SHOWN, THETA, Sample
from validation.trace.reader import Trace

MARGIN = 1e-9  # a bound fails if the value exceeds it by more than this
BINS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
SPREAD = (0.1, 0.5, 0.9)


def _at_epsilon(sample: Sample, rule: str) -> samples.Sizes:
    return np.asarray(sample.top_k[rule][:, PARAMETERS[rule].index(EPSILON)])


def _same_promise(sample: Sample) -> list[tuple[str, NDArray[Any] | None, Row | None]]:
    exact, certified = (_at_epsilon(sample, rule) for rule in ("exact", "certified"))
    bias = {rule: sample.bias(sample.met[rule][:, PARAMETERS[rule].index(EPSILON)]) for rule in ("exact", "certified")}
    apart = sample.drafts.apart
    skip = 2.0 * apart <= EPSILON
    rows: list[tuple[str, NDArray[Any] | None, Row | None]] = [
        ("exact", exact, bias["exact"]),
        ("certified, T known", np.where(skip, 0, certified), np.where(skip, 2.0 * apart, bias["certified"])),
        ("certified", certified, bias["certified"]),
    ]
    offline = sample.offline(THETA)
    rows.append(("offline", None if offline is None else np.full(len(apart), offline), None))
    for eta in SHOWN:
        met = sample.met["online"][:, SHARPNESSES.index(eta)]
        rows.append((f"online {eta:g}", sample.online(eta), sample.bias(met)))
    return rows


def measure_sizes(trace: Trace, seed: int) -> Numbers:
    sample = samples.sample_of(trace, seed)
    series: list[dict[str, Any]] = []
    for rule in PARAMETERS:
        bias = sample.bias(sample.met[rule]).mean(axis=0)
        sizes = sample.top_k[rule].mean(axis=0)
        series.append({"name": rule, "x": plain(bias, 5), "y": plain(sizes, 5), "parameters": plain(PARAMETERS[rule])})
    fixed = sample.bias(sample.distortion).mean(axis=0)
    series.append({"name": "offline", "x": plain(fixed, 5), "y": sample.grid.tolist()})
    promised = [
        {
            "name": name,
            "mean": None if k is None else plain(k.mean(), 5),
            "spread": None if k is None else plain(np.quantile(k, SPREAD), 5),
            "range": None if k is None else [int(k.min()), int(k.max())],
            "bias": None if bias is None else plain(bias.mean(), 4),
            "largest_bias": None if bias is None else plain(bias.max(), 4),
            "exceeded": None if bias is None else plain((bias > EPSILON + MARGIN).mean(), 4),
        }
        for name, k, bias in _same_promise(sample)
    ]
    line = sample.drafts.line
    return {
        "axes": [
            {"x": axis("true Bias, mean"), "y": axis("tokens sent, mean")},
            {"x": axis("tokens sent k", scale="symlog"), "y": axis("rule", scale="linear")},
        ],
        "series": series,
        "promised": promised,
        "statistics": {"epsilon": EPSILON, "line": None if line is None else plain(line, 5)},
        "positions_drawn": len(sample.drafts.apart),
    }


def _named(rule: str) -> str:
    return rule.replace("online ", "online (24), η = ").replace("offline", "offline (21)")


RULES = ("exact", "certified", "offline", "online 5", "top-p")
"""Rules of the panel of tokens against the Bias: the strongest of each kind; the numbers hold all."""

PRINTED_MEANS = {"offline": looks.OFFLINE, "online": value(CU, "k_online_mean")}
"""The mean k of the published rules; the paper prints no η."""

MARKS = "oDv^s"
"""Markers of the rules of a panel, so that curves of one colour can be told apart."""


def paint_sizes(numbers: Numbers) -> Canvas:
    figure, (left, right) = style.canvas((style.PAGE[0], 3.2), panels=2)
    style.name_panels((left, right), numbers["axes"])
    known = [one for name in RULES for one in numbers["series"] if one["name"] == name]
    for one, mark in zip(known, MARKS, strict=False):
        curve(
            left, one["x"], one["y"], label=_named(one["name"]), marker=mark, markersize=3, **looks.LOOKS[one["name"]]
        )
    left.set_xlim(looks.decades([one["x"] for one in known], 1e-4))
    left.set_ylim(looks.decades([one["y"] for one in known], 0.5))
    left.legend(loc="lower left")
    drawn = [one for one in numbers["promised"] if one["mean"] is not None]
    told = f"printed mean, V = {looks.FULL:,}"
    for place, one in enumerate(drawn):
        low, middle, high = one["spread"]
        names = ("10–90% of positions", "median", "mean") if place == 0 else ("",) * 3
        right.plot([low, high], [place, place], color=style.LIGHT, linewidth=5, solid_capstyle="butt", label=names[0])
        right.plot([middle], [place], "|", color=style.DARK, markersize=9, markeredgewidth=1.5, label=names[1])
        right.plot([one["mean"]], [place], "o", color=style.DARK, markersize=4, label=names[2])
        if (printed := PRINTED_MEANS.get(one["name"].partition(" ")[0])) is not None:
            right.plot([printed], [place], label=told if one["name"] == "offline" else "", **style.PRINTED)
    right.set_yticks(range(len(drawn)), [_named(one["name"]) for one in drawn])
    right.set(ylim=(len(drawn) - 0.5, -0.5), xlim=(0, None), ylabel="", title=f"Bias ≤ {EPSILON:g}, θ = {THETA:g}")
    style.legend_below(right, columns=2)
    return figure


def _failures(sample: Sample, rejection: Row, met: Row, kept: NDArray[np.bool_]) -> dict[str, list[float | None]]:
    """Return, for each η, how often and by how much Ū < TV(r, r̂) over all k, and how often at the k of (24)."""
    true = sample.distortion[kept]
    apart = np.broadcast_to(sample.drafts.apart[kept, None], true.shape)
    found: dict[str, list[float | None]] = {key: [] for key in ("share", "worst", "median", "apart", "chosen")}
    for i, eta in enumerate(SHARPNESSES):
        bound = 2.0 * sample.deviation[kept] / samples.denominator(sample.drafts.drafted, rejection, eta)[kept, None]
        fails = true > bound + MARGIN
        ratio = true[fails] / bound[fails]
        found["share"].append(defined(average(fails.ravel())))
        found["worst"].append(defined(ratio.max(initial=-np.inf)))
        found["median"].append(defined(np.median(ratio)) if ratio.size else None)
        found["apart"].append(defined(np.median(apart[fails])) if ratio.size else None)
        found["chosen"].append(defined(average(met[kept, i] > THETA + MARGIN)))
    return found


def measure_failures(trace: Trace, seed: int) -> Numbers:
    sample = samples.sample_of(trace, seed)
    drafts, kept = sample.drafts, sample.rejected
    sent = sample.sent
    met = sample.met["online"]
    series = [
        {"name": "β_d itself", **_failures(sample, drafts.rejection, sample.met["online, true"], kept)},
        {"name": "a u + b", **_failures(sample, drafts.estimate, met, kept)},
        {"name": f"a u + b, u > {samples.SKIP_BELOW:g}", **_failures(sample, drafts.estimate, met, sent)},
    ]
    line = None if drafts.line is None else plain(drafts.line, 5)
    eta = axis("sharpness η of the softplus")
    return {
        "axes": [
            {"x": eta, "y": axis("share where it fails", scale="linear")},
            {"x": eta, "y": axis("TV(r, r̂) over the bound, where it fails")},
        ],
        "series": [{"x": list(SHARPNESSES)} | one for one in series],
        "statistics": {"sizes": sample.grid.tolist(), "sent": int(sent.sum()), "line": line},
        "positions_drawn": len(drafts.apart),
    }


def paint_failures(numbers: Numbers) -> Canvas:
    figure, panels = style.canvas((style.PAGE[0], 4.9), panels=2, rows=2)
    kinds = (("share", "all k"), ("chosen", "the k of (24)"), ("worst", "largest ratio"), ("median", "median ratio"))
    styles: tuple[dict[str, Any], ...] = (
        {"color": style.MIDDLE, "marker": "o"},
        {"color": style.AMBER, "marker": "s", "linestyle": (0, (4, 2))},
        {"color": style.GREY, "marker": "^", "linestyle": (0, (1, 1.5))},
    )
    for row, names in zip((panels[:2], panels[2:]), numbers["axes"], strict=True):
        style.name_panels(row, [names] * 2)
    for axes, (key, title) in zip(panels, kinds, strict=True):
        for one, look in zip(numbers["series"], styles, strict=True):
            name = style.label(f"Ū with {one['name']}")
            curve(axes, one["x"], one[key], label=name, markersize=3, **look)
        axes.set_title(title)
    panels[2].set_ylabel(panels[2].get_ylabel().replace("where", "\nwhere"))
    highest = max(axes.get_ylim()[1] for axes in panels[:2])
    for axes in panels[:2]:
        axes.set_ylim(0, highest)
    tallest = looks.decades([one["worst"] for one in numbers["series"]], 1.0)[1]
    for axes in panels[2:]:
        axes.set_ylim(1, max(2.0, tallest))
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _binned(sample: Sample) -> tuple[Row, list[NDArray[np.bool_]]]:
    beta = sample.drafts.rejection
    bins = [beta == 0.0] + [(beta > low) & (beta <= high) for low, high in pairwise(BINS)]
    return np.array([average(beta[one]) for one in bins]), bins


def measure_direction(trace: Trace, seed: int) -> Numbers:
    sample = samples.sample_of(trace, seed)
    x, bins = _binned(sample)
    certified, exact = (_at_epsilon(sample, rule) for rule in ("certified", "exact"))
    chosen = {
        f"online, η = {SHOWN[0]:g}": sample.online(SHOWN[0], true=True),
        f"online, η = {SHOWN[1]:g}": sample.online(SHOWN[1], true=True),
        "exact, TV(r, r̂) ≤ θ": sample.least,
        "exact, Bias ≤ ε": exact,
        "certified, 2Δ_k ≤ ε": certified,
    }
    measured = [
        {"name": name, "x": defined(x), "y": defined([average(k[one]) for one in bins])} for name, k in chosen.items()
    ]
    swept = {f"online, η = {SHOWN[1]:g}": sample.swept, "Δ_k ≤ θ q_d β": sample.safe}
    beta = list(samples.SWEPT)
    swung = [{"name": name, "x": beta, "y": plain(k.mean(axis=0), 5)} for name, k in swept.items()]
    swung.append({"name": "certified, 2Δ_k ≤ ε", "x": beta, "y": [plain(certified.mean(), 5)] * len(beta)})
    tokens = axis("tokens sent, mean")
    return {
        "axes": [
            {"x": axis("rejection probability of the draft", scale="linear"), "y": tokens},
            {"x": axis("β put in its place", scale="linear"), "y": tokens},
        ],
        "series": measured,
        "swept": swung,
        "statistics": {"positions": [int(one.sum()) for one in bins]},
        "positions_drawn": len(certified),
    }


def paint_direction(numbers: Numbers) -> Canvas:
    figure, panels = style.canvas((style.PAGE[0], 3.4), panels=2)
    styles = {
        f"online, η = {SHOWN[0]:g}": looks.LOOKS["online 1"],
        f"online, η = {SHOWN[1]:g}": looks.LOOKS["online 5"],
        "exact, TV(r, r̂) ≤ θ": {"color": "0.6"},
        "exact, Bias ≤ ε": looks.LOOKS["exact"],
        "certified, 2Δ_k ≤ ε": looks.LOOKS["certified"],
        "Δ_k ≤ θ q_d β": {"color": "0.6"},
    }
    for axes, names, lines in zip(panels, numbers["axes"], (numbers["series"], numbers["swept"]), strict=True):
        style.name_axes(axes, names)
        for one in lines:
            name = one["name"].replace("r̂", r"$\hat{r}$").replace("Δ_k", r"$\Delta_k$").replace("online", "(24)")
            name = name.replace(r"$\Delta_k$ ≤ θ q_d β", r"needed at worst, $\Delta_k$ ≤ θ $q_d$ β")
            mark = {"marker": "o", "markersize": 3} if lines is numbers["series"] else {}
            curve(axes, one["x"], one["y"], label=name, **mark, **styles[one["name"]])
        low, high = looks.decades([one["y"] for one in lines], 0.1)
        axes.set(xlim=(-0.03, 1.03), ylim=(low, 12 * high))  # space for the legend
        axes.legend(loc="upper center", ncols=2 if lines is numbers["series"] else 1)
    panels[0].set_title(f"measured, by the true $\\beta_d$; θ = {THETA:g}, ε = {EPSILON:g}")
    panels[1].set_title("the same distributions, another $\\beta$")
    return figure


ONLINE = ("k_online_mean", "k_online_least", "k_online_largest")


def _span(k: NDArray[Any]) -> str:
    return f"{k.mean():,.0f}; {k.min():,} to {k.max():,}" if len(k) else "undefined"


def _share(k: float | None, vocabulary: int) -> str:
    return "undefined" if k is None else f"{k / vocabulary:.2%}"


def _paper_rows(sample: Sample) -> list[tuple[str, str, str]]:
    mean, least, largest = (f"{value(CU, name):,.0f}" for name in ONLINE)
    offline, skip = sample.offline(THETA), samples.SKIP_BELOW
    sent = sample.drafts.uncertainty > skip  # including positions with q = p
    size, certified = sample.vocabulary, _at_epsilon(sample, "certified")
    rows = [
        ("|V|", f"{looks.FULL:,}", f"{size:,}"),
        ("all entries, (4)", f"{full_bits(looks.FULL):,} bit: 92 kB, Section I", f"{full_bits(size):,} bit"),
        ("k* offline, (21)", f"{looks.OFFLINE:.0f}", say(offline)),
        (f"k* offline, over u > {skip:g} alone", f"{looks.OFFLINE:.0f}", say(sample.offline(THETA, sent=True))),
        ("k* offline, (21) with the sharp bound", "–", say(sample.offline(THETA, sharp=True))),
        ("k(t)* exact, (19)", "–", _span(sample.least)),
        (f"certified, 2Δ_k ≤ {EPSILON:g}", "–", _span(certified)),
    ]
    printed = f"{mean}; {least} to {largest}"
    rows.append(("k(t)* online, (24); the paper prints no η", printed, "–"))
    for eta in SHARPNESSES[:: max(1, len(SHARPNESSES) // 5)]:
        rows += [
            (f"k(t)* online, (24), η = {eta:g}", "–", _span(sample.online(eta))),
            (f"of these, u > {skip:g}", "–", _span(sample.online(eta)[sent])),
            ("with β_d itself, all", "–", _span(sample.online(eta, true=True))),
        ]
    rows += [
        ("payload offline over all entries", "less than 0.1%", _share(offline, size)),
        ("payload certified over all entries", "–", _share(float(certified.mean()), size)),
        ("payload online over all entries; the paper prints no η", "2.6%", "–"),
        ("payload online over all entries, η = 1", "–", _share(float(sample.online(1.0).mean()), size)),
        ("payload online over all entries, η = 5", "–", _share(float(sample.online(5.0).mean()), size)),
    ]
    return rows


def measure_table(trace: Trace, seed: int) -> Numbers:
    sample = samples.sample_of(trace, seed)
    heads = (f"at θ = {THETA:g}", "paper", "ours")
    title = f"k* and payload; mean; least to largest, over a sample of {len(sample.rejected):,} positions"
    return {
        "tables": [table(title, heads, tuple(_paper_rows(sample)))],
        "statistics": {
            "k_offline": sample.offline(THETA),
            "k_offline_sent": sample.offline(THETA, sent=True),
            "k_online": {f"{eta:g}": defined(sample.online(eta).mean()) for eta in SHARPNESSES},
        },
        "positions_drawn": len(sample.rejected),
    }
