"""Acceptance by depth of real drafts, and what a single rate makes of it: writes ``acceptance_replay.json``."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from figures.studies.acceptance_by_depth import source_data as source
from figures.studies.kit import SHELF, given, laws, record, stamp, store
from hlmtheory.draft_length import split_tokens
from hlmtheory.draft_length.published import single_rate
from hlmtheory.verification import expected_tokens
from validation.plots.common.record import plain
from validation.plots.flexspec.counted import fate_of
from validation.plots.ours.acceptance_by_depth import EXPERIMENT, REPLAY
from validation.trace.reader import Trace, fingerprint, open_trace

MAX_LENGTH = 15
FITTED_AT = (1, 3, 5, 7)
RESAMPLES = 2_000


Row = np.ndarray[Any, Any]


def replay(emitted: Row, length: int) -> Row:
    """Return the rounds of one request by accepted drafts, (K + 1,), if each round drafts K tokens.

    >>> replay(np.array([3, 2, 1, 1]), 2).tolist()  # two accepted, then none
    [1, 0, 1]
    """
    found, at = np.zeros(length + 1), 0
    while at < len(emitted):
        accepted = min(int(emitted[at]) - 1, length)
        found[accepted] += 1
        at += accepted + 1
    return found


class Replayed:
    """The rounds of requests at every draft length."""

    def __init__(self, requests: Sequence[source.Request]) -> None:
        texts = [np.asarray(one.emitted) for one in requests]
        self.by_length = [np.stack([replay(one, k) for one in texts]) for k in range(1, MAX_LENGTH + 1)]

    def tokens(self, weights: Row) -> Row:
        """Return the tokens of a round at K = 1..15, for weights of the requests (..., R)."""
        steps = [weights @ one for one in self.by_length]
        return np.stack([1.0 + one @ np.arange(one.shape[-1]) / one.sum(axis=-1) for one in steps], axis=-1)

    def longest(self, weights: Row) -> Row:
        return np.asarray(weights @ self.by_length[-1])


def depths(rounds: Row) -> tuple[Row, Row]:
    """Return how many rounds of 15 drafts examined and accepted each depth."""
    beyond = np.flip(np.cumsum(np.flip(rounds, -1), -1), -1)
    return beyond[..., :-1], beyond[..., 1:]


def estimates(tokens: Row, rounds: Row) -> dict[str, Row]:
    """Return the tokens of a round at K = 1..15 by each estimate, from measured tokens and rounds of 15 drafts."""
    examined, accepted = depths(rounds)
    alphas = np.divide(accepted, examined, out=np.zeros_like(accepted), where=examined > 0)
    found = {f"rate at {k}": by_rate(tokens[..., k - 1], k) for k in FITTED_AT}
    profile = np.asarray(1.0 + np.cumsum(np.cumprod(alphas, axis=-1), axis=-1))
    split = np.asarray(split_tokens(rounds[..., None, :], np.arange(1, MAX_LENGTH + 1)))
    return found | {f"profile at {MAX_LENGTH}": profile, "split": split}


def interval(values: Row) -> list[float]:
    """Return the 2.5% and 97.5% quantiles over resamples, NaN left out."""
    return [plain(float(end), 4) for end in np.nanquantile(values, [0.025, 0.975])]


def by_rate(tokens: Row, at: int) -> Row:
    """Return tokens for K = 1..15 by the single rate that gives these tokens at one K."""
    rate = single_rate(np.clip(tokens - 1.0, 0.0, at), at)
    return np.asarray(expected_tokens(rate[..., None], np.arange(1, MAX_LENGTH + 1)))


def study(requests: Sequence[source.Request], seed: int) -> dict[str, Any]:
    """Return all that is stored of one data set with one kind of draft."""
    count = len(requests)
    weights = np.random.default_rng([seed, 11]).multinomial(count, np.full(count, 1.0 / count), RESAMPLES)
    replayed, once = Replayed(requests), np.ones(count)
    truth, resampled = replayed.tokens(once), replayed.tokens(weights.astype(np.float64))
    longest, spread = replayed.longest(once), replayed.longest(weights.astype(np.float64))
    examined, accepted = depths(longest)
    told, many = estimates(truth, longest), estimates(resampled, spread)
    with np.errstate(invalid="ignore"):
        alphas, spread_alphas = accepted / examined, np.divide(*reversed(depths(spread)))
    return {
        "requests": count,
        "positions": sum(len(one.emitted) for one in requests),
        "acceptance": {
            "depth": list(range(1, MAX_LENGTH + 1)),
            "examined": examined.astype(int).tolist(),
            "accepted": accepted.astype(int).tolist(),
            "alpha": plain(alphas, 4),
            "interval": [interval(spread_alphas[:, d]) for d in range(MAX_LENGTH)],
            "at_length_1": plain(float(truth[0] - 1.0), 4),
        },
        "tokens": {
            "length": list(range(1, MAX_LENGTH + 1)),
            "true": plain(truth, 5),
            "interval": [interval(resampled[:, k]) for k in range(MAX_LENGTH)],
        },
        "errors": {
            name: {
                "relative": plain(one / truth - 1.0, 4),
                "interval": [interval((many[name] / resampled - 1.0)[:, k]) for k in range(MAX_LENGTH)],
                "beyond_5_percent": (np.flatnonzero(np.abs(one / truth - 1.0) > 0.05) + 1).tolist(),
            }
            for name, one in told.items()
        },
    }


def errors_without_loops(requests: Sequence[source.Request]) -> dict[str, list[float]]:
    """Return the relative errors without the texts that repeat themselves."""
    short = [one for one in requests if len(one.emitted) < source.LOOPS]
    replayed, once = Replayed(short), np.ones(len(short))
    truth = replayed.tokens(once)
    told = estimates(truth, replayed.longest(once))
    return {name: plain(one / truth - 1.0, 4) for name, one in told.items()}


def of_trace(trace: Trace, seed: int) -> dict[str, list[source.Request]]:
    """Return the texts of a trace by their set: a draft is accepted with min(1, q/p) of the text's token.

    A round begins only where 15 tokens follow, so the end of a text cuts none.
    """
    tokens, prompts = (np.asarray(trace.arrays[name][:]) for name in ("tokens", "prompt_index"))
    ratio = np.concatenate([(q / p)[np.arange(len(p)), tokens[some]] for some, q, p in laws(trace, size=64)])
    accepted = np.random.default_rng(seed).random(len(ratio)) < ratio
    found: dict[str, list[source.Request]] = {}
    for text in np.split(np.arange(len(tokens)), np.flatnonzero(trace.arrays["position"][:] == 0)[1:]):
        runs = fate_of("".join("01"[one] for one in accepted[text].astype(int)), len(text)).runs[:-MAX_LENGTH]
        name = f"draft model, {trace.manifest['prompts'][prompts[text[0]]]['source']}"
        found.setdefault(name, []).append(source.Request(0, tuple(run + 1 for run in runs)))
    return found


def replay_trace(path: Path, seed: int) -> None:
    """Replay the texts of a pair's trace, and record them for its Figure 8."""
    trace = open_trace(path)
    pair, texts = trace.manifest["pair"]["name"], of_trace(trace, seed)
    out = SHELF / EXPERIMENT / f"{pair}.json"
    whose = f"the drafts of the pair {pair} on the texts of its trace, {trace.manifest['new_tokens']} tokens at most"
    about = {"seed": seed, "whose": whose, "trace": fingerprint(trace), "resamples": RESAMPLES}
    store(out, about | {"data": {name: study(one, seed) for name, one in texts.items()}})
    told = {name: str(stamp()[name]) for name in ("command", "commit")}
    record(f"{EXPERIMENT} {pair}", out, models=f"the pair {pair}", data="HumanEval, GSM8K, MT-Bench", **told)


def main() -> None:
    """Replay all data, and write the file that the figure and the table read."""
    asked = given(__doc__, "folder", seed=1, trace=False)
    if asked.trace:
        replay_trace(asked.folder, asked.seed)
        return
    kinds = {f"{name}, {data}": (data, key) for data in source.DATASETS for key, name in source.DRAFTERS.items()}
    about = {
        "seed": asked.seed,
        "source": source.SOURCE,
        "sha256": source.digests(asked.folder),
        "resamples": RESAMPLES,
        "max_length": MAX_LENGTH,
        "edge_draft_s": source.DEVICE_DRAFT_S,
    }
    texts = {name: source.read(source.path_of(asked.folder, data), key) for name, (data, key) in kinds.items()}
    found = {name: study(one, asked.seed) for name, one in texts.items()}
    loops = {name: errors_without_loops(one) for name, one in texts.items() if "instructcoder" in name}
    store(REPLAY, about | {"data": found, "loops": source.LOOPS, "without_loops": loops})


if __name__ == "__main__":
    main()
