"""Measured passes of a target and a draft model, and the times of a round that they give.

A table is a CSV file with a header. Each row is one pass, or the median of several equal ones.

=========== =========================================================================
column      content
=========== =========================================================================
``batch``   sequences in the pass
``width``   new tokens of each sequence: K + 1 in a verification, 1 in decoding
``context`` cached tokens of a sequence before the pass; may be left out
``ms``      time of the pass in milliseconds
``model``   ``target`` or ``draft``; without the column all passes are of the target
=========== =========================================================================
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hlmtheory.serving import PassFit, fit_passes
from validation.errors import UserError, naming

_COLUMNS = ("batch", "width", "ms")
_MODELS = ("target", "draft")
_MOST = 1_000_000
"""Largest batch and width of a pass."""


@dataclass(frozen=True, slots=True)
class Passes:
    """Fitted passes of a table.

    Attributes
    ----------
    target : PassFit
    draft : PassFit, optional
        None if the table has no pass of the draft model.
    context : float
        Median of the cached tokens of a sequence in the target's passes.
    largest_batch : int
        Of the target's passes.
    counts : dict of str to int
        Passes by model.
    """

    target: PassFit
    draft: PassFit | None
    context: float
    largest_batch: int
    counts: dict[str, int]

    def sentences(self) -> list[str]:
        """Return what was fitted, and how well."""
        return [
            f"A pass of the {name} model: {_plane(fit)} ({self.counts[name]} passes; the farthest is {fit.worst:.0%} "
            f"off, one more is within {1e3 * _half(fit, self.context):.3g} ms at batch 1 with {fit.confidence:.0%})."
            for name, fit in (("target", self.target), ("draft", self.draft))
            if fit is not None
        ]


def read_passes(path: str | Path, confidence: float = 0.95) -> Passes:
    """Return the fitted passes of a table.

    Raises
    ------
    UserError
        The file is no such table, or its passes do not determine the times.
    """
    path = Path(path)
    try:
        with naming(path), path.open(encoding="utf-8-sig", newline="") as file:
            table = csv.DictReader(file)
            names, lines = tuple(table.fieldnames or ()), list(table)
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path} is no CSV file in UTF-8: {error}.") from error
    if missing := [name for name in _COLUMNS if name not in names]:
        raise UserError(f"{path} has no column {missing[0]}; a table of passes has batch, width, context and ms.")
    rows = [(_model(path, number, row), _numbers(path, number, row)) for number, row in enumerate(lines, 2)]
    found = {}
    for model in _MODELS:
        passes = np.array([row for name, row in rows if name == model]).reshape(-1, 4)
        if len(passes):
            size, width, context, ms = passes.T
            try:
                found[model] = fit_passes(
                    size.astype(np.int64), width.astype(np.int64), context, ms / 1e3, confidence=confidence
                )
            except ValueError as error:
                raise UserError(f"{path}, passes of the {model} model: {error}.") from error
    if "target" not in found:
        raise UserError(f"{path} has no pass of the target model.")
    target = np.array([row for name, row in rows if name == "target"])
    return Passes(
        target=found["target"],
        draft=found.get("draft"),
        context=float(np.median(target[:, 2])),
        largest_batch=int(target[:, 0].max()),
        counts={model: sum(name == model for name, _ in rows) for model in _MODELS},
    )


def _model(path: Path, number: int, row: dict[str, str]) -> str:
    found = (row.get("model") or "target").strip()
    if found not in _MODELS:
        raise UserError(f"{path}, line {number}: the model is {found!r}; write target or draft.")
    return found


def _numbers(path: Path, number: int, row: dict[str, str]) -> tuple[float, float, float, float]:
    """Return batch, width, context and ms of a row."""
    found = []
    for name in ("batch", "width", "context", "ms"):
        text = row.get(name) or ("0" if name == "context" else "")
        whole = name in ("batch", "width")
        try:
            value = float(int(text)) if whole else float(text)
        except ValueError:
            value = np.nan
        good = 1 <= value <= _MOST if whole else value > 0 if name == "ms" else value >= 0
        if not (good and np.isfinite(value)):
            domain = f"a whole number, 1 to {_MOST:,}" if whole else "a number above 0" if name == "ms" else "0 or more"
            raise UserError(f"{path}, line {number}: {name} is {text!r}; give {domain}.")
        found.append(value)
    return found[0], found[1], found[2], found[3]


def _plane(fit: PassFit) -> str:
    a, b, c = fit.coefficients
    said = f"{1e3 * a:.4g} ms + {1e6 * b:.4g} us a token"
    return said + (f" + {1e6 * c:.4g} us a cached token" if c else "")


def _half(fit: PassFit, context: float) -> float:
    low, high = fit.interval(1, 1, context)
    return float(high - low) / 2.0
