"""Read mean acceptance lengths without counts, and lists of rates that do not say what they are.

InferenceX's golden files are YAML or JSON, ``model: {mode: {K: length}}``; AIPerf's ``speed-bench-report`` writes a CSV
matrix of models and categories; SGLang's log prints a mean of its last steps, trtllm-bench means over requests. None
has counts, so none an interval.
"""

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from validation.acceptance.counts import GREATEST_LENGTH, read_length
from validation.errors import UserError
from validation.input_files import read_text

LARGEST, LONGEST_LIST = 2**24, 2**16
"""Largest number of characters of a file of means, and of a bare list of rates."""
_NUMBER = re.compile(r"(?:\d+(?:\.\d+)?|\.\d+)%?")
SGLANG_LOG = re.compile(
    r"Decode batch.*?#running-req: (\d+),.*?accept len: ([\d.]+)(?:, accept rate: ([\d.]+))?.*?"
    r"gen throughput \(token/s\): ([\d.]+)"
)
_TRTLLM = {"num_draft_tokens": "DT", "num_accepted_draft_tokens": "ADT", "draft_acceptance_rate": "DAR"}
_TRTLLM |= {"acceptance_length": "AL", "acceptance_rate": "AR"}
TRTLLM_BENCH = re.compile(
    rf"""(?:^\[(DT|ADT|DAR|AL|AR)\] AVERAGE *: |"({"|".join(_TRTLLM)})_percentiles": \{{[^}}]*"average": )([\d.]+)""",
    re.M,
)


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean tokens of a step, the target's own included; ``nearest`` is on the nearest curve that does not fall."""

    name: str
    draft_length: int | None  # None if the file does not say it
    length: float
    nearest: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What a file without counts has: mean lengths, or a bare list of rates by position."""

    source: str
    points: tuple[Mean, ...] = ()
    rates: tuple[float, ...] = ()
    lines: tuple[tuple[float, float], ...] = ()  # of a log: mean tokens of a step, seconds of a token of a request
    remarks: tuple[str, ...] = ()


def read_means(path: str | Path) -> Means | None:
    """Return the means of a file; None if the file is of another form."""
    path = Path(path)
    if not path.is_file() or path.name.endswith((".jsonl", ".gz")) or path.stat().st_size > LARGEST:
        return None
    where, text = str(path), read_text(path)
    if SGLANG_LOG.search(text):
        return _sglang(where, text)
    if averages := TRTLLM_BENCH.findall(text):
        return _trtllm_bench(where, {name or _TRTLLM[key]: float(x) for name, key, x in averages})
    if text.startswith("Model,"):
        return _matrix(where, text)
    numbers = re.split(r"[\s,;]+", text[:LONGEST_LIST].strip(" \n\r\t[]()"))
    if len(numbers) > 1 and len(text) < LONGEST_LIST and all(map(_NUMBER.fullmatch, numbers)):
        return _rates(where, numbers)
    content = _content(path, text)
    lists = {key: x for key, x in content.items() if isinstance(x, list)} if isinstance(content, Mapping) else {}
    alone = [key for key in lists if "accept" in key and len(content) == 1]
    for name in ("conditional_accept_rates", "marginal_accept_rates", *alone):
        if name in lists and all(type(rate) in (int, float) for rate in lists[name]):
            return _rates(where, [str(rate) for rate in lists[name]], f"The file calls them {name}.")
    every = list(_leaves(content, ()))
    leaves = [
        (names, x) for names, x in every if len(names) > 1 and names[-1].isdecimal() and _NUMBER.fullmatch(str(x))
    ]
    if not leaves or (leaves != every and path.suffix not in (".yaml", ".yml")):  # YAML may have other keys beside them
        return None
    keys = [(" ".join(names[:-1]), read_length(where, " ".join(names), names[-1])) for names, _ in leaves]
    return _checked(where, [Mean(name, k, float(x)) for (name, k), (_, x) in zip(keys, leaves, strict=True)])


def _content(path: Path, text: str) -> Any:
    try:
        if path.suffix in (".yaml", ".yml"):
            import yaml

            return yaml.load(text, Loader=yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader)
        return json.loads(text) if text.lstrip().startswith("{") else None
    except (ValueError, RecursionError):
        return None
    except Exception as error:
        raise UserError(f"{path} is not YAML ({str(error).splitlines()[0]}); copy it again.") from error


def _leaves(content: Any, names: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(content, Mapping) and content:
        for key, value in content.items():
            yield from _leaves(value, (*names, str(key)))
    else:
        yield names, content


def _checked(where: str, points: Sequence[Mean], *remarks: str) -> Means:
    """Return means whose lengths are possible, with the nearest curves that do not fall."""
    half = 0.5 * 10.0 ** -max(len(f"{point.length:.6f}".rstrip("0").partition(".")[2]) for point in points)
    for point in points:
        most = (point.draft_length or GREATEST_LENGTH) + 1
        if not 1.0 - half <= point.length <= most + half:
            raise UserError(
                f"{where}: {point.name} has {point.length:g} tokens a step; a step emits 1 to {most}. Lengths without "
                "the target's own token (AL - 1, as TensorRT-LLM takes them) need 1 more; rates are no lengths."
            )
    sentences, curves = list(remarks), list[Mean]()
    for name in dict.fromkeys(point.name for point in points):
        curve = sorted((point for point in points if point.name == name), key=lambda point: point.draft_length or 0)
        falls = [
            f"K = {after.draft_length} ({before.length:g} to {after.length:g})"
            for before, after in pairwise(curve)
            if after.draft_length and after.length < before.length - 2 * half
        ]
        if falls:
            from scipy.optimize import isotonic_regression

            fitted = isotonic_regression([point.length for point in curve]).x
            curve = [replace(point, nearest=float(x)) for point, x in zip(curve, fitted, strict=True)]
            sentences.append(
                f"{name} falls at {', '.join(falls)}, by more than rounding. A longer draft cannot emit fewer tokens "
                "from the same places, so the runs differ; beside it is the nearest curve that does not fall."
            )
        curves += curve
    return Means(source=where, points=tuple(curves), remarks=tuple(sentences))


def _matrix(where: str, text: str) -> Means | None:
    head, *rows = list(csv.reader(text.splitlines()))
    points, remarks = list[Mean](), list[str]()
    for row in filter(None, rows):
        cells = dict(zip(head[1:], map(str.strip, row[1:]), strict=False))
        numbers = {name: float(cell) for name, cell in cells.items() if _NUMBER.fullmatch(cell) and "%" not in cell}
        points += [Mean(f"{row[0]} {name}", None, number) for name, number in numbers.items()]
        kinds = sorted((number, name) for name, number in numbers.items() if name != "Overall")
        if len(kinds) > 1:
            ends = " to ".join(f"{number:g} ({name})" for number, name in (kinds[0], kinds[-1]))
            remarks.append(
                f"{row[0]}: {ends} tokens a step. Overall is the plain mean of categories, which is not that of steps. "
                "Whether they are a mixture needs counts: give profile_export.jsonl."
            )
    return _checked(where, points, *remarks) if points else None


def _sglang(where: str, text: str) -> Means:
    rows = [[float(word or "nan") for word in words] for words in SGLANG_LOG.findall(text) if int(words[0])]
    weights, lengths, rates, speeds = np.array(rows or [[1.0, 1.0, np.nan, np.nan]]).T
    # the rate is of accepted drafts over drafts; older versions divide the accept length by K + 1
    with np.errstate(divide="ignore", invalid="ignore"):
        guesses = [float(np.median(guess)) for guess in ((lengths - 1.0) / rates, lengths / rates - 1.0)]
    whole = [guess for guess in guesses if np.isfinite(guess) and abs(guess - round(guess)) < 0.06 * max(guess, 1.0)]
    length = int(np.rint(min(whole, key=lambda guess: abs(guess - round(guess))))) if whole else None
    sentence = (
        f"SGLang's log: {len(lengths):,} lines, each a mean over its last steps ({lengths.min():g} to "
        f"{lengths.max():g}), weighed by running requests. It prints no number of steps; the answers' meta_info has it."
    )
    mean = round(float(weights @ lengths / weights.sum()), 2)
    seconds = np.divide(weights, speeds, out=np.full(len(weights), np.inf), where=speeds > 0.0)
    timed = seconds < 3.0 * np.median(seconds)  # a line after a pause counts the pause
    lines = tuple(zip(lengths[timed].tolist(), seconds[timed].tolist(), strict=True))
    return replace(_checked(where, [Mean("SGLang", length or None, mean)], sentence), lines=lines)


def _trtllm_bench(where: str, averages: Mapping[str, float]) -> Means:
    """Return the means of trtllm-bench; older versions call the tokens of a pass an acceptance rate."""
    length, rate, drafted = (averages.get(name, 0.0) for name in ("AL", "DAR", "DT"))
    longest = round((length - 1.0) / rate) if rate else 0
    points = [Mean("over requests", longest or None, length or averages.get("AR", 0.0))]
    if longest and drafted:  # it counts K drafts in every pass
        points.append(Mean("over steps", longest, round(1.0 + longest * averages.get("ADT", 0.0) / drafted, 2)))
    old = () if length else ("Its acceptance rate is a length: tokens of a step.",)
    sentence = "trtllm-bench counts the pass over the prompt, which drafts nothing, as a step."
    return _checked(where, points, sentence, *old)


def _rates(where: str, texts: Sequence[str], *remarks: str) -> Means:
    values = [float(text.rstrip("%")) for text in texts]
    if any("%" in text or value > 1.0 for text, value in zip(texts, values, strict=True)):
        values = [value / 100.0 for value in values]
    if not values or not all(0.0 <= value <= 1.0 for value in values):
        raise UserError(f"{where} has a rate outside of 0 to 1; give rates by position, or in per cent.")
    return Means(source=where, rates=tuple(values), remarks=remarks)
