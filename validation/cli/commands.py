"""The commands ``hlm validate``, ``hlm import``, ``hlm claims``, ``hlm decode``, ``hlm figure`` and ``hlm repro``."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import click

import hlmtheory
from validation.cli.acceptance import acceptance
from validation.cli.audit import audit
from validation.cli.collect import Models, collect, collect_here, merge
from validation.cli.display import decoded_lines, decoded_screen, open_console, progress_bar, waiting
from validation.cli.docs import docs
from validation.cli.doctor import doctor
from validation.cli.exits import EXIT_CODES, INTERRUPTED, PARTLY, VIOLATED
from validation.cli.options import PLACE, Renamed, collection_options, pair_options, version_options, wait_option
from validation.cli.plan import plan
from validation.cli.refusals import refusals
from validation.cli.reproduce import reproduce
from validation.cli.run import (
    finish_run,
    open_stored,
    print_json,
    run_folder,
    run_name,
    say_what_stays,
    typed_command,
)
from validation.cli.top_k import list_options, read_processing, top_k
from validation.errors import UserError, naming
from validation.trace.remote import Place

ROOT = Path(__file__).resolve().parents[2]
SIMULATED = Path("runs/simulated")

quiet_option = click.option("--quiet", "-q", is_flag=True, help="Print nothing but errors; see the exit code.")
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object; all else goes to the error output."
)


class Commands(click.Group):
    """A command group that reports a UserError or an interrupt as one sentence."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command and report errors."""
        try:
            with refusals():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("\nStopped. The same command continues from what is stored.", err=True)
            ctx.exit(INTERRUPTED)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]}, epilog=EXIT_CODES)
@click.version_option(hlmtheory.__version__, prog_name="hlmtheory")
def main() -> None:
    """Check the published theory of hybrid language models on real model pairs.

    A draft model on a device drafts tokens, a target model on a server verifies them. `hlm validate` collects the
    logits of both, checks every claim on them, draws the figures, and writes a report.
    """


