"""Stores that llama-perplexity itself wrote for the built-in pair, beside the same rows from transformers."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from validation.collection.llama_cpp import HEADER, open_store
from validation.models.pair import PAIRS_FOLDER, load_pair

STORES = Path(__file__).parent / "llama_cpp_stores"
NAMES = ("draft", "target")
ROUNDING = 16 / 65535 / 2  # half a level, in nats
ARITHMETIC = 2e-4  # of float32 in two orders of summation; measured: 1.5e-4
CONTEXT = 16


@pytest.fixture(scope="module")
def builtin():
    return load_pair()


def tokens_of(path: Path) -> np.ndarray:
    return np.fromfile(path, np.int32, CONTEXT, offset=HEADER).astype(np.int64)


@pytest.fixture(scope="module")
def rows(builtin):
    ids = torch.from_numpy(tokens_of(STORES / "draft.kld"))[None]
    with torch.inference_mode():
        found = {name: getattr(builtin, name)(ids).logits[0, CONTEXT // 2 : -1] for name in NAMES}
    return {name: torch.log_softmax(logits.double(), dim=-1).numpy() for name, logits in found.items()}


def test_the_tokens_are_those_of_the_text(builtin):
    prompt = json.loads((PAIRS_FOLDER / "builtin" / "prompts.jsonl").read_text().splitlines()[0])["prompt"]
    for name in NAMES:
        store = open_store(STORES / f"{name}.kld")
        assert (store.context, store.vocabulary, store.chunks, store.rows) == (CONTEXT, 4096, 1, 7)
        assert builtin.tokenizer(prompt, add_special_tokens=False).input_ids[:CONTEXT] == tokens_of(store.path).tolist()
        assert store.tokens.tolist() == tokens_of(store.path)[9:].tolist()


@pytest.mark.parametrize("name", NAMES)
def test_log_probabilities_agree_within_the_error_of_the_format(name, rows):
    store = open_store(STORES / f"{name}.kld")
    stored, own = store.log_probabilities(0, store.rows).astype(np.float64), rows[name]
    floored = stored == stored.min(axis=1, keepdims=True)
    assert np.abs(stored - own)[~floored].max() <= ROUNDING + ARITHMETIC
    assert (own[floored] <= stored[floored] + ROUNDING + ARITHMETIC).all()
    assert np.abs(stored[:, 1:] - own[:, :-1]).max() > 1  # another alignment does not agree
