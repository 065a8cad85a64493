"""Column generation for one user over all draft lengths: the best mixture of the decisions seen, and its prices.

A mixture takes each of its parts in a share of the rounds. At common prices θ, μ and κ no mixture, of any lengths, is
worth more a round than the best decisions at the best length; so its rate is at most θ + max_K V_K⁺/T_K, where T_K is
the mean time of the shortest rounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hlmtheory.policy.costs import Numbers, Totals
from hlmtheory.policy.rounds import Choice, Limits, Prices, Rounds

ROUNDS = 200  # of column generation; about ten are needed
FINE = 1e-9  # relative: smaller differences of rates do not count
ROUNDING = 1e-12  # relative: more than the roundings of a mean over all rows
_TIGHT = 40  # halvings of the distance to a limit that a mixture keeps


class Column(NamedTuple):
    """Decisions of one length, and their means."""

    model: Rounds
    choice: Choice
    totals: Totals


class Mixture(NamedTuple):
    """Columns with their shares of the rounds, and the means of all rounds."""

    parts: tuple[tuple[float, Column], ...]
    totals: Totals


class Solved(NamedTuple):
    """The columns seen, the prices of their best mixture, and an upper bound on the rate; no columns: no plan."""

    columns: list[Column]
    prices: Prices
    bound: float


def certificate(rate: float, value: float, model: Rounds) -> float:
    """θ + V⁺/T_min, rounded up: no decisions of this length within the limits have a higher rate."""
    return (rate + max(value, 0.0) / model.least_seconds) * (1.0 + ROUNDING)


def solve(models: Sequence[Rounds], limits: Limits, near: Prices, *, charged: bool) -> Solved:
    """Column generation: the best mixture of the decisions seen, its prices, the best decisions there, and so on.

    Lengths whose decisions were no better at the last prices wait until the others have nothing better. Without
    ``charged`` skipped rows are not charged for their messages; the bound holds for both charges.
    """
    columns = feasible(models, limits, charged=charged)
    if columns is None:
        return Solved([], near, 0.0)
    start = dict.fromkeys([Prices(0.0), near])
    columns += [column_of(model, limits, prices, charged=charged) for prices in start for model in models]
    prices, bound, active = near, math.inf, list(models)
    for _ in range(ROUNDS):
        found = _master(columns, limits)
        if found is None:
            break
        prices = found[0]
        above = [certificate(prices.rate, model.value(prices, limits), model) for model in active]
        if len(active) == len(models):
            bound = min(bound, max(above))
        better = [model for model, most in zip(active, above, strict=True) if most > prices.rate * (1.0 + FINE)]
        fresh = [column_of(model, limits, prices, charged=charged) for model in better]
        fresh = [column for column in fresh if not any(_same(column, other) for other in columns)]
        columns += fresh
        if not fresh and len(active) == len(models):
            break
        active = [column.model for column in fresh] or list(models)
    return Solved(columns, prices, bound)


def feasible(models: Sequence[Rounds], limits: Limits, *, charged: bool) -> list[Column] | None:
    """Columns of which a mixture keeps the limits; None if none does, whatever is decided."""
    which = _limited(limits)
    columns: list[Column] = []
    share = np.full(len(which), 1.0 / max(len(which), 1))
    for _ in range(ROUNDS if which else 0):
        each = [float(share[which.index(n)]) / _unit(limits[n]) if n in which else 0.0 for n in range(2)]
        prices = Prices(0.0, each[0], each[1], 0.0)
        fresh = [column_of(model, limits, prices, charged=charged) for model in models]
        fresh = [column for column in fresh if not any(_same(column, other) for other in columns)]
        columns += fresh
        over = _over(columns, limits, which)
        if over.max(axis=0).min() <= 0.0:
            break
        if len(which) == 1:  # the least possible risk, or joules, is above the limit
            return None
        # min s with Σ λ over ≤ s, Σ λ = 1
        found = _program(np.eye(len(columns) + 1)[-1], np.hstack([over, -np.ones((2, 1))]), np.ones(len(columns)))
        if found.fun <= 0.0:
            break
        if not fresh:
            return None
        share = np.maximum(-found.ineqlin.marginals, 0.0)
    return columns


def column_of(model: Rounds, limits: Limits, prices: Prices, *, charged: bool) -> Column:
    """The best decisions of a length at these prices."""
    return Column(model, *model.best(prices, limits, charged=charged))


def best_mixture(columns: Sequence[Column], limits: Limits) -> Mixture | None:
    """The fastest mixture of the columns within the limits: of as many as there are limits, and one more at most.

    A mixture lies on its limits, where the last digits decide. So it keeps limits that are smaller by ever larger
    roundings, until its means keep the limits themselves.
    """
    found = _master(list(columns), limits)
    if found is None:
        return None
    used = [n for n in range(len(columns)) if found[1][n] > FINE * found[1].sum()]
    chosen, share = [columns[n] for n in used], found[1][used] / found[1][used].sum()
    which = _limited(limits)
    over = _over(chosen, limits, which)
    tight = np.abs(over @ share) <= 1e-6
    rows = np.vstack([np.ones(len(used)), over[tight]])
    for n in range(_TIGHT):
        room = 2.0**n * 1e-17 if n else 0.0
        exact = np.linalg.lstsq(rows, np.concatenate([[1.0], np.full(int(tight.sum()), -room)]), rcond=None)[0]
        if exact.min() < 0.0:
            break
        exact = exact / exact.sum()
        totals = Totals(*(np.asarray([column.totals for column in chosen]).T @ exact).tolist())
        if keeps(totals, limits):
            return Mixture(tuple(zip(exact.tolist(), chosen, strict=True)), totals)
    return None


def _same(one: Column, other: Column) -> bool:
    return one.model is other.model and one.totals == other.totals


def _limited(limits: Limits) -> list[int]:
    return [n for n in range(2) if limits[n] < math.inf]


def _over(columns: Sequence[Column], limits: Limits, which: list[int]) -> Numbers:
    """By how much columns break the limits, in their units; shape (limits, columns)."""
    found = [[over_limits(column.totals, limits)[n] / _unit(limits[n]) for column in columns] for n in which]
    return np.asarray(found).reshape(len(which), len(columns))


def _program(cost: Numbers, above: Numbers, equal: Numbers) -> Any:
    """Minimise the cost with ``above`` x ≤ 0 and ``equal`` x = 1; variables beyond ``equal`` may be negative."""
    from scipy.optimize import linprog  # slow to import

    many, free = len(equal), len(cost) - len(equal)
    row = np.concatenate([equal, np.zeros(free)])[None]
    limits = [(0.0, None)] * many + [(None, None)] * free
    return linprog(cost, A_ub=above, b_ub=np.zeros(len(above)), A_eq=row, b_eq=[1.0], bounds=limits)


def _master(columns: list[Column], limits: Limits) -> tuple[Prices, Numbers] | None:
    """The prices of the best mixture of the columns, and its rounds of each in a second; None without a solution."""
    which = _limited(limits)
    tokens = np.asarray([column.totals.tokens - column.totals.toll for column in columns])
    seconds = np.asarray([column.totals.seconds for column in columns])
    over = _over(columns, limits, which)
    if len(which) < 2:
        rate, price, share = _of_two(tokens / seconds, over[0] / seconds if which else np.zeros(len(columns)))
        found, share = np.asarray([price]), share / seconds
    else:
        program = _program(-tokens, over, seconds)
        if program.status != 0:
            return None
        rate, found, share = float(-program.eqlin.marginals[0]), -program.ineqlin.marginals, program.x
    each = [max(float(found[which.index(n)]), 0.0) / _unit(limits[n]) if n in which else 0.0 for n in range(2)]
    return Prices(max(rate, 0.0), each[0], each[1]), share


def _of_two(rates: Numbers, over: Numbers) -> tuple[float, float, Numbers]:
    """The best mixture of a column that keeps a limit and one that breaks it: rate, price of the limit, shares."""
    within = np.flatnonzero(over <= 0.0)
    beyond = np.flatnonzero(over > 0.0)
    share = np.zeros(len(rates))
    inside = within[np.argmax(rates[within])]
    if not len(beyond) or rates[beyond].max() <= rates[inside]:
        share[inside] = 1.0
        return float(rates[inside]), 0.0, share
    slope = (rates[beyond] - rates[within][:, None]) / (over[beyond] - over[within][:, None])
    mixed = rates[within][:, None] - over[within][:, None] * slope
    low, high = np.unravel_index(int(np.argmax(mixed)), mixed.shape)
    one, other = within[low], beyond[high]
    share[other] = -over[one] / (over[other] - over[one])
    share[one] = 1.0 - share[other]
    best = float(mixed[low, high])
    if best <= rates[inside]:
        best, share = float(rates[inside]), np.eye(len(rates))[inside]
    # At this price no column is worth more than the mixture
    return best, max(float(((rates[beyond] - best) / over[beyond]).max()), 0.0), share


def _unit(limit: float) -> float:
    """The unit in which a limit is counted: itself, if it is not tiny."""
    return max(limit, 1e-6)


def over_limits(totals: Totals, limits: Limits) -> tuple[float, float]:
    """By how much a round breaks each limit, in the mean."""
    risk = totals.risk - limits.risk * totals.tokens if limits.risk < math.inf else -math.inf
    joules = totals.joules - limits.joules * totals.tokens if limits.joules < math.inf else -math.inf
    return risk, joules


def keeps(totals: Totals, limits: Limits) -> bool:
    """Whether the means for each token keep both limits."""
    return totals.risk / totals.tokens <= limits.risk and totals.joules / totals.tokens <= limits.joules


def rate_of(totals: Totals) -> float:
    """Tokens a second, less the toll of the rounds that are sent."""
    return (totals.tokens - totals.toll) / totals.seconds
