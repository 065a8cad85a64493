"""Benchmarks ``decoding`` and ``verification``: overhead of the generation loop, and its verification step.

The loop is compared with the forward passes, on the built-in pair and on simulated models of a billion parameters,
which reproduce only the time of a forward pass and the size of the caches. The verification is compared with that of
transformers. The share of sequences that do not depend on the batch size is counted on the built-in pair.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import cycle
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from validation.benchmarks.measurement import Measurement
from validation.collection.prompts import Prompt, builtin_prompts
from validation.decoding.loop import decode
from validation.decoding.methods.base import Method
from validation.decoding.methods.multi_draft import FixedLength, PromptLookup
from validation.decoding.methods.quantized import KSqs
from validation.decoding.methods.single_draft import DraftOnly, Hlm, TargetOnly, UHlm
from validation.decoding.random_streams import Noise
from validation.decoding.sampling import distributions_of, draw, levels
from validation.decoding.session import Clock, Draft, Session
from validation.decoding.verification import verify
from validation.models.pair import Pair, load_pair

if TYPE_CHECKING:
    import torch

    from validation.decoding.kv_cache import KeyValueCache

BATCH, NEW_TOKENS, REPEATS = 16, 64, 5
LOOP_LIMIT, BILLION_LIMIT = 0.10, 0.03  # relative to the forward passes
EQUAL_TEXTS, EQUAL_TOKENS, EQUAL_BATCH, EQUAL_LIMIT = 32, 32, 32, 0.99
WEIGHTS = 2**24
"""Number of weights read repeatedly; they exceed a core's caches."""
BILLION_S, BILLION_LAYERS, BILLION_HEADS, BILLION_SIZE, BILLION_VOCABULARY = 0.0256, 22, 4, 64, 32_000
"""TinyLlama-1.1B: seconds per forward pass (cu-hlm Section V), layers, key-value heads, head size, V."""


