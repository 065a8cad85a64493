"""Test functions: sets of tokens, or of continuations, whose probability under the target's law is known.

Fixed sets come from the target's row alone. Learned sets hold what earlier draws showed more often, or less often, than
the target's law says. Both are chosen before the draws that they are used on.
"""

import numpy as np

from validation.arrays import Array
from validation.audit.laws import Law
from validation.audit.partition import Partition

LEVELS = (1.0, 0.5, 2.0**-3, 2.0**-6, 2.0**-10)
"""Shares of the largest probability of a row: the set of tokens that reach them."""
CAUTION = 2.0
"""Standard errors by which a cautious learned set leaves out what may be chance."""
MOST_ENTRIES = 4_000_000
"""Counts by prefix and token that are kept at a depth; memory stays flat."""


def over_and_under(seen: Array, expected: Array) -> tuple[Array, Array, Array]:
    """Return which cells were seen more often than expected, clearly more often, and clearly less often."""
    excess = seen - expected
    error = CAUTION * np.sqrt(expected + 1e-12)
    return excess > 0, excess > error, excess < -error


class TokenTests:
    """Tests of the next token at one depth, given the tokens before it."""

    def __init__(self, law: Law, depth: int) -> None:
        self._law, self._depth = law, depth
        symbols = law.vocabulary + 1
        self._tokens, self._expected = np.zeros(symbols), np.zeros(symbols)
        self._places: dict[tuple[int, bytes], int] = {}
        self._most = max(1, MOST_ENTRIES // symbols)
        self._counts = np.zeros((64, symbols), dtype=np.int32)
        self._totals = np.zeros(64, dtype=np.int64)
        self._rows: dict[int, Array] = {}

    count = 2 * len(LEVELS) + 2 + 3 + 3

    def measure(self, prompt: int, tokens: Array, rows: Array) -> tuple[Array, Array]:
        """Return outcomes and expected values (K, m) of continuations (m, D) with the rows (m, V + 1), then learn."""
        here = tokens[:, self._depth]
        m, symbols = rows.shape
        place = np.arange(m)
        top = rows.max(axis=-1, keepdims=True)
        masks: list[tuple[Array, bool]] = [(rows >= level * top, True) for level in LEVELS]
        fixed = np.zeros((m, symbols), dtype=bool)
        fixed[:, list(self._law.end_tokens)] = True
        masks.append((fixed, True))
        masks += [(np.broadcast_to(one, rows.shape), False) for one in over_and_under(self._tokens, self._expected)]
        prefixes, inverse = np.unique(tokens[:, : self._depth], axis=0, return_inverse=True)
        inverse = inverse.reshape(-1)
        nodes = self._nodes(prompt, prefixes)[inverse]
        known = np.where(nodes >= 0, nodes, 0)
        seen = np.where((nodes >= 0)[:, None], self._counts[known], 0)
        totals = np.where(nodes >= 0, self._totals[known], 0)[:, None]
        masks += [(one, False) for one in over_and_under(seen, totals * rows)]
        outcome, expected = [], []
        for mask, both in masks:
            was, mean = mask[place, here].astype(np.float64), np.minimum((rows * mask).sum(axis=-1), 1.0)
            outcome.append(was)
            expected.append(mean)
            if both:
                outcome.append(1.0 - was)
                expected.append(1.0 - mean)
        for i in (-4, -1):  # the sets that were seen less often: their complements
            outcome[i], expected[i] = 1.0 - outcome[i], 1.0 - expected[i]
        self._learn(here, rows, nodes)
        return np.stack(outcome), np.stack(expected)

    def _learn(self, here: Array, rows: Array, nodes: Array) -> None:
        self._tokens += np.bincount(here, minlength=rows.shape[-1])
        self._expected += rows.sum(axis=0)
        held = nodes >= 0
        np.add.at(self._counts, (nodes[held], here[held]), 1)
        np.add.at(self._totals, nodes[held], 1)
        for node, row in zip(nodes[held].tolist(), np.flatnonzero(held).tolist(), strict=True):
            if node not in self._rows:
                self._rows[node] = rows[row].astype(np.float32)

    def _nodes(self, prompt: int, prefixes: Array) -> Array:
        found = np.empty(len(prefixes), dtype=np.int64)
        for i, prefix in enumerate(prefixes):
            key = (prompt, prefix.tobytes())
            place = self._places.get(key)
            if place is None:
                place = -1
                if len(self._places) < self._most:
                    place = self._places[key] = len(self._places)
                    if place >= len(self._counts):
                        grown = min(2 * len(self._counts), self._most)
                        self._counts = np.pad(self._counts, ((0, grown - len(self._counts)), (0, 0)))
                        self._totals = np.pad(self._totals, (0, grown - len(self._totals)))
            found[i] = place
        return found

    def witnesses(self, most: int) -> list[tuple[float, int, tuple[int, ...], int, int, int, float]]:
        """Return the cells that differ most: (z, prompt, prefix, token, seen, draws, target's probability)."""
        found = []
        for (prompt, key), place in self._places.items():
            if place not in self._rows:
                continue
            row, total = self._rows[place].astype(np.float64), int(self._totals[place])
            mean = total * row
            z = (self._counts[place] - mean) / np.sqrt(np.maximum(mean * (1 - row), 0.25))
            for token in np.argsort(-np.abs(z))[:most].tolist():
                prefix = tuple(np.frombuffer(key, dtype=np.int64).tolist())
                found.append(
                    (float(z[token]), prompt, prefix, token, int(self._counts[place, token]), total, float(row[token]))
                )
        return sorted(found, key=lambda one: -abs(one[0]))[:most]


class JointTests:
    """Tests of the first d tokens together: learned sets of cells, and whether a draw repeats the one before it."""

    count = 4

    def __init__(self, partitions: list[Partition], depth: int) -> None:
        self._partitions, self._depth = partitions, depth
        self.seen = [np.zeros(len(one.mass)) for one in partitions]
        self._draws = np.zeros(len(partitions))
        self._last: dict[int, tuple[Array, float]] = {}

    def measure(self, prompt: int, tokens: Array, cells: Array, along: Array) -> tuple[Array, Array]:
        """Return outcomes and expected values (K, m) of continuations with their cells and probabilities (m,)."""
        part, here = self._partitions[prompt], cells[:, self._depth]
        own = part.cells(self._depth + 1)
        seen = self.seen[prompt]
        outcome, expected = [], []
        for i, chosen in enumerate(over_and_under(seen[own], self._draws[prompt] * part.mass[own])):
            mask = np.zeros(len(part.mass), dtype=bool)
            mask[own] = chosen
            was, mean = mask[here].astype(np.float64), float(part.mass[own][chosen].sum())
            outcome.append(1.0 - was if i == 2 else was)
            mean = (1.0 - mean if i == 2 else mean) + float(part.slack[self._depth])
            expected.append(np.full(len(here), min(1.0, max(0.0, mean))))
        first = tokens[:, : self._depth + 1]
        before = np.concatenate([first[:1] if prompt not in self._last else self._last[prompt][0], first[:-1]])
        chance = np.concatenate([[self._last[prompt][1] if prompt in self._last else 0.0], along[:-1]])
        repeated = (first == before).all(axis=1)
        if prompt not in self._last:
            repeated[0] = False
        outcome.append(repeated.astype(np.float64))
        expected.append(np.minimum(chance, 1.0))
        self._last[prompt] = (first[-1:].copy(), float(along[-1]))
        seen += np.bincount(here, minlength=len(seen))
        self._draws[prompt] += len(here)
        return np.stack(outcome), np.stack(expected)
