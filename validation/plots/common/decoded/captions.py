"""Write captions of decoded texts: our numbers beside the printed ones, and why they differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from validation.decoding.methods.registry import Family, info_of
from validation.decoding.methods.single_draft import CU_CHOSEN
from validation.plots.common.decoded.numbers import METRICS, titled
from validation.plots.common.decoded.printed import (
    PRINTED,
    TEXTS,
    TOKENS,
    U_ROW_BITS,
    gain_by_rounds,
    gain_by_totals,
    printed_name,
    remarks,
    row_bits,
    shares,
    u_gain_by_rounds,
    u_gain_by_totals,
)
from validation.plots.common.record import Numbers
from validation.plots.common.skipping.printed import CU, U, value
from validation.plots.common.skipping.words import shown

WORDS = {"median": "median over texts", "total": "ratio of totals", "round_mean": "mean over rounds of cu-hlm (6)"}
ALONE = "small only"
"""The method that is the draft model without a server."""
SPREAD = (
    "Under Rayleigh fading a ratio of totals has no limit; its brackets are a spread over resampled texts, not an "
    "interval for a limit."
)
PAPER_GAINS = {"CU-HLM (Offline)": "offline_gain", "CU-HLM (Online)": "online_gain"}


def said(found: dict[str, float | None] | None, form: str = ".3f") -> str:
    """Format a number with its interval."""
    if found is None or found["value"] is None:
        return "undefined"
    text = format(found["value"], form)
    if found["low"] is None or found["high"] is None:
        return text
    return f"{text} [{format(found['low'], form)}, {format(found['high'], form)}]"


def _absent(numbers: Numbers) -> str:
    """Name the accuracy metrics that could not be drawn."""
    absent = numbers["statistics"]["absent"]
    return f" Not drawn, because no text has this score: {' and '.join(absent)}." if absent else ""


def at_place(series: dict[str, Any], place: int, form: str = ".3f") -> str:
    """Format one point of a curve."""
    return said({"value": series["mean"][place], "low": series["low"][place], "high": series["high"][place]}, form)


def caption_both(numbers: Numbers) -> str:
    """Give speed and accuracy of every method."""
    there = numbers["statistics"]["accuracies"]
    parts = []
    for one in numbers["series"]:
        likeness = "".join(f", {said(one['accuracy'][name])}" for name in there)
        speed = said(one["throughput"]["median"], ".1f")
        parts.append(f"{one['name']} {speed}{likeness}, {said(one['perplexity'], '.2f')}")
    order = " and ".join(METRICS[name] for name in there)
    first = f"Tokens/s, {order}, and perplexity: " if there else "Tokens/s and perplexity: "
    alone = nothing_sent({one["name"]: (one["throughput"], one["accuracy"]) for one in numbers["series"]})
    return f"{first}{'; '.join(parts)}.{alone} The paper prints no numbers for this figure.{_absent(numbers)}"


def caption_thresholds(numbers: Numbers, paper: str) -> str:
    """Give the rates at the papers' thresholds and at ours."""
    series = {one["kind"]: one for one in numbers["series"]}
    sent, true, unseen = (series[name] for name in ("transmission", "accepted_if_skipped", "skipped_if_accepted"))
    wanted = value(paper, "chosen" if paper == CU else "experimental")
    at = min(range(len(sent["x"])), key=lambda i: abs(sent["x"][i] - wanted)) if sent["x"] else None
    if at is None:
        return "The study has no thresholds."
    least = min((one for one in true["mean"] if one is not None), default=None)
    text = f"At the threshold {sent['x'][at]:g}: transmission rate {at_place(sent, at)}, "
    if paper == CU:
        text += (
            f"{1 - value(CU, 'skipped'):.3f} by the printed {value(CU, 'skipped'):.1%} skipped; P(accepted | skipped) "
            f"{at_place(true, at)}, printed {value(CU, 'true_skips')}; its smallest value over the thresholds is "
            f"{'undefined' if least is None else format(least, '.3f')}, printed {value(CU, 'least_true_skips')}. The "
            "texts are decoded by U-HLM without truncation, so a skipped token is part of the prefix of the next ones."
        )
    else:
        text += (
            f"{1 - value(U, 'skipped'):.4f} by the printed {value(U, 'skipped'):.2%} skipped at {value(U, 'prone')}; "
            f"P(skipped | accepted) {at_place(unseen, at)}. The paper reports no loss of similarity up to 0.6."
        )
    return f"{text} {_accuracies(numbers, at)}{_own_thresholds(numbers, paper)}{_absent(numbers)}"


