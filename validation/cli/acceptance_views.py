"""Show a sweep, means without counts, and the settings that ``hlm acceptance`` writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from validation.cli.run import print_json
from validation.cli.tables import print_table, say
from validation.errors import UserError
from validation.planning.quantities import read_speed, read_time

if TYPE_CHECKING:
    from rich.console import Console

    from validation.acceptance.means import Means
    from validation.acceptance.record import AcceptanceRecord
    from validation.acceptance.summary import RoundTimes, Summary


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
