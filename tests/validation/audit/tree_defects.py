"""Defects built into the verification of trees on purpose."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from numpy import ndarray as Array

from validation.decoding import loop, trees
from validation.decoding.batch_state import TARGET
from validation.decoding.loop import TreeLoop
from validation.decoding.methods.trees import TreeMethod
from validation.decoding.random_streams import Chance
from validation.decoding.trees import DraftTree


def parents_q(tree: DraftTree) -> DraftTree:
    drawn = {node: tree.drawn_from.get(tree.parents[node], q) for node, q in tree.drawn_from.items()}
    return replace(tree, drawn_from=drawn)


_EXACT_DRAWN = trees._drawn


def residual_of_first(tree: DraftTree, children: list[int], p: Array, draft: Array, chance: Chance) -> int | None:
    with patch.object(trees, "residual", lambda p, q: p):
        accepted = _EXACT_DRAWN(tree, children, p, draft, chance)
    if accepted is None:
        p[:] = trees.residual(p, draft / draft.sum())
    return accepted


def token_from_p(tree: DraftTree, children: list[int], p: Array, draft: Array, chance: Chance) -> int | None:
    return _EXACT_DRAWN(tree, children, p.copy(), draft, chance)


def certain_stay(tree: DraftTree, children: list[int], p: Array, chance: Chance) -> int | None:
    for child in children:
        if chance.happens(float(p[tree.tokens[child]]), float(p.sum())):
            return child
    return None


class _FirstNodesKept(TreeLoop):
    """The target's cache keeps as many entries as the path has, but those of the tree's first nodes."""

    def _keep_path(self, slot: int, tree: DraftTree, path: list[int], token: int) -> None:
        model = self.models[TARGET]
        assert model is not None
        commit = model.commit

        def first(slot: int, nodes: Sequence[int]) -> None:
            commit(slot, range(len(nodes)))

        with patch.object(model, "commit", first):
            super()._keep_path(slot, tree, path, token)


TREE_DEFECTS: dict[str, tuple[Any, str, Any]] = {
    "parents_q": (TreeMethod, "walk", staticmethod(lambda tree, *rest: trees.exact_walk(parents_q(tree), *rest))),
    "residual_of_first": (trees, "_drawn", residual_of_first),  # p is not updated between siblings
    "q_of_first": (trees, "without", lambda q, token: q),  # as if children were drawn with replacement
    "token_from_p": (trees, "_drawn", token_from_p),
    "certain_stay": (trees, "_certain", certain_stay),
    "first_nodes_kept": (loop, "TreeLoop", _FirstNodesKept),
}
"""The module or class, the part of it that is replaced, and by what."""
