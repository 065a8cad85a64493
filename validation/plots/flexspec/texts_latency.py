"""Measure latencies of flexspec (li2025flexspec) on decoded texts, beside the printed figures and tables.

The consistency of the printed latencies is checked in :mod:`validation.plots.flexspec.tables`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from validation.decoding.intervals import IntervalEstimate
from validation.decoding.links import FadingLink
from validation.decoding.methods.multi_draft import FlexSpec
from validation.decoding.metrics import Summary, compare
from validation.decoding.records import GenerationRecord
from validation.decoding.studies import CLOUD_ONLY_S, RATES_BPS, Decoded, flexspec_links
from validation.plots.common.record import Numbers, Table, plain
from validation.plots.flexspec import texts_lines as lines
from validation.plots.flexspec.printed import DATASETS, DEVICES, LATENCIES, METHODS, NETWORKS
from validation.plots.flexspec.texts_lengths import (
    Networks,
    choices,
    ends,
    exact_over_linear,
    fixed_lengths,
    with_interval,
)
from validation.plots.flexspec.texts_lines import Timed

if TYPE_CHECKING:
    pass

NOT_RUN = "not run"


def printed_of(table: str, source: str, network: str, column: str | None) -> tuple[float, float] | None:
    """Return the latency in ms and the speed-up printed for a prompt set; None if the table lacks the set or column."""
    if column is None or source not in DATASETS:
        return None
    place = DATASETS.index(source), NETWORKS.index(network), METHODS.index(column)
    latency, gain = (float(values[place]) for values in LATENCIES[table])
    return latency, gain


def milliseconds(summary: Summary) -> IntervalEstimate:
    """Return milliseconds per token, Σ time/Σ tokens over texts without the prompt, with the inverted interval."""
    rate = summary["tokens_per_s"]
    return IntervalEstimate(*(None if value is None else 1e3 / value for value in (rate.value, rate.high, rate.low)))


# ---------------------------------------------------------------------------------------------- measured latencies


def _network(table: str, link: FadingLink, found: Mapping[str, Timed]) -> dict[str, Any]:
    """Return the values of all lines over one network."""
    shown = []
    for line in lines.LINES:
        theirs = printed_of(table, lines.SET, link.name, line.column)
        one: dict[str, Any] = {"name": line.name, "run": line.name in found}
        if theirs is not None:
            one |= {"printed_ms": theirs[0], "printed_speed_up": theirs[1]}
        if one["run"]:
            own = found[line.name].summary
            gain = compare(own, found[lines.CLOUD].summary, "tokens_per_s")
            one |= {"ms": ends(milliseconds(own)), "speed_up": ends(gain)}
        if one["run"] or theirs:
            shown.append(one)
    delay = plain(2e3 * link.way.propagation_s, 6)
    return {"name": link.name, "mbit_s": RATES_BPS[link.name] / 1e6, "delay_ms": delay, "lines": shown}


def _latency_table(series: dict[str, Any]) -> dict[str, Any]:
    rows = []
    for one in series["lines"]:
        theirs = [
            f"{one[key]:{form}}" if key in one else "–"
            for key, form in (("printed_ms", ".0f"), ("printed_speed_up", ".2f"))
        ]
        ours = [NOT_RUN] * 2
        if one["run"]:
            ours = [
                with_interval(IntervalEstimate(*one[key]), form) for key, form in (("ms", ".0f"), ("speed_up", ".2f"))
            ]
        rows.append((one["name"], theirs[0], ours[0], theirs[1], ours[1]))
    title = f"{series['name']}: {series['mbit_s']:g} Mbit/s, {series['delay_ms']:.0f} ms both ways"
    heads = ("method", "printed, ms a token", "ours", "printed, times Cloud-Only", "ours")
    return Table(title, heads, tuple(rows)).plain()


def _other_sets(study: Decoded, seed: int) -> dict[str, dict[str, dict[str, IntervalEstimate]]]:
    """Return speed-ups on prompt sets other than :data:`lines.SET`, by set, line and network; the paper's first."""
    found: dict[str, dict[str, dict[str, IntervalEstimate]]] = {}
    sources = [name for name in (*DATASETS, *study.sources) if name in study.sources and name != lines.SET]
    for source in dict.fromkeys(sources):
        for link in flexspec_links():
            by_line = lines.time_all(study.of_source(source), link, seed)
            cloud = by_line[lines.CLOUD].summary
            for name, own in by_line.items():
                gain = compare(own.summary, cloud, "tokens_per_s")
                found.setdefault(source, {}).setdefault(name, {})[link.name] = gain
    return found


