"""Store the decoded texts of c-sqs, and read them: the sums over the rounds of each text."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import lru_cache
from typing import Any

import numpy as np

from validation.decoding.records import GenerationRecord, Round
from validation.plots.c_sqs.runs import Cell, CSqsStudy, Scale, Times
from validation.plots.common.stored import stored

EXPERIMENT = "c_sqs"
PATH = ("accepted", "resampled", "dropped")
"""Fields that the longer texts hold for each round, beside the threshold."""
SUMS = (*PATH, "drafted", "bits", "bytes", "rounding", "draft_s", "mismatch")


@lru_cache(maxsize=1)
def study(seed: int) -> CSqsStudy:
    """Return the stored texts; the seed is that of the experiment."""
    found, record = stored(EXPERIMENT)
    return read(found, record)


def plain(found: CSqsStudy) -> dict[str, Any]:
    """Return a study as plain values for JSON."""
    cells = [{"method": name, "temperature": t, **_plain_cell(one)} for (name, t), one in found.cells.items()]
    long = [{"method": name, **_plain_cell(one, path=True)} for name, one in found.long.items()]
    about = {"pair": found.pair, "vocabulary": found.vocabulary}
    return {**about, "scale": asdict(found.scale), "times": asdict(found.times), "cells": cells, "long": long}


def read(value: dict[str, Any], record: dict[str, Any] | None = None) -> CSqsStudy:
    """Return the study that :func:`plain` made plain."""
    scale = value["scale"] | {"temperatures": tuple(value["scale"]["temperatures"])}
    cells = {(one["method"], one["temperature"]): _cell(one, one["temperature"]) for one in value["cells"]}
    long = {one["method"]: _cell(one, scale["temperatures"][-1]) for one in value["long"]}
    return CSqsStudy(
        value["pair"], value["vocabulary"], Scale(**scale), Times(**value["times"]), cells, long, record or {}
    )


def text(found: CSqsStudy) -> str:
    """Return a study as JSON with one method and temperature a line."""
    value = plain(found)
    lists = {key: value.pop(key) for key in ("cells", "long")}
    head = json.dumps(value, ensure_ascii=False)[1:-1]
    parts = [f'"{key}": [\n' + ",\n".join(json.dumps(one) for one in lists[key]) + "\n]" for key in lists]
    return "{" + ",\n".join([head, *parts]) + "}\n"


def _plain_cell(cell: Cell, *, path: bool = False) -> dict[str, Any]:
    return {
        "by_bytes": cell.by_bytes,
        "rounding": [float(value) for value in cell.rounding],
        "texts": [_plain_text(row, path=path) for row in cell.rows],
    }


def _plain_text(row: GenerationRecord, *, path: bool) -> dict[str, Any]:
    about = {"prompt": row.prompt, "tokens": len(row.tokens)}
    if path:
        rounds = [[*(getattr(one, name) for name in PATH), one.threshold] for one in row.rounds]
        return about | {"rounds": rounds, "sums": [row.total(name) for name in SUMS[len(PATH) :]]}
    last = row.rounds[-1].threshold if row.rounds else None
    return about | {"rounds": len(row.rounds), "threshold": last, "sums": [row.total(name) for name in SUMS]}


def _cell(one: dict[str, Any], temperature: float) -> Cell:
    rows = [_text(value, one["method"], temperature) for value in one["texts"]]
    return Cell(rows, np.asarray(one["rounding"], dtype=np.float64), one["by_bytes"])


def _text(value: dict[str, Any], method: str, temperature: float) -> GenerationRecord:
    path = isinstance(value["rounds"], list)
    names = SUMS[len(PATH) :] if path else SUMS
    if path:
        rounds = [
            Round(**dict(zip(PATH, numbers[:-1], strict=True)), threshold=numbers[-1]) for numbers in value["rounds"]
        ]
    else:
        rounds = [Round(threshold=value["threshold"]) for _ in range(value["rounds"])]
    return GenerationRecord(
        method,
        value["prompt"],
        "none",
        0,
        temperature,
        1.0,
        tokens=[0] * value["tokens"],
        rounds=rounds,
        last=Round(**dict(zip(names, value["sums"], strict=True))),
    )
