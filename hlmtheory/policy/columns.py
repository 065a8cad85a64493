"""Column generation for one user over all draft lengths: the best mixture of the decisions seen, and its prices.

At prices θ and μ no mixture, of any lengths, has a rate above θ + max_K V_K⁺/T_K, with T_K the mean time of the
shortest rounds of K drafts.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hlmtheory.policy.costs import Numbers, Totals
from hlmtheory.policy.hulls import DEAREST
from hlmtheory.policy.rounds import Choice, Prices, Rounds

ROUNDS = 200  # of column generation; about ten are needed
FINE = 1e-9  # relative: smaller differences of rates do not count
ROUNDING = 1e-12  # relative: more than the roundings of a mean over all rows
_TIGHT = 40  # halvings of the distance to the limit that a mixture keeps


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
    """θ + V⁺/T_min, rounded up: no decisions of this length within the limit have a higher rate."""
    return (rate + max(value, 0.0) / model.least_seconds) * (1.0 + ROUNDING)


def solve(models: Sequence[Rounds], limit: float, near: Prices, *, charged: bool) -> Solved:
    """Alternate between the best mixture of the decisions seen, its prices, and the best decisions there.

    Lengths that were no better at the last prices wait. The bound holds for both charges.
    """
    columns: list[Column] = []
    if limit < math.inf:
        columns = [column_of(model, limit, Prices(0.0, 1.0, 0.0), charged=charged) for model in models]
        if _over(columns, limit).min() > 0.0:  # not even the least risk keeps it
            return Solved([], near, 0.0)
    start = dict.fromkeys([Prices(0.0), near])
    columns += [column_of(model, limit, prices, charged=charged) for prices in start for model in models]
    prices, bound, active = near, math.inf, list(models)
    for _ in range(ROUNDS):
        prices, _ = _master(columns, limit)
        above = [certificate(prices.rate, model.value(prices, limit), model) for model in active]
        if len(active) == len(models):
            bound = min(bound, max(above))
        better = [model for model, most in zip(active, above, strict=True) if most > prices.rate * (1.0 + FINE)]
        fresh = [column_of(model, limit, prices, charged=charged) for model in better]
        fresh = [column for column in fresh if not any(_same(column, other) for other in columns)]
        columns += fresh
        if not fresh and len(active) == len(models):
            break
        active = [column.model for column in fresh] or list(models)
    return Solved(columns, prices, bound)


def column_of(model: Rounds, limit: float, prices: Prices, *, charged: bool) -> Column:
    """The best decisions of a length at these prices."""
    return Column(model, *model.best(prices, limit, charged=charged))


def best_mixture(columns: Sequence[Column], limit: float) -> Mixture | None:
    """The fastest mixture of the columns within the limit, of two at most; the last digits decide."""
    over = _over(columns, limit) / (max(limit, 1e-6) if limit < math.inf else 1.0)
    if over.min() > 0.0:
        return None
    share = _master(columns, limit)[1]
    used = np.flatnonzero(share > FINE * share.sum()).tolist()
    chosen, share, over = [columns[n] for n in used], share[used] / share[used].sum(), over[used]
    tight = limit < math.inf and abs(over @ share) <= 1e-6
    rows = np.vstack([np.ones(len(used)), over]) if tight else np.ones((1, len(used)))
    for n in range(_TIGHT):
        room = 2.0**n * 1e-17 if n else 0.0
        exact = np.linalg.lstsq(rows, np.asarray([1.0, -room][: len(rows)]), rcond=None)[0]
        if exact.min() < 0.0:
            break
        exact = exact / exact.sum()
        totals = Totals(*(np.asarray([column.totals for column in chosen]).T @ exact).tolist())
        if keeps(totals, limit):
            return Mixture(tuple(zip(exact.tolist(), chosen, strict=True)), totals)
    return None


def _same(one: Column, other: Column) -> bool:
    return one.model is other.model and one.totals == other.totals


def _over(columns: Sequence[Column], limit: float) -> Numbers:
    """By how much columns break the limit on risk, in the mean; 0 without one."""
    risk, tokens = (np.asarray([getattr(column.totals, name) for column in columns]) for name in ("risk", "tokens"))
    return np.asarray(risk - limit * tokens if limit < math.inf else np.zeros(len(columns)))


def _master(columns: Sequence[Column], limit: float) -> tuple[Prices, Numbers]:
    """The prices of the best mixture of the columns, and its rounds of each in a second."""
    tokens = np.asarray([column.totals.tokens - column.totals.toll for column in columns])
    seconds = np.asarray([column.totals.seconds for column in columns])
    rate, price, share = _of_two(tokens / seconds, _over(columns, limit) / seconds)
    return Prices(max(rate, 0.0), max(price, 0.0)), share / seconds


def _of_two(rates: Numbers, over: Numbers) -> tuple[float, float, Numbers]:
    """The best mixture of a column that keeps a limit and one that breaks it: rate, price of the limit, shares."""
    within = np.flatnonzero(over <= 0.0)
    beyond = np.flatnonzero(over > 0.0)
    share = np.zeros(len(rates))
    inside = within[np.argmax(rates[within])]
    if not len(beyond) or rates[beyond].max() <= rates[inside]:
        share[inside] = 1.0
        return float(rates[inside]), 0.0, share
    part = over[within][:, None] / (over[within][:, None] - over[beyond])  # of the column that breaks the limit
    mixed = rates[within][:, None] + part * (rates[beyond] - rates[within][:, None])
    low, high = np.unravel_index(int(np.argmax(mixed)), mixed.shape)
    one, other = within[low], beyond[high]
    share[other] = -over[one] / (over[other] - over[one])
    share[one] = 1.0 - share[other]
    best = float(mixed[low, high])
    if best <= rates[inside]:
        best, share = float(rates[inside]), np.eye(len(rates))[inside]
    # At this price no column is worth more than the mixture; it may overflow where a limit is all but kept
    with np.errstate(over="ignore"):
        price = float(((rates[beyond] - best) / over[beyond]).max())
    return best, min(max(price, 0.0), DEAREST), share


def keeps(totals: Totals, limit: float) -> bool:
    """Whether the mean risk for each token keeps the limit."""
    return totals.risk / totals.tokens <= limit


def rate_of(totals: Totals) -> float:
    """Tokens a second, less the toll of the rounds that are sent."""
    return (totals.tokens - totals.toll) / totals.seconds
