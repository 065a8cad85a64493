"""Measure the bytes of each version and each draft on their files: the measured half of flexspec Table I.

    measure_bytes.py WORK synchronised.json

WORK holds ``pair`` (``large``, ``small``, ``aligned``), ``versions``, and if there are any ``medusa`` and ``eagle``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from validation.models.sync_bytes import anchor_bytes, measure_download

METHODS = ("lora4", "lora16", "lora64", "lora16-all", "full")
ONCE, EACH = "once", "each version"


def rows_of(work: Path) -> list[dict[str, Any]]:
    """Return one record for each thing that is sent."""
    pair, found = work / "pair", []
    parts: list[tuple[str, str, Path, int]] = [
        ("plain draft, trained anew", EACH, pair / "small", 0),
        ("aligned draft, its own part", ONCE, pair / "aligned", 0),
        ("aligned draft with the shared block and head", ONCE, pair / "aligned", anchor_bytes(pair / "large")),
    ]
    for kind, label in (("medusa", "Medusa-1 heads"), ("eagle", "EAGLE layer")):
        if any((work / kind).glob("*.safetensors")):
            parts.append((label, EACH, work / kind, 0))
    for method in METHODS:
        folders = sorted((work / "versions").glob(f"*-{method}-s1"))
        if folders:
            parts.append((f"target's {method}", EACH, folders[0], 0))
    for label, when, folder, more in parts:
        sent = measure_download(folder)
        files = sent.files | ({"shared with the target": more} if more else {})
        found.append(
            {
                "what": label,
                "when": when,
                "folder": folder.relative_to(work).as_posix(),
                "parameters": sent.parameters,
                "files": files,
                "bytes": sum(files.values()),
            }
        )
    return found


def main(work: Path, stored: Path) -> None:
    """Write the records, with the target's bytes as a scale."""
    found = {"target_bytes": measure_download(work / "pair" / "large").bytes, "rows": rows_of(work)}
    stored.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for row in found["rows"]:
        print(f"{row['what']:48} {row['when']:14} {row['bytes']:>12,}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
