"""Identify prompts by the sizes of messages alone: accuracy on held-out texts, bits, and what padding costs.

PYTHONPATH=. python3 figures/studies/leak/attack.py WORK attack.json

WORK is that of ``measure.py``. What an eavesdropper sees of a text is a row of numbers, one for each round. Three
classifiers are tried: the nearest text, naive Bayes on the number of each round, and naive Bayes on how often each
number occurs; both of the latter also use the number of rounds. The one that is best on the training texts, each
repeat left out in turn, classifies the held-out ones: three of twelve repeats of each prompt, four times.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from measure import prompts
from numpy.typing import NDArray

from hlmtheory.channel import rounds_leak, size_classes
from validation.collection.collect import encode_prompts
from validation.decoding.methods.shared_seed import SharedSeed
from validation.link.formats import Terms
from validation.link.wire import Opening, to_json
from validation.models.pair import load_pair
from validation.planning.message_length import longest_bytes
from validation.planning.positions import LATTICES, Lattice
from validation.plots.common.record import plain

Array = NDArray[Any]
Texts = list[list[float]]
REPEATS, FOLDS, NEW_TOKENS, LENGTH, VOCABULARY = 12, 4, 40, 4, 4096
MATHS = 6
"""The first prompts are of GSM8K, the others are prose."""
NONE = -1.0
"""In place of a round that a text does not have."""
BINS = 8
"""Values of a round that naive Bayes tells apart, at most: by quantiles of the training texts."""
DRAFT_S, VERIFY_S, ROUND_TRIP_S, RATES = 0.012, 0.030, 0.020, (1e5, 1e6)
RESAMPLES, SEED = 2000, 1
UP, DOWN, DRAFTED, ACCEPTED, BONUS, SKIPPED, PASSES = range(7)


def read(work: Path, name: str, temperature: str) -> list[dict[str, Any]]:
    """Return the texts of a method; drafts behind the last exchange are not seen, and take time."""
    lines = [json.loads(line) for line in (work / f"{name}-{temperature}.jsonl").read_text().splitlines()]
    return [
        line | {"rounds": np.array(line["rounds"][:-1]).reshape(-1, 7), "after": line["rounds"][-1][PASSES]}
        for line in lines
    ]


def schemes(work: Path, temperature: str) -> dict[str, tuple[Texts, list[dict[str, Any]], Texts]]:
    """Return for each scheme what is seen of each text, the texts, and the bytes sent up in each round."""
    seeded, rejected, lattice, cut = (
        read(work, name, temperature) for name in ("shared-seed", "rejection", "lattice", "cu-hlm")
    )

    def of(texts: list[dict[str, Any]], seen: Callable[[Array], Array], up: Callable[[Array], Array] | None = None) -> Any:
        bytes_of = up or (lambda r: r[:, UP])
        return [seen(t["rounds"]).tolist() for t in texts], texts, [bytes_of(t["rounds"]).tolist() for t in texts]

    ids = 12 / 8  # bytes of a token
    row = 4 * VOCABULARY + 4
    found = {
        "server with its own draft": of(seeded, lambda r: r[:, ACCEPTED] + 1, lambda r: 0 * r[:, UP]),
        "server with its own draft, padded": of(seeded, lambda r: 0 * r[:, UP], lambda r: 0 * r[:, UP]),
        "FlexSpec": of(rejected, lambda r: r[:, DOWN] + 1e6 * r[:, DRAFTED]),
        "fixed K, full rows": of(rejected, lambda r: r[:, DRAFTED], lambda r: row * r[:, DRAFTED]),
        "CU-HLM": of(cut, lambda r: r[:, UP] + ids * r[:, SKIPPED], lambda r: r[:, UP] + ids * r[:, SKIPPED]),
        "U-HLM": of(cut, lambda r: r[:, SKIPPED], lambda r: row + ids * r[:, SKIPPED]),
        "lattice": of(lattice, lambda r: r[:, UP]),
        "shared seed": of(seeded, lambda r: r[:, UP]),
        "shared seed, padded": of(seeded, lambda r: 0 * r[:, UP], lambda r: 0 * r[:, UP] + seeded_size()),
    }
    for many in (4, 2, 1):
        padded = in_classes(found["lattice"][0], many)
        found[f"lattice, {many} size{'s' if many > 1 else ''}"] = padded, lattice, padded
    return found


def seeded_size() -> int:
    """Return the bytes of a padded message of a shared seed, without the frame that the loop does not count."""
    return -(-(16 + LENGTH * 12) // 8)


def in_classes(texts: Texts, many: int) -> Texts:
    """Return the sizes, padded to the best classes of all texts and the largest message that can occur."""
    codec = LATTICES.index(Lattice(100, threshold=0.004)) + 1
    known = [size for text in texts for size in text]
    largest = longest_bytes(codec, LENGTH, VOCABULARY) + 1
    tops = size_classes([*(size + 1.0 for size in known), largest], [*np.ones(len(known)), 0.0], many).tops
    return [[float(tops[np.searchsorted(tops, size + 1)]) for size in text] for text in texts]


# --------------------------------------------------------------------------------------------------- classifiers


def table(texts: Texts) -> Array:
    """Return the texts as rows of one length."""
    longest = max(map(len, texts))
    return np.array([[*text, *[NONE] * (longest - len(text))] for text in texts])


def nearest(train: Array, label: Array, test: Array) -> Array:
    """Return the label of the nearest text: the least sum of differences, each over its spread."""
    spread = np.maximum(train[train != NONE].std(), 1e-9)
    scaled = [np.where(one == NONE, one.min() - 3 * spread, one) / spread for one in (train, test)]
    distance = np.abs(scaled[1][:, None] - scaled[0][None]).sum(axis=-1)
    return np.asarray(label[distance.argmin(axis=1)])


def _binned(train: Array, test: Array) -> tuple[Array, Array, int]:
    values = np.unique(train[train != NONE])
    if len(values) > BINS:
        values = np.unique(np.quantile(train[train != NONE], np.arange(1, BINS) / BINS))
    both = [np.where(one == NONE, len(values) + 1, np.searchsorted(values, one)) for one in (train, test)]
    return both[0], both[1], len(values) + 2


def by_round(train: Array, label: Array, test: Array) -> Array:
    """Return the likeliest label if rounds are independent, each with its own law."""
    one, other, size = _binned(train, test)
    score = np.zeros((len(test), label.max() + 1))
    for name in range(label.max() + 1):
        own = one[label == name]
        law = np.stack([(own == value).sum(axis=0) + 0.5 for value in range(size)]) / (len(own) + 0.5 * size)
        score[:, name] = np.log(law[other, np.arange(other.shape[1])]).sum(axis=1)
    return score.argmax(axis=1)


def by_count(train: Array, label: Array, test: Array) -> Array:
    """Return the likeliest label if rounds have one law, and their number is normal."""
    one, other, size = _binned(train, test)
    score, rounds = np.zeros((len(test), label.max() + 1)), (train != NONE).sum(axis=1)
    spread = np.sqrt(np.mean([rounds[label == name].var() for name in range(label.max() + 1)])) + 0.5
    for name in range(label.max() + 1):
        own = one[label == name]
        law = np.array([(own == value).sum() + 0.5 for value in range(size - 1)])
        law = np.log(law / law.sum())
        score[:, name] = np.where(other < size - 1, law[np.minimum(other, size - 2)], 0.0).sum(axis=1)
        score[:, name] -= 0.5 * (((test != NONE).sum(axis=1) - rounds[label == name].mean()) / spread) ** 2
    return score.argmax(axis=1)


CLASSIFIERS = (nearest, by_round, by_count)


def chosen(train: Array, label: Array, group: Array) -> Callable[[Array, Array, Array], Array]:
    """Return the classifier that is right most often on groups of training texts that are left out in turn."""

    def right(classify: Callable[[Array, Array, Array], Array]) -> int:
        parts = [(group != one, group == one) for one in np.unique(group)]
        return sum(int((classify(train[a], label[a], train[b]) == label[b]).sum()) for a, b in parts)

    return max(CLASSIFIERS, key=right)


def guesses(texts: Texts, label: Array, group: Array, folds: list[Array]) -> Array:
    """Return whether each text is classified rightly when its fold is held out."""
    seen, found = table(texts), np.zeros(len(texts), dtype=bool)
    for held in folds:
        train, test = ~held, held
        classify = chosen(seen[train], label[train], group[train])
        found[test] = classify(seen[train], label[train], seen[test]) == label[test]
    return found


# ------------------------------------------------------------------------------------------------------- results


def interval(right: Array) -> list[float]:
    """Return a share and its Wilson interval."""
    n, share, z = len(right), float(right.mean()), 1.959964
    middle, half = share + z * z / (2 * n), z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return [share, (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)]


def by_prompts(right: Array, prompt: Array) -> list[float]:
    """Return a share and its interval over prompts, drawn with replacement."""
    each = np.array([right[prompt == one].mean() for one in np.unique(prompt)])
    draws = np.random.default_rng(SEED).choice(each, (RESAMPLES, len(each))).mean(axis=1)
    return [float(each.mean()), *np.quantile(draws, (0.025, 0.975)).tolist()]


def least_bits(share: float, names: int) -> float:
    """Return the bits about a name that a share of right guesses needs, by Fano's inequality; names are equally likely."""
    error = 1.0 - max(share, 1.0 / names)
    own = sum(-x * math.log2(x) for x in (error, 1.0 - error) if x > 0)
    return math.log2(names) - own - error * math.log2(names - 1)


