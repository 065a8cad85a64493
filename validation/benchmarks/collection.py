"""What a collection costs beyond the forward passes it makes: the two measured in turns, in one run.

Every call of either model in a collection is recorded, by its inputs, and made again with nothing around it: the same
batches, shapes, masks and caches, but no sampling, no look at the logits, no copy and no storing.
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
from validation.models.pair import Pair

ROUNDS = 3

Call = tuple[Any, tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds of each round's collection, and of its forward passes alone."""

    positions: tuple[int, ...]
    collection: tuple[float, ...]
    forwards: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Tokens a second of the collection over those of its bare forward passes: the median of the rounds."""
        return median(bare / whole for bare, whole in zip(self.forwards, self.collection, strict=True))

    @property
    def forward_milliseconds(self) -> float:
        """What the forward passes cost for one position stored."""
        return 1e3 * sum(self.forwards) / sum(self.positions)


def measure_pace(pair: Pair, prompts: Sequence[Prompt], *, rounds: int = ROUNDS, **settings: Any) -> Pace:
    """Collect several times, storing included, each time followed by the same forward passes alone.

    Parameters
    ----------
    pair : Pair
    prompts : sequence of Prompt
    rounds : int
        Measured ones; one more goes before them to warm up.
    **settings
        Of :func:`validation.collection.collect.collect`: ``positions``, ``new_tokens``, ``batch``.

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
    if pair.device.type == "cuda":
        import torch

        torch.cuda.synchronize(pair.device)
    return time.perf_counter() - began, result


@contextmanager
def _recorded(pair: Pair, calls: list[Call]) -> Iterator[None]:
    """Keep the inputs of every call of the two models, but for the caches."""

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
    """The calls once more, each text with a cache of its own."""
    import torch
    from transformers import DynamicCache

    cache = None
    with torch.inference_mode():
        for model, args, options in calls:
            if options["past_key_values"] == "fresh":
                cache = DynamicCache(config=model.config)
            given = None if options["past_key_values"] is None else cache
            model(*args, **(options | {"past_key_values": given}))
