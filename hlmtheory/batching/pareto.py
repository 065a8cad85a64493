"""The best of all partitions into runs, from the undominated states of each prefix of the tasks, up to a limit."""

import numpy as np

from hlmtheory._array import Array
from hlmtheory.batching.search import ROUNDING, Costs, Runs


def pareto(costs: Costs, *, incumbent: float = np.inf, max_labels: int = 100) -> tuple[Runs | None, float, bool]:
    """The best partition into runs, in order, that the search finds: runs, latency, and whether it was complete.

    A label holds (C^d, C) over all steps, the time of earlier waves and its wave's caches; it goes if another is no
    larger, or its bound reaches ``incumbent``. Beyond ``max_labels`` for a prefix the smallest bounds stay, and it is
    not complete.
    """
    count = len(costs.inputs)
    pieces = np.array_split(np.arange(costs.horizon), min(8, costs.horizon))
    rest = _rest_bounds(costs, pieces)
    room = costs.cache.capacity if costs.in_waves else np.inf
    labels, whole = Labels(costs.horizon), True
    for i in range(count):
        # Extend every label whose last batch can end at task i
        old = np.flatnonzero(labels.prefix >= costs.first[i])
        draft, verify = costs.times(i, labels.prefix[old])
        caches = costs.caches(i, labels.prefix[old]) if costs.in_waves else np.zeros(len(old))
        used, past = labels.used[old] + caches, labels.past[old]
        reached = labels.arrival[old] + draft
        done = np.maximum(reached, labels.finish[old]) + verify
        # Keep what fits the memory and can still beat the incumbent, smallest bound first
        bound = past + _completed(reached, done, rest[i + 1], pieces)
        good = np.flatnonzero((bound < incumbent * (1.0 - ROUNDING)) & (used <= room))
        good = good[np.argsort(bound[good], kind="stable")]
        # Remove dominated labels
        vectors = np.concatenate([np.stack([past, used], axis=1)[good], reached[good], done[good]], axis=1)
        good = good[undominated(vectors, max_labels)]
        whole &= len(good) < max_labels
        labels.add(reached[good], done[good], past[good], used[good], old[good], i + 1)
        if costs.in_waves and i + 1 < count:
            labels.open_wave(i + 1)
    return labels.best(count, whole)


class Labels:
    """Partitions of prefixes of the tasks; the first label stands for no tasks."""

    def __init__(self, steps: int) -> None:
        self.arrival, self.finish = np.zeros((1, steps)), np.zeros((1, steps))
        self.past, self.used = np.zeros(1), np.zeros(1)
        self.parent, self.prefix = np.asarray([-1]), np.asarray([0])

    def add(self, arrival: Array, finish: Array, past: Array, used: Array, parent: Array, prefix: int) -> None:
        """Append labels of one prefix."""
        self.arrival, self.finish = np.concatenate([self.arrival, arrival]), np.concatenate([self.finish, finish])
        self.past, self.used = np.concatenate([self.past, past]), np.concatenate([self.used, used])
        self.parent = np.concatenate([self.parent, parent])
        self.prefix = np.append(self.prefix, np.full(len(parent), prefix))

    def totals(self, which: Array) -> Array:
        """Latency of labels if no task follows."""
        return self.past[which] + self.finish[which].sum(axis=1)

    def open_wave(self, prefix: int) -> None:
        """Add a label that begins a wave after the fastest plan of the prefix."""
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
        # Follow the parents back to the label of no tasks
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
    """Indices of at most ``limit`` rows that no earlier kept row dominates; a sample of entries is compared first."""
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
    """For tasks i.. and each piece of the steps: smallest Σ d, Σ v, and v of the last batch (0 if no tasks are left).

    Each minimum is over all partitions into runs, for each piece alone, so no partition is below any of them.
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
    """Lower bound on the latency of every completion of each label: in each piece one of the two stages is the last."""
    drafts, verifications, last = rest
    edges = [int(piece[0]) for piece in pieces]
    late = np.add.reduceat(arrival, edges, axis=1) + drafts + last
    busy = np.add.reduceat(finish, edges, axis=1) + verifications
    return np.maximum(late, busy).sum(axis=1) if last.any() else busy.sum(axis=1)
