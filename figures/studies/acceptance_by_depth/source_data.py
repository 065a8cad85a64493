"""Read the acceptance data of SpecDecode-Bench/simulator, and give the times of a round that it publishes."""

import gzip
import json
from dataclasses import dataclass
from pathlib import Path

from validation.provenance import file_digest

SOURCE = "SpecDecode-Bench/simulator, data/llama3.1-8B, commit 2fdccbd61b62be339fb85fd90caf43f5e8392aa6"
LOOPS = 4_000
"""Texts of this many tokens or more are loops; five of instructcoder's have 8,192, the most that was generated."""
DATASETS = ("gsm8k", "instructcoder")
DRAFTERS = {"eagle": "EAGLE-3", "ngram": "n-gram"}

TARGET_FIXED_S, TARGET_TOKEN_S, TARGET_CACHED_S = 5.88590713e-3, 2.10103129e-5, 3.92645679e-8
EAGLE_FIXED_S, EAGLE_TOKEN_S, EAGLE_CACHED_S = 2.13526175e-3, 8.41429603e-7, 2.37768493e-9
NGRAM_SHARE = 0.005875
OVERHEAD_S = 1.20683946e-3
"""Llama-3.1-8B on an H100, from the class Llama8BH100 of the simulator's predictor.py; n-gram drafts take a share of a
target pass."""

DEVICE_DRAFT_S = 0.005
"""Time of one draft token on a device: an assumption, because the data has no device."""


@dataclass(frozen=True, slots=True)
class Request:
    """One answer: its prompt's length, and the tokens that a round emits if it begins after token t + 1."""

    prompt: int
    emitted: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RoundTimes:
    """A round of K drafts over c cached tokens takes base + cached c + draft K seconds."""

    base: float
    cached: float
    draft: float


def path_of(folder: Path, dataset: str) -> Path:
    """Return the path of a data set's file."""
    return folder / f"combined_{dataset}.jsonl.gz"


def read(path: Path, drafter: str) -> list[Request]:
    """Return the requests of a file with the accepted lengths of one drafter."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        records = map(json.loads, lines)
        return [Request(len(one["prompt_token_ids"]), tuple(one[f"acc_{drafter}"]["acc_len"])) for one in records]


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file by its name."""
    paths = [path_of(folder, dataset) for dataset in DATASETS]
    return {path.name: file_digest(path) for path in paths}


def round_times(drafter: str, round_trip: float = 0.0, *, device: bool = False) -> RoundTimes:
    """Return the time of a round: a target pass over K + 1 tokens, the drafts, the overhead and one round trip.

    >>> one = round_times("eagle", 0.02)
    >>> round(1e3 * one.base, 3), round(1e3 * one.draft, 4)
    (29.25, 0.0219)
    """
    base, cached, draft = TARGET_FIXED_S + TARGET_TOKEN_S, TARGET_CACHED_S, TARGET_TOKEN_S
    if drafter == "ngram":
        base, cached, draft = ((1.0 + NGRAM_SHARE) * value for value in (base, cached, draft))
    elif device:
        draft += DEVICE_DRAFT_S
    else:  # the simulator counts K + 1 tokens in the drafter's pass too
        base, cached, draft = base + EAGLE_FIXED_S + EAGLE_TOKEN_S, cached + EAGLE_CACHED_S, draft + EAGLE_TOKEN_S
    return RoundTimes(base + OVERHEAD_S + round_trip, cached, draft)
