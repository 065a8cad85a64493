"""Tables of cu-hlm V and u-hlm IV: accuracy by method and prompt set, and the parts of the latency."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from validation.decoding.intervals import IntervalEstimate, draw_texts, ratio
from validation.decoding.loop import PAPER_TIMES
from validation.decoding.methods.registry import Family, info_of
from validation.decoding.methods.single_draft import CHOSEN_THRESHOLD, CU_CHOSEN, U_CHOSEN
from validation.decoding.metrics import Summary, compare, summarize
from validation.decoding.records import GenerationRecord
from validation.decoding.studies import Decoded
from validation.plots.common.decoded.numbers import ACCURACIES, kept, mean_score, perplexity, scored, share_of, titled
from validation.plots.common.decoded.printed import (
    ACCURACY,
    LARGER_DRAFT_S,
    LATENCIES,
    LIKENESS,
    SETS,
    SNR_DB,
    implied,
    printed_name,
)
from validation.plots.common.decoded.timed_texts import (
    RESAMPLES,
    Fading,
    Texts,
    draw_fading,
    link_seconds,
    read_study,
    speeds,
    still,
    sum_by,
)
from validation.plots.common.record import Numbers, Table, plain
from validation.plots.common.skipping.printed import CU

NONE = "–"


def cell(found: IntervalEstimate | None, form: str = ".3f") -> str:
    """Format a number with its interval."""
    if found is None or found.value is None:
        return NONE
    text = format(found.value, form)
    if found.low is None or found.high is None:
        return text
    return f"{text} [{format(found.low, form)}, {format(found.high, form)}]"


# ------------------------------------------------------------------------------------ cu-hlm Table I, u-hlm Table I


def measure_accuracy(studies: Sequence[Decoded], seed: int, *, paper: str) -> Numbers:
    """Measure accuracy by method and prompt set, beside the printed value for the paper's sets."""
    decoded = studies[0] if paper == CU else _without_compression(studies[0])
    printed = ACCURACY if paper == CU else LIKENESS
    parts = {source: decoded.of_source(source) for source in decoded.sources}
    there = scored(decoded)
    tables = [_likeness_table(parts, decoded, name, printed, seed) for name in there]
    return {
        "axes": [],
        "series": [],
        "statistics": {
            "absent": [words for name, words in ACCURACIES.items() if name not in there],
            "shares": {name: _shares(decoded, parts, name, seed) for name in there},
            "sets_in_common": [source for source in parts if source in SETS],
        },
        "tables": [
            table.plain()
            for table in [*tables, _perplexity_table(parts, decoded, seed), _printed_table(paper, printed)]
        ],
    }


def _without_compression(decoded: Decoded) -> Decoded:
    """Return the study without the methods of cu-hlm."""
    rows = [row for row in decoded.records if info_of(row.method).family is not Family.CU_HLM]
    return Decoded(decoded.name, decoded.about, rows, decoded.scores)


def _methods(decoded: Decoded) -> dict[str, list[GenerationRecord]]:
    """Return methods in the order of the study, without those whose texts depend on the link rate."""
    return {name: rows for name in decoded.about["methods"] if (rows := decoded.by_method.get((name, "none")))}


def _likeness_table(
    parts: dict[str, Decoded], decoded: Decoded, name: str, printed: dict[str, Any], seed: int
) -> Table:
    """Return the table of one metric, on the sets that have it; printed values refer to the reference answer."""
    own = {source: part for source, part in parts.items() if name in scored(part)}
    beside = [source for source in own if source in SETS and name == "similarity_reference"]
    heads = ["method"]
    for source in own:
        heads += [source, f"{source}, printed"] if source in beside else [source]
    columns = {**own, **({"all sets": decoded} if len(own) > 1 else {})}
    rows = []
    for method in _methods(decoded):
        cells = [method]
        for source, part in columns.items():
            cells.append(cell(mean_score(part, _methods(part).get(method, []), name, seed)))
            if source in beside:
                cells.append(_printed_cell(printed, method, source))
        rows.append(tuple(cells))
    return Table(f"Mean {titled(name)}", (*heads, *(["all sets"] if len(own) > 1 else [])), tuple(rows))


