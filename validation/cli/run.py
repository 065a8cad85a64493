"""The steps of ``hlm validate`` after the models are loaded: trace, check, figures, report."""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

import hlmtheory
from validation.cli.display import progress_bar, verdict_screen, waiting
from validation.cli.exits import Verdict
from validation.cli.tables import say
from validation.errors import UserError, naming
from validation.installed import as_typed
from validation.printable import printable
from validation.trace.format import MANIFEST
from validation.trace.journal import Lock, has_begun, write_atomically

if TYPE_CHECKING:
    from rich.console import Console

    from hlmtheory.own import Trial
    from validation.claims.check import Results
    from validation.collection.prompts import Prompt
    from validation.models.pair import Pair
    from validation.planning.plan import Planner
    from validation.processes import Processes
    from validation.trace.reader import Trace
    from validation.trace.remote import Place

UNFINISHED = ".check.json"


def collect_trace(
    console: Console,
    pair: Pair,
    prompts: list[Prompt],
    path: Place,
    settings: dict[str, Any],
    command: str,
    fresh: bool,
) -> Trace:
    """Return the trace of these models, prompts and settings; finish a stored one, or collect a new one."""
    from validation.collection.collect import collect

    lay_there = (path / "manifest.json").exists() and not fresh
    if not (lay_there or fresh) and has_begun(path):
        console.print(f"Continuing from what is stored at {path}.")
    with progress_bar(console) as report:
        trace = collect(pair, prompts, path, progress=report, command=command, fresh=fresh, **settings)
    if lay_there:  # collect has checked that the settings agree
        console.print(f"Using the trace at {path} (same models, prompts and seed); --fresh collects it again.")
        return trace
    speed = trace.manifest["speed"]
    console.print(
        f"Collected {trace.positions:,} positions in {speed['seconds']:.0f} s "
        f"({speed['positions_per_second']:,.0f} a second), in whole batches of texts."
    )
    return trace


def tell_notes(console: Console, pair: Pair) -> None:
    """Print the notes of a pair; that its model was tuned for turns goes to the error output."""
    from validation.models.chat import PLAIN

    for note in pair.notes:
        if note != PLAIN:
            console.print(note)
        elif not console.quiet:
            click.echo(note, err=True)


def tell_stored(console: Console, trace: Trace, place: Place) -> None:
    """Print the notes and the size of a new trace, and the command that checks it."""
    say(console, *trace.manifest["notes"])
    console.print(f"{trace.positions:,} positions, V = {trace.vocabulary:,}.")
    tell_next(console, place)


def tell_next(console: Console, place: Place) -> None:
    say(console, shlex.join(["python3", "hlm", "validate", "--trace", str(place)]))


def open_stored(console: Console, path: Place) -> Trace:
    """Open a stored trace of any kind, and verify every byte: in a folder now, in a store when it is read."""
    from validation.trace.reader import LISTS, LOGITS, open_trace

    with waiting(console, f"verifying {path}"):
        return open_trace(path, verify=isinstance(path, Path), kinds=(LOGITS, LISTS))


def run_folder(trace: Place) -> Path:
    """Return the default folder of a run over a stored trace: the run that the trace belongs to, or a new folder."""
    path = trace.resolve()
    if path.name == "trace" and path.parent.parent == Path("runs").resolve():
        return Path("runs") / str(path.parent.name)
    return Path("runs") / _marked([path.parent.name if path.name == "trace" else path.name], [str(path)])


def trace_of(place: Place) -> Place:
    """Return the trace at a place: the place itself, or ``trace`` in it if it is the folder of a run."""
    if not isinstance(place, Path) or (place / MANIFEST).is_file() or not (place / "trace" / MANIFEST).is_file():
        return place
    return place / "trace"


def run_name(pair: Pair) -> str:
    """Return the name of the folder of a pair's run; two pairs never share one."""
    from validation.models.pair import PAIRS

    if pair.name in PAIRS:
        return pair.name
    places = [str(Path(n).resolve()) if Path(n).exists() else n for n in (pair.draft_name, pair.target_name)]
    return _marked([Path(place).name for place in places], places)


