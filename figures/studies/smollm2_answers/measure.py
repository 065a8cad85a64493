"""Score GSM8K by answer on SmolLM2-135M-Instruct: the target alone, two lossy methods and the draft alone, greedy.

    PYTHONPATH=. python3 figures/studies/smollm2_answers/measure.py DATA WORK answers.json [--prompts 48]

DATA holds ``gsm8k/``, WORK the journals of the texts; a run that was stopped goes on. Each question of GSM8K's test split
is a turn of the user. A text has at most 200 tokens; the draft is the small one. At temperature 0 a truncated
distribution is one token, so CU-HLM writes what U-HLM writes, and the verified methods of c-sqs what the target writes:
only methods that skip the verification are lossy. An answer is read as ``validation.decoding.right_answers`` reads it.
The interval of the share of right answers is the exact one of the binomial law.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest

from validation.collection.prompts import Prompt
from validation.decoding.accuracy import texts_of
from validation.decoding.methods.base import Method
from validation.decoding.methods.single_draft import CHOSEN_THRESHOLD, DraftOnly, RandHlm, TargetOnly, UHlm
from validation.decoding.records import GenerationRecord
from validation.decoding.right_answers import is_right, number_of, right_answers
from validation.decoding.sweep import sweep
from validation.models.pair import load_pair

SOURCE, HELD_OUT = "GSM8K", "test"
SEED, NEW_TOKENS, GROUP = 20261127, 200, 12
SETTINGS: dict[str, Any] = {"temperature": 0.0, "new_tokens": NEW_TOKENS, "batch": GROUP, "seed": SEED, "times": (0.0, 0.0)}


def questions(data: Path, count: int) -> list[Prompt]:
    """Return the first questions of a random order of the test split."""
    with gzip.open(data / "gsm8k" / "dev.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [row for row in map(json.loads, file) if row["split"] == HELD_OUT]
    order = np.random.default_rng(SEED).permutation(len(rows))[:count]
    return [Prompt(rows[i]["id"], rows[i]["prompt"], SOURCE, rows[i]["reference"]) for i in order]


def methods() -> list[Method]:
    """Return the methods, the target first."""
    return [TargetOnly(), UHlm(CHOSEN_THRESHOLD, f"U-HLM at {CHOSEN_THRESHOLD:g}"), RandHlm(0.5), DraftOnly()]


def scored(records: Sequence[GenerationRecord], texts: Sequence[str], prompts: Sequence[Prompt]) -> dict[str, Any]:
    """Return how many texts give the right answer, with the exact interval, and how many can be read at all."""
    right = right_answers(prompts)
    rows = list(zip(records, texts, prompts, strict=True))
    found = [is_right(SOURCE, text, right[one.id], finished=record.ended) for record, text, one in rows]
    read = [number_of(text, finished=record.ended) is not None for record, text, _ in rows]
    ends = binomtest(sum(found), len(found)).proportion_ci(0.95, method="exact")
    skipped = sum(record.total("skipped") for record in records)
    return {
        "right": sum(found),
        "texts": len(found),
        "share": sum(found) / len(found),
        "interval": [float(ends.low), float(ends.high)],
        "with a readable answer": sum(read),
        "ended": sum(record.ended for record in records),
        "tokens": sum(len(record.tokens) for record in records),
        "skipped": int(skipped),
        "right ones": [one.id for one, yes in zip(prompts, found, strict=True) if yes],
    }


def main() -> None:
    """Decode group by group, so that each method has the same questions, and store the counts; no text is stored.

    A group is smaller where the work was stopped; greedy texts do not depend on it but for rounding.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--prompts", type=int, default=48)
    given = parser.parse_args()
    pair, prompts = load_pair("smollm2-small", chat=True), questions(given.data, given.prompts)
    start = time.process_time()
    for count in range(GROUP, given.prompts + GROUP, GROUP):
        some, found = prompts[:count], {}
        for method in methods():
            records = sweep(pair, some, [method], given.work, **SETTINGS)
            found[method.name] = scored(records, texts_of(pair, records), some)
            print(len(some), method.name, found[method.name]["right"], f"{time.process_time() - start:.0f} CPU s")
        about = {"pair": pair.name, "source": f"{SOURCE}, {HELD_OUT}", "temperature": 0.0, "new_tokens": NEW_TOKENS}
        result = about | {"seed": SEED, "prompts": [one.id for one in some], "methods": found}
        given.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
