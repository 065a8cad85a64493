"""Summarise records of accepted drafts: acceptance by depth, tokens of a round, and the best draft length."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory.draft_length import acceptance_by_depth, split_tokens, tokens_by_length
from hlmtheory.serving import crossover_batch
from validation.acceptance import record as recorded
from validation.acceptance.record import remarks
from validation.errors import UserError

READS_AGAIN = "A round has one more draft pass, K + 1 wide: llama.cpp's draft model reads the verified tokens again."
FEWEST_CLUSTERS = 20
"""Smallest number of requests for intervals that allow rounds of one request to be alike."""

Rest = Callable[[int, NDArray[np.int64]], NDArray[np.float64]]
"""Measured minus fitted seconds of a pass, by its batch and widths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTimes:
    """Time of a round that drafts K tokens for each of B sequences, in seconds.

    It is round_trip + verify + B (cache + (K + 1) verify_token) + K (draft + B (draft_cache +
    draft_token)); a token without drafts takes verify + B (cache + verify_token). If the draft model reads the
    verified tokens again, that pass is added, K + 1 tokens wide. The rests correct each pass to its measured time.
    """

    round_trip: float = 0.0
    verify: float
    verify_token: float = 0.0
    draft: float
    draft_token: float = 0.0
    draft_cache: float = 0.0
    cache: float = 0.0
    target_rest: Rest | None = None
    draft_rest: Rest | None = None
    reads_again: bool = False
    measured_to: int | None = None  # largest batch of which all passes were measured; beyond it times are extrapolated
    linear_from: int | None = None  # batch from which all times are linear in the batch

    @property
    def by_batch(self) -> bool:
        """Return whether the times say what a larger batch takes; one time of a pass does not."""
        parts = (self.verify_token, self.draft_token, self.draft_cache, self.cache, self.target_rest, self.draft_rest)
        return any(part not in (0.0, None) for part in parts)

    def alone(self, batch: int = 1) -> float:
        """Return the time of a token without drafts."""
        return float(self._target(batch, np.ones(1, dtype=np.int64))[0])

    def rounds(self, batch: int, lengths: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the time of a round that drafts each of some numbers of tokens, 1 or more."""
        drafts = lengths * self._draft(batch, np.ones_like(lengths))
        again = self._draft(batch, lengths + 1) if self.reads_again else 0.0
        return self.round_trip + self._target(batch, lengths + 1) + drafts + again

    def longest_pass(self, length: int, tokens: float) -> float:
        """Return how many times a plain pass one with K drafts may last until plain decoding is as fast."""
        spare_s = tokens * self.alone() - float(self.rounds(1, np.array([length]))[0])
        return 1.0 + spare_s / self.alone()

    def _draft(self, batch: int, widths: NDArray[np.int64]) -> NDArray[np.float64]:
        fitted = self.draft + batch * (self.draft_cache + widths * self.draft_token)
        return np.maximum(fitted if self.draft_rest is None else fitted + self.draft_rest(batch, widths), 0.0)

    def _target(self, batch: int, widths: NDArray[np.int64]) -> NDArray[np.float64]:
        fitted = self.verify + batch * (self.cache + widths * self.verify_token)
        measured = fitted if self.target_rest is None else fitted + self.target_rest(batch, widths)
        return np.where(measured > 0, measured, fitted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Depth:
    """Acceptance of the draft at one depth, given that all earlier drafts were accepted."""

    depth: int
    examined: int
    accepted: int
    acceptance: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """Tokens of a round that drafts K tokens, and tokens per second if times are given.

    ``tokens`` assumes that rounds of every K begin at similar places, and is the least that the counts allow.
    ``same_text`` splits recorded rounds into shorter ones, as copied drafts need; it decides their tokens per second.
    """

    draft_length: int
    tokens: float
    low: float
    high: float
    same_text: float | None = None
    tokens_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class Crossover:
    """The smallest batch from which no draft length pays at any larger batch; None if one pays at all large ones."""

    loses_from: int | None
    low: float
    high: float
    measured_to: int | None = None  # largest measured batch

    @property
    def extrapolated(self) -> bool:
        return self.measured_to is not None and (self.loses_from is None or self.loses_from > self.measured_to)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Results from records of accepted drafts; a step is one verification."""

    engine: str
    requests: int
    steps: int
    accepted: int
    mean_acceptance_length: float  # tokens of a recorded step, the target model's own included
    identified: bool  # whether the records determine the acceptance at each depth
    reason: str  # why they do not, or where the draft lengths come from
    counts: recorded.Counts | None = None  # steps by draft length and accepted drafts, where they are identified
    intervals: str = ""  # what the intervals of depths and lengths promise
    depths: tuple[Depth, ...] = ()  # by depth and by draft length; empty for totals alone
    lengths: tuple[Length, ...] = ()
    best: int | None = None  # draft length with the most tokens per second, 0 if that is without drafts
    best_if_copied: int | None = None  # the same if the drafts are copied from the text
    best_at_most: int | None = None  # the same by the largest acceptance that the counts allow
    best_is_longest: bool = False  # whether no longer draft was recorded, so that one may be better
    not_told_apart: tuple[int, int] | None = None  # the shortest and the longest draft that may be the best
    no_best: str | None = None  # why the counts give no best length, where times are given
    alone_per_second: float | None = None
    perfect: float | None = None  # largest speed over that without drafts, if every draft were accepted
    schedule: tuple[tuple[int, int, int], ...] = ()  # first batch, last batch, draft length
    not_told_apart_by_batch: tuple[tuple[int, int, int, int], ...] = ()  # first batch, last batch, shortest, longest
    crossover: Crossover | None = None
    draft_sampling: str | None = None
    verification: str | None = None
    copied: bool = False
    lossless: bool | None = None  # None also if it is not known of the rule
    remarks: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()  # answers that are not counted, with the reason

    def as_json(self) -> dict[str, Any]:
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)), parse_constant=lambda _: None)
        if self.crossover is not None:
            plain["crossover"]["extrapolated"] = self.crossover.extrapolated
        return plain


