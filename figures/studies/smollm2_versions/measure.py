"""Measure the acceptance of unchanged drafts against LoRA versions of SmolLM2-135M-Instruct.

    PYTHONPATH=. python3 figures/studies/smollm2_versions/measure.py DATA VERSIONS smollm2.json --drafts DRAFTS

VERSIONS holds what ``validation.training.smollm2_versions`` wrote, DRAFTS what ``validation.training.smollm2_drafts``
wrote (may be left out). Texts are held out: of GSM8K's test split, of HumanEval and the literal blocks of PEPs, and of
novels and PEPs (``general``); at most ``--length`` tokens each. For each version, set and draft: the mean of
1 - TV(q, p) over the positions against the version and against the target that was not tuned, and the TV between the
two, each with a 95% interval by a bootstrap over texts. Models run in float32. The rows of the unchanged models are
kept in float16, which moves a probability by less than 0.05%. A version that is in the file already is not measured
again.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from validation.decoding.intervals import ratio
from validation.models import drafts, smollm2
from validation.models.machine import machine
from validation.models.rounding import SUFFIX, round_weights
from validation.models.sources import ModelSource
from validation.training.texts import plain, tokens
from validation.training.versions import DOMAINS, load_version

SETS = ("math", "code", "general")
RESAMPLES = 4000
Texts = dict[str, list[np.ndarray]]
Rows = dict[str, list[torch.Tensor]]


def held_out(data: Path, tokenizer: Any, count: int, length: int) -> Texts:
    """Return the tokens of held-out texts by set."""
    found: Texts = {}
    for name in SETS:
        if name == "general":
            held = plain(data)[1]
            texts = [text for both in zip(held["novels"], held["peps"], strict=False) for text in both][:count]
        else:
            long = [text for text in DOMAINS[name](data)[1] if len(text) > 200]
            texts = [long[i] for i in np.random.default_rng(6).permutation(len(long))[:count]]
        found[name] = [ids[:length] for ids in tokens(tokenizer, texts)]
    return found


def rows_of(model: Any, texts: Texts, kind: torch.dtype) -> Rows:
    """Return a model's distributions at all positions of all texts."""
    with torch.inference_mode():
        return {
            name: [model(torch.from_numpy(ids)[None]).logits[0].float().softmax(-1).to(kind) for ids in each]
            for name, each in texts.items()
        }


def overlaps(law: torch.Tensor, other: torch.Tensor) -> float:
    """Return Σ over positions of Σ_v min(p, q)."""
    return float(torch.minimum(law, other.float()).sum())


def interval(sums: list[float], counts: list[int]) -> dict[str, float | None]:
    """Return a mean over positions with its interval over texts."""
    found = ratio(np.array(sums), np.array(counts, dtype=float), resamples=RESAMPLES, seed=1)
    ends = {"value": found.value, "low": found.low, "high": found.high}
    return {name: None if end is None else round(float(end), 4) for name, end in ends.items()}


def compare(version: Any, texts: Texts, base: Rows, by_draft: dict[str, Rows]) -> dict[str, Any]:
    """Return drift and acceptance of a version on each set."""
    found: dict[str, Any] = {}
    for name, each in texts.items():
        counts = [len(ids) for ids in each]
        with torch.inference_mode():
            laws = [version(torch.from_numpy(ids)[None]).logits[0].float().softmax(-1) for ids in each]
        moved = [count - overlaps(law, old) for law, old, count in zip(laws, base[name], counts, strict=True)]
        record: dict[str, Any] = {"texts": len(each), "positions": sum(counts), "tv": interval(moved, counts)}
        record["drafts"] = {}
        for draft, rows in by_draft.items():
            after = [overlaps(law, q) for law, q in zip(laws, rows[name], strict=True)]
            before = [overlaps(old.float(), q) for old, q in zip(base[name], rows[name], strict=True)]
            lost = [one - other for one, other in zip(before, after, strict=True)]
            record["drafts"][draft] = {
                "accept": interval(after, counts),
                "accept_version_0": interval(before, counts),
                "loss": interval(lost, counts),
            }
        found[name] = record
    return found


def unchanged(target: Any, folder: Path | None) -> dict[str, Callable[[], Any]]:
    """Return functions that make the drafts, by name."""

    def rounded() -> Any:
        model = copy.deepcopy(target)
        round_weights(model)
        return model.eval()

    def read(place: Path) -> Any:
        return drafts.read(place, ModelSource(str(place)).load("AutoConfig"), lambda: copy.deepcopy(target), "float32")

    made: dict[str, Callable[[], Any]] = {SUFFIX: rounded}
    for place in sorted(folder.iterdir()) if folder else []:
        if drafts.settings(place) is not None:
            made[place.name] = lambda place=place: read(place).eval()
    return made


def main() -> None:
    """Measure the versions that are missing in the file, one after another."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("versions", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--drafts", type=Path)
    parser.add_argument("--texts", type=int, default=8, help="of each set")
    parser.add_argument("--length", type=int, default=128)
    given = parser.parse_args()
    torch.set_num_threads(1)
    whole = json.loads(given.out.read_text(encoding="utf-8")) if given.out.exists() else {"versions": {}}
    records = [one for one in sorted(given.versions.glob("*/version.json")) if one.parent.name not in whole["versions"]]
    source = ModelSource.parse(smollm2.NAME)
    target = source.load_model("float32").eval()
    texts = held_out(given.data, source.load_tokenizer(), given.texts, given.length)
    base = rows_of(target, texts, torch.float16)
    by_draft = {name: rows_of(make(), texts, torch.float16) for name, make in unchanged(target, given.drafts).items()}
    del target
    for record in records:
        began = time.process_time()
        recipe = json.loads(record.read_text(encoding="utf-8"))
        version = load_version(record.parent, smollm2.NAME)
        kept = ("domain", "rank", "seed", "steps", "rate", "tokens", "own_parameters", "cpu_seconds", "keeps_the_anchor")
        whole["versions"][record.parent.name] = {
            **{key: recipe[key] for key in kept},
            "first_loss": recipe["losses"][0],
            "last_losses": round(float(np.mean(recipe["losses"][-10:])), 4),
            "sets": compare(version, texts, base, by_draft),
        }
        whole |= {"texts": given.texts, "length": given.length, "resamples": RESAMPLES, "machine": machine()}
        part = given.out.with_suffix(".part")
        part.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
        os.replace(part, given.out)
        print(record.parent.name, f"{time.process_time() - began:.1f} CPU s", flush=True)


if __name__ == "__main__":
    main()
