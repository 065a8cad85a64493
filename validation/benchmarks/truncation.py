"""Benchmark ``truncation``: time of the rules for top_k, against a sort of the same distributions.

The distributions are softmaxes of Gaussian logits, from flat to peaked. Times are CPU times of this thread, so other
work on the machine does not count. numpy is compared with numpy's ``sort`` and ``argsort``; torch on the CPU with
torch's sort and with numpy's on the same memory. torch's sort and ``argsort`` return the order, which a message of the
k largest entries needs; ``sort`` returns only the values. The limit holds for the rules that a device or a server uses,
not for ``exact_size``, which is an oracle.

The time of ``sort`` depends on the processor's instructions: for 32,000 float32 it is .12 ms with AVX2, and .6 ms with
the AVX-512 of some processors; ``argsort`` takes .5 and 1.3 ms. So the ratios differ between machines;
NPY_DISABLE_CPU_FEATURES="X86_V4,AVX512_ICL" gives those of AVX2.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hlmtheory import truncation, verification
from validation.benchmarks.measurement import Measurement

VOCABULARY = 32_000
ROWS, SCALES, TYPES = (1, 16, 64), (1.0, 3.0, 6.0), ("float64", "float32")
REPEATS, SECONDS = 30, 1.2  # maximum rounds of a case; no round begins after SECONDS
LIMIT = 3.0  # ratio to the sort
ORACLE = "exact_size"
SORT, ORDER, TORCH = "numpy's sort", "numpy's argsort", "torch's sort"

Call = Callable[[], Any]


def rules(target: Any, draft: Any, logits: Any) -> dict[str, Call]:
    """Return the rules, each with a tolerance at which it sends some of the entries."""
    token = draft.argmax(-1)
    return {
        "exact_size": lambda: truncation.exact_size(target, draft, 0.1),
        "offline_size": lambda: truncation.offline_size(target, draft, 0.1),
        "online_size": lambda: truncation.online_size(draft, token, 0.3, 0.1, sharpness=5.0),
        "online_certified_size": lambda: truncation.online_certified_size(draft, token, 0.3, 0.1, estimated=True),
        "certified_size": lambda: truncation.certified_size(draft, 0.1),
        "certified_size, 8 bits": lambda: truncation.certified_size(draft, 1.3, bits_per_probability=8),
        "certified_size, 16 bits": lambda: truncation.certified_size(draft, 0.4, bits_per_probability=16),
        "size_from_top_p": lambda: truncation.size_from_top_p(draft, 0.9),
        "size_from_min_p": lambda: truncation.size_from_min_p(draft, 0.05),
        "size_from_top_n_sigma": lambda: truncation.size_from_top_n_sigma(logits, 1.0),
    }


def drawn(rows: int, vocabulary: int, scale: float, kind: str, seed: int = 0) -> tuple[Any, Any, Any]:
    """Return target and draft distributions and draft logits; the target's logits add standard Gaussian noise."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(scale=scale, size=(rows, vocabulary))
    target = verification.softmax(logits + rng.normal(size=logits.shape))
    return target.astype(kind), verification.softmax(logits).astype(kind), logits.astype(kind)


def measure(
    rows: Sequence[int] = ROWS,
    scales: Sequence[float] = SCALES,
    types: Sequence[str] = TYPES,
    *,
    vocabulary: int = VOCABULARY,
    repeats: int = REPEATS,
) -> list[Measurement]:
    """Measure every rule against the sorts, and report the largest ratio to each sort."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # numpy's sort uses one thread
    found: list[Measurement] = []
    try:
        for kind in types:
            for count in rows:
                for scale in scales:
                    arrays = drawn(count, vocabulary, scale, kind)
                    case = f"{count} x {vocabulary:,}, {kind}, scale {scale:g}"
                    found += _beside_sorts(f"numpy, {case}", arrays, None, repeats)
                    tensors = tuple(torch.from_numpy(array) for array in arrays)
                    found += _beside_sorts(f"torch, {case}", tensors, arrays[1], repeats)
    finally:
        torch.set_num_threads(threads)
    return [*found, *_worst(found)]


def _worst(found: Sequence[Measurement]) -> list[Measurement]:
    """Return the largest ratios against the limit: numpy to its sorts, torch to its own sort and to numpy's."""
    lines = []
    for library, sorts in (("numpy", (SORT, ORDER)), ("torch", (TORCH, SORT))):
        for sort in sorts:
            these = [
                one
                for one in found
                if one.against.startswith(f"{sort}, {library}")
                and not one.what.startswith((SORT, ORDER, TORCH, ORACLE))
            ]
            worst = max(these, key=lambda one: one.ratio)
            lines.append(
                Measurement(f"{worst.what}: the worst", worst.ratio, f"x {sort}", "the limit", worst.ratio / LIMIT)
            )
    return lines


def _beside_sorts(case: str, arrays: tuple[Any, ...], memory: Any, repeats: int) -> list[Measurement]:
    """Measure sorts and rules in alternation, so that disturbances affect all; the minimum of each counts."""
    draft = arrays[1]
    host = draft if memory is None else memory
    sorts: dict[str, Call] = {SORT: lambda: np.sort(host, axis=-1)}
    if memory is None:
        sorts[ORDER] = lambda: np.argsort(host, axis=-1)
    else:
        sorts[TORCH] = lambda: draft.sort(dim=-1, descending=True)
    best = _best({**sorts, **rules(*arrays)}, repeats)
    return [
        Measurement(f"{name}, {case}", 1e3 * taken, "ms", f"{sort}, {case}", taken / best[sort])
        for sort in sorts
        for name, taken in best.items()
        if name == sort or name not in sorts
    ]


def _best(calls: dict[str, Call], repeats: int) -> dict[str, float]:
    """Return the minimum CPU seconds of each call over several rounds; the first round is a warm-up."""
    best = dict.fromkeys(calls, math.inf)
    start = time.thread_time()
    for done in range(repeats + 1):
        for name, call in calls.items():
            began = time.thread_time()
            call()
            best[name] = min(best[name], max(time.thread_time() - began, 1e-9))
        if done and time.thread_time() - start > SECONDS:
            break
    return best
