"""What the generation loop costs beside the models it runs, and its verification beside that of transformers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from validation.bench import Measurement
from validation.decode import decode
from validation.decoding.judging import judge
from validation.decoding.noise import Noise
from validation.decoding.sampling import draw, rows_of
from validation.decoding.session import Clock, Draft, Session
from validation.methods import FixedLength, Method
from validation.models import Pair
from validation.prompts import Prompt


def measure_loop(
    pair: Pair, prompts: Sequence[Prompt], methods: Sequence[Method], **settings: Any
) -> list[Measurement]:
    """Seconds of the loop itself, of sampling and of the methods' arithmetic, beside the forward passes of the run."""
    found = []
    for method in methods:
        clock = Clock()
        decode(pair, prompts, method, clock=clock, **settings)
        passes = clock.small + clock.large
        parts = {"loop": clock.loop, "sampling": clock.sampling, "decisions and messages": clock.method}
        found += [
            Measurement(f"{method.name}: {what}", seconds, "s", "forward passes", seconds / passes)
            for what, seconds in parts.items()
        ]
    return found


def measure_verification(vocabulary: int = 32_000, drafts: int = 4, repeats: int = 30) -> list[Measurement]:
    """Accepting, rejecting and replacing in a round, beside transformers' ``_speculative_sampling`` on the same drafts.

    Both get the large model's logits. transformers takes the small one's logits, too, and makes its rows; here the rows
    are those that the drafts were drawn from, and making them is measured both ways: left out, and counted in.
    """
    import torch
    from transformers.generation import utils

    theirs: Callable[..., Any] = utils._speculative_sampling
    pair = cast("Pair", SimpleNamespace(end_tokens=(), device=torch.device("cpu"), vocabulary=vocabulary))
    method, rng = FixedLength(drafts), np.random.default_rng(1)
    found = []
    for name, apart in (("alike", 0.3), ("unlike", 3.0)):
        spent: dict[str, list[float]] = {"ours": [], "ours, and the drafts' rows": [], "transformers": []}
        for turn in range(repeats):
            target = torch.from_numpy(rng.normal(scale=4.0, size=(1, drafts + 1, vocabulary)).astype(np.float32))
            logits = target[:, :drafts] + apart * torch.from_numpy(
                rng.normal(size=(1, drafts, vocabulary)).astype(np.float32)
            )
            rows = rows_of(logits[0], 1.0, 1.0)
            tokens, _ = draw(rows, rng.random(drafts))
            flight = [Draft(int(t), float(rows[i, t]), rows[i], rows[i]) for i, t in enumerate(tokens)]
            session = Session(pair, 1, Noise(turn, ["a"], drafts + 1), None, 1.0, 1.0, drafts + 1)
            ids, zero = torch.from_numpy(tokens)[None], np.zeros(1, dtype=np.int64)
            with torch.inference_mode():
                began = time.perf_counter()
                judge(method, session, zero, [flight], target, zero, zero + drafts + 1)
                middle = time.perf_counter()
                rows_of(logits[0], 1.0, 1.0)
                after = time.perf_counter()
                theirs(ids, logits, drafts, target, None)
                end = time.perf_counter()
            for what, seconds in zip(spent, (middle - began, after - began, end - after), strict=True):
                spent[what].append(seconds)
        median = {what: float(np.median(seconds)) for what, seconds in spent.items()}
        found += [
            Measurement(f"{what} ({name})", 1e3 * value, "ms", "transformers", value / median["transformers"])
            for what, value in median.items()
        ]
    return found