def _perplexity_table(parts: dict[str, Decoded], decoded: Decoded, seed: int) -> Table:
    """Return perplexity on each prompt set and on all."""
    columns = {**parts, **({"all sets": decoded} if len(parts) > 1 else {})}
    rows = [
        (method, *(cell(perplexity(part, _methods(part).get(method, []), seed), ".2f") for part in columns.values()))
        for method in _methods(decoded)
    ]
    return Table("Perplexity under the target model", ("method", *columns), tuple(rows))


def _printed_cell(printed: dict[str, Any], method: str, source: str) -> str:
    """Return the printed values of each pair of the paper."""
    name, place = printed_name(method), SETS.index(source)
    return " / ".join(f"{values[name][place]:.4f}" for values in printed.values() if name in values) or NONE


def _printed_table(paper: str, printed: dict[str, Any]) -> Table:
    """Return all printed values as a table."""
    rows = [
        (f"{name}, {pair}", *(f"{value:.4f}" for value in values))
        for pair, methods in printed.items()
        for name, values in methods.items()
    ]
    return Table(f"Table I of {paper}, as printed", ("method, pair", *SETS), tuple(rows))


def _shares(decoded: Decoded, parts: dict[str, Decoded], name: str, seed: int) -> dict[str, Any]:
    """Return each method's share of HLM's and of the target model's accuracy, over all sets and as the mean of sets."""
    everything = _methods(decoded)
    found: dict[str, Any] = {}
    for method, rows in everything.items():
        found[method] = {}
        for base in ("HLM", "large only"):
            if base not in everything:
                continue
            each = []
            for part in parts.values():
                own = _methods(part)
                if method in own and base in own and (one := share_of(part, own[method], own[base], name, seed)):
                    each.append(one.value)
            known = [value for value in each if value is not None]
            whole = kept(share_of(decoded, rows, everything[base], name, seed))
            found[method][base] = whole | {"mean_over_sets": plain(np.mean(known)) if len(known) > 1 else None}
    return found


# -------------------------------------------------------------------------------------------------- cu-hlm Table II


TIMED = {
    "U-HLM risk-prone": "U-HLM",
    U_CHOSEN: f"U-HLM, threshold {CHOSEN_THRESHOLD:g}",
    "CU-HLM online": "CU-HLM (Online)",
    CU_CHOSEN: f"CU-HLM (Online), threshold {CHOSEN_THRESHOLD:g}",
}
"""Methods whose latency is broken down: U-HLM at the pair's own risk-prone threshold and at cu-hlm's threshold."""


def role(pair: str, first: bool) -> str | None:
    """Return the configuration of Table II that a pair represents.

    >>> role("distilled", False), role("builtin", True)
    ('KD', 'No KD')
    """
    if "distilled" in pair:
        return "KD"
    if "larger" in pair:
        return "7B–13B"
    return "No KD" if first else None


def measure_breakdown(studies: Sequence[Decoded], seed: int) -> Numbers:
    """Measure the parts of the time per token under Rayleigh fading at 10 dB, for the run's and the other pairs."""
    lines, statistics, bases = [], [], {}
    for place, decoded in enumerate(studies):
        pair = str(decoded.about["pair"]["name"])
        which = role(pair, place == 0)
        draft_s = LARGER_DRAFT_S if which == "7B–13B" else PAPER_TIMES[0]
        texts = read_study(decoded)
        fadings = (draw_fading(texts, int(decoded.about["seed"])), still(texts))
        for method, label in TIMED.items():
            if method not in texts:
                continue
            found = _breakdown(texts[method], fadings, draft_s, seed)
            lines.append(_breakdown_row(label, pair, which, found))
            statistics.append(
                {"method": label, "pair": pair, "role": which} | {name: kept(one) for name, one in found.items()}
            )
        bases[pair] = {
            name: summarize(rows, resamples=RESAMPLES, seed=seed)
            for name in ("HLM", *TIMED)
            if (rows := _methods(decoded).get(name))
        }
    heads = (
        "method, pair",
        "communication, ms",
        "median over texts",
        "without fading",
        "target model, ms",
        "draft model, ms",
        "tokens/s",
        "median over texts",
        "printed: link, target model, tokens/s",
    )
    titled = "Time of a token under Rayleigh fading, average SNR 10 dB"
    acceptance, gains = _acceptance(bases)
    return {
        "axes": [],
        "series": [],
        "statistics": {
            "rows": statistics,
            "acceptance_gains": gains,
            "pairs": list(bases),
            "sent": _messages(studies[0]),
            "vocabulary": int(studies[0].about["pair"]["vocabulary"]),
            "threshold": plain(studies[0].about["fitted"]["risk_prone"]),
        },
        "tables": [Table(titled, heads, tuple(lines)).plain(), acceptance.plain(), implied().plain()],
    }


