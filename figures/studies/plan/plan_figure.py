"""Draw predicted against decoded tokens per second, and the plan against each paper's method, from the study's JSON."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from validation.plots.common.style import DARK, MIDDLE, PAGE, axis, canvas, house_style, name_axes, save

DOWN = "downlink as the uplink's median"
LIMITS = {"lossless": (DARK, "o"), "text .3": (MIDDLE, "^"), "token .05": ("0.6", "s")}
TICKS = (0.5, 0.7, 1, 1.5, 2, 3, 5, 8)
BASELINES = (
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


def paint(found: dict[str, Any]) -> Any:
    """Return the figure: left, one point a link; right, the speed of the plan over that of each method."""
    figure, (left, right) = canvas(PAGE, 2)
    shown = []
    for name, (color, mark) in LIMITS.items():
        links = found[DOWN][name]["by_link"]
        known = [place for place, value in enumerate(links["decoded"]) if value is not None]
        if not known:
            continue
        x, y = (np.array([links[key][place] for place in known]) for key in ("predicted", "decoded"))
        left.plot(x, y, mark, color=color, markersize=2.5, markerfacecolor="none", markeredgewidth=0.6, label=name)
        shown += [*x, *y]
    ends = [min(shown, default=0.0), max(shown, default=0.0)]
    left.plot(ends, ends, color="0.6", linewidth=0.8, label="equal")
    name_axes(left, {"x": axis("predicted", "tokens/s"), "y": axis("decoded", "tokens/s")})
    left.legend()
    place = np.arange(len(BASELINES))
    for shift, (name, (color, mark)) in zip((-0.25, 0.0, 0.25), LIMITS.items(), strict=True):
        for number, baseline in enumerate(BASELINES):
            row = found[DOWN][name]["policies"].get(baseline)
            if row is None or row["ours_over_it"] is None:
                continue
            spread = row["ours_over_it"]
            right.plot([spread["p05"], spread["p95"]], [place[number] + shift] * 2, color=color, linewidth=1.5)
            right.plot([spread["median"]], [place[number] + shift], mark, color=color, markersize=3)
    right.axvline(1.0, color="0.6", linewidth=0.8)
    right.set_yticks(place, BASELINES)
    right.set_xscale("log")
    right.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
    right.minorticks_off()
    right.set_xlabel("plan over method, tokens/s")
    return figure


def main() -> None:
    """Draw the figure beside the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("json", type=Path)
    asked = parser.parse_args()
    with house_style():
        save(paint(json.loads(asked.json.read_text(encoding="utf-8"))), asked.json.with_suffix(".svg"))


if __name__ == "__main__":
    main()
