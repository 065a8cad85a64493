"""Tokens a pass of the rivals of flexspec on the built-in pair, and an audit of each; run by hand.

PYTHONPATH=. python3 figures/studies/rivals/measure.py MODELS WORK [--audits]

MODELS holds the folders ``medusa`` and ``eagle`` (``python -m validation.training.heads``), WORK the journals of the
texts. The counts go to ``rivals.json``, the audits to ``audits.json``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from validation.audit import ModelLaw, Processors, audit_sampler
from validation.audit.models import FLOAT32
from validation.audit.samplers import method_sampler
from validation.collection.collect import encode_prompts
from validation.collection.prompts import Prompt, builtin_prompts
from validation.decoding.intervals import ratio
from validation.decoding.methods.base import Method
from validation.decoding.methods.heads import Eagle2, EagleSampled, Medusa, MedusaTypical
from validation.decoding.methods.multi_draft import Dssd, FixedLength, Lookahead, PromptLookup
from validation.decoding.methods.single_draft import CloudOnly
from validation.decoding.methods.trees import DraftTreeSd, NgramLookahead
from validation.decoding.records import GenerationRecord
from validation.decoding.sweep import sweep
from validation.decoding.tree_defects import with_tree_defect
from validation.models.pair import load_pair

HERE = Path(__file__).parent
TEMPERATURES = (0.0, 1.0)
NEW_TOKENS, EVERY, SEED = 64, 8, 20261123
AUDIT_DRAWS, DEPTH, LEVEL, EPSILON = 2_000, 4, 0.001, 0.05
AUDITS = HERE / "audits.json"
DEFECTS = ("pruned", "first_nodes_kept")


def methods(models: Path) -> list[Method]:
    """Return the rivals, with the drafts of a round as in their tables."""
    return [
        CloudOnly(),
        FixedLength(4),
        Dssd(4),
        PromptLookup(4),
        Lookahead(4),
        NgramLookahead(),
        DraftTreeSd(),
        Medusa(models / "medusa"),
        MedusaTypical(models / "medusa"),
        Eagle2(models / "eagle"),
        EagleSampled(models / "eagle"),
    ]


def some_prompts() -> list[Prompt]:
    """Return every eighth of the built-in held-out prompts: 30 of GSM8K, 5 of PEPs and 5 of novels."""
    return builtin_prompts()[::EVERY]


def counts(records: Sequence[GenerationRecord], plain: Sequence[GenerationRecord]) -> dict[str, Any]:
    """Return the numbers of one method at one temperature; ``plain`` are the target's own texts."""
    total = {name: np.array([record.total(name) for record in records]) for name in ("bytes", "down_bytes", "drafted")}
    tokens = np.array([len(record.tokens) for record in records], dtype=np.float64)
    passes = np.array([record.total("target_passes") for record in records])
    accepted = np.array([record.total("accepted") for record in records])
    found: dict[str, Any] = {"texts": len(records), "tokens": int(tokens.sum()), "passes": int(passes.sum())}
    for name, above, below in (
        ("tokens_per_pass", tokens, passes),
        ("accepted_per_pass", accepted, passes),
        ("drafts_per_pass", total["drafted"], passes),
        ("bytes_up_per_token", total["bytes"], tokens),
        ("bytes_down_per_token", total["down_bytes"], tokens),
    ):
        value = ratio(above, below)
        found[name] = [round(float(one), 4) for one in (value.value, value.low, value.high) if one is not None]
    if records[0].temperature == 0:
        same = sum(record.tokens == other.tokens for record, other in zip(records, plain, strict=True))
        found["greedy_texts_of_the_target_alone"] = same
    return found


