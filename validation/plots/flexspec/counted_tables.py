"""Make Tables III to VI of flexspec (li2025flexspec) from counted rounds, beside the printed numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from hlmtheory.draft_length import cost_per_token
from validation.decoding.intervals import IntervalEstimate
from validation.decoding.methods.multi_draft import FLEXSPEC_DRAFT_S
from validation.decoding.studies import CLOUD_S, RATES_BPS
from validation.plots.common.record import Numbers, Table, plain
from validation.plots.flexspec import counted as c
from validation.plots.flexspec import counted_lines as k
from validation.plots.flexspec.counted import Counted, Texts
from validation.plots.flexspec.counted_lines import Case
from validation.plots.flexspec.printed import DATASETS, DEVICE_DATASETS, DEVICES, LATENCIES, METHODS, NETWORKS, TARGETS
from validation.plots.flexspec.tables import simulate_devices, simulate_latencies, simulate_targets
from validation.plots.flexspec.texts_lengths import with_interval

TEMPERATURES = {"III": 0.0, "IV": 1.0}
NOT_RUN, NONE = "not run", "–"
Gains = Mapping[str, Mapping[str, Mapping[str, IntervalEstimate]]]
"""Speed-ups by network, prompt set ("all" for all six) and line."""
ALL = "all six"


def _gains(case: Case, seed: int) -> Gains:
    sets = {ALL: None, **{source: source for source in DATASETS}}
    return {
        network: {name: k.speed_ups(case, network, source, seed) for name, source in sets.items()}
        for network in NETWORKS
    }


def printed_gain(table: str, source: str, network: str, column: str | None) -> float | None:
    """Return a printed speed-up; None if the table lacks it."""
    if column is None or source not in DATASETS:
        return None
    return float(LATENCIES[table][1][DATASETS.index(source), NETWORKS.index(network), METHODS.index(column)])


def _cell(found: IntervalEstimate | None, printed: float | None, *, interval: bool) -> str:
    own = NOT_RUN if found is None else with_interval(found, ".2f") if interval else f"{found.value:.2f}"
    return own if printed is None else f"{own} ({printed:.2f})"


def _speed_table(table: str, network: str, gains: Gains) -> dict[str, Any]:
    rows = []
    for line in k.LINES[1:]:
        cells = [_cell(gains[network][ALL].get(line.name), None, interval=True)]
        for source in DATASETS:
            own = gains[network][source].get(line.name)
            cells.append(_cell(own, printed_gain(table, source, network, line.column), interval=False))
        rows.append((line.name, *cells))
    title = f"Speed-up over Cloud-Only over {network}, target version 0; printed numbers in brackets"
    return Table(title, ("method", ALL, *DATASETS), tuple(rows)).plain()


def _counts_table(case: Case) -> dict[str, Any]:
    rows = []
    for name, texts in case.lines["4G"].items():
        own = texts.of(k.chosen_prompts(case.study, None))
        tokens, rounds = own.tokens.sum(), own.rounds.sum()
        rows.append(
            (
                name,
                f"{tokens / rounds:.2f}",
                f"{own.drafted.sum() / rounds:.2f}",
                f"{own.bytes.sum() / tokens:,.1f}",
                f"{own.down_bytes.sum() / tokens:,.1f}",
            )
        )
    heads = ("method", "tokens a round", "drafts a round", "bytes up a token", "bytes down a token")
    return Table(f"What was counted, all six sets, V = {case.study.about['vocabulary']:,}", heads, tuple(rows)).plain()


def _versions_table(study: Counted, temperature: float, seed: int) -> list[dict[str, Any]]:
    """Return the speed-ups over 4G and the acceptance of both drafts, by version of the target model."""
    cases = {version: Case(study, temperature, version) for version in study.versions}
    gains = {version: k.speed_ups(case, "4G", None, seed) for version, case in cases.items()}
    rows = [
        (line.name, *(_cell(found.get(line.name), None, interval=True) for found in gains.values()))
        for line in k.LINES[1:]
        if any(line.name in found for found in gains.values())
    ]
    for draft in (k.PLAIN, k.ALIGNED):
        cells = [
            with_interval(case.acceptance(draft), ".3f") if case.there(draft) else NOT_RUN for case in cases.values()
        ]
        rows.append((f"acceptance of the {draft} draft", *cells))
    title = (
        "Speed-up over Cloud-Only over 4G by version of the target model, and the drafts' acceptance; all six sets; "
        "heads of Medusa and layer of EAGLE of version 0"
    )
    return [Table(title, ("method", *cases), tuple(rows)).plain()] if len(cases) > 1 else []


def by_length(case: Case, draft: str, source: str | None) -> dict[str, dict[str, float]]:
    """Return ms per token by network and choice of the draft length."""
    chosen = k.chosen_prompts(case.study, source)
    return {
        network: {
            name: k.milliseconds(texts.of(chosen), k.over(network))
            for name, texts in case.by_length(draft, network).items()
        }
        for network in NETWORKS
    }


def drafts_shown(case: Case) -> list[str]:
    """Return the drafts that were run, the aligned one first."""
    return [draft for draft in (k.ALIGNED, k.PLAIN) if case.there(draft)]


def _lengths_table(case: Case) -> list[dict[str, Any]]:
    tables = []
    for draft in drafts_shown(case):
        found = by_length(case, draft, None)
        rows = [(name, *(f"{found[network][name]:.0f}" for network in NETWORKS)) for name in found[NETWORKS[0]]]
        best = [min((own for own in found[n] if "fixed" in own), key=found[n].__getitem__) for n in NETWORKS]
        rows.append(("best fixed, known afterwards", *best))
        title = f"Draft lengths with the {draft} draft, lossless, all six sets: ms a token, replayed on HLM's texts"
        tables.append(Table(title, ("length", *NETWORKS), tuple(rows)).plain())
    return tables


def rows_of_llama(case: Case, line: str, network: str) -> Texts | None:
    """Return the texts of standard SD or DSSD as if distributions had Llama-2's 32,000 entries.

    Standard SD sends q with every draft, also at temperature 0, where it is not needed. DSSD's downlink has p after a
    rejection at temperature 1.
    """
    texts = case.lines[network].get(line)
    if texts is None:
        return None
    if line == k.STANDARD:
        return replace(texts, bytes=texts.drafted * (4.0 * c.LLAMA_VOCABULARY + 2.0) + 2.0 * texts.rounds)
    if line == k.DSSD and case.temperature:
        return replace(texts, down_bytes=texts.resampled * 4.0 * c.LLAMA_VOCABULARY + 4.0 * texts.rounds)
    return texts


def _llama_table(case: Case, seed: int) -> dict[str, Any]:
    rows = []
    chosen = k.chosen_prompts(case.study, None)
    for name in (k.STANDARD, k.DSSD):
        cells = []
        for network in NETWORKS:
            own, cloud = rows_of_llama(case, name, network), case.lines[network][k.CLOUD]
            cells.append(
                NOT_RUN
                if own is None
                else with_interval(k.speed_up(own.of(chosen), cloud.of(chosen), k.over(network), seed), ".2f")
            )
        rows.append((name, *cells))
    title = f"Speed-up, all six sets, if distributions of {c.LLAMA_VOCABULARY:,} entries in float32 travel"
    return Table(title, ("method", *NETWORKS), tuple(rows)).plain()


PRINTED_RATES = (0.72, 0.45, 0.18)
"""Acceptance of a fixed draft in Table II."""
FIXED = 4
"""Draft length of standard SD here."""


def collapse(rate: float, network: str, bits: float) -> float:
    """Return the speed-up of standard SD by formula (10), at an acceptance and a number of bits for a draft."""
    fixed, marginal = c.cost(network, FLEXSPEC_DRAFT_S, bits)
    return fixed / float(cost_per_token(rate, FIXED, fixed, marginal))


def _collapse_table() -> dict[str, Any]:
    """Return standard SD's speed-up at the printed acceptances."""
    rows = []
    for what, bits in (("tokens alone", 15.0), (f"distributions of {c.LLAMA_VOCABULARY:,}", 32.0 * c.LLAMA_VOCABULARY)):
        for rate in PRINTED_RATES:
            rows.append((f"{rate:g}", what, *(f"{collapse(rate, network, bits):.2f}" for network in NETWORKS)))
    title = f"Speed-up of standard SD by (10) at Table II's printed acceptance, K = {FIXED}"
    return Table(title, ("acceptance", "sent with a draft", *NETWORKS), tuple(rows)).plain()


