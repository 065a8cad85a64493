"""Tell what a device downloads for each version of a target, by the files of this project: Table I, measured.

The bytes are those of ``figures/studies/synchronisation``, which says which files they are of.
"""

from __future__ import annotations

from math import ceil
from pathlib import Path
from typing import Any

from hlmtheory.draft_length import synchronisation_time
from validation.models.sync_bytes import RATES_BPS
from validation.plots.common.record import Table
from validation.plots.common.stored import read

STORED = Path(__file__).parent / "synchronised.json"
EACH = "each version"
PLAIN, ALIGNED = "plain draft, trained anew", "aligned draft with the shared block and head"


def stored() -> dict[str, Any]:
    """Return the measured bytes: ``target_bytes`` and ``rows``."""
    return read(STORED)


def measured_table() -> Table:
    """Return bytes, and seconds over each network at its whole rate, of what is sent."""
    found = stored()
    rows = []
    for row in found["rows"]:
        seconds = [float(synchronisation_time(float(row["bytes"]), rate)) for rate in RATES_BPS.values()]
        share = row["bytes"] / found["target_bytes"]
        rows.append(
            (row["what"], row["when"], f"{row['bytes']:,}", f"{share:.1%}", *(f"{value:.3g} s" for value in seconds))
        )
    heads = ("what is downloaded", "when", "bytes", "of the target", *RATES_BPS)
    return Table("Measured on the files of the built-in target's drafts and versions", heads, tuple(rows))


def bytes_of(what: str) -> int:
    """Return the bytes of one row."""
    return next(int(row["bytes"]) for row in stored()["rows"] if row["what"] == what)


def break_even() -> int:
    """Return after how many versions the aligned draft has saved what it costs, beside a plain draft trained anew."""
    return ceil(bytes_of(ALIGNED) / bytes_of(PLAIN))


def measured_caption() -> str:
    """Say what the aligned draft saves, and from when on."""
    plain, once = bytes_of(PLAIN), bytes_of(ALIGNED)
    return (
        f"On the built-in target's files, a plain draft that is trained anew is {plain / 1e6:.2f} MB for each version. "
        f"The aligned draft is {once / 1e6:.2f} MB once, with the block and the head that it shares, and 0 for a "
        f"version that keeps them. So it is less from version {break_even()} on."
    )
