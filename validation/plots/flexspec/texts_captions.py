"""What is said under flexspec's latencies as measured on decoded texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from validation.decoding.studies import RATES_BPS
from validation.plots.flexspec import texts_lines as lines
from validation.plots.flexspec.printed import NETWORKS
from validation.plots.flexspec.texts_lengths import ALONE, LLAMA_VOCABULARY, ROWS
from validation.plots.record import Numbers

UNIT = "Latency is ms a token, prompt apart; Cloud-Only's agrees by construction (see the table of what is taken)."
NOT_RUN = "Medusa-1, EAGLE-2 and the paper's five other prompt sets are not run."
Ends = Sequence[float | None]
"""Value, low and high."""


def caption(number: str, numbers: Numbers) -> str:
    """What follows, for Fig. 4 and the tables by their numbers; the rest is in the tables beside."""
    statistics = numbers["statistics"]
    if number == "4":
        return " ".join([UNIT, _printed("III", numbers), _fixed(statistics)])
    law = _law(statistics) if statistics["temperature"] else _greedy(statistics)
    parts = [] if number == "III" else [_printed(number, numbers)]
    return " ".join(part for part in (*parts, _lengths(statistics), _fixed(statistics), law, NOT_RUN) if part)


def _line(numbers: Numbers, network: str, name: str) -> dict[str, Any] | None:
    """A line over a network, if it was run."""
    series = next(one for one in numbers["series"] if one["name"] == network)
    return next((one for one in series["lines"] if one["name"] == name and one["run"]), None)


def _printed(table: str, numbers: Numbers) -> str:
    """FlexSpec as printed, and standard SD, against the printed."""
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


def _lengths(statistics: Mapping[str, Any]) -> str:
    """Bang-bang against K*."""
    chosen = statistics["choices"]
    over = statistics["exact_over_linear"]
    if not {lines.PRINTED, lines.EXACT_PRINTED} <= set(chosen) or "printed" not in over:
        return ""
    linear, exact = ([one["longest"] for one in chosen[name].values()] for name in (lines.PRINTED, lines.EXACT_PRINTED))
    return (
        f"The printed rule is bang-bang: K_max = {statistics['longest']}, ours as none is printed, in "
        f"{_percents(linear)} of the rounds, whatever the network; K* is that long in {_percents(exact)}. With K* a "
        f"token takes {_several(over['printed'])} times as long"
        + (
            f", {_several(over['lossless'])} where both are lossless."
            if "lossless" in over and statistics["temperature"]
            else "."
        )
    )


def _fixed(statistics: Mapping[str, Any]) -> str:
    """FlexSpec against every fixed length."""
    lengths = statistics["lengths"]
    name = ALONE if ALONE in lengths else ROWS
    against = lengths.get(name, {}).get("flexspec_over_best", {})
    said = [
        f"{line} takes {_several(against[line])} of its time, {verdict(against[line])}"
        for line in ((lines.PRINTED, lines.EXACT_PRINTED) if name == ALONE else (lines.LINEAR, lines.EXACT))
        if line in against
    ]
    if not said:
        return ""
    best = ", ".join(str(lengths[name]["best"][network][0]) for network in NETWORKS)
    return f"Beside standard SD at the fixed K that is best in hindsight ({best}; {name} sent), {'; '.join(said)}."


def verdict(found: Mapping[str, Ends]) -> str:
    """Over which networks an interval of a quotient of times lies below 1, or above.

    >>> verdict({"5G": (0.9, 0.8, 0.95), "WiFi": (1.0, 0.9, 1.1)})
    'faster over 5G but no difference shown over WiFi'
    """
    groups: dict[str, list[str]] = {"faster": [], "slower": [], "no difference shown": []}
    for network, (_, low, high) in found.items():
        kind = "no difference shown"
        if high is not None and high < 1.0:
            kind = "faster"
        elif low is not None and low > 1.0:
            kind = "slower"
        groups[kind].append(network)
    return " but ".join(f"{kind} over {', '.join(names)}" for kind, names in groups.items() if names)


def _greedy(statistics: Mapping[str, Any]) -> str:
    least = min(statistics["equal_texts"].values())
    return f"All is lossless at temperature 0, the printed acceptance too: {least:.0%} of the texts are Cloud-Only's."


def _law(statistics: Mapping[str, Any]) -> str:
    """The printed acceptance is not lossless, and what it takes to be."""
    risk, parts = statistics["risk"].get(lines.PRINTED), []
    if risk is not None:
        parts.append(
            "The printed acceptance, by the argmax of p, does not keep p's law: the bound of the total variation is "
            f"{risk['token']:.3f} a token, {risk['text']:.3g} a text{', which says nothing' * (risk['text'] >= 1)}."
        )
    down = statistics["bytes_down"].get(lines.LINEAR)
    if down is not None:
        parts.append(
            "Lossless acceptance needs more than token indices: q_d up with every draft, p's row down where one is "
            f"rejected ({down:,.0f} bytes a token; the downlink is free here)."
        )
    rows = statistics["lengths"].get(f"{ROWS} of {LLAMA_VOCABULARY:,}")
    if rows is not None:
        ours, theirs = (32e3 * size / RATES_BPS["WiFi"] for size in (statistics["vocabulary"], LLAMA_VOCABULARY))
        length, milliseconds = rows["best"]["WiFi"]
        parts.append(
            f"A row of q takes {ours:.0f} ms over WiFi at our V = {statistics['vocabulary']:,}; at Llama-2's "
            f"{LLAMA_VOCABULARY:,} it takes {theirs:.0f} ms, and standard SD at best K = {length} and "
            f"{milliseconds:.0f} ms a token."
        )
    return " ".join(parts)


def _percents(shares: Sequence[float]) -> str:
    low, high = min(shares), max(shares)
    return f"{high:.0%}" if f"{low:.0%}" == f"{high:.0%}" else f"{100 * low:.0f} to {high:.0%}"


def _several(found: Mapping[str, Ends]) -> str:
    """Values with their intervals, by network."""
    return ", ".join(
        f"{value:.2f}" + ("" if low is None or high is None else f" [{low:.2f}, {high:.2f}]")
        for value, low, high in found.values()
    )
