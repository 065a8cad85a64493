"""Trees of drafts, and the server's walk through one: which path is kept, and which token follows it.

Children drawn from q without replacement are tried first, in order, then *certain* ones, which were chosen and not
drawn. Child i is accepted with probability min(1, p_i/q_i), else p_{i+1} ∝ (p_i - q_i)⁺ (SpecInfer, with the q_i of
jeon2024recursive). The texts have the target's law if every drawn child is tried (claim ``verification.tree``).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from validation.arrays import Array
from validation.decoding.random_streams import Chance

ROOT = 0  # the node of the last kept token: it is no draft


class BrokenLogitsError(Exception):
    """The draft model gave logits that are no numbers; the argument is the batch slot."""


@dataclass(slots=True)
class DraftTree:
    """The drafts of a round, and further tokens that the target model reads in the same pass."""

    tokens: list[int]
    parents: list[int] = field(default_factory=lambda: [-1])
    drawn_from: dict[int, Array] = field(default_factory=dict)
    window_tokens: list[int] = field(default_factory=list)
    window_offsets: list[int] = field(default_factory=list)
    window_sees: list[list[int]] = field(default_factory=list)
    seconds: float = 0.0
    passes: int = 0
    note: Any = None

    def __len__(self) -> int:
        return len(self.tokens) - 1

    def add(self, parent: int, token: int) -> int:
        self.tokens.append(token)
        self.parents.append(parent)
        return len(self.tokens) - 1

    def add_path(self, tokens: Sequence[int]) -> None:
        """Append certain drafts that follow the last kept token; nodes that are there already are shared."""
        node, known = ROOT, {(p, t): n for n, (p, t) in enumerate(zip(self.parents, self.tokens, strict=True))}
        for token in tokens:
            node = known[node, token] if (node, token) in known else self.add(node, token)

    def children(self) -> list[list[int]]:
        children: list[list[int]] = [[] for _ in self.tokens]
        for node, parent in enumerate(self.parents[1:], 1):
            children[parent].append(node)
        return children

    def depths(self) -> list[int]:
        depths = [0]
        for parent in self.parents[1:]:
            depths.append(depths[parent] + 1)
        return depths

    def path_to(self, node: int) -> list[int]:
        path = []
        while node != ROOT:
            path.append(node)
            node = self.parents[node]
        return path[::-1]

    def pass_tokens(self) -> Array:
        return np.array([*self.tokens, *self.window_tokens], dtype=np.int64)

    def pass_offsets(self) -> Array:
        return np.array([*self.depths(), *self.window_offsets], dtype=np.int64)

    def pass_sees(self) -> Array:
        """Return the attention mask of the pass, (m, m) bool: a token sees itself and its ancestors."""
        count = len(self.tokens)
        sees = np.eye(count + len(self.window_tokens), dtype=bool)
        for node, parent in enumerate(self.parents[1:], 1):
            sees[node] |= sees[parent]
        for place, others in enumerate(self.window_sees, count):
            sees[place, others] = True
        return sees


@dataclass(slots=True)
class TreeRequest:
    """What a method knows of a sequence that begins a round."""

    sequence: int  # its index in the batch
    tokens: Array  # prompt and kept tokens
    left: int  # new tokens that may follow: the greatest useful depth of the tree
    chance: Chance
    slot: int = 0  # in the batch state


@dataclass(slots=True)
class TreeOutcome:
    sequence: int
    tree: DraftTree
    path: list[int]  # accepted nodes
    token: int  # the server's; -1 if there is none
    likeliest: Array  # the target's likeliest token after each token of the pass
    features: Any = None  # (1 + accepted, H) tensor: the target's last hidden states of the first node and the path


Walk = Callable[[DraftTree, Array, Chance, int, frozenset[int]], tuple[list[int], int, bool]]


def exact_walk(
    tree: DraftTree, target: Array, chance: Chance, left: int, end_tokens: frozenset[int]
) -> tuple[list[int], int, bool]:
    """Return the accepted nodes, the server's token (-1: none fits), and whether it replaces rejected drafts."""
    children, node, path = tree.children(), ROOT, list[int]()
    while len(path) < left and not (path and tree.tokens[node] in end_tokens):
        p = target[node].astype(np.float64)
        p /= p.sum()
        q = tree.drawn_from.get(node)
        accepted = _drawn(tree, children[node], p, q, chance) if q is not None else None
        if q is None:
            accepted = _certain(tree, children[node], p, chance)
        if accepted is None:  # p is the residual now
            return path, chance.token(p), bool(children[node])
        path.append(accepted)
        node = accepted
    return path, -1, False


def _certain(tree: DraftTree, children: list[int], p: Array, chance: Chance) -> int | None:
    for child in children:
        token, whole = tree.tokens[child], float(p.sum())
        if chance.happens(float(p[token]), whole):
            return child
        p[token] = 0.0
    return None


def _drawn(tree: DraftTree, children: list[int], p: Array, draft: Array, chance: Chance) -> int | None:
    """Return the accepted child of a node with drawn children, or None; ``p`` becomes the residual."""
    q = draft / draft.sum()
    drawn = [child for child in children if draft[tree.tokens[child]]]
    for child in drawn:
        token = tree.tokens[child]
        if chance.happens(float(p[token]), float(q[token])):
            return child
        p[:] = residual(p, q)
        q = without(q, token)
    return _certain(tree, children[len(drawn) :], p, chance)


def residual(p: Array, q: Array) -> Array:
    """Return (p - q)⁺, normalised; p if p = q up to rounding, so that nothing is ever rejected."""
    left = np.maximum(p - q, 0.0)
    return left / left.sum() if left.any() else p


def without(q: Array, token: int) -> Array:
    """Return q given that a token is not drawn again; zeros if it was the last."""
    left = q.copy()
    left[token] = 0.0
    return left / left.sum() if left.any() else left


def draw_children(tree: DraftTree, node: int, draft: Array, count: int, chance: Chance) -> list[int]:
    """Draw ``count`` children of a node from q (V,) without replacement, fewer if q has fewer tokens; add them."""
    left = np.array(draft, dtype=np.float64)
    tree.drawn_from[node] = left / left.sum()
    left, children = left.copy(), []
    for _ in range(count):
        if not left.any():
            break
        token = chance.token(left)
        left[token] = 0.0
        children.append(tree.add(node, token))
    return children
