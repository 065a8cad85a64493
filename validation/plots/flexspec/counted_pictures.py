"""Draw Figs. 4, 5 and 6 of flexspec (li2025flexspec) from counted rounds.

Fig. 6 is a model: the radio stays in its connected state all the time, because the pauses between exchanges are shorter
than its tail, and the device drafts. Both powers are stated (:data:`RADIO_W`, :data:`DRAFTING_W`); it prints none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from validation.decoding.intervals import ratio
from validation.plots.common.record import Numbers, Printed, Table, plain
from validation.plots.common.style import DARK, LIGHT, MIDDLE, axis, canvas, name_axes
from validation.plots.flexspec import counted as c
from validation.plots.flexspec import counted_lines as k
from validation.plots.flexspec import implied_energy as energy
from validation.plots.flexspec.computed import stride_tables
from validation.plots.flexspec.counted import Texts
from validation.plots.flexspec.counted_lines import Case
from validation.plots.flexspec.counted_tables import basis, drafts_shown, printed_gain
from validation.plots.flexspec.printed import FLEXSPECS_OWN, LATENCIES, METHODS, NETWORKS, STRIDES
from validation.plots.flexspec.texts_lengths import ends, with_interval
from validation.plots.flexspec.texts_lines import quotient

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

SET = "GSM8K"
DRAWN = tuple(range(1, 9))
"""Draft lengths of Fig. 5."""
RADIO_W, DRAFTING_W = 1.1, 5.0
"""Stated: a connected LTE radio between exchanges, and a phone's NPU or GPU at work."""
OTHER_W = ((1.1, 2.0), (1.1, 10.0), (2.5, 5.0))
"""Other pairs of powers, for the table."""


# ------------------------------------------------------------------------------------------------------- Fig. 4


def simulate_latencies(seed: int) -> Numbers:
    """Time all methods on GSM8K at temperature 0 over each network."""
    study = c.counted()
    case = Case(study, 0.0)
    chosen = k.chosen_prompts(study, SET)
    series, rows = [], []
    for place, network in enumerate(NETWORKS):
        lines = []
        for line in k.LINES:
            one: dict[str, Any] = {"name": line.name}
            texts = case.lines[network].get(line.name)
            if line.column:
                one["printed_ms"] = float(LATENCIES["III"][0][0, place, METHODS.index(line.column)])
            if texts is not None:
                own = texts.of(chosen)
                found = ratio(k.over(network)(own), own.tokens, seed=seed)
                one["ms"] = [None if value is None else plain(1e3 * value, 6) for value in ends(found)]
            if texts is not None or line.column:
                lines.append(one)
                gain = printed_gain("III", SET, network, line.column)
                rows.append(
                    (
                        network,
                        line.name,
                        f"{one['printed_ms']:.0f}" if "printed_ms" in one else "–",
                        "not run" if texts is None else f"{one['ms'][0]:.0f} [{one['ms'][1]:.0f}, {one['ms'][2]:.0f}]",
                        "–" if gain is None else f"{gain:.2f}",
                    )
                )
        series.append({"name": network, "lines": lines})
    heads = ("network", "method", "printed, ms a token", "ours", "printed speed-up")
    axes = {"x": axis("latency of a token", "ms"), "y": axis("method")}
    return {
        "axes": [axes] * len(series),
        "series": series,
        "statistics": {"draft": drafts_shown(case)[0]},
        "tables": [Table("Latency on GSM8K, temperature 0, target version 0", heads, tuple(rows)).plain()],
        "basis": basis(study),
        **study.record,
    }


