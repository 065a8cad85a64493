"""The group of all commands, and ``hlm validate``, ``hlm claims``, ``hlm figure`` and ``hlm publish``."""

import runpy
import sys
from pathlib import Path
from typing import Any

import click

import hlmtheory
from hlmtheory.claims import FALSE, Origin
from validation.cli.acceptance import acceptance
from validation.cli.audit import audit
from validation.cli.collect import Collection, collect, collect_here, collection_command, merge, show_dry_run
from validation.cli.decode import decode
from validation.cli.device import device
from validation.cli.display import open_console, waiting
from validation.cli.doctor import doctor
from validation.cli.exits import EXIT_CODES, INTERRUPTED, PARTLY, Verdict
from validation.cli.imports import import_, top_k
from validation.cli.options import FILE, PLACE, SEED, json_option, option, output_options, quiet_option
from validation.cli.plan import plan
from validation.cli.refusals import refusals
from validation.cli.reproduce import reproduce
from validation.cli.run import finish_run, open_stored, print_json, run_folder, run_name, typed_command
from validation.cli.serve import link, serve
from validation.errors import UserError, naming
from validation.installed import GROUPS, LAUNCHED, is_clone
from validation.trace.remote import Place

ROOT = Path(__file__).resolve().parents[2]
STUDIES = ROOT / "figures" / "studies" / "__main__.py"
SIMULATED = Path("runs/simulated")


