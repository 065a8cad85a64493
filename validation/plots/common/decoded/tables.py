"""Tables of cu-hlm V and u-hlm IV: accuracy by method and prompt set, and the parts of the latency."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from validation.decoding.intervals import draw_texts, estimate, ratio
from validation.decoding.loop import PAPER_TIMES
from validation.decoding.methods.catalogue import info_of
from validation.decoding.methods.registry import Family
from validation.decoding.methods.single_draft import CHOSEN_THRESHOLD, CU_CHOSEN, U_CHOSEN
from validation.decoding.studies import Decoded
from validation.estimates import CONFIDENCE, NONE, Estimate
from validation.plots.common.decoded import numbers as scores
from validation.plots.common.decoded import timed_texts
from validation.plots.common.decoded.numbers import titled
from validation.plots.common.decoded.timed_texts import Fading, Texts
from validation.plots.common.printed import CU, HLM_ACCURACIES, HLM_LATENCIES, HLM_NAMES, LARGER_DRAFT_S, SETS, SNR_DB
from validation.plots.common.record import Numbers, cell, kept, table


def measure_accuracy(studies: Sequence[Decoded], seed: int, *, paper: str) -> Numbers:
    """Measure accuracy by method and prompt set, and perplexity, beside the values that the paper prints for its sets.

    The metric of the table is the first of ``METRICS`` that texts have; the statistics have all.
    """
    decoded = studies[0]
    if paper != CU:
        others = [row for row in decoded.records if info_of(row.method).family is not Family.CU_HLM]
        decoded = Decoded(decoded.name, decoded.about, others, decoded.scores)
    there = scores.scored(decoded)
    return {
        "axes": [],
        "series": [],
        "statistics": {"shares": {name: _shares(decoded, name, seed) for name in there}},
        "tables": [_accuracy_table(decoded, there[:1], HLM_ACCURACIES[paper], seed)],
    }


def _accuracy_table(decoded: Decoded, metrics: list[str], printed: dict[str, Any], seed: int) -> dict[str, Any]:
    """Return one metric on each of our sets and on all, perplexity on all, and the printed accuracy on the paper's."""
    columns = {source: decoded.of_source(source) for source in decoded.sources} | {"all sets": decoded}
    rows = []
    for method, texts in scores.in_order(decoded).items():
        cells = [
            cell(scores.mean_score(part, scores.in_order(part).get(method, []), name, seed), ".3f")
            for name in metrics
            for part in columns.values()
        ]
        cells.append(cell(scores.perplexity(decoded, texts, seed), ".2f"))
        rows.append((method, *cells, *(_printed_cell(printed, method, source) for source in SETS)))
    heads = ("method", *(columns if metrics else ()), "perplexity", *(f"{source}, printed" for source in SETS))
    title = f"Mean {titled(metrics[0])}" if metrics else "Perplexity under the target model"
    return table(title, heads, tuple(rows))


def _printed_cell(printed: dict[str, Any], method: str, source: str) -> str:
    name, place = HLM_NAMES.get(method.split(" (")[0]), SETS.index(source)
    return " / ".join(f"{values[name][place]:.4f}" for values in printed.values() if name in values) or NONE


def _shares(decoded: Decoded, name: str, seed: int) -> dict[str, Any]:
    made = scores.in_order(decoded)
    bases = [base for base in ("HLM", "large only") if base in made]
    return {
        method: {base: kept(scores.share_of(decoded, rows, made[base], name, seed)) for base in bases}
        for method, rows in made.items()
    }


TIMED = {
    "U-HLM risk-prone": "U-HLM",
    U_CHOSEN: f"U-HLM, threshold {CHOSEN_THRESHOLD:g}",
    "CU-HLM online": "CU-HLM (Online)",
    CU_CHOSEN: f"CU-HLM (Online), threshold {CHOSEN_THRESHOLD:g}",
}
"""Methods whose latency is broken down: U-HLM at the pair's own risk-prone threshold and at cu-hlm's threshold."""

