"""The tables of the audit's controls, from what ``figures/studies/audit_controls`` stored."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

from validation.report.tables import markdown_table

STORED = Path("figures", "studies", "audit_controls", "controls.json")


def audit_controls(root: Path) -> str | None:
    """Return the tables of found defects and of accused exact samplers as Markdown; None if nothing is stored."""
    if not (root / STORED).exists():
        return None
    stored = json.loads((root / STORED).read_text(encoding="utf-8"))
    return "\n\n".join([_defects(stored["defects"]), _exact(stored["exact"])])


def _defects(audits: list[dict[str, Any]]) -> str:
    """Return one line for each defect: the truth, the draws that found it, and how often its name was right."""
    rows = []
    for name in dict.fromkeys(one["defect"] for one in audits):
        own = [one for one in audits if one["defect"] == name]
        after = [one["found_after"] for one in own]
        named = [_named(name, [one for one in own if one["as_table"] is kind]) for kind in (True, False)]
        truth = (_span([one["truth"][kind] for one in own]) for kind in ("first_token", "joint"))
        rows.append([name, own[0]["source"], *truth, f"{median(after):,.0f}", f"{max(after):,}", *named])
    heads = (
        *("defect", "reported in", "TV, first token", "TV, four tokens", "draws until found, median", "at most"),
        *("named right, from tables", "named right, from rows"),
    )
    return markdown_table({"heads": heads, "rows": rows})


def _named(name: str, audits: list[dict[str, Any]]) -> str:
    """Return how often the likeliest mechanism was the defect, and how often none of the known ones was named."""
    first = [one["mechanisms"][0][0] if one["mechanisms"] else "none" for one in audits]
    none = first.count("none")
    return f"{first.count(name)} of {len(audits)}" + (f", none named in {none}" if none else "")


def _span(values: list[float]) -> str:
    """Return the smallest and the largest value."""
    low, high = min(values), max(values)
    return "0" if high < 1e-9 else f"{low:.4f} to {high:.4f}"


def _exact(samplers: list[dict[str, Any]]) -> str:
    """Return how many audits accused the exact samplers by level: all of them, and the one that was accused most."""
    levels = list(samplers[0]["accused"])
    most = max(samplers, key=lambda one: list(one["accused"].values()))
    rows = [
        [f"all {len(samplers)}", f"{sum(one['audits'] for one in samplers):,}"],
        [f"{most['sampler']}, {most['setting']}: accused most", f"{most['audits']:,}"],
    ]
    for level in levels:
        rows[0].append(str(sum(one["accused"][level] for one in samplers)))
        rows[1].append(str(most["accused"][level]))
    heads = ["exact samplers", "audits", *(f"accused at {level}" for level in levels)]
    return markdown_table({"heads": heads, "rows": rows})