ORDERS = (
    ("FlexSpec is the fastest over WiFi", "WiFi", "best"),
    ("FlexSpec is the fastest over 4G", "4G", "best"),
    ("EAGLE-2 is the fastest over 5G", "5G", "eagle"),
    ("Std. SD is slower than Cloud-Only over 4G", "4G", "slow"),
    ("Std. SD is slower than Cloud-Only over WiFi", "WiFi", "slow"),
)


def _true(kind: str, gains: Mapping[str, float]) -> bool | None:
    """Return whether a statement about the order of the methods holds; None if a method is missing."""
    wanted = {"best": k.FLEXSPEC, "eagle": k.EAGLE, "slow": k.STANDARD}[kind]
    if wanted not in gains:
        return None
    return gains[wanted] < 1.0 if kind == "slow" else gains[wanted] == max(gains.values())


def orders(table: str, gains: Gains) -> list[tuple[str, int, int, int]]:
    """Return for each statement on how many of the six sets it holds as printed, on ours, and how many were run."""
    found = []
    columns = {line.name: line.column for line in k.LINES if line.column}
    for text, network, kind in ORDERS:
        theirs, ours, run = 0, 0, 0
        for source in DATASETS:
            printed = {name: printed_gain(table, source, network, column) or 0.0 for name, column in columns.items()}
            own = {name: one.value or 0.0 for name, one in gains[network][source].items() if name in columns}
            said = _true(kind, own)
            theirs += bool(_true(kind, printed))
            ours += bool(said)
            run += said is not None
        found.append((text, theirs, ours, run))
    return found


