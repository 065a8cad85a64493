"""Measure the tokens of a round with trees of drawn children, and with trees of one drawn child and sure ones.

PYTHONPATH=. python3 figures/studies/multi_draft/trees.py figures/studies/multi_draft/trees.json

Both trees have the same nodes, and decode the same prompts of the built-in pair with the same seeds, at temperature 1.
Intervals are 95%, of a bootstrap over prompts.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np

from validation.collection.prompts import builtin_prompts
from validation.decoding.intervals import ratio
from validation.decoding.loop import decode
from validation.decoding.methods.trees import DraftTreeSd, SureTreeSd
from validation.models.pair import load_pair

PROMPTS, TREE_TOKENS, SEEDS, WIDTHS = 24, 48, range(3), ((2, 2, 2), (3, 2, 1, 1))


def trees(pair: Any, prompts: Any) -> list[dict[str, Any]]:
    """Return the tokens of a round with both trees."""
    rows = []
    for widths in WIDTHS:
        found = {}
        for method in (DraftTreeSd(widths), SureTreeSd(widths)):
            tokens, rounds = np.zeros((2, len(prompts)))
            for seed in SEEDS:
                records = decode(pair, prompts, method, new_tokens=TREE_TOKENS, batch=12, seed=seed)
                tokens += [len(one.tokens) for one in records]
                rounds += [len(one.rounds) for one in records]
            found[method.name] = tokens, rounds
        old, new = found.values()
        row = {"widths": widths, **{name: astuple(ratio(*one)) for name, one in found.items()}}
        row["quotient"] = (new[0].sum() / new[1].sum()) / (old[0].sum() / old[1].sum())
        rows.append(row)
        print(json.dumps(row), flush=True)
    return rows


def main() -> None:
    """Measure, and store the numbers."""
    rows = trees(load_pair("builtin"), builtin_prompts(limit=PROMPTS))
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    stored = {"prompts": PROMPTS, "seeds": len(SEEDS), "new_tokens": TREE_TOKENS, "trees": rows}
    stored |= {"commit": head.stdout.strip()}
    Path(sys.argv[1]).write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
