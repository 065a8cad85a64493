"""The command line: ``hlm validate``, ``hlm import``, ``hlm claims``, ``hlm figure``, ``hlm repro``."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from validation.errors import UserError
from validation.screen import decoded_screen, last_screen, open_console, progress_bar, shortened, waiting

if TYPE_CHECKING:
    from rich.console import Console

    from validation.check import Results
    from validation.models import Pair
    from validation.prompts import Prompt
    from validation.traces import Trace

ROOT = Path(__file__).resolve().parent.parent
SIMULATED = Path("runs/simulated")


class Commands(click.Group):
    """A group whose commands report a UserError as one sentence and an interrupt as another."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        from validation.devices import memory_errors

        try:
            with memory_errors():
                return super().invoke(ctx)
        except UserError as error:
            raise click.ClickException(str(error)) from error
        except KeyboardInterrupt:
            click.echo("\nStopped. The same command goes on from what is stored.", err=True)
            ctx.exit(130)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Check the published theory of hybrid language models on real model pairs.

    A small model on a device drafts tokens, a large model on a server verifies them. `hlm validate` collects the
    logits of both, checks every claim on them, draws the figures, and writes a report.
    """


@main.command()
@click.option("--pair", "name", help="A named pair; `builtin` needs no network.  [default: builtin]")
@click.option("--small", help="The small model: a folder, or a hub name such as owner/model or owner/model@revision.")
@click.option("--large", help="The large model, likewise.")
@click.option("--prompts", type=click.Path(path_type=Path), help="Your prompts: .txt (one a line) or .jsonl.")
@click.option(
    "--positions",
    type=click.IntRange(min=1),
    default=20_000,
    show_default=True,
    help="Logit rows wanted, at least; the last text is finished.",
)
@click.option("--new-tokens", type=click.IntRange(min=1), default=160, show_default=True, help="Longest continuation.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of samples and drawn quantities.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, ..., or sharded.")
@click.option("--dtype", help="Of the weights.  [default: float32 on the CPU, elsewhere as stored]")
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the run.  [default: runs/PAIR]")
@click.option("--fresh", is_flag=True, help="Discard the trace that lies there and collect anew.")
@click.option("--trace", "stored", type=click.Path(path_type=Path), help="Check this trace; no model is loaded.")
def validate(
    name: str | None,
    small: str | None,
    large: str | None,
    prompts: Path | None,
    positions: int,
    new_tokens: int,
    seed: int,
    device: str,
    dtype: str | None,
    out: Path | None,
    fresh: bool,
    stored: Path | None,
) -> None:
    """Collect logits, check every claim, draw the figures, write the report.

    A run that was stopped, by Ctrl-C or by a crash, goes on when the same command is given again.
    """
    from validation.models import load_pair
    from validation.prompts import builtin_prompts, read_prompts

    console = open_console()
    if stored is not None:
        if any((name, small, large, prompts, fresh)):
            raise UserError("--trace checks what is stored; leave out --pair, --small, --large, --prompts and --fresh.")
        _finish_run(console, _open_stored(console, stored), out or _run_folder(stored), seed, device)
        return
    chosen = builtin_prompts() if prompts is None else read_prompts(prompts)
    with waiting(console, "loading the two models") as say:
        pair = load_pair(
            name,
            small=small,
            large=large,
            device=device,
            dtype=dtype,
            report=lambda text: say(f"loading the two models: {text}"),
        )
    for note in pair.notes:
        console.print(note)
    command = _command()
    folder = out or Path("runs") / _slug(pair.name)
    settings = {"positions": positions, "new_tokens": new_tokens, "seed": seed}
    trace = _trace(console, pair, chosen, folder / "trace", settings, command, fresh)
    _finish_run(console, trace, folder, seed, str(pair.device))


@main.command("import")
@click.option("--draft", required=True, help="Logits of the small model: FILE or FILE:KEY, an array (N, V).")
@click.option("--target", required=True, help="Logits of the large model, the same.")
@click.option("--tokens", help="The tokens that were emitted, (N,) integers.")
@click.option("--texts", help="Which text each row belongs to, (N,) integers; one text if left out.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder of the trace to make.")
@click.option("--dtype", type=click.Choice(["auto", "float16", "float32"]), default="auto", show_default=True)
@click.option("--fresh", is_flag=True, help="Discard a trace that lies there.")
def import_(draft: str, target: str, tokens: str | None, texts: str | None, out: Path, dtype: str, fresh: bool) -> None:
    """Make a trace of your own logits: .npy, .npz, .safetensors or zarr.

    Then `hlm validate --trace FOLDER` checks every claim on it. Rows of one text lie together, in order.
    """
    from validation.importing import import_logits

    console = open_console()
    with progress_bar(console) as report:
        trace = import_logits(draft, target, out, tokens=tokens, texts=texts, dtype=dtype, fresh=fresh, progress=report)
    for note in trace.manifest["notes"]:
        console.print(note, markup=False, soft_wrap=True)
    console.print(f"{trace.positions:,} positions, V = {trace.vocabulary:,}.")
    console.print(shlex.join(["python3", "hlm", "validate", "--trace", str(out)]), markup=False, soft_wrap=True)


@main.command()
@click.argument("identifier", required=False)
def claims(identifier: str | None) -> None:
    """List the claims, all or those of one room; with the IDENTIFIER of one, show it in full."""
    import hlmtheory
    from validation.citations import cite

    known = hlmtheory.all_claims()
    console = open_console()
    listed = [claim for claim in known.values() if identifier in (None, claim.id.split(".")[0])]
    if listed:
        for claim in listed:
            console.print(claim.id, style="bold", soft_wrap=True)
            status = "false" if claim.refuted is not None else "stands"
            console.print(f"  {claim.statement}", markup=False, highlight=False)
            console.print(f"  {status}; {claim.origin.value}; {cite(claim.source)}", markup=False, highlight=False)
        console.print(f"{len(listed)} claims; `python3 hlm claims ID` shows one in full.")
        return
    if identifier not in known:
        raise UserError(f"There is no claim {identifier!r}; `python3 hlm claims` lists the {len(known)} there are.")
    claim = known[identifier]
    room = claim.id.split(".")[0]
    folder = ROOT / "hlmtheory" / room
    head, proof = (f"{room}/__init__.py", f"{room}/claims.py") if folder.is_dir() else (f"{room}.py", f"{room}.py")
    rows = {
        "statement": claim.statement,
        "status": "false as stated: see the counterexample" if claim.refuted is not None else "stands",
        "source": cite(claim.source),
        "origin": claim.origin.value,
        "assumptions": "; ".join(a.statement for a in claim.assumptions) or "none",
        "checked on": ", ".join(claim.takes),
        "largest lhs/rhs known": claim.attained and f"{claim.attained.ratio:.6g} at {dict(claim.attained.instance)}",
        "counterexample": claim.refuted and dict(claim.refuted),
        "symbols": f"draft is q, target is p; the table at the head of hlmtheory/{head} has the others",
        "proof": f"hlmtheory/{proof}, the comment above CLAIMS",
        "tests": f"tests/theory/test_claims.py and test_{room}.py",
    }
    console.print(claim.id, style="bold")
    for label, value in rows.items():
        if value is not None:
            console.print(f"  {label}: {shortened(value)}", markup=False, highlight=False)


@main.command()
@click.argument("paper")
@click.argument("number", required=False)
@click.option("--trace", "path", type=click.Path(path_type=Path), default=Path("runs/builtin/trace"), show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="Where to.  [default: figures, beside the trace]")
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--beside", multiple=True, type=click.Path(path_type=Path), help="A run of another pair, to compare.")
def figure(paper: str, number: str | None, path: Path, out: Path | None, seed: int, beside: tuple[Path, ...]) -> None:
    """Draw figure or make table NUMBER of PAPER, for example: hlm figure cu-hlm 5a. Without a NUMBER, all of them.

    Some are simulated and need no trace; they go to runs/simulated/figures. Some need the texts of `hlm decode`.
    """
    from validation.decoding.studies import open_study
    from validation.plots import Decoding, Figure, Simulation, draw, find_exhibits
    from validation.traces import open_trace

    console = open_console()
    exhibits = find_exhibits(paper, number)  # refuse an unknown one before the trace is opened
    trace = open_trace(path) if any(isinstance(one, Figure) for one in exhibits) else None
    for one in exhibits:
        folder = out or (SIMULATED if isinstance(one, Simulation) else path.parent) / "figures"
        with waiting(console, f"drawing {one.paper} {one.place}"):
            runs = [path.parent, *beside] if isinstance(one, Decoding) else []
            decoded = [open_study(run / "decoded" / one.study) for run in runs]
            written = draw(one, trace, folder, command=_command(), seed=seed, decoded=decoded)
        for file in written:
            console.print(str(file), soft_wrap=True)


@main.command()
@click.argument("name")
@click.option("--run", type=click.Path(path_type=Path), default=Path("runs/builtin"), show_default=True)
@click.option("--small", help="The small model, as of `hlm validate`; the built-in pair if left out.")
@click.option("--large", help="The large model, likewise.")
@click.option("--prompts", type=click.Path(path_type=Path), help="Your prompts, perhaps each with a `reference`.")
@click.option("--new-tokens", type=click.IntRange(min=0), default=512, show_default=True, help="r_max.")
@click.option("--batch", type=click.IntRange(min=1), default=16, show_default=True, help="Texts at once.")
@click.option("--method", "only", multiple=True, help="Only this method; may be given several times.")
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, ..., or sharded.")
@click.option("--dtype", help="Of the weights.  [default: float32 on the CPU, elsewhere as stored]")
def decode(
    name: str,
    run: Path,
    small: str | None,
    large: str | None,
    prompts: Path | None,
    new_tokens: int,
    batch: int,
    only: tuple[str, ...],
    seed: int,
    device: str,
    dtype: str | None,
) -> None:
    """Continue prompts by every method of the study NAME: hlm, design, greedy or nucleus.

    Thresholds are fitted to the trace of `hlm validate` in the same folder. Texts that are there are kept: the same
    command goes on after Ctrl-C or a crash. `hlm figure` draws from them.
    """
    from validation.decoding.studies import STUDIES, decode_study
    from validation.models import load_pair
    from validation.prompts import builtin_prompts, read_prompts
    from validation.traces import open_trace

    if name not in STUDIES:
        raise UserError(f"There is no study {name!r}; choose one of: {', '.join(STUDIES)}.")
    console = open_console()
    trace = open_trace(run / "trace")
    chosen = builtin_prompts()[:100] if prompts is None else read_prompts(prompts)
    with waiting(console, "loading the two models"):
        pair = load_pair(None if small else "builtin", small=small, large=large, device=device, dtype=dtype)
    settings = {"new_tokens": new_tokens, "batch": batch, "seed": seed}
    with progress_bar(console) as report:
        decoded = decode_study(
            STUDIES[name],
            pair,
            chosen,
            trace,
            run / "decoded" / name,
            only=only,
            progress=report,
            **settings,  # type: ignore[arg-type]
        )
    decoded_screen(console, decoded)


@main.command()
@click.option("--check", is_flag=True, help="Change nothing; fail if a generated table is stale.")
@click.option("--run", type=click.Path(path_type=Path), default=Path("runs/builtin"), show_default=True)
@click.option("--pair", "name", default="builtin", show_default=True, help="What the pair of the run is called there.")
def repro(check: bool, run: Path, name: str) -> None:
    """Take the figures and verdicts of a run into the repository and regenerate the tables of paper_repro.md.

    What was simulated (`hlm figure PAPER`) is taken with it. Runs of other pairs stand beside the built-in one.
    """
    from validation.reproduction import publish, stale_tables

    if check:
        names = stale_tables(ROOT)
        if names:
            raise UserError(
                f"Stale in paper_repro.md: {', '.join(names)}; run `python3 hlm validate` and `python3 hlm repro`."
            )
        click.echo("paper_repro.md agrees with figures/.")
        return
    for written in publish(run, SIMULATED, ROOT, name):
        click.echo(str(written.relative_to(ROOT)))


def _trace(
    console: Console, pair: Pair, prompts: list[Prompt], path: Path, settings: dict[str, int], command: str, fresh: bool
) -> Trace:
    """The trace of these models, prompts and settings: the one that is there, finished if need be, or a new one."""
    from validation.collect import collect
    from validation.store.journal import has_begun

    lay_there = (path / "manifest.json").exists() and not fresh
    if not (lay_there or fresh) and has_begun(path):
        console.print(f"Going on from what is stored at {path}.")
    with progress_bar(console) as report:
        trace = collect(pair, prompts, path, progress=report, command=command, fresh=fresh, **settings)
    if lay_there:  # one of other settings is refused
        console.print(f"Using the trace at {path} (same models, prompts and seed); --fresh collects it again.")
        return trace
    speed = trace.manifest["speed"]
    console.print(
        f"Collected {trace.positions:,} positions in {speed['seconds']:.0f} s "
        f"({speed['positions_per_second']:,.0f} a second)."
    )
    return trace


def _open_stored(console: Console, path: Path) -> Trace:
    """A trace that is to be checked as it lies there, every byte verified."""
    from validation.traces import open_trace

    with waiting(console, f"verifying {path}"):
        return open_trace(path, verify=True)


def _run_folder(trace: Path) -> Path:
    """Where the run over a stored trace goes, if the user does not say."""
    path = trace.resolve()
    return Path("runs") / _slug(path.parent.name if path.name == "trace" else path.name)


def _finish_run(console: Console, trace: Trace, folder: Path, seed: int, device: str) -> None:
    """Everything after the trace; the exit code says whether a claim failed."""
    results, report = _analyse(console, trace, folder, seed, _command(), device)
    last_screen(console, results, report)
    if any(tally.outcome == "violated" for tally in results.tallies.values()):
        sys.exit(1)


def _analyse(
    console: Console, trace: Trace, folder: Path, seed: int, command: str, device: str
) -> tuple[Results, Path]:
    """Verdicts, figures and the report; they are made aside and replace the old ones when all are done."""
    from validation.check import check_trace
    from validation.plots import FIGURES, draw
    from validation.report import write_report
    from validation.store.journal import Lock

    folder.mkdir(parents=True, exist_ok=True)
    with Lock(folder), progress_bar(console) as report:
        part = folder / ".part"
        shutil.rmtree(part, ignore_errors=True)  # of a run that was killed
        place = "numpy" if device == "cpu" else device  # on a GPU, the check runs there
        results = check_trace(trace, seed=seed, progress=report, device=place)
        drawn: list[Path] = []
        for done, one in enumerate(FIGURES.values()):
            report(done, len(FIGURES), f"drawing {one.paper} {one.place}")
            drawn.append(draw(one, trace, part / "figures", command=command, seed=seed)[0])
        report(len(FIGURES), len(FIGURES), "drawing the figures")
        (part / "claims.json").write_text(results.to_json(), encoding="utf-8")
        written = write_report(part, results=results, manifest=trace.manifest, figures=drawn, command=command)
        (folder / "figures").mkdir(exist_ok=True)
        for file in [*(part / "figures").iterdir(), part / "claims.json", written]:  # the report last
            file.replace(folder / file.relative_to(part))
        shutil.rmtree(part)
    return results, folder / written.name


def _command() -> str:
    return shlex.join(["python3", "hlm", *sys.argv[1:]])


def _slug(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-." else "-" for c in name).strip("-") or "pair"


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    main(prog_name="hlm")
