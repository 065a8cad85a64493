"""Plan over many links on some prompts of a trace, and count the planned rounds on the others; nothing is decoded."""

from __future__ import annotations

import argparse
import json
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
from plan_study import DOWN_BPS, LIMITS, ROUND_TRIP_S, SEED, TIMES, links_of, plans

from validation.planning.measure import planner_of_trace
from validation.planning.menu import FAMILIES, OURS, STREAMED
from validation.planning.setting import Setting, constant_link, recorded_link

SERVER_DRAFT_MS = (12.0, 30.0)
"""Of the server's own draft: as on the device, and as long as a pass of the target (a draft of the target's size)."""


def main() -> None:
    """Write the median speeds of every policy and the median ratios of ours to it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path)
    parser.add_argument("links", type=Path, help="folder with CSV files of recorded links")
    parser.add_argument("work", type=Path, help="folder for the profile")
    parser.add_argument("out", type=Path)
    asked = parser.parse_args()
    planner, about = planner_of_trace(asked.trace, Setting(constant_link(1e7, ROUND_TRIP_S), *TIMES), cache=asked.work)
    links = links_of(asked.links)
    found = {}
    for milliseconds in SERVER_DRAFT_MS:
        planner.setting = replace(planner.setting, server_draft_s=milliseconds / 1e3)
        own = [one for one in planner.options if one.family != STREAMED]
        planner.options = [*own, *planner.candidates(STREAMED, planner.setting)]
        for name, limit in LIMITS.items():
            for down, bps in DOWN_BPS.items():
                speeds: dict[str, list[float]] = {family: [] for family in FAMILIES}
                for choice, (link, source) in zip(plans(planner, links, limit, bps), links.items(), strict=True):
                    setting = replace(planner.setting, link=recorded_link(source, ROUND_TRIP_S, bps, link))
                    for family in FAMILIES:
                        number = choice.option.get(family)
                        counts = (
                            None if number is None else planner.options[number].counts[planner.split.test].sum(axis=0)
                        )
                        speeds[family].append(np.nan if counts is None else float(setting.value(counts)))
                ours = np.array(speeds[OURS])
                rows = {
                    family: {"tokens_per_s": _median(np.array(own)), "ours_over_it": _median(ours / np.array(own))}
                    for family, own in speeds.items()
                    if np.isfinite(own).any()
                }
                found[f"{name}, {down}, server draft {milliseconds:g} ms"] = rows
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    head = {
        "command": f"plan_held_out.py TRACE LINKS WORK {asked.out.name}",
        "commit": commit,
        "seed": SEED,
        "evidence": {**about["evidence"], "trace": asked.trace.name},
        "prompts": planner.split.prompts,
        "times_s": TIMES,
        "round_trip_s": ROUND_TRIP_S,
        "links": len(links),
    }
    asked.out.write_text(json.dumps(head | {"medians": found}, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _median(values: np.ndarray) -> float | None:
    known = values[np.isfinite(values)]
    return round(float(np.median(known)), 4) if len(known) else None


if __name__ == "__main__":
    main()
