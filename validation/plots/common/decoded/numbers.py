"""Numbers of the figures of cu-hlm V and u-hlm IV: latency of texts over the papers' links, and scores."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from hlmtheory.channel import Rician
from validation.decoding.intervals import ratio
from validation.decoding.links import AVERAGE_SNR_DB, K_FACTOR_DB, FadingLink, uhlm_link
from validation.decoding.methods.catalogue import info_of
from validation.decoding.methods.registry import Family
from validation.decoding.methods.single_draft import BITS, CuHlmOffline, UHlm
from validation.decoding.metrics import Summary, summarize
from validation.decoding.records import GenerationRecord
from validation.decoding.scoring import score_key
from validation.decoding.studies import Decoded
from validation.estimates import Estimate
from validation.plots.common.decoded.timed_texts import RESAMPLES, WORDS, draw_fading, read_study, read_texts, speeds
from validation.plots.common.printed import SNR_DB, U_TIMES
from validation.plots.common.record import Numbers, curve, kept, plain
from validation.plots.common.style import axis

ACCURACIES = {
    "similarity_reference": "similarity to the reference answer",
    "similarity_large": "similarity to another text of the target model",
}
"""The papers' accuracy metric, and the metrics that need no reference answer."""
RIGHT = "right"
METRICS = {RIGHT: "share of right answers", **ACCURACIES}
"""The same, after the share of right answers, which only a pair that was tuned for turns has."""


def _pick(decoded: Decoded, rows: Sequence[GenerationRecord], name: str) -> dict[str, float]:
    found = {row.prompt: decoded.scores.get(score_key(row), {}).get(name) for row in rows}
    return {prompt: value for prompt, value in sorted(found.items()) if value is not None}


def mean_score(decoded: Decoded, rows: Sequence[GenerationRecord], name: str, seed: int) -> Estimate | None:
    values = np.array(list(_pick(decoded, rows, name).values()))
    return ratio(values, np.ones(len(values)), resamples=RESAMPLES, seed=seed) if len(values) else None


def share_of(
    decoded: Decoded, rows: Sequence[GenerationRecord], others: Sequence[GenerationRecord], name: str, seed: int
) -> Estimate | None:
    """Return the ratio of a mean score to another method's, over the texts where both have it."""
    one, other = (_pick(decoded, each, name) for each in (rows, others))
    both = sorted(one.keys() & other.keys())
    if not both:
        return None
    above, below = (np.array([each[prompt] for prompt in both]) for each in (one, other))
    return ratio(above, below, resamples=RESAMPLES, seed=seed)


def perplexity(decoded: Decoded, rows: Sequence[GenerationRecord], seed: int) -> Estimate | None:
    """Return the perplexity under the target model: exp(Σ nats / Σ tokens) over all scored texts."""
    nats = _pick(decoded, rows, "nats_total")
    if not nats:
        return None
    tokens = {row.prompt: float(len(row.tokens)) for row in rows}
    below = np.array([tokens[prompt] for prompt in nats])
    return ratio(np.array(list(nats.values())), below, resamples=RESAMPLES, seed=seed).map(math.exp)


def scored(decoded: Decoded) -> list[str]:
    """Return the metrics of ``METRICS`` that at least one text has."""
    there = {name for row in decoded.records for name in decoded.scores.get(score_key(row), {})}
    return [name for name in METRICS if name in there]


def titled(name: str) -> str:
    """Return the words of a metric of ``METRICS`` with what is averaged."""
    return METRICS[name] if name == RIGHT else f"cosine {METRICS[name]}"


def accuracy_axis(names: Sequence[str]) -> dict[str, Any]:
    words = [] if names and set(names) == {RIGHT} else ["mean cosine similarity"]
    return axis(", ".join([*words, *([METRICS[RIGHT]] if RIGHT in names else [])]))


def in_order(decoded: Decoded) -> dict[str, list[GenerationRecord]]:
    """Return records by method, in the order of the study, without methods whose texts depend on the link rate."""
    return {name: rows for name in decoded.about["methods"] if (rows := decoded.by_method.get((name, "none")))}


def metrics_of(rows: Sequence[GenerationRecord], seed: int) -> Summary:
    return summarize(rows, resamples=RESAMPLES, seed=seed)


