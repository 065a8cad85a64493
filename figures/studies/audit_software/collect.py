"""Gather the stored answers of ``audit_software.py`` into one JSON file, and print them as a table."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any


def row(first: dict[str, Any], again: dict[str, Any] | None) -> dict[str, Any]:
    """Return one case: what it is, and what the audits with one and with another seed said."""
    keys = ("package", "version", "call", "pair", "setting", "depth", "drafted")
    found = {key: first[key] for key in keys if key in first}
    for name, answer in (("audit", first), ("again", again)):
        if answer is not None:
            report = answer["report"]
            keys = (
                "verdict",
                "draws",
                "found_after",
                "at_least",
                "at_most_on_cells",
                "cells",
                "smallest_found",
                "level",
            )
            found[name] = {key: report[key] for key in keys} | {"seed": answer["seed"], "cpu_s": answer["cpu_s"]}
    return found


def case(one: dict[str, Any]) -> tuple[str, ...]:
    """Return what names a case."""
    return tuple(one[key] for key in ("package", "version", "call", "pair", "setting"))


def line(one: dict[str, Any]) -> str:
    """Return a case as a row of a table."""
    audit, again = one["audit"], one.get("again")
    if audit["verdict"] == "not kept":
        said = f"**not kept**, at least {audit['at_least']:.2g}"
        said += f"; other seed {again['at_least']:.2g}" if again else ""
    else:
        said = f"no difference; on {audit['cells']} cells at most {audit['at_most_on_cells']:.2f}"
    call = one["call"].replace("|", "/")
    cells = (
        f"{one['package']} {one['version']}",
        f"`{call}`",
        one["setting"],
        one["pair"],
        f"{audit['draws']:,}",
        said,
    )
    return f"| {' | '.join(cells)} | {audit['smallest_found']:.3f} |"


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--add", action="store_true", help="keep what OUT holds, and replace or add the cases of WORK")
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for place in sorted((given.work / "seed1").glob("*.json")):
        other = given.work / "seed2" / place.name
        again = json.loads(other.read_text(encoding="utf-8")) if other.exists() else None
        rows.append(row(json.loads(place.read_text(encoding="utf-8")), again))
    if given.add:
        found = json.loads(given.out.read_text(encoding="utf-8"))
        new = {case(one) for one in rows}
        found["audits"] = [one for one in found["audits"] if case(one) not in new] + rows
    else:
        laws = json.loads((given.work / "laws.json").read_text(encoding="utf-8"))
        translated = json.loads((given.work / "other_tokenizer.json").read_text(encoding="utf-8"))
        found = {"audits": rows, "enumerated": laws, "other_tokenizer": translated}
    for name in ("coupled", "greedy_drafts"):
        if (place := given.work / f"{name}.json").exists():
            found[name] = json.loads(place.read_text(encoding="utf-8"))
    given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print("\n".join(line(one) for one in rows))


if __name__ == "__main__":
    main()
