"""Medusa and EAGLE on tiny random models: exact laws, greedy texts, messages, and weights that do not fit."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.validation.every_decision import tree_law
from tests.validation.tiny_texts import PROMPTS, distance, table_pair
from validation.collection.collect import encode_prompts
from validation.decoding.loop import decode
from validation.decoding.methods.heads import Eagle2, Medusa, best_ranks
from validation.decoding.methods.single_draft import TargetOnly
from validation.decoding.methods.trees import TreeMethod
from validation.decoding.wire import index_bits
from validation.errors import UserError
from validation.models.heads import EAGLE, MEDUSA, build_heads, load_heads, save_heads
from validation.models.pair import Pair
from validation.training.recipes import Recipe, build_model

HITS = [[0.5, 0.2, 0.1], [0.4, 0.2, 0.1], [0.3, 0.1, 0.1]]
Make = Callable[[Path], TreeMethod]
EXACT: list[tuple[str, Make]] = [
    (MEDUSA, lambda folder: Medusa(folder, nodes=6)),
    (EAGLE, lambda folder: Eagle2(folder, depth=3, top_k=2, nodes=5)),
]


def write(folder: Path, kind: str, base: Any, **more: Any) -> Path:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        part = build_heads(kind, base.config, 3)
        for weights in part.parameters():
            torch.nn.init.normal_(weights, std=0.3)
    save_heads(part, folder, kind, base, **({"hits": HITS} if kind == MEDUSA else {}), **more)
    return folder


@pytest.fixture(scope="module")
def tiny():
    recipe = Recipe(hidden=8, feed_forward=16, layers=1, heads=2, context=24, matrix_rate=0.1, other_rate=0.1)
    models = []
    with torch.random.fork_rng(devices=[]):
        for seed in (1, 2):
            torch.manual_seed(seed)
            models.append(build_model(recipe, 3).double().eval())
    with torch.no_grad():
        for model in models:
            for weights in model.parameters():
                weights.mul_(15.0 if weights.ndim == 2 else 1.0)
    pair = table_pair(np.full((1, 3), 1 / 3), np.full((1, 3), 1 / 3))
    return replace(pair, draft=models[0], target=models[1], context=24)


def model_law(
    pair: Pair, prompt: list[int], positions: int, end_tokens: tuple[int, ...]
) -> dict[tuple[int, ...], float]:
    law: dict[tuple[int, ...], float] = {}
    for text in itertools.product(range(3), repeat=positions):
        with torch.inference_mode():
            rows = pair.target(torch.tensor([[*prompt, *text]])).logits[0].softmax(dim=-1)
        end = next((i for i, token in enumerate(text, 1) if token in end_tokens), positions)
        mass = float(np.prod([float(rows[len(prompt) - 1 + i, token]) for i, token in enumerate(text)]))
        law[text[:end]] = law.get(text[:end], 0.0) + mass
    return law


@pytest.mark.parametrize(("kind", "make"), EXACT)
@pytest.mark.parametrize("end_tokens", [(), (2,)])
def test_texts_have_the_law_of_the_target(tiny, tmp_path, kind, make, end_tokens):
    pair = replace(tiny, end_tokens=end_tokens)
    folder = write(tmp_path, kind, pair.target)
    for prompt in ([1, 0, 2], [2]):  # after one token there is no hidden state yet
        law = tree_law(pair, make(folder), 3, prompt=" ".join(map(str, prompt)))
        assert distance(law, model_law(pair, prompt, 3, end_tokens)) < 1e-9
        assert max(law.values()) < 0.9


@pytest.mark.parametrize(("kind", "make"), EXACT)
def test_greedy_texts_are_those_of_the_target_alone(pair, tmp_path, kind, make):
    folder = write(tmp_path, kind, pair.target)
    expected = [row.tokens for row in decode(pair, PROMPTS, TargetOnly(), temperature=0.0, new_tokens=12)]
    for batch in (1, 3):
        rows = decode(pair, PROMPTS, make(folder), temperature=0.0, new_tokens=12, batch=batch)
        assert [row.tokens for row in rows] == expected


@pytest.mark.parametrize(("kind", "make"), EXACT)
def test_bytes_are_those_of_tokens_and_hidden_states(pair, tmp_path, kind, make):
    method = make(write(tmp_path, kind, pair.target))
    rows = decode(pair, PROMPTS, method, new_tokens=8)
    hidden, width = 2 * pair.target.config.hidden_size, index_bits(pair.vocabulary)
    encoded = encode_prompts(pair, PROMPTS, 8)
    lengths = {prompt.id: len(ids) for prompt, ids in zip(PROMPTS, encoded, strict=True)}
    for row in rows:
        known = lengths[row.prompt] - 1
        for i, one in enumerate(row.rounds):
            plain = -(-(one.drafted.bit_length() + width) // 8)
            states = 1 if kind == MEDUSA else 1 + one.accepted
            before = 0 if i else min(known, 1) if kind == MEDUSA else known
            assert one.down_bytes == plain + hidden * (states + before)
    method.on_server = True
    again = decode(pair, PROMPTS, method, new_tokens=8)
    assert [row.tokens for row in again] == [row.tokens for row in rows]
    assert all(one.bytes == 1 for row in again for one in row.rounds)
    assert all(one.down_bytes == -(-(one.accepted + 1) * width // 8) for row in again for one in row.rounds)


def test_the_layer_reads_kept_tokens_as_if_all_were_new(pair, tmp_path):
    folder = write(tmp_path, EAGLE, pair.target)
    seen = []

    class Watched(Eagle2):
        def expand(self, request, tree, nodes, rows, depth):
            if depth == 0 and nodes:
                seen.append((request.tokens.tolist(), rows[0].clone()))
            return super().expand(request, tree, nodes, rows, depth)

    decode(pair, PROMPTS[:2], Watched(folder, depth=2, top_k=2, nodes=3), new_tokens=9, batch=1)
    part = load_heads(folder, EAGLE, pair.target)
    assert len(seen) > 6
    for tokens, row in seen:
        ids = torch.tensor([tokens])
        with torch.inference_mode():
            states = pair.target(ids, output_hidden_states=True).hidden_states[-1][:, :-1].half().float()
            whole = part(ids[:, 1:], states).logits[0, -1]
        torch.testing.assert_close(row, whole, rtol=1e-2, atol=1e-2)


def test_the_tree_of_ranks_is_the_best_of_its_size():
    chances = {
        ranks: float(np.prod([HITS[k][rank] for k, rank in enumerate(ranks)]))
        for depth in (1, 2)
        for ranks in itertools.product(range(3), repeat=depth)
    }

    def is_tree(nodes):
        return all(len(one) == 1 or one[:-1] in nodes for one in nodes)

    for size in (1, 3, 5):
        best = max(sum(chances[one] for one in some) for some in itertools.combinations(chances, size) if is_tree(some))
        chosen = best_ranks(HITS[:2], size)
        assert is_tree(chosen)
        assert sum(chances[one] for one in chosen) == pytest.approx(best)


@pytest.mark.parametrize(("kind", "method"), [(MEDUSA, Medusa), (EAGLE, Eagle2)])
def test_weights_of_another_base_are_refused(pair, tiny, tmp_path, kind, method):
    folder = write(tmp_path, kind, pair.target)
    other = build_model(
        Recipe(hidden=16, feed_forward=32, layers=2, heads=2, context=64, matrix_rate=1, other_rate=1), 300
    )
    changed = replace(pair, target=other.eval())
    with pytest.raises(UserError, match="another version of the target model"):
        decode(changed, PROMPTS[:1], method(folder, nodes=4), new_tokens=2)
    (row,) = decode(changed, PROMPTS[:1], method(folder, nodes=4, any_base=True), new_tokens=2)
    assert len(row.tokens) == 2
    with pytest.raises(UserError, match="have hidden 16, but the base model has 8"):
        load_heads(folder, kind, tiny.target)


def test_faulty_folders_are_refused(pair, tmp_path):
    folder = write(tmp_path / "heads", EAGLE, pair.target)
    with pytest.raises(UserError, match="of the kind 'eagle'"):
        Medusa(folder)
    weights = folder / "heads.safetensors"
    weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])
    with pytest.raises(UserError, match="does not hold the weights"):
        decode(pair, PROMPTS[:1], Eagle2(folder), new_tokens=2)
    weights.rename(folder / "heads.bin")
    with pytest.raises(UserError, match=r"heads\.bin is a pickle"):
        Eagle2(folder)
    (folder / "heads.json").write_text("{")
    with pytest.raises(UserError, match=r"holds no heads\.json"):
        Eagle2(folder)
