"""Decode the prompt sets of flexspec by every method, and store the counts of each text: rounds, passes, bytes."""

import gzip
import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from figures.studies.flexspec_tables import settings as s
from figures.studies.flexspec_tables.settings import MAX_DRAFT_LENGTH, SEED, SETS, TEMPERATURES
from figures.studies.kit import given, record, stamp
from validation.collection.prompts import Prompt
from validation.decoding.methods.single_draft import Hlm
from validation.decoding.records import GenerationRecord
from validation.decoding.sweep import read_records, sweep
from validation.training.texts import task_prompts

FIELDS = ("drafted", "accepted", "resampled", "draft_passes", "target_passes", "bytes", "down_bytes")
"""Of a text, after its tokens and its rounds."""


def prompts_of(data: Path) -> list[Prompt]:
    """Return the prompts of each set: the same ones in every run, drawn once."""
    rows = [(row["source"], row["id"], row["prompt"]) for row in task_prompts(data)]
    with gzip.open(data / "humaneval" / "dev.jsonl.gz", "rt", encoding="utf-8") as file:
        rows += [("HumanEval", row["id"], row["prompt"]) for row in map(json.loads, file)]
    found = []
    for name in SETS:
        own = [row for row in rows if row[0] == name]
        chosen = np.sort(np.random.default_rng(SEED).permutation(len(own))[: s.PER_SET])
        found += [Prompt(own[i][1], own[i][2], name) for i in chosen]
    return found


def decode_all(data: Path, work: Path) -> None:
    """Decode what is missing: a method that follows the rate over its network, every other one without a link."""
    prompts = prompts_of(data)
    for version, name, temperature in product(s.VERSIONS, s.DRAFTS, TEMPERATURES):
        for method, link in s.methods(version, name):
            print(version, name, temperature, method.name, flush=True)
            sweep(
                s.pair_of(version, name),
                prompts,
                [method],
                work / f"{version}, {name}" / f"{temperature:g}",
                links=[link] if link else [],
                temperature=temperature,
                top_p=TEMPERATURES[temperature],
                new_tokens=s.NEW_TOKENS,
                batch=s.BATCH,
                seed=SEED,
                times=(0.0, 0.0),
            )


def counts(record: GenerationRecord) -> list[int]:
    """Return tokens and rounds of a text, and the sums of :data:`FIELDS`."""
    return [len(record.tokens), len(record.rounds), *(int(record.total(field)) for field in FIELDS)]


def flags(record: GenerationRecord) -> str:
    """Return for each position whether its draft is accepted, as 1 or 0; then ``.`` if the text ended by itself."""
    return "".join(str(one.accepted) for one in record.rounds) + "." * record.ended


def collect(data: Path, work: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the rows and the flags of all methods whose texts are complete."""
    order = {prompt.id: i for i, prompt in enumerate(prompts_of(data))}
    rows, shown = [], []
    for version, name, temperature in product(s.VERSIONS, s.DRAFTS, TEMPERATURES):
        folder = work / f"{version}, {name}" / f"{temperature:g}"
        groups: dict[tuple[str, str], list[GenerationRecord]] = {}
        for text in sorted(read_records(folder) if folder.exists() else [], key=lambda one: order[one.prompt]):
            groups.setdefault((text.method, text.link), []).append(text)
        for (method, link), records in groups.items():
            if len(records) < len(order):
                continue
            key = {"version": version, "temperature": temperature, "draft": name}
            rows.append(key | {"method": method, "link": link, "texts": [counts(one) for one in records]})
            if method == Hlm.name:
                shown.append(key | {"texts": [flags(one) for one in records]})
    return rows, shown


def write(prompts: Sequence[Prompt], rows: list[dict[str, Any]], shown: list[dict[str, Any]]) -> None:
    """Write the counts of all texts, one method a line, and the record of the experiment."""
    about = {
        **stamp(),
        "new_tokens": s.NEW_TOKENS,
        "seed": SEED,
        "top_p": {f"{temperature:g}": top_p for temperature, top_p in TEMPERATURES.items()},
        "max_draft_length": MAX_DRAFT_LENGTH,
        "vocabulary": s.pair_of(s.BASE, s.PLAIN).vocabulary,
        "fields": ["tokens", "rounds", *FIELDS],
        **({"target": f"target of {s.NAMED}"} if s.NAMED else {}),
        "prompts": [{"id": prompt.id, "source": prompt.source} for prompt in prompts],
    }
    parts = [f'"about": {json.dumps(about)}']
    for name, values in (("rows", rows), ("flags", shown)):
        parts.append(f'"{name}": [\n' + ",\n".join(json.dumps(one, ensure_ascii=False) for one in values) + "\n]")
    out = Path(__file__).with_name(f"{s.NAMED or 'rows'}.json")
    out.write_text("{" + ",\n".join(parts) + "}\n", encoding="utf-8")
    command = f"FLEXSPEC_PAIR={s.NAMED} " * bool(s.NAMED)
    command += "python3 figures/studies/flexspec_tables/decode_rows.py DATA WORK"
    data = "GSM8K, Spec-Bench, MT-Bench, HumanEval"
    name = f"flexspec_tables {s.NAMED}".strip()
    record(name, out, command=command, models=s.TOLD, data=data, commit=about["commit"])


def main() -> None:
    """Decode what is missing, and write the counts."""
    asked = given(__doc__, "data", "work", count=False)
    if not asked.count:
        decode_all(asked.data, asked.work)
    write(prompts_of(asked.data), *collect(asked.data, asked.work))


if __name__ == "__main__":
    main()
