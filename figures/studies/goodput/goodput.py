"""Put a simulator of serving and three users' reports beside the affine model of a pass.

Part one takes the acceptance data and the H100 times of SpecDecode-Bench/simulator. The tokens of a round are counted
on every second request. The other requests are replayed in batches: each slot takes the next request when one is done,
and each round pays for its actual caches. The model has the mean tokens and one mean cache. Part two puts the numbers
of three reports into the model, part three puts the first one's numbers at longer contexts. Writes ``goodput.json``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq
from source_data import (
    DATASETS,
    EAGLE_CACHED_S,
    EAGLE_FIXED_S,
    EAGLE_TOKEN_S,
    OVERHEAD_S,
    TARGET_CACHED_S,
    TARGET_FIXED_S,
    TARGET_TOKEN_S,
    Request,
    digests,
    path_of,
    read,
)

from hlmtheory.serving import crossover_batch, fit_passes, goodput, round_line
from hlmtheory.verification import expected_tokens
from validation.plots.common.record import plain

HERE = Path(__file__).parent
THEIRS = HERE.parent / "length_rules" / "simulator_output.json"
LENGTHS = (0, 1, 2, 3, 5, 7)
BATCHES = (1, 8, 32, 128, 512)
ROUNDS, SEQUENCE_ROUNDS, WARM, SEED = 1500, 40_000, 300, 1
CONTEXTS = (512, 2048, 8192, 32768)
MEMORY_BYTES, WEIGHT_BYTES, CACHED_BYTES = 80e9, 16.06e9, 2 * 32 * 8 * 128 * 2
"""An H100's memory, and Llama-3.1-8B in 16 bits: its weights, and keys and values of a token in 32 layers of 8 heads."""
LOOPS = 8192
"""Answers of this many tokens repeat themselves; four of instructcoder's do, three of them in one half."""
TARGET = (TARGET_FIXED_S + OVERHEAD_S, TARGET_TOKEN_S, TARGET_CACHED_S)


def tokens_of(requests: Sequence[Request], length: int) -> float:
    """Return the mean tokens of a round of K drafts, over the rounds of these requests one after another.

    >>> tokens_of([Request(1, (3, 2, 1, 2))], 2)
    2.0
    """
    rounds = made = 0
    for one in requests:
        at = 0
        while at < len(one.emitted):
            at += min(one.emitted[at], length + 1, len(one.emitted) - at)
            rounds += 1
        made += at
    return made / rounds


def cache_of(requests: Sequence[Request]) -> float:
    """Return the mean cached tokens of a sequence, over the tokens of the answers."""
    sizes = np.array([(one.prompt, len(one.emitted)) for one in requests], dtype=np.float64)
    return float((sizes[:, 1] * (sizes[:, 0] + sizes[:, 1] / 2.0)).sum() / sizes[:, 1].sum())


def drafts_of(length: int) -> tuple[tuple[float, float, float], float]:
    """Return a pass of the drafter and what a round adds: by the simulator's fit one pass drafts all K tokens."""
    return (0.0, 0.0, EAGLE_CACHED_S / max(length, 1)), EAGLE_FIXED_S + EAGLE_TOKEN_S * (length + 1)


def line(length: int, cache: float) -> tuple[float, float]:
    """Return F and S of a round."""
    draft, overhead = drafts_of(length)
    fixed, slope = round_line(TARGET, draft, length, cache, overhead)
    return float(fixed), float(slope)


