"""Terminal output of :mod:`validation.cli.commands`: progress bars, the last screen and shortened texts."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import hlmtheory
from hlmtheory.claims import FALSE
from validation.cli.exits import CLOSED
from validation.cli.tables import print_table, say
from validation.estimates import DASH, NONE, Estimate
from validation.printable import printable

if TYPE_CHECKING:
    from rich.console import Console

    from validation.claims.check import Results, Tally
    from validation.decoding.pass_times import Passes
    from validation.decoding.studies import Decoded

OUTCOMES = {"hold": "holds", "fail": "violated", "undecided": "inconclusive"}
OUTCOMES |= {kind: kind for kind in FALSE.values()}
"""Name of each outcome of a tally on the last screen."""

TELL_S, FIRST_S = 60.0, 5.0
"""Seconds between two lines of progress where there is no terminal, and before the first of them."""

PATIENCE_S = 3.0
"""Seconds of silence after which a wait is told where there is no terminal."""

UNBROKEN = 100_000
"""Width of an output that is not a terminal."""


def verdict_screen(console: Console, results: Results) -> None:
    there = {"holds", "violated", *(tally.outcome for tally in results.tallies.values())}
    shown = {label.replace(" ", "\n"): outcome for label, outcome in OUTCOMES.items() if outcome in there}
    modules: dict[tuple[str, str], list[Tally]] = {}
    for name, tally in results.tallies.items():
        modules.setdefault((name.split(".")[0], tally.kind), []).append(tally)
    rows = []
    for (module, kind), tallies in modules.items():
        counts = [sum(tally.outcome == outcome for tally in tallies) for outcome in shown.values()]
        true = [tally for tally in tallies if tally.outcome not in FALSE.values()]
        counts += [sum(t.vacuous > 0 for t in true), sum(t.out_of_scope > 0 for t in true)]
        rows.append([module, kind, *(count or "·" for count in counts)])
    title = "Claims by outcome, and how many true ones were vacuous or out of scope somewhere"
    heads = ("module", "data", *shown, "vacuous", "out of\nscope")
    print_table(console, title, heads, rows, left=heads)
    for label, outcome in (("Fail", "violated"), ("Undecided", "inconclusive")):
        named = [name for name, tally in results.tallies.items() if tally.outcome == outcome]
        if named:
            say(console, f"{label}: {', '.join(named)}", style="bold")
    reasons: dict[str, list[str]] = {}
    for name, tally in results.tallies.items():
        if tally.outcome == "out of scope":
            reasons.setdefault(tally.never, []).append(name)
    for reason, names in reasons.items():
        say(console, f"Never in scope ({reason}): {', '.join(names)}")
    known = "acceptance" in results.summary
    rate = "{acceptance:.3f}" if known else "between {acceptance_low:.3f} and {acceptance_high:.3f}"
    say(
        console,
        "Out of scope: an assumption is not met there. Vacuous: the bound is so large that nothing could exceed it.\n"
        f"{_kinds_in_words(results)}\n"
        f"Acceptance rate {rate.format(**results.summary)} over {results.positions:,} positions. "
        f"{_sizes_in_words(results)}",
    )


def _kinds_in_words(results: Results) -> str:
    from validation.claims.certificate import certificate
    from validation.report.tables import KINDS

    certified, known = certificate(), hlmtheory.all_claims().keys()
    measured = sum(tally.kind == "measured" for tally in results.tallies.values())
    simulated = len(results.tallies) - measured
    said = f"{measured} claims were measured on this pair's positions"
    said += f", {simulated} on simulated instances, which are the same for every pair." if simulated else "."
    said = f"{said} {certified.sentence(len(certified.tallies.keys() - results.tallies.keys()))}".strip()
    newer = len(known - results.tallies.keys() - certified.tallies.keys())
    said += f" {newer} are newer than that check and were not checked; --all-claims does." if newer else ""
    false = " ".join(f"{kind.capitalize()}: {KINDS[kind]}." for kind in FALSE.values())
    return f"{said}\n{false} Each fails on its counterexample; the report says how often here."


def _sizes_in_words(results: Results) -> str:
    from validation.claims.check import BIASES

    sizes = []
    for bias in BIASES:
        size, share = (results.summary.get(f"{name}_for_bias_{bias}") for name in ("size", "covered"))
        known = "unknown" if size is None else f"{size:,.0f}"
        sizes.append(f"{known} for {bias:.0%}" + ("" if share is None else f" (at {share:.0%} of the positions)"))
    return f"Probabilities to send for a guaranteed bias (truncation.certificate), on average: {', '.join(sizes)}."


@contextmanager
def progress_bar(console: Console) -> Iterator[Any]:
    """Show a progress bar, or without a terminal a line a minute; yield its callback ``report(done, total, text)``."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    text = TextColumn("{task.description:<42}", markup=False)
    bars = Progress(text, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console)
    tasks: list[Any] = []
    began = monotonic()
    told = began + FIRST_S - TELL_S

    def tell(done: int, total: int, text: str) -> None:
        nonlocal told
        now = monotonic()
        if console.is_terminal or now - told < TELL_S or not 0 < done < total:
            return
        told, spent = now, now - began
        say(
            console,
            f"{text}: {done:,} of {total:,} after {spent / 60:.0f} min, "
            f"about {spent * (total / done - 1) / 60:.0f} min to go",
        )

    def report(done: int, total: int, text: str) -> None:
        tell(done, total, text)
        if not tasks:  # the bar appears with the first report, so that a quick answer shows none
            task = bars.add_task(text, total=total)
            bars.start()
            tasks.append(task)
        bars.update(tasks[0], completed=min(done, total), total=total, description=text)

    try:
        yield report
    finally:
        if tasks:
            bars.stop()
        else:  # a bar that Ctrl-C met in its start cannot be stopped, but may have hidden the cursor
            console.show_cursor(True)


