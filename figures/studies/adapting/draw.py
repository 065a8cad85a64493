"""Draw the regret of each device over each link, from the stored result of ``regret.py``.

PYTHONPATH=. python3 figures/studies/adapting/draw.py figures/studies/adapting/regret.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from validation.plots.common.style import COLUMN, DARK, MIDDLE, canvas, house_style, save

DEVICES = {
    "the plan of the first rate": "plan of the first rate",
    "flexspec's length, exact, rows": "flexspec, exact",
    "flexspec's length as printed, rows": "flexspec, as printed",
    "c-sqs's threshold, rows": "c-sqs",
    "length of a shared seed (--adapt)": "length (ours)",
    "message and length from text to text (ours)": "message, by texts (ours)",
    "message and length from round to round (ours)": "message, by rounds (ours)",
}
MARKS = ("o", "s", "^", "D")


def main() -> None:
    """Draw."""
    stored = Path(sys.argv[1])
    rows = json.loads(stored.read_text(encoding="utf-8"))["rows"]
    links, passes = (list(dict.fromkeys(row[key] for row in rows)) for key in ("link", "pass"))
    with house_style():
        picture, panels = canvas((2.0 * COLUMN[0], 2.6), panels=len(passes))
        for axes, name in zip(panels, passes, strict=True):
            for link, mark in zip(links, MARKS, strict=False):
                found = {
                    row["device"]: 100 * row["regret"] for row in rows if (row["link"], row["pass"]) == (link, name)
                }
                for place, device in enumerate(DEVICES):
                    color = DARK if "(ours)" in DEVICES[device] else MIDDLE
                    label = link if place == len(DEVICES) - 1 and axes is panels[0] else None
                    axes.plot(found[device], -place, mark, color=color, fillstyle="none", label=label)
            axes.axvline(0.0, color="0.3", linewidth=0.8)
            axes.set(title=name, xlabel="regret, % of the best fixed plan")
            axes.set_yticks([-place for place in range(len(DEVICES))], list(DEVICES.values()))
        panels[-1].set_yticklabels([])
        picture.legend(loc="outside lower center", ncols=4)
        save(picture, stored.with_suffix(".svg"))


if __name__ == "__main__":
    main()