def _orders_table(found: list[tuple[str, int, int, int]]) -> dict[str, Any]:
    rows = tuple(
        (text, f"{theirs} of {len(DATASETS)}", f"{ours} of {run}" if run else NOT_RUN)
        for text, theirs, ours, run in found
    )
    return Table(
        "Does the paper's order show? Prompt sets on which a statement holds", ("", "printed", "ours"), rows
    ).plain()


def _assumptions(study: Counted) -> dict[str, Any]:
    delays = ", ".join(f"{1e3 * c.DELAYS_S[network]:.0f}" for network in NETWORKS)
    rates = ", ".join(f"{RATES_BPS[network] / 1e6:g}" for network in NETWORKS)
    rows = (
        (
            "a draft pass",
            f"{1e3 * FLEXSPEC_DRAFT_S:g} ms",
            "Jetson AGX Orin, Table V; of every draft and head",
        ),
        (
            "a pass of the cloud",
            f"{1e3 * CLOUD_S:g} ms",
            "cu-hlm's; flexspec prints none. For any number of drafts",
        ),
        (f"rates over {', '.join(NETWORKS)}", f"{rates} Mbit/s", "Table I; both ways"),
        ("delay of a round", f"{delays} ms", "the rest of Cloud-Only's time on GSM8K in Table III"),
        ("Cloud-Only", "as printed", "by construction, for GSM8K"),
        ("texts", f"{study.about['new_tokens']} tokens", f"{len(study.about['prompts'])} prompts, 12 a set"),
    )
    return Table("Assumptions", ("", "value", "source"), rows).plain()


def basis(study: Counted) -> str:
    """Return the clause that names models and prompts."""
    per = len(study.about["prompts"]) // len(set(study.sources))
    return f"built-in target model, {per} prompts a set, {study.about['new_tokens']} tokens"


