"""Compare the estimate of ``hlm validate --dry-run`` with what a run of the built-in pair takes: CPU seconds and bytes."""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ESTIMATED = {
    "collect": ("starting", "writes", "reads", "storing"),
    "check": ("check",),
    "figures": ("figures",),
}
"""Words in the names of an estimate's steps, by the command that they stand for."""


def run(*words: str) -> tuple[float, str]:
    """Run a command; return its CPU seconds, with those of its processes, and its output."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "validation", *words],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def compare(size: list[str], figures: bool) -> dict[str, Any]:
    """Return estimate, measurement and their ratio for each command, the positions and the disk."""
    _, text = run("validate", "--dry-run", "--json", *size)
    estimate = json.loads(text)
    with tempfile.TemporaryDirectory() as folder:
        trace, out = str(Path(folder) / "trace"), str(Path(folder) / "out")
        taken = {"collect": run("collect", *size, "--out", trace)[0]}
        taken["check"] = run("validate", "--trace", trace, "--no-figures", "--out", out, "-q")[0]
        if figures:
            taken["figures"] = run("validate", "--trace", trace, "--out", out, "-q")[0] - taken["check"]
        bytes_taken = sum(file.stat().st_size for file in Path(trace).rglob("*") if file.is_file())
        positions = json.loads((Path(trace) / "manifest.json").read_text())["positions"]
    found = {
        name: row(sum(step["cpu_s"] for step in estimate["steps"] if any(w in step["name"] for w in words)), taken[name])
        for name, words in ESTIMATED.items()
        if name in taken
    }
    found |= {
        "positions": row(estimate["positions"], positions),
        "disk_mb": row(estimate["disk"] / 1e6, bytes_taken / 1e6),
    }
    return {"kind": "measured", "pair": "builtin", "options": size, "rows": found, "load": round(os.getloadavg()[0], 1)}


def row(estimated: float, taken: float) -> dict[str, float]:
    """Return both numbers and the estimate over what was taken."""
    return {"estimated": round(estimated, 2), "taken": round(taken, 2), "ratio": round(estimated / taken, 2)}


def main() -> None:
    """Compare and store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--positions", default="2560")
    parser.add_argument("--new-tokens", default="80")
    parser.add_argument("--figures", action="store_true", help="also draw, which takes minutes")
    given = parser.parse_args()
    size = ["--positions", given.positions, "--new-tokens", given.new_tokens]
    given.out.write_text(json.dumps(compare(size, given.figures), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
