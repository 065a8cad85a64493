"""A lower bound on plans with a barrier, for tasks of one output length: weights on the positions of the batches.

If the batches of a wave pass the two stages in an order, a step takes at least Σ_{p ≤ j} d + Σ_{p ≥ j} v for each
position j: the drafts up to the batch at j, then its verification and all later ones. So it takes at least any mean of
these sums over j. With weights w_j, a batch at position p costs α_p d + β_p v, where α_p = Σ_{j ≥ p} w_j and
β_p = Σ_{j ≤ p} w_j. The order is free, so a *charge* μ_p on each position replaces the rule that one batch holds it,
and a *price* ν on the memory replaces the limit of each wave. Then the batches are independent, and the best runs of
the sorted tasks are a shortest path. The largest bound over weights, charges and prices is found by cutting planes: the
bound is concave in them, and each shortest path gives a plane above it. Any of their values gives a valid bound.

The number of batches in each wave is fixed for this, and the smallest bound over these numbers is returned. Weights and
charges are constant over steps 2..N, where stage times are linear in n; the mean of steps 2 and N is then a bound for
the mean step (claim ``batching.position_bound``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hlmtheory._array import Array
from hlmtheory.batching.search import Costs

MOST_BATCHES = 12
"""Largest number of batches of all waves that is treated by itself; larger ones have one simple bound."""
ROUNDS, CLOSE = 80, 5e-4
"""Most cutting planes for one division, and the relative distance to the planes at which the search ends."""
ROUNDED = 1e-10
"""Share of the summed terms that is taken off a bound, for the rounding of its sums."""


def position_bound(costs: Costs, stop: float) -> float:
    """The smaller of ``stop`` and a lower bound on every plan with a barrier, for tasks of one output length.

    ``stop`` is the latency of a plan, or less: larger bounds are not looked for.
    """
    table, best = _Table(costs), stop
    known: dict[int, Prices] = {}
    for division in table.divisions(stop):
        best = min(best, _Relaxation(table, division).largest(best, known))
    return best


@dataclass(frozen=True, slots=True)
class Prices:
    """Multipliers of a wave of M batches: weights (2, M) on step 1 and on the others, charges (E, M), and ν."""

    weights: Array
    charges: Array
    memory: float

    def flat(self) -> Array:
        """All multipliers in one row."""
        return np.concatenate([self.weights.ravel(), self.charges.ravel(), [self.memory]])


class _Table:
    """All runs that fit the memory: times at E steps that stand for all steps, and shares of the memory."""

    def __init__(self, costs: Costs) -> None:
        self.costs, self.count, steps = costs, len(costs.inputs), costs.horizon
        self.shared = costs.in_waves
        self.ends = np.concatenate([np.full(i + 1 - first, i) for i, first in enumerate(costs.first)])
        self.starts = np.concatenate([np.arange(first, i + 1) for i, first in enumerate(costs.first)])
        size = self.ends + 1.0 - self.starts
        # Step 1 has the prefill; steps 2..N count as half of step 2 and half of step N
        at = np.unique([0, min(1, steps - 1), steps - 1])
        self.factor = np.asarray([1.0, *[(steps - 1) / max(len(at) - 1, 1)] * (len(at) - 1)])
        self.group = np.minimum(np.arange(len(at)), 1)
        self.draft, self.verify = (
            self.factor * (size[:, None] * unit[self.ends][:, at] + fixed)
            for unit, fixed in zip(costs.unit, costs.fixed, strict=True)
        )
        need = costs.cache.bytes(costs.inputs[self.ends], costs.outputs[self.ends], size)
        self.share = need / costs.cache.capacity if self.shared else np.zeros(len(size))

    def divisions(self, stop: float) -> Iterator[tuple[int, ...]]:
        """Numbers of batches in each wave, those only whose simple bound is below ``stop``.

        The last one holds :data:`MOST_BATCHES` + 1 batches, if it stands for that number and all larger ones.
        """
        fewest = self.costs.cache.fewest_waves(self.costs.inputs, self.costs.outputs)
        for total in range(fewest, min(self.count, MOST_BATCHES) + 1):
            for waves in range(fewest, (total if self.shared else 1) + 1):
                if self.simple(total, waves) < stop:
                    yield from _parts(total, waves, total)
        if self.count > MOST_BATCHES and self.simple(MOST_BATCHES + 1, fewest) < stop:
            yield (MOST_BATCHES + 1,)

    def simple(self, total: int, waves: int) -> float:
        """Lower bound for ``total`` batches or more: one stage, and a smallest batch of the other in each wave."""
        unit, steps = self.costs.unit, self.costs.horizon
        work = [float(times.sum()) + total * steps * fixed for times, fixed in zip(unit, self.costs.fixed, strict=True)]
        alone = [float(times[0].sum()) + steps * fixed for times, fixed in zip(unit, self.costs.fixed, strict=True)]
        return max(work[0] + waves * alone[1], work[1] + waves * alone[0]) * (1.0 - ROUNDED)


def _parts(total: int, waves: int, most: int) -> Iterator[tuple[int, ...]]:
    """Divisions of ``total`` batches into waves, each of at most ``most`` batches and no larger than the one before."""
    if waves == 1:
        if total <= most:
            yield (total,)
        return
    for first in range(min(most, total - waves + 1), 0, -1):
        for rest in _parts(total - first, waves - 1, first):
            yield (first, *rest)


class _Relaxation:
    """The bound for given numbers of batches in each wave, as a function of the multipliers."""

    def __init__(self, table: _Table, division: tuple[int, ...]) -> None:
        self.table, self.batches = table, sum(division)
        self.kinds = sorted(Counter(division).items())  # batches of a wave, and the number of waves with that count
        self.fallback = self.batches > MOST_BATCHES

    def largest(self, stop: float, known: dict[int, Prices]) -> float:
        """The largest bound over the multipliers, or one that reaches ``stop``; ``known`` holds first guesses by M."""
        if self.fallback:
            fewest = self.table.costs.cache.fewest_waves(self.table.costs.inputs, self.table.costs.outputs)
            return self.table.simple(self.batches, fewest)
        point = np.concatenate([known.get(size, self._even(size)).flat() for size, _ in self.kinds])
        planes, best, center = _Planes(self), -np.inf, point
        for _ in range(ROUNDS):
            value, error, slope = self.at(point)
            if slope is None:
                return np.inf  # no partition into this number of batches fits the memory
            if value - error > best:
                best, center = value - error, point
            if best >= stop:
                break
            highest, above = planes.highest(slope)
            if above - best <= CLOSE * abs(best):
                break
            point = 0.5 * (center + highest)
        for (size, _), prices in zip(self.kinds, self.split(center), strict=True):
            known[size] = prices
        return best

    def _even(self, size: int) -> Prices:
        steps = len(self.table.factor)
        return Prices(np.full((2, size), 1.0 / size), np.zeros((steps, size)), 0.0)

    def split(self, point: Array) -> list[Prices]:
        """Multipliers by kind of wave, the weights made valid: 0 or more, with sum 1."""
        found, begin, steps = [], 0, len(self.table.factor)
        for size, _ in self.kinds:
            middle, end = begin + 2 * size, begin + (2 + steps) * size
            weights = np.maximum(point[begin:middle].reshape(2, size), 0.0)
            charges = point[middle:end].reshape(steps, size)
            found.append(Prices(weights / weights.sum(axis=1, keepdims=True), charges, max(float(point[end]), 0.0)))
            begin = end + 1
        return found

    def at(self, point: Array) -> tuple[float, float, Array | None]:
        """The bound at these multipliers, a limit on its rounding error, and its slope; None if no partition fits."""
        table, prices = self.table, self.split(point)
        # Cost of every run in each kind of wave, at its best position in each of the E steps
        places, values, constant = [], [], 0.0
        for (_, waves), one in zip(self.kinds, prices, strict=True):
            ahead, behind = (shares[table.group] for shares in _sides(one.weights))
            terms = table.draft[:, :, None] * ahead + table.verify[:, :, None] * behind + one.charges
            places.append(terms.argmin(axis=2))
            values.append(terms.min(axis=2).sum(axis=1) + one.memory * table.share)
            constant += waves * (float(one.charges.sum()) + one.memory)
        kind = np.argmin(values, axis=0)
        path, chosen = self._shortest(np.min(values, axis=0))
        if not np.isfinite(path):
            return path, 0.0, None
        # Slope: what the chosen runs pay, less what every wave may use
        slopes = [
            Prices(np.zeros_like(one.weights), np.full_like(one.charges, -float(m)), -float(m))
            for one, (_, m) in zip(prices, self.kinds, strict=True)
        ]
        used = np.zeros(len(self.kinds))
        for run in chosen:
            mine = slopes[kind[run]]
            used[kind[run]] += table.share[run]
            for step, place in enumerate(places[kind[run]][run]):
                mine.weights[table.group[step], place:] += table.draft[run, step]
                mine.weights[table.group[step], : place + 1] += table.verify[run, step]
                mine.charges[step, place] += 1.0
        slope = np.concatenate(
            [Prices(one.weights, one.charges, one.memory + more).flat() for one, more in zip(slopes, used, strict=True)]
        )
        charged = sum(m * float(np.abs(one.charges).sum()) for one, (_, m) in zip(prices, self.kinds, strict=True))
        return path - constant, ROUNDED * (abs(path) + abs(constant) + charged), slope

    def _shortest(self, costs: Array) -> tuple[float, list[int]]:
        """The cheapest partition of the tasks into this number of runs: its cost, and the numbers of the runs."""
        table = self.table
        arcs, number = np.full((table.count, table.count), np.inf), np.zeros((table.count, table.count), dtype=np.int64)
        arcs[table.starts, table.ends], number[table.starts, table.ends] = costs, np.arange(len(costs))
        reached, choices = np.full(table.count + 1, np.inf), []
        reached[0] = 0.0
        for _ in range(self.batches):
            options = reached[:-1, None] + arcs
            choices.append(options.argmin(axis=0))
            reached = np.concatenate([[np.inf], options.min(axis=0)])
        chosen, last = [], table.count - 1
        for choice in reversed(choices):
            chosen.append(int(number[choice[last], last]))
            last = int(choice[last]) - 1
        return float(reached[-1]), chosen


def _sides(weights: Array) -> tuple[Array, Array]:
    """α_p and β_p of each position."""
    return np.cumsum(weights[:, ::-1], axis=1)[:, ::-1], np.cumsum(weights, axis=1)


class _Planes:
    """Planes above the bound, and the multipliers at which the lowest of them is highest."""

    def __init__(self, relaxation: _Relaxation) -> None:
        table = relaxation.table
        longest = (table.draft + table.verify).max(axis=0)
        self.limits: list[tuple[float, float | None]] = []
        sums: list[Array] = []
        width = sum((2 + len(longest)) * size + 1 for size, _ in relaxation.kinds)
        for size, _ in relaxation.kinds:
            for group in range(2):
                row = np.zeros(width + 1)
                row[len(self.limits) + group * size : len(self.limits) + (group + 1) * size] = 1.0
                sums.append(row)
            self.limits += [(0.0, 1.0)] * (2 * size)
            self.limits += [(-float(most), float(most)) for most in longest for _ in range(size)]
            self.limits.append((0.0, float(longest.sum()) * relaxation.batches if table.shared else 0.0))
        self.limits.append((0.0, None))  # the bound itself, in the last column
        self.sums, self.rows = np.asarray(sums), np.empty((0, width + 1))

    def highest(self, slope: Array) -> tuple[Array, float]:
        """Add a plane; the bound is 0 at 0 and linear on every ray, so a plane is its slope."""
        from scipy.optimize import linprog

        self.rows = np.concatenate([self.rows, [[*-slope, 1.0]]])
        aim = np.zeros(self.rows.shape[1])
        aim[-1] = -1.0
        found = linprog(
            aim, self.rows, np.zeros(len(self.rows)), self.sums, np.ones(len(self.sums)), self.limits, method="highs"
        )
        return found.x[:-1], float(found.x[-1])