def summarise(
    records: Sequence[recorded.AcceptanceRecord],
    *,
    assumed_length: int | None = None,
    confidence: float = 0.95,
    times: RoundTimes | None = None,
    largest_batch: int = 1,
    left_out: Sequence[recorded.LeftOut] = (),
) -> Summary:
    recorded.refuse_mixture(records)
    times = None if times is None else replace(times, reads_again=records[0].reads_again)
    steps, accepted = (
        sum(getattr(record, name) for record in records) for name in ("num_spec_steps", "num_accepted_draft_tokens")
    )
    about: dict[str, Any] = {
        "engine": records[0].engine,
        "requests": len(records),
        "steps": steps,
        "accepted": accepted,
        "mean_acceptance_length": 1.0 + accepted / steps,
        "draft_sampling": records[0].draft_sampling,
        "verification": records[0].verification,
        "copied": records[0].copied,
        "lossless": recorded.VERIFICATIONS.get(records[0].verification or ""),
        "remarks": (*remarks(records), *([READS_AGAIN] if times is not None and times.reads_again else [])),
        "left_out": tuple(f"{answer.source}: {answer.reason}" for answer in left_out),
    }
    ends, reasons = [], []
    for record in records:
        try:
            ends.append(record.examined(assumed_length))
        except recorded.LengthsUnknownError as error:
            reasons.append(str(error))
    if not ends:
        return Summary(
            **about, identified=False, reason=reasons[0], no_best=None if times is None else _no_best(records)
        )
    tables = [table for both in ends for table in both]
    deepest = max(i for table in tables for row in table.values() for i, count in enumerate(row) if count)
    longest = min(max(max(table) for table in tables), deepest + 1)  # deeper drafts were never examined
    if longest < 1:
        raise UserError(f"{records[0].source}: no step drafted a token, so there is no acceptance to read.")
    fewest, most = (np.stack([square(both[side], longest) for both in ends]) for side in (0, 1))
    identified = not reasons and bool((fewest == most).all())
    depths, rates = _depths(fewest, most, confidence)
    known = len(depths)
    (_, counted), low, high = _joined(tokens_by_length, fewest, most, confidence)
    tokens = counted.tokens[:known]
    split = records[0].copied or len(set().union(*tables)) == 1
    histogram = most.sum(axis=(0, 1))
    same_text = [float(split_tokens(histogram, k + 1)) for k in range(known)] if split else [None] * known
    in_use = np.array(same_text if records[0].copied else tokens, dtype=np.float64)
    lengths = tuple(
        Length(
            draft_length=k + 1,
            tokens=float(tokens[k]),
            low=float(low[k]),
            high=float(high[k]),
            same_text=same_text[k],
            tokens_per_second=None if times is None else float(_rates(in_use, times)[k + 1]),
        )
        for k in range(known)
    )
    chosen: dict[str, Any] = {}
    if times is not None:
        both_ends = None if records[0].copied else (low[:known], high[:known])
        chosen = _choices(in_use, same_text, times, largest_batch, records[0].copied)
        if times.by_batch:
            chosen["crossover"] = _crossover(in_use, both_ends, times)
        if both_ends is not None:
            largest = chosen["schedule"][-1][1] if chosen["schedule"] else 0
            chosen |= _not_told_apart(*both_ends, times, largest, corners=len(ends) < FEWEST_CLUSTERS)
        if not identified and not records[0].copied:
            chosen["best_at_most"] = _best(1.0 + np.cumsum(np.cumprod(rates)), times)
    return Summary(
        **about,
        identified=identified,
        reason=_reason(reasons, identified, assumed_length, records),
        counts=recorded.add(both[1] for both in ends) if identified else None,
        intervals=_promise(confidence, len(ends)),
        depths=depths,
        lengths=lengths,
        **chosen,
    )