def speeds(texts: list[dict[str, Any]], up: Texts, server: bool) -> dict[str, float]:
    """Return tokens per second at each rate, with the times of the plan; answers take no time on the link."""
    tokens = sum(text["tokens"] for text in texts)
    rounds = sum(len(text["rounds"]) for text in texts)
    drafts = sum(int(text["rounds"][:, PASSES].sum()) + text["after"] for text in texts)
    fixed = drafts * (0.0048 if server else DRAFT_S) + rounds * (VERIFY_S + (0.0 if server else ROUND_TRIP_S))
    sent = sum(map(sum, up))
    return {f"{rate:g}": plain(tokens / (fixed + 8.0 * sent / rate), 4) for rate in RATES}


def hidden_rounds(texts: list[dict[str, Any]]) -> list[dict[str, float]]:
    """Return what it costs to hide the number of rounds too: empty rounds up to one of m numbers."""
    rounds = np.array([len(text["rounds"]) for text in texts], dtype=float)
    known = np.append(rounds, float(NEW_TOKENS)), np.append(np.ones(len(rounds)), 0.0)
    found = []
    for many in (1, 2, 4, 8):
        classes = size_classes(*known, many)
        found.append({"numbers": len(classes.tops), "bits": math.log2(len(classes.tops)), "rounds": plain(classes.mean, 4)})
    return [{"numbers": 0, "bits": plain(float(rounds_leak(NEW_TOKENS, LENGTH)), 4), "rounds": plain(rounds.mean(), 4)}, *found]


