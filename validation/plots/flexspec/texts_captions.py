"""Write captions of flexspec's latencies, measured on decoded texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from validation.decoding.studies import RATES_BPS
from validation.plots.common.record import Numbers
from validation.plots.flexspec import texts_lines as lines
from validation.plots.flexspec.printed import DATASETS, LATENCIES, METHODS, NETWORKS
from validation.plots.flexspec.texts_lengths import ALONE, LLAMA_VOCABULARY, ROWS

Ends = Sequence[float | None]
"""Value, low and high."""


def caption(number: str, numbers: Numbers) -> str:
    """Give details for the tables, by their numbers; the tables hold all other results."""
    statistics = numbers["statistics"]
    law = _law(statistics) if statistics["temperature"] else _greedy(statistics)
    parts = [] if number == "III" else [_printed(number, numbers)]
    parts += [_lengths(statistics), _fixed(statistics), law, _others(number, numbers)]
    return " ".join(part for part in parts if part)


def _line(numbers: Numbers, network: str, name: str) -> dict[str, Any] | None:
    """Return a line over a network, or None if it was not run."""
    series = next(one for one in numbers["series"] if one["name"] == network)
    return next((one for one in series["lines"] if one["name"] == name and one["run"]), None)


def _printed(table: str, numbers: Numbers) -> str:
    """Compare FlexSpec as printed, and standard SD, to the printed values."""
    found = {
        name: [
            (own["speed_up"][0], own["printed_speed_up"])
            for network in NETWORKS
            if (own := _line(numbers, network, name))
        ]
        for name in (lines.PRINTED, lines.STANDARD)
    }
    said = "; ".join(
        f"{name} {', '.join(f'{ours:.2f}× ({theirs:.2f}×)' for ours, theirs in pairs)}"
        for name, pairs in found.items()
        if pairs
    )
    sources = numbers["statistics"]["sources"]
    other = "" if sources == [lines.SET] else f" Prompts: {', '.join(sources)}, as there are none of {lines.SET}."
    return f"Over {', '.join(NETWORKS)}, ours (Table {table}): {said}. The models are not the paper's.{other}"


def _others(table: str, numbers: Numbers) -> str:
    """Describe the paper's other prompt sets, and the methods that are not run."""
    statistics, run = numbers["statistics"], {one["name"] for one in numbers["series"][0]["lines"] if one["run"]}
    found = {source: by_line for source, by_line in statistics["other_sets"].items() if source in DATASETS}
    parts = []
    for name, column in ((lines.PRINTED, "FlexSpec"), (lines.STANDARD, "Std. SD")) if found else ():
        place = [DATASETS.index(source) for source in found]
        theirs = LATENCIES[table][1][place, :, METHODS.index(column)]
        ours = [gain for by_line in found.values() for gain in by_line.get(name, {}).values()]
        if ours:
            printed = f"{theirs.min():.2f}× to {theirs.max():.2f}×"
            parts.append(f"{name} {min(ours):.2f}× to {max(ours):.2f}× (printed {printed})")
    said = ""
    if parts:
        said = (
            f"All other numbers are of {lines.SET}. On {', '.join(found)}, over all networks: {'; '.join(parts)}. "
            f"There {percent(statistics['other_unended'])} of Cloud-Only's tokens belong to texts that had not ended "
            "at r_max. The models are not the paper's. "
        )
    missing = [line.name for line in lines.LINES if line.name not in run]
    if sets := [name for name in DATASETS[1:] if name not in found]:
        missing.append(f"with this pair, the prompts of {', '.join(sets)}")
    return f"{said}Not run: {'; '.join(missing)}."


def _lengths(statistics: Mapping[str, Any]) -> str:
    """Compare the draft lengths of the printed rule to K*."""
    chosen = statistics["choices"]
    over = statistics["exact_over_linear"]
    if not {lines.PRINTED, lines.EXACT_PRINTED} <= set(chosen) or "printed" not in over:
        return ""
    exact = {network: one["longest"] for network, one in chosen[lines.EXACT_PRINTED].items() if one["rounds"]}
    return (
        f"{_rule(chosen[lines.PRINTED], statistics['longest'])} K* equals K_max in {_shares(exact)}. With K* a token "
        f"takes {_several(over['printed'])} times as long."
        + (
            f" Where both are lossless it takes {_several(over['lossless'])} times as long."
            if "lossless" in over and statistics["temperature"]
            else ""
        )
    )


def _rule(chosen: Mapping[str, Mapping[str, float]], longest: int) -> str:
    """Give how often the printed rule drafted K_max, and whether any round is between 1 and K_max.

    (1 + γ̂K)/T(K) with T linear is monotone in K, so the rule chooses an end; but drafting stops at an end of text.
    """
    counted = {network: one for network, one in chosen.items() if one["rounds"]}
    ends = {network: round((one["longest"] + one["one"]) * one["rounds"]) for network, one in counted.items()}
    between = {network: 1.0 - ends[network] / one["rounds"] for network, one in counted.items()}
    cut = f" It drafts fewer, because of a drafted end of text, in {_shares(between)}." if any(between.values()) else ""
    most = _shares({network: one["longest"] for network, one in counted.items()})
    return (
        f"The printed rule drafts 1 or K_max tokens; K_max = {longest} is ours, none is printed. It drafts K_max in "
        f"{most}.{cut}"
    )


def _shares(found: Mapping[str, float]) -> str:
    """Give shares of the rounds: one share if the networks agree, otherwise one for each network.

    >>> _shares({"5G": 1.0, "4G": 1.0}), _shares({"5G": 0.5, "4G": 0.996})
    ('100% of the rounds over 5G and 4G alike', '50% (5G), 99.6% (4G) of the rounds')
    """
    if not found:
        return "none of the rounds, as the end of the text cuts them all short"
    each = {network: percent(share) for network, share in found.items()}
    if len(set(found.values())) == 1:
        alike = " alike" if len(each) > 1 else ""
        return f"{next(iter(each.values()))} of the rounds over {_listed(list(each))}{alike}"
    return f"{', '.join(f'{share} ({network})' for network, share in each.items())} of the rounds"


