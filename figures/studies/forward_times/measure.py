"""Time forward passes of the built-in models for Fig. 5 of edge-sd, and store the times."""

from __future__ import annotations

import json

from validation.errors import UserError
from validation.plots import commit_of_code
from validation.plots.common.stored import ROOT, record
from validation.plots.edge_sd.stages import measure_stages

STORED = ROOT / "validation" / "plots" / "edge_sd" / "passes.json"
SEED = 1


def main() -> None:
    """Measure, and write the times, one model a line."""
    commit = commit_of_code()
    if commit is None or commit.endswith("changes"):
        raise UserError("What is stored names its commit; commit the changes of hlmtheory and validation first.")
    numbers = measure_stages(SEED)
    series = ",\n".join(json.dumps(one, ensure_ascii=False) for one in numbers.pop("series"))
    text = f'{json.dumps(numbers, ensure_ascii=False)[:-1]}, "series": [\n{series}\n]}}\n'
    STORED.write_text(text, encoding="utf-8")
    record(
        "forward_times",
        STORED,
        command="python3 figures/studies/forward_times/measure.py",
        models="the built-in pair",
        data="random tokens",
        commit=commit,
    )


if __name__ == "__main__":
    main()
