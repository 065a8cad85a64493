"""Column generation for one user at one draft length: the best mixture of the decisions seen, and its prices."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from hlmtheory.policy.costs import Numbers, Totals
from hlmtheory.policy.rounds import Decisions, Limits, Prices, Rounds

ROUNDS = 200  # of column generation; about ten are needed
FINE = 1e-9  # relative: smaller differences of rates do not count
ROUNDING = 1e-12  # relative: more than the roundings of a mean over all rows


class Column(NamedTuple):
    """Decisions, their means, and the prices at which they were the best."""

    made: Decisions
    totals: Totals
    prices: Prices


class Solved(NamedTuple):
    """The best decisions at one draft length, the prices there, and an upper bound on the rate; None: no plan."""

    column: Column | None
    prices: Prices
    bound: float


def certificate(rate: float, value: float, model: Rounds) -> float:
    """θ + V⁺/T_min, rounded up: no plan within the limits has a higher rate."""
    return (rate + max(value, 0.0) / model.least_seconds) * (1.0 + ROUNDING)


def solve(model: Rounds, limits: Limits, near: Prices) -> Solved:
    """Column generation: the best mixture of the decisions seen, its prices, the best decisions there, and so on."""
    columns = _feasible(model, limits)
    if columns is None:
        return Solved(None, near, 0.0)
    start = [Prices(0.0), near]
    if max(near.risk, near.joules) > 0:
        start += [Prices(near.rate, factor * near.risk, factor * near.joules) for factor in (0.7, 1.4)]
    columns += [column_of(model, limits, one) for one in dict.fromkeys(start)]
    prices, bound = near, (1.0 + model.more) / model.least_seconds * (1.0 + ROUNDING)
    for _ in range(ROUNDS):
        found = _master(columns, limits)
        if found is None:
            break
        prices = found
        made, value = model.best(prices, limits)
        bound = min(bound, certificate(prices.rate, value, model))
        column = Column(made, model.totals(made), prices)
        known = any(column.totals == one.totals for one in columns)
        columns.append(column)
        if known or bound <= prices.rate * (1.0 + FINE):
            break
    good = [one for one in columns if keeps(one.totals, limits)]
    best = max(reversed(good), key=lambda one: rate_of(one.totals)) if good else None
    return Solved(best, prices, bound)


def _feasible(model: Rounds, limits: Limits) -> list[Column] | None:
    """Columns of which a mixture keeps the limits; None if none does, whatever is decided."""
    which = [n for n in range(2) if limits[n] < math.inf]
    columns: list[Column] = []
    share = np.full(len(which), 1.0 / max(len(which), 1))
    for _ in range(ROUNDS if which else 0):
        each = [float(share[which.index(n)]) / _unit(limits[n]) if n in which else 0.0 for n in range(2)]
        column = column_of(model, limits, Prices(0.0, each[0], each[1], 0.0))
        stale = any(column.totals == one.totals for one in columns)
        columns.append(column)
        over = np.asarray([[over_limits(one.totals, limits)[n] / _unit(limits[n]) for one in columns] for n in which])
        if over.max(axis=0).min() <= 0.0:
            break
        if len(which) == 1:  # the least possible risk, or joules, is above the limit
            return None
        # min s with Σ λ over ≤ s, Σ λ = 1
        found = _program(np.eye(len(columns) + 1)[-1], np.hstack([over, -np.ones((2, 1))]), np.ones(len(columns)))
        if found.fun <= 0.0:
            break
        if stale:
            return None
        share = np.maximum(-found.ineqlin.marginals, 0.0)
    return columns


def _program(cost: Numbers, above: Numbers, equal: Numbers) -> Any:
    """Minimise the cost with ``above`` x ≤ 0 and ``equal`` x = 1; variables beyond ``equal`` may be negative."""
    from scipy.optimize import linprog  # slow to import

    many, free = len(equal), len(cost) - len(equal)
    row = np.concatenate([equal, np.zeros(free)])[None]
    limits = [(0.0, None)] * many + [(None, None)] * free
    return linprog(cost, A_ub=above, b_ub=np.zeros(len(above)), A_eq=row, b_eq=[1.0], bounds=limits)


def column_of(model: Rounds, limits: Limits, prices: Prices) -> Column:
    """The best decisions at these prices."""
    made, _ = model.best(prices, limits)
    return Column(made, model.totals(made), prices)


def _master(columns: list[Column], limits: Limits) -> Prices | None:
    """The prices of the best mixture of the columns; None if the solver finds none."""
    which = [n for n in range(2) if limits[n] < math.inf]
    tokens = np.asarray([one.totals.tokens - one.totals.toll for one in columns])
    seconds = np.asarray([one.totals.seconds for one in columns])
    over = np.asarray([[over_limits(one.totals, limits)[n] / _unit(limits[n]) for one in columns] for n in which])
    if not which:
        return Prices(float((tokens / seconds).max()))
    if len(which) == 1:
        rate, price = _of_two(tokens / seconds, over[0] / seconds)
        found = np.asarray([price])
    else:
        program = _program(-tokens, over, seconds)
        if program.status != 0:
            return None
        rate, found = float(-program.eqlin.marginals[0]), np.maximum(-program.ineqlin.marginals, 0.0)
    each = [float(found[which.index(n)]) / _unit(limits[n]) if n in which else 0.0 for n in range(2)]
    return Prices(max(rate, 0.0), each[0], each[1])


def _of_two(rates: Numbers, over: Numbers) -> tuple[float, float]:
    """The best mixture of a column that keeps a limit and one that breaks it: its rate, and the price of the limit."""
    keeps = over <= 0.0
    inside = int(np.argmax(np.where(keeps, rates, -math.inf)))
    if keeps.all() or rates[~keeps].max() <= rates[inside]:
        return float(rates[inside]), 0.0
    slope = (rates[~keeps] - rates[keeps][:, None]) / (over[~keeps] - over[keeps][:, None])
    best = max(float((rates[keeps][:, None] - over[keeps][:, None] * slope).max()), float(rates[inside]))
    # At this price no column is worth more than the mixture
    return best, max(float(((rates[~keeps] - best) / over[~keeps]).max()), 0.0)


def _unit(limit: float) -> float:
    """The unit in which a limit is counted: itself, if it is not tiny."""
    return max(limit, 1e-6)


def over_limits(totals: Totals, limits: Limits) -> tuple[float, float]:
    """By how much a round breaks each limit, in the mean."""
    risk = totals.risk - limits.risk * totals.tokens if limits.risk < math.inf else -math.inf
    joules = totals.joules - limits.joules * totals.tokens if limits.joules < math.inf else -math.inf
    return risk, joules


def keeps(totals: Totals, limits: Limits) -> bool:
    """Whether the means keep both limits."""
    return max(over_limits(totals, limits)) <= 0.0


def rate_of(totals: Totals) -> float:
    """Tokens a second, less the toll of the rounds that are sent."""
    return (totals.tokens - totals.toll) / totals.seconds
