"""Recompute the speedups of SpecDecode-Bench's simulator from its formulas, and compare them with its own output.

The simulator decodes B copies of a request in step, once with drafts and once without. FIXED_K drafts K tokens in every
round, ORACLE as many as will be accepted. Its n-gram drafter finds no match with a published probability if nothing
would be accepted; it draws that, and this file takes the mean. The speedup is the mean throughput of the requests with
drafts over that without. ``simulator_output.json`` holds what the simulator's own code printed for the same files.
Writes ``simulator_speedups.json``.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from source_data import (
    DATASETS,
    DRAFTERS,
    EAGLE_CACHED_S,
    EAGLE_FIXED_S,
    EAGLE_TOKEN_S,
    NGRAM_SHARE,
    OVERHEAD_S,
    TARGET_CACHED_S,
    TARGET_FIXED_S,
    TARGET_TOKEN_S,
    Request,
    digests,
    path_of,
    read,
)

from validation.plots.common.record import plain

HERE = Path(__file__).parent
OUTPUT = HERE / "simulator_output.json"
METHODS = {"FIXED_1": 1, "FIXED_3": 3, "FIXED_5": 5, "ORACLE": None}
MATCHES = {"gsm8k": 0.2, "instructcoder": 0.8}
"""Probability that an n-gram is found where nothing would be accepted, by data set, from the simulator."""
SEED, SAMPLE = 42, 300


def target_pass(cached: float, tokens: float) -> float:
    """Return the time of a pass of the target model."""
    return TARGET_FIXED_S + TARGET_TOKEN_S * tokens + TARGET_CACHED_S * cached


def plain_seconds(request: Request, batch: int) -> float:
    """Return the time of a request without drafts: the prefill and one pass a token."""
    steps, first = len(request.emitted) - 1, batch * (request.prompt + 1)
    cached = steps * first + batch * steps * (steps - 1) / 2
    decoding = steps * (TARGET_FIXED_S + TARGET_TOKEN_S * batch + OVERHEAD_S) + TARGET_CACHED_S * cached
    return target_pass(0.0, batch * request.prompt) + OVERHEAD_S + decoding


def drafted_seconds(request: Request, drafter: str, length: int | None, batch: int, match: float) -> float:
    """Return the mean time of a request with drafts; ``length`` None is the oracle."""
    total, at = target_pass(0.0, batch * request.prompt) + OVERHEAD_S, 0
    while at < len(request.emitted) - 1:
        accepted = request.emitted[at]
        sent = accepted if length is None else length + 1
        cached = batch * (request.prompt + at + 1)
        found = 1.0
        if drafter == "ngram" and accepted == 1:
            found = match if length is not None else 0.0
        # the batch has ``own`` tokens of this copy, and the mean of the others
        mean = found * sent + (1.0 - found)
        verify = target_pass(cached, batch * mean)
        if drafter == "ngram":
            drafts = found * NGRAM_SHARE * target_pass(cached, sent + (batch - 1) * mean)
        else:
            drafts = EAGLE_FIXED_S + EAGLE_TOKEN_S * sent + EAGLE_CACHED_S * cached
        total += verify + drafts + OVERHEAD_S
        at += min(accepted, sent)
    return total


def speedup(requests: Sequence[Request], drafter: str, length: int | None, batch: int, match: float) -> float:
    """Return the ratio of the mean throughputs over the simulator's sample of 300 requests.

    >>> speedup([Request(10, (3, 2, 1, 1))], "eagle", None, 1, 0.2) > 1
    True
    """
    chosen = random.Random(SEED).sample(list(requests), k=min(SAMPLE, len(requests)))
    tokens = np.array([len(one.emitted) for one in chosen])
    drafted = np.array([drafted_seconds(one, drafter, length, batch, match) for one in chosen])
    alone = np.array([plain_seconds(one, batch) for one in chosen])
    return float(np.mean(tokens / drafted) / np.mean(tokens / alone))


def main() -> None:
    """Compare all methods and batches with the simulator's output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=HERE / "simulator_speedups.json")
    given = parser.parse_args()
    theirs = json.loads(OUTPUT.read_text(encoding="utf-8"))
    rows: list[dict[str, Any]] = []
    for dataset in DATASETS:
        for drafter, name in DRAFTERS.items():
            requests = read(path_of(given.folder, dataset), drafter)
            for method, length in METHODS.items():
                for batch in theirs["batches"]:
                    ours = speedup(requests, drafter, length, batch, MATCHES[dataset])
                    told = theirs["speedups"][f"{name}, {dataset}"][method][str(batch)]
                    about = {"drafter": name, "dataset": dataset, "method": method, "batch": batch}
                    off = plain(ours / told - 1, 3)
                    rows.append(about | {"ours": plain(ours, 5), "simulator": told, "relative": off})
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    about = {
        "command": "python3 figures/studies/length_rules/simulator_speedups.py FOLDER",
        "commit": commit,
        "sha256": digests(given.folder),
        "largest_difference": max(abs(row["relative"]) for row in rows),
    }
    given.out.write_text(json.dumps(about | {"speedups": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
