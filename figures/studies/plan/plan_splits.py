"""The promise of ``hlm plan --risk`` in the mean and with confidence: calibrations on many splits of the prompts.

A third of the prompts calibrates, the others are held out. The share of splits whose held-out mean loss is above the
limit also counts the noise of the held-out prompts; beside it stands the share above by the mean over all prompts.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from plan_study import LIMITS, ROUND_TRIP_S, SEED, SPLITS, TIMES

from hlmtheory.skipping import calibrate_threshold, confident_threshold
from validation.planning import profile
from validation.planning.measure import planner_of_trace
from validation.planning.menu import OURS
from validation.planning.plan import Planner
from validation.planning.setting import Setting, constant_link

Array = NDArray[Any]
CONFIDENCE = 0.95
CODECS = (0, None)
"""q_d up and p down, and the codec that the plan over 10 Mbit/s chooses."""


def losses_of(planner: Planner, codec: int, kind: str) -> tuple[Array, Array]:
    """Return the thresholds of a codec and the loss of every text at each, (texts, thresholds)."""
    own = sorted(
        (
            one
            for one in planner.options
            if one.family == OURS and one.draft_length == 1 and one.codec == codec and one.threshold > -np.inf
        ),
        key=lambda one: one.threshold,
    )
    table = np.stack([one.loss if kind == "text" else one.token_loss for one in own], axis=-1)
    return np.array([one.threshold for one in own]), np.maximum.accumulate(np.clip(table, 0.0, 1.0), axis=-1)


def compared(levels: Array, table: Array, limit: float) -> dict[str, dict[str, float]]:
    """Return, for both promises, how far the splits are above the limit and how much is skipped."""
    rng = np.random.default_rng(SEED)
    part = len(table) // 3
    columns: dict[str, list[int]] = {"mean": [], "confident": []}
    held: dict[str, list[float]] = {"mean": [], "confident": []}
    for _ in range(SPLITS):
        order = rng.permutation(len(table))
        calibrate, other = table[order[:part]], table[order[part:]]
        found = {"confident": confident_threshold(calibrate, levels, risk=limit, error=1.0 - CONFIDENCE).threshold}
        enough = (part + 1) * limit >= 1
        found["mean"] = calibrate_threshold(calibrate, levels, risk=limit, bound=1.0).threshold if enough else -np.inf
        for name, threshold in found.items():
            column = int(np.searchsorted(levels, threshold, side="right")) - 1
            columns[name].append(column)
            held[name].append(0.0 if column < 0 else float(other[:, column].mean()))
    result = {}
    for name, chosen in columns.items():
        every = np.array([0.0 if column < 0 else table[:, column].mean() for column in chosen])
        result[name] = {
            "held_out_mean": round(float(np.mean(held[name])), 5),
            "share_above_held_out": round(float(np.mean(np.array(held[name]) > limit)), 4),
            "share_above_all_prompts": round(float(np.mean(every > limit)), 4),
            "median_threshold": None if np.median(chosen) < 0 else float(levels[int(np.median(chosen))]),
            "share_of_splits_that_skip": round(float(np.mean(np.array(chosen) >= 0)), 4),
        }
    return {"calibration_prompts": part, **result}  # type: ignore[dict-item]


def main() -> None:
    """Compare the promises and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path)
    parser.add_argument("work", type=Path, help="the folder of plan_study.py")
    parser.add_argument("out", type=Path)
    parser.add_argument("--texts", type=int, default=profile.MOST_TEXTS, help="texts of the trace, evenly spaced")
    asked = parser.parse_args()
    profile.MOST_TEXTS = asked.texts
    found: dict[str, Any] = {"command": f"plan_splits.py TRACE WORK {asked.out.name}", "splits": SPLITS, "seed": SEED}
    found |= {"confidence": CONFIDENCE, "trace": asked.trace.parent.name, "limits": {}}
    for name, (kind, limit) in LIMITS.items():
        if limit <= 0:
            continue
        setting = Setting(constant_link(1e7, ROUND_TRIP_S), *TIMES, risk_kind=kind, risk_limit=limit)
        planner, _ = planner_of_trace(asked.trace, setting, cache=asked.work)
        option, _ = planner.ours(setting)
        rows = {}
        for codec in dict.fromkeys(option.codec or 0 if one is None else one for one in CODECS):
            levels, table = losses_of(planner, codec, kind)
            label = next(o.label for o in planner.options if o.family == OURS and o.codec == codec)
            rows[label.split(", K = 1")[0]] = compared(levels, table, limit)
        found["limits"][name] = {"limit": limit, "prompts": len(table), "codecs": rows}
        print(json.dumps(found["limits"][name], ensure_ascii=False, indent=1), flush=True)
    asked.out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
