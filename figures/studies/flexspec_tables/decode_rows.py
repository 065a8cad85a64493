"""Decode flexspec's prompt sets by every method, and store what its tables count: rounds, passes, bytes of each text.

    PYTHONPATH=. nice -n 5 python3 figures/studies/flexspec_tables/decode_rows.py DATA WORK

DATA holds the prompt sets, WORK the journals of the decoded texts. A killed run continues where it stopped. The counts
of all texts that are there go to ``rows.json``; no text does. ``--models smollm2`` decodes with versions of SmolLM2, for
the study ``smollm2_versions``.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from settings import BASE, BUILTIN, MAX_DRAFT_LENGTH, PLAIN, SEED, SETS, SETUPS, TEMPERATURES, Setup, pair_of

from validation.collection.prompts import Prompt
from validation.decoding.methods.single_draft import Hlm
from validation.decoding.records import GenerationRecord
from validation.decoding.sweep import read_records, sweep
from validation.plots.common import stored
from validation.training.texts import task_prompts

FIELDS = ("drafted", "accepted", "resampled", "draft_passes", "target_passes", "bytes", "down_bytes")
"""Of a text, after its tokens and its rounds."""


def prompts_of(data: Path, per_set: int) -> list[Prompt]:
    """Return the prompts of each set: the same ones in every run, drawn once."""
    rows = [(row["source"], row["id"], row["prompt"]) for row in task_prompts(data)]
    with gzip.open(data / "humaneval" / "dev.jsonl.gz", "rt", encoding="utf-8") as file:
        rows += [("HumanEval", row["id"], row["prompt"]) for row in map(json.loads, file)]
    found = []
    for name in SETS:
        own = [row for row in rows if row[0] == name]
        chosen = np.sort(np.random.default_rng(SEED).permutation(len(own))[:per_set])
        found += [Prompt(own[i][1], own[i][2], name) for i in chosen]
    return found


def decode_all(setup: Setup, data: Path, work: Path, chosen: Sequence[str], left_out: Sequence[str]) -> None:
    """Decode what is missing: a method that follows the rate over its network, every other one without a link."""
    prompts = prompts_of(data, setup.per_set)
    for version, name, temperature in product(setup.versions, setup.drafts, TEMPERATURES):
        pair = pair_of(setup, version, name) if not chosen or f"{version}, {name}" in chosen else None
        if pair is None:
            continue
        for method, link in setup.methods(version, name, temperature):
            if method.name.startswith(tuple(left_out)):
                continue
            print(version, name, temperature, method.name, flush=True)
            sweep(
                pair,
                prompts,
                [method],
                work / f"{version}, {name}" / f"{temperature:g}",
                links=[link] if link else [],
                temperature=temperature,
                top_p=TEMPERATURES[temperature],
                new_tokens=setup.new_tokens,
                batch=setup.batch,
                seed=SEED,
                times=(0.0, 0.0),
            )


def counts(record: GenerationRecord) -> list[int]:
    """Return tokens and rounds of a text, and the sums of :data:`FIELDS`."""
    return [len(record.tokens), len(record.rounds), *(int(record.total(field)) for field in FIELDS)]


def flags(record: GenerationRecord) -> str:
    """Return for each position whether its draft is accepted, as 1 or 0; then ``.`` if the text ended by itself."""
    return "".join(str(one.accepted) for one in record.rounds) + "." * record.ended


def collect(setup: Setup, data: Path, work: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the rows and the flags of all methods whose texts are complete."""
    order = {prompt.id: i for i, prompt in enumerate(prompts_of(data, setup.per_set))}
    rows, shown = [], []
    for version, name, temperature in product(setup.versions, setup.drafts, TEMPERATURES):
        folder = work / f"{version}, {name}" / f"{temperature:g}"
        groups: dict[tuple[str, str], list[GenerationRecord]] = {}
        for record in sorted(read_records(folder) if folder.exists() else [], key=lambda one: order[one.prompt]):
            groups.setdefault((record.method, record.link), []).append(record)
        for (method, link), records in groups.items():
            if len(records) < len(order):
                continue
            key = {"version": version, "temperature": temperature, "draft": name}
            rows.append(key | {"method": method, "link": link, "texts": [counts(record) for record in records]})
            if method == Hlm.name:
                shown.append(key | {"texts": [flags(record) for record in records]})
    return rows, shown


def with_kept(own: list[dict[str, Any]], stored: list[dict[str, Any]], setup: Setup) -> list[dict[str, Any]]:
    """Return one's own rows or flags and those that only the store has, in the order of versions and temperatures."""

    def key(row: dict[str, Any]) -> list[Any]:
        return [value for name, value in row.items() if name != "texts"]

    found = {str(key(row)): row for row in stored} | {str(key(row)): row for row in own}
    order = list(setup.versions)
    return sorted(found.values(), key=lambda row: (order.index(row["version"]), row["temperature"]))


def write(setup: Setup, prompts: Sequence[Prompt], rows: list[dict[str, Any]], shown: list[dict[str, Any]]) -> None:
    """Write the counts of all texts, one method a line."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    option = "" if setup is BUILTIN else f" --models {setup.option}"
    about = {
        "command": f"python3 figures/studies/flexspec_tables/decode_rows.py DATA WORK{option}",
        "commit": commit,
        "new_tokens": setup.new_tokens,
        "seed": SEED,
        "top_p": {f"{temperature:g}": top_p for temperature, top_p in TEMPERATURES.items()},
        "max_draft_length": MAX_DRAFT_LENGTH,
        "vocabulary": pair_of(setup, BASE, PLAIN).vocabulary,
        "fields": ["tokens", "rounds", *FIELDS],
        "prompts": [{"id": prompt.id, "source": prompt.source} for prompt in prompts],
    }
    parts = [f'"about": {json.dumps(about)}']
    for name, values in (("rows", rows), ("flags", shown)):
        parts.append(f'"{name}": [\n' + ",\n".join(json.dumps(one, ensure_ascii=False) for one in values) + "\n]")
    file = stored.ROOT / setup.stored
    file.write_text("{" + ",\n".join(parts) + "}\n", encoding="utf-8")
    if setup.told:
        data = "GSM8K, Spec-Bench, MT-Bench, HumanEval"
        stored.record(
            setup.stored.parent.name, file, command=about["command"], models=setup.told, data=data, commit=commit
        )


def main() -> None:
    """Decode what is missing, and write the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--models", choices=SETUPS, default=BUILTIN.option)
    parser.add_argument("--only", action="append", default=[], help="only this version and draft: 'version 0, plain'")
    parser.add_argument("--without", action="append", default=[], help="leave out methods whose names begin like this")
    parser.add_argument("--count", action="store_true", help="decode nothing, only write the counts")
    parser.add_argument("--keep", action="store_true", help="keep stored counts of texts that WORK does not hold")
    options = parser.parse_args()
    setup = SETUPS[options.models]
    if not options.count:
        decode_all(setup, options.data, options.work, options.only, options.without)
    rows, shown = collect(setup, options.data, options.work)
    if options.keep:
        counts = json.loads((stored.ROOT / setup.stored).read_text(encoding="utf-8"))
        rows, shown = with_kept(rows, counts["rows"], setup), with_kept(shown, counts["flags"], setup)
    write(setup, prompts_of(options.data, setup.per_set), rows, shown)


if __name__ == "__main__":
    main()
