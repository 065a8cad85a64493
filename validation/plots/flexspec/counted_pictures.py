"""Draw Figs. 4, 5 and 6 of flexspec (li2025flexspec) from counted rounds.

Fig. 6 is a model: the radio stays in its connected state all the time, because the pauses between exchanges are shorter
than its tail, and the device drafts. Both powers are stated (:data:`RADIO_W`, :data:`DRAFTING_W`); it prints none.
"""

from typing import Any

from validation.decoding.intervals import ratio
from validation.estimates import Estimate
from validation.plots.common import style
from validation.plots.common.printed import DEVICES, LATENCIES, METHODS, NETWORKS, value
from validation.plots.common.record import Numbers, plain
from validation.plots.common.style import AMBER, DARK, LIGHT, MIDDLE, PRINTED, SMALLEST, Canvas, axis, canvas
from validation.plots.flexspec import counted as c
from validation.plots.flexspec.counted import Case, Texts
from validation.plots.flexspec.counted_tables import basis

SET = "GSM8K"
STRIDES = {"5G": {1: "ms_5G_K1", 5: "ms_5G_K5"}, "WiFi": {5: "ms_WiFi_K5"}}
"""Printed latencies of a fixed K by network and K; over WiFi the paper prints FlexSpec's own in place of K = 1."""
RADIO_W, DRAFTING_W = 1.1, 5.0
"""Stated: a connected LTE radio between exchanges, and a phone's NPU or GPU at work."""
PHONE_S = next(ms / 1e3 for name, ms, _ in DEVICES if name == "Snapdragon 8 Gen 3")
"""Time of a draft on the mobile device of Section V-F, by Table V."""
BASELINE = "0.7"  # grey
SHOWN = "4G"
"""The drawn network: Fig. 6 names none, and Table V, of the same devices, has this one."""


def _ends(found: Estimate, scale: float = 1.0, *, few: bool = False) -> list[float | None]:
    return list((Estimate(found.value) * scale if few else found * scale).plain(digits=6).values())


def simulate_latencies(seed: int, pair: str | None = None) -> Numbers:
    study = c.counted(pair)
    case = Case(study, 0.0)
    chosen = c.chosen_prompts(study, SET)
    series, standard, few = [], {}, chosen.sum() < 3  # a bootstrap over fewer gives no interval
    for place, network in enumerate(NETWORKS):
        lines = []
        for line in (line for line in c.LINES if line.name in case.lines[network]):
            own = case.lines[network][line.name].of(chosen)
            timed = ratio(c.over(network)(own), own.tokens, seed=seed)
            one: dict[str, Any] = {"name": line.name, "ms": _ends(timed, 1e3, few=few)}
            if line.column:
                one["printed_ms"] = float(LATENCIES["III"][0][0, place, METHODS.index(line.column)])
            lines.append(one)
        series.append({"name": network, "lines": lines})
        sd, rule = (case.lines[network][name].of(chosen) for name in (c.STANDARD, case.rule))
        times = c.over(network)
        standard[network] = _ends(c.quotient((times(sd), sd.tokens), (times(rule), rule.tokens), seed), few=few)
    axes = {"x": axis("latency of a token", "ms"), "y": axis("method")}
    return {
        "axes": [axes] * len(series),
        "series": series,
        "statistics": {"rule": case.rule, "standard": standard},
        "basis": basis(study),
        **study.record,
    }


_ROLES = {c.FLEXSPEC: MIDDLE, c.EXACT: DARK, c.RULE_ALONE: AMBER}
_FITTED = {c.CLOUD: f"{c.CLOUD} (delays fitted to it)"}


