"""The best of all partitions of few tasks, by branch and bound."""

from typing import TypeAlias

import numpy as np

from hlmtheory._array import Array
from hlmtheory.batching.search import ROUNDING, Costs, johnson_latency

Batches: TypeAlias = list[list[int]]


def exact(costs: Costs, *, incumbent: float = np.inf, runs_only: bool = False) -> tuple[Batches | None, float]:
    """The best of all partitions of one wave, in Johnson's order at each step: batches and latency.

    The batches are None if none is below the incumbent. Partial partitions grow by a batch with the first free task
    (runs only, for equal answers), and are removed by the drafts or verifications so far plus the least of the others.
    """
    blocks = Blocks(costs, runs_only or bool((costs.outputs == costs.outputs[0]).all()))
    partitions, bounds = blocks.partitions(incumbent)
    best: Batches | None = None
    for chunk in np.array_split(np.argsort(bounds), max(1, -(-len(bounds) // 32))):
        chunk = chunk[bounds[chunk] < incumbent * (1.0 - ROUNDING)]
        if not len(chunk):
            break
        latency = blocks.latency(partitions[chunk], incumbent)
        k = int(np.argmin(latency))
        if latency[k] < incumbent * (1.0 - ROUNDING):
            incumbent, best = float(latency[k]), blocks.members(partitions[chunk[k]])
    return best, incumbent


class Blocks:
    """All batches of few tasks that fit the memory, as bit masks, with their times summed over pieces of the steps."""

    def __init__(self, costs: Costs, runs_only: bool) -> None:
        self.costs, self.count = costs, len(costs.inputs)
        masks = np.arange(1, 1 << self.count)
        inside = (masks[:, None] >> np.arange(self.count)) & 1 == 1
        size, top = inside.sum(axis=1), self.count - 1 - np.argmax(inside[:, ::-1], axis=1)
        low = np.argmax(inside, axis=1)
        longest = np.where(inside, costs.outputs, 0).max(axis=1)
        need = costs.cache.bytes(costs.inputs[top], longest, size)
        fits = need <= costs.cache.capacity
        if runs_only:
            fits &= size == top - low + 1
        self.mask, self.size, self.top, self.low = masks[fits], size[fits], top[fits], low[fits]
        self.need = need[fits] if costs.cache.shared else np.zeros(np.count_nonzero(fits))
        self.steps = np.where(inside, costs.steps, 0).max(axis=1)[fits]
        self.pieces = self._piece_sums()

    def _piece_sums(self) -> Array:
        """Stage times of every block summed over pieces of the steps, shape (2, blocks, pieces)."""
        steps = self.costs.horizon
        edges = [int(piece[0]) for piece in np.array_split(np.arange(steps), min(12, steps))]
        table = np.empty((2, len(self.mask), len(edges)))
        for last in np.unique(self.steps):
            which, active = np.flatnonzero(self.steps == last), np.arange(steps) < last
            count = np.add.reduceat(active.astype(np.float64), edges)
            for side, (unit, fixed) in enumerate(zip(self.costs.unit, self.costs.fixed, strict=True)):
                sums = np.add.reduceat(unit * active, edges, axis=1)
                table[side, which] = self.size[which, None] * sums[self.top[which]] + fixed * count
        self.least = np.stack(
            [
                np.add.reduceat(unit[0] + fixed, edges)
                for unit, fixed in zip(self.costs.unit, self.costs.fixed, strict=True)
            ]
        )
        return table

    def _remaining(self) -> Array:
        """Smallest sum of each stage over the partitions of every set without task 0, shape (2, 2^K, pieces)."""
        rest = np.full((2, 1 << self.count, self.pieces.shape[-1]), np.inf)
        rest[:, 0] = 0.0
        by_low = [np.flatnonzero(self.low == task) for task in range(self.count)]
        for mask in range(2, 1 << self.count, 2):  # the first batch takes task 0
            options = by_low[(mask & -mask).bit_length() - 1]
            options = options[self.mask[options] & ~mask == 0]
            if len(options):
                rest[:, mask] = (self.pieces[:, options] + rest[:, mask ^ self.mask[options]]).min(axis=1)
        return rest

    def partitions(self, incumbent: float) -> tuple[Array, Array]:
        """All partitions whose bound is below the incumbent: block numbers (P, K), -1 for no block, and the bounds."""
        remaining = self._remaining()
        left = np.asarray([(1 << self.count) - 1])
        spent, path = np.zeros((2, 1, self.pieces.shape[-1])), np.full((1, self.count), -1)
        used = np.zeros(1)
        complete, bounds = [path[:0]], [np.empty(0)]
        for level in range(self.count):
            grown = []
            for low in np.unique(left & -left):
                # Partial partitions whose first free task is this one, and the batches that begin with it
                which, options = (
                    np.flatnonzero(left & -left == low),
                    np.flatnonzero(self.low == int(low).bit_length() - 1),
                )
                state, block = np.nonzero(self.mask[options] & ~left[which, None] == 0)
                state, block = which[state], options[block]
                # Add each batch that shares no task with the partition; keep those that fit and can beat the incumbent
                after = left[state] ^ self.mask[block]
                total = spent[:, state] + self.pieces[:, block]
                bound = (total + remaining[:, after] + self.least[::-1, None]).max(axis=0).sum(axis=-1)
                need = used[state] + self.need[block]
                good = (bound < incumbent * (1.0 - ROUNDING)) & (need <= self.costs.cache.capacity)
                route = path[state[good]]
                route[:, level] = block[good]
                grown.append((after[good], total[:, good], route, bound[good], need[good]))
            # Complete partitions are done; the others grow on
            after, route, bound, need = (np.concatenate([part[k] for part in grown]) for k in (0, 2, 3, 4))
            total = np.concatenate([part[1] for part in grown], axis=1)
            complete.append(route[after == 0])
            bounds.append(bound[after == 0])
            left, spent, path, used = after[after > 0], total[:, after > 0], route[after > 0], need[after > 0]
            if not len(left):
                break
        return np.concatenate(complete), np.concatenate(bounds)

    def latency(self, partitions: Array, incumbent: float) -> Array:
        """T_inf of partitions (P, K), Johnson's order at each step; infinite where a bound reaches the incumbent."""
        blocks = partitions[:, : max(1, int((partitions >= 0).sum(axis=1).max()))].T  # the first axis reduces fast
        n = np.arange(1, self.costs.horizon + 1)
        active = (n <= self.steps[blocks][..., None]) & (blocks >= 0)[..., None]
        size, top = self.size[blocks][..., None], self.top[blocks]
        sides = zip(self.costs.unit, self.costs.fixed, strict=True)
        draft, verify = (np.where(active, size * unit[top] + fixed, 0.0) for unit, fixed in sides)
        least = [np.where(active, times, np.inf).min(axis=0) for times in (draft, verify)]
        bound = np.maximum(draft.sum(axis=0) + least[1], verify.sum(axis=0) + least[0]).sum(axis=-1)
        good = np.flatnonzero(bound < incumbent * (1.0 - ROUNDING))
        latency = np.full(len(partitions), np.inf)
        jobs = (np.moveaxis(times[:, good], 0, -1) for times in (draft, verify))
        latency[good] = johnson_latency(*jobs).sum(axis=-1)
        return latency

    def members(self, partition: Array) -> Batches:
        """The tasks of each block."""
        chosen = [int(self.mask[block]) for block in partition if block >= 0]
        return [[task for task in range(self.count) if mask >> task & 1] for mask in chosen]
