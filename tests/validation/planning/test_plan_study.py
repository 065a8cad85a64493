"""The README of the study `figures/studies/plan` says what it stored."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

EXPERIMENT = Path(__file__).resolve().parents[3] / "figures" / "studies" / "plan"
README = (EXPERIMENT / "README.md").read_text(encoding="utf-8")


def test_the_readme_says_what_the_study_stored():
    """Every number of the README's table, to the two digits that it prints."""
    found = json.loads((EXPERIMENT / "builtin.json").read_text(encoding="utf-8"))
    rows = re.findall(r"^\| (lossless|text \.3|token \.05)(, free downlink)? \|(.+)\|$", README, flags=re.M)
    assert len(rows) == 6
    baselines = (
        "server with its own draft",
        "server alone, streaming",
        "server alone",
        "fixed K, full rows",
        "HLM",
        "U-HLM",
        "CU-HLM",
        "SQS",
        "FlexSpec",
    )
    for limit, free, cells in rows:
        part = found["downlink 1 Gbit/s" if free else "downlink as the uplink's median"][limit]
        speed, *shown = (cell.strip(" *") for cell in cells.split("|"))
        assert float(speed) == pytest.approx(part["policies"]["ours"]["decoded_tokens_per_s"]["median"], abs=0.051)
        for baseline, cell in zip(baselines, shown, strict=True):
            row = part["policies"].get(baseline)
            if row is None:
                assert cell == "–"
            else:
                assert float(cell) == pytest.approx(row["ours_over_it"]["median"], abs=0.0051), (limit, baseline)
        links = part["by_link"]
        pairs = zip(links["decoded"], links["best_in_hindsight"], strict=True)
        assert all(own <= best * (1 + 1e-6) + 1e-4 for own, best in pairs if own is not None)