def replayed(requests: Sequence[Request], length: int, batch: int, rng: np.random.Generator) -> float:
    """Return the tokens per second of slots that each take a random request when one is done."""
    size = np.array([len(one.emitted) for one in requests])
    prompt = np.array([one.prompt for one in requests])
    table = np.zeros((len(requests), size.max()), dtype=np.int64)
    for row, one in zip(table, requests, strict=True):
        row[: len(one.emitted)] = one.emitted
    mine = rng.choice(len(requests), batch, p=size / size.sum())  # a slot holds a long answer more often
    at = (rng.random(batch) * size[mine]).astype(np.int64)
    made = seconds = 0.0
    for number in range(WARM + max(ROUNDS, SEQUENCE_ROUNDS // batch)):
        cached = float((prompt[mine] + at).sum())
        here = TARGET[0] + TARGET[1] * batch * (length + 1) + TARGET[2] * cached
        if length:
            here += EAGLE_FIXED_S + EAGLE_TOKEN_S * (length + 1) + EAGLE_CACHED_S * cached
        emitted = np.minimum(np.minimum(table[mine, at], length + 1), size[mine] - at)
        at += emitted
        done = at >= size[mine]
        mine[done] = rng.integers(0, len(requests), int(done.sum()))
        at[done] = 0
        if number >= WARM:
            made, seconds = made + float(emitted.sum()), seconds + here
    return made / seconds


def simulator(folder: Path) -> dict[str, Any]:
    """Compare the model with the replay, and with the simulator's own speedups."""
    theirs = json.loads(THEIRS.read_text(encoding="utf-8"))["speedups"]
    found: dict[str, Any] = {}
    for dataset in DATASETS:
        every = [one for one in read(path_of(folder, dataset), "eagle") if len(one.emitted) < LOOPS]
        known, others = every[::2], every[1::2]
        tokens = {length: tokens_of(known, length) for length in LENGTHS}
        cache = cache_of(known)
        rng, rows = np.random.default_rng(SEED), []
        for batch in BATCHES:
            for length in LENGTHS:
                model = float(goodput(tokens[length], *line(length, cache), batch))
                run = replayed(others, length, batch, rng)
                rows.append({"batch": batch, "K": length, "replay": plain(run, 5), "model": plain(model, 5)})
        best = {
            name: [
                max((row for row in rows if row["batch"] == batch), key=lambda row, name=name: row[name])["K"]
                for batch in BATCHES
            ]
            for name in ("replay", "model")
        }
        told, prompt = [], float(np.mean([one.prompt for one in every]))
        answer = float(np.mean([len(one.emitted) for one in every]))
        for length in (1, 3, 5):
            alone, drafted = line(0, cache), line(length, cache)
            for batch, theirs_says in theirs[f"EAGLE-3, {dataset}"][f"FIXED_{length}"].items():
                size = int(batch)
                first = (TARGET[0] + TARGET[1] * size * prompt) / answer  # prefill, for each token of the answer
                seconds = [size / float(goodput(*one, size)) for one in ((1.0, *alone), (tokens[length], *drafted))]
                ours = {
                    "model": seconds[0] / seconds[1],
                    "with_prefill": (seconds[0] + first) / (seconds[1] + first),
                }
                about = {"K": length, "batch": size, "simulator": theirs_says}
                told.append(about | {name: plain(one, 4) for name, one in ours.items()})
        ends = {}
        single = tokens[1] - 1.0
        for length in LENGTHS[1:]:
            draft, overhead = drafts_of(length)
            for name, made in (("counted", tokens[length]), ("one_rate", float(expected_tokens(single, length)))):
                end = float(crossover_batch(made, TARGET, draft, length, cache, overhead)[1])
                ends.setdefault(name, {})[str(length)] = plain(end, 4) if np.isfinite(end) else None
        found[dataset] = {
            "cache": plain(cache, 4),
            "tokens": {str(length): plain(made, 4) for length, made in tokens.items()},
            "rows": rows,
            "best_by_batch": best,
            "farthest": plain(max(abs(row["model"] / row["replay"] - 1.0) for row in rows), 3),
            "simulator_speedups": told,
            "farthest_speedup": {
                name: plain(max(abs(row[name] / row["simulator"] - 1.0) for row in told), 3)
                for name in ("model", "with_prefill")
            },
            "loses_from": ends,
        }
    return found


def long_contexts(folder: Path) -> dict[str, Any]:
    """Return what the published times say of caches that are longer than the data's, at the data's acceptance.

    That the acceptance does not change with the context is assumed; that the plane holds there is too.
    """
    found: dict[str, Any] = {}
    for dataset in DATASETS:
        known = [one for one in read(path_of(folder, dataset), "eagle") if len(one.emitted) < LOOPS][::2]
        tokens, rows = {length: tokens_of(known, length) for length in LENGTHS}, []
        for context in CONTEXTS:
            ends, row = (
                {},
                {"context": context, "batch_that_fits": int((MEMORY_BYTES - WEIGHT_BYTES) / CACHED_BYTES / context)},
            )
            for length in (1, 3, 7):
                draft, overhead = drafts_of(length)
                end = float(crossover_batch(tokens[length], TARGET, draft, length, context, overhead)[1])
                ends[str(length)] = plain(end, 4) if np.isfinite(end) else None
            speeds = [
                {length: float(goodput(tokens[length], *line(length, context), batch)) for length in LENGTHS}
                for batch in BATCHES
            ]
            best = [max(speed, key=lambda length, speed=speed: speed[length]) for speed in speeds]
            gains = [plain(speed[k] / speed[0], 3) for speed, k in zip(speeds, best, strict=True)]
            rows.append(row | {"loses_from": ends, "best_by_batch": best, "gain_by_batch": gains})
        found[dataset] = rows
    return found


def rate_of(accepted: float, length: int) -> float:
    """Return the single acceptance rate that gives the mean accepted drafts of rounds of K.

    >>> round(rate_of(1.5 - 0.625, 3), 6)
    0.5
    """
    return float(brentq(lambda rate: expected_tokens(rate, length) - 1.0 - accepted, 1e-9, 1.0 - 1e-9))


def expert_mixture() -> dict[str, Any]:
    """Return what the model says of vllm-mlx #763: verifications of one sequence at five widths."""
    widths, ms = np.array([1, 2, 3, 5, 8]), np.array([8.47, 13.49, 15.64, 20.67, 28.13])
    fit = fit_passes(1, widths, 0, ms / 1e3)
    rest = fit_passes(1, widths[1:], 0, ms[1:] / 1e3)
    rate = rate_of(3.20, 7)
    made = {length: float(expected_tokens(rate, length)) for length in (1, 2, 4, 7)}
    speedup = {length: made[length] * ms[0] / ms[list(widths).index(length + 1)] for length in (1, 2, 4, 7)}
    slowest, fastest = (1e3 * made[4] / speed - ms[3] for speed in (90.0, 87.0))
    return {
        "fit_ms": plain(1e3 * np.array(fit.coefficients[:2]), 4),
        "farthest": plain(fit.worst, 3),
        "without_width_1_ms": plain(1e3 * np.array(rest.coefficients[:2]), 4),
        "farthest_without_width_1": plain(rest.worst, 3),
        "rate": plain(rate, 3),
        "tokens": {str(length): plain(one, 4) for length, one in made.items()},
        "speedup_of_free_drafts": {str(length): plain(one, 3) for length, one in speedup.items()},
        "speedup_if_all_7_are_accepted": plain(8 * ms[0] / ms[-1], 3),
        "ms_of_a_round_beside_the_verification_at_K_4": plain([slowest, fastest], 3),
        "speedup_at_K_4_with_that": plain([87.0 * ms[0] / 1e3, 90.0 * ms[0] / 1e3], 3),
    }


def separate_verification() -> dict[str, Any]:
    """Return what the model says of ds4 #695, from the counters of the run on gfx1151."""
    rounds, accepted, alone_speed, speed = 135, 112, 16.44, 11.18
    target, propose, verify = (total / rounds for total in (8805.8, 2243.1, 11763.5))
    made = 1.0 + accepted / rounds
    own = 1e3 * made / (target + propose + verify)
    shared = 1e3 * made / (propose + verify)
    return {
        "tokens": plain(made, 4),
        "ms": {"target": plain(target, 4), "draft": plain(propose, 4), "verification": plain(verify, 4)},
        "model_tokens_per_s": plain(own, 4),
        "reported_tokens_per_s": speed,
        "model_change": plain(own / alone_speed - 1.0, 3),
        "reported_change": plain(speed / alone_speed - 1.0, 3),
        "if_the_verification_made_the_first_token_too": plain(shared / alone_speed - 1.0, 3),
    }


def two_batches() -> dict[str, Any]:
    """Return what the model says of vLLM #26504: four goodputs at batches 1 and 32, and a flat acceptance."""
    found: dict[str, Any] = {}
    for rate in (0.86, 0.88, 0.91):
        alone = np.array([1.0 / 33.8, 32.0 / 867.8])
        token = (alone[1] - alone[0]) / 31.0
        base = alone[0] - token
        rounds = np.array([float(expected_tokens(rate, 4)) / 56.4, 32.0 * float(expected_tokens(rate, 1)) / 735.0])
        drafts = (rounds[0] - base - 5.0 * token) / 4.0, rounds[1] - base - 64.0 * token
        each = (drafts[1] - drafts[0]) / 31.0
        target, draft = (base, token, 0.0), (drafts[0] - each, each, 0.0)
        ends = {}
        for length in range(1, 5):
            made = float(expected_tokens(rate, length))
            ends[length] = float(crossover_batch(made, target, draft, length, 0.0, 0.0)[1])
        flat = float(goodput(expected_tokens(rate, 1), *round_line(target, (drafts[0], 0.0, 0.0), 1, 0.0, 0.0), 32))
        best = []
        for batch in (1, 2, 4, 8, 16, 32):
            lines = [round_line(target, draft, k, 0.0, 0.0) for k in range(5)]
            speeds = [float(goodput(expected_tokens(rate, k), *one, batch)) for k, one in enumerate(lines)]
            best.append(int(np.argmax(speeds)))
        found[f"{rate:g}"] = {
            "target_ms": plain(1e3 * np.array(target[:2]), 4),
            "draft_ms_at_batch_1_and_32": plain(1e3 * np.array(drafts), 3),
            "loses_from": {str(length): plain(end, 3) for length, end in ends.items()},
            "best_at_1_2_4_8_16_32": best,
            "tokens_per_s_at_32_if_the_draft_took_as_long_as_at_1": plain(flat, 4),
        }
    return found


def main() -> None:
    """Compare, and write the numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=HERE / "goodput.json")
    parser.add_argument("--long-contexts", action="store_true", help="compute this part alone, and keep the others")
    given = parser.parse_args()
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    contexts = {"commit": commit} | long_contexts(given.folder)
    if given.long_contexts:
        stored = json.loads(given.out.read_text(encoding="utf-8"))
        if stored["sha256"] != digests(given.folder):
            parser.error("the data are not those of the stored parts; compute all parts")
        given.out.write_text(json.dumps(stored | {"long_contexts": contexts}, indent=1) + "\n", encoding="utf-8")
        return
    about = {
        "command": "python3 figures/studies/goodput/goodput.py FOLDER",
        "commit": commit,
        "sha256": digests(given.folder),
        "simulator": simulator(given.folder),
        "long_contexts": contexts,
        "reports": {
            "vllm-mlx #763": expert_mixture(),
            "ds4 #695": separate_verification(),
            "vLLM #26504": two_batches(),
        },
    }
    given.out.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
