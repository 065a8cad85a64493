"""Draw tokens per second against the link's rate, from the stored result of ``rates.py``.

PYTHONPATH=. python3 figures/studies/shared_seed/draw_rates.py figures/studies/shared_seed/rates.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from validation.plots.common.style import DARK, MIDDLE, canvas, house_style, save

LINES = {  # method: colour, marker, line
    "server with its own draft": ("0.35", "P", "--"),
    "server alone, streaming": ("0.6", "v", "--"),
    "shared seed, streamed": (DARK, "o", "-"),
    "shared seed": (DARK, "d", ":"),
    "SQS": (MIDDLE, "s", "-"),
    "FlexSpec": (MIDDLE, "^", ":"),
    "HLM": ("0.6", "x", "-"),
    "U-HLM, token .05": ("#6d8bb5", ".", "-"),
    "CU-HLM, token .05": ("#6d8bb5", "D", ":"),
}


def main() -> None:
    """Draw."""
    stored = Path(sys.argv[1])
    panels = json.loads(stored.read_text(encoding="utf-8"))["speeds"]["no header"]
    with house_style():
        picture, axes = canvas((7.0, 2.9), len(panels))
        for place, (trip, by_rate) in zip(axes, panels.items(), strict=True):
            rates = [float(rate) for rate in by_rate]
            for name, (color, marker, line) in LINES.items():
                speeds = [found[name]["tokens_per_s"][0] for found in by_rate.values()]
                place.plot(rates, speeds, color=color, marker=marker, linestyle=line, markersize=3, label=name)
            place.set(xscale="log", yscale="log", xlabel="rate, bit/s", title=f"round trip {trip}")
            place.set_ylim(0.5, 80)
        axes[0].set_ylabel("tokens/s")
        handles, labels = axes[0].get_legend_handles_labels()
        picture.legend(handles, labels, loc="outside lower center", ncols=5)
        save(picture, stored.with_suffix(".svg"))


if __name__ == "__main__":
    main()