class Commands(click.Group):
    """A command group that reports a UserError or an interrupt as one sentence, and whose help has groups."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in GROUPS.items():
            more = LAUNCHED.items() if is_clone() and "docs" in names else ()
            with formatter.section(title):
                formatter.write_dl([*((name, self.commands[name].get_short_help_str(150)) for name in names), *more])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with refusals():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("\nStopped. The same command continues from what is stored.", err=True)
            ctx.exit(INTERRUPTED)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]}, epilog=EXIT_CODES)
@click.version_option(hlmtheory.__version__, prog_name="hlmtheory")
def main() -> None:
    """Say which method of speculative decoding is the fastest for two models and a link, and what it guarantees.

    A draft model on a device drafts tokens, a target model on a server verifies them. Each published result behind the
    answer is code, with a proof or a counterexample; `hlm validate` checks it on the logits of your models.
    """


@main.command()
@collection_command(
    option("--out", "Folder of the run.  [default: runs/PAIR]", FILE),
    fresh="Delete the stored trace and collect again.",
)
@option("--trace stored", "Check this trace, also at s3:// or http://; no model is loaded.", PLACE)
@option("--stored-rows", "Take the rounded rows of an imported store as exact (with --trace).", is_flag=True)
@option("--claims own_file", "Also check the theorems of this Python file, first on drawn instances.", FILE)
@option("--all-claims", "Also check the claims that do not depend on the models (minutes).", is_flag=True)
@option(
    "--figures/--no-figures",
    "Draw the figures; they take longer than the check at a large V.",
    default=True,
    show_default=False,
)
@option(
    "--dry-run",
    "Print positions, disk, memory and CPU time of each step, from a short trial; start nothing.",
    is_flag=True,
)
@option("--scheduler", "Check on dask's workers: local, or the address of a scheduler, tcp://HOST:PORT.")
@output_options
def validate(
    asked: Collection, out: Path | None, stored: Place | None, own_file: Path | None, as_json: bool, **given: Any
) -> None:
    """Collect logits, check the claims that they decide, draw the figures, write the report.

    The other claims are the same for all models; the release has checked them. A run that was stopped, by Ctrl-C or by
    a crash, continues when the same command is given again.
    """
    console, models, seed = open_console(quiet=given["quiet"], stderr=as_json), asked.models, asked.settings["seed"]
    options = {name: given[name] for name in ("scheduler", "all_claims", "figures")} | {"memory": models.memory}
    if given["dry_run"]:
        if stored is not None or given["scheduler"] is not None or own_file is not None:
            raise UserError(
                "--dry-run estimates the collection and the check of one process on this machine; leave out --trace, "
                "--scheduler and --claims."
            )
        show_dry_run(console, asked, figures=given["figures"], all_claims=given["all_claims"], as_json=as_json)
        return
    from validation.cli.claims import own_claims, violated_by_draws

    options["own"] = own_claims(own_file, seed)
    if options["own"] and len(failed := violated_by_draws(console, options["own"])) == len(options["own"]):
        if as_json:
            print_json({"violated": list(failed), "counterexamples": failed})
        raise Verdict
    if stored is not None:
        named = (models.name, models.draft, models.target, models.base, models.changed_anchor, models.chat)
        if any((*named, asked.prompts, asked.fresh)):
            raise UserError(
                "--trace checks a stored trace; leave out --pair, --draft, --target, --base, --changed-anchor, "
                "--prompts, --chat and --fresh."
            )
        trace = open_stored(console, stored)
        folder = out or run_folder(stored)
        finish_run(console, trace, folder, seed, as_json, stored_rows=given["stored_rows"], **options)
        return
    if given["stored_rows"]:
        raise UserError("--stored-rows is about a stored trace; give it with --trace.")
    trace = collect_here(
        console, asked, asked.read_prompts(), lambda pair: (out or Path("runs") / run_name(pair)) / "trace"
    )
    finish_run(console, trace, Path(str(trace.path.parent)), seed, as_json, **options)


@main.command()
@click.argument("identifier", required=False)
@option("--paper", "Only the claims of this paper: cu-hlm, u-hlm, c-sqs, flexspec, edge-sd, or a cited key.")
@option("--claims own_file", "Also list the theorems of this Python file, checked on drawn instances.", FILE)
@option("--status", "Only claims that are true, or false in this way.", click.Choice(["true", *FALSE.values()]))
@option("--origin", "Only claims of this origin.", click.Choice([origin.value for origin in Origin]))
@json_option
def claims(identifier: str | None, paper: str | None, own_file: Path | None, as_json: bool, **kind: str | None) -> None:
    """List the claims, or show one in full.

    IDENTIFIER is a module or paper (truncation, c-sqs: its claims are listed) or a claim (truncation.tvd_sharp: shown).
    """
    from validation.cli.claims import claims_of_paper, find_claims, own_claims, plain_claim, show_claim, show_list

    own = own_claims(own_file)
    found = find_claims(hlmtheory.all_claims(), identifier)
    if paper is not None:
        found = claims_of_paper(found, paper)
    found = [one for one in found if all(value is None or value == one.plain()[name] for name, value in kind.items())]
    if as_json:
        print_json({"claims": [plain_claim(claim, own.get(claim.id)) for claim in found]})
    elif [claim.id for claim in found] == [identifier]:
        show_claim(open_console(), found[0], own.get(found[0].id))
    else:
        show_list(open_console(), found, own)
    if any(claim.id in own and own[claim.id].counterexample for claim in found):
        raise Verdict


@main.command()
@click.argument("paper")
@click.argument("numbers", nargs=-1)
@option("--trace path", "Its trace.  [default: runs/PAIR/trace]", FILE)
@option("--out", "Output folder.  [default: figures, next to the trace]", FILE)
@option("--seed", None, SEED, default=1)
@option("--beside", "A run of another pair, for comparison.", FILE, multiple=True)
@option("--pair name", "Pair whose numbers are drawn.  [default: that of the trace]")
@option("--format formats", "Also write pdf, png or csv; separate several by commas.", multiple=True)
@quiet_option
def figure(
    paper: str, numbers: tuple[str, ...], path: Path | None, out: Path | None, formats: tuple[str, ...], **given: Any
) -> None:
    """Draw figures or tables of a paper, or all.

    PAPER is cu-hlm, u-hlm, c-sqs, flexspec, edge-sd or ours; NUMBERS are some of its figures or tables, for example:
    hlm figure cu-hlm 5a. Without NUMBERS, all are drawn.

    Those that need no trace go to runs/simulated/figures. Some need the texts of `hlm decode`. For a
    whole paper, figures without their inputs are listed with the command that makes these inputs (exit code 3).
    """
    from validation.cli.figures import Drawing, caption, read_formats, show_numbers
    from validation.plots import Simulation, find_exhibits

    console = open_console(quiet=given["quiet"])
    # an unknown one is refused before the trace is opened
    exhibits = [one for number in numbers or (None,) for one in find_exhibits(paper, number)]
    command, kinds, pair = typed_command(), read_formats(formats), given["name"] or "builtin"
    trace = path or Path("runs", pair, "trace")
    drawing = Drawing(trace, given["beside"], given["seed"], command, kinds, given["name"])
    missing: dict[str, list[str]] = {}
    for one in exhibits:
        shared = isinstance(one, Simulation) and pair == "builtin"
        folder = out or (SIMULATED if shared else trace.parent) / "figures"
        try:
            with waiting(console, f"drawing {one.paper} {one.place}"), naming(folder):
                written = drawing.draw(one, folder)
        except UserError as error:
            missing.setdefault(str(error), []).append(one.place)
            published = ROOT / "figures" / ("" if pair == "builtin" else pair) / f"{one.stem}.json"
            if len(exhibits) == 1 and path is None and published.exists():
                console.print(f"As published, on the pair {pair}:")
                show_numbers(console, published)
                console.print(f"A run of yours would add its own numbers and the picture. {error}")
                return
            continue
        for file in written:
            console.print(str(file))
        if numbers and len(exhibits) == 1:
            show_numbers(console, written[0])
        else:
            console.print(caption(written[0]), markup=False, soft_wrap=True)
    if missing and not (drawn := len(exhibits) - sum(map(len, missing.values()))):
        raise UserError(" ".join(missing))
    if missing:
        click.echo(f"Drawn: {drawn} of {len(exhibits)}. Not drawn:", err=True)
        for reason, places in missing.items():
            click.echo(f"  {', '.join(places)}: {reason}", err=True)
        sys.exit(PARTLY)


@main.command("publish")
@option("--check", "Change nothing; fail if a generated table is stale.", is_flag=True)
@option("--tables", "Only regenerate the tables, from figures/ as it is; needs no run.", is_flag=True)
@option("--verdicts", "Only add verdicts on claims that the published run of this trace lacks.", is_flag=True)
@option("--run", None, FILE, default=Path("runs/builtin"))
@option("--pair name", "Name of the pair in figures/.", default="builtin")
@option("--beside", "A run of another pair that its figures compare.", FILE, multiple=True)
@option("--whole", "Take every file of the run, so that all name its commit, and nothing simulated.", is_flag=True)
def publish_run(
    check: bool, tables: bool, verdicts: bool, run: Path, name: str, beside: tuple[Path, ...], whole: bool
) -> None:
    """Update paper_repro.md from a run.

    Take its figures and verdicts into the repository and regenerate the tables. What was simulated (`hlm figure
    PAPER`) is taken with it. Runs of other pairs stand beside the built-in one.
    """
    if not is_clone():
        raise UserError("What is published lies in a clone of the repository; this is an installed package.")
    from validation.report.publish import add_verdicts, publish, regenerate, stale_tables

    if check:
        if names := stale_tables(ROOT):
            click.echo(
                f"Stale: {', '.join(names)}; run `python3 hlm publish --tables`, or `hlm validate` "
                "and `hlm publish` if what is checked or drawn has changed.",
                err=True,
            )
            raise Verdict
        click.echo("paper_repro.md agrees with figures/.")
        return
    simulated = run / "none" if whole else SIMULATED
    if verdicts:
        files = add_verdicts(run, ROOT)
    else:
        files = [regenerate(ROOT)] if tables else publish(run, simulated, ROOT, name, whole=whole, beside=beside)
    for written in files:
        click.echo(str(written.relative_to(ROOT)))


@main.command()
@option("--out", "Folder to fill.", FILE, default=Path("site"))
def docs(out: Path) -> None:
    """Build the documentation as a site, offline; a warning is an error.

    Guides, the theory by topic from the claim records, the examples, the results and the API. The first page is
    OUT/html/index.html.
    """
    from validation.site.build import build

    click.echo(str(build(out)))


@main.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("name", default="--help")
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def study(name: str, words: tuple[str, ...]) -> None:
    """Run a study: a long measurement of figures/studies.

    Its README says what it measures and which files it needs. WORDS are its own arguments; `hlm study NAME --help`
    lists them.
    """
    if not is_clone():
        raise UserError("The studies are in a clone of the repository; this is an installed package.")
    if name in ("-h", "--help"):
        click.echo(click.get_current_context().get_help())
    sys.path.insert(0, str(ROOT))
    sys.argv = [str(STUDIES), name, *words]
    runpy.run_path(str(STUDIES), run_name="__main__")


for added in (acceptance, audit, collect, decode, device, doctor, import_, link, merge, plan, reproduce, serve, top_k):
    main.add_command(added)
