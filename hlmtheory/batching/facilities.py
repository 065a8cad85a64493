"""A lower bound on all plans, for tasks with answers of any lengths: each task pays a price to the batch that it joins.

A corner is the longest prompt and answer of a batch, and fixes its times. If no batch that fits its corner costs less
than its tasks' prices, the latency is at least their sum, whatever found prices and weights (``facility_bound``).
"""

from dataclasses import dataclass, field, replace

import numpy as np

from hlmtheory._array import Array
from hlmtheory.batching.search import Costs

STRETCHES, ENTRIES = 12, 4_000_000
"""Stretches of the steps after the first, and the largest product of corners and tasks: more of them are rounded."""
ROUNDS, ADDED, KEPT = 100, 150, 800
"""Most linear programs for one draft length, batches added to each, and batches kept for the next."""
CLOSE, INERTIA = 0.02, 0.9
"""Relative distance to the linear program's optimum at which the search ends; weight of the best prices so far."""
ROUNDED = 1e-10
"""Share that is taken off prices and bound, for the rounding of their sums."""


@dataclass(slots=True)
class Known:
    """What the search at one draft length learned for the next: weights (G, R), prices (K,), batches (n, K)."""

    weights: Array = field(default_factory=lambda: np.empty((0, 0)))
    prices: Array = field(default_factory=lambda: np.empty(0))
    batches: Array = field(default_factory=lambda: np.empty((0, 0), dtype=bool))


def facility_bound(costs: Costs, schedule: str, stop: float, known: Known | None = None) -> float:
    """The smaller of ``stop`` and a lower bound on every plan with this schedule; tasks sorted by prompt.

    ``stop`` is the latency of a plan, or less: larger bounds are not looked for.
    """
    known = known or Known()
    table = _Corners(_rounded(costs), schedule)
    program = _Program(table, known.batches)
    weights, prices = known.weights, known.prices
    if weights.shape != table.tails.shape:
        weights = np.full(table.tails.shape, 1.0 / table.tails.shape[1])
        prices = table.average(weights)
    best, scale, _ = table.bound(weights, prices)
    prices = scale * prices
    for _ in range(ROUNDS):
        optimum, *dual = program.solved()
        if best >= min(stop, optimum * (1.0 - CLOSE)):
            break
        # Batches that cost less than prices between the best so far and the program's, else than the program's
        for inertia in (INERTIA, 0.0):
            mixed = [inertia * old + (1.0 - inertia) * new for old, new in zip((weights, prices), dual, strict=True)]
            value, scale, cheap = table.bound(*mixed)
            if value > best:
                best, weights, prices = value, mixed[0], scale * mixed[1]
            if program.add(cheap):
                break
        else:
            break
    known.weights, known.prices, known.batches = weights, prices, program.members
    return min(best, stop)


def _rounded(costs: Costs) -> Costs:
    """The costs with prompts and answers rounded down to few lengths, where the tasks are many: no plan gets slower."""
    most = max(1, int(np.sqrt(ENTRIES / len(costs.inputs))))

    def down(values: Array) -> Array:
        lengths, place = np.unique(values, return_inverse=True)
        starts = np.unique(np.linspace(0, len(lengths), min(most, len(lengths)), endpoint=False).astype(np.int64))
        return lengths[starts[np.searchsorted(starts, place, side="right") - 1]]

    return replace(costs, inputs=down(costs.inputs), outputs=down(costs.outputs))


