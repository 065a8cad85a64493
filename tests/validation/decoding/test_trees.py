"""Trees of drafts: the law of the texts, enumerated; the pass over a tree; greedy texts; messages."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from hlmtheory.verification.multi_draft import top_draft_optimum
from tests.validation.every_decision import Script, Scripted, every_outcome, tree_law
from tests.validation.tiny_texts import PROMPTS, distance, exact_law, nodes, table_pair
from tests.validation.unpacking import Unpacker
from validation.decoding.kv_cache import TreeModel
from validation.decoding.loop import decode
from validation.decoding.methods.base import Method
from validation.decoding.methods.trees import DraftTreeSd, NgramLookahead, SureTreeSd, add_window
from validation.decoding.trees import DraftTree, exact_walk
from validation.decoding.wire import index_bits
from validation.errors import UserError
from validation.models.pair import load_pair

Make = Callable[[], Method]


def rows(seed: int, vocabulary: int, depth: int, *, zeros: bool = True) -> np.ndarray:
    rng = np.random.default_rng(seed)
    found = rng.dirichlet(np.full(vocabulary, 0.7), nodes(vocabulary, depth))
    if zeros:
        found[rng.random(found.shape) < 0.25] = 0.0
        found[found.sum(axis=1) == 0, 0] = 1.0
    return found / found.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("make", "vocabulary", "prompt"),
    [
        (lambda: DraftTreeSd((1, 2)), 3, "0"),
        (lambda: DraftTreeSd((3,)), 3, "0"),
        (lambda: DraftTreeSd((2, 1)), 3, "0"),
        (lambda: DraftTreeSd((1, 2, 1)), 2, "0"),
        (lambda: SureTreeSd((3, 2)), 3, "0"),
        (lambda: SureTreeSd((2, 1)), 3, "0"),
        (lambda: SureTreeSd((1, 2, 2)), 2, "0"),
        (lambda: NgramLookahead(2, 3, 2), 3, "0 1 2 0 1"),
        (lambda: NgramLookahead(3, 2, 2), 3, "0 1"),
    ],
)
@pytest.mark.parametrize("end_tokens", [(), (1,)])
def test_texts_have_the_law_of_the_target(make, vocabulary, prompt, end_tokens):
    draft, target = rows(1, vocabulary, 3), rows(2, vocabulary, 3)
    pair = table_pair(draft, target, prompt=prompt, end_tokens=end_tokens)
    positions = 3 if vocabulary == 2 else 2
    law = tree_law(pair, make(), positions, prompt=prompt)
    assert distance(law, exact_law(target, positions, end_tokens)) < 1e-12
    assert distance(law, exact_law(draft, positions, end_tokens)) > 0.05


def test_top_p_texts_have_the_law_of_the_cut_rows():
    draft, target = rows(3, 3, 2, zeros=False), rows(4, 3, 2, zeros=False)
    law = tree_law(table_pair(draft, target), DraftTreeSd((2, 2)), 2, top_p=0.8)
    cut = []
    for row in target:
        order = np.argsort(-row)
        keep = order[: int((np.cumsum(row[order]) - row[order] < 0.8).sum())]
        cut.append(np.where(np.isin(np.arange(3), keep), row, 0.0))
    assert distance(law, exact_law(np.array([row / row.sum() for row in cut]), 2)) < 1e-12
    assert distance(law, exact_law(target, 2)) > 0.02


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_a_sure_tree_accepts_as_often_as_the_best_rule(width):
    target, draft = np.random.default_rng(7).dirichlet(np.full(4, 0.7), 2)

    def accepts(script):
        chance, tree = Scripted(script), DraftTree([0])
        SureTreeSd((width,)).draw(tree, 0, draft.copy(), width, chance)
        path, _, _ = exact_walk(tree, target[None], chance, 1, frozenset())
        return (len(path),)

    assert every_outcome(accepts).get((1,), 0.0) == pytest.approx(float(top_draft_optimum(target, draft, width)))


def some_tree(rng: np.random.Generator, vocabulary: int, size: int) -> DraftTree:
    tree = DraftTree([int(rng.integers(vocabulary))])
    while len(tree) < size:
        tree.add(int(rng.integers(len(tree.tokens))), int(rng.integers(vocabulary)))
    return tree


def test_a_pass_over_a_tree_is_that_over_its_paths(pair):
    rng = np.random.default_rng(1)
    known = [[1, 5, 9], [7]]
    model = TreeModel(pair.target, pair.vocabulary, pair.device, 2, 64, pair.context)
    with torch.inference_mode():
        model.read_nodes([np.array(one) for one in known], [np.arange(3), np.arange(1)], [np.tri(3) > 0, np.tri(1) > 0])
        for slot, one in enumerate(known):
            model.commit(slot, range(len(one)))
        for size in (7, 4):
            trees = [some_tree(rng, 50, size), some_tree(rng, 50, size - 2)]
            logits, features = model.read_nodes(
                [tree.pass_tokens() for tree in trees],
                [tree.pass_offsets() for tree in trees],
                [tree.pass_sees() for tree in trees],
                features=True,
            )
            assert features is not None
            for slot, tree in enumerate(trees):
                for node in range(len(tree.tokens)):
                    path = [tree.tokens[one] for one in (0, *tree.path_to(node))]
                    alone = pair.target(torch.tensor([[*known[slot], *path]]), output_hidden_states=True)
                    torch.testing.assert_close(logits[slot, node], alone.logits[0, -1], rtol=1e-3, atol=1e-4)
                    last = alone.hidden_states[-1][0, -1]
                    torch.testing.assert_close(features[slot, node], last, rtol=1e-3, atol=1e-4)
                kept = [0, *tree.path_to(len(tree))]
                model.commit(slot, kept)
                known[slot] += [tree.tokens[one] for one in kept]


def test_a_model_with_a_sliding_window_is_refused(save_model):
    folder = save_model("gpt_neo", seed=1)
    neo_pair = load_pair(draft=folder, target=folder)
    with pytest.raises(UserError, match="full attention"):
        decode(neo_pair, PROMPTS[:1], NgramLookahead(), new_tokens=3)


def test_risks_of_trees_are_refused(pair):
    with pytest.raises(UserError, match="no risk"):
        decode(pair, PROMPTS, NgramLookahead(), new_tokens=2, risk=True)


def test_a_message_of_a_tree_can_be_read(pair):
    method = DraftTreeSd((2, 2))
    sent = []
    original = method.tree_message

    def kept(tree):
        message = original(tree)
        sent.append((tree, message.payload, message.bits))
        return message

    method.tree_message = kept
    texts = decode(pair, PROMPTS, method, new_tokens=6)
    assert {one.draft_passes for text in texts for one in text.rounds} == {2}  # one for each level
    width = index_bits(pair.vocabulary)
    for tree, payload, bits in sent:
        reader = Unpacker(payload)
        up = len(tree).bit_length()
        assert reader.take(16) == len(tree)
        assert [(reader.take(width), reader.take(up)) for _ in range(len(tree))] == list(
            zip(tree.tokens[1:], tree.parents[1:], strict=True)
        )
        used = sorted(set(tree.parents[1:]))
        if used:
            rows = np.frombuffer(payload[-4 * pair.vocabulary * len(used) :], dtype=np.float32)
            expected = np.stack([tree.drawn_from[node] for node in used])
            np.testing.assert_allclose(rows.reshape(len(used), -1), expected, rtol=1e-6)
        assert bits == len(tree) * (width + up) + 32 * pair.vocabulary * len(used)


def test_a_walk_stops_where_the_text_ends():
    tree = DraftTree([9])
    tree.add_path([1, 0, 2])
    target = np.eye(10)[[1, 0, 2, 3]]
    law = every_outcome(lambda script: tuple(exact_walk(tree, target, Scripted(script), 9, frozenset({0}))[0]))
    assert law == {(1, 2): 1.0}
    path, token, replaced = exact_walk(tree, target, Scripted(Script([])), 2, frozenset())
    assert (path, token, replaced) == ([1, 2], -1, False)
    path, token, replaced = exact_walk(tree, np.eye(10)[[1, 4, 2, 3]], Scripted(Script([])), 9, frozenset())
    assert (path, token, replaced) == ([1], 4, True)


def test_each_token_of_a_window_sees_the_first_row_before_it_and_its_own_column():
    """Three rows of two tokens behind a root and a draft: token n is node n + 1."""
    tree = DraftTree([7, 8], [-1, 0])
    add_window(tree, np.arange(6).reshape(3, 2))
    assert (tree.window_tokens, tree.window_offsets) == ([1, 2, 3, 4, 5], [1, 1, 2, 2, 3])
    assert tree.window_sees == [[0], [0], [0, 2], [0, 3], [0, 2, 4]]
