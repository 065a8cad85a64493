"""Rank the runs of a sweep by the time of a token, and say whether the first one is the best.

The time of a token is that of a step over its tokens, or as measured. Its noise is the spread over repeats where a
label has several files; else that of the accepted drafts alone, which says nothing of how much a machine varies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validation.acceptance.planners import mean_over
from validation.acceptance.record import AcceptanceRecord, LengthsUnknownError
from validation.acceptance.summary import FEWEST_CLUSTERS, RoundTimes
from validation.errors import UserError

DRAWS = 20_000
"""Draws of all times, for the probability that the first label is the best."""
NORMAL_95 = 1.959964


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One file of a sweep: means of a step, and the time of a token if it is known."""

    label: str
    steps: int = 0
    tokens: float = 1.0  # of a step, the target's own included
    noise: float = 0.0  # standard error of the tokens of a step
    drafts: float | None = None  # of a step
    rate: float | None = None  # accepted drafts over drafts
    seconds: float | None = None  # of a token


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The runs of one label together; ``noise`` is the standard error of ``seconds``."""

    label: str
    runs: int
    steps: int
    tokens: float
    drafts: float | None
    rate: float | None
    seconds: float | None
    noise: float | None
    first: float | None = None  # probability that it is the fastest


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Points, the fastest first, and what follows; ``best`` is None where noise decides."""

    points: tuple[Point, ...]
    best: str | None
    findings: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the sweep as plain values."""
        return {
            "points": [asdict(point) for point in self.points],
            "best": self.best,
            "findings": list(self.findings),
        }


def run_of(
    label: str,
    records: Sequence[AcceptanceRecord],
    *,
    assumed_length: int | None = None,
    step_s: float | None = None,
    token_s: float | None = None,
    times: RoundTimes | None = None,
) -> Run:
    """Return the run of a file: times as given, else by the passes of its draft lengths, else as its engine timed."""
    steps = sum(record.num_spec_steps for record in records)
    accepted = sum(record.num_accepted_draft_tokens for record in records)
    counted = [record.num_draft_tokens for record in records]
    lengths = [assumed_length or record.longest for record in records]
    drafted: float | None = None
    if None not in counted:
        drafted = float(sum(filter(None, counted)))
    elif None not in lengths:
        drafted = float(sum(k * r.num_spec_steps for k, r in zip(lengths, records, strict=True) if k))
    tokens = 1.0 + accepted / steps
    if token_s is None and step_s is None and times is not None:
        step_s = _step_seconds(records, assumed_length, times, None if drafted is None else drafted / steps)
    if token_s is None:
        token_s = _timed(records) if step_s is None else step_s / tokens
    return Run(
        label=label,
        steps=steps,
        tokens=tokens,
        noise=_noise(records, steps, accepted, drafted),
        drafts=None if drafted is None else drafted / steps,
        rate=accepted / drafted if drafted else None,
        seconds=token_s,
    )


def _noise(records: Sequence[AcceptanceRecord], steps: int, accepted: int, drafted: float | None) -> float:
    """Return the standard error of a step's tokens: over requests if there are enough, else over steps.

    Totals leave the variance of a step open; it is at most m (K - m) for a mean m of at most K accepted drafts.
    """
    if len(records) >= FEWEST_CLUSTERS:
        found = mean_over(
            [record.num_accepted_draft_tokens for record in records],
            [record.num_spec_steps for record in records],
            0.95,
        )
        return ((found.high or found.value) - found.value) / NORMAL_95
    mean, histograms = accepted / steps, [record.histogram for record in records]
    if None not in histograms:
        total = sum(i * i * n for table in histograms for i, n in (table or {}).items())
        return float(np.sqrt(max(total / steps - mean**2, 0.0) / steps))
    longest = max([np.ceil(mean), *((drafted or 0.0) / steps,), *(record.longest or 0 for record in records)])
    return float(np.sqrt(mean * (longest - mean) / steps))


def _step_seconds(
    records: Sequence[AcceptanceRecord], assumed_length: int | None, times: RoundTimes, drafts: float | None
) -> float | None:
    """Return the mean time of a step by the passes of the lengths that were drafted."""
    seconds, steps = 0.0, 0
    for record in records:
        try:
            table = record.counts(assumed_length)
        except LengthsUnknownError:
            length = assumed_length or record.fixed_length
            if length is None:
                if drafts is None:
                    return None
                ends = times.rounds(1, np.array([np.floor(drafts), np.ceil(drafts)], dtype=np.int64))
                return float(np.interp(drafts % 1.0, [0.0, 1.0], ends))
            table = {length: (record.num_spec_steps,)}
        for length, row in table.items():
            each = times.alone() if length == 0 else float(times.rounds(1, np.array([length]))[0])
            seconds, steps = seconds + each * sum(row), steps + sum(row)
    return seconds / steps


def _timed(records: Sequence[AcceptanceRecord]) -> float | None:
    timed = [(r.seconds_per_token, r.num_spec_steps + r.num_accepted_draft_tokens) for r in records]
    if any(seconds is None for seconds, _ in timed):
        return None
    return sum((seconds or 0.0) * tokens for seconds, tokens in timed) / sum(tokens for _, tokens in timed)


def rank(runs: Sequence[Run], confidence: float) -> Sweep:
    """Return the labels by the time of a token, with the probability that each is the fastest."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.label, []).append(run)
    if len(groups) < 2:
        raise UserError("A sweep needs two labels at least: name two files, or give LABEL=FILE for repeats.")
    spread = _spread(groups)
    points = [_point(label, group, spread) for label, group in groups.items()]
    if any(point.seconds is None for point in points):
        lacking = ", ".join(point.label for point in points if point.seconds is None)
        said = (
            f"No time of a token is known of {lacking}, so nothing is ranked: more tokens a step may take longer. Give "
            "--step-ms or --tokens-per-s for each file, or --passes."
        )
        return Sweep(points=tuple(points), best=None, findings=(said, *not_compared(points)))
    points.sort(key=lambda point: point.seconds or 0.0)
    shares = _fastest(points, len(runs) - len(groups))
    points = [Point(**(asdict(point) | {"first": float(share)})) for point, share in zip(points, shares, strict=True)]
    return _verdict(points, groups, confidence)


