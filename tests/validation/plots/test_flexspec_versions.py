"""Table II of flexspec: the stored rows keep the bound on an update, and the table shows what is stored.

The measurement is the study ``figures/studies/aligned_draft``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

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
