"""The command line: ``hlm validate``, ``hlm claims``, ``hlm figure``, ``hlm repro``."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from validation.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from validation.check import Results
    from validation.models import Pair
    from validation.prompts import Prompt
    from validation.traces import Trace

ROOT = Path(__file__).resolve().parent.parent
SYMBOLS = {"holds": "✓", "violated": "✗", "refuted": "⊘", "inconclusive": "?", "out of scope": "–"}


class Commands(click.Group):
    """A group whose commands report a UserError as one sentence and an interrupt as another."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except UserError as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Check the published theory of hybrid language models on real model pairs.

    A small model on a device drafts tokens, a large model on a server verifies them. `hlm validate` collects the
    logits of both, checks every claim on them, draws the figures, and writes a report.
    """


@main.command()
@click.option("--pair", "name", help="A named pair; `builtin` needs no network.  [default: builtin]")
@click.option("--small", help="The small model: a folder or a hub name.")
@click.option("--large", help="The large model: a folder or a hub name.")
@click.option("--prompts", type=click.Path(path_type=Path), help="Your prompts: .txt (one a line) or .jsonl.")
@click.option("--positions", type=click.IntRange(min=1), default=20_000, show_default=True, help="Logit rows wanted.")
@click.option("--new-tokens", type=click.IntRange(min=1), default=160, show_default=True, help="Longest continuation.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of samples and drawn quantities.")
@click.option("--device", default="cpu", show_default=True, help="Where the models run, as torch names it.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the run.  [default: runs/PAIR]")
@click.option("--fresh", is_flag=True, help="Collect again even if the same trace is there.")
def validate(
    name: str | None,
    small: str | None,
    large: str | None,
    prompts: Path | None,
    positions: int,
    new_tokens: int,
    seed: int,
    device: str,
    out: Path | None,
    fresh: bool,
) -> None:
    """Collect logits, check every claim, draw the figures, write the report."""
    from validation.models import load_pair
    from validation.prompts import builtin_prompts, read_prompts

    console = _console()
    chosen = builtin_prompts() if prompts is None else read_prompts(prompts)
    with console.status("Loading the two models"):
        pair = load_pair(name, small=small, large=large, device=device)
    for note in pair.notes:
        console.print(note)
    command = _command()
    folder = out or Path("runs") / _slug(pair.name)
    settings = {"positions": positions, "new_tokens": new_tokens, "seed": seed}
    trace = _trace(console, pair, chosen, folder / "trace", settings, command, fresh)
    results, report = _analyse(console, trace, folder, seed, command)
    _last_screen(console, results, report)
    if any(tally.outcome == "violated" for tally in results.tallies.values()):
        sys.exit(1)


@main.command()
@click.argument("identifier", required=False)
def claims(identifier: str | None) -> None:
    """List the claims; with an IDENTIFIER, show one in full."""
    import hlmtheory

    known = hlmtheory.all_claims()
    console = _console()
    if identifier is None:
        from rich.table import Table

        table = Table("id", "origin", "statement", "source", title=f"{len(known)} claims", show_lines=True)
        for claim in known.values():
            origin = "refuted" if claim.refuted is not None else claim.origin.value
            table.add_row(claim.id, origin, claim.statement, f"{claim.source.key} {claim.source.place}")
        console.print(table)
        return
    if identifier not in known:
        raise UserError(f"There is no claim {identifier!r}; `hlm claims` lists the {len(known)} there are.")
    claim = known[identifier]
    rows = {
        "statement": claim.statement,
        "source": f"{claim.source.key}, {claim.source.place}",
        "origin": claim.origin.value,
        "assumptions": "; ".join(a.statement for a in claim.assumptions) or "none",
        "checked on": ", ".join(claim.takes),
        "largest lhs/rhs known": claim.attained and f"{claim.attained.ratio:.6g} at {dict(claim.attained.instance)}",
        "counterexample": claim.refuted and dict(claim.refuted),
    }
    console.print(claim.id, style="bold")
    for label, value in rows.items():
        if value is not None:
            console.print(f"  {label}: {_short(value)}", markup=False, highlight=False)


@main.command()
@click.argument("paper")
@click.argument("number")
@click.option("--trace", "path", type=click.Path(path_type=Path), default=Path("runs/builtin/trace"), show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default=Path("figures"), show_default=True, help="Where to.")
@click.option("--seed", type=int, default=1, show_default=True)
def figure(paper: str, number: str, path: Path, out: Path, seed: int) -> None:
    """Draw figure NUMBER of PAPER, for example: hlm figure cu-hlm 5a."""
    from validation.plots import draw, find_figure
    from validation.traces import open_trace

    console = _console()
    find_figure(paper, number)  # refuse an unknown one before the trace is opened
    trace = open_trace(path)
    with console.status(f"Drawing {paper} Fig. {number}"):
        paths = draw(paper, number, trace, out, command=_command(), seed=seed)
    for written in paths:
        console.print(str(written), soft_wrap=True)


@main.command()
@click.option("--check", is_flag=True, help="Change nothing; fail if a generated table is stale.")
@click.option("--run", type=click.Path(path_type=Path), default=Path("runs/builtin"), show_default=True)
def repro(check: bool, run: Path) -> None:
    """Take the figures and verdicts of a run into the repository and regenerate the tables of paper_repro.md."""
    from validation.reproduction import publish, stale_tables

    if check:
        names = stale_tables(ROOT)
        if names:
            raise UserError(f"Stale in paper_repro.md: {', '.join(names)}; run `hlm validate` and `hlm repro`.")
        click.echo("paper_repro.md agrees with figures/claims.json.")
        return
    for written in publish(run, ROOT):
        click.echo(str(written.relative_to(ROOT)))


def _trace(
    console: Console, pair: Pair, prompts: list[Prompt], path: Path, settings: dict[str, int], command: str, fresh: bool
) -> Trace:
    """The trace of these models, prompts and settings: the one that is there, or a new one."""
    from validation.collect import collect
    from validation.traces import open_trace

    mark = _fingerprint(pair, prompts, settings)
    stamp = path.with_name("trace.fingerprint")
    if path.exists():
        if not fresh and stamp.exists() and stamp.read_text() == mark:
            console.print(f"Using the trace at {path} (same models, prompts and seed); --fresh collects it again.")
            return open_trace(path)
        open_trace(path)  # refuse to remove what is no trace
        stamp.unlink(missing_ok=True)
        shutil.rmtree(path)
    with _progress(console) as report:
        trace = collect(pair, prompts, path, progress=report, command=command, **settings)
    stamp.write_text(mark)
    speed = trace.manifest["speed"]
    console.print(
        f"Collected {trace.positions:,} positions in {speed['seconds']:.0f} s "
        f"({speed['positions_per_second']:,.0f} a second)."
    )
    return trace


def _analyse(console: Console, trace: Trace, folder: Path, seed: int, command: str) -> tuple[Results, Path]:
    """Verdicts, figures and the report."""
    from validation.check import check_trace
    from validation.plots import FIGURES, draw
    from validation.report import write_report

    with _progress(console) as report:
        results = check_trace(trace, seed=seed, progress=report)
    (folder / "claims.json").write_text(results.to_json(), encoding="utf-8")
    drawn: list[tuple[Path, str]] = []
    with _progress(console) as report:
        for done, (paper, number) in enumerate(FIGURES):
            report(done, len(FIGURES), f"drawing {paper} Fig. {number}")
            svg, sidecar = draw(paper, number, trace, folder / "figures", command=command, seed=seed)
            drawn.append((svg, json.loads(sidecar.read_text(encoding="utf-8"))["caption"]))
        report(len(FIGURES), len(FIGURES), "drawing the figures")
    return results, write_report(folder, results=results, manifest=trace.manifest, figures=drawn, command=command)


def _last_screen(console: Console, results: Results, report: Path) -> None:
    """What held, failed, was vacuous or out of scope, and where the report is."""
    from rich.table import Table

    table = Table("", "claim", "in scope", "fails", "vacuous", "out of scope", title="What the trace says")
    for tally in results.tallies.values():
        counts = (tally.in_scope, tally.violated, tally.vacuous, tally.out_of_scope)
        symbol = f"{SYMBOLS[tally.outcome]} {tally.outcome}"
        table.add_row(symbol, tally.claim, *(f"{count:,}" for count in counts))
    console.print(table)
    outcomes = [tally.outcome for tally in results.tallies.values()]
    vacuous = sum(tally.vacuous > 0 for tally in results.tallies.values())
    narrow = sum(tally.out_of_scope > 0 for tally in results.tallies.values())
    console.print(
        f"{outcomes.count('holds')} claims hold, {outcomes.count('violated')} fail, "
        f"{outcomes.count('inconclusive')} undecided; {outcomes.count('refuted')} printed statements known to be false "
        f"were checked too. {vacuous} bounds were vacuous somewhere, {narrow} out of scope somewhere. "
        f"Acceptance rate {results.summary['acceptance']:.3f} over {results.positions:,} positions."
    )
    console.print(f"Report: {report.resolve().as_uri()}", soft_wrap=True)


@contextmanager
def _progress(console: Console) -> Iterator[Any]:
    """A bar for ``report(done, total, text)``."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:<42}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bars:
        task = bars.add_task("", total=None)

        def report(done: int, total: int, text: str) -> None:
            bars.update(task, completed=min(done, total), total=total, description=text)

        yield report


def _console() -> Console:
    from rich.console import Console

    return Console()


def _command() -> str:
    return shlex.join(["hlm", *sys.argv[1:]])


def _fingerprint(pair: Pair, prompts: list[Prompt], settings: dict[str, int]) -> str:
    """What a trace depends on, but for the weights behind an unchanged path."""
    plain = [pair.describe(), [prompt.text for prompt in prompts], settings]
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _slug(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-." else "-" for c in name).strip("-") or "pair"


def _short(value: object, limit: int = 300) -> str:
    text = str(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    main(prog_name="hlm")
