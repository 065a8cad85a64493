"""Measure how much longer a collection takes than its forward passes alone.

Each round runs a collection and records the inputs of every call of both models. It then repeats only these calls, with
the same batches, shapes, masks and caches, but without sampling, reading the logits, copying or storing.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from validation.collection.collect import collect
from validation.collection.prompts import Prompt
from validation.models.devices import wait_for
from validation.models.pair import Pair

ROUNDS = 3

Call = tuple[Any, tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Pace:
    """Stored positions of each round, seconds of its collection, and seconds of its forward passes alone."""

    positions: tuple[int, ...]
    collection: tuple[float, ...]
    forwards: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Throughput of the collection divided by that of its forward passes alone; median over the rounds."""
        return median(bare / whole for bare, whole in zip(self.forwards, self.collection, strict=True))

    @property
    def forward_milliseconds(self) -> float:
        """Time of the forward passes per stored position, in milliseconds."""
        return 1e3 * sum(self.forwards) / sum(self.positions)


def measure_pace(pair: Pair, prompts: Sequence[Prompt], *, rounds: int = ROUNDS, **settings: Any) -> Pace:
    """Measure several collections with storage, each followed by the same forward passes alone.

    Parameters
    ----------
    pair : Pair
    prompts : sequence of Prompt
    rounds : int
        Measured rounds; one warm-up round precedes them.
    **settings
        Passed to :func:`validation.collection.collect.collect`: ``positions``, ``new_tokens``, ``batch``.

    Returns
    -------
    Pace
    """
    positions, whole, bare = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds + 1):
            calls: list[Call] = []
            with _recorded(pair, calls):
                seconds, trace = _timed(
                    pair, partial(collect, pair, prompts, Path(folder, str(number)), seed=number, **settings)
                )
            again, _ = _timed(pair, partial(_repeat, calls))
            if number:
                positions.append(trace.positions)
                whole.append(seconds)
                bare.append(again)
    return Pace(tuple(positions), tuple(whole), tuple(bare))


def _timed(pair: Pair, work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    result = work()
    wait_for(pair.device)
    return time.perf_counter() - began, result


@contextmanager
def _recorded(pair: Pair, calls: list[Call]) -> Iterator[None]:
    """Record the inputs of every call of both models; of a cache, only whether it is fresh (empty) or in use."""

    def record(model: Any, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        cache = options.get("past_key_values")
        fresh = cache is not None and cache.get_seq_length() == 0
        mark = None if cache is None else ("fresh" if fresh else "same")
        calls.append((model, args, options | {"past_key_values": mark}))

    with ExitStack() as hooks:
        for model in (pair.draft, pair.target):
            hooks.callback(model.register_forward_pre_hook(record, with_kwargs=True).remove)
        yield


def _repeat(calls: list[Call]) -> None:
    """Repeat the recorded calls, each sequence with its own cache."""
    import torch
    from transformers import DynamicCache

    cache = None
    with torch.inference_mode():
        for model, args, options in calls:
            if options["past_key_values"] == "fresh":
                cache = DynamicCache(config=model.config)
            given = None if options["past_key_values"] is None else cache
            model(*args, **(options | {"past_key_values": given}))
