"""Draw the figures of a run that changed, in several processes if there are several cores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from validation.processes import Call, Processes

if TYPE_CHECKING:
    from validation.plots import Figure
    from validation.trace.reader import Trace

LEAST_VALUES = 2**24
"""Logits of a model in a trace; the figures of a smaller one take less time than the start of processes."""

LONGEST = ("ours-fig7", "cu-hlm-fig8", "cu-hlm-fig2", "ours-tableIX")
"""A figure of each of the units that take longest; they are drawn first, so that no process is left with one."""


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
    """Draw figures into a folder."""
    from validation.models.devices import keep_freed_memory
    from validation.plots import EXHIBITS, commit_of_code, draw

    keep_freed_memory()
    commit = commit_of_code()
    large = trace.positions * trace.vocabulary >= LEAST_VALUES
    known = all(EXHIBITS.get((one.paper, one.number)) is one for one in figures)
    units = units_of(figures)
    if min(processes.count, len(units)) < 2 or not (large and known and isinstance(trace.path, Path)):
        for done, one in enumerate(figures):
            report(done, f"drawing {one.paper} {one.place}")
            draw(one, trace, folder, command=command, seed=seed, commit=commit)
        return
    calls: list[Call] = [
        (draw_unit, ([(one.paper, one.number) for one in unit], trace.path.resolve(), folder, command, seed, commit))
        for unit in units
    ]
    stems = [one.stem for one in figures]

    def tick() -> None:
        report(sum((folder / f"{stem}.json").exists() for stem in stems), "drawing the figures")

    tick()
    for _ in processes.in_order(calls, ahead=len(calls), tick=tick):
        tick()


def units_of(figures: Sequence[Figure]) -> list[list[Figure]]:
    """Return the figures in groups that share a sample, the groups that take longest first."""
    groups: dict[str, list[Figure]] = {}
    for one in figures:
        groups.setdefault(one.sample or one.stem, []).append(one)

    def rank(unit: list[Figure]) -> int:
        return min([LONGEST.index(one.stem) for one in unit if one.stem in LONGEST], default=len(LONGEST))

    return sorted(groups.values(), key=rank)


def draw_unit(
    keys: Sequence[tuple[str, str]], path: Path, folder: Path, command: str, seed: int, commit: str | None
) -> None:
    """Draw the figures of one unit; this runs in a worker process."""
    from validation.models.devices import keep_freed_memory
    from validation.plots import EXHIBITS, draw

    keep_freed_memory()
    for key in keys:
        draw(EXHIBITS[key], _opened(path), folder, command=command, seed=seed, commit=commit)


@lru_cache(maxsize=1)
def _opened(path: Path) -> Trace:
    from validation.trace.reader import open_trace

    return open_trace(path)
