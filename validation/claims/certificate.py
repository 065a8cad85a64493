"""The verdicts of the release on the claims that no model changes, so that ``hlm validate`` need not repeat them.

``hlm repro --tables`` writes the certificate from the published record, and ``hlm repro --check`` compares the two.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import hlmtheory
from validation.claims.results import Results, Tally

PLACE = Path("validation") / "claims" / "certificate.json"
"""Path in the repository."""
FILE = Path(__file__).with_name(PLACE.name)
LIMITS = ("worst_slack", "tightest")


@dataclass(frozen=True, slots=True)
class Certificate:
    """Tallies of the certified claims by id, and the commit and the date of their check."""

    tallies: Mapping[str, Tally]
    commit: str
    date: str

    def completed(self, results: Results) -> Results:
        """Return the results with the certified tallies of the claims that they lack."""
        return replace(results, tallies={**self.tallies, **results.tallies})

    def sentence(self, count: int, which: str = "") -> str:
        """Return a sentence that says who checked this many claims; empty for none."""
        if not count:
            return ""
        which = which or ("other claim" if count == 1 else "other claims")
        said = "does not depend on the models; it was" if count == 1 else "do not depend on the models; they were"
        return f"{count} {which} {said} checked by the release, commit {self.commit[:7]}."


def certificate() -> Certificate:
    """Return the certificate of this release, without claims that are withdrawn or whose outcome would now differ."""
    stored = json.loads(FILE.read_text(encoding="utf-8"))
    known, tallies = hlmtheory.all_claims(), {}
    for name, record in stored["claims"].items():
        if name in known:
            limits = {limit: float(record[limit]) for limit in LIMITS}
            counts = {field: value for field, value in record.items() if field != "outcome"}
            tally = Tally(name, **counts | limits, kind="simulated")
            if tally.outcome == record["outcome"]:
                tallies[name] = tally
    return Certificate(tallies, stored["about"]["commit"], stored["about"]["date"])


def certificate_text(run: Mapping[str, Any], results: Results) -> str:
    """Return the content of the certificate, with one claim on a line.

    Parameters
    ----------
    run : mapping
        The published record's facts about the run.
    results : Results
        Its verdicts on the present statements; those on simulated instances are certified.
    """
    known, tallies = hlmtheory.all_claims(), json.loads(results.to_json())["tallies"]
    lines = []
    for name, tally in results.tallies.items():
        if tally.kind == "simulated" and name in known:
            kept = {k: v for k, v in tallies[name].items() if k in LIMITS or (v and k not in ("claim", "kind"))}
            lines.append(f"{json.dumps(name)}: {json.dumps({'outcome': tally.outcome} | kept, ensure_ascii=False)}")
    about = {"commit": run["commits"].get("check", "unknown"), "date": run["created"][:10]}
    about["versions"] = run.get("versions", {})
    claims = ",\n".join(lines)
    return f'{{"about": {json.dumps(about)},\n"claims": {{\n{claims}\n}}}}\n'
