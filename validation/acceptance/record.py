"""Define the record of accepted drafts, and decide which records give the acceptance at every depth.

The fields have the names of AIPerf's ``SpecDecodeAcceptanceRecord``. A *step* is one verification by the target model.
It drafts k tokens and accepts the first i of them, so it emits i + 1 tokens: the last one is the target model's own.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from validation.acceptance.counts import GREATEST_LENGTH
from validation.errors import UserError

DRAFTS = ("greedy", "sampled", "copied")
"""Ways of drafting: the most probable token, a token drawn from q, or a token copied from the text.

A copied draft, as of n-grams, has no q: it is recorded as ``greedy`` with the mark ``copied``.
"""

VERIFICATIONS = dict.fromkeys(("standard", "block", "match"), True)
VERIFICATIONS |= dict.fromkeys(("threshold", "typical", "fly", "relaxed", "synthetic"), False)
"""Acceptance rules, and whether the text keeps the target's distribution.

``match`` accepts a draft that equals the token that the target samples; ``threshold`` is SGLang's
``speculative_accept_threshold_single`` or ``_acc`` below 1; ``relaxed`` is TensorRT-LLM's relaxed acceptance;
``typical`` is Medusa's typical acceptance; ``synthetic`` accepts at a rate that was prescribed, whatever the models
say.
"""


class LengthsUnknownError(UserError):
    """The counts do not say how many tokens their steps drafted."""


Counts = dict[int, tuple[int, ...]]
"""Steps by draft length k and accepted drafts i: ``counts[k][i]``, with k + 1 entries for each k."""
COUNTS: tuple[str, ...] = ("num_spec_steps", "num_accepted_draft_tokens", "num_draft_tokens", "num_spec_tokens")
COUNTS += ("accepted_per_position", "per_step_accepted", "per_step_drafted")


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceRecord:
    """Counts of accepted drafts of one request, or of a whole run."""

    engine: str  # format or engine that wrote the counts
    source: str  # file and place
    num_spec_steps: int
    num_accepted_draft_tokens: int  # without the target model's own token of each step
    num_draft_tokens: int | None = None  # None if the engine gives the configured number instead
    num_spec_tokens: int | None = None  # the largest draft length that was configured
    completion_tokens: int | None = None
    acceptance_histogram: Mapping[int, int] | None = None  # steps by the number of accepted drafts
    accepted_per_position: tuple[int, ...] | None = None  # steps that accepted their draft at position 0, 1, ...
    by_draft_length: Counts | None = None  # steps by draft length and accepted drafts
    per_step_accepted: tuple[int, ...] | None = None  # of each step, in order
    per_step_drafted: tuple[int, ...] | None = None
    draft_sampling: str | None = None  # "greedy": the most probable token; "sampled": drawn from q
    verification: str | None = None  # a key of VERIFICATIONS, or an engine's own name of its rule
    seconds_per_token: float | None = None  # of the generation, as the engine or the benchmark timed it
    copied: bool = False  # whether the drafts are known to be copied from the text, as n-grams are
    category: str | None = None  # the kind of prompt, as a benchmark names it

    def __post_init__(self) -> None:
        if self.seconds_per_token is not None and not 0 < self.seconds_per_token < math.inf:
            raise UserError(f"{self.source}: a token took {self.seconds_per_token!r} s; a time above 0 is needed.")
        numbers: dict[str, Any] = {name: getattr(self, name) for name in COUNTS}
        table = self.by_draft_length or {}
        numbers["acceptance_histogram"] = [x for pair in (self.acceptance_histogram or {}).items() for x in pair]
        numbers["acceptance_histogram_by_draft_length"] = [x for k, row in table.items() for x in (k, *row)]
        for name, values in numbers.items():
            for value in values if isinstance(values, list | tuple) else [values or 0]:
                if value < 0:
                    raise UserError(f"{self.source}: {name} is {value:,}; a count cannot be negative.")
        if (self.num_spec_tokens or 0) > GREATEST_LENGTH:
            raise UserError(f"{self.source}: num_spec_tokens is {self.num_spec_tokens:,}; at most {GREATEST_LENGTH:,}.")
        for contradiction in self._contradictions():
            raise UserError(f"{self.source}: {contradiction}; the file is damaged, or another engine wrote it.")

    def _contradictions(self) -> Iterator[str]:
        steps, accepted, drafted = self.num_spec_steps, self.num_accepted_draft_tokens, self.num_draft_tokens
        if drafted is not None and accepted > drafted:
            yield f"{accepted:,} drafts are accepted, but only {drafted:,} were made"
        name = "acceptance_histogram_by_draft_length"
        for length, row in (self.by_draft_length or {}).items():
            if len(row) != length + 1:
                yield f"{name} has {len(row)} counts for draft length {length}; {length + 1} are needed"
        each, lengths = self.per_step_accepted or (), self.per_step_drafted
        if lengths is not None and self.per_step_accepted is not None and len(each) != len(lengths):
            yield "per_step_accepted and per_step_drafted differ in length"
        yield from (
            f"step {n} accepted {i} of {k} drafts"
            for n, (i, k) in enumerate(zip(each, lengths or (), strict=False))
            if i > k
        )
        longest = math.inf if self.num_spec_tokens is None else self.num_spec_tokens
        for name, histogram in (("acceptance_histogram", self.acceptance_histogram), *self._tables()):
            if histogram is None:
                continue
            totals = sum(histogram.values()), sum(i * count for i, count in histogram.items())
            if totals != (steps, accepted):
                text = "has {:,} steps and {:,} accepted drafts; the totals are".format(*totals)
                yield f"{name} {text} {steps:,} and {accepted:,}"
            if (deepest := max((i for i, count in histogram.items() if count), default=0)) > longest:
                yield f"{name} has a step of {deepest} accepted drafts; a step has at most {longest}"
        if (places := self.accepted_per_position) is not None:
            if any(later > earlier for earlier, later in pairwise((steps, *places))):
                yield "a later position has more accepted drafts than an earlier one; a step accepts a prefix"
            if sum(places) != accepted:
                yield f"the positions have {sum(places):,} accepted drafts; the total is {accepted:,}"
        for what, count in (("accepted", accepted), ("made", drafted or 0)):
            if count > longest * steps:
                yield f"{count:,} drafts are {what} in {steps:,} steps of at most {longest:,}"

    def _tables(self) -> Iterator[tuple[str, Mapping[int, int] | None]]:
        if self.by_draft_length is not None:
            total: Counter[int] = Counter()
            for row in self.by_draft_length.values():
                total.update(dict(enumerate(row)))
            yield "acceptance_histogram_by_draft_length", total
        if self.per_step_accepted is not None:
            yield "per_step_accepted", Counter(self.per_step_accepted)

    @property
    def reads_again(self) -> bool:
        """Return whether the engine's draft model reads the verified tokens again after each step."""
        return self.engine.startswith("llama.cpp") and not self.copied

    @property
    def mean_acceptance_length(self) -> float | None:
        """Return the mean tokens of a step, including the target model's own; None without steps."""
        return 1.0 + self.num_accepted_draft_tokens / self.num_spec_steps if self.num_spec_steps else None

    @property
    def longest(self) -> int | None:
        """Return the largest draft length: as configured, else the positions that are counted; None if not known."""
        return self.num_spec_tokens or len(self.accepted_per_position or ()) or None

    @property
    def fixed_length(self) -> int | None:
        """Return the drafts of every step, if the totals say that all drafted the largest number; else None."""
        most = self.longest or 0
        return most if self.num_draft_tokens == most * self.num_spec_steps else None

    @property
    def histogram(self) -> Mapping[int, int] | None:
        """Return the steps by number of accepted drafts, from finer counts if need be; None if unknown."""
        if self.acceptance_histogram is not None:
            return self.acceptance_histogram
        if self.accepted_per_position is None:
            return next((table for _, table in self._tables()), None)
        ends = (self.num_spec_steps, *self.accepted_per_position, 0)
        return {i: ends[i] - ends[i + 1] for i in range(len(ends) - 1)}

    @property
    def knows_lengths(self) -> bool:
        by_step = self.per_step_accepted is not None and self.per_step_drafted is not None
        return self.by_draft_length is not None or by_step or self.fixed_length is not None

    def counts(self, assumed_length: int | None = None) -> Counts:
        table = None
        if self.by_draft_length is not None:
            table = dict(self.by_draft_length)
        elif self.per_step_accepted is not None and self.per_step_drafted is not None:
            table = tally(zip(self.per_step_drafted, self.per_step_accepted, strict=True))
        if assumed_length is not None:
            self._refuse_length(assumed_length, table)
        if table is not None:
            return table
        histogram = self.histogram
        if histogram is None:
            raise LengthsUnknownError(
                f"{self.source} has totals only: they give the mean number of accepted drafts, but not the acceptance "
                "at each depth"
            )
        length = self.fixed_length if self.fixed_length is not None else assumed_length
        if length is None:
            raise LengthsUnknownError(
                f"{self.source} does not contain the draft lengths of its steps, or they varied: a step that "
                "accepted i drafts may have drafted only i tokens. If every step drafted K tokens, give "
                "--draft-length K"
            )
        if (deepest := max((i for i, count in histogram.items() if count), default=0)) > length:
            raise UserError(f"{self.source} has a step with {deepest} accepted drafts; K cannot be {length}.")
        return {length: tuple(histogram.get(i, 0) for i in range(length + 1))}

    def _refuse_length(self, length: int, table: Counts | None) -> None:
        steps, drafted, why = self.num_spec_steps, self.num_draft_tokens, ""
        recorded = max((k for k, row in (table or {}).items() if any(row)), default=length)
        if recorded != length:
            why = f"its longest draft has {recorded} tokens"
        elif self.num_spec_tokens is not None and length > self.num_spec_tokens:
            why = f"its num_spec_tokens is {self.num_spec_tokens}"
        elif table is None and drafted is not None and steps and math.ceil(drafted / steps) != length:
            why = f"it has {drafted:,} drafts in {steps:,} steps, {drafted / steps:.2f} each"
        elif self.histogram is None and self.num_accepted_draft_tokens > length * steps:
            why = f"it has {self.num_accepted_draft_tokens:,} accepted drafts in {steps:,} steps"
        if why:
            raise UserError(
                f"{self.source} contradicts --draft-length {length}: {why}; leave the option out, or correct it."
            )

    def examined(self, assumed_length: int | None = None) -> tuple[Counts, Counts]:
        """Return two tables of counts: with the fewest drafts of each depth that can have been examined, and the most.

        They are equal where the draft lengths are known. Otherwise a step that accepted i < K drafts examined one more,
        unless it drafted only i, and then it lacks K - i of K drafts. With D drafts in n steps, M = nK - D are lacking
        in all. So at most M // (K - i) steps of i drafts were cut short. A step of i drafts that was not cut short
        lacks at most K - i - 1; what is lacking beyond that was cut. Both numbers are attained for each i alone. Every
        step is counted because it drafted, so i ≥ 1.

        Raises
        ------
        UserError
            As :meth:`counts`, or the number of drafts is not known.
        """
        histogram, longest = self.histogram, self.longest or assumed_length
        drafted = self.num_draft_tokens
        if self.knows_lengths or histogram is None or longest is None or drafted is None:
            table = self.counts(assumed_length)
            return table, table
        if assumed_length is not None:
            self._refuse_length(assumed_length, None)
        row = [histogram.get(i, 0) for i in range(longest + 1)]
        if sum(row) != self.num_spec_steps or drafted < sum(n * max(i, 1) for i, n in enumerate(row)):
            raise LengthsUnknownError(
                f"{self.source} has a step with more than {longest} accepted drafts, or fewer drafts than its steps "
                "need: the draft lengths of its steps are not known"
            )
        lacking = longest * self.num_spec_steps - drafted
        most = sum(n * (longest - max(i, 1)) for i, n in enumerate(row))
        tables = []
        for fewest in (True, False):
            table, whole = {}, row.copy()
            for i in range(1, longest):
                cut = min(row[i], lacking // (longest - i)) if fewest else max(0, lacking - (most - row[i]))
                if cut:
                    table[i] = (0,) * i + (cut,)
                    whole[i] -= cut
            tables.append({**table, longest: tuple(whole)})
        return tables[0], tables[1]

    def as_json(self) -> dict[str, Any]:
        histogram, by_length, drafted = self.histogram, self.by_draft_length, self.num_draft_tokens
        plain: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        derived: dict[str, Any] = {
            "mean_acceptance_length": self.mean_acceptance_length,
            "draft_acceptance_rate": self.num_accepted_draft_tokens / drafted if drafted else None,
            "num_spec_tokens": self.longest,
            "acceptance_histogram": histogram and {str(i): n for i, n in sorted(histogram.items()) if n},
            "acceptance_histogram_by_draft_length": by_length and {str(k): row for k, row in by_length.items()},
            "copied": self.copied or None,
        }
        plain |= derived
        del plain["accepted_per_position"], plain["by_draft_length"], plain["category"]
        extra = "acceptance_histogram_by_draft_length", "draft_sampling", "verification", "copied", "seconds_per_token"
        return {name: value for name, value in plain.items() if value is not None or name not in extra}


def of_totals(engine: str, source: str, totals: Sequence[int | None], **more: Any) -> AcceptanceRecord:
    more |= zip(("num_spec_steps", "num_draft_tokens", "num_accepted_draft_tokens"), totals, strict=True)
    return AcceptanceRecord(engine=engine, source=source, **more)


def whole_length(drafted: int | None, steps: int) -> int | None:
    """Return the drafts of a step, if all steps can have drafted the same number."""
    return drafted // steps if drafted and steps and drafted % steps == 0 else None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An answer of a file that is not in the records, and why."""

    source: str
    reason: str


Read = AcceptanceRecord | LeftOut | str
"""What a reader finds of one answer or file; a text says how counts were made of it, and what is not certain."""
NOTHING, CUT = "it has no acceptance: nothing was drafted, or n > 1", "the log is cut off there"
"""Why an answer without a step is left out, and the last line of a log."""


def tally(steps: Iterable[tuple[int, int]]) -> Counts:
    """Return the counts of steps that are given as (drafts, accepted)."""
    counts = Counter(steps)
    return {k: tuple(counts[k, i] for i in range(k + 1)) for k in sorted({k for k, _ in counts})}


def add(tables: Iterable[Counts]) -> Counts:
    total: Counter[tuple[int, int]] = Counter()
    for table in tables:
        total.update({(k, i): count for k, row in table.items() for i, count in enumerate(row)})
    return {k: tuple(total[k, i] for i in range(k + 1)) for k in sorted({k for k, _ in total})}


def marked(record: AcceptanceRecord, *, drafts: str | None, verification: str | None) -> AcceptanceRecord:
    """Return a record with the user's marks where its file has none."""
    copied = drafts == "copied"
    changes: dict[str, Any] = {"draft_sampling": "greedy" if copied else drafts, "verification": verification}
    for name, given in changes.items():
        stated = getattr(record, name)
        if given is not None and stated not in (None, given):
            option = f"--drafts {drafts}" if name == "draft_sampling" else f"--verification {given}"
            raise UserError(f"{record.source} states {stated}; {option} contradicts it.")
    known = {name: given for name, given in changes.items() if given is not None}
    return replace(record, copied=copied or record.copied, **known)


def refuse_mixture(records: Sequence[AcceptanceRecord]) -> None:
    """Refuse records that must not be averaged: of two engines, ways of drafting, acceptance rules or draft lengths."""
    for name, what in (
        ("engine", "engines or formats"),
        ("draft_sampling", "ways of drafting"),
        ("copied", "kinds of draft, copied or not"),
        ("verification", "rules of acceptance"),
        ("num_spec_tokens", "largest draft lengths, whose rounds begin at other tokens"),
    ):
        known = {str(getattr(record, name) or "not stated"): record.source for record in records}
        if name == "num_spec_tokens":
            known.pop("not stated", None)  # most formats lack it
        if len(known) > 1:
            shown = ", ".join(f"{value} in {source}" for value, source in sorted(known.items()))
            raise UserError(
                f"The records have {len(known)} {what} ({shown}); their mean has no meaning: read them separately, or "
                "rank them with --sweep."
            )


def write_records(records: Iterable[AcceptanceRecord], path: str | Path) -> None:
    """Write records as AIPerf's JSONL, which :func:`validation.acceptance.engines.read_acceptance` reads."""
    lines = []
    for record in records:
        about = {"metadata": {"source_kind": record.category}} if record.category else {}
        lines.append(json.dumps(about | {"spec_decode_acceptance": record.as_json()}))
    Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")


def remarks(records: Sequence[AcceptanceRecord]) -> tuple[str, ...]:
    """Return sentences that say what the acceptance of these records is, and what it is not."""
    first, rule = records[0], records[0].verification
    drafts = {
        "copied": "copied from the text, so there is no q. A long draft covers a passage at once: tokens at other "
        "lengths are those of the recorded rounds, split.",
        "greedy": "greedy. With lossless verification, the acceptance is the target's probability of the draft's most "
        "probable token, not 1 - TV(q, p); sampled drafts have another acceptance.",
        None: "not stated. State it with --drafts greedy or --drafts sampled.",
    }
    key, lossless = "copied" if first.copied else first.draft_sampling, VERIFICATIONS.get(rule or "")
    kind = "lossless" if lossless else "not known here to be lossless or not"
    if rule == "synthetic":
        kind = "the acceptance was prescribed; it says nothing about the models, and nothing below does"
    elif lossless is False:
        kind = "lossy. The text does not keep the target's distribution; no number below holds for lossless decoding"
    verified = "not stated. State it with --verification." if rule is None else f"{rule}, {kind}."
    sentences = [f"Drafts: {drafts.get(key, f'{key}.')}", f"Verification: {verified}"]
    short = sum(max(0, r.num_spec_steps - r.num_draft_tokens) for r in records if r.num_draft_tokens is not None)
    if short:
        sentences.append(
            f"At least {short:,} steps drafted nothing: there are fewer drafts than steps. A count of drafting steps "
            "alone, as at /metrics, has more tokens a step."
        )
    return tuple(sentences)
