"""Methods whose drafts are trees: from the draft model, and from the target model's own n-grams."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from validation.arrays import Array
from validation.collection.collect import up_to_end
from validation.decoding.kv_cache import TreeModel
from validation.decoding.methods.base import Method
from validation.decoding.methods.registry import PLAIN, Family, entry, register
from validation.decoding.methods.rows import OWN_TREE, Absent
from validation.decoding.random_streams import Chance
from validation.decoding.sampling import distributions_of
from validation.decoding.session import Message, Session
from validation.decoding.trees import (
    BrokenLogitsError,
    DraftTree,
    TreeOutcome,
    TreeRequest,
    Walk,
    draw_children,
    exact_walk,
)
from validation.decoding.wire import index_bits, pack


class TreeMethod(Method, ABC):
    """A method that drafts trees; the loop calls these functions in the order in which they stand."""

    format = Absent("a server on a link reads no trees")
    row: str | Absent = Absent("a trace has no such drafts")
    runs_draft = wants_features = on_server = False
    walk: Walk = staticmethod(exact_walk)

    @abstractmethod
    def grow(self, requests: Sequence[TreeRequest], model: TreeModel | None) -> list[DraftTree]:
        """Return a tree for each sequence; ``model`` is the draft model, if ``runs_draft``."""

    def own_model(self, slots: int, capacity: int) -> TreeModel | None:
        """Return a model of the method's own; the loop then keeps its cache as that of a draft model."""
        return None

    def read_prompt(self, sequence: int, tokens: Array, features: Any) -> None:
        """Store a prompt's tokens (n,), and the hidden states (n - 1, H) of all but its last (None if n = 1)."""

    def tree_message(self, tree: DraftTree) -> Message:
        """Return a message of each node's token and parent, and of each distribution that children were drawn from."""
        if self.on_server:
            return Message(8.0, b"\0")  # a request
        width, up = index_bits(self.session.vocabulary), len(tree).bit_length()
        pairs = zip(tree.tokens[1:], tree.parents[1:], strict=True)
        nodes = [field for token, parent in pairs for field in ((int(token), width), (int(parent), up))]
        used = set(tree.parents[1:])
        rows = [tree.drawn_from[node] for node in sorted(used & set(tree.drawn_from))]
        head = pack([(len(tree), 16), *nodes])
        bits = float((width + up) * len(tree) + 32 * self.session.vocabulary * len(rows))
        return Message(bits, b"".join([head, *(row.astype(np.float32).tobytes() for row in rows)]))

    def tree_reply(self, outcome: TreeOutcome) -> int:
        """Return the number of bytes of the answer: the accepted node and a token; from the server, all new tokens."""
        width = index_bits(self.session.vocabulary)
        if self.on_server:
            return -(-(len(outcome.path) + 1) * width // 8)
        return -(-(len(outcome.tree).bit_length() + width) // 8)

    def learn_tree(self, outcome: TreeOutcome) -> None:
        """Update the method's state of a sequence."""


class LevelTree(TreeMethod):
    """A method that grows its trees level by level, with one pass of a draft model each."""

    def grow(self, requests: Sequence[TreeRequest], model: TreeModel | None) -> list[DraftTree]:
        assert model is not None
        trees = [DraftTree([int(request.tokens[-1])]) for request in requests]
        rows = self.read_kept(requests, trees, model)
        frontier = [[0] if len(row) else [] for row in rows]
        read: list[dict[int, int]] = [{} for _ in trees]  # by tree and node: place among the nodes that were read
        for depth in range(self.max_draft_length):
            for i, (request, tree) in enumerate(zip(requests, trees, strict=True)):
                if (rows[i] != rows[i]).any():  # NaN
                    raise BrokenLogitsError(request.slot)
                ready = frontier[i] if depth < request.left else []
                frontier[i] = self.expand(request, tree, ready, rows[i], depth)
            if depth + 1 == self.max_draft_length or not any(frontier):
                break
            rows = self._read_level(requests, trees, frontier, read, model)
        model.stored[:] = 0
        return [self.finish(request, tree) for request, tree in zip(requests, trees, strict=True)]

    def read_kept(self, requests: Sequence[TreeRequest], trees: list[DraftTree], model: TreeModel) -> list[Any]:
        """Let the draft model read the new kept tokens, and return its logits (1, V) after the last, by sequence."""
        fresh = [request.tokens[first:].copy() for request, first in zip(requests, model.cached.tolist(), strict=True)]
        return self._read_chain(requests, trees, fresh, model)

    def _read_chain(
        self, requests: Sequence[TreeRequest], trees: list[DraftTree], fresh: list[Array], model: TreeModel
    ) -> list[Any]:
        offsets, sees = [np.arange(len(row)) for row in fresh], [np.tri(len(row), dtype=bool) for row in fresh]
        inputs = self.inputs(requests, trees, [])
        logits, states = model.read_nodes(fresh, offsets, sees, features=self.wants_features, inputs=inputs)
        for slot, row in enumerate(fresh):
            model.commit(slot, range(len(row)))
        self._count_pass(trees, model)
        ends = [len(row) for row in fresh]
        self.note_states(requests, [[0] if end else [] for end in ends], states, [[end - 1] for end in ends])
        return [logits[slot, end - 1 : end] if end else logits[slot, :0] for slot, end in enumerate(ends)]

    def _read_level(
        self,
        requests: Sequence[TreeRequest],
        trees: list[DraftTree],
        frontier: list[list[int]],
        read: list[dict[int, int]],
        model: TreeModel,
    ) -> list[Any]:
        tokens, offsets, sees = [], [], []
        for tree, nodes, places in zip(trees, frontier, read, strict=True):
            start = len(places)
            seen = np.zeros((len(nodes), start + len(nodes)), dtype=bool)
            for i, node in enumerate(nodes):
                places[node] = start + i
                seen[i, [places[ancestor] for ancestor in tree.path_to(node)]] = True
            depth = len(tree.path_to(nodes[0])) if nodes else 0
            tokens.append(np.array([tree.tokens[node] for node in nodes], dtype=np.int64))
            offsets.append(np.full(len(nodes), depth - 1, dtype=np.int64))
            sees.append(seen)
        inputs = self.inputs(requests, trees, frontier)
        logits, states = model.read_nodes(tokens, offsets, sees, features=self.wants_features, inputs=inputs)
        self._count_pass([tree for tree, nodes in zip(trees, frontier, strict=True) if nodes], model)
        self.note_states(requests, frontier, states, [list(range(len(nodes))) for nodes in frontier])
        return [logits[slot, : len(nodes)] for slot, nodes in enumerate(frontier)]

    @abstractmethod
    def expand(self, request: TreeRequest, tree: DraftTree, nodes: list[int], rows: Any, depth: int) -> list[int]:
        """Add the children of these nodes from the draft model's logits (n, V), and return the nodes to read next."""

    def finish(self, request: TreeRequest, tree: DraftTree) -> DraftTree:
        return tree

    def inputs(
        self, requests: Sequence[TreeRequest], trees: list[DraftTree], frontier: list[list[int]]
    ) -> dict[str, Any]:
        """Return further inputs of the draft model for these nodes; for the kept tokens if there are none."""
        return {}

    def note_states(
        self, requests: Sequence[TreeRequest], nodes: list[list[int]], states: Any, places: list[list[int]]
    ) -> None:
        """Store the draft model's hidden states (slots, m, H) of these nodes, which lie at these places."""

    @staticmethod
    def _count_pass(trees: list[DraftTree], model: TreeModel) -> None:
        for tree in trees:
            tree.seconds += model.seconds / len(trees)
            tree.passes += 1


class SampledTree(LevelTree):
    """A tree whose children are drawn from the draft's distributions without replacement, ``widths`` by depth."""

    label = ""

    def __init__(self, widths: tuple[int, ...] = (3, 2, 1, 1)) -> None:
        self.widths, self.max_draft_length = tuple(widths), len(widths)
        self.tree_nodes = 1 + int(np.cumprod(widths).sum())
        self.name = f"{self.label} ({'-'.join(map(str, widths))})"

    def expand(self, request: TreeRequest, tree: DraftTree, nodes: list[int], rows: Any, depth: int) -> list[int]:
        children, width, temperature = list[int](), self.widths[depth], self.session.temperature
        for node, logits in zip(nodes, rows, strict=False):
            if temperature == 0:
                best = logits.topk(min(width, len(logits))).indices.tolist()
                children += [tree.add(node, int(token)) for token in best]
            else:
                q = distributions_of(logits[None], temperature, self.session.top_p)[0].double().cpu().numpy()
                children += self.draw(tree, node, q, width, request.chance)
        return [node for node in children if tree.tokens[node] not in self.session.pair.end_tokens]

    def draw(self, tree: DraftTree, node: int, q: Array, width: int, chance: Chance) -> list[int]:
        return draw_children(tree, node, q, width, chance)


@register(entry("draft tree", Family.SPECULATIVE, "rival", "d", "dashed", default=PLAIN, studies=()))
class DraftTreeSd(SampledTree):
    """Tree speculative decoding with the pair's draft model (miao2024specinfer)."""

    label, source = "draft tree", "miao2024specinfer"
    runs_draft = True


@register(entry("draft tree, sure", Family.SPECULATIVE, "rival light", "d", "dashed", default=PLAIN, studies=()))
class SureTreeSd(DraftTreeSd):
    """A tree whose nodes have one drawn child, tried first, and else the likeliest tokens (hu2025multidraft)."""

    label, source, row = "draft tree, sure", "hu2025multidraft", OWN_TREE

    def draw(self, tree: DraftTree, node: int, q: Array, width: int, chance: Chance) -> list[int]:
        """Add the drawn child, if q has a token left for it, and the sure ones."""
        likeliest = [int(token) for token in np.argsort(-q, kind="stable")[: width - 1] if q[token] > 0]
        rest = q.copy()
        rest[likeliest] = 0.0
        drawn = draw_children(tree, node, rest, 1, chance) if rest.any() else []
        return drawn + [tree.add(node, token) for token in likeliest]


def add_window(tree: DraftTree, rows: Array) -> None:
    """Add the tokens of a window of N - 1 rows, (N - 1, W), to a tree; its first token is the tree's root."""
    count, width = len(tree.tokens), rows.shape[1]

    def place(level: int, column: int) -> int:
        return 0 if level == column == 0 else count + level * width + column - 1

    for level, column in np.ndindex(rows.shape):
        if level == column == 0:
            continue
        tree.window_tokens.append(int(rows[level, column]))
        tree.window_offsets.append(level + column)
        before = [place(0, other) for other in range(column + (level > 0))]
        tree.window_sees.append(before + [place(other, column) for other in range(1, level)])


@register(entry("n-gram Lookahead", Family.SPECULATIVE, "rival", "x", "dashed", default=PLAIN, studies=()))
class NgramLookahead(TreeMethod):
    """Lookahead decoding (fu2024lookahead): a Jacobi window that makes n-grams, and a branch that verifies them.

    In each pass the target reads a window of N - 1 rows of W guesses and up to G n-grams that begin with the last
    token. Column j of the window and its newest guess are an n-gram. They are certain drafts, so the law is the
    target's.
    """

    source = "fu2024lookahead"
    on_server = True

    def __init__(self, window: int = 8, ngram: int = 4, guesses: int = 8) -> None:
        self.window, self.ngram, self.guesses = window, ngram, guesses
        self.max_draft_length = ngram - 1
        self.tree_nodes = 1 + (ngram - 1) * (window + guesses)
        self.name = f"n-gram Lookahead (W = {window}, N = {ngram}, G = {guesses})"

    def begin(self, session: Session) -> None:
        super().begin(session)
        # for each sequence the last n-grams by their first token, the newest last
        self.pools: list[dict[int, dict[tuple[int, ...], None]]] = [{} for _ in range(session.sequences)]
        self.windows: dict[int, Array] = {}

    def grow(self, requests: Sequence[TreeRequest], model: TreeModel | None) -> list[DraftTree]:
        trees = []
        for request in requests:
            tree = DraftTree([int(request.tokens[-1])])
            for tokens in reversed(self.pools[request.sequence].get(tree.tokens[0], {})):
                tree.add_path(up_to_end(list(tokens[: request.left]), self.session.pair.end_tokens))
            if request.sequence not in self.windows:  # guesses from the known tokens
                size = (self.ngram - 1) * self.window
                self.windows[request.sequence] = np.resize(request.tokens, size).reshape(-1, self.window)
            self.windows[request.sequence][0, 0] = tree.tokens[0]
            add_window(tree, self.windows[request.sequence])
            trees.append(tree)
        return trees

    def learn_tree(self, outcome: TreeOutcome) -> None:
        rows = self.windows[outcome.sequence]
        last = outcome.likeliest[len(outcome.likeliest) - self.window :]  # after the last row, column by column
        if self.ngram == 2:  # the last row is the first: its first token is the last kept one
            last = np.concatenate([outcome.likeliest[:1], last[1:]])
        for column in range(self.window):
            following = (*(int(token) for token in rows[1:, column]), int(last[column]))
            known = self.pools[outcome.sequence].setdefault(int(rows[0, column]), {})
            known.pop(following, None)
            known[following] = None
            if len(known) > self.guesses:
                del known[next(iter(known))]
        self.windows[outcome.sequence] = np.concatenate([rows[1:], last[None]])
