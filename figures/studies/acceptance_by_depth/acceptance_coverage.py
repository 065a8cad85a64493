"""How often the intervals of acceptance by depth hold: run by hand, writes ``acceptance_coverage.json``.

Rounds are simulated by depth. r_1 rounds draft at least one token; of those that examine depth d, a_d accept it; of
these, r_{d+1} draft one more. The counts n[k][i] follow from r_d and a_d up to the k of rejected rounds, which no
estimate uses: they are entered at k = K.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hlmtheory.draft_length import acceptance_by_depth, tokens_by_length
from validation.plots.common.record import plain
from validation.plots.ours.acceptance_by_depth import COVERAGE

REPETITIONS = 10_000
CHUNK = 500  # repetitions at a time
CONFIDENCE = 0.95
DEPTH = 7
SHOWN_DEPTHS = (1, 4, 7)

Row = np.ndarray[Any, Any]

GEOMETRIC = np.full(DEPTH, 0.7)
FALLING = np.array([0.85, 0.75, 0.65, 0.6, 0.55, 0.5, 0.5])
RISING = np.array([0.2, 0.85, 0.9, 0.92, 0.93, 0.95, 0.95])
"""As n-gram drafts have it: most are wrong at once, the others copy a long passage."""

UNIFORM = 1.0 - np.arange(DEPTH) / DEPTH
"""P(k ≥ d) for k uniform on 1..7."""

FIXED = np.ones(DEPTH)
SPREAD = 0.8  # standard deviation of a request's logit
NODES = 60


@dataclass(frozen=True, slots=True)
class Setting:
    """One row: how rounds are drawn, and the true acceptances.

    Attributes
    ----------
    name, lengths : str
        What is drawn, and how k is chosen.
    rounds, requests : int
        In all, and over how many requests they are spread; 0 requests where all rounds are independent.
    draw : callable
        ``draw(rng, repetitions)`` gives counts of shape (repetitions, requests or 1, K+1, K+1).
    truth : array, shape (K,)
        α_d over all rounds.
    """

    name: str
    lengths: str
    rounds: int
    requests: int
    draw: Callable[[np.random.Generator, int], Row]
    truth: Row


def counts_of(examined: Row, accepted: Row) -> Row:
    """Return tables n[k][i], with rejected rounds at k = K.

    >>> counts_of(np.array([5, 2]), np.array([3, 1]))
    array([[0, 0, 0],
           [0, 1, 0],
           [2, 1, 1]])
    """
    depth = examined.shape[-1]
    table = np.zeros((*examined.shape[:-1], depth + 1, depth + 1), dtype=np.int64)
    for d in range(1, depth + 1):
        table[..., depth, d - 1] += examined[..., d - 1] - accepted[..., d - 1]
        table[..., d, d] += accepted[..., d - 1] - (examined[..., d] if d < depth else 0)
    return table


def by_depth(rng: np.random.Generator, rounds: Row, acceptances: Row, longer: Row) -> Row:
    """Return counts of rounds that draft one more token with the conditional chance of P(k ≥ d)."""
    examined, accepted = np.empty((2, *rounds.shape, DEPTH), dtype=np.int64)
    left = rounds
    for d in range(DEPTH):
        kept = longer[..., d] / (longer[..., d - 1] if d else 1.0)
        examined[..., d] = rng.binomial(left, kept)
        accepted[..., d] = left = rng.binomial(examined[..., d], acceptances[..., d])
    return counts_of(examined, accepted)


def independent(acceptances: Row, longer: Row, rounds: int) -> Callable[[np.random.Generator, int], Row]:
    """Return a drawer of independent rounds."""

    def draw(rng: np.random.Generator, repetitions: int) -> Row:
        return by_depth(rng, np.full((repetitions, 1), rounds), acceptances, longer)

    return draw


def shifted(acceptances: Row, effect: Row) -> Row:
    """Return acceptances whose logits are moved by each request's effect."""
    return np.asarray(1.0 / (1.0 + (1.0 / acceptances - 1.0) * np.exp(-effect[..., None])))


