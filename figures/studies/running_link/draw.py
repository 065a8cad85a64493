"""Draw predicted against measured tokens per second, from the stored result of ``measure.py``.

PYTHONPATH=. python3 figures/studies/running_link/draw.py figures/studies/running_link/speeds.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from validation.plots.common.style import COLUMN, DARK, LIGHT, MIDDLE, canvas, house_style, save

MARKS = {
    "shared seed": (DARK, "o"),
    "shared seed, streamed": (DARK, "^"),
    "plan's choice": (DARK, "*"),
    "SQS rows": (MIDDLE, "s"),
    "HLM": (MIDDLE, "D"),
    "server alone, streaming": ("0.55", "v"),
    "server with its own draft": ("0.55", "P"),
}


def main() -> None:
    """Draw."""
    stored = Path(sys.argv[1])
    rows = json.loads(stored.read_text(encoding="utf-8"))["rows"]
    with house_style():
        picture, (axes,) = canvas((1.4 * COLUMN[0], 3.4))
        speeds = [one[name] for one in rows for name in ("predicted", "measured")]
        ends = np.array([0.8 * min(speeds), 1.25 * max(speeds)])
        axes.fill_between(ends, 0.9 * ends, 1.1 * ends, color=LIGHT, alpha=0.5, linewidth=0, label="within 10%")
        axes.plot(ends, ends, color="0.3", linewidth=0.8)
        for method, (color, mark) in MARKS.items():
            own = [one for one in rows if one["method"] == method]
            if own:
                across, up = (np.array([one[name] for one in own]) for name in ("measured", "predicted"))
                spread = [across - [one["low"] for one in own], [one["high"] for one in own] - across]
                axes.errorbar(across, up, xerr=np.maximum(spread, 0.0), fmt=mark, color=color, label=method)
        axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
        axes.set(xlabel="measured, tokens/s", ylabel="predicted, tokens/s")
        picture.legend(loc="outside lower center", ncols=3)
        save(picture, stored.with_suffix(".svg"))


if __name__ == "__main__":
    main()