def _other_table(table: str, found: Mapping[str, Mapping[str, Mapping[str, IntervalEstimate]]]) -> list[dict[str, Any]]:
    rows = []
    for source, line in product(found, lines.LINES):
        printed = [printed_of(table, source, network, line.column) for network in NETWORKS]
        ours = found[source].get(line.name)
        if ours is None and printed[0] is None:
            continue
        cells = [NOT_RUN] * len(NETWORKS) if ours is None else [with_interval(ours[n], ".2f") for n in NETWORKS]
        theirs = ["" if one is None else f" ({one[1]:.2f})" for one in printed]
        rows.append((source, line.name, *(own + other for own, other in zip(cells, theirs, strict=True))))
    if not rows:
        return []
    heads = ("prompts", "method", *NETWORKS)
    return [
        Table(
            "Speed-up over Cloud-Only on the other prompt sets; printed values in brackets", heads, tuple(rows)
        ).plain()
    ]


def _unended(rows: Sequence[GenerationRecord], study: Decoded) -> float | None:
    """Return the share of the tokens on the other sets in texts that had not ended at r_max."""
    names = {prompt["id"] for prompt in study.about["prompts"] if prompt["source"] != lines.SET}
    kept = [row for row in rows if row.prompt in names]
    tokens = sum(len(row.tokens) for row in kept)
    return plain(sum(len(row.tokens) for row in kept if not row.ended) / tokens, 4) if tokens else None


def _equal_texts(found: Networks) -> dict[str, float]:
    """Return the share of texts equal to Cloud-Only's, token by token, by line; the minimum over networks."""
    shares: dict[str, float] = {}
    for by_line in found.values():
        base = [row.tokens for row in by_line[lines.CLOUD].rows]
        for name, one in by_line.items():
            share = float(np.mean([row.tokens == text for row, text in zip(one.rows, base, strict=True)]))
            shares[name] = min(share, shares.get(name, 1.0))
    return shares


def _risks(found: Networks) -> dict[str, dict[str, float]]:
    """Return bounds of the distance from the target model's distribution, per text and token: maximum over networks."""
    risks: dict[str, dict[str, float]] = {}
    for by_line in found.values():
        for name, one in by_line.items():
            risk = one.summary["risk"].value
            if risk is not None:
                own = {"text": plain(risk, 4), "token": plain(risk * len(one.rows) / one.summary.tokens, 4)}
                risks[name] = max(own, risks.get(name, own), key=lambda each: each["token"])
    return risks


def _law_table(by_line: Mapping[str, Timed], risks: dict[str, Any], temperature: float) -> dict[str, Any]:
    """Return the table of whether texts have the target model's distribution, and what must be sent for it."""
    rows = []
    for name, one in by_line.items():
        lossless = "yes" if temperature == 0 or not one.method.by_argmax else "no"
        bounds = (f"{risks[name][key]:.3g}" if name in risks else "–" for key in ("token", "text"))
        sent = (f"{one.summary[key].value or 0.0:.1f}" for key in ("bytes_per_token", "down_bytes_per_token"))
        rows.append((name, lossless, *bounds, *sent))
    heads = (
        "method",
        "target model's law",
        "bound, a token",
        "bound, a text",
        "uplink bytes a token",
        "downlink bytes a token",
    )
    title = (
        f"Law of the texts, and what must be sent for it over {NETWORKS[0]}. The bound is on the total variation from "
        "the target model's law, the maximum over the networks; for a text, a bound of 1 or more is vacuous"
    )
    return Table(title, heads, tuple(rows)).plain()


