"""Say at which positions an update costs acceptance: the loss over the TV, by the acceptance before the update.

    regime.py DATA WORK regime.json

For the versions of code, full fine-tuning, all seeds, in both regimes, on held-out texts of the domain and on general
texts. A position belongs to the bin of its own 1 - TV(q, p_0). The draft ``version 0`` is the target before the update:
its loss is the TV itself.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measure import Bench, rows_of

from validation.training.versions import load_version

EDGES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
FOLDERS = {"24 steps": "versions", "96 steps, three times the rate": "hot"}
DRAFTS = ("plain", "aligned")


def main() -> None:
    """Write sums by bin."""
    data, work, out = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
    torch.set_num_threads(1)
    bench = Bench(data, work)
    found: dict[str, Any] = {"edges": EDGES}
    for name, folder in FOLDERS.items():
        parts: dict[str, list[np.ndarray]] = {draft: [] for draft in DRAFTS}
        for version in sorted((work / folder).glob("code-full-s*")):
            model = load_version(version, work / "pair/large")
            for texts in ("code", "general"):
                for ids, base, drafts in bench.on(texts):
                    p = rows_of(model, ids)
                    tv = 0.5 * (p - base).abs().sum(-1)
                    for draft in DRAFTS:
                        before, after = (torch.minimum(drafts[draft], rows).sum(-1) for rows in (base, p))
                        parts[draft].append(torch.stack([before, after, tv]).numpy())
        found[name] = {draft: _bins(np.concatenate(rows, axis=1)) for draft, rows in parts.items()}
    out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _bins(rows: np.ndarray) -> list[dict[str, float]]:
    """Return positions, means and the loss over the TV of each bin."""
    before, after, tv = rows
    place = np.clip(np.digitize(before, EDGES) - 1, 0, len(EDGES) - 2)
    told = []
    for number in range(len(EDGES) - 1):
        own = place == number
        told.append(
            {
                "positions": int(own.sum()),
                "before": round(float(before[own].mean()), 4),
                "after": round(float(after[own].mean()), 4),
                "tv": round(float(tv[own].mean()), 4),
                "loss_over_tv": round(float((before - after)[own].sum() / tv[own].sum()), 4),
            }
        )
    return told


if __name__ == "__main__":
    main()
