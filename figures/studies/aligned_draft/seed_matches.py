"""Does a draft need an update when its target evolves, if drafts come from a shared seed? flexspec's Table II by matches.

    PYTHONPATH=. python3 figures/studies/aligned_draft/seed_matches.py DATA WORK seed_matches.json

Trains versions of the built-in target on GSM8K and on code (LoRA of rank 16, all weights, all weights with more drift; three
seeds each) and, for each, a draft anew, as ``evolve.py`` does. On held-out texts of the domain it counts,
for each draft: 1 - TV, what rejection sampling accepts, and the match probability of a shared seed; against the version and
against version 0. DATA and WORK are those of ``evolve.py``. What is already trained is not trained again.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from evolve import FULL_RATE, LORA_RATE, STEPS, _some, distil
from measure import Bench, rows_of
from transformers import AutoTokenizer

from hlmtheory.shared_seed import match_probability
from validation.training.texts import tokens
from validation.training.versions import DOMAINS, Update, load_version, train_version

REGIMES = {"lora16": ("lora16", STEPS, LORA_RATE), "full": ("full", STEPS, FULL_RATE), "hot": ("full", 4 * STEPS, 3 * FULL_RATE)}
SEEDS = (1, 2, 3)


def trained(data: Path, work: Path) -> list[tuple[str, str, Path, Path]]:
    """Return regime, domain and folders of each version and of its draft anew; train what is missing."""
    tokenizer, found = AutoTokenizer.from_pretrained(work / "pair/large"), []
    for domain in ("math", "code"):
        learned = tokens(tokenizer, _some(DOMAINS[domain](data)[0]))
        for regime, (method, steps, rate) in REGIMES.items():
            for seed in SEEDS:
                update = Update(domain=domain, method=method, seed=seed, steps=steps, rate=rate)
                version, anew = work / regime / update.name, work / "anew" / regime / update.name
                if not (version / "version.json").exists():
                    train_version(update, work / "pair/large", data, work / regime)
                if not (anew / "config.json").exists():
                    distil(load_version(version, work / "pair/large"), anew, work / "pair/small", learned, seed)
                found.append((regime, domain, version, anew))
                print(regime, update.name, flush=True)
    return found


def counted(target: torch.Tensor, draft: torch.Tensor) -> dict[str, float]:
    """Return the sums over a text's positions of 1 - TV and of the match probability."""
    p, q = (rows.double().numpy() for rows in (target, draft))
    return {"rejection": float(np.minimum(p, q).sum()), "shared_seed": float(match_probability(p, q).sum())}


def compared(bench: Bench, domain: str, version: Path, anew: Path) -> dict[str, Any]:
    """Return the mean over the positions of held-out texts, by draft and target."""
    model, fresh = load_version(version, bench.work / "pair/large"), Bench._draft(anew)
    sums: dict[str, Any] = {}
    positions, moved = 0, 0.0
    for ids, base, drafts in bench.on(domain):
        here = rows_of(model, ids)
        positions += len(here)
        moved += float(0.5 * (here - base).abs().sum())
        for name, q in {**drafts, "anew": rows_of(fresh, ids)}.items():
            for target, p in (("version", here), ("version 0", base)):
                at = sums.setdefault(name, {}).setdefault(target, {"rejection": 0.0, "shared_seed": 0.0})
                for rule, value in counted(p, q).items():
                    at[rule] += value
    means = {
        name: {t: {rule: round(value / positions, 5) for rule, value in rules.items()} for t, rules in by.items()}
        for name, by in sums.items()
    }
    return {"positions": positions, "drift": round(moved / positions, 5), "drafts": means}


def main() -> None:
    """Train, count, and write."""
    data, work, out = (Path(word) for word in sys.argv[1:4])
    torch.set_num_threads(1)
    folders = trained(data, work)
    with torch.no_grad():
        bench = Bench(data, work)
        rows = [
            {"regime": regime, "domain": domain, "version": version.name, **compared(bench, domain, version, anew)}
            for regime, domain, version, anew in folders
        ]
    out.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