def measure_decoding(
    new_tokens: int = NEW_TOKENS,
    vocabulary: int = BILLION_VOCABULARY,
    texts: int = EQUAL_TEXTS,
    repeats: int = REPEATS,
) -> list[Measurement]:
    """Measure the loop's overhead on the built-in pair and on simulated 1.1-billion-parameter models, batches of 16.

    Also measure the share of sequences that are equal for batches of 1 and of 32.
    """
    prompts, pair = builtin_prompts(), load_pair(device="auto")
    settings = {"batch": BATCH, "new_tokens": new_tokens, "repeats": repeats}
    methods = [FixedLength(4), Hlm(), UHlm(0.5), KSqs(64), TargetOnly(), DraftOnly(), PromptLookup()]
    found = measure_loop(pair, prompts[:BATCH], methods, **settings)
    billion = measure_loop(simulated_pair(vocabulary, BILLION_S), prompts[:BATCH], methods, **settings)
    spread = prompts[:: max(1, len(prompts) // texts)][:texts]
    equal = measure_equal_texts(pair, spread, methods[:5], new_tokens=min(new_tokens, EQUAL_TOKENS))
    return [*_within("built-in pair", found, LOOP_LIMIT), *_within("1.1 B, simulated", billion, BILLION_LIMIT), *equal]


def measure_equal_texts(
    pair: Pair, prompts: Sequence[Prompt], methods: Sequence[Method], *, new_tokens: int, batch: int = EQUAL_BATCH
) -> list[Measurement]:
    """Measure the percentage of sequences that are equal alone and in a batch, by method and overall.

    Sequences differ if rounding in the models' matrix products, which depends on the batch, changes a decision.
    """
    counts = {}
    for method in methods:
        alone, together = (decode(pair, prompts, method, new_tokens=new_tokens, batch=size) for size in (1, batch))
        counts[method.name] = sum(one.tokens == other.tokens for one, other in zip(alone, together, strict=True))
    shares = {f"{name}: {count} of {len(prompts)}": count / len(prompts) for name, count in counts.items()}
    shares["all methods"] = sum(counts.values()) / (len(counts) * len(prompts))
    against = f"the least, {EQUAL_LIMIT:.0%}"
    return [
        Measurement(f"equal texts of batches of 1 and {batch}, {what}", 100 * share, "%", against, share / EQUAL_LIMIT)
        for what, share in shares.items()
    ]


def _within(name: str, found: list[Measurement], limit: float) -> list[Measurement]:
    """Return the measurements under a name, and the largest share of the loop against its limit."""
    worst = max(one.ratio for one in found if one.what.endswith(": loop"))
    named = [Measurement(f"{name}, {m.what}", m.value, m.unit, m.against, m.ratio) for m in found]
    limited = f"the limit, {limit:.0%} of the forward passes"
    return [*named, Measurement(f"{name}, largest share of the loop", 100 * worst, "%", limited, worst / limit)]


def measure_loop(
    pair: Pair, prompts: Sequence[Prompt], methods: Sequence[Method], *, repeats: int = REPEATS, **settings: Any
) -> list[Measurement]:
    """Measure the seconds of the loop, of sampling and of the methods' arithmetic, against the forward passes.

    The values are those of the run with the fastest loop.
    """
    found = []
    for method in methods:
        clocks = [Clock() for _ in range(repeats)]
        for clock in clocks:
            decode(pair, prompts, method, clock=clock, **settings)
        clock = min(clocks, key=lambda one: one.loop)
        passes = clock.draft + clock.target
        parts = {"loop": clock.loop, "sampling": clock.sampling, "decisions and messages": clock.method}
        found += [
            Measurement(f"{method.name}: {what}", seconds, "s", "forward passes", seconds / passes)
            for what, seconds in parts.items()
        ]
    return found


class SimulatedModel:
    """A model with the caches of a real one, a given time per pass, and logits that depend on the last token.

    A real model keeps the host busy with torch, so this one reads weights until the time is over. If it slept or polled
    the clock instead, the core would be slower in the next step: up to .5 ms for the first call of numpy.

    Parameters
    ----------
    table : float32 tensor, shape (rows, V)
        Logits after token v are row v mod rows.
    seconds : float
        Time of a forward pass of any size. It is exceeded by at most one read of the weights.
    """

    def __init__(self, table: torch.Tensor, seconds: float) -> None:
        self.table, self.seconds, self.dtype = table, seconds, table.dtype
        self.weights = cycle(table.new_ones(WEIGHTS).chunk(64))

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        position_ids: torch.Tensor,
        past_key_values: KeyValueCache,
        use_cache: bool,
        logits_to_keep: int,
    ) -> SimpleNamespace:
        """Return the logits of the last ``logits_to_keep`` tokens."""
        began = time.perf_counter()
        new = self.table.new_zeros((len(input_ids), BILLION_HEADS, input_ids.shape[1], BILLION_SIZE))
        for layer in range(BILLION_LAYERS):
            past_key_values.update(new, new, layer)
        logits = self.table[input_ids[:, -logits_to_keep:] % len(self.table)]
        while time.perf_counter() < began + self.seconds:
            next(self.weights).sum()
        return SimpleNamespace(logits=logits)

    __call__ = forward


def simulated_pair(vocabulary: int, seconds: float) -> Pair:
    """Return two simulated models over a vocabulary, whose acceptance rate is about one half."""
    import torch

    rng = np.random.default_rng(1)
    target = rng.normal(scale=4.0, size=(64, vocabulary)).astype(np.float32)
    draft = target + rng.normal(size=target.shape).astype(np.float32)
    one, other = (cast("Any", SimulatedModel(torch.from_numpy(table), seconds)) for table in (draft, target))

    def tokens(texts: Sequence[str], verbose: bool = True) -> SimpleNamespace:
        return SimpleNamespace(input_ids=[[len(word) % vocabulary for word in text.split()] for text in texts])

    tokens.bos_token_id = None  # type: ignore[attr-defined]
    tokenizer: Any = tokens
    device = torch.device("cpu")
    name = "simulated"
    return Pair(name, one, other, tokenizer, vocabulary, 2048, (), device, "float32", name, name, 0, 0)


def measure_verification(vocabulary: int = 32_000, drafts: int = 4, repeats: int = 30) -> list[Measurement]:
    """Measure the verification step of a round against transformers' ``_speculative_sampling`` on the same drafts.

    Both get the target model's logits. transformers computes the draft distributions from the draft model's logits. Our
    loop reuses the distributions of sampling, so our time is measured both without and with this computation.
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
            rows = distributions_of(logits[0], 1.0, 1.0)
            tokens, _ = draw(rows, rng.random((drafts, levels(vocabulary))))
            flight = [Draft(int(t), float(rows[i, t]), rows[i], rows[i]) for i, t in enumerate(tokens)]
            session = Session(pair, 1, Noise(turn, ["a"], drafts + 1), None, 1.0, 1.0, drafts + 1)
            ids, zero = torch.from_numpy(tokens)[None], np.zeros(1, dtype=np.int64)
            with torch.inference_mode():
                began = time.perf_counter()
                verify(method, session, zero, [flight], target[0], zero + drafts + 1, zero, zero + drafts + 1)
                middle = time.perf_counter()
                distributions_of(logits[0], 1.0, 1.0)
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
