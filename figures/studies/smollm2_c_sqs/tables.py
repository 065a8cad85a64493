"""What c-sqs's figures say of SmolLM2 and of the built-in pair: tables, and Fig. 2.

    PYTHONPATH=. python3 figures/studies/smollm2_c_sqs/tables.py

Reads ``texts.json``, which ``figures/studies/c_sqs/decode_texts.py WORK smollm2-small COUNT`` wrote, and of the stored
texts of the built-in pair the same methods and temperatures. Writes ``tables.json`` and ``tables.svg``, and prints the
README's tables.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from validation.plots.c_sqs.numbers import (
    ADAPTIVE,
    FIXED,
    MAIN,
    RATE_BPS,
    Interval,
    crossovers,
    curves_of,
    interval,
    latency,
    resampling,
)
from validation.plots.c_sqs.pictures import paint
from validation.plots.c_sqs.runs import THRESHOLDS, Cell, CSqsStudy
from validation.plots.c_sqs.texts_file import read
from validation.plots.common.record import plain
from validation.plots.common.stored import ROOT
from validation.plots.common.style import house_style, save

HERE = Path(__file__).parent
FILES = {"SmolLM2": HERE / "texts.json", "built-in": ROOT / "validation" / "plots" / "c_sqs" / "texts.json"}
STORED, PICTURE = HERE / "tables.json", HERE / "tables.svg"
METRICS = ("latency", "resampling")


def studies() -> dict[str, CSqsStudy]:
    """Return both studies, with the methods and the temperatures that both have."""
    found = {name: read(json.loads(file.read_text(encoding="utf-8"))) for name, file in FILES.items()}
    own = found["SmolLM2"]
    builtin = found["built-in"]
    cells = {key: builtin.cells[key] for key in own.cells}
    found["built-in"] = replace(builtin, cells=cells, scale=replace(builtin.scale, temperatures=own.scale.temperatures))
    return found


def ratio(study: CSqsStudy, cell: Cell, metric: str) -> Any:
    """Return numerator and denominator of a metric, by text."""
    return resampling(cell) if metric == "resampling" else latency(cell, study.times, RATE_BPS)


def ends(one: Interval) -> list[float | None]:
    """Return a number and its interval, rounded."""
    return [None if value is None else plain(value, 3) for value in (one.value, one.low, one.high)]


def measure(study: CSqsStudy) -> dict[str, Any]:
    """Return each curve with its intervals, the effect of the adaptation, and the pairs that cross."""
    names = list(dict.fromkeys(name for name, _ in study.cells))
    temperatures = study.scale.temperatures
    curves = {
        name: {
            metric: [ends(interval([ratio(study, study.cells[name, t], metric)])) for t in temperatures]
            for metric in METRICS
        }
        for name in names
    }
    drafts = {
        name: [plain(float(cell.totals("drafted").sum() / cell.rounds.sum()), 3) for cell in by_t]
        for name, by_t in ((name, [study.cells[name, t] for t in temperatures]) for name in names)
    }
    adapted = {
        f"{threshold:g}": {
            metric: [
                ends(interval([ratio(study, study.cells[by[threshold], t], metric) for by in (ADAPTIVE, FIXED)]))
                for t in temperatures
            ]
            for metric in METRICS
        }
        for threshold in THRESHOLDS
        if {ADAPTIVE[threshold], FIXED[threshold]} <= set(names)
    }
    about = {"pair": study.pair, "vocabulary": study.vocabulary, "prompts": study.scale.prompts}
    times = {name: getattr(study.times, name) for name in ("draft_s", "target_s", "token_s")}
    return about | {
        "new_tokens": study.scale.new_tokens,
        "temperatures": list(temperatures),
        "times": times,
        "curves": curves,
        "drafts_a_round": drafts,
        "adaptive_less_fixed": adapted,
        "crossovers": crossovers(study),
    }


def draw(study: CSqsStudy) -> None:
    """Draw Fig. 2 with the methods that were decoded."""
    there = {name for name, _ in study.cells}
    with house_style():
        panels = [(metric, [name for name in MAIN if name in there]) for metric in ("latency", "resampling")]
        save(paint(curves_of(study, panels)), PICTURE)


def told(value: list[Any], spec: str) -> str:
    """Format a number and its interval."""
    return Interval(*value).told(spec).replace("-", "−")


def markdown(found: dict[str, Any]) -> Iterator[str]:
    """Yield the rows of the README's tables."""
    for name in found["SmolLM2"]["curves"]:
        cells = [  # the intervals of the built-in pair are in its own study
            told(found[pair]["curves"][name][metric][place], spec).partition(" (" if pair == "built-in" else "\0")[0]
            for metric, spec in (("latency", ".1f"), ("resampling", ".2f"))
            for pair in FILES
            for place in (0, -1)
        ]
        yield f"| {name} | {' | '.join(cells)} |"
    for threshold in found["SmolLM2"]["adaptive_less_fixed"]:
        cells = [
            told(found[pair]["adaptive_less_fixed"][threshold][metric][-1], spec)
            for metric, spec in (("latency", "+.1f"), ("resampling", "+.2f"))
            for pair in FILES
        ]
        yield f"| {threshold} | {' | '.join(cells)} |"
    for place, one in enumerate(found["SmolLM2"]["crossovers"]):
        if one["times"] not in ("", "as measured"):
            continue
        link = f"{one['rate_bps'] / 1e6:g} Mbit/s" if one["rate_bps"] else "–"
        cells = []
        for pair in FILES:
            count = found[pair]["crossovers"][place]
            cells.append(f"{count['crossing']} ({count['clear']}), {count['k']}, {count['c']}")
        yield f"| {one['metric']} | {link} | {' | '.join(cells)} |"


def main() -> None:
    """Write the numbers and the picture, and print the rows."""
    by_pair = studies()
    found = {name: measure(study) for name, study in by_pair.items()}
    STORED.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    draw(by_pair["SmolLM2"])
    print("\n".join(markdown(found)))


if __name__ == "__main__":
    main()