def _accuracies(numbers: Numbers, at: int) -> str:
    """Give accuracy at the first, the chosen and the last threshold."""
    text = ""
    for one in numbers["series"]:
        if one["kind"] in METRICS:
            last = len(one["x"]) - 1
            places = dict.fromkeys((0, at, last))
            each = ", ".join(f"{at_place(one, place)} at {one['x'][place]:g}" for place in places)
            whole = said(numbers["statistics"]["large_only"].get(one["kind"]))
            text += f"Mean {one['name']}: {each}. The target model alone has {whole}. "
    return text


def _own_thresholds(numbers: Numbers, paper: str) -> str:
    """Give the thresholds fitted to this pair, beside the paper's."""
    averse, prone = numbers["statistics"]["thresholds"]
    return (
        f"Risk-averse and risk-prone thresholds are {shown(averse)} and {shown(prone)} for this pair, "
        f"{value(paper, 'averse'):g} and {value(paper, 'prone'):g} in the paper."
    )


def caption_sizes(numbers: Numbers) -> str:
    """Give payload and accuracy at the smallest and the largest k."""
    statistics = numbers["statistics"]
    series = {one["kind"]: one for one in numbers["series"]}
    x = series["formula"]["x"]
    if not x:
        return "The study has no sizes."
    near = min(range(len(x)), key=lambda i: abs(x[i] - PRINTED["offline_k"].value))
    places = dict.fromkeys((0, near, len(x) - 1))
    text = ""
    for name in METRICS:
        if name in series:
            each = ", ".join(f"{at_place(series[name], place)} at k = {x[place]:g}" for place in places)
            text += f"Mean {titled(name)}: {each}. "
    bits = "; ".join(
        f"{at_place(series['formula'], place, ',.0f')} by formula and {at_place(series['encoded'], place, ',.0f')} as "
        f"encoded at k = {x[place]:g}"
        for place in places
    )
    own, taken = statistics["risk_prone"], statistics["threshold"]
    threshold = f"this pair's risk-prone threshold {own:.3f}" if taken == own else f"the paper's threshold {taken:g}"
    other = "" if taken == own else f" This pair's risk-prone threshold, {own:.3f}, skips everything."
    return (
        f"{text}Bits of a message: {bits}. The paper takes k* = {PRINTED['offline_k'].value:.0f} at V = 32,000, "
        f"ours is {statistics['offline_k']} at V = {statistics['vocabulary']:,}. All at {threshold}, where "
        f"{at_place(series['transmission'], near)} of the rounds send anything; k cannot affect other "
        f"rounds.{other}{_absent(numbers)}"
    )


def caption_speeds(numbers: Numbers, *, rician: bool) -> str:
    """Give the gains over HLM at the lowest SNR, and their limits."""
    statistics = numbers["statistics"]
    gains, formula, snr_db = (statistics[name] for name in ("gains", "gains_by_formula", "gains_at_snr_db"))
    if not gains:
        return "The study has no HLM to compare with."
    parts = []
    for name, found in gains.items():
        if info_of(name).family is not Family.CU_HLM:
            continue
        each = [said(found[word], ".1f") for word in WORDS] + [said(formula[name]["median"], ".1f")]
        printed = PAPER_GAINS.get(printed_name(name) or "")
        beside = f", printed {PRINTED[printed].value:g}" if printed and not rician else ""
        parts.append(f"{name} {', '.join(each)}{beside}")
    most = gains.get("small only", {}).get("median")
    spread = nothing_sent(gains) + ("" if rician else f" {SPREAD}")
    kinds = f"{', '.join(WORDS.values())}, and median by the formulas' bits"
    return (
        f"Gains over HLM at {decibels(snr_db)}, {kinds}: {'; '.join(parts)}.{spread} "
        f"{_limits(numbers, most, rician=rician)}"
    )


def decibels(value: float) -> str:
    """Format decibels with a true minus sign."""
    return f"{value:g} dB".replace("-", "−")


