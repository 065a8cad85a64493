"""Show a sweep, means without counts, and the settings that ``hlm acceptance`` writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from validation.cli.run import print_json
from validation.cli.tables import print_table, say
from validation.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from validation.acceptance.means import Means
    from validation.acceptance.record import AcceptanceRecord
    from validation.acceptance.settings import Form
    from validation.acceptance.summary import RoundTimes, Summary
    from validation.acceptance.sweep import Sweep


def sweep_of(
    files: Sequence[str],
    step_ms: str | None,
    tokens_per_s: str | None,
    draft_length: int | None,
    times: RoundTimes | None,
    marks: tuple[str | None, ...],
    confidence: float,
) -> tuple[Sweep, list[str]]:
    """Return the ranked runs of files that may have a label, and what must be known of each file."""
    from validation.acceptance.engines import read_acceptance
    from validation.acceptance.record import marked
    from validation.acceptance.sanity import sanity
    from validation.acceptance.summary import summarise
    from validation.acceptance.sweep import Run, rank, run_of

    steps, speeds = _numbers("--step-ms", step_ms, len(files)), _numbers("--tokens-per-s", tokens_per_s, len(files))
    runs, sane = list[Run](), list[str]()
    for number, (label, path) in enumerate(_labelled(files)):
        token_s = None if speeds is None else 1.0 / speeds[number]
        step_s = None if steps is None else steps[number] / 1e3
        if not path:
            runs.append(Run(label=label, seconds=token_s or step_s or (times.alone() if times else None)))
            continue
        read = read_acceptance(path)
        records = [marked(one, drafts=marks[0], verification=marks[1]) for one in read.records]
        summary = summarise(records, assumed_length=draft_length, confidence=confidence)
        sane += [f"{label}: {said}" for said in (*read.notes, *sanity(records, summary, brief=True))]
        known: dict[str, Any] = {"step_s": step_s, "token_s": token_s, "times": times}
        runs.append(run_of(label, records, assumed_length=draft_length, **known))
    if times is not None and steps is None and speeds is None and all(run.steps for run in runs):
        runs.append(Run(label="no drafts", seconds=times.alone()))
    return rank(runs, confidence), sane


def _labelled(files: Sequence[str]) -> list[tuple[str, str]]:
    """Return the label and the path of each file; without a label it is the file's name, or its path if need be."""
    pairs = [word.partition("=")[::2] if "=" in word and not Path(word).exists() else ("", word) for word in files]
    names = [Path(path).name.partition(".")[0] for label, path in pairs if not label]
    whole = len(set(names)) < len(names)
    return [(label or (path if whole else Path(path).name.partition(".")[0]) or path, path) for label, path in pairs]


def _numbers(name: str, text: str | None, count: int) -> list[float] | None:
    if text is None:
        return None
    try:
        values = [float(number) for number in text.split(",")]
    except ValueError:
        values = []
    if len(values) != count or not all(0.0 < value < float("inf") for value in values):
        raise UserError(f"{name} is {text!r}; give a number above 0 for each of the {count} files, with commas.")
    return values


def show_sweep(console: Console, sweep: Sweep, sane: Sequence[str], as_json: bool) -> None:
    """Print the labels by the time of a token, the verdict, and what is not compared."""
    say(console, *(f"Sanity: {said}" for said in sane))
    rows = []
    for point in sweep.points:
        noise = "" if not point.noise or point.seconds is None else f" ± {1e3 * point.noise:.1f}"
        time = "-" if point.seconds is None else f"{1e3 * point.seconds:.2f}{noise}"
        cells = [point.label, point.runs, f"{point.steps:,}" if point.steps else "-"]
        cells += ["-" if value is None else f"{value:.2f}" for value in (point.drafts, point.rate)]
        rows.append([*cells, f"{point.tokens:.3f}", time, "-" if point.first is None else f"{point.first:.3f}"])
    heads = ("label", "runs", "steps", "drafts/step", "accepted", "tokens/step", "ms/token", "P(fastest)")
    print_table(console, "Sweep, the fastest first", heads, rows, left=("label",), ranks=("runs", "steps", "accepted"))
    say(console, *sweep.findings)
    if as_json:
        print_json({"sweep": sweep.as_json(), "sanity": list(sane)})


