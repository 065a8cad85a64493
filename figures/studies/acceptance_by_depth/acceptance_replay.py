"""Acceptance by depth of real drafts, and what a single rate makes of it: writes ``acceptance_replay.json``.

``acc_len[t]`` of the data is the number of tokens that a round emits if it begins at token t and its draft has no end:
the accepted drafts and the server's own token. So a round of K drafts emits min(acc_len[t], K + 1), and the next round
begins there. Intervals are by a bootstrap over the requests.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hlmtheory.draft_length import (
    acceptance_by_depth,
    mean_interval,
    optimal_draft_length,
    optimal_draft_length_profile,
    single_rate,
    split_tokens,
    tokens_by_length,
)
from hlmtheory.verification import expected_tokens
from validation.plots.common.record import plain
from validation.plots.ours.acceptance_by_depth import REPLAY

DATASETS = ("gsm8k", "instructcoder")
DRAFTS = {"eagle": "EAGLE-3", "ngram": "n-gram"}
MAX_LENGTH = 15
FITTED_AT = (1, 3, 5, 7)
RESAMPLES = 2_000
RANDOM_RUNS = 20
"""Replays in which every round draws its k from 1..15, so that counts n[k][i] are what a running system could have."""

LOOPS = 4_000
"""Texts of this many tokens or more are loops; five of instructcoder's have 8,192, the most that was generated."""

ROUND_TRIPS_MS = (0.0, 5.0, 20.0, 100.0)
EDGE_DRAFT_S = 0.005
"""Time of one draft token on a device, assumed: the data has no device."""

TARGET_FIXED_S, TARGET_TOKEN_S, TARGET_CACHED_S = 5.886e-3, 2.101e-5, 3.926e-8
EAGLE_FIXED_S, EAGLE_TOKEN_S, EAGLE_CACHED_S = 2.135e-3, 8.41e-7, 2.378e-9
OVERHEAD_S = 1.207e-3
NGRAM_SHARE = 0.005875
"""The times that the source fitted on an H100; its n-gram drafts take this share of a target pass."""

Row = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Texts:
    """acc_len of every request, and the mean number of tokens in the cache."""

    lengths: tuple[Row, ...]
    cached: float


def read(path: Path, draft: str) -> Texts:
    """Return one file's requests with one kind of draft."""
    lengths, cached = [], []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            lengths.append(np.asarray(record[f"acc_{draft}"]["acc_len"], dtype=np.int64))
            cached.append(len(record["prompt_token_ids"]) + 0.5 * len(record["generated_token_ids"]))
    return Texts(tuple(lengths), float(np.mean(cached)))


def replay(emitted: Row, lengths: Row) -> Row:
    """Return counts n[k][i] of the rounds of one request; round r drafts lengths[r] tokens.

    >>> replay(np.array([3, 2, 1, 1]), np.array([1, 2, 2, 2])).tolist()  # one of one, then none of two, twice
    [[0, 0, 0], [0, 1, 0], [2, 0, 0]]
    """
    table = np.zeros((int(lengths.max()) + 1,) * 2, dtype=np.int64)
    at = turn = 0
    while at < len(emitted):
        k = int(lengths[turn])
        accepted = min(int(emitted[at]) - 1, k)
        table[k, accepted] += 1
        at, turn = at + accepted + 1, turn + 1
    return table


def tables(texts: Texts, length: int | None, seed: int = 0) -> Row:
    """Return the counts of each request, shape (R, K+1, K+1), for one length or for k uniform on 1..15."""
    rng = np.random.default_rng([seed, 7])
    found = []
    for emitted in texts.lengths:
        drawn = rng.integers(1, MAX_LENGTH + 1, len(emitted)) if length is None else np.full(len(emitted), length)
        table = np.zeros((MAX_LENGTH + 1,) * 2, dtype=np.int64)
        own = replay(emitted, drawn)
        table[: len(own), : len(own)] = own
        found.append(table)
    return np.stack(found)


