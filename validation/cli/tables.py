"""Sentences, and tables that fit the screen: where it is too narrow, the least important columns are left out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from textwrap import fill
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_LABEL = re.compile(r" *[\w' ]+(\([^)]*\))?: ")


def say(console: Console, *texts: str, style: str | None = None) -> None:
    """Print sentences: on a terminal wrapped between words, elsewhere each on a line."""
    for line in (line.replace(" = ", "\xa0=\xa0") for text in texts for line in text.split("\n")):
        if console.is_terminal:
            indent = " " * (2 * bool(_LABEL.match(line)) + len(line) - len(line.lstrip()))
            line = fill(line, console.width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        console.print(line.replace("\xa0", " "), style=style, highlight=False, soft_wrap=True)


def print_table(
    console: Console,
    title: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    left: Sequence[str] = (),  # heads of the columns that are set left
    ranks: Sequence[str] = (),  # heads of the columns that may be left out, the least important first
    styles: Sequence[str] = (),  # of the rows
) -> None:
    """Print a table without the columns that do not fit, and name these; nothing if it has no rows."""
    from rich import box
    from rich.measure import Measurement
    from rich.table import Table

    rows, dropped = list(rows), list[str]()
    unbroken = console.options.update(max_width=10_000)
    while rows:
        table = Table(title=title, box=box.SIMPLE, padding=(0, 1, 0, 0))
        shown = [place for place, head in enumerate(heads) if head not in dropped]
        for place in shown:
            table.add_column(heads[place], justify="left" if heads[place] in left else "right")
        for number, cells in enumerate(rows):
            table.add_row(*(str(cells[place]) for place in shown), style=styles[number] if styles else None)
        if len(dropped) == len(ranks) or Measurement.get(console, unbroken, table).maximum <= console.width:
            console.print(table)
            break
        dropped.append(ranks[len(dropped)])
    if dropped:
        say(console, f"Not shown at {console.width} columns: {', '.join(dropped)}; --json has all.")