def _ends(found: IntervalEstimate) -> list[float]:
    return [plain(value or 0.0, 5) for value in (found.value, found.low, found.high)]


def measure(table: str, seed: int) -> Numbers:
    """Time all counted rounds for Table III or IV."""
    study = c.counted()
    case = Case(study, TEMPERATURES[table])
    gains = _gains(case, seed)
    order = orders(table, gains)
    printed = simulate_latencies(table, seed)
    return {
        "statistics": {
            "speed_ups": {
                network: {
                    name: [plain(v or 0.0, 5) for v in (one.value, one.low, one.high)] for name, one in by[ALL].items()
                }
                for network, by in gains.items()
            },
            "order": [list(one) for one in order],
            "printed": printed["statistics"],
            "acceptance": {draft: plain(case.acceptance(draft).value or 0.0, 4) for draft in drafts_shown(case)},
        },
        "tables": [
            _orders_table(order),
            *(_speed_table(table, network, gains) for network in NETWORKS),
            *_versions_table(study, case.temperature, seed),
            _counts_table(case),
            *_lengths_table(case),
            _llama_table(case, seed),
            _collapse_table(),
            _assumptions(study),
            *printed["tables"],
        ],
        "basis": basis(study),
        **study.record,
    }


def message(numbers: Numbers) -> str:
    """Say over how many networks another method is faster than FlexSpec."""
    found = {network: by for network, by in numbers["statistics"]["speed_ups"].items() if k.FLEXSPEC in by}
    if not found:
        return "FlexSpec was not run."
    slower = [network for network, by in found.items() if by[k.FLEXSPEC][0] < by[_fastest_other(by)][0]]
    if not slower:
        return "FlexSpec is the fastest method over every network."
    others = " or ".join(dict.fromkeys(_fastest_other(found[network]) for network in slower))
    where = "every network" if len(slower) == len(found) else ", ".join(slower)
    return f"{others} is faster than FlexSpec over {where}."


def _fastest_other(by: Mapping[str, Sequence[float]]) -> str:
    """Return the fastest method without FlexSpec's parts, by the speed-up of each."""
    return max((name for name in by if name not in (k.FLEXSPEC, k.EXACT, k.RULE_ALONE)), key=lambda name: by[name][0])


def caption(numbers: Numbers) -> str:
    """Give the speed-ups of FlexSpec and of the fastest other method."""
    found = {network: by for network, by in numbers["statistics"]["speed_ups"].items() if k.FLEXSPEC in by}
    each = "; ".join(
        f"{network} {by[k.FLEXSPEC][0]:.2f} and {by[(best := _fastest_other(by))][0]:.2f} ({best})"
        for network, by in found.items()
    )
    said = f"FlexSpec's speed-up over Cloud-Only, and the fastest other method's: {each}. " if found else ""
    return f"{said}The last tables check the printed numbers."


def caption_devices(numbers: Numbers) -> str:
    """Say what the slow device shows."""
    found = numbers["statistics"]["devices"]["Raspberry Pi 5"]
    slow = ", ".join(f"{rule:.2f} ({best:.2f})" for rule, best in found.values())
    return f"With 145 ms a draft, Algorithm 2 (K*) gives {slow}; printed 0.76, 0.85, 0.72."


def message_devices(numbers: Numbers) -> str:
    """Say on how many sets the slow device slows the text down."""
    found = numbers["statistics"]["devices"]["Raspberry Pi 5"]
    slow = sum(rule < 1.0 for rule, _ in found.values())
    best = sum(best < 1.0 for _, best in found.values())
    return (
        f"The slowest device loses to Cloud-Only on {slow} of {len(found)} sets with Algorithm 2, on "
        f"{best or 'none'} with K*."
    )


def message_targets(numbers: Numbers) -> str:
    """Compare the spread of our speed-ups to that of the printed ones."""
    found = [value for own in numbers["statistics"]["targets"].values() for value in own.values()]
    theirs = [value for _, _, gains in TARGETS for value in gains]
    return (
        f"A faster target alone changes little: {min(found):.2f} to {max(found):.2f} times Cloud-Only, printed "
        f"{min(theirs):.2f} to {max(theirs):.2f}."
    )


