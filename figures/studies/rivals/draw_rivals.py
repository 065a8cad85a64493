"""Draw the tokens a pass of each rival: ``draw_rivals.py rivals.json rivals.svg``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from validation.plots.common.style import COLUMN, axis, canvas, house_style, name_axes, save

KINDS = ((0.0, "#222222", "o", "temperature 0"), (1.0, "#D55E00", "s", "temperature 1"))


def main(numbers: Path, picture: Path) -> None:
    """Draw a line for each method, with a mark and an interval for each temperature; lossy ones are named."""
    rows = json.loads(numbers.read_text(encoding="utf-8"))["rows"]
    found = {
        temperature: {r["method"]: r["tokens_per_pass"] for r in rows if r["temperature"] == temperature}
        for temperature, *_ in KINDS
    }
    names = sorted(found[1.0], key=lambda name: found[0.0][name][0])
    with house_style():
        figure, (axes,) = canvas(COLUMN)
        for (temperature, colour, marker, label), shift in zip(KINDS, (0.14, -0.14), strict=True):
            values = [found[temperature][name] for name in names]
            middle = [one[0] for one in values]
            ends = [[one[0] - one[1] for one in values], [one[2] - one[0] for one in values]]
            places = [i + shift for i in range(len(names))]
            face = colour if temperature == 0 else "white"
            axes.errorbar(middle, places, xerr=ends, fmt=marker, color=colour, mfc=face, ms=4, capsize=2, label=label)
        name_axes(axes, {"x": axis("tokens a pass of the target"), "y": axis("")})
        lossy = "\n(lossy at temperature 1)"
        axes.set_yticks(range(len(names)), [name.split(" (")[0] + lossy * ("typical" in name) for name in names])
        axes.legend(loc="lower right")
        save(figure, picture)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
