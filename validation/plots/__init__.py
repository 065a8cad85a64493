"""The figures of the papers, drawn anew from a trace, each with a sidecar of the numbers drawn."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import hlmtheory
from validation.errors import UserError
from validation.plots import cuhlm
from validation.plots.record import Figure, Printed
from validation.plots.style import house_style, save
from validation.traces import Trace

__all__ = ["FIGURES", "Figure", "Printed", "draw", "find_figure"]

FIGURES: dict[tuple[str, str], Figure] = {(figure.paper, figure.number): figure for figure in cuhlm.FIGURES}
"""Every figure, by paper and number."""

SOURCE = Path(__file__).resolve().parents[2]


def find_figure(paper: str, number: str) -> Figure:
    """The figure of that paper and number.

    Raises
    ------
    UserError
        There is none; the message names those there are.
    """
    try:
        return FIGURES[paper, number]
    except KeyError:
        known = ", ".join(f"{paper} {number}" for paper, number in FIGURES)
        raise UserError(f"There is no figure {paper} {number}; choose one of: {known}.") from None


def draw(
    paper: str, number: str, trace: Trace, folder: str | Path, *, command: str, seed: int, commit: str | None = None
) -> tuple[Path, Path]:
    """Draw one figure.

    Parameters
    ----------
    paper, number : str
        A key of :data:`FIGURES`.
    trace : Trace
    folder : str or Path
        Where the files go; made if need be.
    command : str
        What a person types to get this figure again; recorded.
    seed : int
        Picks the positions where not all are drawn.
    commit : str, optional
        Of the code that draws; asked of git if None.

    Returns
    -------
    tuple of Path
        ``<paper>-fig<number>.svg`` and the sidecar, the same with ``.json``.

    Raises
    ------
    UserError
        There is no such figure.
    """
    figure = find_figure(paper, number)
    numbers = figure.measure(trace, seed)
    svg = Path(folder) / f"{paper}-fig{number}.svg"
    svg.parent.mkdir(parents=True, exist_ok=True)
    with house_style():
        save(figure.paint(numbers), svg)
    about = _about(figure, trace, numbers)
    run = {"command": command, "seed": seed, "commit": commit or _commit(), "hlmtheory": hlmtheory.__version__}
    sidecar = svg.with_suffix(".json")
    sidecar.write_text(json.dumps(about | run | numbers, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
    return svg, sidecar


def _about(figure: Figure, trace: Trace, numbers: Mapping[str, Any]) -> dict[str, Any]:
    """What the figure shows, of which models, and what the paper prints."""
    pair = trace.manifest.get("pair", {}).get("name")
    drawn, all_of_them = numbers["positions_drawn"], trace.positions
    where = f"{drawn:,} of {all_of_them:,}" if drawn < all_of_them else f"{drawn:,}"
    name = f"{figure.paper} Figure {figure.number}: {figure.title}."
    basis = f"{figure.kind.capitalize()} on the pair {pair}, {where} positions, V = {trace.vocabulary:,}."
    return {
        "figure": f"{figure.paper} {figure.number}",
        "title": figure.title,
        "caption": " ".join([name, figure.shows, figure.caption(numbers), basis]),
        "source": {"key": figure.source, "place": f"Fig. {figure.number}"},
        "kind": figure.kind,
        "pair": pair,
        "positions": trace.positions,
        "vocabulary": trace.vocabulary,
        "printed": [asdict(printed) for printed in figure.printed],
    }


def _commit() -> str | None:
    """The commit of this code, marked if it was changed since; None if it is no checkout."""
    if not (SOURCE / ".git").exists():
        return None
    try:
        found = _git("rev-parse", "HEAD")
        changed = _git("status", "--porcelain", "--", "hlmtheory", "validation")
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{found} with changes" if changed else found


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(SOURCE), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()
