"""The best of all partitions into runs, by all undominated states of each prefix."""

from __future__ import annotations

import numpy as np

from hlmtheory._array import Array
from hlmtheory.batching.search import ROUNDING, Costs, Runs


def pareto(costs: Costs, *, incumbent: float = np.inf, max_labels: int = 100) -> tuple[Runs | None, float, bool]:
    """The best of all partitions into runs, in order: runs, latency, and whether nothing was cut by the cap.

    A label is a partition of the first i tasks with its vectors (F, C) over all steps, what earlier waves took, and
    its wave's caches. Whatever follows, the latency never falls when one of them rises, so a label that another one
    is not above anywhere can go. So can one whose bound reaches ``incumbent``; runs are None if all went. Above
    ``max_labels`` for one i the best bounds stay. Where waves are needed, one more label a prefix begins a wave after
    the fastest plan of that prefix.
    """
    count = len(costs.inputs)
    pieces = np.array_split(np.arange(costs.horizon), min(8, costs.horizon))
    rest = _rest_bounds(costs, pieces)
    room = costs.cache.room if costs.in_waves else np.inf
    labels, whole = Labels(costs.horizon), True
    for i in range(count):
        old = np.flatnonzero(labels.prefix >= costs.first[i])
        draft, verify = costs.times(i, labels.prefix[old])
        caches = costs.caches(i, labels.prefix[old]) if costs.in_waves else np.zeros(len(old))
        used, past = labels.used[old] + caches, labels.past[old]
        reached = labels.arrival[old] + draft
        done = np.maximum(reached, labels.finish[old]) + verify
        bound = past + _completed(reached, done, rest[i + 1], pieces)
        good = np.flatnonzero((bound < incumbent * (1.0 - ROUNDING)) & (used <= room))
        good = good[np.argsort(bound[good], kind="stable")]
        vectors = np.concatenate([np.stack([past, used], axis=1)[good], reached[good], done[good]], axis=1)
        good = good[undominated(vectors, max_labels)]
        whole &= len(good) < max_labels
        labels.add(reached[good], done[good], past[good], used[good], old[good], i + 1)
        if costs.in_waves and i + 1 < count:
            labels.open_wave(i + 1)
    return labels.best(count, whole)


class Labels:
    """Partitions of prefixes of the tasks; the first is that of no tasks."""

    def __init__(self, steps: int) -> None:
        self.arrival, self.finish = np.zeros((1, steps)), np.zeros((1, steps))
        self.past, self.used = np.zeros(1), np.zeros(1)
        self.parent, self.prefix = np.asarray([-1]), np.asarray([0])

    def add(self, arrival: Array, finish: Array, past: Array, used: Array, parent: Array, prefix: int) -> None:
        """Put labels of one prefix behind the others."""
        self.arrival, self.finish = np.concatenate([self.arrival, arrival]), np.concatenate([self.finish, finish])
        self.past, self.used = np.concatenate([self.past, past]), np.concatenate([self.used, used])
        self.parent = np.concatenate([self.parent, parent])
        self.prefix = np.append(self.prefix, np.full(len(parent), prefix))

    def totals(self, which: Array) -> Array:
        """Latency of labels if nothing followed."""
        return self.past[which] + self.finish[which].sum(axis=1)

    def open_wave(self, prefix: int) -> None:
        """A wave begins after the fastest plan of the prefix."""
        here = np.flatnonzero(self.prefix == prefix)
        if len(here):
            totals, empty = self.totals(here), np.zeros((1, self.arrival.shape[1]))
            k = int(np.argmin(totals))
            self.add(empty, empty, totals[k : k + 1], np.zeros(1), here[k : k + 1], prefix)

    def best(self, count: int, whole: bool) -> tuple[Runs | None, float, bool]:
        """The fastest label of all tasks, as :func:`pareto` returns it."""
        last = np.flatnonzero(self.prefix == count)
        if not len(last):
            return None, np.inf, whole
        totals = self.totals(last)
        label, starts, opens = int(last[np.argmin(totals)]), [], []
        while self.parent[label] >= 0:
            before = int(self.parent[label])
            if self.prefix[before] == self.prefix[label]:
                opens.append(int(self.prefix[label]))
            else:
                starts.append(int(self.prefix[before]))
            label = before
        return Runs(starts[::-1], [0, *opens[::-1]]), float(totals.min()), whole


def undominated(vectors: Array, limit: int) -> Array:
    """Rows, taken in order, that no row kept before is nowhere above; at most ``limit``.

    A row kept early may be dominated by one kept later: harmless, since it only costs time.
    """
    width = vectors.shape[1]
    probe = np.unique(np.linspace(0, width - 1, 12).astype(np.int64))
    kept: list[int] = []
    sample = np.empty((0, len(probe)))
    for row, vector in enumerate(vectors):
        near = np.flatnonzero((sample <= vector[probe]).all(axis=1))
        if not any((vectors[kept[k]] <= vector).all() for k in near):
            kept.append(row)
            sample = vectors[kept][:, probe]
            if len(kept) == limit:
                break
    return np.asarray(kept, dtype=np.int64)


def _rest_bounds(costs: Costs, pieces: list[Array]) -> list[tuple[Array, Array, Array]]:
    """For tasks i.. and each piece of the steps: least Σ d, least Σ v, and least v of the last batch (0 for none).

    Each least is over all partitions into runs, piece by piece: no partition has less of any.
    """
    count, parts = len(costs.inputs), len(pieces)
    edges = [int(piece[0]) for piece in pieces]
    least = np.full((2, count + 1, parts), np.inf)
    least[:, count] = 0.0
    final = np.zeros(parts)
    for i in range(count - 1, -1, -1):
        starts = np.arange(costs.first[i], i + 1)
        totals = [np.add.reduceat(time, edges, axis=1) for time in costs.times(i, starts)]
        for side, total in enumerate(totals):
            least[side, starts] = np.minimum(least[side, starts], total + least[side, i + 1])
        if i == count - 1:
            final = totals[1].min(axis=0)
    return [(least[0, i], least[1, i], final if i < count else np.zeros(parts)) for i in range(count + 1)]


def _completed(arrival: Array, finish: Array, rest: tuple[Array, Array, Array], pieces: list[Array]) -> Array:
    """Lower bound on what each label can end at: per piece, the drafts are late or the verifications are."""
    drafts, verifications, last = rest
    edges = [int(piece[0]) for piece in pieces]
    late = np.add.reduceat(arrival, edges, axis=1) + drafts + last
    busy = np.add.reduceat(finish, edges, axis=1) + verifications
    return np.maximum(late, busy).sum(axis=1) if last.any() else busy.sum(axis=1)