def openings() -> dict[str, int]:
    """Return how many sizes the openings of the prompts have, as they are and padded."""
    pair, given = load_pair("builtin"), prompts()
    terms = Terms.of(SharedSeed(LENGTH)).plain()
    found: dict[str, set[int]] = {"plain": set(), "padded": set()}
    for prompt, ids in zip(given, encode_prompts(pair, given, NEW_TOKENS), strict=True):
        opening = Opening("t" * 16, "d" * 16, terms, prompt.id, SEED, 1.0, 1.0, NEW_TOKENS, list(ids), [], "0" * 32)
        opening = replace(opening, name="text")  # an id would tell more
        for name, padded in (("plain", False), ("padded", True)):
            found[name].add(len(to_json(opening, padded=padded)))
    return {name: len(sizes) for name, sizes in found.items()}


def main() -> None:
    """Classify, and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    found: dict[str, Any] = {}
    for temperature in ("0.3", "1"):
        found[temperature] = {"schemes": {}}
        for name, (seen, texts, up) in schemes(given.work, temperature).items():
            prompt = np.array([text["prompt"] for text in texts])
            repeat, names = np.arange(len(texts)) % REPEATS, int(prompt.max()) + 1
            right = guesses(seen, prompt, repeat, [repeat % FOLDS == fold for fold in range(FOLDS)])
            kind = (prompt >= MATHS).astype(np.int64)
            pairs = [prompt % MATHS == one for one in range(MATHS)]  # one prompt of each kind is held out
            kinds = guesses(seen, kind, prompt, pairs)
            rounds = np.array([len(text) for text in seen])
            found[temperature]["schemes"][name] = {
                "prompt": plain(interval(right), 3),
                "least_bits": plain(least_bits(float(right.mean()), names), 3),
                "maths": plain(by_prompts(kinds, prompt), 3),
                "sizes": len({value for text in seen for value in text}),
                "rounds": plain(rounds.mean(), 4),
                "bytes_up_per_token": plain(sum(map(sum, up)) / sum(text["tokens"] for text in texts), 4),
                "tokens_per_s": speeds(texts, up, name.startswith("server")),
            }
        found[temperature]["hidden_rounds"] = hidden_rounds(read(given.work, "shared-seed", temperature))
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    about = {
        "command": "PYTHONPATH=. python3 figures/studies/leak/attack.py WORK figures/studies/leak/attack.json",
        "commit": commit,
        "prompts": names,
        "texts_of_a_prompt": REPEATS,
        "new_tokens": NEW_TOKENS,
        "chance": {"prompt": plain(1 / names, 3), "maths": 0.5},
    }
    about["sizes_of_12_openings"] = openings()
    given.out.write_text(json.dumps(about | found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
