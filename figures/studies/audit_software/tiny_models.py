"""A tiny target and draft of one tokenizer, and a draft of another tokenizer, written as model folders."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

WORDS = 63
"""Words of the target's vocabulary; with the end of a text, V = 64, so that top-k 50 cuts."""
PROMPTS = ("w1 w2 w3 w1 w2", "w7 w8 w7 w8")
"""They repeat themselves, so that prompt lookup finds drafts."""


def write_tiny_models(folder: Path) -> None:
    """Write ``target``, ``draft`` and ``other`` (another vocabulary) into a folder, always the same."""
    words = [f"w{i}" for i in range(1, WORDS + 1)]
    own = _tokenizer(words)
    other = _tokenizer([*reversed(words[: WORDS - 8]), *(f"x{i}" for i in range(12))])
    torch.manual_seed(5)
    target = _model(len(own))
    draft = _model(len(own))
    with torch.no_grad():
        for mine, its in zip(draft.parameters(), target.parameters(), strict=True):
            mine.copy_(its + 0.12 * its.std() * torch.randn_like(its))
    for name, model, tokenizer in (
        ("target", target, own),
        ("draft", draft, own),
        ("other", _model(len(other)), other),
    ):
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)


def _tokenizer(words: list[str]) -> PreTrainedTokenizerFast:
    entries = {word: place for place, word in enumerate(["<end>", *words])}
    tokenizer = Tokenizer(models.WordLevel(entries, unk_token="<end>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<end>", pad_token="<end>", unk_token="<end>", bos_token=None
    )


def _model(vocabulary: int) -> LlamaForCausalLM:
    """Return a model of two layers whose rows have about three likely tokens."""
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=64,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=0,
        initializer_range=0.3,
    )
    return LlamaForCausalLM(config).eval()
