"""Tests of whether draws repeat earlier ones: an upper bound needs independent draws, and a sampler may copy its own.

Each test is an event of the next continuation that earlier draws fix, with a probability known under the target's law:
what followed the same run of draws last time; any earlier continuation; a cell that the first half of the call showed
too often; a cell with an odd number of draws, at the end of a call.
"""

import numpy as np

from validation.arrays import Array
from validation.audit.partition import Partition
from validation.audit.tests_of_law import over_and_under

WINDOW = 2**16
"""Draws of all prompts that are remembered; a call has up to 4,096."""
UNLIKELY = 0.12
"""Mean number of times that a run which is compared occurs in the window by chance."""
_ODD = 0x9E3779B97F4A7C15
_INVERSE = pow(_ODD, -1, 2**64)


class RepeatTests:
    """Tests of whole continuations, with the draws of each prompt that are remembered."""

    count = 5

    def __init__(self, partitions: list[Partition], depth: int) -> None:
        self._partitions, self._depth = partitions, depth
        size = max(256, WINDOW // len(partitions))
        self._tokens = np.zeros((len(partitions), size, depth), dtype=np.int32)
        self._chance = np.zeros((len(partitions), size))
        self._known = np.zeros(len(partitions), dtype=np.int64)
        self._needed = float(np.log(size / UNLIKELY))

    def measure(self, prompt: int, tokens: Array, chance: Array, call: tuple[Array, Array]) -> tuple[Array, Array]:
        """Return outcomes and expected values (K, m) of continuations (m, D) with probabilities (m,)."""
        known = int(self._known[prompt])
        size = self._tokens.shape[1]
        every = np.concatenate([self._tokens[prompt, size - known :], tokens])
        chances = np.concatenate([self._chance[prompt, size - known :], chance])
        names = _names(every)
        guess = self._followed(chances, names, known)
        equal = (guess > 0) & (every[guess] == tokens).all(axis=1)
        followed = equal.astype(np.float64), np.where(guess > 0, np.minimum(chances[guess], 1.0), 0.0)
        tests = [followed, _seen(every, chances, names, known)]
        kept = min(size, len(every))
        self._tokens[prompt, size - kept :] = every[len(every) - kept :]
        self._chance[prompt, size - kept :] = chances[len(every) - kept :]
        self._known[prompt] = kept
        outcomes, expected = zip(*tests, call, strict=True)
        return np.vstack(outcomes), np.vstack(expected)

    def within(self, prompt: int, cells: Array) -> tuple[Array, Array]:
        """Return outcomes and expected values (3, n) of a whole call, from the cells (n,) of its draws in order."""
        part, n = self._partitions[prompt], len(cells)
        own, often = part.cells(self._depth), np.zeros((2, len(part.mass)), dtype=bool)
        seen = np.bincount(cells[: n // 2], minlength=len(part.mass))[own]
        often[:, own] = over_and_under(seen, n // 2 * part.mass[own])[:2]
        active = np.arange(n) >= max(1, n // 2)
        mean = np.where(often.any(axis=-1), often @ part.mass + part.slack[-1], 0.0)[:, None]
        outcome, expected = _pairs(part.mass, float(part.slack[-1]), cells)
        return (
            np.concatenate([often[:, cells] & active, outcome[None]]).astype(np.float64),
            np.concatenate([np.minimum(mean, 1.0) * active, expected[None]]),
        )

    def _followed(self, chances: Array, names: Array, known: int) -> Array:
        """Return for each new draw the place of the one that followed the same run of draws the last time, or 0."""
        count, new = len(chances), np.arange(known, len(chances))
        rarity = np.concatenate([[0.0], np.cumsum(-np.log(np.maximum(chances, 1e-300)))])
        start = np.searchsorted(rarity, rarity[1:] - self._needed, side="right") - 1  # of the run that ends at a draw
        powers = np.cumprod(np.full(count + 1, _ODD, dtype=np.uint64))
        shares = np.cumprod(np.full(count, _INVERSE, dtype=np.uint64))
        sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(names * shares)])
        keys = (sums[1:] - sums[np.maximum(start, 0)]) * powers[:count]  # the same for the same run, wherever it is
        ends = np.flatnonzero(start >= 0)
        order = ends[np.argsort(keys[ends], kind="stable")]
        same = keys[order[1:]] == keys[order[:-1]]
        before = np.full(count, -1)
        before[order[1:][same]] = order[:-1][same]
        return np.asarray(np.where(new > 0, before[new - 1], -1) + 1)


def _names(tokens: Array) -> Array:
    """Return a number (n,) for each continuation (n, D); different ones rarely share it."""
    found = np.zeros(len(tokens), dtype=np.uint64)
    for column in tokens.T.astype(np.uint64):
        found = (found + column + np.uint64(1)) * np.uint64(_ODD)
        found ^= found >> np.uint64(29)
    return found


def _seen(every: Array, chances: Array, names: Array, known: int) -> tuple[Array, Array]:
    _, first, group = np.unique(names, return_index=True, return_inverse=True)
    first = first[group.reshape(-1)]
    alone = first == np.arange(len(every))
    before = np.concatenate([[0.0], np.cumsum(np.where(alone, chances, 0.0))])[:-1]
    equal = ~alone & (every[first] == every).all(axis=1)
    return equal[known:].astype(np.float64), np.minimum(before[known:], 1.0)


def _pairs(mass: Array, slack: float, cells: Array) -> tuple[Array, Array]:
    """Return whether each draw of a call (n,) makes an odd count even, where the draws left can make all even."""
    n = len(cells)
    order = np.argsort(cells, kind="stable")
    first = np.concatenate([[True], cells[order[1:]] != cells[order[:-1]]])[:n]
    place = np.arange(n)
    earlier = np.empty(n, dtype=np.int64)  # draws of the same cell before each draw of the call
    earlier[order] = place - np.maximum.accumulate(np.where(first, place, 0))
    odd = earlier % 2 == 1
    step = np.where(odd, -1.0, 1.0)
    count, share = (np.cumsum(step * one) - step * one for one in (np.ones(n), mass[cells]))
    active = (n - place <= count + 0.5) & (count > 0.5)
    return odd & active, np.where(active, np.clip(share + slack + 1e-12, 0.0, 1.0), 0.0)
