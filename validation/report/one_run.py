"""Check that all published figures and tables of a pair are of one commit, one trace and one fit.

A figure of a stored experiment (:mod:`validation.plots.common.stored`) is of that experiment's record: its file, its
commit, its date. If the experiment used a trace and a fit, these are those of the pair's run.

``tests/validation/report/test_one_run.py`` fails otherwise. Figures without a pair are not of a run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from validation.plots import EXHIBITS, Decoding
from validation.plots.common.stored import SHOWN, records

STEPS = ("collect", "fit", "check", "draw")
"""Steps of every published run."""
STEPS_BESIDE = ("collect", "fit")
"""Steps of every run whose texts are compared with those of a published run; their texts are another step."""
BUILTIN = re.compile(r"\bbuilt-?in\b")


def sidecars_of_pairs(figures: Path) -> Iterator[tuple[str, Path, dict[str, Any]]]:
    """Yield the pair, the file and the content of each sidecar that belongs to a pair.

    All in the folder of a pair belong to it. What is made of an experiment on the built-in pair belongs to that pair.
    """
    for file in (*sorted(figures.glob("*.json")), *sorted(figures.glob("*/*.json"))):
        about = json.loads(file.read_text(encoding="utf-8"))
        if file.name == "claims.json" or not isinstance(about, dict):
            continue
        if file.parent != figures:
            yield file.parent.name, file, about
        elif about.get("pair") or BUILTIN.search(about.get("basis", "")):
            yield "builtin", file, about


def run_of(figures: Path, pair: str) -> dict[str, Any]:
    """Return commit, trace and fit of a pair's published run; None where its record does not say it."""
    run = _recorded(figures, pair)
    return {"commit": run.get("commits", {}).get("draw"), "trace": run.get("trace"), "fit": run.get("fit")}


def other_steps(figures: Path, pair: str) -> list[str]:
    """Return the steps of a pair's published run that another commit made than the one that drew it, or none.

    A step of a pair whose texts are compared with its own is named ``PAIR:STEP``.
    """
    run = _recorded(figures, pair)
    commits = dict.fromkeys(STEPS) | run.get("commits", {})
    for name, other in run.get("beside", {}).items():
        beside = dict.fromkeys(STEPS_BESIDE) | other["commits"]
        commits |= {f"{name}:{step}": commit for step, commit in beside.items()}
    return [step for step, commit in commits.items() if commit is None or commit != commits["draw"]]


def _recorded(figures: Path, pair: str) -> dict[str, Any]:
    """Return what the record of a pair's published run says of the run."""
    folder = figures if pair == "builtin" else figures / pair
    return dict(json.loads((folder / "claims.json").read_text(encoding="utf-8"))["run"])


def differing(figures: Path) -> dict[str, str]:
    """Return the published files that are not of their pair's run, with what differs.

    Returns
    -------
    dict of str to str
        By file, relative to ``figures``: the keys that differ or are missing, such as ``"commit, fit"``; for the record
        of a pair, the steps of another commit.
    """
    found, prompts = {}, dict[tuple[str, str], int]()
    for pair, file, about in sidecars_of_pairs(figures):
        run = run_of(figures, pair)
        if "experiment" in about:
            wrong = unlike_record(about["experiment"], run)
        else:
            wrong = [key for key, mark in {"pair": pair, **run}.items() if mark is None or about.get(key) != mark]
        if study := _study(about):  # it has one number of prompts
            wrong += ["prompts"] if prompts.setdefault((pair, study), about["prompts"]) != about["prompts"] else []
            compared = set(about.get("statistics", {}).get("pairs", ()))
            wrong += sorted(compared - {pair} - _recorded(figures, pair).get("beside", {}).keys())
        if wrong:
            found[str(file.relative_to(figures))] = ", ".join(wrong)
    for record in (figures / "claims.json", *sorted(figures.glob("*/claims.json"))):
        pair = "builtin" if record.parent == figures else record.parent.name
        missing = [key for key, value in run_of(figures, pair).items() if value is None]
        if wrong := [*missing, *other_steps(figures, pair)]:
            found[str(record.relative_to(figures))] = ", ".join(wrong)
    return found


def _study(about: dict[str, Any]) -> str:
    """Return the study whose texts a figure is drawn from; empty if it is drawn from none."""
    one = EXHIBITS.get(tuple(about.get("figure", "").split(" ")))
    return one.study if isinstance(one, Decoding) else ""


def unlike_record(shown: dict[str, Any], run: dict[str, Any]) -> list[str]:
    """Return what differs between a figure and the record of its experiment, or between that and the pair's run.

    Parameters
    ----------
    shown : dict
        What the figure holds: the experiment's name, and the fields :data:`~validation.plots.common.stored.SHOWN`.
    run : dict
        Of the pair, from :func:`run_of`. The record need not be of its commit.
    """
    record = records().get(shown["name"])
    if record is None:
        return ["experiment"]
    other = [key for key in SHOWN if shown.get(key) != record[key]]
    return other + [key for key in ("trace", "fit") if key in record and record[key] != run[key]]
