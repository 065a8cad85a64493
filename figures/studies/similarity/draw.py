"""Draw the stored result of ``sharpened.py``, and fill the table of the README.

PYTHONPATH=. python3 figures/studies/similarity/draw.py figures/studies/similarity/builtin.json
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from validation.plots.common.style import COLUMN, DARK, MIDDLE, canvas, house_style, save

NAMES = {
    "U-HLM, calibrated": "U-HLM, calibrated threshold",
    "U-HLM, 0.8": "U-HLM at 0.8",
    "U-HLM, risk-prone": "U-HLM, risk-prone",
    "as many skips at random, calibrated": "as many skips at random, calibrated",
    "target at temperature 0.95": "target at temperature 0.95",
    "target at temperature 0.9": "target at temperature 0.9",
    "draft": "draft model alone",
}


def rows(laws: dict[str, Any]) -> str:
    """Return the rows of the table."""

    def said(values: list[float]) -> str:
        middle, low, high = values
        return f"{middle:+.3f} [{low:+.3f}, {high:+.3f}]"

    lines = [
        f"| {name} | {laws[key]['skipped']:.0%} | {said(laws[key]['entropy_less_target'])} | "
        f"{said(laws[key]['cross_entropy_less_target'])} |"
        for key, name in NAMES.items()
    ]
    return "\n".join(lines)


def main() -> None:
    """Draw and fill."""
    stored = Path(sys.argv[1])
    laws = json.loads(stored.read_text(encoding="utf-8"))["laws"]
    with house_style():
        picture, (axes,) = canvas((1.9 * COLUMN[0], 2.6))
        shown = [key for key in NAMES if key != "draft"]
        looks = (("entropy_less_target", DARK, "o"), ("cross_entropy_less_target", MIDDLE, "s"))
        for place, (key, color, marker) in enumerate(looks):
            for index, name in enumerate(shown):
                middle, low, high = laws[name][key]
                label = f"{key.split('_less')[0].replace('_', '-')} less the target's" if not index else None
                axes.errorbar(
                    [middle], [index + 0.24 * place - 0.12], xerr=[[middle - low], [high - middle]],
                    fmt=marker, color=color, label=label,
                )  # fmt: skip
        axes.axvline(0.0, color="0.4", linewidth=0.7)
        axes.set_yticks(range(len(shown)), [NAMES[name] for name in shown])
        axes.invert_yaxis()
        axes.set_xlabel("nats a token")
        picture.legend(loc="outside lower center", ncols=2)
        save(picture, stored.with_suffix(".svg"))
    page = stored.with_name("README.md")
    text = page.read_text(encoding="utf-8")
    head = "|---|---:|---:|---:|\n"
    before, after = text.split(head)
    rest = re.sub(r"^(<!-- rows -->\n|(\|[^\n]*\n)+)", "", after)
    page.write_text(f"{before}{head}{rows(laws)}\n{rest}", encoding="utf-8")


if __name__ == "__main__":
    main()
