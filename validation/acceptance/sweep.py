"""Rank the runs of a sweep by the time of a token, and say whether the first one is the best.

The noise of a time is the spread over repeats where a label has several files; else that of the accepted drafts alone,
which says nothing of how much a machine varies.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from validation.acceptance.planners import mean_over
from validation.acceptance.record import AcceptanceRecord, LengthsUnknownError
from validation.acceptance.summary import FEWEST_CLUSTERS, RoundTimes
from validation.errors import UserError

DRAWS, ONE_SIGMA = 20_000, 0.6827
"""Draws of all times, for the probability of being the fastest; confidence of an interval of one standard error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The file of a label, or all its repeats: means of a step, and the time of a token if it is known."""

    label: str
    runs: int = 1
    steps: int = 0
    tokens: float = 1.0  # of a step, the target's own included
    drafts: float | None = None  # of a step
    rate: float | None = None  # accepted drafts over drafts
    seconds: float | None = None  # of a token
    noise: float = 0.0  # relative standard error of the time
    fastest: float | None = None  # probability


def point_of(
    label: str,
    records: Sequence[AcceptanceRecord],
    *,
    assumed_length: int | None = None,
    step_s: float | None = None,
    token_s: float | None = None,
    times: RoundTimes | None = None,
) -> Point:
    """Return the run of a file: times as given, else by the passes of its draft lengths, else as its engine timed."""
    counts = np.array([(r.num_spec_steps, r.num_accepted_draft_tokens) for r in records], dtype=np.float64)
    steps, accepted = counts.sum(axis=0)
    lengths = [(assumed_length or r.longest, r.num_draft_tokens) for r in records]
    drafted = [k * n if d is None and k else d for (k, d), n in zip(lengths, counts[:, 0], strict=True)]
    drafts = None if None in drafted else float(sum(filter(None, drafted)) / steps)
    tokens = 1.0 + accepted / steps
    if token_s is None and step_s is None and times is not None:
        step_s = _step_seconds(records, assumed_length, times, drafts)
    if step_s is not None:
        token_s = step_s / tokens
    elif token_s is None and all(r.seconds_per_token for r in records):
        token_s = float(np.average([r.seconds_per_token or 0.0 for r in records], weights=counts.sum(axis=1)))
    tables, mean = [record.histogram for record in records], accepted / steps
    if len(records) >= FEWEST_CLUSTERS:
        error = (mean_over(counts[:, 1], counts[:, 0], ONE_SIGMA).high or mean) - mean
    else:  # totals leave the variance of a step open: at most m (K - m) for a mean m of at most K accepted drafts
        longest = max([np.ceil(mean), drafts or 0.0, *(record.longest or 0 for record in records)])
        squares = longest * accepted
        if None not in tables:
            squares = sum(i * i * n for table in tables for i, n in (table or {}).items())
        error = float(np.sqrt(max(squares / steps - mean**2, 0.0) / steps))
    return Point(
        label=label,
        steps=int(steps),
        tokens=tokens,
        drafts=drafts,
        rate=mean / drafts if drafts else None,
        seconds=token_s,
        noise=error / tokens,
    )


def _step_seconds(
    records: Sequence[AcceptanceRecord], assumed_length: int | None, times: RoundTimes, drafts: float | None
) -> float | None:
    try:
        units = [(float(k), sum(row)) for r in records for k, row in r.counts(assumed_length).items()]
    except LengthsUnknownError:
        units = [] if drafts is None else [(drafts, 1)]
    if not units:
        return None
    lengths, steps = np.array(units).T
    longest = int(np.ceil(lengths.max()))
    rounds = replace(times, reads_again=records[0].reads_again).rounds(1, np.arange(1, longest + 1))
    table = [times.alone(), *rounds]
    return float(np.average(np.interp(lengths, np.arange(longest + 1), table), weights=steps))


def rank(runs: Sequence[Point], confidence: float) -> tuple[list[Point], str | None, list[str]]:
    """Return the labels, the fastest first, the best one (None where noise decides), and what follows."""
    groups: dict[str, list[Point]] = {}
    for run in runs:
        groups.setdefault(run.label, []).append(run)
    if len(groups) < 2:
        raise UserError("A sweep needs two labels at least: name two files, or give LABEL=FILE for repeats.")
    repeats = [np.array([run.seconds for run in group]) for group in groups.values()]
    if untimed := [label for label, seconds in zip(groups, repeats, strict=True) if None in seconds]:
        summary = (
            f"No time of a token is known of {', '.join(untimed)}, so nothing is ranked: more tokens a step may take "
            "longer. Give --step-time or --speed for each file, or --passes."
        )
        return [_together(group) for group in groups.values()], None, [summary, *not_compared(runs)]
    freedom = len(runs) - len(groups)
    spread = np.sqrt(sum(float(np.sum((x / x.mean() - 1.0) ** 2)) for x in repeats) / freedom) if freedom else None
    points = sorted((_together(group) for group in groups.values()), key=lambda point: point.seconds or 0.0)
    if spread is not None:
        floors = [point.noise if point.runs == 1 else 0.0 for point in points]
        noises = [max(float(spread) / point.runs**0.5, least) for point, least in zip(points, floors, strict=True)]
        points = [replace(point, noise=noise) for point, noise in zip(points, noises, strict=True)]
    rng, shape = np.random.default_rng(0), (DRAWS, len(points))
    units = rng.standard_t(freedom, shape) if freedom else rng.standard_normal(shape)
    times = np.array([point.seconds for point in points]) * (1.0 + units * [point.noise for point in points])
    shares = np.bincount(np.argmin(times, axis=1), minlength=len(points)) / DRAWS
    points = [replace(point, fastest=float(share)) for point, share in zip(points, shares, strict=True)]
    first, second = (f"{point.label} ({1e3 * (point.seconds or 0.0):.1f} ms a token)" for point in points[:2])
    best = points[0].label if shares[0] >= confidence else None
    summary = f"{first} is the fastest with probability {min(shares[0], 0.999):.3g}; the next is {second}."
    if best is None:
        summary = f"No winner: noise decides. {summary} Give longer runs, or repeats (LABEL=FILE, a label twice)."
    basis = (
        "The noise is that of the repeats, as one relative spread for all labels; of a single run it is that of its "
        "accepted drafts at least."
        if freedom
        else "The noise is that of the accepted drafts alone (of totals, the most that they allow): without repeats "
        "the machine's own is not known."
    )
    return points, best, [summary, basis, *not_compared(points)]


def _together(group: Sequence[Point]) -> Point:
    columns = {name: [getattr(point, name) for point in group] for name in ("tokens", "drafts", "rate", "seconds")}
    means: dict[str, Any] = {name: None if None in x else float(np.mean(x)) for name, x in columns.items()}
    means["noise"] = float(np.linalg.norm([point.noise for point in group])) / len(group)
    return replace(group[0], runs=len(group), steps=sum(point.steps for point in group), **means)


def not_compared(points: Sequence[Point]) -> list[str]:
    """Return why rates do not rank these labels, and which pair of them is impossible for one pair of models."""
    known = sorted((p.drafts, p.rate, p.tokens, p.label) for p in points if p.drafts and p.rate is not None)
    remarks = []
    if known and known[-1][0] > 1.2 * known[0][0]:
        (few, rate, tokens, label), (many, other_rate, other_tokens, other) = known[0], known[-1]
        remarks.append(
            f"Acceptance rates are not compared ({rate:.2f} and {other_rate:.2f}): a step drafts {few:.1f} tokens with "
            f"{label} and {many:.1f} with {other}. A rate falls with the draft length, and drafts that stop where they "
            f"are unsure have a high one: tokens a step are {tokens:.2f} and {other_tokens:.2f}."
        )
    none = [point.label for point in points if point.steps and point.tokens == 1.0]
    if none and (every := [label for _, rate, _, label in known if rate > 0.99]):
        remarks.append(
            f"Impossible for one pair of models: {every[0]} accepts all drafts and {none[0]} none. A draft that agrees "
            "at one temperature is accepted at another; the drafts of the second are not those that are verified."
        )
    return remarks
