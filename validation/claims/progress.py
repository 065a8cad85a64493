"""Store the state of a check in a file, so that a stopped check continues after the last finished part.

Parts have a fixed order and separate random numbers, so the number of finished parts determines where to continue. The
state is valid for one trace, seed, device, set of claims and code; otherwise the check starts from the beginning.
"""

import hashlib
import json
import platform
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from validation.claims.results import Results, Tally
from validation.provenance import code_digest, versions
from validation.trace.format import MANIFEST
from validation.trace.journal import JOURNAL, write_atomically
from validation.trace.reader import SYNTHETIC, Trace
from validation.trace.remote import Place, place
from validation.workers import LIBRARIES

EVERY_S = 2.0
"""Seconds between two writes."""


@dataclass(slots=True)
class CheckSums:
    tallies: dict[str, Tally]  # by claim id
    sums: dict[str, float] = field(default_factory=dict)  # sums of the quantities that the summary averages
    parts: int = 0  # numbers of finished parts, of positions of the trace, and of batches of simulated instances
    positions: int = 0
    scenes: int = 0
    seconds: float = 0.0  # time spent


class Unfinished:
    """The state file of a check. Without a file, nothing is stored."""

    def __init__(self, file: Path | None, mark: str) -> None:
        self.file, self.mark, self._written = file, mark, time.monotonic()

    def read(self, empty: CheckSums) -> CheckSums:
        """Return the stored sums of the same check, or ``empty`` if the file is missing or unreadable."""
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
        """Write the state if the last write is older than EVERY_S, or if ``now``."""
        if self.file is None or not (now or time.monotonic() - self._written > EVERY_S):
            return
        results = Results(found.tallies, found.positions, 0, found.seconds, found.sums)
        counts = {"mark": self.mark, "parts": found.parts, "scenes": found.scenes}
        write_atomically(self.file, json.dumps(counts | {"results": json.loads(results.to_json())}) + "\n")
        self._written = time.monotonic()


def mark_of(trace: Trace, claims: Iterable[str], settings: Mapping[str, Any]) -> str:
    """Return a hash of everything that determines the results: trace, claims, settings, code and libraries."""
    digest = hashlib.sha256(json.dumps([sorted(claims), dict(settings)], sort_keys=True).encode())
    digest.update(trace_mark(trace.path).encode())
    digest.update(code_digest().encode())
    digest.update(repr([platform.machine(), versions(*LIBRARIES)]).encode())
    return digest.hexdigest()


def trace_mark(path: str | Place) -> str:
    """Return a hash of a trace: of its manifest and of its journal, which holds the checksum of every file."""
    if isinstance(path, str) and path.startswith(SYNTHETIC):
        return path
    digest = hashlib.sha256()
    for name in (JOURNAL, MANIFEST):
        file = place(path) / name
        digest.update(file.read_bytes() if file.exists() else b"none")
    return digest.hexdigest()
