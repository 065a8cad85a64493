"""Draw the figures of a run that changed, in several processes if there are several cores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from validation.processes import Call, Processes

if TYPE_CHECKING:
    from validation.plots import Figure
    from validation.trace.reader import Trace

LEAST_VALUES = 2**24
"""Logits of a model in a trace; the figures of a smaller one take less time than the start of processes."""


def draw_figures(
    figures: Sequence[Figure],
    trace: Trace,
    folder: Path,
    *,
    command: str,
    seed: int,
    processes: Processes,
    report: Callable[[int, str], None],
) -> None:
    """Draw figures into a folder; those that share a sample are drawn by one process, which measures it once."""
    from validation.models.devices import keep_freed_memory
    from validation.plots import commit_of_code, draw

    keep_freed_memory()
    commit = commit_of_code()
    large = trace.positions * trace.vocabulary >= LEAST_VALUES
    if processes.count < 2 or not (large and isinstance(trace.path, Path)):
        for done, one in enumerate(figures):
            report(done, f"drawing {one.paper} {one.place}")
            draw(one, trace, folder, command=command, seed=seed, commit=commit)
        return
    units: dict[str, list[tuple[str, str]]] = {}
    for one in figures:
        units.setdefault(one.sample or one.stem, []).append((one.paper, one.number))
    longest_first = sorted(units.values(), key=len, reverse=True)
    calls: list[Call] = [
        (draw_unit, (unit, trace.path.resolve(), folder, command, seed, commit)) for unit in longest_first
    ]

    def tick() -> None:
        report(sum((folder / f"{one.stem}.json").exists() for one in figures), "drawing the figures")

    for _ in processes.in_order(calls, ahead=len(calls), tick=tick):
        tick()


def draw_unit(
    keys: Sequence[tuple[str, str]], path: Path, folder: Path, command: str, seed: int, commit: str | None
) -> None:
    """Draw the figures of one unit; this runs in a worker process."""
    from validation.models.devices import keep_freed_memory
    from validation.plots import EXHIBITS, draw
    from validation.trace.reader import open_trace

    keep_freed_memory()
    trace = open_trace(path)
    for key in keys:
        draw(EXHIBITS[key], trace, folder, command=command, seed=seed, commit=commit)