def _marked(names: list[str], places: list[str]) -> str:
    mark = hashlib.sha256(repr(places).encode(errors="backslashreplace")).hexdigest()[:8]
    plain = ["".join(c if c.isalnum() or c in "-." else "-" for c in name).strip("-") or "pair" for name in names]
    return "-".join([*(name[:40] for name in plain), mark])


def finish_run(
    console: Console,
    trace: Trace,
    folder: Path,
    seed: int,
    as_json: bool,
    *,
    stored_rows: bool = False,
    scheduler: str | None = None,
    all_claims: bool = False,
    figures: bool = True,
    memory: int | None = None,
    own: Mapping[str, Trial] | None = None,
) -> None:
    """Run all steps after the trace; the exit code reports whether a claim failed, of the user's own too."""
    from validation.claims.certificate import certificate
    from validation.claims.check import check_own, check_trace
    from validation.claims.instances import measured
    from validation.claims.order import in_processes, workers_here
    from validation.cli.claims import show_own
    from validation.processes import Processes

    folder.mkdir(parents=True, exist_ok=True)
    with naming(folder), Lock(folder), Processes(workers_here(trace.vocabulary, memory)) as processes:
        parts = in_processes(processes)
        if scheduler is not None:
            from validation.claims.cluster import on_scheduler

            parts = on_scheduler(scheduler)
        claims = {name: claim for name, claim in hlmtheory.all_claims().items() if name not in (own or {})}
        options: dict[str, Any] = {"kept": folder / UNFINISHED, "stored_rows": stored_rows}
        options["claims"] = claims if all_claims else measured(claims)
        with progress_bar(console) as progress:
            results = check_trace(trace, seed=seed, parts=parts, progress=progress, **options)
            mine = check_own(trace, own or {}, seed, progress=progress, stored_rows=stored_rows)
            results.tallies |= mine
        write_atomically(folder / "claims.json", results.to_json())
        verdict_screen(console, results)
        show_own(console, mine)
        report = _draw_and_report(console, trace, results, folder, seed, processes, figures)
    say(console, f"Report: {report.resolve().as_uri()}")
    failed = [name for name, tally in results.tallies.items() if tally.outcome == "violated"]
    if as_json:
        outcomes = {name: tally.outcome for name, tally in results.tallies.items()}
        never = {name: tally.never for name, tally in results.tallies.items() if tally.never}
        said: dict[str, Any] = {"report": str(report), "violated": failed, "outcomes": outcomes, "out_of_scope": never}
        certified = certificate()
        count = len(certified.tallies.keys() - results.tallies.keys())
        said["certificate"] = {"claims": count, "commit": certified.commit, "date": certified.date}
        print_json(said | json.loads(results.to_json()))
    if failed:
        if console.quiet:
            click.echo(f"Violated: {', '.join(failed)}", err=True)
        raise Verdict


def _draw_and_report(
    console: Console, trace: Trace, results: Results, folder: Path, seed: int, processes: Processes, with_figures: bool
) -> Path:
    """Draw the figures and write the report into a temporary folder, move both, and return the report's path."""
    from validation.cli.figures import draw_figures
    from validation.plots import FIGURES
    from validation.report.html import write_report
    from validation.trace.reader import LOGITS

    part, command, place = folder / ".part", typed_command(), shlex.quote(str(trace.path))
    shutil.rmtree(part, ignore_errors=True)  # left by a killed run
    (part / "figures").mkdir(parents=True)
    figures = list(FIGURES.values()) if with_figures and trace.kind == LOGITS else []  # they need whole rows
    with progress_bar(console) as progress:

        def report(done: int, text: str) -> None:
            progress(done, len(figures), text)

        draw_figures(figures, trace, part / "figures", command=command, seed=seed, processes=processes, report=report)
        if figures:
            report(len(figures), "drawing the figures")
        drawn = [part / "figures" / f"{one.stem}.json" for one in figures]
        plan = _plan(console, trace, folder / "plan", part / "figures" / "plan.svg") if figures else {}
        written = write_report(
            part, results=results, manifest=trace.manifest, figures=drawn, command=command, trace=place, plan=plan
        )
        (folder / "figures").mkdir(exist_ok=True)
        for file in [*(part / "figures").iterdir(), written]:  # the report is last
            file.replace(folder / file.relative_to(part))
        shutil.rmtree(part)
        (folder / UNFINISHED).unlink(missing_ok=True)
    return folder / written.name


