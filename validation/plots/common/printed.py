"""Read the numbers and the tables that the papers print."""

from __future__ import annotations

import json
from pathlib import Path

from validation.plots.common.record import Printed

CU, U = "cu-hlm", "u-hlm"
_STORED = json.loads((Path(__file__).parents[1] / "printed_numbers.json").read_text(encoding="utf-8"))

NUMBERS: dict[str, Printed] = {
    f"{one['paper']} {one['name']}": Printed(one["what"], one["value"], one["place"]) for one in _STORED
}
"""Each printed number by paper and name; the file holds its digits, too, and the words around them."""


def value(paper: str, name: str) -> float:
    """Return one number that a paper prints.

    >>> value("u-hlm", "slope")
    0.82
    """
    return NUMBERS[f"{paper} {name}"].value
