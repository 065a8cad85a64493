"""The command line: ``hlm validate``, ``hlm import``, ``hlm claims``, ``hlm decode``, ``hlm figure``, ``hlm repro``."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import hlmtheory
from validation.cli.display import decoded_lines, decoded_screen, last_screen, open_console, progress_bar, waiting
from validation.cli.options import Renamed
from validation.cli.refusals import refusals
from validation.cli.start import EXIT_CODES, INTERRUPTED, PARTLY, VIOLATED, start
from validation.errors import UserError, naming

if TYPE_CHECKING:
    from rich.console import Console

    from validation.claims.check import Results
    from validation.collection.prompts import Prompt
    from validation.models.pair import Pair
    from validation.trace.reader import Trace

ROOT = Path(__file__).resolve().parent.parent
SIMULATED = Path("runs/simulated")
UNFINISHED = ".check.json"

quiet_option = click.option("--quiet", "-q", is_flag=True, help="Print nothing but errors; see the exit code.")
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object; all else goes to the error output."
)


class Commands(click.Group):
    """A group whose commands report a UserError as one sentence and an interrupt as another."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            with refusals():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("\nStopped. The same command goes on from what is stored.", err=True)
            ctx.exit(INTERRUPTED)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]}, epilog=EXIT_CODES)
@click.version_option(hlmtheory.__version__, prog_name="hlmtheory")
def main() -> None:
    """Check the published theory of hybrid language models on real model pairs.

    A draft model on a device drafts tokens, a target model on a server verifies them. `hlm validate` collects the
    logits of both, checks every claim on them, draws the figures, and writes a report.
    """


