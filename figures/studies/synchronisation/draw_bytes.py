"""Draw the bytes that a device has downloaded after each version: ``draw_bytes.py synchronisation.svg``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from validation.plots.common.style import COLUMN, axis, canvas, house_style, name_axes, save
from validation.plots.flexspec.synchronised import ALIGNED, EACH, stored

VERSIONS = range(1, 13)
DRAFTS = {
    "plain draft, trained anew": ("#222222", "o"),
    ALIGNED: ("#0072B2", "s"),
    "EAGLE layer": ("#D55E00", "^"),
    "Medusa-1 heads": ("#009E73", "v"),
}


def main(picture: Path) -> None:
    """Draw one line for each way to have a draft for every version; write its numbers beside the picture."""
    lines = {}
    with house_style():
        figure, (axes,) = canvas(COLUMN)
        for row in stored()["rows"]:
            if row["what"] not in DRAFTS:
                continue
            colour, marker = DRAFTS[row["what"]]
            total = [row["bytes"] / 1e6 * (n if row["when"] == EACH else 1) for n in VERSIONS]
            label = "aligned draft" if row["what"] == ALIGNED else row["what"]
            lines[label] = [round(one, 6) for one in total]
            axes.plot(list(VERSIONS), total, color=colour, marker=marker, label=label)
        name_axes(axes, {"x": axis("versions of the target"), "y": axis("downloaded", "MB")})
        axes.legend()
        save(figure, picture)
    numbers = {"versions": list(VERSIONS), "downloaded_mb": lines}
    picture.with_suffix(".json").write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
