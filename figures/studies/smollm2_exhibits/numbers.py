"""Take the numbers of the exhibits from the report of ``hlm validate`` on a trace of SmolLM2: no picture, no long curve.

    PYTHONPATH=. python3 figures/studies/smollm2_exhibits/numbers.py REPORT smollm2.json

For each exhibit: what it found, the positions that it used, its statistics, and its curves where they are short. The
marks of the trace and the commit of the drawing code are those that the sidecars hold.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

LONGEST = 4_000  # characters of a value that is kept
KEPT = ("title", "findings", "positions_drawn", "statistics", "series")
RUN = ("pair", "positions", "vocabulary", "trace", "seed", "commit")


def numbers(report: Path) -> dict[str, Any]:
    """Return the marks of the run, the summary of its claims, and the exhibits by name."""
    exhibits, run = {}, dict[str, Any]()
    for file in sorted((report / "figures").glob("*.json")):
        about = json.loads(file.read_text(encoding="utf-8"))
        marks = {name: about[name] for name in RUN}
        if run and marks != run:
            raise SystemExit(f"{file.name} is of another run than the others: {marks}, not {run}.")
        run = marks
        exhibits[file.stem] = {name: about[name] for name in KEPT if 2 < len(json.dumps(about.get(name, ""))) < LONGEST}
    claims = json.loads((report / "claims.json").read_text(encoding="utf-8"))
    violated = sorted(name for name, tally in claims["tallies"].items() if tally["violated"])
    checked = {"measured": len(claims["tallies"]), "fail at some position": violated}
    return {"run": run, "summary": claims["summary"], "claims": checked, "exhibits": exhibits}


def main() -> None:
    """Write one JSON file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("report", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    text = json.dumps(numbers(given.report), indent=1, ensure_ascii=False)
    given.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
