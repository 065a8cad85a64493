"""Show a sweep, means without counts, the settings that ``hlm acceptance`` writes, and why two engines differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from validation.cli.run import print_json
from validation.cli.tables import print_table, say
from validation.errors import UserError
from validation.estimates import Estimate
from validation.planning.quantities import read_speed, read_time

if TYPE_CHECKING:
    from rich.console import Console

    from validation.acceptance.means import Means
    from validation.acceptance.reconcile import Reconciliation, Side
    from validation.acceptance.record import AcceptanceRecord
    from validation.acceptance.summary import RoundTimes, Summary
    from validation.trace.remote import Place


def show_sweep(
    console: Console, files: Sequence[str], times: RoundTimes | None, marks: dict[str, Any], options: dict[str, Any]
) -> None:
    from validation.acceptance.engines import read_acceptance
    from validation.acceptance.means import read_means
    from validation.acceptance.record import marked
    from validation.acceptance.sanity import sanity
    from validation.acceptance.summary import summarise
    from validation.acceptance.sweep import Point, point_of, rank

    steps_s = _numbers("--step-time", options["step_time"], len(files), read_time)
    speeds, draft_length = _numbers("--speed", options["speed"], len(files), read_speed), options["draft_length"]
    runs, sane = list[Point](), list[str]()
    for number, (label, path) in enumerate(_labelled(files)):
        token_s = None if speeds is None else 1.0 / speeds[number]
        step_s = None if steps_s is None else steps_s[number]
        if not path:
            runs.append(Point(label=label, seconds=token_s or step_s or (times.alone() if times else None)))
            continue
        if (means := read_means(path)) is not None:
            if not means.lines:
                raise UserError(f"{path} has means without counts; give it without --sweep.")
            k, (lengths, seconds) = means.points[0].draft_length, np.array(means.lines).T
            if step_s is None and times is not None and k:
                step_s = times.rounds(1, np.array([k]))[0]
            seconds = step_s / lengths if step_s else seconds * (token_s / seconds.mean() if token_s else 1.0)
            for n, s in zip(lengths, seconds, strict=True):
                runs.append(Point(label=label, tokens=n, drafts=k, rate=k and (n - 1) / k, seconds=s))
            sane.append(f"{label}: {means.remarks[0]} Its lines, all of one run, are taken for repeats.")
            continue
        read = read_acceptance(path)
        records = [marked(one, **marks) for one in read.records]
        summary = summarise(records, assumed_length=draft_length, confidence=options["confidence"])
        sane += [f"{label}: {said}" for said in (*read.notes, *sanity(records, summary, brief=True))]
        known: dict[str, Any] = {"step_s": step_s, "token_s": token_s, "times": times}
        runs.append(point_of(label, records, assumed_length=draft_length, **known))
    if times is not None and steps_s is None and speeds is None and all(run.steps for run in runs):
        runs.append(Point(label="no drafts", seconds=times.alone()))
    points, best, findings = rank(runs, options["confidence"])
    say(console, *(f"Sanity: {said}" for said in sane))
    rows = []
    for point in points:
        time = point.seconds and 1e3 * point.seconds
        numbers = (point.drafts, point.rate, point.tokens, time, time and time * point.noise, point.fastest)
        rows.append([point.label, point.runs, point.steps, *("-" if x is None else f"{x:.2f}" for x in numbers)])
    heads = ("label", "runs", "steps", "drafts/step", "accepted", "tokens/step", "ms/token", "±", "P(fastest)")
    print_table(console, "Sweep, the fastest first", heads, rows, left=("label",), ranks=("runs", "steps", "accepted"))
    say(console, *findings)
    if options["as_json"]:
        print_json({"sweep": [asdict(x) for x in points], "best": best, "findings": findings, "sanity": sane})


def _labelled(files: Sequence[str]) -> list[tuple[str, str]]:
    pairs = [word.partition("=")[::2] if "=" in word and not Path(word).exists() else ("", word) for word in files]
    names = [Path(path).name.partition(".")[0] for _, path in pairs]
    short = [name if names.count(name) == 1 else path for name, (_, path) in zip(names, pairs, strict=True)]
    return [(label or name, path) for name, (label, path) in zip(short, pairs, strict=True)]


def _numbers(option: str, text: str | None, count: int, read: Callable[[str, str], float]) -> list[float] | None:
    values = [] if text is None else [read(option, one) for one in text.split(",")]
    if text is not None and (len(values) != count or not all(values)):
        raise UserError(f"{option} is {text!r}; give one above 0 for each of the {count} files, with commas between.")
    return values or None


def show_means(console: Console, means: Sequence[Means], times: RoundTimes | None, options: dict[str, Any]) -> None:
    from validation.acceptance.sanity import readings
    from validation.acceptance.settings import synthetic

    plain, draft_length, engine = list[dict[str, Any]](), options["draft_length"], options["synthetic"]
    for source in means:
        say(console, f"{source.source} has no counts, so no interval is given.", *source.remarks)
        say(console, *(readings(source.rates) if source.rates else ()))
        rows, written = [], {}
        for point in source.points:
            length = point.draft_length or draft_length
            speed = point.length / times.rounds(1, np.array([length]))[0] if times and length else None
            numbers = (length, point.length, point.nearest, speed)
            rows.append([point.name, *("-" if x is None else f"{x:.4g}" for x in numbers)])
            if engine is not None and length is not None and draft_length in (None, length):
                written[f"{point.name}, K = {length}"] = synthetic(engine, point.length - 1.0, length, None)
        heads = ("of", "K", "tokens", "nearest curve", "tokens/s")
        print_table(console, "Mean tokens of a step", heads, rows, left=("of",))
        if rows:
            said = "vLLM's, SGLang's and llama.cpp's simulators take these lengths (AL), TensorRT-LLM's takes AL - 1"
            say(console, f"{said}: --synthetic ENGINE.")
        if engine is not None and source.rates:
            raise UserError(f"{source.source} has rates that do not say what they are; give counts for a setting.")
        if engine is not None and not written:
            raise UserError(f"{source.source} has no mean at this draft length; give another --draft-length, or none.")
        for name, forms in written.items():
            show_synthetic(console, name, forms)
        plain.append(asdict(source) | ({"synthetic": written} if written else {}))
    if options["as_json"]:
        print_json({"means": plain})


def synthetic_of(
    records: Sequence[AcceptanceRecord], summary: Summary, engine: str, assumed_length: int | None
) -> list[dict[str, Any]]:
    """Return the settings of an engine's simulator for the measured acceptance, with what each keeps."""
    from validation.acceptance.settings import measured_law, synthetic

    deepest = [max(assumed_length or record.longest or 0, *(record.histogram or [0])) for record in records]
    length = max(*deepest, *(summary.counts or [0]), 0)
    if not length:
        raise UserError("The files do not say how many tokens a step drafted; give --draft-length.")
    return synthetic(engine, summary.mean_acceptance_length - 1.0, length, measured_law(records, length))


