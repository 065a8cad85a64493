"""The inputs of ``hlm figure``, opened when a figure first needs them, and the figures of a run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from validation import plots
from validation.cli.tables import print_table, say
from validation.decoding.studies import Decoded, open_study
from validation.errors import UserError
from validation.models.devices import keep_freed_memory
from validation.plots import FORMATS, Decoding, Exhibit, Figure, draw
from validation.plots.common.record import claims_words, printed_words
from validation.processes import Call, Processes
from validation.provenance import commit_of_code
from validation.trace.reader import Trace, open_trace

if TYPE_CHECKING:
    from rich.console import Console


BUILTIN_RUN = Path("runs/builtin")
LEAST_VALUES = 2**24
"""Logits of a model in a trace; the figures of a smaller one take less time than the start of processes."""


def read_formats(given: Sequence[str]) -> tuple[str, ...]:
    """Return the formats in the given words, which may contain commas; SVG by default.

    >>> read_formats(("pdf,CSV", "png"))
    ('pdf', 'csv', 'png')
    """
    formats = tuple(word.strip().lower() for words in given for word in words.split(",")) or ("svg",)
    if unknown := [word for word in formats if word not in FORMATS]:
        raise UserError(f"There is no format {unknown[0]!r}; choose of: {', '.join(FORMATS)}.")
    return formats


class Drawing:
    def __init__(
        self, trace: Path, beside: Sequence[Path], seed: int, command: str, formats: Sequence[str], pair: str | None
    ) -> None:
        self.path, self.beside = trace, beside
        self.about: dict[str, Any] = {"seed": seed, "command": command, "formats": formats, "pair": pair}

    @cached_property
    def trace(self) -> Trace:
        return open_trace(self.path)

    def draw(self, one: Exhibit, folder: Path) -> list[Path]:
        trace = self.trace if isinstance(one, Figure) else None
        decoded = self._studies(one) if isinstance(one, Decoding) else []
        return draw(one, trace, folder, decoded=decoded, **self.about)

    def _studies(self, one: Decoding) -> list[Decoded]:
        found = []
        for run in (self.path.parent, *self.beside):
            folder = run / "decoded" / one.study
            if not (folder / "study.json").exists():
                words = ["python3", "hlm", "decode", one.study, *([] if run == BUILTIN_RUN else ["--run", str(run)])]
                raise UserError(f"There is no finished study at {folder}; make it with `{shlex.join(words)}`.")
            found.append(open_study(folder))
        return found


def caption(sidecar: Path) -> str:
    return str(json.loads(sidecar.read_text(encoding="utf-8"))["caption"])


def show_numbers(console: Console, sidecar: Path) -> None:
    """Print the caption of a figure or table, its paper's numbers, its method, the claims behind it, its tables."""
    about = json.loads(sidecar.read_text(encoding="utf-8"))
    printed = "" if any("printed" in each["heads"] for each in about.get("tables", [])) else printed_words(about)
    say(console, about["caption"], *filter(None, [printed]), f"Method: {about['method']}")
    say(console, *filter(None, [claims_words(about)]))
    for each in about.get("tables", []):
        print_table(console, each["title"], each["heads"], each["rows"], left=each["heads"][:1])


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
    keep_freed_memory()
    commit = commit_of_code()
    large = trace.positions * trace.vocabulary >= LEAST_VALUES
    if processes.count < 2 or not (large and isinstance(trace.path, Path)):
        for done, one in enumerate(figures):
            report(done, f"drawing {one.paper} {one.place}")
            plots.draw(one, trace, folder, command=command, seed=seed, commit=commit)
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
    keep_freed_memory()
    trace = open_trace(path)
    for key in keys:
        plots.draw(plots.EXHIBITS[key], trace, folder, command=command, seed=seed, commit=commit)
