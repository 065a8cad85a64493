"""Draw the bytes that a device has downloaded after each version: ``draw_bytes.py synchronisation.svg``."""

from __future__ import annotations

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
    """Draw one line for each way to have a draft for every version."""
    with house_style():
        figure, (axes,) = canvas(COLUMN)
        for row in stored()["rows"]:
            if row["what"] not in DRAFTS:
                continue
            colour, marker = DRAFTS[row["what"]]
            total = [row["bytes"] / 1e6 * (n if row["when"] == EACH else 1) for n in VERSIONS]
            label = "aligned draft" if row["what"] == ALIGNED else row["what"]
            axes.plot(list(VERSIONS), total, color=colour, marker=marker, label=label)
        name_axes(axes, {"x": axis("versions of the target"), "y": axis("downloaded", "MB")})
        axes.legend()
        save(figure, picture)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
