"""The command ``hlm reproduce``: make every published figure and table again."""

import json
import sys
from pathlib import Path
from typing import Any

import click

from validation.cli.exits import PARTLY
from validation.cli.options import option
from validation.errors import UserError
from validation.installed import is_clone

ROOT = Path(__file__).resolve().parents[2]
RECORD = Path("validation") / "reproduce" / "times.json"
"""Seconds of the tasks of the published runs."""

_folder = click.Path(path_type=Path, file_okay=False)


@click.command()
@click.argument("paper", default="all")
@option(
    "--pair pairs",
    "builtin, smollm2, qwen-coder, wide, instructed; may be repeated.  [default: builtin]",
    multiple=True,
)
@option("--quick", "Few positions, prompts and tokens, in minutes; publishes nothing.", is_flag=True)
@option("--dry-run", "List the tasks with their states and times; run nothing.", is_flag=True)
@option("--data", "Folder of the texts with reference answers.", _folder, envvar="HLM_DATA")
@option("--models", "Folder of the pairs that are trained.", _folder, envvar="HLM_MODELS")
@option("--out", "Folder of the runs.  [default: runs/reproduce, or runs/quick]", _folder)
@option("--study studies", "Decode only this study; may be repeated.", multiple=True)
@option(
    "--prompts",
    "Prompts of each study, the first ones; of smollm2 and instructed, of the sets in turn.  [default: 100]",
    click.IntRange(min=2),
)
def reproduce(paper: str, quick: bool, dry_run: bool, out: Path | None, **options: Any) -> None:
    """Make the published figures and tables again: load, collect, fit, check, decode, draw, publish.

    PAPER is all (the default), cu-hlm, u-hlm, c-sqs, flexspec, edge-sd or ours. Tasks that are up to date are skipped,
    so the same command continues a run that was stopped. What needs other inputs is listed, not run (exit code 3).

    Publishing writes into figures/ and paper_repro.md; it needs a committed state of the code.
    """
    from validation.decoding.studies import STUDIES
    from validation.provenance import commit_of_code
    from validation.reproduce.engine import NOT_RUN, in_a_process, line_of, run_tasks, states, total_of
    from validation.reproduce.tasks import Setting, tasks_of

    if not (ROOT / ".git").exists() and not quick:
        raise UserError("What is published names its commit, and this is no checkout of git; give --quick.")
    place = (out or (ROOT if is_clone() else Path.cwd()) / "runs" / ("quick" if quick else "reproduce")).resolve()
    setting = Setting(
        root=ROOT,
        out=place,
        paper=paper,
        commit=commit_of_code() or "",
        pairs=options["pairs"] or ("builtin",),
        data=options["data"] and options["data"].resolve(),
        models=options["models"] and options["models"].resolve(),
        quick=quick,
        studies=options["studies"] or tuple(STUDIES),
        texts=options["prompts"],
    )
    tasks = tasks_of(setting)
    file = ROOT / RECORD
    seconds = json.loads(file.read_text(encoding="utf-8"))["seconds"] if file.exists() and not quick else {}
    waiting = states(tasks, place, seconds)
    for state in waiting if dry_run else ():
        click.echo(line_of(state))
    click.echo(total_of(waiting))
    if dry_run:
        return
    found = run_tasks(tasks, place, in_a_process(ROOT), click.echo)
    failed = [state for state in found if state.word == "failed"]
    if failed:
        raise UserError(" ".join(state.why for state in failed))
    if any(state.word == NOT_RUN for state in found):
        sys.exit(PARTLY)
