"""The state of a check in a file: a check that was stopped continues after the last finished part.

Parts come in one order and each has its own random numbers, so the count of finished parts says where to go on. What
is kept is of one trace, seed, place, set of claims and code; for any other the check starts from the beginning.
"""

from __future__ import annotations

import hashlib
import json
import platform
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from validation.claims.results import Results, Tally
from validation.trace.format import MANIFEST
from validation.trace.journal import JOURNAL, write_atomically
from validation.trace.reader import Trace

EVERY_S = 2.0
"""Seconds between two writes."""

SOURCE = Path(__file__).resolve().parents[2]
LIBRARIES = ("numpy", "scipy")


@dataclass(slots=True)
class CheckSums:
    """The sums over the parts of a check that are finished.

    Attributes
    ----------
    parts, positions, scenes : int
        How many parts are finished, how many positions of the trace, and how many batches of simulated instances.
    tallies : dict of Tally
        By the claim's id.
    sums : dict of float
        What the summary averages.
    seconds : float
        That they took.
    """

    tallies: dict[str, Tally]
    sums: dict[str, float] = field(default_factory=dict)
    parts: int = 0
    positions: int = 0
    scenes: int = 0
    seconds: float = 0.0


class Unfinished:
    """The file of a check, or none: then nothing is kept."""

    def __init__(self, file: Path | None, mark: str) -> None:
        self.file, self.mark, self._written = file, mark, time.monotonic()

    def read(self, empty: CheckSums) -> CheckSums:
        """Return the stored sums of the same check; ``empty`` if there is no such file or it is unreadable."""
        try:
            there = json.loads(self.file.read_text(encoding="utf-8")) if self.file else None
            if there is None or there["mark"] != self.mark:
                return empty
            results = Results.from_json(json.dumps(there["results"]))
            counts = {name: int(there[name]) for name in ("parts", "scenes")}
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return empty
        if list(results.tallies) != list(empty.tallies):
            return empty
        return CheckSums(
            results.tallies, results.summary, positions=results.positions, seconds=results.seconds, **counts
        )

    def write(self, found: CheckSums, *, now: bool = False) -> None:
        """Keep what was found, if the last time was some seconds ago, or now."""
        if self.file is None or not (now or time.monotonic() - self._written > EVERY_S):
            return
        results = Results(found.tallies, found.positions, 0, found.seconds, found.sums)
        counts = {"mark": self.mark, "parts": found.parts, "scenes": found.scenes}
        write_atomically(self.file, json.dumps(counts | {"results": json.loads(results.to_json())}) + "\n")
        self._written = time.monotonic()


def mark_of(trace: Trace, claims: Iterable[str], settings: Mapping[str, Any]) -> str:
    """A hash of all that decides what a check finds: the trace, the claims, the settings, the code, the libraries."""
    digest = hashlib.sha256(json.dumps([sorted(claims), dict(settings)], sort_keys=True).encode())
    for name in (JOURNAL, MANIFEST):  # the first holds the checksum of every file
        file = trace.path / name
        digest.update(file.read_bytes() if file.exists() else b"none")
    for folder in ("hlmtheory", "validation"):
        for file in sorted((SOURCE / folder).rglob("*.py")):
            digest.update(file.relative_to(SOURCE).as_posix().encode() + b"\0" + file.read_bytes())
    versions = [platform.python_version(), platform.machine(), *(version(name) for name in LIBRARIES)]
    digest.update(repr(versions).encode())
    return digest.hexdigest()