def _spread(groups: dict[str, list[Run]]) -> float | None:
    """Return the relative standard deviation of a repeat, pooled over the labels that have some."""
    squares, degrees = 0.0, 0
    for group in groups.values():
        seconds = np.array([run.seconds for run in group if run.seconds is not None])
        if len(seconds) > 1:
            squares += float(np.sum((seconds / seconds.mean() - 1.0) ** 2))
            degrees += len(seconds) - 1
    return float(np.sqrt(squares / degrees)) if degrees else None


def _point(label: str, group: Sequence[Run], spread: float | None) -> Point:
    weights = np.array([run.steps or 1 for run in group], dtype=np.float64)

    def mean(value: Callable[[Run], float | None]) -> float | None:
        values = [value(run) for run in group]
        return None if None in values else float(np.average(np.array(values, dtype=np.float64), weights=weights))

    seconds = None
    if all(run.seconds is not None for run in group):
        seconds = float(np.mean([run.seconds for run in group if run.seconds is not None]))
    noise = None
    if seconds is not None:
        drafts = float(np.sqrt(np.sum([(run.noise / run.tokens) ** 2 for run in group]))) / len(group)
        noise = seconds * (drafts if spread is None else spread / float(np.sqrt(len(group))))
    return Point(
        label=label,
        runs=len(group),
        steps=sum(run.steps for run in group),
        tokens=mean(lambda run: run.tokens) or 1.0,
        drafts=mean(lambda run: run.drafts),
        rate=mean(lambda run: run.rate),
        seconds=seconds,
        noise=noise,
    )


def _fastest(points: Sequence[Point], degrees: int) -> NDArray[np.float64]:
    """Return the share of draws in which each label is the fastest: of Student's law if repeats give the noise."""
    rng = np.random.default_rng(0)
    shape = DRAWS, len(points)
    units = rng.standard_t(degrees, shape) if degrees else rng.standard_normal(shape)
    seconds = np.array([point.seconds for point in points]) + units * np.array([point.noise for point in points])
    return np.bincount(np.argmin(seconds, axis=1), minlength=len(points)) / DRAWS


def _verdict(points: Sequence[Point], groups: dict[str, list[Run]], confidence: float) -> Sweep:
    first, second = points[:2]
    share, repeated = first.first or 0.0, any(len(group) > 1 for group in groups.values())
    times = [1e3 * (point.seconds or 0.0) for point in points]
    said = f"{first.label} takes {times[0]:.1f} ms a token, {second.label} {times[1]:.1f}."
    if share >= confidence:
        said = f"Best: {first.label}. {said} It is the fastest with probability {min(share, 0.999):.3g}."
    else:
        said += (
            f" No winner: noise decides. {first.label} is the fastest with probability {share:.2g}, below "
            f"{confidence:g}; give longer runs, or repeats (LABEL=FILE with a label twice)."
        )
    basis = (
        "The noise is that of repeats, as one relative spread for all labels."
        if repeated
        else "The noise is that of the accepted drafts alone (of totals, the most that they allow): without repeats "
        "the machine's own is not known."
    )
    return Sweep(
        points=tuple(points),
        best=first.label if share >= confidence else None,
        findings=(said, basis, *not_compared(points)),
    )


def not_compared(points: Sequence[Run | Point]) -> list[str]:
    """Return why rates do not rank these labels, and which pair of them is impossible for one pair of models."""
    said, known = [], sorted((p for p in points if p.drafts and p.rate is not None), key=lambda p: p.drafts or 0.0)
    if known and (known[-1].drafts or 0.0) > 1.2 * (known[0].drafts or 0.0):
        few, many = known[0], known[-1]
        said.append(
            f"Acceptance rates are not compared ({few.rate:.2f} and {many.rate:.2f}): a step drafts {few.drafts:.1f} "
            f"tokens with {few.label} and {many.drafts:.1f} with {many.label}. A rate falls with the draft length, and "
            f"drafts that stop where they are unsure have a high one: tokens a step are {few.tokens:.2f} and "
            f"{many.tokens:.2f}."
        )
    none = [point.label for point in points if point.steps and point.tokens == 1.0]
    every = [point.label for point in known if (point.rate or 0.0) > 0.99]
    if none and every:
        said.append(
            f"Impossible for one pair of models: {every[0]} accepts all drafts and {none[0]} none. A draft that agrees "
            "at one temperature is accepted at another; the drafts of the second are not those that are verified."
        )
    return said