def _limits(numbers: Numbers, most: dict[str, float | None] | None, *, rician: bool) -> str:
    """Explain why the printed gains cannot be reached."""
    statistics = numbers["statistics"]
    own, theirs = row_bits(statistics["vocabulary"]), row_bits()
    bits = statistics["message_bits"].get("HLM", {}).get("encoded")
    sent = f" ({bits:,.0f} as encoded in float32)" if bits else ""
    text = (
        f"No method that drafts is faster than the draft model alone, here {said(most, '.1f')}× HLM (median). A "
        f"distribution of HLM takes {own:,.0f} bits by (4) at V = {statistics['vocabulary']:,}{sent} and {theirs:,.0f} "
        f"at 32,000, so {theirs / own:.1f} times as many bits can be saved there."
    )
    if rician:
        return text
    parts = []
    for name, size in (("offline_gain", "offline_k"), ("online_gain", "online_k")):
        entries = PRINTED[size].value
        steady, middle, low, high = gain_by_totals(entries)
        parts.append(
            f"They are {steady:.0f}× at a constant −20 dB and {middle:.0f}× [{low:.0f}, {high:.0f}] over samples of "
            f"Rayleigh fading for k = {entries:.0f}; the paper prints {PRINTED[name].value:g}×."
        )
    return text + (
        " HLM's mean time under Rayleigh fading is infinite, so a gain over it depends on the sample. Ratios of totals "
        f"over {TEXTS} texts of {TOKENS} tokens follow from the paper's own payloads, skipped share and times. "
        f"{' '.join(parts)} As means over rounds of (6) they give "
        f"{gain_by_rounds(PRINTED['offline_k'].value):.0f}× and {gain_by_rounds(PRINTED['online_k'].value):.0f}×, so "
        f"{PRINTED['offline_gain'].value:g}× is not such a mean."
    )


def caption_accuracy(numbers: Numbers, paper: str) -> str:
    """Give the share of HLM's accuracy that each method keeps."""
    statistics = numbers["statistics"]
    parts = []
    for name, methods in statistics["shares"].items():
        each = [f"{method} {_kept(methods[method])}" for method in of_paper(methods, paper)]
        bases = dict.fromkeys(base for found in methods.values() for base in found)
        whose = " and of ".join("HLM's" if base == "HLM" else "the target model's" for base in bases)
        parts.append(f"Percent of {whose} {METRICS[name]} kept: {'; '.join(each)}.")
    alone = nothing_sent(next(iter(statistics["shares"].values()), {}))
    common = statistics["sets_in_common"]
    sets = f"Sets in common with the paper: {', '.join(common)}." if common else "None of its sets is among ours."
    kept = " ".join(parts) if parts else "No similarity was computed."
    return (
        f"{kept}{alone} The paper prints {shares(paper)}. {sets} Its sentence model differs "
        f"({'BERT' if paper == CU else 'Universal Sentence Encoder'}) and its pairs are larger, so compare methods, "
        f"not values.{_absent(numbers)}"
    )


def _kept(bases: dict[str, dict[str, float | None]]) -> str:
    """Give the shares of the accuracy of HLM and of the target model."""
    each = []
    for found in bases.values():
        share = {end: None if (known := found[end]) is None else 100.0 * known for end in ("value", "low", "high")}
        mean = found["mean_over_sets"]
        beside = "" if mean is None else f" (mean over our sets {100.0 * mean:.1f})"
        each.append(f"{said(share, '.1f')}{beside}")
    return ", ".join(each)


def caption_breakdown(numbers: Numbers) -> str:
    """Give acceptance by pair, message sizes, and the implications of the printed table."""
    statistics = numbers["statistics"]
    gains = statistics["acceptance_gains"]
    each = [f"{pair} {said(gain)} times" for pair, gain in gains.items() if pair != statistics["pairs"][0]]
    beside = (
        f"Acceptance, relative to {statistics['pairs'][0]}: {', '.join(each)}"
        if each
        else "Only the run's own pair was decoded"
    )
    own, chosen = f"{statistics['threshold']:.3f}, this pair's risk-prone one", f"{value(CU, 'chosen')}, the paper's"
    messages = "".join(
        f" Of the drafts above the threshold {threshold}, CU-HLM (Online) sends {online['entries']:,.0f} of "
        f"{statistics['vocabulary']:,} entries a message on average, {online['encoded']:,.0f} bits as encoded."
        for name, threshold in (("CU-HLM online", own), (CU_CHOSEN, chosen))
        if (online := statistics["sent"].get(name))
    )
    if statistics["threshold"] >= 1.0:
        messages += f" No uncertainty exceeds 1, so with {own}, U-HLM and CU-HLM verify no draft."
    return (
        f"{beside}; the paper prints + {PRINTED['kd_acceptance'].value:g}% by distillation and + "
        f"{PRINTED['larger_acceptance'].value:g}% by the larger draft model. {remarks()}{messages}"
    )


