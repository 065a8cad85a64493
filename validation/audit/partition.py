"""A partition of all continuations into cells of known probability: the leaves of a tree of likely prefixes.

The tree grows at its likeliest leaf until it has ``most`` leaves. Tokens that are not worth a leaf of their own share
one. For a small vocabulary, or a law of few continuations, every continuation has a cell of its own: no mass is shared.
"""

import heapq

import numpy as np

from validation.arrays import Array
from validation.audit.laws import Law, extended_rows

TOGETHER = 64
"""Leaves that are divided at a time, because a model computes their rows in one pass."""
WORTH = 0.25
"""Share of the mean mass of a leaf from which a token has a leaf of its own."""


class Partition:
    """Cells of the continuations of one prompt, of depths 1 to D."""

    def __init__(self, law: Law, prompt: int, depth: int, most: int, *, likely: bool = False) -> None:
        symbols = law.vocabulary + 1
        self.depth = depth
        mass, level = [1.0], [0]
        prefixes: list[tuple[int, ...]] = [()]
        self._children: list[Array] = []
        self._slot = [-1]
        waiting, leaves, uncertain = [(-1.0, 0)], 1, np.zeros(depth)
        every = not likely and sum(symbols**t for t in range(1, depth + 1)) <= 2 * most
        while waiting and (every or leaves < most):
            nodes = [heapq.heappop(waiting)[1] for _ in range(min(TOGETHER, len(waiting)))]
            tokens = np.zeros((len(nodes), depth), dtype=np.int64)
            for i, node in enumerate(nodes):
                tokens[i, : level[node]] = prefixes[node]
            place = np.arange(len(nodes)), [level[node] for node in nodes]
            rows, moved = (one[place] for one in extended_rows(law, prompt, tokens))
            for node, row, slack in zip(nodes, rows, moved.tolist(), strict=True):
                uncertain[level[node]] += mass[node] * slack
                worth = np.ones(symbols, dtype=bool) if every else mass[node] * row * most >= WORTH
                chosen: list[int] = np.flatnonzero(worth).tolist()
                children = np.full(symbols, len(mass) + len(chosen), dtype=np.int64)  # the leaf that others share
                children[chosen] = len(mass) + np.arange(len(chosen))
                for token in [*chosen, -1] if not worth.all() else chosen:
                    if token >= 0 and level[node] + 1 < depth:
                        heapq.heappush(waiting, (-mass[node] * float(row[token]), len(mass)))
                    mass.append(mass[node] * float(row[token] if token >= 0 else row[~worth].sum()))
                    level.append(level[node] + 1)
                    prefixes.append((*prefixes[node], token))
                    self._slot.append(-1)
                leaves += len(chosen)
                self._slot[node] = len(self._children)
                self._children.append(children)
        self.slack = np.minimum(np.cumsum(uncertain), 1.0)
        self.mass, self.prefixes = np.array(mass), prefixes
        self.single = np.array([-1 not in prefix for prefix in prefixes])
        self.level, self._slots = np.array(level), np.array(self._slot)
        self._table = np.stack(self._children)

    def walk(self, tokens: Array) -> Array:
        node = np.zeros(len(tokens), dtype=np.int64)
        found = np.empty(tokens.shape, dtype=np.int64)
        for t in range(tokens.shape[1]):
            slot = self._slots[node]
            node = np.where(slot >= 0, self._table[np.maximum(slot, 0), tokens[:, t]], node)
            found[:, t] = node
        return found

    def cells(self, depth: int) -> Array:
        """Return the nodes that are cells at a depth: those of the depth, and earlier ones that are not divided."""
        return np.flatnonzero((self.level == depth) | ((self.level < depth) & (self._slots < 0)))

    def shared(self, depth: int) -> float:
        """Return the target's probability of the cells of a depth that hold several continuations."""
        own = self.cells(depth)
        return float(self.mass[own][~self.single[own] | (self.level[own] < depth)].sum())
