"""Write the same prompts many times by four methods, and keep what each round sends.

PYTHONPATH=. python3 figures/studies/leak/measure.py TEMPERATURE WORK

12 prompts of the built-in pair, 12 texts of each with random numbers of their own, 40 tokens a text. A line of
``WORK/METHOD-TEMPERATURE.jsonl`` is a text: the number of its prompt, its tokens, and of each round the message's bytes,
the answer's bytes, drafts, accepted drafts, the bonus token, tokens kept without verification, and passes of the draft
model. A method that is there already is not decoded again.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import torch

from hlmtheory.policy import DevicePolicy, LatticeRows, threshold_rule
from validation.collection.prompts import Prompt, builtin_prompts
from validation.decoding.loop import PAPER_TIMES, decode
from validation.decoding.methods.base import Method
from validation.decoding.methods.multi_draft import Dssd
from validation.decoding.methods.planned import Planned
from validation.decoding.methods.shared_seed import SharedSeed
from validation.decoding.methods.single_draft import CHOSEN_THRESHOLD, CuHlmOnline
from validation.models.pair import load_pair

PROMPTS = {"gsm8k": 6, "peps": 3, "novels": 3}
"""Prompts of each source: the first ones of the file."""
REPEATS, NEW_TOKENS, LENGTH, SEED = 12, 40, 4, 1
FIELDS = ("bytes", "down_bytes", "drafted", "accepted", "bonus", "skipped", "draft_passes")


def prompts() -> list[Prompt]:
    """Return the prompts, in the order of their sources."""
    every = builtin_prompts()
    return [one for name, many in PROMPTS.items() for one in [p for p in every if p.id.startswith(name)][:many]]


def methods(temperature: float, vocabulary: int) -> dict[str, Method]:
    """Return the methods, by the names of their files."""
    adaptive = LatticeRows(100, threshold=0.004)
    return {
        "shared-seed": SharedSeed(LENGTH),
        "rejection": Dssd(LENGTH),
        "lattice": Planned(DevicePolicy(vocabulary, temperature, threshold_rule(LENGTH), adaptive)),
        "cu-hlm": CuHlmOnline(CHOSEN_THRESHOLD, slope=1.0, intercept=0.0),
    }


def main() -> None:
    """Decode, and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("temperature", type=float)
    parser.add_argument("work", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    pair = load_pair("builtin")
    given.work.mkdir(parents=True, exist_ok=True)
    every = [replace(one, id=f"{one.id} {n}") for one in prompts() for n in range(REPEATS)]
    for name, method in methods(given.temperature, pair.vocabulary).items():
        file = given.work / f"{name}-{given.temperature:g}.jsonl"
        if file.exists():
            continue
        found = decode(
            pair,
            every,
            method,
            temperature=given.temperature,
            new_tokens=NEW_TOKENS,
            batch=72,
            seed=SEED,
            times=PAPER_TIMES,
        )
        lines = [
            {
                "prompt": number // REPEATS,
                "tokens": len(one.tokens),
                "rounds": [[getattr(r, field) for field in FIELDS] for r in (*one.rounds, one.last)],
            }
            for number, one in enumerate(found)
        ]
        file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        print(file, flush=True)


if __name__ == "__main__":
    main()
