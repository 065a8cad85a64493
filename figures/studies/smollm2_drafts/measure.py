"""Measure each draft of SmolLM2-135M-Instruct: acceptance on held-out texts, and the time for a token.

    PYTHONPATH=. python3 figures/studies/smollm2_drafts/measure.py CORPUS DRAFTS smollm2.json

The texts are the first ``--texts`` of the corpus' held-out shard, the positions those whose next token the target drew.
Acceptance is the mean of 1 - TV(q, p) at temperature 1, both models in float32 over the whole vocabulary, with the
standard error over texts. Time is CPU time of a pass of one token with a filled cache on one thread, the median of 40
behind 64 tokens. It does not count what else runs on the machine, but a shared cache of the processor still slows it.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from validation.models import drafts, smollm2
from validation.models.machine import machine
from validation.models.rounding import SUFFIX, round_weights
from validation.models.sources import ModelSource
from validation.training.smollm2_corpus import HELD_OUT, KINDS, shard_file

BEHIND, PASSES = 64, 40


def milliseconds(model: Any, tokens: torch.Tensor) -> float:
    """Return the median CPU time of a pass of one token with the cache filled."""
    times = []
    with torch.inference_mode():
        cache = model(tokens[None, :BEHIND], use_cache=True, logits_to_keep=1).past_key_values
        for place in range(BEHIND, BEHIND + PASSES):
            began = time.process_time()
            model(tokens[None, place : place + 1], past_key_values=cache, use_cache=True)
            times.append(time.process_time() - began)
    return round(1e3 * float(np.median(times)), 2)


def rows(model: Any, tokens: torch.Tensor, first: int) -> torch.Tensor:
    """Return the model's distributions from position ``first`` on."""
    with torch.inference_mode():
        found: torch.Tensor = model(tokens[None]).logits[0, first:].softmax(dim=-1)
    return found


def acceptance(model: Any, texts: list[torch.Tensor], firsts: list[int], laws: list[torch.Tensor], kinds: Any) -> Any:
    """Return the mean over positions with its standard error over texts, and the means by the texts' kind."""
    sums, counts = np.zeros(len(texts)), np.array([len(law) for law in laws])
    for i, (text, first, law) in enumerate(zip(texts, firsts, laws, strict=True)):
        sums[i] = torch.minimum(rows(model, text, first), law).sum().item()
    mean = sums.sum() / counts.sum()
    spread = np.sqrt(np.square(sums - mean * counts).sum()) / counts.sum()
    by_kind = {
        name: round(float(sums[kinds == i].sum() / counts[kinds == i].sum()), 4)
        for i, name in enumerate(KINDS)
        if (kinds == i).any()
    }
    return {"mean": round(float(mean), 4), "standard_error": round(float(spread), 4), "by_kind": by_kind}


def load_draft(folder: Path, target: Any) -> Any:
    """Return the model of a draft's folder; an early exit gets a copy of the target at hand, which spares a reading."""
    source = ModelSource(str(folder))
    if drafts.settings(folder) is None:
        return source.load_model("float32")
    return drafts.read(folder, source.load("AutoConfig"), lambda: copy.deepcopy(target), "float32")


def main() -> None:
    """Measure, and write one JSON file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("corpus", type=Path)
    parser.add_argument("drafts", type=Path, help="folder with a folder for each draft")
    parser.add_argument("out", type=Path)
    parser.add_argument("--texts", type=int, default=64)
    parser.add_argument("--only", help="measure this draft alone, and put it into the file that is there")
    given = parser.parse_args()
    torch.set_num_threads(1)
    with np.load(shard_file(given.corpus, HELD_OUT)) as shard:
        texts = [torch.from_numpy(one.astype(np.int64)) for one in shard["tokens"][: given.texts]]
        firsts = [int(n) - 1 for n in shard["prompt_tokens"][: given.texts]]
        kinds = shard["row_kinds"][: given.texts]
    target = ModelSource.parse(smollm2.NAME).load_model("float32").eval()
    laws = [rows(target, text, first) for text, first in zip(texts, firsts, strict=True)]
    found: dict[str, Any] = {"target": {"milliseconds": milliseconds(target, texts[0])}}
    folders = sorted(folder for folder in given.drafts.iterdir() if (folder / "training.json").is_file())
    if given.only:
        found, folders = json.loads(given.out.read_text(encoding="utf-8"))["models"], [given.drafts / given.only]
    for folder in folders if given.only else [None, *folders]:
        if folder is None:
            model, record = copy.deepcopy(target), {"bytes": 0}
            round_weights(model)
        else:
            model = load_draft(folder, target)
            record = json.loads((folder / "training.json").read_text(encoding="utf-8"))
        name = SUFFIX if folder is None else folder.name
        kept = {
            key: record[key]
            for key in ("bytes", "seed", "corpus_tokens", "tokens_seen", "cpu_seconds")
            if key in record
        }
        kept["acceptance"] = acceptance(model.eval(), texts, firsts, laws, kinds)
        found[name] = kept | {"milliseconds": milliseconds(model, texts[0])}
        if "acceptance_curve" in record:
            found[name]["curve"] = record["acceptance_curve"]
        print(name, json.dumps(found[name]), flush=True)
        del model
    whole = {"texts": len(texts), "positions": sum(map(len, laws)), "machine": machine(), "models": found}
    given.out.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