def _taken_table(links: Sequence[FadingLink]) -> dict[str, Any]:
    """Return the table of assumptions and their sources."""
    draft, target = (f"{1e3 * value:g} ms" for value in lines.TIMES)
    delays = ", ".join(f"{2e3 * link.way.propagation_s:.0f}" for link in links)
    rates = ", ".join(f"{RATES_BPS[network] / 1e6:g}" for network in NETWORKS)
    pi = next(rate for name, _, rate, _ in DEVICES if name == "Raspberry Pi 5")
    cloud = 1.0 / CLOUD_ONLY_S["4G"]
    rows = (
        (
            "latency",
            "ms a token, prompt apart",
            "Cloud-Only is “a full network round-trip time and cloud computation cost” a token (Section V-A); but then "
            f"{pi:g} drafts a second are not “slower than” the cloud's {cloud:.1f} tokens over 4G (Section V-D)",
        ),
        ("a draft", draft, "Jetson AGX Orin, Table V; Tables III and IV name no device"),
        ("a pass of the cloud", target, "cu-hlm's; flexspec prints none. The same for any number of drafts"),
        (f"rates over {', '.join(NETWORKS)}", f"{rates} Mbit/s", "Table I; they do not vary"),
        ("delay, both ways", f"{delays} ms", "the rest of Cloud-Only's time in Table III"),
        ("downlink", "free", "no rate is printed"),
    )
    return Table("Assumptions", ("", "value", "source"), rows).plain()


def measure(table: str, studies: Sequence[Decoded], seed: int) -> Numbers:
    """Measure latencies by method and network, beside those of a table."""
    study = lines.of_the_set(studies[0])
    links = flexspec_links()
    found = {link.name: lines.time_all(study, link, seed) for link in links}
    series = [_network(table, link, found[link.name]) for link in links]
    risks, temperature = _risks(found), float(study.about["temperature"])
    length_tables, lengths = fixed_lengths(study, found, seed)
    chosen_table, chosen = choices(study, found)
    others = _other_sets(studies[0], seed)
    whole = {link.name: lines.time_all(studies[0], link, seed) for link in links} if others else found
    first = found[NETWORKS[0]]
    policies = [one.method for one in first.values() if isinstance(one.method, FlexSpec)]
    slopes = {method.costs["edge_slope_s"] for method in policies}
    longest = max((method.max_draft_length for method in policies), default=None)
    axes = {
        "x": {"label": "ms a token", "unit": "", "scale": "linear"},
        "y": {"label": "", "unit": "", "scale": "linear"},
    }
    return {
        "axes": [axes] * len(series),
        "series": series,
        "statistics": {
            "prompts": len(study.about["prompts"]),
            "sources": study.sources,
            "temperature": temperature,
            "vocabulary": study.about["pair"]["vocabulary"],
            "longest": longest,
            "bytes_down": {
                name: plain(one.summary["down_bytes_per_token"].value or 0.0, 5) for name, one in first.items()
            },
            "policy_draft_ms": [plain(1e3 * value, 4) for value in sorted(slopes)],
            "risk": risks,
            "equal_texts": _equal_texts(whole),
            "choices": chosen,
            "exact_over_linear": exact_over_linear(found, seed),
            "lengths": lengths,
            "other_sets": {
                source: {
                    name: {network: plain(gain.value, 4) for network, gain in by_line[name].items() if gain.value}
                    for name in (lines.STANDARD, lines.PRINTED)
                    if name in by_line
                }
                for source, by_line in others.items()
            },
            "other_unended": _unended(whole[NETWORKS[0]][lines.CLOUD].rows, studies[0]),
        },
        "tables": [
            *(_latency_table(one) for one in series),
            chosen_table,
            *length_tables,
            _law_table(found[NETWORKS[0]], risks, temperature),
            *_other_table(table, others),
            _taken_table(links),
        ],
    }