def bootstrap_weights(requests: int, seed: int) -> Row:
    """Return how often each request is drawn in each resample, shape (B, R)."""
    rng = np.random.default_rng([seed, 11])
    return rng.multinomial(requests, np.full(requests, 1.0 / requests), RESAMPLES).astype(np.float64)


def interval(values: Row) -> list[float]:
    """Return the 2.5% and 97.5% quantiles over resamples, NaN left out."""
    return [plain(float(end), 4) for end in np.nanquantile(values, [0.025, 0.975])]


def sums(tables_of: Row) -> tuple[Row, Row, Row]:
    """Return rounds, examined and accepted by request, shapes (R,), (R, K) and (R, K)."""
    found = acceptance_by_depth(tables_of)
    return tables_of.sum(axis=(1, 2)).astype(np.float64), found.examined, found.accepted


def rates(weights: Row, examined: Row, accepted: Row) -> Row:
    """Return the acceptance by depth of each resample."""
    below = weights @ examined
    return np.divide(weights @ accepted, below, out=np.full_like(below, np.nan), where=below > 0)


def mean_tokens(weights: Row, rounds: Row, accepted: Row) -> Row:
    """Return tokens a round: 1 and the accepted drafts over rounds."""
    return np.asarray(1.0 + (weights @ accepted.sum(axis=1)) / (weights @ rounds))


def by_rate(tokens: Row, at: int) -> Row:
    """Return tokens for K = 1..15 by the single rate that gives these tokens at one K."""
    rate = single_rate(np.clip(tokens - 1.0, 0.0, at), at)
    return np.asarray(expected_tokens(rate[..., None], np.arange(1, MAX_LENGTH + 1)))


def by_profile(acceptances: Row) -> Row:
    """Return tokens for K = 1..15 by the acceptance by depth; a depth never examined counts as rejected."""
    return np.asarray(1.0 + np.cumsum(np.cumprod(np.nan_to_num(acceptances), axis=-1), axis=-1))


def by_split(histogram: Row) -> Row:
    """Return tokens for K = 1..15 by splitting the rounds of 15 drafts; ``histogram`` has the shape (..., 16)."""
    lengths = np.arange(1, MAX_LENGTH + 1)
    return np.asarray(split_tokens(histogram[..., None, :], lengths))


def costs(texts: Texts, draft: str) -> dict[str, tuple[float, float]]:
    """Return T_fixed and T_marginal without a link, for drafts on the server and on a device."""
    verify = TARGET_FIXED_S + TARGET_TOKEN_S + TARGET_CACHED_S * texts.cached  # of the round's own token
    server = {
        "eagle": (EAGLE_FIXED_S + EAGLE_CACHED_S * texts.cached, EAGLE_TOKEN_S),
        "ngram": (NGRAM_SHARE * verify, NGRAM_SHARE * TARGET_TOKEN_S),
    }[draft]
    fixed = verify + OVERHEAD_S
    return {
        "server": (fixed + server[0], TARGET_TOKEN_S + server[1]),
        "device": (fixed, TARGET_TOKEN_S + EDGE_DRAFT_S),
    }


def choices(
    truth: Row, fits: dict[str, float], profiles: dict[str, Row], told: dict[str, Row], fixed: float, marginal: float
) -> dict[str, Any]:
    """Return the draft length that each estimate chooses and the share of the speed that it loses."""
    lengths = np.arange(1, MAX_LENGTH + 1)
    speed = truth / (fixed + marginal * lengths)
    chosen = {name: int(optimal_draft_length(rate, fixed, marginal, MAX_LENGTH)) for name, rate in fits.items()}
    for name, profile in profiles.items():
        chosen[name] = int(optimal_draft_length_profile(np.nan_to_num(profile), fixed, marginal))
    for name, tokens in told.items():
        chosen[name] = int(np.argmax(tokens / (fixed + marginal * lengths))) + 1
    best = int(np.argmax(speed)) + 1
    return {
        "best": best,
        "tokens_per_s": plain(float(speed[best - 1]), 5),
        "chosen": chosen,
        "loss": {name: plain(float(1.0 - speed[k - 1] / speed[best - 1]), 4) for name, k in chosen.items()},
    }