def show_synthetic(console: Console, name: str, forms: Sequence[dict[str, Any]]) -> None:
    from validation.acceptance.settings import ANSWERS, TOKENS

    say(console, f"Synthetic acceptance, {name}:", style="bold")
    for form in forms:
        own = form.get("measured_variance")
        measured = "" if own is None else f" (measured: {own:.2f}, {form['measured_slowest']:.1f} steps)"
        say(
            console,
            f"  {form['setting']}",
            f"    {form['loss']}. Variance of a step {form['variance']:.2f}; the slowest of {ANSWERS} answers of "
            f"{TOKENS} tokens takes {form['slowest']:.1f} steps{measured}.",
        )


VERDICTS = {True: "agree", False: "differ", None: "not decided"}


def show_reconciliation(console: Console, found: Reconciliation, laws: Mapping[str, Estimate]) -> None:
    """Print both sides by each convention, what follows, and what each law would accept on the trace."""
    from validation.acceptance.reconcile import CONVENTIONS

    rows = []
    for row in found.rows:
        apart = "-" if row.apart is None else f"{100 * row.apart:+.1f}%"
        cells = ["-" if one is None else str(one) for one in (row.first, row.second)]
        cells = [cell + (" *" if row.key == key else "") for cell, key in zip(cells, found.printed, strict=True)]
        rows.append([CONVENTIONS[row.key], *cells, apart, VERDICTS[row.agree]])
    engines = (f"{letter}: {engine}" for letter, engine in zip("AB", found.engines, strict=True))
    heads = ["convention", *engines, "B over A", "verdict"]
    print_table(console, "One pair, two engines, by each convention", heads, rows, left=("convention", "verdict"))
    say(console, "* as the engine prints its acceptance length.", *found.findings, *_law_sentences(found, laws))


def plain_reconciliation(found: Reconciliation, laws: Mapping[str, Estimate]) -> dict[str, Any]:
    return found.as_json() | ({"laws": {name: one.plain() for name, one in laws.items()}} if laws else {})


def _law_sentences(found: Reconciliation, laws: Mapping[str, Estimate]) -> list[str]:
    if not laws:
        return []
    from validation.acceptance.reconcile import overlap
    from validation.planning.laws import LAWS

    row = next(row for row in found.rows if row.key == "common")
    said = ["On the trace's texts, at the shorter K, tokens a step would be:"]
    for name, number in laws.items():
        fits = [letter for letter, side in zip("AB", (row.first, row.second), strict=True) if overlap(side, number)]
        fitting = f"fits {' and '.join(fits)}" if fits else "fits neither"
        said.append(f"  {LAWS[name]}: {number}; {fitting}.")
    return said


def laws_beside(side: Side, laws: Place, confidence: float) -> dict[str, Any]:
    """Return the share of drafts that an engine accepted and that each law would accept on a trace, and sentences."""
    from validation.acceptance.reconcile import overlap, replay
    from validation.planning.laws import LAWS, lengths_by_law
    from validation.trace.reader import open_trace

    summary, length = side.summary, side.longest
    if summary.copied or length is None:
        why = "copied drafts have no law" if summary.copied else "the K of a step is not recorded; give --draft-length"
        raise UserError(f"--laws compares the drafts of a model, K in a step: {why}.")
    own = (replay(side, length, confidence) or Estimate(summary.mean_acceptance_length)) + -1.0
    own *= 1.0 / length
    shares = {
        name: (one + -1.0) * (1.0 / length)
        for name, one in lengths_by_law(open_trace(laws), length, confidence).items()
    }
    law = {"standard": "rejection", "match": "match"}.get(summary.verification or "")
    if summary.draft_sampling != "sampled":
        law = "greedy" if summary.draft_sampling == "greedy" and summary.lossless is not False else None
    said = [f"Your verifier accepts {own} of its drafts, {length} in a step. On the trace's texts the pair gives:"]
    for name, share in shares.items():
        if law in (None, name):
            agree = overlap(own, share)
            verdict = "not decided, because a side has no interval" if agree is None else VERDICTS[agree]
            said.append(f"  {LAWS[name]}: {share}; {verdict}.")
            if law and agree is False:
                said.append(
                    "The drafts are not accepted as this law says: the prompts, the temperature, the top-k or top-p "
                    "or the weights are not those of the trace, or the verifier has a defect."
                )
    return {"own": own.plain(), "laws": {name: one.plain() for name, one in shares.items()}, "findings": said}
