"""Defects built into the verification of trees on purpose: positive controls of an audit, one name each.

A defect changes one part of a run: the tree, a step of the walk, the draw of the children, or which entries the
target's cache keeps. The part is replaced for the time of one run, so a run with a defect executes the same code as any
other run, except for that part. :mod:`validation.decoding.defects` holds the defects of chains of drafts.

Never use these functions to generate text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validation.decoding import loop, trees
from validation.decoding.batch_state import TARGET
from validation.decoding.defects import replaced
from validation.decoding.methods import trees as tree_methods
from validation.decoding.methods.trees import TreeMethod
from validation.decoding.random_streams import Chance
from validation.decoding.tree_loop import TreeLoop
from validation.decoding.trees import ROOT, DraftTree

Array = NDArray[Any]
Look = Callable[[DraftTree, Array], tuple[DraftTree, Array]]
"""What the server takes the tree and p (nodes, V) for."""


def parents_q(tree: DraftTree, target: Array) -> tuple[DraftTree, Array]:
    """Return the tree whose drafts are judged by the q that their parent was drawn from."""
    drawn = {node: tree.drawn_from.get(tree.parents[node], q) for node, q in tree.drawn_from.items()}
    return replace(tree, drawn_from=drawn), target


def leaves_from_q(tree: DraftTree, target: Array) -> tuple[DraftTree, Array]:
    """Return p with the q that a leaf was drawn from in the place of the p that follows it."""
    found = target.copy()
    for node, children in enumerate(tree.children()):
        if node != ROOT and not children and tree.parents[node] in tree.drawn_from:
            found[node] = tree.drawn_from[tree.parents[node]]
    return tree, found


def pruned(tree: DraftTree) -> DraftTree:
    """Return the tree without each node's drawn child of smallest q, if it has more than one."""
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
    """Judge every sibling by p itself; only the first child's q is subtracted, when all are rejected."""
    with replaced(trees, "residual", lambda p, q: p):
        accepted = _EXACT_DRAWN(tree, children, p, draft, chance)
    if accepted is None:
        p[:] = trees.residual(p, draft / draft.sum())
    return accepted


def with_replacement(q: Array, token: int) -> Array:
    """Leave earlier siblings in q, as if children were drawn with replacement."""
    return q


def token_from_p(tree: DraftTree, children: list[int], p: Array, draft: Array, chance: Chance) -> int | None:
    """Judge as the exact rule does, but leave p as it is: the token behind rejected drafts comes from p."""
    return _EXACT_DRAWN(tree, children, p.copy(), draft, chance)


def certain_stay(tree: DraftTree, children: list[int], p: Array, chance: Chance) -> int | None:
    """Judge every certain sibling by p itself, and leave rejected ones in p."""
    for child in children:
        if chance.happens(float(p[tree.tokens[child]]), float(p.sum())):
            return child
    return None


def likeliest_as_drawn(tree: DraftTree, node: int, draft: Array, count: int, chance: Chance) -> list[int]:
    """Add the likeliest tokens as children, and say that they were drawn from q."""
    tree.drawn_from[node] = draft / draft.sum()
    best = np.argsort(-draft, kind="stable")[:count]
    return [tree.add(node, int(token)) for token in best if draft[token] > 0]


class _FirstNodesKept(TreeLoop):
    """The target's cache keeps as many entries as the path has, but those of the tree's first nodes."""

    def _keep_path(self, slot: int, tree: DraftTree, path: list[int], token: int) -> None:
        model = self._model(TARGET)
        assert model is not None
        commit = model.commit

        def first(slot: int, nodes: Sequence[int]) -> None:
            commit(slot, range(len(nodes)))

        with replaced(model, "commit", first):
            super()._keep_path(slot, tree, path, token)


@dataclass(frozen=True, slots=True)
class TreeDefect:
    """One defect and how it is built into a run.

    Attributes
    ----------
    name : str
    mechanism : str
        What is wrong, in a sentence.
    like : str
        The defect of :data:`validation.decoding.defects.DEFECTS` for chains of drafts; "" if only trees can have it.
    look, prune, drawn, without, certain, draw, step : optional
        What replaces the server's view, the tree that is sent, the rule for drawn children and its update of q, the
        rule for certain children, the draw of the children, or the loop's class.
    """

    name: str
    mechanism: str
    like: str = ""
    look: Look | None = None
    prune: Callable[[DraftTree], DraftTree] | None = None
    drawn: Callable[..., int | None] | None = None
    without: Callable[[Array, int], Array] | None = None
    certain: Callable[..., int | None] | None = None
    draw: Callable[..., list[int]] | None = None
    step: type[TreeLoop] | None = None


TREE_DEFECTS: dict[str, TreeDefect] = {
    one.name: one
    for one in (
        TreeDefect(
            "parents_q", "drafts are judged by the q that their parent was drawn from", "stale_draft", parents_q
        ),
        TreeDefect("residual_of_first", "p is not updated between siblings", drawn=residual_of_first),
        TreeDefect("q_of_first", "q is not updated between siblings", without=with_replacement),
        TreeDefect("token_from_p", "the token behind rejected drafts is drawn from p", drawn=token_from_p),
        TreeDefect("pruned", "the drawn child of smallest q is not sent", prune=pruned),
        TreeDefect(
            "likeliest_as_drawn",
            "the likeliest tokens are judged as if they had been drawn from q",
            "greedy_draft_ratio",
            draw=likeliest_as_drawn,
        ),
        TreeDefect(
            "leaves_from_q", "the token behind an accepted path is drawn from q", "bonus_from_draft", leaves_from_q
        ),
        TreeDefect("certain_stay", "a rejected certain draft stays in p", certain=certain_stay),
        TreeDefect(
            "first_nodes_kept",
            "the target's cache keeps the first nodes of the tree in the place of the accepted path",
            "cache_off_by_one",
            step=_FirstNodesKept,
        ),
    )
}
"""Every defect by its name."""


@contextmanager
def with_tree_defect(name: str, method: TreeMethod) -> Iterator[TreeMethod]:
    """Give a copy of a method whose runs have a defect, for the time of a block.

    Parameters
    ----------
    name : str
        Of ``TREE_DEFECTS``.
    method : TreeMethod
    """
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


__all__ = ["TREE_DEFECTS", "TreeDefect", "with_tree_defect"]
