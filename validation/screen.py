"""What the commands of :mod:`validation.__main__` show: bars, the last screen, and texts cut to fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from validation.check import Results, Tally
    from validation.decoding.studies import Decoded

OUTCOMES = {"hold": "holds", "fail": "violated", "undecided": "inconclusive", "refuted": "refuted"}
"""What the last screen calls each outcome of a tally."""


def last_screen(console: Console, results: Results, report: Path) -> None:
    """What held, failed, was vacuous or out of scope, and where the report is."""
    from rich import box
    from rich.table import Table

    heads = ("room", "data", *OUTCOMES, "vacuous", "out of scope")
    table = Table(
        title="Claims by outcome, and how many were vacuous or out of scope somewhere",
        box=box.SIMPLE,
        padding=(0, 1, 0, 0),
    )
    for head in heads:
        table.add_column(head, no_wrap=head in heads[:2])
    rooms: dict[str, list[Tally]] = {}
    for name, tally in results.tallies.items():
        rooms.setdefault(name.split(".")[0], []).append(tally)
    for room, tallies in rooms.items():
        counts = [sum(tally.outcome == outcome for tally in tallies) for outcome in OUTCOMES.values()]
        counts += [sum(t.vacuous > 0 for t in tallies), sum(t.out_of_scope > 0 for t in tallies)]
        table.add_row(room, tallies[0].kind, *(str(count or "·") for count in counts))
    console.print(table)
    for label, outcome in (("Fail", "violated"), ("Undecided", "inconclusive"), ("Never in scope", "out of scope")):
        named = [name for name, tally in results.tallies.items() if tally.outcome == outcome]
        if named:
            console.print(f"{label}: {', '.join(named)}", style="bold", soft_wrap=True)
    vacuous = [f"{name} ({t.vacuous / t.in_scope:.1%})" for name, t in results.tallies.items() if t.vacuous]
    if vacuous:
        console.print(f"Vacuous: {', '.join(vacuous)} of what is in scope.", soft_wrap=True)
    console.print("Out of scope: an assumption is not met there. Vacuous: so large that nothing could exceed it.")
    console.print(
        "Refuted: statements known to be false, most of them printed; how often each fails here is in the report.\n"
        f"Acceptance rate {results.summary['acceptance']:.3f} over {results.positions:,} positions. "
        f"{_sizes_in_words(results)}",
        soft_wrap=True,
    )
    console.print(f"Report: {report.resolve().as_uri()}", soft_wrap=True)


def _sizes_in_words(results: Results) -> str:
    """How many probabilities a device has to send, on average, for a guaranteed bias."""
    from validation.check import BIASES

    sizes = [f"{results.summary[f'size_for_bias_{bias}']:,.0f} for {bias:.0%}" for bias in BIASES]
    return f"Probabilities to send for a guaranteed bias (truncation.certificate), on average: {', '.join(sizes)}."


@contextmanager
def progress_bar(console: Console) -> Iterator[Any]:
    """A bar for ``report(done, total, text)``."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:<42}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bars:
        task = bars.add_task("", total=None)

        def report(done: int, total: int, text: str) -> None:
            bars.update(task, completed=min(done, total), total=total, description=text)

        yield report


@contextmanager
def waiting(console: Console, text: str) -> Iterator[Callable[[str], None]]:
    """A bar that moves while something of unknown length is done; yields what changes its text."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(pulse_style="cyan"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bars:
        task = bars.add_task(text, total=None)
        yield lambda changed: bars.update(task, description=changed)


def open_console() -> Console:
    """Where the commands write."""
    from rich.console import Console

    return Console()


def shortened(value: object, limit: int = 300) -> str:
    """A value as text, cut to so many characters."""
    text = str(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def decoded_screen(console: Console, decoded: Decoded) -> None:
    """What each method of a study came to, as ratios of totals."""
    from rich import box
    from rich.table import Table

    from validation.decoding.metrics import summary

    words = {
        "tokens/s": "tokens_per_s",
        "accepted": "acceptance",
        "skipped": "share_skipped",
        "per round": "tokens_per_round",
        "B/token": "bytes_per_token",
        "risk": "risk",
    }
    table = Table(title="By the models' time alone; B/token is the uplink", box=box.SIMPLE, padding=(0, 1, 0, 0))
    table.add_column("method")
    for head in words:
        table.add_column(head, justify="right", no_wrap=True)
    for line in summary(decoded.rows):
        name = line["method"] if line["link"] == "none" else f"{line['method']}, {line['link']}"
        values = (line[word] for word in words.values())
        table.add_row(name, *("·" if value is None else f"{value:,.3g}" for value in values))
    console.print(table)
    if not any("similarity_large" in scores for scores in decoded.scores.values()):
        console.print(
            "No inference accuracy: it takes `python3 hlm setup validation accuracy`, and this command once more.",
            soft_wrap=True,
        )