def measure_both(studies: Sequence[Decoded], seed: int) -> Numbers:
    """Measure accuracy and throughput of each method under Rayleigh fading at 10 dB."""
    decoded, *_ = studies
    texts = read_study(decoded)
    fading = draw_fading(texts, int(decoded.about["seed"]))
    there = scored(decoded)
    series = []
    for name, rows in in_order(decoded).items():
        made = speeds(texts[name], fading, [SNR_DB], seed=seed)
        words = {word: kept(draws.estimates()[0]) for word, draws in made.items()}
        accuracy = {key: kept(mean_score(decoded, rows, key, seed)) for key in there}
        last = {"perplexity": kept(perplexity(decoded, rows, seed))}
        series.append({"name": name, "throughput": words, "accuracy": accuracy, **last})
    speed = axis("token throughput, median over texts", "tokens/s")
    return {
        "axes": [{"x": speed, "y": accuracy_axis([name])} for name in there]
        or [{"x": speed, "y": axis("perplexity under the target model")}],
        "series": series,
        "statistics": {"accuracies": there},
    }


def _by(decoded: Decoded, kind: type, name: str, other: tuple[type, ...] = ()) -> dict[Any, list[GenerationRecord]]:
    rows = in_order(decoded)
    made = [one for one in decoded.methods if isinstance(one, kind) and not isinstance(one, other)]
    return {getattr(one, name): rows[one.name] for one in made if one.name in rows}


def _accuracy_lines(decoded: Decoded, by_x: dict[Any, list[GenerationRecord]], seed: int) -> list[dict[str, Any]]:
    x = list(by_x)
    return [
        curve(titled(name), x, [mean_score(decoded, rows, name, seed) for rows in by_x.values()], kind=name)
        for name in scored(decoded)
    ]


def skipped_of_accepted(rows: Sequence[GenerationRecord], seed: int) -> Estimate:
    """Return u-hlm's true skip rate, P(skipped | target would accept)."""
    if not all(row.risk_computed for row in rows):
        return Estimate(None)
    rows = sorted(rows, key=lambda row: row.prompt)
    unseen = np.array([row.total("skipped") - row.total("skip_risk") for row in rows])
    accepted = np.array([row.total("accepted") for row in rows])
    return ratio(unseen, unseen + accepted, resamples=RESAMPLES, seed=seed)


def measure_thresholds(studies: Sequence[Decoded], seed: int) -> Numbers:
    """Measure accuracy, transmission rate and both true skip rates over the threshold."""
    decoded, *_ = studies
    by_threshold = _by(decoded, UHlm, "threshold", (CuHlmOffline,))
    x = list(by_threshold)
    words = {threshold: metrics_of(rows, seed) for threshold, rows in by_threshold.items()}
    sent, true = ([found[name] for found in words.values()] for name in ("transmission_rate", "true_skip_rate"))
    fitted = decoded.about["fitted"]
    theirs = [skipped_of_accepted(rows, seed) for rows in by_threshold.values()]
    threshold = axis("threshold of the uncertainty")
    return {
        "axes": [{"x": threshold, "y": axis("share")}, {"x": threshold, "y": accuracy_axis(scored(decoded))}],
        "series": [
            curve("transmission rate", x, sent, kind="transmission"),
            curve("true skip rate of cu-hlm, P(accepted | skipped)", x, true, kind="accepted_if_skipped"),
            curve("true skip rate of u-hlm, P(skipped | accepted)", x, theirs, kind="skipped_if_accepted"),
            *_accuracy_lines(decoded, by_threshold, seed),
        ],
        "statistics": {"thresholds": plain([fitted["risk_averse"], fitted["risk_prone"]])},
    }


