"""Benchmarks ``generate``, ``threads`` and ``bandwidth``: our speed beside others', in one run each.

Every row takes under four minutes. Rounds of the variants alternate, so that another process that runs for a while
disturbs all of them alike. A sampled text may be lucky: of 64 tokens with four drafts a round, one needs 19 rounds
and another 31. So each turn of ``generate`` has a seed of its own, and all its turns count together.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from validation.benchmarks.measurement import Measurement, stored
from validation.collection.prompts import Prompt, builtin_prompts
from validation.decoding.loop import decode
from validation.decoding.methods.base import Method
from validation.decoding.methods.multi_draft import FixedLength
from validation.decoding.methods.single_draft import Hlm, TargetOnly
from validation.models.pair import Pair, load_pair
from validation.trace.reader import Trace
from validation.trace.synthetic import SyntheticTrace

NEW_TOKENS, ROUNDS, BATCHES, DRAFTS = 64, 6, (1, 8), 4
COPIED = 2**25  # float64 values, 256 MiB: more than any cache holds
CHECKED, VOCABULARY = 1024, 4096
CLAIMS = ("truncation.tvd_sharp", "truncation.certificate", "skipping.rejection_by_draft", "lattice.dropped_mass")
PATIENCE_S = 40.0
"""Seconds after which a run that is too slow is stopped; its speed is then below the one that is reported."""


# ------------------------------------------------------------------------------------------------------ generate


def measure_generate(
    pair: Pair | None = None,
    prompts: Sequence[Prompt] | None = None,
    new_tokens: int = NEW_TOKENS,
    rounds: int = ROUNDS,
    batches: Sequence[int] = BATCHES,
) -> list[Measurement]:
    """Measure tokens per second against transformers' ``generate``, with and without assistant.

    transformers takes an assistant for one sequence at a time, so that a batch is generated one after the other. Its
    assistant stops after a draft of which it is unsure, and then makes fewer passes than for a fixed number of drafts.
    So it is measured as it is, and with as many drafts as ours.
    """
    pair = pair or load_pair("builtin", device="auto")
    known = prompts or builtin_prompts(limit=max(batches))
    methods: tuple[Method, ...] = (TargetOnly(), FixedLength(DRAFTS), Hlm())
    measured = []
    for size in batches:
        some = known[:size]
        alone = [[prompt] for prompt in some]
        assisted = partial(_generated, pair, alone, new_tokens, assistant_model=pair.draft)
        runs: dict[str, Callable[[int], int]] = {
            "generate": partial(_generated, pair, [some], new_tokens),
            "generate with assistant": assisted,
            f"generate with assistant, K = {DRAFTS}": drafting(pair.draft, DRAFTS)(assisted),
        }
        runs |= {f"ours, {method.name}": partial(_ours, pair, some, method, new_tokens) for method in methods}
        measured += _beside(f"batch {size}", _speeds(runs, rounds), "tokens/s", "generate")
    return measured


def _ours(pair: Pair, prompts: Sequence[Prompt], method: Method, new_tokens: int, seed: int) -> int:
    """Return the number of tokens that our loop decodes."""
    records = decode(pair, prompts, method, new_tokens=new_tokens, batch=len(prompts), seed=seed)
    return sum(len(record.tokens) for record in records)


@contextmanager
def drafting(assistant: Any, count: int) -> Iterator[None]:
    """Let an assistant of transformers draft this many tokens in every round, however unsure it is."""
    config = assistant.generation_config
    chosen = {
        "num_assistant_tokens": count,
        "num_assistant_tokens_schedule": "constant",
        "assistant_confidence_threshold": 0.0,
    }
    before = {name: getattr(config, name) for name in chosen}
    try:
        vars(config).update(chosen)
        yield
    finally:
        vars(config).update(before)


def _generated(pair: Pair, groups: Sequence[Sequence[Prompt]], new_tokens: int, seed: int, **options: Any) -> int:
    """Return the number of tokens that transformers generates for groups of prompts, padded on the left."""
    import torch

    torch.manual_seed(seed)
    pad, count = (pair.end_tokens or (0,))[0], 0
    for group in groups:
        ids = [pair.tokenizer(prompt.text)["input_ids"] for prompt in group]
        width = max(map(len, ids))
        padded = torch.tensor([[pad] * (width - len(tokens)) + tokens for tokens in ids], device=pair.device)
        mask = torch.tensor([[0] * (width - len(tokens)) + [1] * len(tokens) for tokens in ids], device=pair.device)
        with torch.inference_mode():
            text = pair.target.generate(
                padded,
                attention_mask=mask,
                do_sample=True,
                top_k=0,
                max_new_tokens=new_tokens,
                pad_token_id=pad,
                **options,
            )
        for row in text[:, width:].tolist():
            ends = [place for place, token in enumerate(row) if token in pair.end_tokens]
            count += min(ends[0] + 1, len(row)) if ends else len(row)
    return count


def _speeds(runs: Mapping[str, Callable[[int], int]], rounds: int) -> dict[str, float]:
    """Return the number per second of each run, over alternating rounds, each with its seed, behind a warm-up round."""
    counts, seconds = dict.fromkeys(runs, 0), dict.fromkeys(runs, 0.0)
    for turn in range(rounds + 1):
        for name, run in runs.items():
            began = time.perf_counter()
            count = run(turn)
            if turn:
                counts[name] += count
                seconds[name] += time.perf_counter() - began
    return {name: counts[name] / seconds[name] for name in runs}


def _beside(where: str, speeds: Mapping[str, float], unit: str, reference: str) -> list[Measurement]:
    return [
        Measurement(f"{where}, {name}", speed, unit, reference, speed / speeds[reference])
        for name, speed in speeds.items()
    ]


# ------------------------------------------------------------------------------------------------------- threads

_DECODED = """
import time, torch
from validation.collection.prompts import builtin_prompts
from validation.decoding.loop import decode
from validation.decoding.methods.single_draft import Hlm
from validation.models.pair import load_pair
torch.set_num_threads({threads})
pair, prompts = load_pair("builtin", device="cpu"), builtin_prompts(limit=8)
decode(pair, prompts[:1], Hlm(), new_tokens=2)
print("ready", flush=True)
began = time.perf_counter()
count = sum(len(one.tokens) for one in decode(pair, prompts, Hlm(), new_tokens={tokens}, batch=8))
print(count / (time.perf_counter() - began))
"""


def measure_threads(tokens: int = 24, patience_s: float = PATIENCE_S) -> list[Measurement]:
    """Measure tokens per second with one and two threads that spin or sleep while they wait, also beside a busy core.

    A run that takes longer than ``patience_s`` is stopped, and counts as slow as that.
    """
    measured = []
    for name, busy in (("idle", 0), ("one busy core", 1)):
        others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy)]
        try:
            speeds = {
                f"{threads} threads, {policy.lower()}": _decoded(threads, policy, tokens, patience_s)
                for threads, policy in ((1, "PASSIVE"), (2, "ACTIVE"), (2, "PASSIVE"))
            }
        finally:
            for process in others:
                process.kill()
                process.wait()
        measured += _beside(name, speeds, "tokens/s", "1 threads, passive")
    return measured


def _decoded(threads: int, policy: str, tokens: int, patience_s: float) -> float:
    environment = {**os.environ, "OMP_WAIT_POLICY": policy}
    code = _DECODED.format(threads=threads, tokens=tokens)
    try:
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            timeout=patience_s,
            capture_output=True,
            text=True,
            check=True,
        )
    except subprocess.TimeoutExpired:
        return 8 * tokens / patience_s
    return float(done.stdout.split()[-1])


# ----------------------------------------------------------------------------------------------------- bandwidth


def measure_bandwidth(
    positions: int = CHECKED, vocabulary: int = VOCABULARY, copied: int = COPIED
) -> list[Measurement]:
    """Measure the bytes per second of checks against a copy of a large array, by numpy and torch, one and two threads.

    A check must read each probability of both models once, in float64; that is what is counted.
    """
    import torch

    source = np.random.default_rng(1).random(copied)
    target, before = np.empty_like(source), torch.get_num_threads()
    here, there = torch.from_numpy(source), torch.from_numpy(target)
    measured: list[Measurement] = []
    limits: dict[int, float] = {}
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            seconds = min(_seconds(lambda: there.copy_(here)) for _ in range(5))
            limits[threads] = 2 * source.nbytes / seconds
            measured.append(_rate(f"copy, torch, {threads} threads", limits[threads], limits[threads]))
        seconds = min(_seconds(lambda: np.copyto(target, source)) for _ in range(5))
        measured.append(_rate("copy, numpy, 1 thread", 2 * source.nbytes / seconds, limits[1]))
        size = 2 * 8 * positions * vocabulary
        with tempfile.TemporaryDirectory() as folder:
            trace = stored(SyntheticTrace(positions, vocabulary), Path(folder, "trace"))
            for name in CLAIMS:
                for device in ("numpy", "cpu"):
                    for threads in (1, 2):
                        torch.set_num_threads(threads)
                        run = partial(_checked, trace, name, device, threads)
                        what = f"{name}, {'numpy' if device == 'numpy' else 'torch'}, {threads} threads"
                        measured.append(_rate(what, size / min(_seconds(run) for _ in range(2)), limits[threads]))
    finally:
        torch.set_num_threads(before)
    return measured


def _checked(trace: Trace, name: str, device: str, workers: int) -> None:
    """Check one claim on a trace, with a number of workers."""
    import hlmtheory
    from validation.claims.check import check_trace, parts_here

    parts = partial(parts_here, workers=workers)
    check_trace(trace, claims={name: hlmtheory.all_claims()[name]}, device=device, parts=parts)


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _rate(what: str, rate: float, limit: float) -> Measurement:
    return Measurement(what, rate / 1e9, "GB/s", "a copy by torch with as many threads", rate / limit)
