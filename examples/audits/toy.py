"""A pair of toy models with three tokens, and what the adapters beside this file share.

``python examples/audits/toy.py toy.npz`` writes the law of the next three tokens for ``hlm audit --table``.
"""

import sys
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM
from transformers.modeling_outputs import CausalLMOutputWithPast

V, DEPTH, DRAFTS = 3, 3, 2
PROMPTS = [[0, 1], [2, 1]]


class Toy(torch.nn.Module):
    """Logits from the last token and the mean of all; the cache holds the tokens, so a stale one shows."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        made = torch.Generator().manual_seed(seed)
        self.last, self.all = (torch.nn.Parameter(1.5 * torch.randn(V, V, generator=made)) for _ in range(2))

    def forward(self, input_ids: Any, past_key_values: Any = None, use_cache: bool = False, **_: Any) -> Any:
        """Return logits of shape (B, L, V), as a model of transformers does."""
        text = input_ids
        if use_cache or past_key_values is not None:
            past_key_values = DynamicCache() if past_key_values is None else past_key_values
            keys = input_ids[:, None, :, None].float()
            text = past_key_values.update(keys, keys, 0)[0][:, 0, :, 0].long()
        means = self.all[text].cumsum(1) / torch.arange(1, text.shape[1] + 1)[:, None]
        logits = (self.last[text] + means)[:, -input_ids.shape[1] :]
        return CausalLMOutputWithPast(logits=logits, past_key_values=past_key_values)


def llama(seed: int, vocabulary: int = V) -> Any:
    """Return a Llama with the three tokens, or more, for packages that need a real model."""
    torch.manual_seed(seed)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    ends = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    return LlamaForCausalLM(LlamaConfig(vocab_size=vocabulary, initializer_range=0.8, **sizes, **ends)).eval()


def table(logits: Callable[[Any], Any]) -> np.ndarray:
    """Return the rows (prompts, nodes, V) of a model that maps ids (1, L) to logits (1, L, V)."""
    texts = [text for depth in range(DEPTH) for text in product(range(V), repeat=depth)]
    with torch.inference_mode():
        rows = [[logits(torch.tensor([[*prompt, *text]]))[0, -1] for text in texts] for prompt in PROMPTS]
    return np.array([[row.double().softmax(-1).numpy() for row in own] for own in rows])


TARGET, DRAFT = Toy(1).eval(), Toy(2).eval()


def tables(target: Any = TARGET, draft: Any = DRAFT) -> dict[str, Any]:
    """Return what ``hlm audit --table`` reads from a file."""
    return {"target": table(lambda x: target(x).logits), "draft": table(lambda x: draft(x).logits), "prompts": PROMPTS}


def row(model: Any, text: Sequence[int]) -> Any:
    """Return the probabilities (V,) of the token after a text."""
    with torch.inference_mode():
        return model(torch.tensor([list(text)])).logits[0, -1].softmax(-1)


def drafted(text: Sequence[int], greedy: bool = False) -> tuple[list[int], list[Any]]:
    """Return drafts that continue a text, and the draft model's distribution of each."""
    tokens: list[int] = []
    rows = []
    for _ in range(DRAFTS):
        rows.append(row(DRAFT, [*text, *tokens]))
        tokens.append(int(rows[-1].argmax() if greedy else torch.multinomial(rows[-1], 1)))
    return tokens, rows


def targets(text: Sequence[int], drafts: Sequence[int]) -> Any:
    """Return the target's probabilities (K + 1, V) before and behind each draft."""
    with torch.inference_mode():
        return TARGET(torch.tensor([[*text, *drafts]])).logits[0, len(text) - 1 :].softmax(-1)


def sampler(draw: Callable[[list[int]], list[int]], enumerable: bool = True) -> Any:
    """Return ``sample(prompts, n, seed)`` from ``draw(text)``, called until a text has three new tokens.

    ``enumerable``: whether ``exact.py`` can follow each random choice of ``draw``.
    """

    def whole(prompt: list[int]) -> list[int]:
        text: list[int] = []
        while len(text) < DEPTH:
            text += draw([*prompt, *text])
        return text[:DEPTH]

    def sample(prompts: list[list[int]], n: int, seed: int) -> list[list[list[int]]]:
        torch.manual_seed(seed)
        with torch.inference_mode():
            return [[whole(prompt) for _ in range(n)] for prompt in prompts]

    sample.draw = draw if enumerable else None  # type: ignore[attr-defined]
    return sample


if __name__ == "__main__":
    np.savez(Path(sys.argv[1]), **tables())