HEADS = (
    "method, pair",
    *("communication, ms", "median over texts", "without fading", "target model, ms", "draft model, ms"),
    *("tokens/s", "median over texts", "printed: link, target model, tokens/s"),
)


def role(pair: str, first: bool) -> str | None:
    """Return the configuration of Table II that a pair represents."""
    if "distilled" in pair:
        return "KD"
    if "larger" in pair:
        return "7B–13B"
    return "No KD" if first else None


def measure_breakdown(studies: Sequence[Decoded], seed: int) -> Numbers:
    """Measure the parts of the time per token under Rayleigh fading at 10 dB, for the run's and the other pairs."""
    lines, statistics = [], []
    for place, decoded in enumerate(studies):
        pair = str(decoded.about["pair"]["name"])
        which = role(pair, place == 0)
        draft_s = LARGER_DRAFT_S if which == "7B–13B" else PAPER_TIMES[0]
        texts = timed_texts.read_study(decoded)
        fadings = (timed_texts.draw_fading(texts, int(decoded.about["seed"])), timed_texts.still(texts))
        for method, label in TIMED.items():
            if method not in texts:
                continue
            found = _breakdown(texts[method], fadings, draft_s, seed)
            lines.append(_breakdown_row(label, pair, which, found))
            statistics.append(
                {"method": label, "pair": pair, "role": which} | {name: kept(one) for name, one in found.items()}
            )
    titled = "Time of a token under Rayleigh fading, average SNR 10 dB"
    return {
        "axes": [],
        "series": [],
        "statistics": {"rows": statistics, "pairs": [str(one.about["pair"]["name"]) for one in studies]},
        "tables": [table(titled, HEADS, lines)],
    }


def _breakdown(texts: Texts, fadings: tuple[Fading, Fading], draft_s: float, seed: int) -> dict[str, Estimate]:
    link, still_link = (timed_texts.sum_by(texts, timed_texts.link_seconds(texts, one, SNR_DB)) for one in fadings)
    settings: dict[str, Any] = {"resamples": timed_texts.RESAMPLES, "seed": seed}
    tokens = texts.tokens
    speed = timed_texts.speeds(texts, fadings[0], [SNR_DB], seed=seed, times=(draft_s, PAPER_TIMES[1]))
    return {
        "link_s": ratio(link, tokens, **settings),
        "link_s_median": _median(link / tokens, seed),
        "link_s_without_fading": ratio(still_link, tokens, **settings),
        "large_s": ratio(texts.target_passes * PAPER_TIMES[1], tokens, **settings),
        "small_s": ratio(texts.draft_passes * draft_s, tokens, **settings),
        "tokens_per_s": speed["total"].estimates()[0],
        "tokens_per_s_median": speed["median"].estimates()[0],
    }


def _median(values: Any, seed: int) -> Estimate:
    drawn = np.median(values[draw_texts(len(values), timed_texts.RESAMPLES, seed)], axis=-1)
    return estimate(np.median(values), drawn, CONFIDENCE)


def _breakdown_row(label: str, pair: str, which: str | None, found: dict[str, Estimate]) -> tuple[str, ...]:
    def ms(name: str, form: str = ".2f") -> str:
        return cell(found[name] * 1e3, form)

    printed = NONE
    if which is not None:
        link, target, speed = HLM_LATENCIES[label.split(", ")[0]][which]
        printed = f"{f'{link:g} ms' if link >= 1 else f'{1e3 * link:g} μs'}, {target:g} ms, {speed:g} ({which})"
    times = [ms("link_s", ".3f"), ms("link_s_median", ".3f"), ms("link_s_without_fading", ".3f")]
    models = [ms("large_s", ".1f"), ms("small_s", ".1f")]
    speeds_ = [cell(found["tokens_per_s"], ".1f"), cell(found["tokens_per_s_median"], ".1f")]
    return (f"{label}, {pair}", *times, *models, *speeds_, printed)