def paint_latencies(numbers: Numbers) -> Canvas:
    """Paint our latencies as bars and the printed ones as diamonds, a panel for each network."""
    figure, panels = canvas((7.0, 2.9), panels=len(numbers["series"]))
    for axes, one, names in zip(panels, numbers["series"], numbers["axes"], strict=True):
        for place, line in enumerate(one["lines"]):
            if "ms" in line:
                middle, low, high = line["ms"]
                color = LIGHT if line["name"] == k.CLOUD else DARK
                axes.barh(-place, middle, 0.7, color=color)
                axes.plot([low, high], [-place] * 2, "|-", color="0.6", linewidth=0.8, markersize=4)
            if "printed_ms" in line:
                axes.plot(line["printed_ms"], -place, "D", color=MIDDLE, markersize=3.5, zorder=3)
        name_axes(axes, names)
        axes.set_ylabel("")
        axes.set(title=one["name"], ylim=(-len(one["lines"]) + 0.4, 0.6))
        axes.set_xlim(0, None)
        axes.set_yticks([-float(place) for place in range(len(one["lines"]))], [line["name"] for line in one["lines"]])
        axes.grid(axis="y", visible=False)
        if axes is not panels[0]:
            axes.tick_params(axis="y", labelleft=False)
    panels[-1].plot([], [], "D", color=MIDDLE, markersize=3.5, label="printed")
    panels[-1].barh(0, 0, color=DARK, label="ours")
    panels[-1].legend(loc="lower right")
    return figure


def _latency(numbers: Numbers, network: str, name: str) -> float | None:
    lines = next(one for one in numbers["series"] if one["name"] == network)["lines"]
    return next((line["ms"][0] for line in lines if line["name"] == name and "ms" in line), None)


def message_latencies(numbers: Numbers) -> str:
    """Give FlexSpec's speed-ups, and whether the printed slowdowns show."""
    said = []
    for network in NETWORKS:
        own, cloud = _latency(numbers, network, k.FLEXSPEC), _latency(numbers, network, k.CLOUD)
        if own and cloud:
            said.append(cloud / own)
    standard = [_latency(numbers, network, k.STANDARD) for network in NETWORKS]
    clouds = [_latency(numbers, network, k.CLOUD) for network in NETWORKS]
    slower = any(a and b and a > b for a, b in zip(standard, clouds, strict=True))
    flexspec = f"FlexSpec is at least {min(said):.2f} times as fast as Cloud-Only" if said else ""
    return f"{flexspec}{', and ' if said else ''}standard SD {'is' if slower else 'is not'} slower than Cloud-Only."


# ------------------------------------------------------------------------------------------------------- Fig. 5


def simulate_sweep(seed: int) -> Numbers:
    """Time every fixed draft length and the rules, on GSM8K at temperature 0 over each network."""
    study = c.counted()
    case = Case(study, 0.0)
    chosen = k.chosen_prompts(study, SET)
    series, tables, statistics = [], [], {}
    for draft in drafts_shown(case):
        cells: dict[str, list[str]] = {}
        for network in NETWORKS:
            found = {name: texts.of(chosen) for name, texts in case.by_length(draft, network).items()}
            ms = {name: k.milliseconds(texts, k.over(network)) for name, texts in found.items()}
            for name, value in ms.items():
                cells.setdefault(name, []).append(f"{value:.0f}")
            if draft == drafts_shown(case)[0]:
                series.append(
                    {
                        "name": network,
                        "x": list(DRAWN),
                        "y": plain([ms[f"fixed K = {length}"] for length in DRAWN], 5),
                        "rule": plain(ms["Algorithm 2"], 5),
                        "optimum": plain(ms["K*"], 5),
                        "printed": {
                            str(length): value
                            for length, value in STRIDES.get(network, {}).items()
                            if length and (network, length) != FLEXSPECS_OWN
                        },
                        "cloud": plain(k.milliseconds(case.lines[network][k.CLOUD].of(chosen), k.over(network)), 5),
                    }
                )
                statistics[network] = _worst(found, ms, network, seed)
        title = f"Latency on GSM8K, temperature 0, {draft} draft, in ms a token"
        rows = tuple((name, *values) for name, values in cells.items())
        tables.append(Table(title, ("length", *NETWORKS), rows).plain())
    axes = {"x": axis("draft length K"), "y": axis("latency of a token", "ms")}
    return {
        "axes": [axes] * len(series),
        "series": series,
        "statistics": {"draft": drafts_shown(case)[0], "networks": statistics},
        "tables": [*tables, *stride_tables()],
        "basis": basis(study),
        **study.record,
    }


