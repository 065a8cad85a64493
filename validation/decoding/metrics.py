"""The metrics of a decoding method: ratios of two totals over prompts, and medians over prompts.

Intervals are bootstrap percentiles over prompts. Methods with the same prompts get the same resamples.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter
from typing import Any

import numpy as np

from validation.arrays import Array
from validation.decoding import intervals
from validation.decoding.records import SUMMED, GenerationRecord
from validation.errors import UserError
from validation.estimates import CONFIDENCE, Estimate

Columns = Mapping[str, Array]
_FIELDS = attrgetter(*SUMMED)
_PLACE = {name: column for column, name in enumerate(SUMMED)}


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric: the two columns whose totals it divides."""

    name: str
    above: str
    below: str
    complement: bool = False
    needs_risk: bool = False


METRICS = (
    Metric("tokens_per_s", "tokens", "seconds"),  # token throughput, ratio of totals (u-hlm IV)
    Metric("tokens_per_s_text_mean", "text_speed", "timed_texts"),  # mean over texts of their throughput
    # mean of ratios over rounds: of cu-hlm (6), a skipped token being a round; never below tokens_per_s where a round
    # gives one token, and finite in the mean under Rayleigh fading, where the mean time is not
    Metric("tokens_per_s_round_mean", "turn_speed", "timed_turns"),
    Metric("seconds_per_text", "seconds", "texts"),  # latency: time of a text, prompt apart (c-sqs 4)
    Metric("device_s_per_token", "draft_s", "tokens"),  # draft model's time (cu-hlm Table II)
    Metric("link_s_per_token", "link_s", "tokens"),  # communication (cu-hlm Table II)
    Metric("server_s_per_token", "target_s", "tokens"),  # target model's time (cu-hlm Table II)
    Metric("transmission_rate", "sent", "turns"),  # TR: rounds with an uplink transmission (cu-hlm V-B)
    Metric("share_skipped", "skipped", "tokens"),  # tokens kept without verification
    # TSR: chance that a skipped token would be accepted, mean of min(1, p_d/q_d) (cu-hlm V-B)
    Metric("true_skip_rate", "skip_risk", "skipped", complement=True, needs_risk=True),
    Metric("resampling_rate", "resampled", "rounds"),  # rejected and resampled drafts over rounds (c-sqs 4)
    Metric("acceptance", "accepted", "drafted"),  # drafts accepted, of those sent
    Metric("acceptance_looked_at", "accepted", "looked_at"),  # drafts accepted, of those decided on
    Metric("accepted_length", "accepted", "rounds"),
    Metric("drafts_per_round", "drafted", "rounds"),
    Metric("tokens_per_round", "tokens", "rounds"),  # new tokens, skipped ones too
    Metric("bits_per_token", "bits", "tokens"),  # uplink, by the papers' formulas
    Metric("bits_per_message", "bits", "sent"),  # uplink of a round in which anything is sent, by formula
    Metric("bytes_per_token", "bytes", "tokens"),  # uplink, as encoded
    Metric("down_bytes_per_token", "down_bytes", "tokens"),  # downlink, as encoded
    Metric("risk", "risk", "texts", needs_risk=True),  # bounds the total variation of texts from the target model's
)
"""The metrics that are ratios of totals, in the order of the tables."""

MEDIANS: dict[str, tuple[str, str]] = {
    "tokens_per_s_text_median": ("tokens", "seconds"),
    "seconds_per_token_text_median": ("seconds", "tokens"),
    "link_s_per_token_text_median": ("link_s", "tokens"),
}
"""The metrics that are medians over prompts of above/below.

Under Rayleigh fading the mean time of a message is infinite. A ratio of totals, and its interval, then describe only
these prompts and this fading, and grow with their number. A median does not.
"""


@dataclass(frozen=True, slots=True)
class Summary:
    """One method over one link: the estimates by the names of ``METRICS`` and ``MEDIANS``."""

    method: str
    link: str
    tokens: int
    estimates: dict[str, Estimate]
    draws: dict[str, Array] = field(repr=False, compare=False)

    def __getitem__(self, name: str) -> Estimate:
        return self.estimates[name]


def summarize(
    records: Sequence[GenerationRecord],
    *,
    confidence: float = CONFIDENCE,
    resamples: int = intervals.DEFAULT_RESAMPLES,
    seed: int = intervals.DEFAULT_SEED,
) -> Summary:
    intervals.check_settings(confidence, resamples)
    records = sorted(records, key=lambda record: record.prompt)  # the draws must not depend on their order
    method, link = _one_method(records)
    columns = columns_of(records)
    chosen = intervals.draw_texts(len(records), resamples, seed)
    values, draws = _metric_values(columns, np.arange(len(records))[None]), _metric_values(columns, chosen)
    estimates = {name: intervals.estimate(values[name][0], draws[name], confidence) for name in values}
    return Summary(method, link, int(columns["tokens"].sum()), estimates, draws)


