"""A partition of all continuations into cells of known probability: the leaves of a tree of likely prefixes.

The tree grows at its likeliest leaf until it has ``most`` leaves. Tokens that are not worth a leaf of their own share
one. For a small vocabulary every continuation has its own cell: the partition is then complete.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validation.audit.laws import Law, extended_rows

Array = NDArray[Any]


class Partition:
    """Cells of the continuations of one prompt, of depths 1 to D.

    Attributes
    ----------
    mass : array, shape (nodes,)
        The target's probability of each node of the tree; a node is a cell of the depths at which texts stop there.
    complete : bool
        Whether every continuation of positive or zero probability has a cell of its own.
    """

    def __init__(self, law: Law, prompt: int, depth: int, most: int) -> None:
        symbols = law.vocabulary + 1
        self.depth, self.complete = depth, True
        mass, level = [1.0], [0]
        prefixes: list[tuple[int, ...]] = [()]
        self._children: list[Array] = []
        self._slot = [-1]
        waiting = [(-1.0, 0)]
        leaves = 1
        all_cells = sum(symbols**t for t in range(1, depth + 1)) <= most * 2
        while waiting:
            _, node = heapq.heappop(waiting)
            prefix = prefixes[node]
            if prefix and (prefix[-1] == law.vocabulary or prefix[-1] in law.end_tokens):
                row = np.zeros(symbols)
                row[-1] = 1.0
            else:
                tokens = np.array([[*prefix, 0]], dtype=np.int64)
                row = extended_rows(law, prompt, tokens)[0, -1]
            if leaves >= most and not all_cells:
                self.complete = False
                break
            worth = np.ones(symbols, dtype=bool) if all_cells else mass[node] * row * most >= 0.25
            children = np.full(symbols, -1, dtype=np.int64)
            for token in np.flatnonzero(worth).tolist():
                children[token] = len(mass)
                mass.append(mass[node] * float(row[token]))
                level.append(level[node] + 1)
                prefixes.append((*prefix, token))
                self._slot.append(-1)
                if level[-1] < depth:
                    heapq.heappush(waiting, (-mass[-1], children[token]))
            if not worth.all():
                self.complete &= False
                children[~worth] = len(mass)
                mass.append(mass[node] * float(row[~worth].sum()))
                level.append(level[node] + 1)
                prefixes.append((*prefix, -1))
                self._slot.append(-1)
            leaves += int(worth.sum())
            self._slot[node] = len(self._children)
            self._children.append(children)
        self.mass, self.prefixes = np.array(mass), prefixes
        self._level, self._slots = np.array(level), np.array(self._slot)
        self._table = np.stack(self._children)

    def walk(self, tokens: Array) -> Array:
        """Return the cells (m, D) of continuations (m, D) at every depth."""
        node = np.zeros(len(tokens), dtype=np.int64)
        found = np.empty(tokens.shape, dtype=np.int64)
        for t in range(tokens.shape[1]):
            slot = self._slots[node]
            node = np.where(slot >= 0, self._table[np.maximum(slot, 0), tokens[:, t]], node)
            found[:, t] = node
        return found

    def cells(self, depth: int) -> Array:
        """Return the nodes that are cells at a depth: those of the depth, and earlier ones that are not divided."""
        return np.flatnonzero((self._level == depth) | ((self._level < depth) & (self._slots < 0)))