@main.command()
@pair_options
@collection_options
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the run.  [default: runs/PAIR]")
@click.option("--fresh", is_flag=True, help="Delete the stored trace and collect again.")
@wait_option
@click.option("--trace", "stored", type=PLACE, help="Check this trace, also at s3:// or http://; no model is loaded.")
@click.option("--stored-rows", is_flag=True, help="Take the rounded rows of an imported store as exact (with --trace).")
@click.option("--scheduler", help="Check on dask's workers: local, or the address of a scheduler, tcp://HOST:PORT.")
@quiet_option
@json_option
def validate(
    name: str | None,
    draft: str | None,
    target: str | None,
    base: str | None,
    changed_anchor: bool,
    prompts: Path | None,
    positions: int,
    new_tokens: int,
    seed: int,
    device: str,
    dtype: str | None,
    out: Path | None,
    fresh: bool,
    wait: float,
    stored: Place | None,
    stored_rows: bool,
    scheduler: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Collect logits, check every claim, draw the figures, write the report.

    A run that was stopped, by Ctrl-C or by a crash, continues when the same command is given again. Started by
    torchrun, several processes collect the logits, and one does the rest.
    """
    from validation.collection.prompts import builtin_prompts, read_prompts
    from validation.collection.ranks import this_rank

    console = open_console(quiet=quiet, stderr=as_json)
    if stored is not None:
        if any((name, draft, target, base, changed_anchor, prompts, fresh)):
            raise UserError(
                "--trace checks a stored trace; leave out --pair, --draft, --target, --base, --changed-anchor, "
                "--prompts and --fresh."
            )
        if this_rank() is not None:
            raise UserError("--trace checks a stored trace in one process; start it without torchrun.")
        trace = open_stored(console, stored)
        finish_run(console, trace, out or run_folder(stored), seed, device, as_json, stored_rows, scheduler)
        return
    if stored_rows:
        raise UserError("--stored-rows is about a stored trace; give it with --trace.")
    chosen = builtin_prompts() if prompts is None else read_prompts(prompts)
    models = Models(name, draft, target, base, changed_anchor, device, dtype)
    settings = {"positions": positions, "new_tokens": new_tokens, "seed": seed}
    collected = collect_here(
        console, models, chosen, lambda pair: (out or Path("runs") / run_name(pair)) / "trace", settings, fresh, wait
    )
    if collected is not None:
        pair, trace = collected
        finish_run(console, trace, Path(str(trace.path.parent)), seed, str(pair.device), as_json, scheduler=scheduler)


@main.command("import")
@click.option("--draft", required=True, help="The draft model's values: FILE, FILE:KEY of an array (N, V), or FOLDER.")
@click.option("--target", required=True, help="The target model's values, the same.")
@list_options
@click.option("--tokens", help="The tokens that were emitted, (N,) integers (arrays).")
@click.option("--texts", help="Which text each row belongs to, (N,) integers; one text if left out (arrays).")
@click.option(
    "--text-origin",
    type=click.Choice(["corpus", "target"]),
    help="Who wrote the texts.  [default: corpus; for arrays not recorded]",
)
@click.option("--out", required=True, type=PLACE, help="The trace to make: a folder, or s3://BUCKET/NAME.")
@click.option("--dtype", type=click.Choice(["auto", "float16", "float32"]), default="auto", show_default=True)
@click.option("--fresh", is_flag=True, help="Delete the trace in that folder first.")
@quiet_option
def import_(
    draft: str,
    target: str,
    kind: str | None,
    vocabulary: int | None,
    processing: str | None,
    draft_processing: str | None,
    target_processing: str | None,
    tokens: str | None,
    texts: str | None,
    text_origin: str | None,
    out: Place,
    dtype: str,
    fresh: bool,
    quiet: bool,
) -> None:
    """Make a trace of your own logits or log-probabilities.

    Whole rows: .npy, .npz, .safetensors, zarr, or llama.cpp's store, which `llama-perplexity --kl-divergence-base FILE`
    writes: one for each model, from the same text and -c. Rows of one text lie together, in order.

    Lists of the most probable tokens: vLLM's prompt_logprobs, SGLang's input_top_logprobs or llama.cpp's
    completion_probabilities in JSON or JSONL, or a folder of DistillKit.

    Then `hlm validate --trace FOLDER` checks every claim that the values decide.
    """
    from validation.collection.formats import holds_lists, open_lists
    from validation.collection.import_lists import CORPUS, import_lists
    from validation.collection.import_logits import default_values, import_logits

    console = open_console(quiet=quiet)
    listed, other = (holds_lists(where, kind) for where in (draft, target))
    if listed != other:
        rows, lists = (target, draft) if listed else (draft, target)
        raise UserError(f"{rows} holds whole rows and {lists} lists of tokens; give both models in one form.")
    given = {"--tokens": tokens, "--texts": texts} if listed else {"--vocabulary": vocabulary}
    if wrong := [name for name, value in given.items() if value is not None]:
        raise UserError(f"{wrong[0]} belongs to {'arrays' if listed else 'lists'}; leave it out.")
    defaults = ("raw_logprobs", "raw_logprobs") if listed else (default_values(draft), default_values(target))
    said = read_processing(processing, draft_processing, target_processing, defaults)
    if fresh:
        say_what_stays(console, out)
    with progress_bar(console) as report:
        if listed:
            sources = [open_lists(where, one, kind) for where, one in zip((draft, target), said, strict=True)]
            trace = import_lists(
                sources[0],
                sources[1],
                out,
                vocabulary=vocabulary,
                processing=said,
                text_origin=text_origin or CORPUS,
                fresh=fresh,
                progress=report,
            )
        else:
            trace = import_logits(
                draft,
                target,
                out,
                tokens=tokens,
                texts=texts,
                dtype=dtype,
                processing=said,
                text_origin=text_origin,
                fresh=fresh,
                progress=report,
            )
    for note in trace.manifest["notes"]:
        console.print(note, soft_wrap=True)
    console.print(f"{trace.positions:,} positions, V = {trace.vocabulary:,}.")
    console.print(shlex.join(["python3", "hlm", "validate", "--trace", str(out)]), soft_wrap=True)


@main.command()
@click.argument("identifier", required=False)
@click.option("--paper", help="Only the claims of this paper: cu-hlm, u-hlm, c-sqs, flexspec, edge-sd, or a cited key.")
@json_option
def claims(identifier: str | None, paper: str | None, as_json: bool) -> None:
    """List the claims, or show one in full.

    IDENTIFIER is a module (truncation: its claims are listed) or a claim (truncation.tvd_sharp: it is shown in full).
    """
    from validation.cli.claims import claims_of_paper, find_claims, plain_claim, show_claim, show_list

    found = find_claims(hlmtheory.all_claims(), identifier)
    if paper is not None:
        found = claims_of_paper(found, paper)
    if as_json:
        print_json({"claims": [plain_claim(claim) for claim in found]})
    elif [claim.id for claim in found] == [identifier]:
        show_claim(open_console(), found[0])
    else:
        show_list(open_console(), found)


@main.command()
@click.argument("paper")
@click.argument("number", required=False)
@click.option("--trace", "path", type=click.Path(path_type=Path), default=Path("runs/builtin/trace"), show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="Output folder.  [default: figures, next to the trace]")
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--beside", multiple=True, type=click.Path(path_type=Path), help="A run of another pair, for comparison.")
@click.option("--format", "formats", multiple=True, help="Also write pdf, png or csv; separate several by commas.")
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

    Some are simulated and need no trace; they go to runs/simulated/figures. Some need the texts of `hlm decode`. For a
    whole paper, figures without their inputs are listed with the command that makes these inputs (exit code 3).
    """
    from validation.cli.figures import Drawing, read_formats
    from validation.plots import Simulation, find_exhibits

    console = open_console(quiet=quiet)
    exhibits = find_exhibits(paper, number)  # raise on an unknown one before the trace is opened
    drawing = Drawing(path, beside, seed, typed_command(), read_formats(formats))
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
@click.option(
    "--target",
    "--large",
    "target",
    cls=Renamed,
    help="The target model: a folder (also of a peft adapter), .gguf file or hub name.",
)
@version_options
@click.option("--prompts", type=click.Path(path_type=Path), help="Your prompts, perhaps each with a `reference`.")
@click.option("--new-tokens", type=click.IntRange(min=0), default=512, show_default=True, help="Maximum new tokens.")
@click.option("--batch", type=click.IntRange(min=1), default=16, show_default=True, help="Texts per batch.")
@click.option("--method", "only", multiple=True, help="Only this method; may be given several times.")
@click.option(
    "--policy", type=click.Path(path_type=Path), help="A policy.json of `hlm plan`; adds its method, called planned."
)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, ..., or sharded.")
@click.option("--dtype", help="Type of the weights.  [default: float32 on the CPU, elsewhere as stored]")
@quiet_option
@json_option
def decode(
    name: str,
    run: Path,
    draft: str | None,
    target: str | None,
    base: str | None,
    changed_anchor: bool,
    prompts: Path | None,
    new_tokens: int,
    batch: int,
    only: tuple[str, ...],
    policy: Path | None,
    seed: int,
    device: str,
    dtype: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Continue prompts by the methods of a study.

    NAME is the study: hlm, design, greedy or nucleus.

    Thresholds are fitted to the trace of `hlm validate` in the same folder. Finished texts are kept: the same command
    continues after Ctrl-C or a crash. `hlm figure` draws from them. Speeds are computed from the number of forward
    passes and the time of one pass of each model, measured once per run.
    """
    from validation.collection.prompts import builtin_prompts, read_prompts
    from validation.decoding.fit_file import fitted_to
    from validation.decoding.pass_times import FILE, passes_of
    from validation.decoding.policy_file import planned_methods, refuse_other_models
    from validation.decoding.studies import STUDIES, decode_study, likely_names, refuse_unknown
    from validation.decoding.text_files import sample_of, write_texts
    from validation.models.pair import load_pair
    from validation.trace.reader import open_trace

    if name not in STUDIES:
        raise UserError(f"There is no study {name!r}; choose one of: {', '.join(STUDIES)}.")
    study, folder = STUDIES[name], run / "decoded" / name
    planned = planned_methods(policy, study.temperature, study.top_p)
    own = [one.name for one in planned]
    only = tuple(own[0] if own and one == "planned" else one for one in only)
    refuse_unknown(study, only, [*likely_names(study), *own], loosely=True)  # fail early; checked again once fitted
    console = open_console(quiet=quiet, stderr=as_json)
    trace = open_trace(run / "trace")
    chosen = builtin_prompts()[:100] if prompts is None else read_prompts(prompts)
    with waiting(console, "fitting thresholds to the trace"), naming(folder):
        fitted = fitted_to(trace, folder.parent / "fitted.json")
    refuse_unknown(study, only, [*(method.name for method in study.methods(fitted)), *own])
    with waiting(console, "loading the two models"):
        pair = load_pair(
            None if draft else "builtin",
            draft=draft,
            target=target,
            base=base,
            changed_anchor=changed_anchor,
            device=device,
            dtype=dtype,
        )
    refuse_other_models(planned, pair)
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
            more=planned,
            progress=report,
            **settings,
        )
    with naming(folder):
        texts = write_texts(decoded, chosen, pair.tokenizer, folder)
    decoded_screen(console, decoded, passes, folder.parent / FILE, texts, sample_of(decoded, chosen, pair.tokenizer))
    if as_json:
        about = {"study": name, "run": str(run), "texts": str(texts), "passes": passes.plain()}
        print_json(about | {"methods": decoded_lines(decoded, passes)})


@main.command()
@click.option("--check", is_flag=True, help="Change nothing; fail if a generated table is stale.")
@click.option("--tables", is_flag=True, help="Only regenerate the tables, from figures/ as it is; needs no run.")
@click.option("--captions", is_flag=True, help="Rewrite captions from stored numbers, then the tables; draws nothing.")
@click.option("--run", type=click.Path(path_type=Path), default=Path("runs/builtin"), show_default=True)
@click.option("--pair", "name", default="builtin", show_default=True, help="Name of the pair in figures/.")
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
                f"Stale: {', '.join(names)}; run `python3 hlm repro --tables`, or `hlm validate` "
                "and `hlm repro` if what is checked or drawn has changed.",
                err=True,
            )
            sys.exit(VIOLATED)
        click.echo("paper_repro.md and docs/results/ agree with figures/.")
        return
    if captions:
        files = [*refresh_captions(ROOT / "figures"), regenerate(ROOT)]
    else:
        files = [regenerate(ROOT)] if tables else publish(run, SIMULATED, ROOT, name)
    for written in files:
        click.echo(str(written.relative_to(ROOT)))


main.add_command(acceptance)
main.add_command(audit)
main.add_command(collect)
main.add_command(merge)
main.add_command(doctor)
main.add_command(docs)
main.add_command(plan)
main.add_command(reproduce)
main.add_command(top_k)
