"""The group of all commands, and ``hlm validate``, ``hlm claims``, ``hlm figure`` and ``hlm repro``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

import hlmtheory
from validation.cli.acceptance import acceptance
from validation.cli.audit import audit
from validation.cli.collect import Collection, collect, collect_here, collection_command, merge
from validation.cli.decode import decode
from validation.cli.device import device
from validation.cli.display import open_console, waiting
from validation.cli.docs import docs
from validation.cli.doctor import doctor
from validation.cli.dry_run import show_dry_run
from validation.cli.exits import EXIT_CODES, INTERRUPTED, PARTLY, Verdict
from validation.cli.imports import import_
from validation.cli.link import link
from validation.cli.options import PLACE, SEED, json_option, quiet_option
from validation.cli.plan import plan
from validation.cli.refusals import refusals
from validation.cli.reproduce import reproduce
from validation.cli.run import finish_run, open_stored, print_json, run_folder, run_name, typed_command
from validation.cli.serve import serve
from validation.cli.study import study
from validation.cli.top_k import top_k
from validation.errors import UserError, naming
from validation.installed import is_clone
from validation.trace.remote import Place

ROOT = Path(__file__).resolve().parents[2]
SIMULATED = Path("runs/simulated")


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
@collection_command(
    click.option("--out", type=click.Path(path_type=Path), help="Folder of the run.  [default: runs/PAIR]"),
    fresh="Delete the stored trace and collect again.",
)
@click.option("--trace", "stored", type=PLACE, help="Check this trace, also at s3:// or http://; no model is loaded.")
@click.option("--stored-rows", is_flag=True, help="Take the rounded rows of an imported store as exact (with --trace).")
@click.option("--all-claims", is_flag=True, help="Also check the claims that do not depend on the models (minutes).")
@click.option(
    "--figures/--no-figures", default=True, help="Draw the figures; they take longer than the check at a large V."
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print positions, disk, memory and CPU time of each step, from a short trial; start nothing.",
)
@click.option("--scheduler", help="Check on dask's workers: local, or the address of a scheduler, tcp://HOST:PORT.")
@quiet_option
@json_option
def validate(
    asked: Collection,
    out: Path | None,
    stored: Place | None,
    stored_rows: bool,
    all_claims: bool,
    scheduler: str | None,
    figures: bool,
    dry_run: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Collect logits, check the claims that they decide, draw the figures, write the report.

    The other claims are the same for all models; the release has checked them. A run that was stopped, by Ctrl-C or by
    a crash, continues when the same command is given again.
    """
    console, models, seed = open_console(quiet=quiet, stderr=as_json), asked.models, asked.settings["seed"]
    options: dict[str, Any] = {"scheduler": scheduler, "all_claims": all_claims, "figures": figures}
    options["memory"] = models.memory
    if dry_run:
        if stored is not None or scheduler is not None:
            raise UserError(
                "--dry-run estimates the collection and the check of one process on this machine; leave out --trace "
                "and --scheduler."
            )
        show_dry_run(console, asked, figures=figures, all_claims=all_claims, as_json=as_json)
        return
    if stored is not None:
        named = (models.name, models.draft, models.target, models.base, models.changed_anchor, models.chat)
        if any((*named, asked.prompts, asked.fresh)):
            raise UserError(
                "--trace checks a stored trace; leave out --pair, --draft, --target, --base, --changed-anchor, "
                "--prompts, --chat and --fresh."
            )
        trace = open_stored(console, stored)
        folder = out or run_folder(stored)
        finish_run(console, trace, folder, seed, models.device, as_json, stored_rows=stored_rows, **options)
        return
    if stored_rows:
        raise UserError("--stored-rows is about a stored trace; give it with --trace.")
    device, trace = collect_here(
        console, asked, asked.read_prompts(), lambda pair: (out or Path("runs") / run_name(pair)) / "trace"
    )
    finish_run(console, trace, Path(str(trace.path.parent)), seed, device, as_json, **options)


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
@click.option("--seed", type=SEED, default=1, show_default=True)
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
@click.option("--check", is_flag=True, help="Change nothing; fail if a generated table is stale.")
@click.option("--tables", is_flag=True, help="Only regenerate the tables, from figures/ as it is; needs no run.")
@click.option("--run", type=click.Path(path_type=Path), default=Path("runs/builtin"), show_default=True)
@click.option("--pair", "name", default="builtin", show_default=True, help="Name of the pair in figures/.")
def repro(check: bool, tables: bool, run: Path, name: str) -> None:
    """Update paper_repro.md from a run.

    Take its figures and verdicts into the repository and regenerate the tables. What was simulated (`hlm figure
    PAPER`) is taken with it. Runs of other pairs stand beside the built-in one.
    """
    if not is_clone():
        raise UserError("What is published lies in a clone of the repository; this is an installed package.")
    from validation.report.publish import publish, regenerate, stale_tables

    if check:
        names = stale_tables(ROOT)
        if names:
            click.echo(
                f"Stale: {', '.join(names)}; run `python3 hlm repro --tables`, or `hlm validate` "
                "and `hlm repro` if what is checked or drawn has changed.",
                err=True,
            )
            raise Verdict
        click.echo("paper_repro.md agrees with figures/.")
        return
    files = [regenerate(ROOT)] if tables else publish(run, SIMULATED, ROOT, name)
    for written in files:
        click.echo(str(written.relative_to(ROOT)))


main.add_command(acceptance)
main.add_command(audit)
main.add_command(collect)
main.add_command(decode)
main.add_command(import_)
main.add_command(link)
main.add_command(merge)
main.add_command(device)
main.add_command(doctor)
main.add_command(docs)
main.add_command(plan)
main.add_command(reproduce)
main.add_command(serve)
main.add_command(study)
main.add_command(top_k)