def _no_best(records: Sequence[recorded.AcceptanceRecord]) -> str:
    if any(record.histogram is not None for record in records):
        return "No best length, since the draft lengths of the steps are not known: give --draft-length"
    log = "record the log with --verbosity 4, or " if records[0].engine.startswith("llama.cpp") else "record "
    return f"No best length from totals: {log}counts by depth"


def _reason(
    reasons: Sequence[str], identified: bool, assumed_length: int | None, records: Sequence[recorded.AcceptanceRecord]
) -> str:
    if identified and all(record.knows_lengths for record in records):
        return "the draft length of every step, as recorded or by the totals"
    if identified and assumed_length is not None:
        return f"the assumption that every step drafted {assumed_length} tokens"
    if identified:
        return "the totals, which leave one number of examined drafts"
    if reasons:
        return f"the tables are of {len(records) - len(reasons):,} of {len(records):,} records. {reasons[0]}"
    return (
        "the draft lengths varied and only their sum is recorded, so a step that accepted i drafts may have drafted "
        "only i tokens. Intervals are for the fewest and the most drafts that the totals allow to be examined, and "
        "tokens are the least"
    )


def _joined(
    function: Callable[..., Any], fewest: NDArray[np.int64], most: NDArray[np.int64], confidence: float
) -> tuple[list[Any], NDArray[np.float64], NDArray[np.float64]]:
    """Return what a function of counts gives for the fewest and the most examined drafts, and both joined ends.

    With many requests each end is the wider of two intervals. More examined drafts r of a accepted ones lower both ends
    of the first one, which is where the density f of Beta(a + 1, r - a + 1) is above δ. Going to r + 1 multiplies f by
    (1 - α)/E(1 - α). At the mean of α f is above δ, as log f is concave, so that it is at least E log f ≥ 0 there. So f
    rises at the lower end, which is below the mean, and falls at the upper one.
    """
    error = 1.0 - max(confidence, 2.0**-53)
    both = [function(counts.sum(axis=0), error=error, method="anytime") for counts in (fewest, most)]
    lows, highs = [both[1].low], [both[0].high]
    if len(most) >= FEWEST_CLUSTERS:
        clustered = [function(counts, error=error, method="clustered") for counts in (fewest, most)]
        lows, highs = [*lows, *(each.low for each in clustered)], [*highs, *(each.high for each in clustered)]
    return both, np.min(lows, axis=0), np.max(highs, axis=0)


def _depths(
    fewest: NDArray[np.int64], most: NDArray[np.int64], confidence: float
) -> tuple[tuple[Depth, ...], NDArray[np.float64]]:
    """Return the acceptance by depth, and the largest that the counts allow, 1 where a draft may never be examined."""
    (few, many), low, high = _joined(acceptance_by_depth, fewest, most, confidence)
    rates = np.where(few.examined == many.examined, many.acceptances, np.nan)
    columns = zip(many.examined, many.accepted, rates, low, high, strict=True)
    depths = tuple(
        Depth(depth=d, examined=int(n), accepted=int(a), acceptance=float(rate), low=float(bottom), high=float(top))
        for d, (n, a, rate, bottom, top) in enumerate(columns, start=1)
        if n
    )
    return depths, np.where(few.examined > 0, few.acceptances, 1.0)[: len(depths)]


def _promise(confidence: float, requests: int) -> str:
    text = f"{confidence:.0%}, of each depth alone, of all draft lengths at once, and whenever you stop counting. They "
    text += "assume that a draft's acceptance "
    if requests < FEWEST_CLUSTERS:
        text += "depends on its depth alone. Requests differ, so the real uncertainty is larger: give "
        return f"{text}{FEWEST_CLUSTERS} or more records, such as answers, one a line"
    return f"{text}depends on its depth alone, or that requests that differ are independent and many"


def _choices(
    in_use: NDArray[np.float64], same_text: Sequence[float | None], times: RoundTimes, largest_batch: int, copied: bool
) -> dict[str, Any]:
    other = None if copied or None in same_text else _best(np.array(same_text, dtype=np.float64), times)
    perfect = _rates(np.arange(2.0, len(in_use) + 2.0), times)
    best = _best(in_use, times)
    return {
        "best": best,
        "best_is_longest": best == len(in_use),
        "best_if_copied": other,
        "alone_per_second": float(perfect[0]),
        "perfect": float(perfect[1:].max() / perfect[0]),
        "schedule": schedule(in_use, times, largest_batch) if largest_batch == 1 or times.by_batch else (),
    }