def _worst(found: dict[str, Texts], ms: dict[str, float], network: str, seed: int) -> dict[str, Any]:
    """Return the best fixed length, and the time of the rules over its time."""
    best = min((name for name in ms if "fixed" in name), key=ms.__getitem__)
    times = k.over(network)
    over = {
        name: ends(quotient((times(found[name]), found[name].tokens), (times(found[best]), found[best].tokens), seed))
        for name in ("Algorithm 2", "K*", "by the profile")
    }
    return {"best": int(best.removeprefix("fixed K = ")), "over_best": over}


def paint_sweep(numbers: Numbers) -> Canvas:
    """Paint latency over K, a panel for each network, with the adaptive rule as a line."""
    figure, panels = canvas((7.0, 2.5), panels=len(numbers["series"]))
    for axes, one, names in zip(panels, numbers["series"], numbers["axes"], strict=True):
        axes.plot(one["x"], one["y"], "o-", color=DARK, markersize=3.5, label="fixed K, ours")
        axes.axhline(one["rule"], color=MIDDLE, linestyle=(0, (4, 2)), label="FlexSpec's rule, ours")
        axes.axhline(one["cloud"], color="0.6", linestyle=(0, (1, 1.5)), label="Cloud-Only")
        if one["printed"]:
            lengths = [int(length) for length in one["printed"]]
            axes.plot(lengths, list(one["printed"].values()), "D", color=MIDDLE, markersize=4.5)
        name_axes(axes, names)
        axes.set(title=one["name"], xlim=(0.5, 8.5), xticks=[1, 3, 5, 7])
        axes.set_ylim(0, 1.1 * max(one["cloud"], *one["printed"].values(), 0.0))
        if axes is not panels[0]:
            axes.set_ylabel("")
    panels[1].plot([], [], "D", color=MIDDLE, markersize=4.5, label="printed")
    panels[1].legend(loc="upper right", bbox_to_anchor=(1.0, 0.9))
    return figure


def message_sweep(numbers: Numbers) -> str:
    """Give the best fixed lengths."""
    best = {network: one["best"] for network, one in numbers["statistics"]["networks"].items()}
    if set(best.values()) == {max(DRAWN)}:
        return f"Longer drafts are faster up to the limit of {max(DRAWN)}, over every network."
    each = ", ".join(f"{length} over {network}" for network, length in best.items())
    return f"The best fixed draft length up to {max(DRAWN)} is {each}."


def caption_sweep(numbers: Numbers) -> str:
    """Compare the rule to the best fixed length."""
    found = numbers["statistics"]["networks"]
    over = {network: one["over_best"]["Algorithm 2"][0] for network, one in found.items()}
    if set(over.values()) == {1.0}:
        return f"Algorithm 2 chooses {next(iter(found.values()))['best']} too."
    each = ", ".join(f"{ratio:.2f} times as long over {network}" for network, ratio in over.items())
    return f"Algorithm 2 takes {each}."


# ------------------------------------------------------------------------------------------------------- Fig. 6


def _joules(texts: Texts, network: str, powers: tuple[float, float]) -> tuple[Any, Any]:
    """Return joules of radio and drafting of each text."""
    drafting = energy.PHONE_S * texts.draft_passes
    return powers[0] * texts.seconds(network, draft_s=energy.PHONE_S), powers[1] * drafting


