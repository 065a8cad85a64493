"""The page says what is stored of the cost of a quantised draft model.

The measurement is the study ``figures/studies/gguf``.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
EXPERIMENT = ROOT / "figures" / "studies" / "gguf"
STORED = json.loads((EXPERIMENT / "builtin.json").read_text(encoding="utf-8"))


def test_the_stored_result_says_what_the_page_says():
    assert STORED["verdicts"]["decided_otherwise"] == STORED["verdicts"]["decided_otherwise_with_rounding"] == {}
    assert STORED["verdicts"]["outcomes"]["holds"] > 50
    cost, changes = STORED["cost"], {}
    assert (cost["positions"], cost["prompts"]) == (20948, 160)
    for kind in ("Q8_0", "Q4_K", "Q4_0"):
        value, low, high = cost[kind]["change of acceptance"]
        assert low <= value <= high < 0
        assert value == pytest.approx(cost[kind]["acceptance"][0] - cost["folder"]["acceptance"][0], abs=2e-4)
        changes[kind] = value
    page = (EXPERIMENT / "README.md").read_text(encoding="utf-8")
    for kind, digits in (("Q8_0", 5), ("Q4_K", 4), ("Q4_0", 4)):
        row = re.search(rf"^\| {kind}[^|]*\| [\d,]+ \|.*$", page, re.MULTILINE)
        assert row is not None
        assert f"{-changes[kind]:.{digits}f}".lstrip("0") in row[0]
    for role in ("draft", "target"):
        routes = STORED["routes"]
        assert routes[f"{role} F32"]["transformers, same file"]["largest_difference"] <= 2.71e-4
        assert routes[f"{role} F32"]["transformers, same file"]["largest_tv"] <= 5e-4
        for kind in ("Q8_0", "Q4_K", "Q4_0"):
            assert 0.008 <= routes[f"{role} {kind}"]["transformers, same file"]["tv"][0] <= 0.0095
    assert "Q4_K" not in STORED["routes"]["draft Q4_K"]["stored_as"]