def of_requests(acceptances: Row, longer: Row, requests: int, each: int) -> Callable[[np.random.Generator, int], Row]:
    """Return a drawer of requests that differ, with k independent of the request."""

    def draw(rng: np.random.Generator, repetitions: int) -> Row:
        effect = rng.normal(0.0, SPREAD, (repetitions, requests))
        return by_depth(rng, np.full(effect.shape, each), shifted(acceptances, effect), longer)

    return draw


def mixed_truth(acceptances: Row) -> Row:
    """Return P(L ≥ d)/P(L ≥ d - 1) over requests whose logits are normal."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    chances = np.cumprod(shifted(acceptances, SPREAD * nodes), axis=-1)
    mean = weights @ chances / weights.sum()
    return np.asarray(mean / np.concatenate([[1.0], mean[:-1]]))


def by_request(requests: int, each: int) -> tuple[Callable[[np.random.Generator, int], Row], Row]:
    """Return a drawer of two kinds of request, easy ones with k = 7 and hard ones with k = 2, and the truth."""
    kinds = np.array([[0.85] * DEPTH, [0.45] * DEPTH])
    longer = np.array([[1.0] * DEPTH, [1.0, 1.0] + [0.0] * (DEPTH - 2)])

    def draw(rng: np.random.Generator, repetitions: int) -> Row:
        kind = np.arange(requests) % 2
        examined, accepted = np.empty((2, repetitions, requests, DEPTH), dtype=np.int64)
        left = np.full((repetitions, requests), each)
        for d in range(DEPTH):
            examined[..., d] = left * longer[kind, d].astype(np.int64)
            accepted[..., d] = left = rng.binomial(examined[..., d], kinds[kind, d])
        return counts_of(examined, accepted)

    chances = np.cumprod(kinds, axis=-1).mean(axis=0)
    return draw, chances / np.concatenate([[1.0], chances[:-1]])


def by_history(acceptances: Row, requests: int, each: int) -> Callable[[np.random.Generator, int], Row]:
    """Return a drawer of requests that draft two more after a round that accepts all, one fewer after another."""

    def draw(rng: np.random.Generator, repetitions: int) -> Row:
        chances = shifted(acceptances, rng.normal(0.0, SPREAD, (repetitions, requests)))
        table = np.zeros((repetitions, requests, DEPTH + 1, DEPTH + 1), dtype=np.int64)
        one, other = np.indices((repetitions, requests))
        k = np.full((repetitions, requests), 3)
        for _ in range(each):
            passed = np.cumprod(rng.random((repetitions, requests, DEPTH)) < chances, axis=-1).sum(axis=-1)
            i = np.minimum(passed, k)
            table[one, other, k, i] += 1
            k = np.clip(np.where(i == k, k + 2, k - 1), 1, DEPTH)
        return table

    return draw


def by_confidence(rounds: int) -> tuple[Callable[[np.random.Generator, int], Row], Row]:
    """Return a drawer of drafts that stop before the first unsure token but one, and the truth.

    Half of the tokens are sure and accepted with 0.95; the others with 0.45. The first token is always drafted.
    """

    def draw(rng: np.random.Generator, repetitions: int) -> Row:
        examined, accepted = np.empty((2, repetitions, 1, DEPTH), dtype=np.int64)
        left = np.full((repetitions, 1), rounds)
        for d in range(DEPTH):
            examined[..., d] = left if d == 0 else rng.binomial(left, 0.5)
            accepted[..., d] = left = rng.binomial(examined[..., d], 0.7 if d == 0 else 0.95)
        return counts_of(examined, accepted)

    return draw, np.full(DEPTH, 0.7)


def settings() -> Iterator[Setting]:
    """Yield the rows of the table."""
    for name, profile in (("constant", GEOMETRIC), ("falling", FALLING), ("rising", RISING)):
        for rounds in (30, 100, 1000):
            drawer = independent(profile, UNIFORM, rounds)
            yield Setting(f"{name} profile", "uniform on 1 to 7, independent", rounds, 0, drawer, profile)
    yield Setting("falling profile", "7", 100, 0, independent(FALLING, FIXED, 100), FALLING)
    for requests in (10, 40, 160):
        drawer = of_requests(FALLING, UNIFORM, requests, 25)
        yield Setting(
            "falling, requests differ", "uniform, independent", requests * 25, requests, drawer, mixed_truth(FALLING)
        )
    drawer, truth = by_request(40, 25)
    yield Setting("easy and hard requests", "7 for easy, 2 for hard", 1000, 40, drawer, truth)
    drawer = by_history(FALLING, 40, 25)
    yield Setting("falling, requests differ", "by the past", 1000, 40, drawer, mixed_truth(FALLING))
    drawer, truth = by_confidence(1000)
    yield Setting("sure and unsure tokens", "stops at unsure ones", 1000, 0, drawer, truth)


def coverage(setting: Setting, rng: np.random.Generator, repetitions: int) -> dict[str, Any]:
    """Return how often each interval holds, the mean estimate, and the mean half-widths of the tokens at K."""
    tokens = 1.0 + np.cumsum(np.cumprod(setting.truth))
    held: dict[str, Row] = {}
    width: dict[str, float] = {}
    estimate = np.zeros(2)
    for start in range(0, repetitions, CHUNK):
        table = setting.draw(rng, min(CHUNK, repetitions - start))
        pooled = table.sum(axis=1)
        found = acceptance_by_depth(pooled, confidence=CONFIDENCE)
        inside = (found.low <= setting.truth) & (setting.truth <= found.high)
        for depth in SHOWN_DEPTHS:
            _add(held, f"depth {depth}", inside[:, depth - 1])
        methods = ("band", "delta", "clustered") if setting.requests else ("band", "delta")
        for method in methods:
            counts = table if method == "clustered" else pooled
            ends = tokens_by_length(counts, confidence=CONFIDENCE, method=method)
            good = (ends.low <= tokens) & (tokens <= ends.high)  # NaN is no interval
            _add(held, method, good.all(axis=-1) if method == "band" else good[:, -1])
            half = np.nansum(ends.high[:, -1] - ends.low[:, -1]) / 2.0
            width[method] = width.get(method, 0.0) + float(half) / repetitions
        estimate += np.nansum(ends.tokens[:, -1]), np.isfinite(ends.tokens[:, -1]).sum()
    return {
        "rounds_drawn": setting.name,
        "lengths": setting.lengths,
        "rounds": setting.rounds,
        "requests": setting.requests,
        "true_tokens": plain(float(tokens[-1]), 5),
        "mean_estimate": plain(float(estimate[0] / estimate[1]), 5),
        "without_estimate": plain(1.0 - float(estimate[1]) / repetitions, 4),
        "coverage": {name: plain(float(one.mean()), 4) for name, one in held.items()},
        "half_width": {name: plain(one, 4) for name, one in width.items()},
    }


def _add(held: dict[str, Row], name: str, inside: Row) -> None:
    held[name] = np.concatenate([held.get(name, np.empty(0, dtype=bool)), inside])


def main() -> None:
    """Simulate all settings, and write the file that the table reads."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=COVERAGE)
    given = parser.parse_args()
    begun = time.perf_counter()
    rows = [
        coverage(setting, np.random.default_rng([given.seed, number]), REPETITIONS)
        for number, setting in enumerate(settings())
    ]
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    about = {
        "command": f"python3 figures/studies/acceptance_by_depth/acceptance_coverage.py --seed {given.seed}",
        "commit": commit,
        "seconds": round(time.perf_counter() - begun),
        "seed": given.seed,
        "repetitions": REPETITIONS,
        "confidence": CONFIDENCE,
        "depth": DEPTH,
    }
    given.out.write_text(json.dumps(about | {"rows": rows}, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
