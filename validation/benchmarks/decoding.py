"""What the generation loop costs beside the models it runs, and its verification beside that of transformers.

The rows ``decoding`` and ``verification`` of the bench. The loop's share is measured on the built-in pair, and on
models of a billion parameters, of which only the time of a forward pass and the size of the caches are simulated. How
many texts do not depend on their batch is counted on the built-in pair.
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
LOOP_LIMIT, BILLION_LIMIT = 0.10, 0.03  # of the forward passes
EQUAL_TEXTS, EQUAL_TOKENS, EQUAL_BATCH, EQUAL_LIMIT = 32, 32, 32, 0.99
WEIGHTS = 2**24
"""As many as exceed a core's caches, read again and again."""
BILLION_S, BILLION_LAYERS, BILLION_HEADS, BILLION_SIZE, BILLION_VOCABULARY = 0.0256, 22, 4, 64, 32_000
"""TinyLlama-1.1B: seconds of a forward pass (cu-hlm Section V), layers, key-value heads and their size, V."""


def measure_decoding(
    new_tokens: int = NEW_TOKENS,
    vocabulary: int = BILLION_VOCABULARY,
    texts: int = EQUAL_TEXTS,
    repeats: int = REPEATS,
) -> list[Measurement]:
    """The loop's share on the built-in pair and on simulated models of 1.1 billion parameters, batches of 16.

    And the share of texts that a batch of 1 and one of 32 have in common.
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
    """Share of texts that come out the same alone and in a batch, in percent, by method and of all.

    They differ where the rounding of the models' matrix products, which depends on the batch, moves a decision.
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
    """The measurements under a name, then the largest share of the loop beside what it may be."""
    worst = max(one.ratio for one in found if one.what.endswith(": loop"))
    named = [Measurement(f"{name}, {m.what}", m.value, m.unit, m.against, m.ratio) for m in found]
    limited = f"the limit, {limit:.0%} of the forward passes"
    return [*named, Measurement(f"{name}, largest share of the loop", 100 * worst, "%", limited, worst / limit)]


def measure_loop(
    pair: Pair, prompts: Sequence[Prompt], methods: Sequence[Method], *, repeats: int = REPEATS, **settings: Any
) -> list[Measurement]:
    """Seconds of the loop itself, of sampling and of the methods' arithmetic, beside the forward passes of the run.

    Of several runs that whose loop took least.
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
    """A model that fills the caches of a real one, takes a given time a pass, and gives rows by the last token.

    A host that runs a model calls torch all the while, and so does this one, to read weights until the time is over. A
    core that slept, or did nothing but ask for the time, would take longer for whatever comes next: up to .5 ms for the
    first call of numpy.

    Parameters
    ----------
    table : float32 tensor, shape (rows, V)
        Logits after token v are row v mod rows.
    seconds : float
        Of a forward pass, whatever its size; by one reading of some weights more at most.
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
        """Logits of the last ``logits_to_keep`` tokens."""
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
    """Two simulated models over a vocabulary, alike as two language models are: about half of the drafts are kept."""
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
    """Accepting, rejecting and replacing in a round, beside transformers' ``_speculative_sampling`` on the same drafts.

    Both get the target model's logits. transformers also takes the draft model's logits and makes its distributions.
    Here they are those that the drafts were drawn from, and making them is measured both ways: left out, and counted.
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