def measure(models: Path, work: Path) -> None:
    """Decode every rival at both temperatures and store the counts."""
    pair, prompts = load_pair("builtin"), some_prompts()
    sources = sorted({prompt.source for prompt in prompts})
    rows = []
    for temperature in TEMPERATURES:
        plain: list[GenerationRecord] = []
        for method in methods(models):
            began = time.process_time()
            records = sweep(
                pair,
                prompts,
                [method],
                work / f"t{temperature:g}",
                temperature=temperature,
                new_tokens=NEW_TOKENS,
                batch=len(prompts),
                seed=SEED,
            )
            plain = plain or records
            row = {"method": method.name, "temperature": temperature, **counts(records, plain)}
            for source in sources:
                some = [i for i, prompt in enumerate(prompts) if prompt.source == source]
                own = counts([records[i] for i in some], [plain[i] for i in some])
                row[source] = own["tokens_per_pass"]
            rows.append(row)
            print(json.dumps(row), round(time.process_time() - began), "s", flush=True)
    weights = {
        kind: json.loads((models / kind / "training.json").read_text(encoding="utf-8")) for kind in ("medusa", "eagle")
    }
    told = ("parameters", "bytes", "steps", "tokens", "cpu_seconds", "peak_memory_mb", "held_out_hits")
    store(
        "rivals.json",
        {
            "pair": "builtin",
            "new_tokens": NEW_TOKENS,
            "prompts": [prompt.id for prompt in prompts],
            "seed": SEED,
            "interval": "95%, bootstrap over prompts",
            "weights": {kind: {name: one[name] for name in told} for kind, one in weights.items()},
            "rows": rows,
        },
    )


def audits(models: Path) -> None:
    """Audit the rivals with trees, with their own random numbers, against the built-in target model at depth 4.

    Defects in EAGLE's sampled tree say what the draws suffice for. The other methods are among the exact samplers
    of ``audit_controls``. Each report is stored when it is made, and what is stored is not made again.
    """
    pair, prompts = load_pair("builtin"), some_prompts()[:1]
    ids = encode_prompts(pair, prompts, DEPTH)
    law = ModelLaw(pair.target, ids, Processors(rounding=FLOAT32), end_tokens=pair.end_tokens)
    setting = {"level": LEVEL, "epsilon": EPSILON, "depth": DEPTH, "most_draws": AUDIT_DRAWS, "seed": SEED}
    setting |= {"prompts": [prompt.id for prompt in prompts]}
    stored = json.loads(AUDITS.read_text(encoding="utf-8")) if AUDITS.exists() else {}
    rows: list[dict[str, Any]] = stored["rows"] if setting.items() <= stored.items() else []
    chosen: list[tuple[Method, str]] = [(one, "") for one in methods(models) if one.tree_nodes]
    chosen += [(EagleSampled(models / "eagle"), defect) for defect in DEFECTS]
    for method, defect in chosen:
        if any((row["method"], row.get("defect", "")) == (method.name, defect) for row in rows):
            continue
        began = time.process_time()
        with with_tree_defect(defect, method) if defect else nullcontext(method) as run:
            sampler = method_sampler(pair, run, [prompt.text for prompt in prompts], temperature=1.0, top_p=1.0)
            report = audit_sampler(
                law, sampler, draws=AUDIT_DRAWS, depth=DEPTH, level=LEVEL, epsilon=EPSILON, seed=SEED
            )
        told = ("verdict", "found_after", "draws", "at_least", "at_most_on_cells", "cells", "smallest_found")
        found = {name: getattr(report, name) for name in told}
        rows.append(
            {
                "method": method.name,
                **({"defect": defect} if defect else {}),
                **found,
                "seconds": round(time.process_time() - began),
            }
        )
        print(json.dumps(rows[-1]), flush=True)
        store(AUDITS.name, {**setting, "temperature": 1.0, "rows": rows})


def store(name: str, found: dict[str, Any]) -> None:
    """Write numbers with the commit and the command."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    command = "python3 figures/studies/rivals/measure.py MODELS WORK" + (" --audits" * (name == "audits.json"))
    (HERE / name).write_text(json.dumps({"command": command, "commit": commit, **found}, indent=1) + "\n")


def main() -> None:
    """Measure, or audit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("models", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--audits", action="store_true")
    options = parser.parse_args()
    if options.audits:
        audits(options.models)
    else:
        measure(options.models, options.work)


if __name__ == "__main__":
    sys.exit(main())