def study(texts: Texts, draft: str, seed: int) -> dict[str, Any]:
    """Return all that is stored of one data set with one kind of draft."""
    weights = bootstrap_weights(len(texts.lengths), seed)
    once = np.ones((1, len(texts.lengths)))
    at_length = {k: sums(tables(texts, k)) for k in range(1, MAX_LENGTH + 1)}
    truth = np.array([mean_tokens(once, n, a)[0] for n, _, a in at_length.values()])
    resampled = np.stack([mean_tokens(weights, n, a) for n, _, a in at_length.values()], axis=-1)
    longest = tables(texts, MAX_LENGTH)
    _, examined, accepted = at_length[MAX_LENGTH]
    alphas, spread = rates(once, examined, accepted)[0], rates(weights, examined, accepted)
    exact = acceptance_by_depth(longest.sum(axis=0))
    profiles = {f"profile at {MAX_LENGTH}": alphas} | random_profiles(texts)
    everywhere = np.concatenate(texts.lengths) - 1
    fits = {f"rate at {k}": float(single_rate(truth[k - 1] - 1.0, k)) for k in FITTED_AT}
    drafted = {f"accepted/drafted at {k}": float((truth[k - 1] - 1.0) / k) for k in (7,)}
    predictions = {f"rate at {k}": (by_rate(truth[k - 1], k), by_rate(resampled[:, k - 1], k)) for k in FITTED_AT}
    predictions[f"profile at {MAX_LENGTH}"] = by_profile(alphas), by_profile(spread)
    histograms = longest[:, MAX_LENGTH].astype(np.float64)
    predictions["split"] = by_split(once @ histograms)[0], by_split(weights @ histograms)
    errors = {name: error_of(one, many, truth, resampled) for name, (one, many) in predictions.items()}
    for name, profile in profiles.items():
        if name not in errors:
            errors[name] = {"relative": plain(by_profile(profile) / truth - 1.0, 4)}
    for name, rate in drafted.items():
        told = np.asarray(expected_tokens(rate, np.arange(1, MAX_LENGTH + 1)))
        errors[name] = {"relative": plain(told / truth - 1.0, 4)}
    low, high = mean_interval(truth[0] - 1.0, 1, np.arange(1, MAX_LENGTH + 1))
    speeds = {}
    for where, (fixed, marginal) in costs(texts, draft).items():
        for trip in ROUND_TRIPS_MS:
            told = {"split": predictions["split"][0]}
            found = choices(truth, fits | drafted, profiles, told, fixed + trip / 1e3, marginal)
            speeds[f"{where}, {trip:g} ms"] = found | {"fixed_s": plain(fixed + trip / 1e3, 5), "marginal_s": marginal}
    return {
        "requests": len(texts.lengths),
        "goes_on": plain(float(np.mean(np.concatenate([x[1:] >= x[:-1] - 1 for x in texts.lengths]))), 4),
        "longest": sorted(map(len, texts.lengths))[-3:],
        "positions": int(sum(map(len, texts.lengths))),
        "cached_tokens": plain(texts.cached, 4),
        "acceptance": {
            "depth": list(range(1, MAX_LENGTH + 1)),
            "examined": exact.examined.astype(int).tolist(),
            "accepted": exact.accepted.astype(int).tolist(),
            "alpha": _listed(alphas),
            "interval": [interval(spread[:, d]) for d in range(MAX_LENGTH)],
            "exact_interval": [list(ends) for ends in zip(_listed(exact.low), _listed(exact.high), strict=True)],
            "everywhere": _listed([np.mean(everywhere[everywhere >= d - 1] >= d) for d in range(1, MAX_LENGTH + 1)]),
            "at_length_1": plain(float(truth[0] - 1.0), 4),
        },
        "tokens": {
            "length": list(range(1, MAX_LENGTH + 1)),
            "true": plain(truth, 5),
            "interval": [interval(resampled[:, k]) for k in range(MAX_LENGTH)],
            "from_length_1": [plain(low, 5), plain(high, 5)],
        },
        "fits": {name: plain(rate, 5) for name, rate in (fits | drafted).items()},
        "errors": errors,
        "speeds": speeds,
        "random_lengths": random_check(texts, truth),
    }


