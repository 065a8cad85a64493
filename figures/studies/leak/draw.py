"""Draw how often the sizes of messages alone identify a prompt, from the stored result of ``attack.py``.

PYTHONPATH=. python3 figures/studies/leak/draw.py figures/studies/leak/attack.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from validation.plots.common.style import COLUMN, DARK, MIDDLE, canvas, house_style, save

ORDER = (
    "lattice",
    "CU-HLM",
    "lattice, 4 sizes",
    "U-HLM",
    "server with its own draft",
    "FlexSpec",
    "lattice, 2 sizes",
    "fixed K, full rows",
    "server with its own draft, padded",
    "shared seed, padded",
    "lattice, 1 size",
    "shared seed",
)


def main() -> None:
    """Draw."""
    stored = Path(sys.argv[1])
    found = json.loads(stored.read_text(encoding="utf-8"))
    with house_style():
        picture, (axes,) = canvas((1.6 * COLUMN[0], 3.0))
        for shift, temperature, color, marker in ((-0.15, "0.3", MIDDLE, "s"), (0.15, "1", DARK, "o")):
            rows = [found[temperature]["schemes"][name]["prompt"] for name in ORDER]
            middle = [row[0] for row in rows]
            errors = [[row[0] - row[1] for row in rows], [row[2] - row[0] for row in rows]]
            places = [place + shift for place in range(len(ORDER))]
            label = f"temperature {temperature}"
            axes.errorbar(middle, places, xerr=errors, fmt=marker, color=color, markersize=3.5, label=label)
        axes.axvline(found["chance"]["prompt"], color="0.5", linestyle="--", label="chance")
        axes.set(yticks=range(len(ORDER)), yticklabels=ORDER, xlabel="share of texts whose prompt is identified, of 12", xlim=(0, 0.75))
        axes.invert_yaxis()
        picture.legend(loc="outside lower center", ncols=3)
        save(picture, stored.with_suffix(".svg"))


if __name__ == "__main__":
    main()