def simulate_energy(seed: int) -> Numbers:
    """Compute the device's energy on GSM8K at temperature 0 from counts, assumed times and stated powers."""
    study = c.counted()
    case = Case(study, 0.0)
    chosen = k.chosen_prompts(study, SET)
    rows, bars = [], []
    for network in NETWORKS:
        cloud = case.lines[network][k.CLOUD].of(chosen)
        base = _joules(cloud, network, (RADIO_W, DRAFTING_W))[0]
        for name in (k.CLOUD, k.STANDARD, k.FLEXSPEC, k.RULE_ALONE):
            texts = case.lines[network].get(name)
            if texts is None:
                continue
            own = texts.of(chosen)
            radio, drafting = _joules(own, network, (RADIO_W, DRAFTING_W))
            share = quotient((radio + drafting, own.tokens), (base, cloud.tokens), seed)
            tokens = own.tokens.sum()
            one = {
                "name": name,
                "radio": plain(radio.sum() / tokens, 5),
                "drafting": plain(drafting.sum() / tokens, 5),
                "share": ends(share),
                "cloud": plain(base.sum() / cloud.tokens.sum(), 5),
            }
            rows.append((network, name, f"{one['radio']:.3f}", f"{one['drafting']:.3f}", with_interval(share, ".2f")))
            if network == energy.SHOWN:
                bars.append(one)
    heads = ("network", "method", "radio, J a token", "drafting, J a token", "times Cloud-Only's")
    title = f"Energy on GSM8K: radio {RADIO_W:g} W all the time, drafting {DRAFTING_W:g} W; stated by us"
    other = [_other_powers(case, chosen, powers) for powers in OTHER_W]
    printed = [
        {"name": k.CLOUD, "radio": 1.0, "drafting": 0.0},
        {
            "name": k.FLEXSPEC,
            "radio": plain(energy.COMMUNICATION_J / energy.CLOUD_J, 4),
            "drafting": plain(energy.COMPUTE_J / energy.CLOUD_J, 4),
        },
    ]
    return {
        "axes": [{"x": axis("energy of a token, Cloud-Only = 1"), "y": axis("method")}],
        "series": [{"name": "printed", "bars": printed}, {"name": energy.SHOWN, "bars": bars}],
        "statistics": {"draft": drafts_shown(case)[0]},
        "tables": [
            Table(title, heads, tuple(rows)).plain(),
            Table(
                f"Share of Cloud-Only's energy over {energy.SHOWN} with other powers",
                ("radio, drafting", k.STANDARD, k.FLEXSPEC, k.RULE_ALONE),
                tuple(other),
            ).plain(),
            energy.implied_table(),
        ],
        "basis": f"{basis(study)}; radio {RADIO_W:g} W, drafting {DRAFTING_W:g} W",
        **study.record,
    }


def _other_powers(case: Case, chosen: Any, powers: tuple[float, float]) -> tuple[str, ...]:
    network = energy.SHOWN
    cloud = case.lines[network][k.CLOUD].of(chosen)
    base = _joules(cloud, network, powers)[0].sum() / cloud.tokens.sum()  # Cloud-Only drafts nothing
    cells = []
    for name in (k.STANDARD, k.FLEXSPEC, k.RULE_ALONE):
        texts = case.lines[network].get(name)
        if texts is None:
            cells.append("not run")
            continue
        own = texts.of(chosen)
        radio, drafting = _joules(own, network, powers)
        cells.append(f"{(radio.sum() + drafting.sum()) / own.tokens.sum() / base:.2f}")
    return (f"{powers[0]:g} W, {powers[1]:g} W", *cells)


def paint_energy(numbers: Numbers) -> Canvas:
    """Paint radio and drafting as shares of Cloud-Only's energy, printed and ours."""
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
    name_axes(axes, numbers["axes"][0])
    axes.set_ylabel("")
    axes.set_yticks(places, names)
    axes.grid(axis="y", visible=False)
    axes.legend(loc="lower right")
    return figure


def message_energy(numbers: Numbers) -> str:
    """Give the shares saved, ours and printed."""
    bars = {bar["name"]: bar for bar in numbers["series"][1]["bars"]}
    own = bars.get(k.FLEXSPEC)
    if own is None:
        return "FlexSpec was not run."
    return (
        f"With stated powers FlexSpec saves {1.0 - own['share'][0]:.0%} of the device's energy over {energy.SHOWN}; "
        f"printed {energy.SAVED:.0%}."
    )


def _stride(network: str, length: int, value: float) -> Printed:
    """Return a printed latency of Section V-C, or of Cloud-Only in Table III."""
    if (network, length) == FLEXSPECS_OWN:
        return Printed(f"latency of FlexSpec, {network} (ms)", value, "Section V-C")
    what = f"latency of K = {length}, {network} (ms)" if length else f"latency of Cloud-Only, {network} (ms)"
    return Printed(what, value, "Section V-C" if length else "Table III")


PRINTED_STRIDES = tuple(
    _stride(network, length, value) for network, points in STRIDES.items() for length, value in points.items()
)