def _breakdown(texts: Texts, fadings: tuple[Fading, Fading], draft_s: float, seed: int) -> dict[str, IntervalEstimate]:
    """Return seconds per token of link and models, and tokens per second."""
    link, still_link = (sum_by(texts, link_seconds(texts, one, SNR_DB)) for one in fadings)
    settings: dict[str, Any] = {"resamples": RESAMPLES, "seed": seed}
    tokens = texts.tokens
    speed = speeds(texts, fadings[0], [SNR_DB], seed=seed, times=(draft_s, PAPER_TIMES[1]))
    return {
        "link_s": ratio(link, tokens, **settings),
        "link_s_median": _median(link / tokens, seed),
        "link_s_without_fading": ratio(still_link, tokens, **settings),
        "large_s": ratio(texts.target_passes * PAPER_TIMES[1], tokens, **settings),
        "small_s": ratio(texts.draft_passes * draft_s, tokens, **settings),
        "tokens_per_s": speed["total"].estimates()[0],
        "tokens_per_s_median": speed["median"].estimates()[0],
    }


def _median(values: Any, seed: int) -> IntervalEstimate:
    """Return the median over texts, with its interval."""
    drawn = np.median(values[draw_texts(len(values), RESAMPLES, seed)], axis=-1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return IntervalEstimate(float(np.median(values)), float(low), float(high))


def _breakdown_row(label: str, pair: str, which: str | None, found: dict[str, IntervalEstimate]) -> tuple[str, ...]:
    def ms(name: str, form: str = ".2f") -> str:
        one = found[name]
        scaled = (None if end is None else 1e3 * end for end in (one.value, one.low, one.high))
        return cell(IntervalEstimate(*scaled), form)

    printed = NONE
    if which is not None:
        link, target, speed = LATENCIES[label.split(", ")[0]][which]
        printed = f"{f'{link:g} ms' if link >= 1 else f'{1e3 * link:g} μs'}, {target:g} ms, {speed:g} ({which})"
    times = [ms("link_s", ".3f"), ms("link_s_median", ".3f"), ms("link_s_without_fading", ".3f")]
    models = [ms("large_s", ".1f"), ms("small_s", ".1f")]
    speeds_ = [cell(found["tokens_per_s"], ".1f"), cell(found["tokens_per_s_median"], ".1f")]
    return (f"{label}, {pair}", *times, *models, *speeds_, printed)


def _acceptance(bases: dict[str, dict[str, Summary]]) -> tuple[Table, dict[str, Any]]:
    """Return the acceptance of all drafts (HLM) and of the sent ones, and its ratio to the first pair's."""
    rows, gains = [], {}
    first = next(iter(bases.values()), {}).get("HLM")
    for pair, found in bases.items():
        whole = found.get("HLM")
        gain = compare(whole, first, "acceptance") if whole and first and whole.prompts == first.prompts else None
        gains[pair] = kept(gain)
        cells = [
            cell(one["acceptance"]) + ", sent " + cell(one["transmission_rate"]) if (one := found.get(name)) else NONE
            for name in TIMED
        ]
        rows.append((pair, cell(whole["acceptance"] if whole else None), cell(gain), *cells))
    heads = (
        "pair",
        "drafts accepted (HLM)",
        "times the first pair's",
        *(f"sent by {label}" for label in TIMED.values()),
    )
    return Table("Acceptance", heads, tuple(rows)), gains


def _messages(decoded: Decoded) -> dict[str, Any]:
    """Return the mean bits of a message by formula and as encoded, for the caption."""
    found = {}
    for name in ("HLM", "CU-HLM online", CU_CHOSEN):
        texts = read_study(decoded).get(name)
        if texts is not None and (texts.formula > 0).any():
            sent = texts.formula > 0
            found[name] = {
                "formula": plain(texts.formula[sent].mean()),
                "encoded": plain(texts.encoded[sent].mean()),
                "entries": plain(texts.formula[sent].mean() / _entry_bits(int(decoded.about["pair"]["vocabulary"]))),
            }
    return found


def _entry_bits(vocabulary: int) -> int:
    """Return the bits of one entry, b_prob + ⌈log₂ V⌉."""
    return 8 + (vocabulary - 1).bit_length()
