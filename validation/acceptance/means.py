"""Read mean acceptance lengths without counts, and lists of rates that do not say what they are.

Golden files of InferenceX are YAML or JSON, ``model: {mode: {K: length}}``. AIPerf's ``speed-bench-report`` writes a
CSV matrix of models and categories. SGLang's log prints a mean of its last steps. None has counts, so none has an
interval.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from validation.acceptance.counts import GREATEST_LENGTH
from validation.acceptance.json_files import read_text
from validation.errors import UserError

LARGEST = 2**24
"""Largest number of characters of a file of means."""
LONGEST_LIST = 2**16
"""Largest number of characters of a bare list of rates."""
_NUMBER = re.compile(r"(?:\d+(?:\.\d+)?|\.\d+)%?")
SGLANG_LOG = re.compile(
    r"Decode batch.*?#running-req: (\d+),.*?accept len: ([\d.]+)(?:, accept rate: ([\d.]+))?.*?gen throughput"
)


@dataclass(frozen=True, slots=True, kw_only=True)
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
    remarks: tuple[str, ...] = ()


def read_means(path: str | Path) -> Means | None:
    """Return the means of a file; None if the file is of another form."""
    path = Path(path)
    if not path.is_file() or path.name.endswith((".jsonl", ".gz")) or path.stat().st_size > LARGEST:
        return None
    where, text = str(path), read_text(path)
    if SGLANG_LOG.search(text):
        return _sglang(where, text)
    numbers = re.split(r"[\s,;]+", text[:LONGEST_LIST].strip(" \n\r\t[]()"))
    if len(numbers) > 1 and len(text) < LONGEST_LIST and all(map(_NUMBER.fullmatch, numbers)):
        return _rates(where, numbers)
    if path.suffix == ".csv" or re.match(r"Model,", text, re.IGNORECASE):
        return _matrix(where, text)
    content = _content(path, text)
    if not isinstance(content, Mapping):
        return None
    named = next((key for key in ("conditional_accept_rates", "marginal_accept_rates") if key in content), None)
    if named is not None:
        found = _rates(where, [str(rate) for rate in content[named]])
        return replace(found, remarks=(f"The file calls them {named}.", *found.remarks))
    points = tuple(_leaves(where, content, ()))
    if not points or any(point.draft_length is None for point in points):
        return None
    return _checked(where, points)


def _content(path: Path, text: str) -> Any:
    try:
        if path.suffix in (".yaml", ".yml"):
            import yaml

            try:
                return yaml.safe_load(text)
            except yaml.YAMLError as error:
                raise UserError(f"{path} is not YAML ({str(error).splitlines()[0]}); copy it again.") from error
        return json.loads(text) if text.lstrip().startswith("{") else None
    except (ValueError, RecursionError):
        return None


def _leaves(where: str, content: Mapping[Any, Any], names: tuple[str, ...]) -> Iterator[Mean]:
    """Yield a mean for each number of a nested table; a key that is no whole number gives no draft length."""
    for key, value in content.items():
        if isinstance(value, Mapping):
            yield from _leaves(where, value, (*names, str(key)))
        elif isinstance(value, int | float) and not isinstance(value, bool) and names:
            text = str(key)
            length = int(text) if text.isdecimal() and 0 < int(text[:5]) <= GREATEST_LENGTH else None
            yield Mean(name=" ".join(names), draft_length=length, length=float(value))
        else:
            yield Mean(name=" ".join(names), draft_length=None, length=0.0)


def _checked(where: str, points: tuple[Mean, ...], *remarks: str) -> Means:
    """Return means whose lengths are possible, with the nearest curves that do not fall."""
    digits = max(len(f"{point.length:.6f}".rstrip("0").partition(".")[2]) for point in points)
    half = 0.5 * 10.0**-digits
    for point in points:
        if not point.length >= 1.0 - half:
            raise UserError(
                f"{where}: {point.name} has {point.length:g} tokens a step, but a step emits one at least. Lengths "
                "without the target's own token (AL - 1, as TensorRT-LLM takes them) need 1 more; rates are no lengths."
            )
        if point.draft_length is not None and point.length > point.draft_length + 1 + half:
            raise UserError(
                f"{where}: {point.name} has {point.length:g} tokens a step of {point.draft_length} drafts, which emits "
                f"{point.draft_length + 1} at most; check the number of drafts."
            )
    said, nearest = list(remarks), list[Mean]()
    for name in dict.fromkeys(point.name for point in points):
        curve = sorted((point for point in points if point.name == name), key=lambda point: point.draft_length or 0)
        falls = [
            f"K = {after.draft_length} ({before.length:g} to {after.length:g})"
            for before, after in pairwise(curve)
            if None not in (before.draft_length, after.draft_length) and after.length < before.length - 2 * half
        ]
        if falls:
            from scipy.optimize import isotonic_regression

            fitted = isotonic_regression([point.length for point in curve]).x
            curve = [replace(point, nearest=float(x)) for point, x in zip(curve, fitted, strict=True)]
            said.append(
                f"{name} falls at {', '.join(falls)}, by more than rounding: a longer draft cannot emit fewer tokens "
                "from the same places, so the runs of each K differ. The nearest curve that does not fall is beside it."
            )
        nearest += curve
    return Means(source=where, points=tuple(nearest), remarks=tuple(said))


def _matrix(where: str, text: str) -> Means | None:
    rows = [row for row in csv.reader(text.splitlines()) if row]
    if len(rows) < 2 or rows[0][0].strip().lower() != "model":
        return None
    points = []
    for row in rows[1:]:
        for category, cell in zip(rows[0][1:], row[1:], strict=False):
            try:
                length = float(cell)
            except ValueError:
                continue  # AIPerf leaves a cell without requests empty, or writes N/A
            points.append(Mean(name=f"{row[0]} {category}", draft_length=None, length=length))
    return _checked(where, tuple(points)) if points else None


def _sglang(where: str, text: str) -> Means:
    found = [(int(n), float(length), float(rate or "nan")) for n, length, rate in SGLANG_LOG.findall(text)]
    weights, lengths, rates = np.array([row for row in found if row[0]] or [(1, 1.0, np.nan)], dtype=np.float64).T
    drafted = lengths > 1.0
    # accepted drafts over drafts; older versions divide the accept length by K + 1
    guesses = [(lengths - 1.0)[drafted] / rates[drafted], lengths[drafted] / rates[drafted] - 1.0]
    whole = [float(np.nanmedian(guess)) if np.isfinite(guess).any() else np.nan for guess in guesses]
    near = [abs(guess - round(guess)) if np.isfinite(guess) else np.inf for guess in whole]
    best = int(np.argmin(near))
    known = round(whole[best]) if near[best] < 0.06 * max(whole[best], 1.0) else None
    mean = round(float(weights @ lengths / weights.sum()), 2)
    low, high = float(lengths.min()), float(lengths.max())
    said = (
        f"SGLang's log: {len(lengths):,} lines, each a mean over its last steps ({low:g} to {high:g}), weighed by "
        "running requests. It prints no number of steps; the answers' meta_info has the counts."
    )
    return _checked(where, (Mean(name="SGLang", draft_length=known or None, length=mean),), said)


def _rates(where: str, texts: list[str]) -> Means:
    values = [float(text.rstrip("%")) / (100.0 if text.endswith("%") else 1.0) for text in texts]
    if any(value > 1.0 for value in values):
        values = [value / 100.0 for value in values]
    if not values or not all(0.0 <= value <= 1.0 for value in values):
        raise UserError(f"{where} has a rate outside of 0 to 1; give rates by position, or in per cent.")
    return Means(source=where, rates=tuple(values))