def show_means(
    console: Console,
    means: Sequence[Means],
    draft_length: int | None,
    times: RoundTimes | None,
    synthetic: str | None,
    as_json: bool,
) -> None:
    """Print mean lengths without counts, or the readings of a list of rates."""
    import numpy as np

    from validation.acceptance.sanity import readings
    from validation.acceptance.settings import synthetic as settings_of

    plain: list[dict[str, Any]] = []
    for source in means:
        say(console, f"{source.source} has no counts, so no interval is given.", *source.remarks)
        if source.rates:
            say(console, *readings(source.rates))
        rows, written = [], {}
        for point in source.points:
            length = point.draft_length or draft_length
            speed = None
            if times is not None and length is not None:
                speed = point.length / float(times.rounds(1, np.array([length]))[0])
            nearest = "-" if point.nearest is None else f"{point.nearest:.4g}"
            cells = [point.name, length or "-", f"{point.length:.4g}", nearest]
            rows.append([*cells, "-" if speed is None else f"{speed:.2f}"])
            if synthetic is not None and length is not None and draft_length in (None, length):
                label = f"{point.name}, K = {length}"
                written[label] = _plain(settings_of(synthetic, point.length - 1.0, length, None))
        print_table(
            console,
            "Mean tokens of a step",
            ("of", "K", "tokens", "nearest curve", "tokens/s"),
            rows,
            left=("of",),
        )
        if rows:
            say(
                console,
                "vLLM's synthetic_acceptance_length, SGLang's SGLANG_SIMULATE_ACC_LEN and llama.cpp's --spec-synth-len "
                "take these lengths (AL). TensorRT-LLM's TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS takes AL - 1.",
            )
        if synthetic is not None and not written:
            raise UserError(f"{source.source} does not say how many tokens a step drafts; give --draft-length.")
        show_written(console, {f"synthetic, {name}": forms for name, forms in written.items()})
        plain.append(asdict(source) | ({"synthetic": written} if written else {}))
    if as_json:
        print_json({"means": plain})


def flags_of(summary: Summary, engine: str) -> list[str]:
    """Return the engine's flags for the best draft length; refuse without times."""
    from validation.acceptance.settings import flags

    if summary.best is None:
        raise UserError("The best draft length needs the times of a round; give --passes, or --verify-ms, --draft-ms.")
    return flags(engine, summary.best, summary.schedule)


def synthetic_of(
    records: Sequence[AcceptanceRecord], summary: Summary, engine: str, assumed_length: int | None
) -> list[dict[str, Any]]:
    """Return the settings of an engine's simulator for the measured acceptance, with what each keeps."""
    from validation.acceptance.settings import measured_law, synthetic

    known = [assumed_length or record.longest for record in records]
    deepest = [max(record.histogram or [0]) for record in records]
    length = max([k for k in known if k] + deepest + list(summary.counts or []), default=0)
    if not length:
        raise UserError("The files do not say how many tokens a step drafted; give --draft-length.")
    law = measured_law(records, length)
    forms = synthetic(engine, summary.mean_acceptance_length - 1.0, length, law)
    return _plain(forms, law)


def _plain(forms: Sequence[Form], law: Sequence[float] | None = None) -> list[dict[str, Any]]:
    from validation.acceptance.settings import slowest, variance

    own = {} if law is None else {"measured_variance": variance(law), "measured_slowest": slowest(law)}
    return [asdict(form) | {"variance": form.variance, "slowest": slowest(form.law)} | own for form in forms]


def show_written(console: Console, written: Mapping[str, Sequence[Any]]) -> None:
    """Print flags, and settings of simulators with the variance of a step."""
    from validation.acceptance.settings import ANSWERS, TOKENS

    for name, lines in written.items():
        say(console, f"{name[0].upper()}{name[1:]}:", style="bold")
        for line in lines:
            if isinstance(line, str):
                say(console, f"  {line}")
                continue
            own = line.get("measured_variance")
            measured = "" if own is None else f" (measured: {own:.2f}, {line['measured_slowest']:.1f} steps)"
            say(
                console,
                f"  {line['setting']}",
                f"    {line['loss']}. Variance of a step {line['variance']:.2f}; the slowest of {ANSWERS} answers of "
                f"{TOKENS} tokens takes {line['slowest']:.1f} steps{measured}.",
            )