@main.command()
@click.option("--pair", "name", help="A named pair; `builtin` needs no network.  [default: builtin]")
@click.option(
    "--draft",
    "--small",
    "draft",
    cls=Renamed,
    help="The draft model: a folder, or a hub name such as owner/model or owner/model@revision.",
)
@click.option("--target", "--large", "target", cls=Renamed, help="The target model, likewise.")
@click.option("--prompts", type=click.Path(path_type=Path), help="Your prompts: .txt (one a line) or .jsonl.")
@click.option(
    "--positions",
    type=click.IntRange(min=1),
    default=20_000,
    show_default=True,
    help="How many positions to collect, at least: the last text is finished.",
)
@click.option("--new-tokens", type=click.IntRange(min=1), default=160, show_default=True, help="Longest continuation.")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the texts and of all that is drawn.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, ..., or sharded.")
@click.option("--dtype", help="Of the weights.  [default: float32 on the CPU, elsewhere as stored]")
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the run.  [default: runs/PAIR]")
@click.option("--fresh", is_flag=True, help="Delete the stored trace and collect again.")
@click.option("--trace", "stored", type=click.Path(path_type=Path), help="Check this trace; no model is loaded.")
@quiet_option
@json_option
def validate(
    name: str | None,
    draft: str | None,
    target: str | None,
    prompts: Path | None,
    positions: int,
    new_tokens: int,
    seed: int,
    device: str,
    dtype: str | None,
    out: Path | None,
    fresh: bool,
    stored: Path | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Collect logits, check every claim, draw the figures, write the report.

    A run that was stopped, by Ctrl-C or by a crash, goes on when the same command is given again.
    """
    from validation.collection.prompts import builtin_prompts, read_prompts
    from validation.models.pair import load_pair

    console = open_console(quiet=quiet, stderr=as_json)
    if stored is not None:
        if any((name, draft, target, prompts, fresh)):
            raise UserError(
                "--trace checks what is stored; leave out --pair, --draft, --target, --prompts and --fresh."
            )
        _finish_run(console, _open_stored(console, stored), out or _run_folder(stored), seed, device, as_json)
        return
    chosen = builtin_prompts() if prompts is None else read_prompts(prompts)
    with waiting(console, "loading the two models") as say:
        pair = load_pair(
            name,
            draft=draft,
            target=target,
            device=device,
            dtype=dtype,
            report=lambda text: say(f"loading the two models: {text}"),
        )
    for note in pair.notes:
        console.print(note)
    command = _command()
    folder = out or Path("runs") / _run_name(pair)
    settings = {"positions": positions, "new_tokens": new_tokens, "seed": seed}
    trace = _trace(console, pair, chosen, folder / "trace", settings, command, fresh)
    _finish_run(console, trace, folder, seed, str(pair.device), as_json)


@main.command("import")
@click.option("--draft", required=True, help="Logits of the draft model: FILE or FILE:KEY, an array (N, V).")
@click.option("--target", required=True, help="Logits of the target model, the same.")
@click.option("--tokens", help="The tokens that were emitted, (N,) integers.")
@click.option("--texts", help="Which text each row belongs to, (N,) integers; one text if left out.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder of the trace to make.")
@click.option("--dtype", type=click.Choice(["auto", "float16", "float32"]), default="auto", show_default=True)
@click.option("--fresh", is_flag=True, help="Delete the trace in that folder first.")
@quiet_option
def import_(
    draft: str,
    target: str,
    tokens: str | None,
    texts: str | None,
    out: Path,
    dtype: str,
    fresh: bool,
    quiet: bool,
) -> None:
    """Make a trace of your own logits: .npy, .npz, .safetensors or zarr.

    Then `hlm validate --trace FOLDER` checks every claim on it. Rows of one text lie together, in order.
    """
    from validation.collection.import_logits import import_logits

    console = open_console(quiet=quiet)
    if fresh:
        _say_what_stays(console, out)
    with progress_bar(console) as report:
        trace = import_logits(draft, target, out, tokens=tokens, texts=texts, dtype=dtype, fresh=fresh, progress=report)
    for note in trace.manifest["notes"]:
        console.print(note, soft_wrap=True)
    console.print(f"{trace.positions:,} positions, V = {trace.vocabulary:,}.")
    console.print(shlex.join(["python3", "hlm", "validate", "--trace", str(out)]), soft_wrap=True)


@main.command()
@click.argument("identifier", required=False)
@json_option
def claims(identifier: str | None, as_json: bool) -> None:
    """List the claims, or show one in full.

    IDENTIFIER is a module (truncation: its claims are listed) or a claim (truncation.tvd_sharp: it is shown in full).
    """
    from validation.cli.claims import find_claims, plain_claim, show_claim, show_list

    found = find_claims(hlmtheory.all_claims(), identifier)
    if as_json:
        _print_json({"claims": [plain_claim(claim) for claim in found]})
    elif [claim.id for claim in found] == [identifier]:
        show_claim(open_console(), found[0])
    else:
        show_list(open_console(), found)


@main.command()
@click.argument("paper")
@click.argument("number", required=False)
@click.option("--trace", "path", type=click.Path(path_type=Path), default=Path("runs/builtin/trace"), show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="Where to.  [default: figures, beside the trace]")
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--beside", multiple=True, type=click.Path(path_type=Path), help="A run of another pair, to compare.")
@click.option("--format", "formats", multiple=True, help="pdf, png or csv, beside the SVG; commas between several.")
@quiet_option
def figure(
    paper: str,
    number: str | None,
    path: Path,
    out: Path | None,
    seed: int,
    beside: tuple[Path, ...],
    formats: tuple[str, ...],
    quiet: bool,
) -> None:
    """Draw one figure or table of a paper, or all.

    PAPER is cu-hlm, u-hlm, c-sqs, flexspec, edge-sd or ours; NUMBER is one of its figures or tables, for example: hlm
    figure cu-hlm 5a. Without a NUMBER, all are drawn.

    Some are simulated and need no trace; they go to runs/simulated/figures. Some need the texts of `hlm decode`. Of a
    whole paper, what can be drawn is drawn; the rest is listed with the command that makes what it lacks (exit code 3).
    """
    from validation.cli.figures import Drawing, read_formats
    from validation.plots import Simulation, find_exhibits

    console = open_console(quiet=quiet)
    exhibits = find_exhibits(paper, number)  # refuse an unknown one before the trace is opened
    drawing = Drawing(path, beside, seed, _command(), read_formats(formats))
    missing: dict[str, list[str]] = {}
    for one in exhibits:
        folder = out or (SIMULATED if isinstance(one, Simulation) else path.parent) / "figures"
        try:
            with waiting(console, f"drawing {one.paper} {one.place}"), naming(folder):
                written = drawing.draw(one, folder)
        except UserError as error:
            missing.setdefault(str(error), []).append(one.place)
            continue
        for file in written:
            console.print(str(file))
    drawn = len(exhibits) - sum(map(len, missing.values()))
    if missing and not drawn:
        raise UserError(" ".join(missing))
    if missing:
        click.echo(f"Drawn: {drawn} of {len(exhibits)}. Not drawn:", err=True)
        for reason, places in missing.items():
            click.echo(f"  {', '.join(places)}: {reason}", err=True)
        sys.exit(PARTLY)


@main.command()
@click.argument("name")
@click.option("--run", type=click.Path(path_type=Path), default=Path("runs/builtin"), show_default=True)
@click.option(
    "--draft",
    "--small",
    "draft",
    cls=Renamed,
    help="The draft model, as in `hlm validate`; the built-in pair if left out.",
)
@click.option("--target", "--large", "target", cls=Renamed, help="The target model, likewise.")
@click.option("--prompts", type=click.Path(path_type=Path), help="Your prompts, perhaps each with a `reference`.")
@click.option("--new-tokens", type=click.IntRange(min=0), default=512, show_default=True, help="Most tokens a text.")
@click.option("--batch", type=click.IntRange(min=1), default=16, show_default=True, help="Texts at once.")
@click.option("--method", "only", multiple=True, help="Only this method; may be given several times.")
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, ..., or sharded.")
@click.option("--dtype", help="Of the weights.  [default: float32 on the CPU, elsewhere as stored]")
@quiet_option
@json_option
def decode(
    name: str,
    run: Path,
    draft: str | None,
    target: str | None,
    prompts: Path | None,
    new_tokens: int,
    batch: int,
    only: tuple[str, ...],
    seed: int,
    device: str,
    dtype: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Continue prompts by the methods of a study.

    NAME is the study: hlm, design, greedy or nucleus.

    Thresholds are fitted to the trace of `hlm validate` in the same folder. Texts that are there are kept: the same
    command goes on after Ctrl-C or a crash. `hlm figure` draws from them. Speeds are passes counted times what a pass
    of each model takes alone, measured once a run.
    """
    from validation.collection.prompts import builtin_prompts, read_prompts
    from validation.decoding.pass_times import FILE, passes_of
    from validation.decoding.studies import STUDIES, decode_study, fitted_to, likely_names, refuse_unknown
    from validation.decoding.text_files import sample_of, write_texts
    from validation.models.pair import load_pair
    from validation.trace.reader import open_trace

    if name not in STUDIES:
        raise UserError(f"There is no study {name!r}; choose one of: {', '.join(STUDIES)}.")
    study, folder = STUDIES[name], run / "decoded" / name
    refuse_unknown(study, only, likely_names(study), loosely=True)  # at once; below, by the names as fitted
    console = open_console(quiet=quiet, stderr=as_json)
    trace = open_trace(run / "trace")
    chosen = builtin_prompts()[:100] if prompts is None else read_prompts(prompts)
    with waiting(console, "fitting thresholds to the trace"), naming(folder):
        fitted = fitted_to(trace, folder.parent / "fitted.json")
    refuse_unknown(study, only, [method.name for method in study.methods(fitted)])
    with waiting(console, "loading the two models"):
        pair = load_pair(None if draft else "builtin", draft=draft, target=target, device=device, dtype=dtype)
    settings = {"new_tokens": new_tokens, "batch": batch, "seed": seed}
    with waiting(console, "timing a pass of each model"), naming(folder):
        passes = passes_of(pair, folder.parent)
    with progress_bar(console) as report, naming(folder):
        decoded = decode_study(
            study,
            pair,
            chosen,
            trace,
            folder,
            only=only,
            progress=report,
            **settings,  # type: ignore[arg-type]
        )
    with naming(folder):
        texts = write_texts(decoded, chosen, pair.tokenizer, folder)
    decoded_screen(console, decoded, passes, folder.parent / FILE, texts, sample_of(decoded, chosen, pair.tokenizer))
    if as_json:
        about = {"study": name, "run": str(run), "texts": str(texts), "passes": passes.plain()}
        _print_json(about | {"methods": decoded_lines(decoded, passes)})


@main.command()
@click.option("--check", is_flag=True, help="Change nothing; fail if a generated table is stale.")
@click.option("--tables", is_flag=True, help="Only regenerate the tables, from figures/ as it is; needs no run.")
@click.option("--captions", is_flag=True, help="Rewrite captions from stored numbers, then the tables; draws nothing.")
@click.option("--run", type=click.Path(path_type=Path), default=Path("runs/builtin"), show_default=True)
@click.option("--pair", "name", default="builtin", show_default=True, help="What the pair of the run is called there.")
def repro(check: bool, tables: bool, captions: bool, run: Path, name: str) -> None:
    """Update paper_repro.md from a run.

    Take its figures and verdicts into the repository and regenerate the tables. What was simulated (`hlm figure
    PAPER`) is taken with it. Runs of other pairs stand beside the built-in one.
    """
    from validation.report.publish import publish, refresh_captions, regenerate, stale_captions, stale_tables

    if check:
        if old := stale_captions(ROOT / "figures"):
            click.echo(f"Stale captions: {', '.join(old)}; run `python3 hlm repro --captions`.", err=True)
            sys.exit(VIOLATED)
        names = stale_tables(ROOT)
        if names:
            click.echo(
                f"Stale in paper_repro.md: {', '.join(names)}; run `python3 hlm repro --tables`, or `hlm validate` "
                "and `hlm repro` if what is checked or drawn has changed.",
                err=True,
            )
            sys.exit(VIOLATED)
        click.echo("paper_repro.md agrees with figures/.")
        return
    if captions:
        files = [*refresh_captions(ROOT / "figures"), regenerate(ROOT)]
    else:
        files = [regenerate(ROOT)] if tables else publish(run, SIMULATED, ROOT, name)
    for written in files:
        click.echo(str(written.relative_to(ROOT)))


def _trace(
    console: Console, pair: Pair, prompts: list[Prompt], path: Path, settings: dict[str, int], command: str, fresh: bool
) -> Trace:
    """The trace of these models, prompts and settings: the one that is there, finished if need be, or a new one."""
    from validation.collection.collect import collect
    from validation.trace.journal import has_begun

    lay_there = (path / "manifest.json").exists() and not fresh
    if fresh:
        _say_what_stays(console, path)
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


def _say_what_stays(console: Console, path: Path) -> None:
    """Name the files that --fresh does not discard, since no trace has them."""
    from validation.trace.reopen import foreign_files

    if names := foreign_files(path):
        more = f" and {len(names) - 5:,} more" if len(names) > 5 else ""
        text = f"--fresh leaves what is no part of a trace in {path}: {', '.join(names[:5])}{more}."
        console.print(text, markup=False, soft_wrap=True)


def _open_stored(console: Console, path: Path) -> Trace:
    """A trace that is to be checked as it lies there, every byte verified."""
    from validation.trace.reader import open_trace

    with waiting(console, f"verifying {path}"):
        return open_trace(path, verify=True)


def _run_folder(trace: Path) -> Path:
    """Where the run over a stored trace goes, if the user does not say: the run it is of, or a folder of its own."""
    path = trace.resolve()
    if path.name == "trace" and path.parent.parent == Path("runs").resolve():
        return Path("runs") / path.parent.name
    return Path("runs") / _marked([path.parent.name if path.name == "trace" else path.name], [str(path)])


def _run_name(pair: Pair) -> str:
    """What the folder of a pair's run is called: two pairs never share one."""
    from validation.models.pair import PAIRS

    if pair.name in PAIRS:
        return pair.name
    places = [str(Path(n).resolve()) if Path(n).exists() else n for n in (pair.draft_name, pair.target_name)]
    return _marked([Path(place).name for place in places], places)


def _marked(names: list[str], places: list[str]) -> str:
    """Names, and a hash of the places that they lie at."""
    mark = hashlib.sha256(repr(places).encode(errors="backslashreplace")).hexdigest()[:8]
    return "-".join([*(_slug(name)[:40] for name in names), mark])


def _finish_run(console: Console, trace: Trace, folder: Path, seed: int, device: str, as_json: bool) -> None:
    """Everything after the trace; the exit code says whether a claim failed."""
    results, report = _analyse(console, trace, folder, seed, _command(), device)
    last_screen(console, results, report)
    failed = [name for name, tally in results.tallies.items() if tally.outcome == "violated"]
    if as_json:
        outcomes = {name: tally.outcome for name, tally in results.tallies.items()}
        _print_json({"report": str(report), "violated": failed, "outcomes": outcomes} | json.loads(results.to_json()))
    if failed:
        if console.quiet:
            click.echo(f"Violated: {', '.join(failed)}", err=True)
        sys.exit(VIOLATED)


def _analyse(
    console: Console, trace: Trace, folder: Path, seed: int, command: str, device: str
) -> tuple[Results, Path]:
    """Verdicts, figures and the report; the verdicts are kept at once, the others are made aside and then moved."""
    from validation.claims.check import check_trace
    from validation.plots import FIGURES, draw
    from validation.report.html import write_report
    from validation.trace.journal import Lock, write_atomically

    folder.mkdir(parents=True, exist_ok=True)
    with naming(folder), Lock(folder), progress_bar(console) as report:
        part = folder / ".part"
        shutil.rmtree(part, ignore_errors=True)  # of a run that was killed
        place = "numpy" if device == "cpu" else device  # on a GPU, the check runs there
        kept = folder / UNFINISHED
        results = check_trace(trace, seed=seed, progress=report, device=place, kept=kept)
        write_atomically(folder / "claims.json", results.to_json())
        drawn: list[Path] = []
        for done, one in enumerate(FIGURES.values()):
            report(done, len(FIGURES), f"drawing {one.paper} {one.place}")
            drawn.append(draw(one, trace, part / "figures", command=command, seed=seed)[0])
        report(len(FIGURES), len(FIGURES), "drawing the figures")
        written = write_report(part, results=results, manifest=trace.manifest, figures=drawn, command=command)
        (folder / "figures").mkdir(exist_ok=True)
        for file in [*(part / "figures").iterdir(), written]:  # the report last
            file.replace(folder / file.relative_to(part))
        shutil.rmtree(part)
        kept.unlink(missing_ok=True)
    return results, folder / written.name


def _print_json(value: object) -> None:
    click.echo(json.dumps(value, indent=1, ensure_ascii=False))


def _command() -> str:
    """What was typed; bytes that are no text are written as escapes, so that it can be recorded."""
    return shlex.join(["python3", "hlm", *sys.argv[1:]]).encode(errors="backslashreplace").decode()


def _slug(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-." else "-" for c in name).strip("-") or "pair"


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    start(main)