def caption_methods(numbers: Numbers) -> str:
    """Give all rates, and the gain over HLM on the paper's link."""
    statistics = numbers["statistics"]
    bars = [
        f"{one['name']}: {', '.join(said(one[key]) for key in ('transmission', 'skipped_if_accepted'))}"
        for one in numbers["bars"]
    ]
    snr_db = statistics["link_snr_db"]
    return (
        f"Transmission rate, P(skipped | accepted): {'; '.join(bars)}. From the printed share of skips follows "
        f"a transmission rate of {1.0 - value(U, 'skipped'):.4f}. Gain over HLM at the "
        f"{decibels(round(snr_db, 1))} of its link, {WORDS['total']}, {WORDS['median']}, and median by the formulas' "
        f"bits: {_own_gains(statistics)}."
        f"{nothing_sent(statistics['gains'])} {SPREAD} {_printed_gain(snr_db)} It sends {U_ROW_BITS / 1e3:.0f} kbit a "
        f"distribution, ours {row_bits(statistics['vocabulary']) / 1e3:,.0f} kbit by (4) of cu-hlm."
    )


def _own_gains(statistics: dict[str, Any]) -> str:
    """Give the gains of U-HLM on our texts; means over rounds are separate, because they weigh all rounds equally."""
    found = {name: statistics["gains"][name] for name in of_paper(statistics["gains"], U)}
    if not found:
        return f"none, as the study has no {'U-HLM' if statistics['gains'] else 'HLM'}"
    parts = []
    for name, one in found.items():
        formula = said(statistics["gains_by_formula"][name]["median"], ".2f")
        parts.append(f"{name} {said(one['total'], '.2f')}, {said(one['median'], '.2f')}, {formula}")
    rounds = ", ".join(f"{name} {said(one['round_mean'], '.2f')}×" for name, one in found.items())
    return f"{'; '.join(parts)}. As means over rounds of (4), another definition, the gains are {rounds}"


def _printed_gain(snr_db: float) -> str:
    """Give the largest possible gain with the printed numbers, by either definition."""
    sent, gain = 1.0 - value(U, "skipped"), PRINTED["u_gain"].value
    middle, low, high, reached = u_gain_by_totals(snr_db)
    least = u_gain_by_rounds()
    return (
        f"The paper prints {gain:g}× and does not name the SNR. By its own definition of token throughput, a "
        f"ratio of totals (Section IV), the gain is at most {1.0 / sent:.2f}×, averaged over the choice of the sent "
        f"distributions; in one sample the slowest blocks may be among the skipped ones. The paper's payload, share "
        f"and times give {middle:.2f}× [{low:.2f}, {high:.2f}] over samples of {TEXTS} texts of {TOKENS} tokens on "
        f"this link; {reached:.0%} of the samples reach {gain:g}×. A mean over rounds of (4) may exceed it. With the "
        f"paper's times of a pass it is {least:.2f}× or more at every SNR, so {gain:g}× is not such a mean."
    )


def of_paper(names: Iterable[str], paper: str) -> list[str]:
    """Return the methods of the family that a paper proposes."""
    family = Family.CU_HLM if paper == CU else Family.U_HLM
    return [name for name in names if info_of(name).family is family]


def draft_alone(found: Mapping[str, object]) -> list[str]:
    """Return the methods whose numbers are those of the draft model: they verified no draft of any text.

    >>> draft_alone({"small only": 3, "HLM": 1, "CU-HLM online": 3})
    ['CU-HLM online']
    >>> draft_alone({"small only": {"value": None}, "HLM": {"value": None}})  # undefined, so nothing is known
    []
    """
    alone = found.get(ALONE)
    return [name for name, numbers in found.items() if name != ALONE and _has_number(alone) and numbers == alone]


def _has_number(found: object) -> bool:
    """Return whether any number in nested statistics is defined."""
    if isinstance(found, dict | tuple):
        return any(_has_number(part) for part in (found.values() if isinstance(found, dict) else found))
    return found is not None


def nothing_sent(found: Mapping[str, object]) -> str:
    """Name the methods that are the draft model alone in these numbers, as a sentence after a space.

    >>> nothing_sent({"small only": 3, "HLM": 1, "CU-HLM online": 3})
    ' Equal to the draft model alone, as no draft is verified: CU-HLM online.'
    """
    names = draft_alone(found)
    return f" Equal to the draft model alone, as no draft is verified: {', '.join(names)}." if names else ""
