"""Tables that fit the screen: where it is too narrow, the least important columns are left out and named."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

Line = tuple[Sequence[str], str]
"""The cells of a line, and its style."""
_WIDEST = 10_000


def print_table(
    console: Console, title: str, heads: Mapping[str, str], lines: Iterable[Line], ranks: Sequence[str] = ()
) -> list[str]:
    """Print a table, without the columns that do not fit, and return their heads."""
    from rich import box
    from rich.measure import Measurement
    from rich.table import Table

    lines, dropped = list(lines), list[str]()
    unbroken = console.options.update(max_width=_WIDEST)
    while True:
        table = Table(title=title, box=box.SIMPLE, padding=(0, 1, 0, 0))
        shown = [place for place, head in enumerate(heads) if head not in dropped]
        for head, justify in heads.items():
            if head not in dropped:
                table.add_column(head, justify="left" if justify == "left" else "right")
        for cells, style in lines:
            table.add_row(*(cells[place] for place in shown), style=style)
        if len(dropped) == len(ranks) or Measurement.get(console, unbroken, table).maximum <= console.width:
            break  # it fits, or no column is left that may go
        dropped.append(ranks[len(dropped)])
    console.print(table)
    if dropped:
        console.print(f"Not shown at {console.width} columns: {', '.join(dropped)}; --json has all.", soft_wrap=True)
    return dropped
