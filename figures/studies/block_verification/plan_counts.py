"""Compare the rounds that the plan predicts along texts with those that the loop played, token by token and by block.

PYTHONPATH=. python3 figures/studies/block_verification/plan_counts.py figures/studies/block_verification/plan_counts.json

A policy of lattice rows, K = 4, is decoded by the loop on the built-in pair, once for each rule. Along each text that
the loop wrote, ``validation.planning.rounds.expected_counts`` gives the expected rounds, from q̂ and p of its tokens
alone. The loop counts what its random numbers gave. Their difference is a mean of 0 if the prediction is exact.
Intervals are 95%, of a bootstrap over prompts.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hlmtheory.policy import DevicePolicy, LatticeRows, threshold_rule
from validation.collection.collect import encode_prompts
from validation.collection.prompts import builtin_prompts
from validation.decoding.intervals import ratio
from validation.decoding.loop import decode
from validation.decoding.methods.planned import Planned
from validation.models.pair import load_pair
from validation.planning.rounds import expected_counts

PROMPTS, NEW, LENGTH = 48, 24, 4


@torch.no_grad()
def ratios(pair: Any, policy: DevicePolicy, prompt: list[int], text: list[int]) -> np.ndarray:
    """Return q̂/p of each token of a text."""
    ids = torch.tensor([[*prompt, *text[:-1]]])
    target, draft = (model(ids).logits[0, -len(text) :].double() for model in (pair.target, pair.draft))
    rows = np.stack([policy.distribution(row) for row in draft.numpy()])
    at = np.arange(len(text)), np.array(text)
    return rows[at] / target.softmax(-1).numpy()[at]


def main(out: Path) -> None:
    """Decode, predict, and store the numbers."""
    pair, prompts = load_pair("builtin"), builtin_prompts(limit=PROMPTS)
    encoded = encode_prompts(pair, prompts, NEW)
    vocabulary = int(pair.draft(torch.tensor([[0]])).logits.shape[-1])
    result: dict[str, Any] = {"prompts": len(prompts), "new_tokens": NEW, "draft_length": LENGTH}
    for name, block in (("token by token", False), ("by block", True)):
        policy = DevicePolicy(vocabulary, 1.0, threshold_rule(LENGTH, None), LatticeRows(400, top_k=64), block=block)
        played, predicted, tokens = [], [], []
        records = decode(pair, prompts, Planned(policy), new_tokens=NEW, batch=16)
        for ids, record in zip(encoded, records, strict=True):
            along = ratios(pair, policy, list(ids), list(record.tokens))[:, None]
            counts = expected_counts(
                np.minimum(along, 1.0),
                np.zeros_like(along),
                np.array([len(along)]),
                LENGTH,
                ratio=along if block else None,
            )
            played.append(len(record.rounds))
            predicted.append(float(counts.exchanges[0]))
            tokens.append(len(along))
        loop, plan, count = (np.array(one, dtype=np.float64) for one in (played, predicted, tokens))
        result[name] = {
            "tokens_a_round_of_the_loop": astuple(ratio(count, loop)),
            "tokens_a_round_of_the_plan": astuple(ratio(count, plan)),
            "rounds_of_the_loop_over_those_of_the_plan": astuple(ratio(loop, plan)),
        }
        print(name, json.dumps(result[name]), flush=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    result["commit"] = head.stdout.strip()
    out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
