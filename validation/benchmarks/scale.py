"""Measure a check of a synthetic trace of any length: memory, speed by workers, cost by module and by claim.

The workers make the trace while they read it, so neither a disk nor a network is measured. Each command prints one line
per result: ``python -m validation.benchmarks.scale memory|speed|modules|claims --help``. The paper estimate of
``docs/scale.md`` takes its terms from here.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np

import hlmtheory
from hlmtheory.claims import Claim
from validation.benchmarks.measurement import STREAMED, resident
from validation.claims import check
from validation.claims.check import Backend, Work, check_trace
from validation.claims.cluster import LOCAL, on_scheduler
from validation.trace.reader import TraceChunk
from validation.trace.synthetic import SyntheticTrace

FROM = 100_000
"""Positions from which on the memory of a stream is compared."""

vocabulary_option = click.option("--vocabulary", type=click.IntRange(2), default=512, show_default=True)
positions_option = click.option("--positions", type=click.IntRange(1), default=200_000, show_default=True)


def streamed() -> dict[str, Claim]:
    """Return one claim of each module that a trace serves."""
    known = hlmtheory.all_claims()
    return {name: known[name] for name in STREAMED}


@click.group()
def main() -> None:
    """Measure a check that is larger than one machine."""


@main.command()
@positions_option
@vocabulary_option
@click.option("--kept", type=click.Path(path_type=Path), help="Store partial results here; the same command continues.")
@click.option("--seconds", type=float, help="Stop after so many seconds, with what is stored; needs --kept.")
def memory(positions: int, vocabulary: int, kept: Path | None, seconds: float | None) -> None:
    """Check one claim of each module as a stream; print the memory at each doubling of positions.

    A line has the resident memory and its peak so far. The last line says between what the resident memory was from
    10^5 positions on (or from half, for less), relative to there.
    """
    if seconds is not None and kept is None:
        raise click.UsageError("--seconds stops a check that --kept stores; give both.")
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
    start = min(FROM, positions // 2)
    began, seen = time.perf_counter(), _Seen(start)

    def progress(done: int, total: int, text: str) -> None:
        if "simulated" in text:
            return
        for line in seen.at(done):
            click.echo(f"{line}  {time.perf_counter() - began:.0f} s")
        if seconds is not None and time.perf_counter() - began > seconds:
            raise TimeoutError

    try:
        check_trace(_trace(positions, vocabulary), claims=streamed(), progress=progress, kept=kept)
    except TimeoutError:
        click.echo(f"stopped after {seconds:g} s at {seen.last:,} of {positions:,} positions; the same command goes on")
    if seen.later:
        least, most = (bound(seen.later) / seen.later[0] for bound in (min, max))
        where = f"from {seen.since:,} to {seen.last:,} positions of V = {vocabulary:,}"
        click.echo(f"memory {where}: {least:.3f} to {most:.3f} times the first")


class _Seen:
    """The memory at each doubling of positions, and all of it from a start on: its first, least and largest."""

    def __init__(self, start: int) -> None:
        self.start, self.next, self.since, self.last = start, 1000, 0, 0
        self.later: list[int] = []

    def at(self, done: int) -> Iterator[str]:
        """Yield a line at each doubling of the positions."""
        self.last, now = done, resident("VmRSS")
        if done >= self.start:
            self.since = self.since or done
            self.later = [now] if not self.later else [self.later[0], min(now, *self.later), max(now, *self.later)]
        if done >= self.next:
            self.next = 2 * done
            yield f"{done:>12,} positions  {now / 1e6:8.1f} MB, peak {resident('VmHWM') / 1e6:.1f} MB"


@main.command()
@positions_option
@vocabulary_option
@click.option("--workers", type=click.IntRange(1), multiple=True, default=(1, 2), show_default=True)
@click.option("--all", "every", is_flag=True, help="Check all claims that a trace serves, not one of each module.")
def speed(positions: int, vocabulary: int, workers: tuple[int, ...], every: bool) -> None:
    """Check on dask's workers of this machine; print positions per second for each number of workers.

    Set OMP_NUM_THREADS=1 and leave the machine otherwise idle: the ratio of two workers to one is about cores.
    """
    claims = {claim.id: claim for claim in _measured()} if every else streamed()
    rates: dict[int, float] = {}
    results = set()
    for count in workers:
        ends: list[tuple[float, int]] = []

        def progress(done: int, total: int, text: str, ends: list[tuple[float, int]] = ends) -> None:
            ends.append((time.perf_counter(), done))

        trace = _trace(positions, vocabulary)
        found = check_trace(trace, claims=claims, progress=progress, parts=on_scheduler(LOCAL, count))
        results.add(json.dumps({name: repr(tally) for name, tally in found.tallies.items()}))
        (first, before), (last, after) = ends[min(len(ends) // 10, len(ends) - 2)], ends[-1]  # without the start
        rates[count] = (after - before) / (last - first)
        ratio = rates[count] / rates[workers[0]]
        click.echo(
            f"{count} workers: {rates[count]:,.0f} positions/s at V = {vocabulary:,}, {ratio:.2f} times {workers[0]}"
        )
    click.echo(f"results are {'the same' if len(results) == 1 else 'DIFFERENT'}")


@main.command()
@click.option("--rows", type=click.IntRange(1), default=256, show_default=True, help="Positions in the block.")
@click.option("--repeats", type=click.IntRange(1), default=3, show_default=True)
@vocabulary_option
def modules(rows: int, repeats: int, vocabulary: int) -> None:
    """Print the CPU seconds of a million positions by module, when all claims are checked together."""
    costs, total = claim_costs(vocabulary, rows, repeats)
    by_module: dict[str, float] = {}
    for name, cost in costs.items():
        module = name.split(".")[0]
        by_module[module] = by_module.get(module, 0.0) + cost
    for module, cost in sorted(by_module.items(), key=lambda item: -item[1]):
        count = sum(name.startswith(f"{module}.") for name in costs)
        click.echo(f"{module:<14} {count:>3} claims  {cost:>10,.0f} s per 10^6 positions of V = {vocabulary:,}")
    click.echo(f"{'shared arrays':<26} {total - sum(costs.values()):>10,.0f} s")
    click.echo(f"{'in all':<26} {total:>10,.0f} s")


@main.command()
@click.option("--rows", type=click.IntRange(1), default=256, show_default=True, help="Positions in the block.")
@click.option("--repeats", type=click.IntRange(1), default=3, show_default=True)
@click.option("--first", type=click.IntRange(1), default=10, show_default=True, help="How many to print.")
@vocabulary_option
def claims(rows: int, repeats: int, first: int, vocabulary: int) -> None:
    """Print the CPU seconds of a million positions of the dearest claims, when all are checked together."""
    costs, total = claim_costs(vocabulary, rows, repeats)
    for name, cost in sorted(costs.items(), key=lambda item: -item[1])[:first]:
        click.echo(f"{name:<40} {cost:>10,.0f} s per 10^6 positions of V = {vocabulary:,}, {cost / total:.1%} of all")


def claim_costs(vocabulary: int, rows: int, repeats: int) -> tuple[dict[str, float], float]:
    """Return the CPU time of each measured claim in µs a position, and that of the block; the least of the repeats.

    Claims share what they compute from the same arrays; the first one pays for it.
    """
    chunk = TraceChunk(**SyntheticTrace(rows, vocabulary).rows(0, rows))
    least: dict[str, float] = {}
    whole = float("inf")
    for _ in range(repeats + 1):  # the first imports and fills caches
        spent: dict[str, float] = {}
        timed: Any = [_Timed(claim, spent) for claim in _measured()]
        began = time.process_time()
        check._check_block(chunk, timed, np.random.default_rng(1), Backend())
        whole = min(whole, time.process_time() - began)
        least = {name: min(cost, least.get(name, cost)) for name, cost in spent.items()}
    return {name: cost / rows * 1e6 for name, cost in least.items()}, whole / rows * 1e6


class _Timed:
    """A claim that adds up the CPU time of its checks."""

    def __init__(self, claim: Claim, spent: dict[str, float]) -> None:
        self.claim, self.spent = claim, spent
        self.id, self.takes = claim.id, claim.takes

    def check(self, instance: Any) -> Any:
        """Check the claim."""
        began = time.process_time()
        found = self.claim.check(instance)
        self.spent[self.id] = self.spent.get(self.id, 0.0) + time.process_time() - began
        return found


def _measured() -> list[Claim]:
    trace = _trace(1, 512)
    return Work.of(trace, hlmtheory.all_claims(), seed=1, backend=Backend(), stored_rows=False).measured


def _trace(positions: int, vocabulary: int) -> Any:
    return SyntheticTrace(positions, vocabulary)


if __name__ == "__main__":
    main()
