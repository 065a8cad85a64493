"""A pair of toy models with three tokens, and what the adapters beside this file share.

``python examples/audits/toy.py toy.npz`` writes the law of the next three tokens for ``hlm audit --table``.
"""

import sys
from collections.abc import Callable, Sequence
from itertools import product
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


TARGET, DRAFT = Toy(1).eval(), Toy(2).eval()


def rows(model: Any, text: Sequence[int], new: int = 1) -> Any:
    """Return the probabilities (new, V) of the last ``new`` places of a text, and of the token behind it."""
    with torch.inference_mode():
        found = model(torch.tensor([list(text)]))
        return getattr(found, "logits", found)[0, -new:].softmax(-1)


def tables(target: Any = TARGET, draft: Any = DRAFT) -> dict[str, Any]:
    """Return what ``hlm audit --table`` reads from a file."""
    texts = [text for depth in range(DEPTH) for text in product(range(V), repeat=depth)]
    made = [[[rows(m, [*prompt, *text])[0].numpy() for text in texts] for prompt in PROMPTS] for m in (target, draft)]
    return {"target": np.array(made[0]), "draft": np.array(made[1]), "prompts": PROMPTS}


def drafted(text: Sequence[int], greedy: bool = False) -> tuple[list[int], Any, Any]:
    """Return drafts behind a text, the draft model's distributions (K, V), and the target's (K + 1, V)."""
    tokens, told = list(text), []
    for _ in range(DRAFTS):
        told.append(rows(DRAFT, tokens)[0])
        tokens.append(int(told[-1].argmax() if greedy else torch.multinomial(told[-1], 1)))
    return tokens[len(text) :], torch.stack(told), rows(TARGET, tokens, DRAFTS + 1)


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
    np.savez(sys.argv[1], **tables())