class _Corners:
    """The corners of all batches: times on each stretch, share of the memory, and how many tasks fit it."""

    def __init__(self, costs: Costs, schedule: str) -> None:
        self.costs, self.count = costs, len(costs.inputs)
        steps = costs.horizon
        spread = np.linspace(1, steps, STRETCHES + 1).astype(np.int64)
        self.edges = np.unique([0, *spread]) if schedule == "barrier" else np.asarray([0, steps])
        # Corners: the prompt of one task and the answer of another, neither beyond the other's corner
        prompts, answers = costs.inputs, costs.outputs
        top, last = np.nonzero((prompts <= prompts[:, None]) & (answers[:, None] <= answers))
        _, first = np.unique(np.stack([prompts[top], answers[last]]), axis=1, return_index=True)
        top, last = top[first], last[first]
        each = costs.cache.bytes(prompts[top], answers[last], 1)
        self.prompt, self.answer = prompts[top], answers[last]
        self.may_join = (prompts <= self.prompt[:, None]) & (answers <= self.answer[:, None])
        self.most = np.minimum(self.may_join.sum(axis=1), np.floor(costs.cache.capacity / each))
        self.shared = costs.cache.shared and np.isfinite(costs.cache.capacity)
        self.share = each / costs.cache.capacity if self.shared else np.zeros(len(each))
        # Times on each stretch, up to the corner's last step
        at = np.minimum(self.edges, costs.steps[last][:, None])
        self.steps = np.diff(at, axis=1).astype(np.float64)
        self.unit = [np.diff(_summed(unit)[top[:, None], at], axis=1) for unit in costs.unit]
        self.tails, self.pairs = self._tails(schedule), np.zeros_like(self.steps)
        if self.shared and schedule == "barrier":
            self.pairs = np.diff(_summed(self._pair_rates(top, last))[at], axis=1)
        self.index = {corner: f for f, corner in enumerate(zip(self.prompt, self.answer, strict=True))}

    def _tails(self, schedule: str) -> Array:
        """The part of each sum that does not depend on the batches, shape (G, R)."""
        costs, steps = self.costs, self.costs.steps
        tails = np.zeros((len(self.edges) - 1, 3 if self.shared else 2))
        if schedule == "free":
            tails[0, 0] = costs.unit[1][np.arange(self.count), steps - 1].min() + costs.fixed[1]
            tails[0, 1] = costs.unit[0][:, 0].min() + costs.fixed[0]
            return tails
        active = np.arange(costs.horizon) < steps[:, None]
        waves = np.ones(costs.horizon)
        if self.shared:
            own = costs.cache.bytes(costs.inputs, costs.outputs, 1) / costs.cache.capacity
            waves = np.maximum(1.0, np.ceil(own @ active * (1.0 - 1e-12)))
        for row, (unit, fixed) in enumerate(zip(costs.unit[::-1], costs.fixed[::-1], strict=True)):
            least = np.where(active, unit, np.inf).min(axis=0) + fixed
            tails[:, row] = np.add.reduceat(waves * least, self.edges[:-1])
        return tails

    def _pair_rates(self, top: Array, last: Array) -> Array:
        """Half of the least d/s plus half of the least v/s of a batch at each step, shape (N,)."""
        rates = np.zeros(self.costs.horizon)
        for unit, fixed in zip(self.costs.unit, self.costs.fixed, strict=True):
            least = np.full(self.costs.horizon, np.inf)
            for f in np.flatnonzero(self.most):
                now = (fixed / self.most[f] + unit[top[f], : self.costs.steps[last[f]]]) / self.share[f]
                np.minimum(least[: len(now)], now, out=least[: len(now)])
            rates += 0.5 * least
        return rates

    def sums(self, corner: Array, size: Array) -> Array:
        """The sums over the batches, for batches (n,) of these corners and sizes, shape (n, G, R)."""
        size = size[:, None]
        draft, verify = (
            size * unit[corner] + fixed * self.steps[corner]
            for unit, fixed in zip(self.unit, self.costs.fixed, strict=True)
        )
        if not self.shared:
            return np.stack([draft, verify], axis=2)
        share = size * self.share[corner, None]
        own = share * (draft + verify) + self.pairs[corner] * share * (1.0 - share)
        return np.stack([draft, verify, own], axis=2)

    def _costs(self, weights: Array) -> Array:
        """Cost of a batch of each corner and size 1..K, infinite where it does not fit, shape (F, K)."""
        size = np.arange(1.0, self.count + 1)
        fixed = [self.steps @ weights[:, r] * self.costs.fixed[r] for r in (0, 1)]
        unit = [self.unit[r] @ weights[:, r] for r in (0, 1)]
        cost = (fixed[0] + fixed[1])[:, None] + (unit[0] + unit[1])[:, None] * size
        if self.shared:
            share, third = self.share[:, None] * size, weights[:, 2]
            both = (self.unit[0] + self.unit[1]) @ third
            cost += share * (both[:, None] * size + (self.steps @ third * sum(self.costs.fixed))[:, None])
            cost += (self.pairs @ third)[:, None] * share * (1.0 - share)
        return np.where(size <= self.most[:, None], cost, np.inf)

    def average(self, weights: Array) -> Array:
        """First prices: for each task the least cost per task of the batches that it may join."""
        least = (self._costs(weights) / np.arange(1.0, self.count + 1)).min(axis=1)
        return np.where(self.may_join, least[:, None], np.inf).min(axis=0)

    def bound(self, weights: Array, prices: Array) -> tuple[float, float, Array]:
        """The bound with these weights and scaled prices, the scale, and batches (n, K) that cost less than the prices.

        Of each corner and size the dearest tasks are compared with the cost.
        """
        weights = weights / weights.sum(axis=1, keepdims=True)
        order = np.argsort(-prices, kind="stable")
        joins = self.may_join[:, order]
        place = np.cumsum(joins, axis=1)  # how many of the dearer tasks join, this one included
        paid = np.cumsum(np.where(joins, prices[order], 0.0), axis=1)
        cost = np.take_along_axis(self._costs(weights), np.maximum(place - 1, 0), axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = min(1.0, float(np.where(joins & (paid > 0), cost / paid, np.inf).min())) * (1.0 - ROUNDED)
        value = (float((weights * self.tails).sum()) + scale * float(prices.sum())) * (1.0 - ROUNDED)
        # The batch of each corner that costs least beside its prices
        saving = np.where(joins, paid - cost, -np.inf)
        until = saving.argmax(axis=1)
        worst = saving[np.arange(len(until)), until]
        chosen = np.argsort(-worst, kind="stable")[:ADDED]
        chosen = chosen[worst[chosen] > 1e-9 * value]
        members = np.zeros((len(chosen), self.count), dtype=bool)
        members[:, order] = joins[chosen] & (np.arange(self.count) <= until[chosen, None])
        return value, scale, members

    def of_batches(self, members: Array) -> Array:
        prompt, answer = (
            np.where(members, values, 0).max(axis=1) for values in (self.costs.inputs, self.costs.outputs)
        )
        return np.asarray([self.index[corner] for corner in zip(prompt, answer, strict=True)])


class _Program:
    """The linear program over some batches: the least Σ_g T_g of mixtures of batches that hold every task once."""

    def __init__(self, table: _Corners, batches: Array) -> None:
        self.table = table
        self.members = np.empty((0, table.count), dtype=bool)
        self.sums = np.empty((0, table.tails.size))
        self.add(np.eye(table.count, dtype=bool))
        self.add(batches)

    def add(self, batches: Array) -> bool:
        here = {row.tobytes() for row in self.members}
        new = np.asarray([row.tobytes() not in here for row in batches], dtype=bool)
        batches = batches[new]
        if not len(batches):
            return False
        size = batches.sum(axis=1)
        corner = self.table.of_batches(batches)
        fits = size <= self.table.most[corner]
        self.members = np.concatenate([self.members, batches[fits]])
        sums = self.table.sums(corner[fits], size[fits].astype(np.float64))
        self.sums = np.concatenate([self.sums, sums.reshape(len(sums), -1)])
        return bool(fits.any())

    def solved(self) -> tuple[float, Array, Array]:
        """The optimum, the weights and the prices; the batches with the highest reduced costs are dropped."""
        from scipy import sparse
        from scipy.optimize import linprog

        stretches, rows = self.table.tails.shape
        limits = sparse.bmat(
            [
                [sparse.csr_matrix(self.sums.T), -sparse.kron(sparse.eye(stretches), np.ones((rows, 1)))],
                [sparse.csr_matrix(-self.members.T.astype(np.float64)), None],
            ],
            format="csc",
        )
        right = np.concatenate([-self.table.tails.ravel(), -np.ones(self.table.count)])
        aim = np.concatenate([np.zeros(len(self.members)), np.ones(stretches)])
        answer = linprog(aim, limits, right, bounds=(0, None), method="highs")
        if not answer.success:
            return -np.inf, self.table.tails, np.zeros(self.table.count)  # the best so far stays
        dual = np.maximum(-answer.ineqlin.marginals, 0.0)
        weights, prices = dual[: self.table.tails.size], dual[self.table.tails.size :]
        if len(self.members) > KEPT:
            reduced = self.sums @ weights - self.members @ prices
            kept = np.sort(np.argsort(reduced, kind="stable")[:KEPT])
            self.members, self.sums = self.members[kept], self.sums[kept]
        return float(answer.fun), weights.reshape(stretches, rows), prices


def _summed(values: Array) -> Array:
    return np.concatenate([np.zeros((*values.shape[:-1], 1)), np.cumsum(values, axis=-1)], axis=-1)
