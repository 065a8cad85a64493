"""Name the stored experiments that figures are drawn from: each has one file, one commit, one date."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from validation.errors import UserError
from validation.provenance import file_digest

ROOT = Path(__file__).resolve().parents[3]
RECORDS = Path(__file__).resolve().parents[1] / "experiments.json"
SHOWN = ("date", "commit", "digest")
"""Fields of a record that a sidecar holds beside the name."""
BUILTIN = "builtin"


def named(experiment: str, pair: str | None) -> str:
    """Return the name of an experiment on a pair; without one, that of the first run."""
    return experiment if pair in (None, BUILTIN) else f"{experiment} {pair}"


def pairs_with(experiment: str) -> list[str]:
    """Return the pairs that an experiment was run on."""
    return [name.partition(" ")[2] or BUILTIN for name in records() if name.partition(" ")[0] == experiment]


def records() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(RECORDS.read_text(encoding="utf-8"))
    return found


@cache
def read(file: Path) -> dict[str, Any]:
    """Return what an experiment stored in a file beside the module that draws it."""
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def digest(file: Path) -> str:
    try:
        return file_digest(file)[:16]
    except FileNotFoundError as error:
        raise UserError(f"There is no stored experiment at {file}; restore the file from the repository.") from error


def stored(name: str) -> tuple[Any, dict[str, Any]]:
    """Return what an experiment stored, and the part of its record that its figures hold."""
    return json.loads((ROOT / records()[name]["file"]).read_text(encoding="utf-8")), from_experiment(name)


def from_experiment(name: str) -> dict[str, Any]:
    """Return ``{"experiment": …}``: name, date, commit and checksum of a stored experiment; refuse a changed file."""
    about = records()[name]
    if digest(ROOT / about["file"]) != about["digest"]:
        raise UserError(
            f"{about['file']} has changed since the experiment {name} was recorded in {RECORDS.name}; restore the "
            "file, or run the experiment, which records it."
        )
    return {"experiment": {"name": name, **{key: about[key] for key in SHOWN}}}


def origin(experiment: dict[str, Any]) -> str:
    """Return the clause of a figure's basis that names the experiment.

    >>> origin({"name": "passes", "date": "2026-11-20", "commit": "05391a7e0000", "digest": "ab"})
    '; numbers of the stored experiment passes of 2026-11-20, commit 05391a7'
    """
    name, date, commit = (experiment[key] for key in ("name", "date", "commit"))
    return f"; numbers of the stored experiment {name} of {date}, commit {commit[:7]}"
