"""Draw tokens of a round against the distance of a token: ``draw.py builtin.json builtin.svg``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from validation.plots.common.style import axis, canvas, house_style, legend_below, name_axes, save

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#666666", "#8B4513")
GREEDY = ("SGLang, accumulated", "SGLang, single", "typical, then p", "top-m, then p")


def main(numbers: Path, picture: Path) -> None:
    """Draw a line for each rule, dashed for greedy drafts, and the most that any rule can give."""
    stored = json.loads(numbers.read_text(encoding="utf-8"))["by_length"]["4"]
    with house_style():
        figure, (axes,) = canvas((5.0, 4.4))
        most = stored["most"]
        axes.plot(most["distance"], most["tokens"], color="black", lw=1.5, label="no rule for sampled drafts gives more")
        sampled = [name for name in stored["curves"] if name not in GREEDY]
        for names, style in ((sampled, "-"), (GREEDY, "--")):
            for colour, name in zip(COLOURS, names, strict=False):
                curve = stored["curves"][name]
                order = sorted(range(len(curve["tokens"])), key=lambda i: (curve["distance"][i], curve["tokens"][i]))
                x, y = ([curve[key][i] for i in order] for key in ("distance", "tokens"))
                marks = {"marker": "o", "ms": 2.5} if style == "--" else {"marker": "."}
                axes.plot(x, y, style, color=colour, lw=0.9, label=name, **marks)
        axes.set_xlim(-0.005, 0.3)
        name_axes(axes, {"x": axis("mean total variation of a token"), "y": axis("tokens of a round of 4 drafts")})
        legend_below(axes, columns=2)
        save(figure, picture)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