def _plan(console: Console, trace: Trace, cache: Path, picture: Path) -> dict[str, Any]:
    """Return the first lines of ``hlm plan`` with its defaults, its picture, and the speed of each draft length."""
    from validation.cli.plan_views import draw
    from validation.planning.aims import has_device
    from validation.planning.answer import setting_said
    from validation.planning.plan_for import plan_for
    from validation.planning.planners import planner_of_trace
    from validation.planning.request import NUMBERS, Request
    from validation.report.first_screen import deciding_options, draft_lengths, told_apart

    asked = Request()
    try:
        with progress_bar(console) as report:
            planner, about = planner_of_trace(trace.path, asked.setting(), cache=cache, report=report)
        plan = plan_for(asked, planner, about)
    except UserError as error:
        return {"answer": [f"There is no plan: {error}"], "options": ""}
    draw(plan.result, setting_said(plan.request, plan.planner.setting.link.name, set(NUMBERS), set()), picture)
    return {
        "answer": plan.result.answer,
        "options": deciding_options(plan.planner.setting, device=has_device(plan.result.asked.best)),
        "assumed": [*plan.result.assumed, *plan.result.notes],
        "most_users": " ".join(plan.result.most_users),
        "picture": picture,
        "lengths": draft_lengths(plan.planner),
        "told_apart": told_apart(plan.planner),
        "sources": _best_by_source(plan.planner, about["split"], trace.manifest.get("prompts", [])),
    }


def _best_by_source(
    planner: Planner, split: dict[str, list[str]], prompts: list[dict[str, str]]
) -> list[tuple[str, int, int, int, int, float, float]]:
    """Return the held-out texts, and the five sources with the most: prompts, texts, tokens, and the fastest length."""
    from validation.decoding.methods.rows import COLOCATED

    ids, texts = sorted({one for part in split.values() for one in part}), defaultdict(list)
    source_of = {one["id"]: one.get("source") or "unnamed" for one in prompts if "id" in one}
    for text, prompt in enumerate(planner.split.prompt.tolist()):
        texts[source_of.get(ids[prompt], "unnamed")].append(text)
    most = sorted(texts.items(), key=lambda one: -len(one[1]))[:5]
    held = "held-out prompt" if planner.split.enough else "prompt"
    tokens, rows = planner.candidates(COLOCATED, planner.setting)[0].counts[:, 0], []
    for name, own in ((held, planner.split.test.tolist()), *most):
        counts = len({*planner.split.prompt[own].tolist()}), len(own), round(tokens[own].sum())
        rows.append((name, *counts, *max(planner.lengths(np.array(own)), key=lambda row: row[2])))
    return rows


def print_json(values: dict[str, Any]) -> None:
    """Print one JSON object, a line for each key; in ASCII if a character of it is one that a terminal obeys."""
    lines = [json.dumps({key: value}, ensure_ascii=False)[1:-1] for key, value in values.items()]
    if any(printable(line) != line for line in lines):
        lines = [json.dumps({key: value})[1:-1] for key, value in values.items()]
    click.echo("{" + ",\n ".join(lines) + "}")


def typed_command() -> str:
    """Return the command as typed; bytes that are not text become escapes."""
    return as_typed(shlex.join(["python3", "hlm", *sys.argv[1:]])).encode(errors="backslashreplace").decode()