def percent(share: float) -> str:
    """Round to a whole percent, with more digits where rounding would give 0% or 100% wrongly.

    >>> percent(1.0), percent(0.996), percent(0.0004)
    ('100%', '99.6%', '0.04%')
    """
    forms = (f"{share:.{digits}%}" for digits in count())
    return next(text for text in forms if (float(text[:-1]) in (0.0, 100.0)) == (share in (0.0, 1.0)))


def _fixed(statistics: Mapping[str, Any]) -> str:
    """Compare FlexSpec to every fixed length."""
    lengths = statistics["lengths"]
    name = ALONE if ALONE in lengths else ROWS
    against = lengths.get(name, {}).get("flexspec_over_best", {})
    said = [
        f"“{line}” takes {_several(against[line])} of its time: {verdict(against[line])}."
        for line in ((lines.PRINTED, lines.EXACT_PRINTED) if name == ALONE else (lines.LINEAR, lines.EXACT))
        if line in against
    ]
    if not said:
        return ""
    best = ", ".join(str(lengths[name]["best"][network][0]) for network in NETWORKS)
    return f"The best fixed K of standard SD in hindsight is {best} ({name} sent). {' '.join(said)}"


def verdict(found: Mapping[str, Ends]) -> str:
    """Name the networks for which an interval of a quotient of times is below 1, or above.

    >>> verdict({"5G": (0.9, 0.8, 0.95), "WiFi": (1.0, 0.9, 1.1)})
    'faster over 5G, and not shown to differ over WiFi'
    """
    groups: dict[str, list[str]] = {"faster": [], "slower": [], "not shown to differ": []}
    for network, (_, low, high) in found.items():
        kind = "not shown to differ"
        if high is not None and high < 1.0:
            kind = "faster"
        elif low is not None and low > 1.0:
            kind = "slower"
        groups[kind].append(network)
    *before, last = (f"{kind} over {_listed(names)}" for kind, names in groups.items() if names)
    return ", ".join([*before, f"and {last}" if before else last])


def _listed(names: Sequence[str]) -> str:
    """Return names with commas, and "and" before the last.

    >>> _listed(["5G"]), _listed(["5G", "4G", "WiFi"])
    ('5G', '5G, 4G and WiFi')
    """
    *before, last = names
    return f"{', '.join(before)} and {last}" if before else last


def _greedy(statistics: Mapping[str, Any]) -> str:
    """Give whether the texts equal Cloud-Only's, as in exact arithmetic."""
    law = "At temperature 0 every method is lossless in exact arithmetic, the printed acceptance too"
    differing = {name: share for name, share in statistics["equal_texts"].items() if share < 1.0}
    if not differing:
        return f"{law}: all texts are Cloud-Only's, token by token."
    said = ", ".join(f"{name} {percent(share)}" for name, share in differing.items())
    return (
        f"{law}, yet here not all texts are Cloud-Only's: {said}; all others are. A pass over several drafts rounds "
        "differently from a pass over a single token, which changes the argmax if two logits nearly tie. Whether this "
        "explains all differences was not checked."
    )


def _law(statistics: Mapping[str, Any]) -> str:
    """Explain that the printed acceptance is not lossless, and the cost of a lossless one."""
    risk, parts = statistics["risk"].get(lines.PRINTED), []
    if risk is not None:
        parts.append(
            "The printed acceptance, by the argmax of p, does not preserve p: the bound of the total variation is "
            f"{risk['token']:.3f} per token and {risk['text']:.3g} per "
            f"text{', which is vacuous' * (risk['text'] >= 1)}."
        )
    down = statistics["bytes_down"].get(lines.LINEAR)
    if down is not None:
        parts.append(
            "Lossless acceptance needs more than token indices: q_d with every draft on the uplink, and p after a "
            f"rejection on the downlink. The downlink, {down:,.0f} bytes per token, is free here."
        )
    rows = statistics["lengths"].get(f"{ROWS} of {LLAMA_VOCABULARY:,}")
    if rows is not None:
        ours, theirs = (32e3 * size / RATES_BPS["WiFi"] for size in (statistics["vocabulary"], LLAMA_VOCABULARY))
        length, milliseconds = rows["best"]["WiFi"]
        parts.append(
            f"A distribution q takes {ours:.0f} ms over WiFi at our V = {statistics['vocabulary']:,}, and "
            f"{theirs:.0f} ms at Llama-2's {LLAMA_VOCABULARY:,}. Standard SD then needs at best {milliseconds:.0f} ms "
            f"per token, with K = {length}."
        )
    return " ".join(parts)


def _several(found: Mapping[str, Ends]) -> str:
    """Give values with their intervals, by network."""
    return ", ".join(
        f"{value:.2f}" + ("" if low is None or high is None else f" [{low:.2f}, {high:.2f}]")
        for value, low, high in found.values()
    )


def message(number: str, numbers: Numbers) -> str:
    """Give one sentence for the tables, by their numbers."""
    lengths = numbers["statistics"]["lengths"]
    name = ALONE if ALONE in lengths else ROWS
    against = lengths.get(name, {}).get("flexspec_over_best", {})
    line = lines.PRINTED if name == ALONE else lines.LINEAR
    if line not in against:
        return "FlexSpec was not compared with fixed draft lengths."
    return f"Against standard SD at the best fixed draft length, “{line}” is {verdict(against[line])}."
