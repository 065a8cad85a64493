"""The verdicts of the release on the claims that no model changes, so that ``hlm validate`` need not repeat them.

``hlm publish --tables`` writes the certificate from the published record, and ``hlm publish --check`` compares the two.
``python -m validation.report.certify`` checks and adds the claims that are newer than the record, or stated anew.
"""

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
    """Tallies of the certified claims by id, the commit and the date of their check, and those of claims added."""

    tallies: Mapping[str, Tally]
    commit: str
    date: str
    later: tuple[str, ...] = ()

    def completed(self, results: Results) -> Results:
        """Return the results with the certified tallies of the claims that they lack."""
        return replace(results, tallies={**self.tallies, **results.tallies})

    def sentence(self, count: int, which: str = "") -> str:
        """Return a sentence that says who checked this many claims; empty for none."""
        if not count:
            return ""
        which = which or ("other claim" if count == 1 else "other claims")
        said = "does not depend on the models; it was" if count == 1 else "do not depend on the models; they were"
        return f"{count} {which} {said} checked before, on drawn instances (figures/claims.csv), {self.commits}."

    @property
    def commits(self) -> str:
        named = [commit[:7] for commit in dict.fromkeys((self.commit, *self.later))]
        return f"commit{'s' * (len(named) > 1)} {', '.join(named)}"


def certificate() -> Certificate:
    """Return the certificate of this release, without claims that are withdrawn or whose outcome would now differ."""
    stored = json.loads(FILE.read_text(encoding="utf-8"))
    known, about = hlmtheory.all_claims(), stored["about"]
    now = {name: claim.statement for name, claim in known.items()}
    added = {name: record for name, record in stored.get("added", {}).items() if record["statement"] == now.get(name)}
    tallies = {}
    for name, record in (added | stored["claims"]).items():
        if name in known:
            limits = {limit: float(record[limit]) for limit in LIMITS}
            counts = {field: value for field, value in record.items() if field not in ("outcome", "statement")}
            tally = Tally(name, **counts | limits, kind="simulated")
            if tally.outcome == record["outcome"]:
                tallies[name] = tally
    later = (*about["verdicts"], *[about.get("later", "")] * bool(added))
    return Certificate(tallies, about["commit"], about["date"], later)


def certificate_text(run: Mapping[str, Any], results: Results, former: str = "") -> str:
    tallies = {name: tally for name, tally in results.tallies.items() if tally.kind == "simulated"}
    before = json.loads(former or "{}")
    added = {name: record for name, record in before.get("added", {}).items() if name not in tallies}
    about = {"commit": run["commits"].get("check", "unknown"), "date": run["created"][:10]}
    about |= {"versions": run.get("versions", {}), "verdicts": list(dict.fromkeys(run.get("added", {}).values()))}
    about |= {"later": before["about"]["later"]} if added else {}
    return written(
        about, {name: entry(tally) for name, tally in tallies.items() if name in hlmtheory.all_claims()}, added
    )


def entry(tally: Tally) -> dict[str, Any]:
    plain = json.loads(Results({tally.claim: tally}, 0, 0, 0.0, {}).to_json())["tallies"][tally.claim]
    kept = {name: value for name, value in plain.items() if name in LIMITS or (value and name not in ("claim", "kind"))}
    return {"outcome": tally.outcome} | kept


def written(about: Mapping[str, Any], claims: Mapping[str, Any], added: Mapping[str, Any]) -> str:
    parts = [f'"about": {json.dumps(about)}']
    for part, records in (("claims", claims), ("added", added)):
        lines = [f"{json.dumps(name)}: {json.dumps(record, ensure_ascii=False)}" for name, record in records.items()]
        if lines or part == "claims":
            parts.append(f'"{part}": {{\n' + ",\n".join(lines) + "\n}")
    return "{" + ",\n".join(parts) + "}\n"