def measure_sizes(studies: Sequence[Decoded], seed: int) -> Numbers:
    decoded, *_ = studies
    by_size = _by(decoded, CuHlmOffline, "k")
    texts = {k: read_texts(rows) for k, rows in by_size.items()}
    x = list(by_size)

    def of_message(name: str) -> list[Estimate]:
        found = []
        for one in texts.values():
            values = getattr(one, name)
            above, below = (np.bincount(one.text, w, len(one.tokens)) for w in (values, (values > 0).astype(float)))
            found.append(ratio(above, below, resamples=RESAMPLES, seed=seed))
        return found

    sent = [metrics_of(rows, seed)["transmission_rate"] for rows in by_size.values()]
    formula, encoded = (of_message(name) for name in ("formula", "encoded"))
    scale = "log" if any(one.value for one in (*formula, *encoded)) else "linear"
    thresholds = [one.threshold for one in decoded.methods if isinstance(one, CuHlmOffline)]
    vocabulary = int(decoded.about["pair"]["vocabulary"])
    return {
        "axes": [
            {"x": axis("entries sent k", scale="log"), "y": accuracy_axis(scored(decoded))},
            {"x": axis("entries sent k", scale="log"), "y": axis("uplink payload of a message", "bit", scale)},
        ],
        "series": [
            *_accuracy_lines(decoded, by_size, seed),
            curve("by the formula, k(8 + ⌈log₂ V⌉)", x, formula, kind="formula"),
            curve("as encoded", x, encoded, kind="encoded"),
            curve("transmission rate", x, sent, kind="transmission"),
        ],
        "statistics": {
            "threshold": plain(thresholds[0]) if thresholds else None,
            "risk_prone": plain(decoded.about["fitted"]["risk_prone"]),
            "offline_k": decoded.about["fitted"]["offline_k"],
            "vocabulary": vocabulary,
        },
    }


def _speed_numbers(
    decoded: Decoded, snr_db: Sequence[float], place: int, *, k_factor_db: float | None = None, **settings: Any
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    texts = read_study(decoded)
    fading = draw_fading(texts, int(decoded.about["seed"]), k_factor_db)
    names = [name for name in decoded.about["methods"] if name in texts]
    found = {name: speeds(texts[name], fading, snr_db, **settings) for name in names}
    series = [
        curve(name, snr_db, draws[word].estimates(), word=word) for name, draws in found.items() for word in WORDS
    ]
    whole = found.get("HLM", {})
    gains = {
        name: {word: kept(draws[word].over(whole[word]).estimates()[place]) for word in WORDS}
        for name, draws in (found.items() if whole else ())
    }
    vocabulary = int(decoded.about["pair"]["vocabulary"])
    return series, {"gains": gains, "gains_at_snr_db": snr_db[place], "vocabulary": vocabulary}


def measure_speeds(studies: Sequence[Decoded], seed: int, *, rician: bool) -> Numbers:
    decoded, *_ = studies
    find = partial(_speed_numbers, decoded, AVERAGE_SNR_DB, 0, k_factor_db=K_FACTOR_DB if rician else None, seed=seed)
    series, statistics = find(bits="formula")  # the paper's (4)
    statistics |= {"bits_a_value": BITS, "gains_of_messages": find(bits="encoded")[1]["gains"]}
    both = {"x": axis("average SNR", "dB"), "y": axis("token throughput", "tokens/s", "log")}
    return {"axes": 2 * [both], "series": series, "statistics": statistics}


def mean_snr(link: FadingLink) -> float:
    return float(link.fading.mean_snr if isinstance(link.fading, Rician) else link.fading)


def measure_methods(studies: Sequence[Decoded], seed: int) -> Numbers:
    """Measure the rates of each skipping method, and its throughput over the average SNR of u-hlm's link."""
    decoded, *_ = studies
    own = uhlm_link()
    own_db = round(10.0 * float(np.log10(mean_snr(own))), 4)
    snr_db = sorted({*map(float, AVERAGE_SNR_DB), own_db})
    series, statistics = _speed_numbers(
        decoded, snr_db, snr_db.index(own_db), seed=seed, bandwidth_hz=own.bandwidth_hz, times=U_TIMES
    )
    bars = []
    for name, rows in in_order(decoded).items():
        if info_of(name).family not in (Family.RAND_HLM, Family.U_HLM, Family.CU_HLM):
            continue
        words = metrics_of(rows, seed)
        rates = {"transmission": words["transmission_rate"], "accepted_if_skipped": words["true_skip_rate"]}
        rates["skipped_if_accepted"] = skipped_of_accepted(rows, seed)
        bars.append({"name": name} | {key: kept(rate) for key, rate in rates.items()})
    return {
        "axes": [
            {"x": axis("share"), "y": axis("method")},
            {"x": axis("average SNR", "dB"), "y": axis("token throughput, median", "tokens/s", "log")},
        ],
        "bars": bars,
        "series": series,
        "statistics": statistics | {"link_snr_db": own_db},
    }
