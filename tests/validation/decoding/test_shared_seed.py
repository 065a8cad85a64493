"""Drafts by a shared seed: the text is the target model's with this seed, whatever drafts it; only tokens are sent."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from hlmtheory.channel import Rayleigh
from hlmtheory.shared_seed import race_winner
from tests.validation.tiny_texts import PROMPTS
from validation.decoding.links import FadingLink, Way
from validation.decoding.loop import decode
from validation.decoding.methods.base import Method
from validation.decoding.methods.shared_seed import SharedSeed, SharedSeedStreamed, SharedSeedTree
from validation.decoding.random_streams import Noise
from validation.errors import UserError
from validation.models.pair import Pair

Texts = list[list[int]]


def texts(pair: Pair, method: Method, **options: Any) -> Texts:
    return [row.tokens for row in decode(pair, PROMPTS, method, new_tokens=10, **options)]


def other_draft(pair: Pair) -> Pair:
    draft = copy.deepcopy(pair.draft)
    draft.get_output_embeddings().weight.data.neg_()
    return replace(pair, draft=draft)


SLOW = FadingLink("slow", 1e3, 1.0, Way(propagation_s=9.0))
FADING = FadingLink("fading", 1e6, Rayleigh(0.1), Way(0.01, 1e6))
CHANGES: dict[str, Callable[[Pair], Texts]] = {
    "K = 0": lambda pair: texts(pair, SharedSeed(0)),
    "K = 1": lambda pair: texts(pair, SharedSeed(1)),
    "K = 8": lambda pair: texts(pair, SharedSeed(8)),
    "another draft model": lambda pair: texts(other_draft(pair), SharedSeed(4)),
    "the target as its own draft": lambda pair: texts(replace(pair, draft=pair.target), SharedSeed(4)),
    "a slow link": lambda pair: texts(pair, SharedSeed(4), link=SLOW),
    "a fading link": lambda pair: texts(pair, SharedSeed(4), link=FADING),
    "a device that never stops": lambda pair: texts(pair, SharedSeedStreamed()),
    "one that never stops, a slow link": lambda pair: texts(pair, SharedSeedStreamed(), link=SLOW),
    "one that never stops, a fading link": lambda pair: texts(pair, SharedSeedStreamed(), link=FADING, batch=3),
    "one that never stops, another draft model": lambda pair: texts(other_draft(pair), SharedSeedStreamed()),
    "lists of candidates": lambda pair: texts(pair, SharedSeedTree((2, 2, 1))),
    "batches of two": lambda pair: texts(pair, SharedSeed(4), batch=2),
}


@pytest.fixture(scope="module")
def usual(pair):
    return texts(pair, SharedSeed(4))


@pytest.mark.parametrize("change", CHANGES)
def test_the_text_is_the_same_whatever_drafts_it_and_carries_it(pair, usual, change):
    assert CHANGES[change](pair) == usual


def test_the_text_can_be_checked_again_with_the_target_model_and_the_seed(pair):
    rows = decode(pair, PROMPTS, SharedSeed(4), new_tokens=12, seed=5)
    keys = Noise(5, [prompt.id for prompt in PROMPTS], 1).stream_keys().tolist()
    for prompt, row, key in zip(PROMPTS, rows, keys, strict=True):
        ids = torch.tensor([[*pair.tokenizer(prompt.text).input_ids, *row.tokens]])
        with torch.inference_mode():
            target = pair.target(ids).logits[0, -len(row.tokens) - 1 : -1].float().softmax(dim=-1)
        positions = torch.arange(ids.shape[1] - len(row.tokens), ids.shape[1])  # in the whole text
        assert race_winner(target, key, positions).tolist() == row.tokens


def test_a_repeated_prompt_id_and_a_seed_outside_the_stream_are_refused(pair):
    twice = [PROMPTS[0], replace(PROMPTS[1], id=PROMPTS[0].id)]
    with pytest.raises(UserError, match=rf"prompt id '{PROMPTS[0].id}' occurs twice, .*; give each its own id"):
        decode(pair, twice, SharedSeed(4), new_tokens=2)
    for seed in (-1, 2**63):
        with pytest.raises(UserError, match=rf"The seed is {seed}; .* must be in 0\.\.2\^63 - 1"):
            decode(pair, PROMPTS, SharedSeed(4), new_tokens=2, seed=seed)