@contextmanager
def waiting(console: Console, text: str) -> Iterator[Callable[[str], None]]:
    """Show a bar for a task of unknown length, or without a terminal a line for each step that lasts."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    if not console.is_terminal:
        with _told_late(console, text) as say:
            yield say
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(pulse_style="cyan"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bars:
        task = bars.add_task(text, total=None)
        yield lambda changed: bars.update(task, description=changed)


@contextmanager
def _told_late(console: Console, text: str) -> Iterator[Callable[[str], None]]:
    """Print the text if the block lasts long, and from then on each new text; a quick block prints nothing."""
    now, told, lock = [text], threading.Event(), threading.Lock()

    def tell() -> None:
        with lock:
            told.set()
            say(console, f"{now[0][:1].upper()}{now[0][1:]} ...")

    def change(changed: str) -> None:
        with lock:
            now[0] = changed
        if told.is_set():
            tell()

    timer = threading.Timer(PATIENCE_S, tell)
    timer.daemon = True
    timer.start()
    try:
        yield change
    finally:
        timer.cancel()


def open_console(*, quiet: bool = False, stderr: bool = False) -> Console:
    """Return the console of the commands; if the output is not a terminal, lines are not wrapped."""
    from rich.console import Console as Screen
    from rich.segment import Segment

    class Console(Screen):
        """A console that escapes control characters of texts, and exits with its own code if the reader has left."""

        def render(self, *given: Any, **options: Any) -> Iterator[Segment]:
            for part in super().render(*given, **options):
                yield part if part.control else Segment(printable(part.text), part.style)

        def on_broken_pipe(self) -> None:
            with suppress(SystemExit):
                super().on_broken_pipe()
            raise SystemExit(CLOSED)

    stream = sys.stderr if stderr else sys.stdout
    if stream.isatty():
        return Console(stderr=stderr, quiet=quiet, markup=False)
    return Console(stderr=stderr, quiet=quiet, markup=False, width=UNBROKEN, soft_wrap=True)


def shortened(value: object, limit: int = 300) -> str:
    text = str(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


RATIOS = {
    "accepted": "acceptance",
    "skipped": "share_skipped",
    "per round": "tokens_per_round",
    "B/token": "bytes_per_token",
}
"""Further columns of a study's table, besides speed and risk: column head to metric."""


def decoded_lines(decoded: Decoded, passes: Passes) -> list[dict[str, Any]]:
    """Return the results of each method of a study over each link, as plain values."""
    from validation.decoding.metrics import summary
    from validation.decoding.pass_times import risk_per_token, speed

    lines = []
    for line in summary(decoded.records):
        rows = decoded.by_method[line["method"], line["link"]]
        found = {name: line[name] for name in ("method", "link", "texts", "tokens")}
        found |= {"tokens_per_s": speed(rows, passes).plain(), "risk_per_token": risk_per_token(rows).plain()}
        lines.append(found | {word: line[word] for word in RATIOS.values()})
    return lines


def decoded_screen(
    console: Console, decoded: Decoded, passes: Passes, kept: Path, texts: Path, sample: tuple[str, str, str] | None
) -> None:
    """Print the results of each method, the meaning of the columns, the folder of the texts, and one text."""
    rows = []
    for line in decoded_lines(decoded, passes):
        name = line["method"] if line["link"] == "none" else f"{line['method']}, {line['link']}"
        ratios = (NONE if line[word] is None else f"{line[word]:,.3g}" for word in RATIOS.values())
        speed, risk = (Estimate(**line[word]).text(",.3g", DASH) for word in ("tokens_per_s", "risk_per_token"))
        rows.append([name, speed, *ratios, risk])
    title = "tokens/s: measured counts × measured pass times, with 95% intervals over the prompts; no link"
    print_table(console, title, ("method", "tokens/s", *RATIOS, "risk/token"), rows, left=("method",))
    draft, target = (
        f"{1e3 * p.median_s:.3g} ms ({1e3 * p.low_s:.3g}–{1e3 * p.high_s:.3g})" for p in (passes.draft, passes.target)
    )
    say(
        console,
        f"A pass of the draft model over 1 token takes {draft}, of the target model over {passes.target.tokens} tokens "
        f"{target}: the median and the middle half of {passes.repeats}, one text behind {passes.before} tokens, "
        f"{passes.date}. Each pass counts so, however many tokens it verifies. Remove {kept} to measure anew.",
    )
    say(
        console,
        "B/token: uplink as encoded. risk/token: the mean over tokens of a bound on the total variation, 0 to 1, "
        "between the distribution that a token is drawn from and the target model's; 0 is lossless. Times the length "
        "of a text, it bounds the expected drift of the text.",
    )
    if sample is not None:
        method, prompt, text = (" ".join(part.split()) for part in sample)
        say(console, f"A text by {method}: {shortened(prompt, 160)} → {shortened(text, 240)}")
    say(console, f"Texts: {texts}")
    if not any("similarity_large" in scores for scores in decoded.scores.values()):
        say(
            console,
            "No inference accuracy: it takes `python3 hlm setup validation accuracy`, and this command once more.",
        )
