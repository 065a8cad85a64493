"""Draw the acceptance by the number of drafts, from the stored result of ``measure.py``.

PYTHONPATH=. python3 figures/studies/multi_draft/draw.py figures/studies/multi_draft/builtin.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from validation.plots.common.style import COLUMN, DARK, LIGHT, MIDDLE, canvas, house_style, save

LINES = {
    "without replacement: no rule is better": (DARK, "dotted", ""),
    "shared seed: a list": (MIDDLE, "solid", "s"),
    "sure and one drawn: best rule (draft tree, sure)": (DARK, "solid", "o"),
    "independent: best rule": ("0.55", "dotted", ""),
    "without replacement: tried in turn (draft tree)": (DARK, "dashed", "d"),
    "independent: K-SEQ": ("0.55", "dashed", "^"),
    "independent: tried in turn": (LIGHT, "dashed", "v"),
}


def main() -> None:
    """Draw."""
    stored = Path(sys.argv[1])
    rules = json.loads(stored.read_text(encoding="utf-8"))["rules"]
    with house_style():
        picture, (axes,) = canvas((1.4 * COLUMN[0], 3.4))
        for rule, (color, line, mark) in LINES.items():
            means = [one[0] for one in rules[rule]]
            axes.plot(range(1, len(means) + 1), means, color=color, linestyle=line, marker=mark, label=rule)
        axes.set(xlabel="drafts of a position", ylabel="one of them is accepted")
        picture.legend(loc="outside lower center", ncols=1)
        save(picture, stored.with_suffix(".svg"))


if __name__ == "__main__":
    main()