def _listed(values: Any) -> list[float]:
    return [plain(float(value), 4) for value in values]


def error_of(told: Row, told_resampled: Row, truth: Row, resampled: Row) -> dict[str, Any]:
    """Return the relative error of told tokens at each K, its interval, and the first K at which it exceeds 5%."""
    relative = told / truth - 1.0
    spread = told_resampled / resampled - 1.0
    beyond = np.flatnonzero(np.abs(relative) > 0.05)
    return {
        "relative": plain(relative, 4),
        "interval": [interval(spread[:, k]) for k in range(MAX_LENGTH)],
        "beyond_5_percent": (beyond + 1).tolist(),
    }


def errors_without(texts: Texts, most: int) -> dict[str, list[float]]:
    """Return the relative errors without the texts of that many tokens or more, which repeat themselves."""
    texts = Texts(tuple(one for one in texts.lengths if len(one) < most), texts.cached)
    pooled = [tables(texts, k).sum(axis=0) for k in range(1, MAX_LENGTH + 1)]
    steps = np.arange(1.0, MAX_LENGTH + 2.0)
    truth = np.array([float(one.sum(axis=0) @ steps / one.sum()) for one in pooled])
    alphas = np.asarray(acceptance_by_depth(pooled[-1]).acceptances)
    told = {f"rate at {k}": by_rate(truth[k - 1], k) for k in FITTED_AT}
    told |= {f"profile at {MAX_LENGTH}": by_profile(alphas), "split": by_split(pooled[-1][MAX_LENGTH])}
    return {name: plain(one / truth - 1.0, 4) for name, one in told.items()}


def random_profiles(texts: Texts) -> dict[str, Row]:
    """Return the acceptance by depth from rounds of random lengths, all runs together."""
    total = sum(tables(texts, None, run).sum(axis=0) for run in range(RANDOM_RUNS))
    return {"profile at random lengths": np.asarray(acceptance_by_depth(total).acceptances)}


def random_check(texts: Texts, truth: Row) -> dict[str, Any]:
    """Return how the clustered interval of one run of random lengths fares against the replay at each fixed K."""
    held, estimates = [], []
    for run in range(RANDOM_RUNS):
        found = tokens_by_length(tables(texts, None, run), method="clustered")
        held.append((found.low <= truth) & (truth <= found.high))
        estimates.append(found.tokens)
    seen = np.isfinite(estimates)
    mean = np.nansum(estimates, axis=0) / np.maximum(seen.sum(axis=0), 1)
    return {"runs": RANDOM_RUNS, "relative": plain(mean / truth - 1.0, 4), "held": plain(np.mean(held, axis=0), 3)}


def main() -> None:
    """Replay all data, and write the file that the figure and the table read."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=REPLAY)
    given = parser.parse_args()
    begun = time.perf_counter()
    files = {name: given.folder / f"combined_{name}.jsonl.gz" for name in DATASETS}
    found = {
        f"{DRAFTS[draft]}, {name}": study(read(path, draft), draft, given.seed)
        for name, path in files.items()
        for draft in DRAFTS
    }
    without = {
        f"{DRAFTS[draft]}, instructcoder": errors_without(read(files["instructcoder"], draft), LOOPS)
        for draft in DRAFTS
    }
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    about: dict[str, Any] = {
        "command": f"python3 figures/studies/acceptance_by_depth/acceptance_replay.py FOLDER --seed {given.seed}",
        "commit": commit,
        "seconds": round(time.perf_counter() - begun),
        "seed": given.seed,
        "source": "SpecDecode-Bench/simulator, data/llama3.1-8B, commit 2fdccbd61b62be339fb85fd90caf43f5e8392aa6",
        "sha256": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files.values()},
        "resamples": RESAMPLES,
        "max_length": MAX_LENGTH,
        "edge_draft_s": EDGE_DRAFT_S,
    }
    given.out.write_text(
        json.dumps(about | {"data": found, "loops": LOOPS, "without_loops": without}, ensure_ascii=False, indent=1)
        + "\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
