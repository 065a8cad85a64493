"""What a skip costs with a shared seed and with rejection sampling; run by hand on a trace.

PYTHONPATH=. python3 figures/studies/shared_seed/skips.py TRACE skips.json

At every eighth position a draft skips the server if its expected uncertainty (u-hlm) is at most a threshold. Exact at
each position: the share of drafts that are kept, the total variation of the emitted token's law from p and what bounds
it with a shared seed, and the total variation with rejection sampling.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from measure import means

from hlmtheory.shared_seed import skip_mismatch
from hlmtheory.shared_seed.sides import skipped_distance
from hlmtheory.skipping import one_step_risk
from hlmtheory.uncertainty import vocabulary_uncertainty
from validation.trace.identity import fingerprint
from validation.trace.reader import Trace, open_trace, probabilities

THRESHOLDS = (0.2, 0.4, 0.6, 0.8, 0.95)
EVERY, ROWS = 8, 128


def of_trace(trace: Trace) -> dict[str, Any]:
    """Return means with 95% intervals over prompts, by threshold."""
    rows = np.arange(0, trace.positions, EVERY)
    prompts = np.asarray(trace.arrays["prompt_index"][:])[rows]
    parts: dict[float, list[dict[str, Any]]] = {threshold: [] for threshold in THRESHOLDS}
    for some in np.array_split(rows, -(-len(rows) // ROWS)):
        whole = slice(int(some[0]), int(some[-1]) + 1)
        logits = np.asarray(trace.arrays["draft_logits"][whole])[::EVERY]
        q, p = probabilities(logits), probabilities(np.asarray(trace.arrays["target_logits"][whole])[::EVERY])
        u = np.asarray(vocabulary_uncertainty(logits.astype(np.float64)))
        for threshold in THRESHOLDS:
            skip = u <= threshold
            parts[threshold].append(
                {
                    "kept": (q * skip).sum(axis=-1),
                    "shared seed, total variation": np.asarray(skipped_distance(p, q, skip)),
                    "shared seed, bound": np.asarray(skip_mismatch(p, q, skip)),
                    "rejection sampling, total variation": np.asarray(one_step_risk(p, q, skip)),
                }
            )
    return {f"u ≤ {threshold:g}": means(own, prompts) for threshold, own in parts.items()}


def main() -> None:
    """Measure and store."""
    trace, out = open_trace(Path(sys.argv[1])), Path(sys.argv[2])
    about = {"kind": "measured", "trace": fingerprint(trace), "positions": -(-trace.positions // EVERY)}
    found = about | {"skips": of_trace(trace)}
    out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