def paint_latencies(numbers: Numbers) -> Canvas:
    figure, panels = canvas((7.0, 2.9), panels=len(numbers["series"]))
    style.name_panels(panels, numbers["axes"])
    for axes, one in zip(panels, numbers["series"], strict=True):
        for place, line in enumerate(one["lines"]):
            middle, low, high = line["ms"]
            axes.barh(-place, middle, 0.7, color=_ROLES.get(line["name"], BASELINE))
            axes.plot(style.values([low, high]), [-place] * 2, "|-", color="black", linewidth=0.8, markersize=4)
            if "printed_ms" in line:
                axes.plot(line["printed_ms"], -place, **PRINTED)
        axes.set(title=one["name"], ylabel="", ylim=(-len(one["lines"]) + 0.4, 0.6), xlim=(0, None))
        names_ = [_FITTED.get(line["name"], line["name"]) for line in one["lines"]]
        axes.set_yticks([-float(place) for place in range(len(names_))], names_)
        axes.grid(axis="y", visible=False)
        if axes is not panels[0]:
            axes.tick_params(axis="y", labelleft=False)
    panels[-1].plot([], [], label="printed", **PRINTED)
    legend = {"baseline": BASELINE} | {name: role for name, role in _ROLES.items() if name in names_}
    for label, role in legend.items():
        panels[-1].barh(0, 0, color=role, label=label)
    figure.legend(*panels[-1].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return figure


def simulate_sweep(seed: int) -> Numbers:
    """Time every fixed draft length and the rules, on GSM8K at temperature 0 over each network."""
    study = c.counted()
    case = Case(study, 0.0)
    chosen = c.chosen_prompts(study, SET)
    draft = c.ALIGNED
    series, statistics = [], {}
    for network in NETWORKS:
        texts = case.by_length(draft, network) | {"cloud": case.lines[network][c.CLOUD]}
        ms = {name: plain(c.milliseconds(one.of(chosen), c.over(network)), 5) for name, one in texts.items()}
        fixed = [ms[f"fixed K = {length}"] for length in c.LENGTHS]
        each = [texts[f"fixed K = {length}"].of(chosen) for length in c.LENGTHS]
        ends = [c.quotient((1e3 * one.seconds(network), one.tokens), (one.tokens,) * 2, seed).ends for one in each]
        low, high = (plain(side, 5) for side in zip(*ends, strict=True))
        printed = {str(length): value("flexspec", name) for length, name in STRIDES.get(network, {}).items()}
        series.append(
            {"name": network, "x": list(c.LENGTHS), "y": fixed, "low": low, "high": high}
            | {"rule": ms["Algorithm 2"], "optimum": ms["K*"], "printed": printed, "cloud": ms["cloud"]}
        )
        statistics[network] = {"best": c.LENGTHS[fixed.index(min(fixed))]}
    fastest = ", ".join(f"{one['best']} over {network}" for network, one in statistics.items())
    axes = {"x": axis("draft length K"), "y": axis("latency of a token", "ms")}
    return {
        "axes": [axes] * len(series),
        "series": series,
        "statistics": {"draft": draft, "networks": statistics, "fastest": fastest},
        "basis": basis(study),
        **study.record,
    }


def paint_sweep(numbers: Numbers) -> Canvas:
    figure, panels = canvas((7.0, 2.5), panels=len(numbers["series"]))
    style.name_panels(panels, numbers["axes"])
    for axes, one in zip(panels, numbers["series"], strict=True):
        axes.fill_between(one["x"], one["low"], one["high"], color=LIGHT)
        axes.plot(one["x"], one["y"], "o-", color=DARK, markersize=3.5, label="fixed K, ours")
        axes.axhline(one["rule"], color=MIDDLE, linestyle=(0, (4, 2)), label="FlexSpec's rule, ours")
        axes.axhline(one["cloud"], color="0.6", linestyle=(0, (1, 1.5)), label="Cloud-Only")
        axes.plot([int(length) for length in one["printed"]], list(one["printed"].values()), **PRINTED)
        ms, best = min(zip(one["y"], one["x"], strict=True))
        axes.annotate(f"fastest K = {best}", (best, ms), (best, 0.4 * ms), ha="center", arrowprops={"arrowstyle": "->"})
        if one["name"] == "WiFi":
            rule = value("flexspec", "ms_WiFi_flexspec")
            axes.axhline(rule, color="black", linestyle=(0, (1, 1.5)))
            axes.text(c.LENGTHS[-1], rule, "FlexSpec's rule, printed", fontsize=SMALLEST, ha="right", va="bottom")
            axes.text(5.8, one["printed"]["5"], "K = 5 printed: slower\nthan no drafts", fontsize=SMALLEST, va="center")
        axes.set(title=one["name"], xlim=(0.2, len(one["x"]) + 0.8), xticks=(1, 4, 8, 12, 16))
        axes.set_ylim(0, 1.1 * max(one["cloud"], *one["printed"].values(), 0.0))
    panels[1].plot([], [], label="printed", **PRINTED)
    panels[1].legend(loc="upper right", bbox_to_anchor=(1.0, 0.9))
    return figure


def _joules(texts: Texts) -> tuple[Any, Any]:
    return RADIO_W * texts.seconds(SHOWN, draft_s=PHONE_S), DRAFTING_W * PHONE_S * texts.draft_passes


def simulate_energy(seed: int) -> Numbers:
    """Compute the device's energy on GSM8K at temperature 0 from counts, assumed times and stated powers."""
    study = c.counted()
    case = Case(study, 0.0)
    chosen = c.chosen_prompts(study, SET)
    cloud = case.lines[SHOWN][c.CLOUD].of(chosen)
    base = _joules(cloud)[0]
    bars: list[dict[str, Any]] = []
    for name in (c.CLOUD, c.STANDARD, c.FLEXSPEC, c.RULE_ALONE):
        own = case.lines[SHOWN][name].of(chosen)
        radio, drafting = _joules(own)
        tokens = own.tokens.sum()
        bars.append(
            {
                "name": name,
                "radio": plain(radio.sum() / tokens, 5),
                "drafting": plain(drafting.sum() / tokens, 5),
                "share": _ends(c.quotient((radio + drafting, own.tokens), (base, cloud.tokens), seed)),
                "cloud": plain(base.sum() / cloud.tokens.sum(), 5),
            }
        )
    whole, sent, saved = (value("flexspec", name) for name in ("cloud_j", "communication_j", "saved"))
    printed = [
        {"name": c.CLOUD, "radio": 1.0, "drafting": 0.0},
        {"name": c.FLEXSPEC, "radio": plain(sent / whole, 4), "drafting": plain(1.0 - saved - sent / whole, 4)},
    ]
    return {
        "axes": [{"x": axis("energy of a token, Cloud-Only = 1"), "y": axis("method")}],
        "series": [{"name": "printed", "bars": printed}, {"name": SHOWN, "bars": bars}],
        "statistics": {"draft": c.ALIGNED, "saved": plain(1.0 - bars[2]["share"][0], 4)},
        "basis": f"{basis(study)}; radio {RADIO_W:g} W, drafting {DRAFTING_W:g} W",
        **study.record,
    }


def paint_energy(numbers: Numbers) -> Canvas:
    figure, (axes,) = canvas((4.8, 2.4))
    bars, names, places, at = [], [], [], 0.0
    for one in numbers["series"]:
        for bar in one["bars"]:
            scale = bar.get("cloud", 1.0)
            bars.append((bar["radio"] / scale, bar["drafting"] / scale, bar.get("share")))
            names.append(f"{bar['name']}, {'printed' if one['name'] == 'printed' else 'ours'}")
            places.append(at)
            at -= 1.0
        at -= 0.4
    radio, drafting = ([bar[side] for bar in bars] for side in (0, 1))
    axes.barh(places, radio, 0.7, color=LIGHT, label="radio")
    axes.barh(places, drafting, 0.7, left=radio, color=DARK, label="drafting")
    for place, (_, _, share) in zip(places, bars, strict=True):
        if share is not None:
            axes.plot(share[1:], [place] * 2, "|-", color="0.5", linewidth=0.8, markersize=5)
    style.name_panels([axes], numbers["axes"])
    axes.set(xlim=(0.0, 1.08), ylabel="")
    axes.set_yticks(places, names)
    axes.grid(axis="y", visible=False)
    axes.legend(loc="lower right")
    return figure
