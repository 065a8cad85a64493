"""Defects built into the verification of trees on purpose."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.validation.audit.defects import replaced
from validation.decoding import loop, trees
from validation.decoding.batch_state import TARGET
from validation.decoding.loop import TreeLoop
from validation.decoding.methods import trees as tree_methods
from validation.decoding.methods.trees import TreeMethod
from validation.decoding.random_streams import Chance
from validation.decoding.trees import ROOT, DraftTree

Array = NDArray[Any]
Look = Callable[[DraftTree, Array], tuple[DraftTree, Array]]
"""What the server takes the tree and p (nodes, V) for."""


def parents_q(tree: DraftTree, target: Array) -> tuple[DraftTree, Array]:
    drawn = {node: tree.drawn_from.get(tree.parents[node], q) for node, q in tree.drawn_from.items()}
    return replace(tree, drawn_from=drawn), target


def leaves_from_q(tree: DraftTree, target: Array) -> tuple[DraftTree, Array]:
    found = target.copy()
    for node, children in enumerate(tree.children()):
        if node != ROOT and not children and tree.parents[node] in tree.drawn_from:
            found[node] = tree.drawn_from[tree.parents[node]]
    return tree, found


def pruned(tree: DraftTree) -> DraftTree:
    found, places = DraftTree(tree.tokens[:1], seconds=tree.seconds, passes=tree.passes), {ROOT: ROOT}
    children = tree.children()
    for node in range(1, len(tree.tokens)):
        parent = tree.parents[node]
        q, siblings = tree.drawn_from.get(parent), children[parent]
        dropped = q is not None and len(siblings) > 1 and node == min(siblings, key=lambda one: q[tree.tokens[one]])
        if parent in places and not dropped:
            places[node] = found.add(places[parent], tree.tokens[node])
    found.drawn_from = {places[node]: q for node, q in tree.drawn_from.items() if node in places}
    return found


_EXACT_DRAWN = trees._drawn


def residual_of_first(tree: DraftTree, children: list[int], p: Array, draft: Array, chance: Chance) -> int | None:
    with replaced(trees, "residual", lambda p, q: p):
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


def likeliest_as_drawn(tree: DraftTree, node: int, draft: Array, count: int, chance: Chance) -> list[int]:
    tree.drawn_from[node] = draft / draft.sum()
    best = np.argsort(-draft, kind="stable")[:count]
    return [tree.add(node, int(token)) for token in best if draft[token] > 0]


class _FirstNodesKept(TreeLoop):
    """The target's cache keeps as many entries as the path has, but those of the tree's first nodes."""

    def _keep_path(self, slot: int, tree: DraftTree, path: list[int], token: int) -> None:
        model = self.models[TARGET]
        assert model is not None
        commit = model.commit

        def first(slot: int, nodes: Sequence[int]) -> None:
            commit(slot, range(len(nodes)))

        with replaced(model, "commit", first):
            super()._keep_path(slot, tree, path, token)


@dataclass(frozen=True, slots=True)
class TreeDefect:
    """What replaces a part of a run."""

    look: Look | None = None
    prune: Callable[[DraftTree], DraftTree] | None = None
    drawn: Callable[..., int | None] | None = None
    without: Callable[[Array, int], Array] | None = None
    certain: Callable[..., int | None] | None = None
    draw: Callable[..., list[int]] | None = None
    step: type[TreeLoop] | None = None


TREE_DEFECTS: dict[str, TreeDefect] = {
    "parents_q": TreeDefect(look=parents_q),
    "residual_of_first": TreeDefect(drawn=residual_of_first),  # p is not updated between siblings
    "q_of_first": TreeDefect(without=lambda q, token: q),  # as if children were drawn with replacement
    "token_from_p": TreeDefect(drawn=token_from_p),
    "pruned": TreeDefect(prune=pruned),
    "likeliest_as_drawn": TreeDefect(draw=likeliest_as_drawn),
    "leaves_from_q": TreeDefect(look=leaves_from_q),
    "certain_stay": TreeDefect(certain=certain_stay),
    "first_nodes_kept": TreeDefect(step=_FirstNodesKept),
}


@contextmanager
def with_tree_defect(name: str, method: TreeMethod) -> Iterator[TreeMethod]:
    defect, found = TREE_DEFECTS[name], copy(method)
    walk = method.walk
    if defect.look is not None:
        look = defect.look

        def looked(tree: DraftTree, target: Array, *rest: Any) -> tuple[list[int], int, bool]:
            return walk(*look(tree, target), *rest)

        found.walk = looked
    if defect.prune is not None:
        prune, own = defect.prune, type(found)

        class Pruned(own):  # type: ignore[misc, valid-type]
            def grow(self, *arguments: Any) -> list[DraftTree]:
                return [prune(tree) for tree in super().grow(*arguments)]

        found.__class__ = Pruned
    with ExitStack() as parts:
        for module, part, value in (
            (trees, "_drawn", defect.drawn),
            (trees, "without", defect.without),
            (trees, "_certain", defect.certain),
            (tree_methods, "draw_children", defect.draw),
            (loop, "TreeLoop", defect.step),
        ):
            parts.enter_context(replaced(module, part, value))
        yield found
