"""Say why two engines print different acceptance for one pair of models.

Each convention by which an engine prints acceptance is applied to the counts of both sides. Where both numbers agree,
the engines differ in how they count; where they differ under each, drafts were accepted differently: other drafts,
another rule, other texts or other weights. First drafts are compared at one K only: others begin at other tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from validation.acceptance.planners import acceptance_length, mean_over
from validation.acceptance.record import AcceptanceRecord, LengthsUnknownError
from validation.acceptance.summary import FEWEST_CLUSTERS, Summary
from validation.acceptance.sweep import not_compared, point_of
from validation.errors import UserError
from validation.estimates import Estimate

CONVENTIONS = {
    "tokens": "tokens a step, the target's own included",
    "accepted": "accepted drafts a step",
    "answer": "tokens of the answer a step, the prefill's included",
    "requests": "tokens a step, mean over requests",
    "rate": "accepted drafts over drafts",
    "configured": "accepted drafts over steps times K",
    "first": "acceptance of a step's first draft",
    "common": "tokens a step at the shorter K",
}
"""What each number is, in words."""
PRINTED = {"sglang": "answer", "specdec_bench": "requests"}
"""The acceptance length that an engine prints; of all others, such as vLLM and llama.cpp, ``tokens``."""

EITHER_WAY = ("synthetic", "typical")
"""Lossy rules that may also accept fewer drafts: at a prescribed rate, or by a threshold on p alone."""


@dataclass(frozen=True, slots=True)
class Side:
    """One engine's records, their summary, and the draft length that it assumes."""

    records: Sequence[AcceptanceRecord]
    summary: Summary
    assumed_length: int | None = None

    @property
    def printed(self) -> str:
        """Return the convention of the acceptance length that the engine prints."""
        return PRINTED.get(self.summary.engine, "tokens")

    @property
    def longest(self) -> int | None:
        """Return the configured drafts of a step, or the most that are recorded; None if neither is known."""
        configured = max((record.longest or 0 for record in self.records), default=0)
        return self.assumed_length or configured or max(self.summary.counts or {}, default=0) or None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One convention: both numbers, None where a side lacks what it needs, and whether they agree."""

    key: str
    first: Estimate | None
    second: Estimate | None
    agree: bool | None

    @property
    def apart(self) -> float | None:
        """Return by which share the second number is above the first."""
        if self.first is None or self.second is None or not self.first.value or self.second.value is None:
            return None
        bounded = self.first.most is not None or self.second.most is not None
        return None if bounded else self.second.value / self.first.value - 1.0


@dataclass(frozen=True, slots=True)
class Reconciliation:
    engines: tuple[str, str]
    printed: tuple[str, str]
    rows: tuple[Row, ...]
    findings: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "engines": list(self.engines),
            "printed": list(self.printed),
            "conventions": [
                {"convention": row.key, "means": CONVENTIONS[row.key], "agree": row.agree}
                | {"first": row.first and row.first.plain(), "second": row.second and row.second.plain()}
                for row in self.rows
            ],
            "findings": list(self.findings),
        }


def reconcile(first: Side, second: Side, confidence: float) -> Reconciliation:
    """Return both sides under each convention, and why their printed numbers differ."""
    if {record.source for record in first.records} & {record.source for record in second.records}:
        raise UserError("Both sides are of the same file; give the counts of the other engine.")
    common = min(filter(None, (first.longest, second.longest)), default=None)
    alike = first.longest == second.longest
    tables = [_numbers(side, common, alike, confidence) for side in (first, second)]
    rows = tuple(
        Row(key=key, first=tables[0][key], second=tables[1][key], agree=overlap(tables[0][key], tables[1][key]))
        for key in CONVENTIONS
    )
    engines = first.summary.engine, second.summary.engine
    printed = first.printed, second.printed
    return Reconciliation(engines, printed, rows, tuple(_findings((first, second), tables, rows)))


def replay(side: Side, length: int, confidence: float) -> Estimate | None:
    """Return the tokens a step of the same text with drafts cut to K; None without counts by depth.

    A draft is assumed to depend on the text before it alone, so that each token's draft is accepted in every step that
    reaches it, or in none; of sampled drafts this holds given the text (:mod:`validation.planning.laws`). A step of i
    accepted drafts and a rejected one ends where each replay ends a step. The target's own token after k of k accepted
    drafts has a draft that is not known. If all those are rejected, a replay takes Σ ⌈(i + 1)/(K + 1)⌉ steps. If all
    are accepted, such a step joins the next one; as ⌈(x + y)/m⌉ ≥ ⌊x/m⌋ + ⌈y/m⌉, it takes at least ⌊(k + 1)/(K + 1)⌋ of
    them. Both ends are attained.

    The interval joins those of both ends: over requests, if there are enough, else over steps as if independent.
    """
    requests = []
    for record in side.records:
        try:
            fewest, _ = record.examined(side.assumed_length)
        except LengthsUnknownError:
            return None
        units = [(n, k, i) for k, row in fewest.items() for i, n in enumerate(row) if n]
        steps, drafted, accepted = np.array(units, dtype=np.int64).T
        most, least = -(-(accepted + 1) // (length + 1)), (accepted + 1) // (length + 1)
        least = np.where(accepted < drafted, most, least)
        requests.append(np.stack([steps, accepted + 1, most, least]).astype(np.float64))
    if len(requests) < FEWEST_CLUSTERS:
        count, tokens, most, least = np.concatenate(requests, axis=1)
    else:
        count = np.ones(len(requests))
        tokens, most, least = np.stack([request[1:] @ request[0] for request in requests], axis=1)
    low, high = (mean_over(tokens, np.maximum(steps, 1e-9), confidence, count) for steps in (most, least))
    ends = [None if end is None else min(end, length + 1.0) for end in (high.value, high.high)]
    return Estimate(low.value, low.low, ends[1], most=None if low.value == high.value else ends[0])


def _numbers(side: Side, common: int | None, alike: bool, confidence: float) -> dict[str, Estimate | None]:
    summary, records = side.summary, side.records
    length = acceptance_length(records, summary, confidence)
    accepted, steps = length + -1.0, summary.steps
    drafted = [record.num_draft_tokens for record in records]
    answers = [record.completion_tokens for record in records]
    complete = all(answers)  # a step emits a token, so an answer of none says nothing
    possible = sum(record.num_spec_steps * (record.num_spec_tokens or side.longest or 0) for record in records)
    each = [1.0 + record.num_accepted_draft_tokens / record.num_spec_steps for record in records]
    depth = summary.depths[0] if summary.depths else None
    at_common = None if common is None else replay(side, common, confidence)
    if at_common is not None and at_common.most is None and length.low is not None:
        at_common = length  # every step drafted K: its own interval holds at all numbers of steps
    total = sum(filter(None, drafted))
    return {
        "tokens": length,
        "accepted": accepted,
        "answer": length + (sum(filter(None, answers)) / steps - summary.mean_acceptance_length) if complete else None,
        "requests": mean_over(each, [1.0] * len(each), confidence) if len(each) > 1 else None,
        "rate": accepted * (steps / total) if total and None not in drafted else None,
        "configured": accepted * (steps / possible) if possible else None,
        "first": None
        if depth is None or not alike
        else Estimate(depth.accepted / depth.examined, depth.low, depth.high),
        "common": at_common,
    }


def overlap(first: Estimate | None, second: Estimate | None) -> bool | None:
    if first is None or second is None:
        return None
    if first.low is None or first.high is None or second.low is None or second.high is None:
        return None
    return first.low <= second.high and second.low <= first.high


def _findings(sides: tuple[Side, Side], tables: Sequence[dict[str, Estimate | None]], rows: Sequence[Row]) -> list[str]:
    findings = [_as_printed(sides, tables)]
    runs = [point_of(x, side.records, assumed_length=side.assumed_length) for x, side in zip("AB", sides, strict=True)]
    findings += not_compared(runs)
    timed = [(1e3 * run.seconds, 1e3 * run.seconds * run.tokens) for run in runs if run.seconds is not None]
    if len(timed) == 2:
        findings.append(
            f"As timed, a token takes {timed[0][0]:.3g} ms with A and {timed[1][0]:.3g} with B, a step "
            f"{timed[0][1]:.3g} and {timed[1][1]:.3g}: --sweep ranks runs by the first."
        )
    lengths = [side.longest for side in sides]
    if None not in lengths and lengths[0] != lengths[1]:
        findings.append(
            f"They draft up to {lengths[0]} and {lengths[1]} tokens a step, so their steps begin at other tokens. "
            "Compared is what the same texts would take with drafts cut to the shorter K, if a draft depends on the "
            "text before it alone."
        )
    if alike := [CONVENTIONS[row.key] for row in rows if row.agree]:
        findings.append(f"They agree within their intervals by: {'; '.join(alike)}.")
    by_key = {row.key: row for row in rows}
    if by_key["common"].agree is None and lengths[0] != lengths[1]:
        unknown = " and ".join(letter for letter, length in zip("AB", lengths, strict=True) if length is None)
        why = "a side has no acceptance by depth"
        if unknown:
            why = f"the K of {unknown} is not recorded; give --draft-length"
        return [*findings, f"Whether they accept alike is not decided: {why}."]
    deciding = by_key["common"] if by_key["common"].agree is not None else by_key["tokens"]
    return [*findings, _conclusion(deciding, sides)]


def _as_printed(sides: tuple[Side, Side], tables: Sequence[dict[str, Estimate | None]]) -> str:
    numbers, printed = [], []
    for letter, side, table in zip("AB", sides, tables, strict=True):
        key = side.printed if table[side.printed] is not None else "tokens"
        numbers.append((table[key] or Estimate(None)).value or side.summary.mean_acceptance_length)
        printed.append(f"{side.summary.engine} ({letter}) {numbers[-1]:.3f} ({CONVENTIONS[key]})")
    return f"As each prints it: {', '.join(printed)}; B is {_percent(numbers[1] / numbers[0] - 1.0)} from A."


def _conclusion(deciding: Row, sides: tuple[Side, Side]) -> str:
    alike = f"Counted alike ({CONVENTIONS[deciding.key]})"
    if deciding.agree is True:
        return (
            f"{alike} the intervals do not tell them apart: what else differs in print is how the engines count, or K."
        )
    if deciding.agree is False:
        by = "" if deciding.apart is None else f" by {_percent(deciding.apart)}"
        return f"{alike} they differ{by}: drafts were accepted differently.{_causes(sides)}"
    apart = "" if deciding.apart is None else f" {alike} they are {_percent(deciding.apart)} apart."
    return (
        f"Whether they accept alike is not decided, because a side has no interval.{apart} Give one record a request, "
        "20 or more, or counts by position."
    )


def _causes(sides: tuple[Side, Side]) -> str:
    drafts, rules = (
        tuple(getattr(side.summary, name) or "not stated" for side in sides)
        for name in ("draft_sampling", "verification")
    )
    marks = []
    if drafts[0] != drafts[1] or "not stated" in drafts:
        marks.append(f"drafts {drafts[0]} and {drafts[1]}")
    if rules[0] != rules[1] or "not stated" in rules:
        marks.append(f"verification {rules[0]} and {rules[1]}")
    lossy = sorted({str(side.summary.verification) for side in sides if side.summary.lossless is False})
    sentence = f" Marks: {', '.join(marks)}." if marks else " The marks of both sides are equal."
    for rule in lossy:
        how = "more or fewer drafts than" if rule in EITHER_WAY else "more than"
        sentence += f" {rule} accepts {how} lossless verification does."
    return sentence + " Other causes: temperature, prompts, weights (quantised), a template, a defect."


def _percent(share: float | None) -> str:
    return "unknown" if share is None else f"{100 * share:+.1f}%"
