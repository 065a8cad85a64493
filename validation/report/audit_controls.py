"""The tables of the audit's controls, from what ``figures/experiments/audit_controls`` stored."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

from validation.report.tables import markdown_table

STORED = Path("figures", "experiments", "audit_controls", "controls.json")


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
        truth, after = own[0]["truth"], [one["found_after"] for one in own]
        first = [one["mechanisms"][0][0] if one["mechanisms"] else "–" for one in own]
        right = f"{first.count(name)} of {len(own)}"
        cells = (f"{truth['first_token']:.3f}", f"{truth['joint']:.4f}", f"{median(after):,.0f}", f"{max(after):,}")
        rows.append([name, own[0]["source"], *cells, right])
    heads = ["defect", "reported in", "TV, first token", "TV, four tokens", "found after, median", "at most", "named"]
    return markdown_table({"heads": heads, "rows": rows})


def _exact(samplers: list[dict[str, Any]]) -> str:
    """Return one line for each exact sampler: how many of its audits accused it, by level."""
    levels = list(samplers[0]["accused"])
    rows = [
        [one["sampler"], one["setting"], f"{one['audits']:,}", *(str(one["accused"][level]) for level in levels)]
        for one in samplers
    ]
    total = [str(sum(one["accused"][level] for one in samplers)) for level in levels]
    rows.append(["all", "", f"{sum(one['audits'] for one in samplers):,}", *total])
    heads = ["exact sampler", "setting", "audits", *(f"accused at {level}" for level in levels)]
    return markdown_table({"heads": heads, "rows": rows})
