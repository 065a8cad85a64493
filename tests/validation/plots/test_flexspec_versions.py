"""Table II of flexspec: the stored rows keep the bound on an update, and the table shows what is stored.

The measurement is the study ``figures/studies/aligned_draft``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from validation.plots import EXHIBITS, draw
from validation.plots.flexspec import versions

ROOT = Path(__file__).resolve().parents[3]
EXPERIMENT = ROOT / "figures" / "studies" / "aligned_draft"


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((EXPERIMENT / "builtin.json").read_text(encoding="utf-8"))
    return found


def test_no_draft_loses_more_than_the_distance_of_the_versions(rows):
    """The bound verification.update_floor, summed over the positions of each text."""
    checked = 0
    for row in rows:
        for texts in ("own", "domain", "general"):
            found = row.get(texts)
            if found is None:
                continue
            for draft, now in found["accept"].items():
                loss = np.subtract(found["accept_base"][draft], now)
                assert (np.abs(loss) <= np.asarray(found["tv"]) + 1e-3).all(), (row["name"], texts, draft)
                checked += len(loss)
    assert checked > 5_000


def test_versions_that_keep_the_anchor_are_those_whose_methods_say_so(rows):
    kept = {row["method"]: row["keeps_the_anchor"] for row in rows if row["method"] != "base"}
    assert kept == {
        method: not method.endswith("-all") and method != "full" for method in versions.METHODS if method != "base"
    }


def test_the_table_has_the_printed_rates_beside_ours(tmp_path):
    exhibit = EXHIBITS["flexspec", "II"]
    (sidecar,) = draw(exhibit, None, tmp_path, command="hlm figure flexspec II", seed=1, commit="c")
    found = json.loads(sidecar.read_text(encoding="utf-8"))
    beside, every, rounds = found["tables"]
    assert [row[1] for row in beside["rows"]] == [".72", ".45", ".18"]
    assert [printed["value"] for printed in found["printed"]] == [0.72, 0.45, 0.18]
    assert len(every["rows"]) >= 3 * len(versions.METHODS)
    assert len(rounds["rows"]) == 12
    assert found["kind"] == "measured"
    s = found["statistics"]
    assert s["of_the_texts"] + s["of_the_version"] == pytest.approx(s["general"] - s["plain_after"], abs=2e-3)