def summary(records: Iterable[GenerationRecord]) -> list[dict[str, Any]]:
    """Return one line for each method and link: every metric of ``METRICS`` by name, without intervals."""
    groups: dict[tuple[str, str], list[GenerationRecord]] = {}
    for record in records:
        groups.setdefault((record.method, record.link), []).append(record)
    rows = []
    for (method, link), group in groups.items():
        columns = columns_of(group)
        values = _metric_values(columns, np.arange(len(group))[None])
        metrics = {name: float(value[0]) if np.isfinite(value[0]) else None for name, value in values.items()}
        risks, count = columns["risk"], len(group)
        error = float(risks.std(ddof=1) / np.sqrt(count)) if count > 1 else None
        head = {"method": method, "link": link, "texts": count, "tokens": int(columns["tokens"].sum())}
        rows.append(head | metrics | {"risk_error": error})
    return rows


def _metric_values(columns: Columns, chosen: Array) -> dict[str, Array]:
    counts = intervals.counts_of(chosen, len(columns["texts"]))
    total = {name: counts @ column for name, column in columns.items()}
    has_risk = bool(columns["risk_computed"].all())
    values = {}
    for metric in METRICS:
        ratio = intervals.divide(total[metric.above], total[metric.below])
        if metric.needs_risk and not has_risk:
            ratio = np.full(len(chosen), np.nan)
        values[metric.name] = 1.0 - ratio if metric.complement else ratio
    for name, (above, below) in MEDIANS.items():
        values[name] = intervals.median(intervals.divide(columns[above], columns[below])[chosen])
    return values


def _one_method(records: Sequence[GenerationRecord]) -> tuple[str, str]:
    names = sorted({(record.method, record.link) for record in records})
    if len(names) != 1:
        several = ", ".join(f"{method!r} over {link!r}" for method, link in names) or "none"
        raise UserError(f"The records must be of one method over one link; got {several}.")
    ids = [record.prompt for record in records]
    if twice := next((name for name, after in pairwise(ids) if name == after), None):
        raise UserError(f"Two records are of the prompt {twice!r}; give one for each prompt.")
    return names[0]


def columns_of(records: Sequence[GenerationRecord]) -> dict[str, Array]:
    """Return columns (records,): the sums of the fields of :class:`Round`, and counts of texts, tokens and turns."""
    tables = [np.array([_FIELDS(row) for row in (*record.rounds, record.last)], dtype=np.float64) for record in records]
    sums = np.stack([table.sum(axis=0) for table in tables])
    columns = {name: sums[:, column] for name, column in _PLACE.items()}
    columns["texts"] = np.ones(len(records))
    columns["risk_computed"] = np.array([float(record.risk_computed) for record in records])
    columns["tokens"] = np.array([float(len(record.tokens)) for record in records])
    columns["seconds"] = columns["draft_s"] + columns["target_s"] + columns["link_s"] - columns["overlap_s"]
    columns["rounds"] = np.array([float(len(record.rounds)) for record in records])
    columns["sent"] = np.array([float(np.count_nonzero(table[:, _PLACE["bytes"]])) for table in tables])
    columns["turns"] = columns["rounds"] + columns["skipped"]  # the rounds of cu-hlm and u-hlm
    columns["looked_at"] = columns["accepted"] + columns["resampled"]  # drafts after a rejected one are dropped
    timed = columns["seconds"] > 0
    columns["timed_texts"] = timed.astype(np.float64)
    columns["text_speed"] = np.where(timed, columns["tokens"] / np.where(timed, columns["seconds"], 1.0), 0.0)
    columns["turn_speed"], columns["timed_turns"] = np.array([_turns(table) for table in tables]).T
    return columns


def _turns(table: Array) -> tuple[float, float]:
    """Return Σ of tokens per second over the turns of a sequence that take time, and their number."""
    draft, passes, skipped = (table[:, _PLACE[name]] for name in ("draft_s", "draft_passes", "skipped"))
    each = draft / np.maximum(passes, 1.0)  # a skipped token takes one pass
    rest = np.maximum(passes - skipped, 0.0) * each + table[:, _PLACE["target_s"]] + table[:, _PLACE["link_s"]]
    rest -= table[:, _PLACE["overlap_s"]]
    new = table[:, _PLACE["accepted"]] + table[:, _PLACE["resampled"]] + table[:, _PLACE["bonus"]]
    asked = np.arange(len(table)) < len(table) - 1  # the last entry is not an exchange
    skips, turns = (skipped > 0) & (each > 0), asked & (rest > 0)
    speed = (skipped[skips] / each[skips]).sum() + (new[turns] / rest[turns]).sum()
    return float(speed), float(skipped[skips].sum() + np.count_nonzero(turns))