# ------------------------------------------------------------------------------------------------------- Table V


def devices(seed: int) -> Numbers:
    """Time FlexSpec with each device's draft latency over 4G."""
    study = c.counted()
    case = Case(study, 0.0)
    draft = drafts_shown(case)[0]
    rows, statistics = [], {}
    printed = simulate_devices(seed)
    for name, ms, _, theirs_by_set in DEVICES:
        draft_s = ms / 1e3
        replayed = {
            "Algorithm 2": case.replay(draft, "4G", c.by_surrogate, draft_s=draft_s, method="ema_printed"),
            "K*": case.replay(draft, "4G", c.by_optimum, draft_s=draft_s),
        }
        cells, own = [], {}
        for source, theirs in zip(DEVICE_DATASETS, theirs_by_set, strict=True):
            chosen = k.chosen_prompts(study, source)
            cloud = case.lines["4G"][k.CLOUD].of(chosen)
            gains = {
                rule: k.speed_up(texts.of(chosen), cloud, partial(Texts.seconds, network="4G", draft_s=draft_s), seed)
                for rule, texts in replayed.items()
            }
            own[source] = [plain(one.value or 0.0, 4) for one in gains.values()]
            cells += [_cell(gains["Algorithm 2"], theirs, interval=True), _cell(gains["K*"], None, interval=False)]
        statistics[name] = own
        rows.append((name, f"{ms:g} ms", *cells))
    heads = [head for source in DEVICE_DATASETS for head in (f"{source}, Algorithm 2 (printed)", f"{source}, K*")]
    title = f"Speed-up over Cloud-Only over 4G by device, {draft} draft, temperature 0"
    return {
        "statistics": {"devices": statistics, "draft": draft, "printed": printed["statistics"]},
        "tables": [Table(title, ("device", "a draft", *heads), tuple(rows)).plain(), *printed["tables"]],
        "basis": basis(study),
        **study.record,
    }


# ------------------------------------------------------------------------------------------------------ Table VI


def targets(seed: int) -> Numbers:
    """Time FlexSpec on MT-Bench with the printed latencies of other targets."""
    study = c.counted()
    case = Case(study, 0.0)
    chosen = k.chosen_prompts(study, "MT-Bench")
    draft = drafts_shown(case)[0]
    cloud_line = case.lines["4G"][k.CLOUD].of(chosen)
    rows: list[tuple[str, ...]] = []
    statistics: dict[str, dict[str, float]] = {}
    for name, base, printed in TARGETS:
        cells = []
        for place, network in enumerate(("5G", "4G")):
            round_s = base[place] / 1e3
            for make, method, theirs in (
                (c.by_surrogate, "ema_printed", printed[place]),
                (c.by_optimum, "consistent", None),
            ):
                texts = case.replay(draft, network, make, round_s=round_s, method=method).of(chosen)
                gain = k.speed_up(
                    texts,
                    cloud_line,
                    partial(Texts.seconds, network=network, cloud_s=0.0, delay_s=round_s),
                    seed,
                )
                cells.append(_cell(gain, theirs, interval=theirs is not None))
                statistics.setdefault(name, {})[f"{network}, {method}"] = plain(gain.value or 0.0, 4)
        rows.append((name, f"{base[0]:.0f}, {base[1]:.0f} ms", *cells))
    heads = [head for network in ("5G", "4G") for head in (f"{network}, Algorithm 2 (printed)", f"{network}, K*")]
    title = f"Speed-up over Cloud-Only on MT-Bench with each target's printed latency of a token, {draft} draft"
    return {
        "statistics": {"targets": statistics, "draft": draft},
        "tables": [
            Table(title, ("target", "a token over 5G, 4G", *heads), tuple(rows)).plain(),
            *simulate_targets(seed)["tables"],
        ],
        "basis": basis(study),
        **study.record,
    }
