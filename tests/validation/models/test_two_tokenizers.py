"""A draft with a tokenizer of its own: the exact law of texts on tables, the tokens in common, and bad pairs."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from tests.validation.tiny_texts import SAMPLED, all_texts, distance, exact_law, law_of, nodes, quarters, table_pair
from validation.decoding.methods.multi_draft import Dssd, FixedLength
from validation.decoding.methods.shared_seed import SharedSeed
from validation.errors import UserError
from validation.models.two_tokenizers import OtherTokens, common_tokens

torch = pytest.importorskip("torch")

SPELLED = ("a", "ab", "b")
"""The target's tokens; the draft's are the letters a, b and c, so "ab" is one token there and two here."""
OWN = np.array([0, -1, 1])


class Letters:
    """A draft model over three letters: half of its mass is on c, which the target does not have."""

    def __init__(self):
        self.texts = []

    def __call__(self, ids):
        self.texts.append("".join("abc"[token] for token in ids[0].tolist()))
        return SimpleNamespace(logits=torch.tensor([[0.25, 0.25, 0.5]] * ids.shape[1]).log()[None])


def letters(tokens):
    """Return the letters of the target's tokens; the prompt is the single token 0, an "a"."""
    return ["abc".index(letter) for token in tokens for letter in SPELLED[token]]


def pair_of(target):
    draft = OtherTokens(Letters(), letters, OWN, 16)
    return replace(table_pair(np.full((1, 3), 1 / 3), target), draft=draft), draft.model


@pytest.mark.parametrize("make", [lambda: FixedLength(2), lambda: Dssd(2)])
def test_texts_have_the_law_of_the_target(make):
    target = quarters(np.random.default_rng(8), nodes(3, 2))
    pair, model = pair_of(target)
    assert distance(law_of(all_texts(pair, make(), 2, SAMPLED)), exact_law(target, 2)) < 1e-12
    assert {"a", "aa", "ab"} <= set(model.texts)


def test_a_target_token_without_a_twin_is_read_letter_by_letter():
    target = np.tile([0.0, 1.0, 0.0], (nodes(3, 3), 1))
    pair, model = pair_of(target)
    records = all_texts(pair, FixedLength(1), 3, {})
    assert [record.tokens for record in records] == [[1, 1, 1]]
    assert "aabab" in model.texts
    assert sum(one.accepted for record in records for one in record.rounds) == 0


def test_a_shared_seed_writes_the_target_s_own_text():
    target = np.random.default_rng(9).dirichlet(np.ones(3), nodes(3, 4))
    pair, _ = pair_of(target)
    alone = table_pair(target, target)
    texts = [all_texts(one, SharedSeed(2), 4, {}, seed=5)[0].tokens for one in (pair, alone)]
    assert texts[0] == texts[1]


class Spelled:
    def __init__(self, tokens, special=()):
        self.tokens, self.all_special_tokens = list(tokens), list(special)

    def get_vocab(self):
        return {token: place for place, token in enumerate(self.tokens)}


def test_common_tokens_have_one_spelling_and_are_not_special():
    own, other = Spelled(["a", "b", "<end>"], ["<end>"]), Spelled(["b", "ab", "<end>", "a"])
    assert common_tokens(own, other).tolist() == [1, -1, -1, 0]
    with pytest.raises(UserError, match="spell no token alike"):
        common_tokens(Spelled(["x"]), other)