def _not_told_apart(
    low: NDArray[np.float64], high: NDArray[np.float64], times: RoundTimes, largest_batch: int, corners: bool
) -> dict[str, Any]:
    """Return the shortest and the longest draft that are the best for some acceptances within the intervals.

    The tokens of a longer draft over those of a shorter one, 1 + Σ_{j<d≤K} S_d / T_j, rise with every acceptance: it is
    a factor of S_d, but not of all summands of T_j. So the best length rises too, from where all acceptances are at
    their lower ends to where all are at their upper ones. Intervals that are widened for requests are of no such
    acceptances: then a length stays unless another one is faster at its lower end than this one at its upper end.
    """

    def at(batch: int) -> tuple[int, int]:
        slow, fast = _rates(low, times, batch), _rates(high, times, batch)
        if corners:
            return int(np.argmax(slow)), int(np.argmax(fast))
        possible = np.flatnonzero(fast >= slow.max())
        return int(possible[0]), int(possible[-1])

    rows = tuple((first, last, *lengths) for first, last, lengths in _by_batch(at, largest_batch))
    return {"not_told_apart": at(1), "not_told_apart_by_batch": rows}


def _by_batch(chosen: Callable[[int], Any], largest_batch: int) -> tuple[tuple[int, int, Any], ...]:
    """Return (first batch, last batch, what is chosen at each of them)."""
    runs = ((value, [*batches]) for value, batches in groupby(range(1, largest_batch + 1), key=chosen))
    return tuple((batches[0], batches[-1], value) for value, batches in runs)


def _crossover(
    tokens: NDArray[np.float64], ends: tuple[NDArray[np.float64], ...] | None, times: RoundTimes
) -> Crossover:
    def loses(tokens: NDArray[np.float64]) -> float:
        lengths = np.arange(1, len(tokens) + 1)
        draft_passes = 1.0 + times.reads_again / lengths  # of each draft, and its tokens one more
        each = draft_passes * times.draft_cache + (draft_passes + times.reads_again) * times.draft_token
        draft = np.stack([draft_passes * times.draft, each, np.zeros(len(lengths))], axis=1)
        _, pays_to = crossover_batch(
            np.maximum(tokens, 1.0),
            [times.verify, times.verify_token, times.cache],
            draft,
            lengths,
            1.0,  # the cache of a sequence is counted as one token
            times.round_trip,
        )
        fitted = max(float(np.ceil(np.max(pays_to))), 1.0)
        if times.target_rest is None or times.linear_from is None:
            return fitted
        pays = max((batch for batch in range(1, times.linear_from + 1) if _best(tokens, times, batch)), default=0)
        return max(pays + 1.0, _pays_beyond(tokens, times, times.linear_from))

    batch, low, high = (loses(each) if each is not None else np.nan for each in (tokens, *(ends or (None, None))))
    return Crossover(int(batch) if np.isfinite(batch) else None, low, high, times.measured_to)


def _pays_beyond(tokens: NDArray[np.float64], times: RoundTimes, start: int) -> float:
    """Return the batch from which no length pays, of those from ``start`` on, where times are linear in the batch."""
    lengths = np.arange(1, len(tokens) + 1)
    here, next_batch = (tokens * times.alone(batch) - times.rounds(batch, lengths) for batch in (start, start + 1))
    slope = next_batch - here
    if np.any((slope > 0) | ((here > 0) & (slope >= 0))):
        return np.inf
    falls = (here > 0) & (slope < 0)
    return float(np.ceil(start + np.max(here[falls] / -slope[falls]))) if falls.any() else 0.0


def square(counts: recorded.Counts, longest: int) -> NDArray[np.int64]:
    """Return a table of counts as an array (K+1, K+1), n[k][i]; a longer draft counts as one of K."""
    table = np.zeros((longest + 1, longest + 1), dtype=np.int64)
    for k, row in counts.items():
        table[min(k, longest), : k + 1] += np.array(row[: longest + 1], dtype=np.int64)
    return table


def _rates(tokens: NDArray[np.float64], times: RoundTimes, batch: int = 1) -> NDArray[np.float64]:
    drafted = tokens / times.rounds(batch, np.arange(1, len(tokens) + 1))
    return np.concatenate([[1.0 / times.alone(batch) if times.alone(batch) else np.inf], drafted])


def _best(tokens: NDArray[np.float64], times: RoundTimes, batch: int = 1) -> int:
    return int(np.argmax(_rates(tokens, times, batch)))


def schedule(tokens: NDArray[np.float64], times: RoundTimes, largest_batch: int) -> tuple[tuple[int, int, int], ...]:
    """Return (first batch, last batch, draft length), as vLLM's ``num_speculative_tokens_per_batch_size``."""
    return _by_batch(lambda batch: _best(tokens, times, batch), largest_batch)
