"""The best decisions of one user: skip or send, which message, and how many drafts.

By the prices θ, μ and κ of a second, of risk and of a joule, the best decision of each row is found alone. V(θ, μ, κ)
is the mean value of these decisions. Every plan within the limits has a rate of at most θ + V⁺/T_min, if no plan has
rounds shorter than T_min in the mean. The prices come from a linear program over the decisions seen so far (column
generation). Without limits this is Dinkelbach's method.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from hlmtheory._array import Array
from hlmtheory._domains import COUNT, UNIT_INTERVAL, DomainError, flag, instance, number, numbers
from hlmtheory._quantities import not_negative, positive
from hlmtheory.policy.costs import Integers, Numbers, StageCosts, Totals, UserPlan
from hlmtheory.policy.hulls import Hulls, Priced
from hlmtheory.policy.rounds import Decisions, Limits, Prices, Rounds

_WEIGHT = positive("leave out rows without a weight")
_LIMIT = not_negative("give a limit for each emitted token, or None")
_SECONDS = positive("give a time in seconds")

_ROUNDS = 200  # of column generation; about ten are needed
_FINE = 1e-9  # relative: smaller differences of rates do not count
_SMALL, _TRIED = 16, 4  # rows up to which single decisions are exchanged, and how many exchanges are completed
_RARE = 1e-9  # share of rounds that reach a later place: below it such places hardly count
ROUNDING = 1e-12  # relative: more than the roundings of a mean over all rows


def plan_user(
    hulls: Hulls,
    costs: StageCosts,
    acceptances: Array,
    *,
    rejection: Array | None = None,
    weight: Array | None = None,
    risk_limit: float | None = None,
    joule_limit: float | None = None,
    draft_lengths: Iterable[int] | None = None,
    skipping: bool = True,
    bonus: bool = True,
    round_limit_s: float | None = None,
    limit_seconds_per_bit: float | None = None,
) -> UserPlan:
    """Return the decisions of one user with the most tokens per second, and a bound that no others exceed.

    Parameters
    ----------
    hulls : Hulls
        The messages that each of N rows may be sent with: :func:`lower_hulls` or :func:`codec_hulls`.
    costs : StageCosts
    acceptances : array, shape (K_max,)
        α_i in [0, 1]: P(draft i of a round is accepted given that drafts 1..i-1 were).
    rejection : array, shape (N,), optional
        β̂ in [0, 1]: the estimated probability that the row's own draft is rejected. None: 1 - α_1 for all.
    weight : array, shape (N,), optional
        How often each row begins a round, in any unit. None: all alike.
    risk_limit, joule_limit : float, optional
        The most risk, and the most joules of the device, for each emitted token. None: no limit.
    draft_lengths : iterable of int, optional
        The K to try, in 0..K_max. None: all of them. With 0 the server decodes alone.
    skipping : bool
        Whether the first draft of a round may be kept without verification.
    bonus : bool
        Whether the server adds a token if it accepts all K drafts.
    round_limit_s : float, optional
        D: no round takes longer, at the rate of ``limit_seconds_per_bit``. For a percentile of the latency give
        1/(B ``rate_quantile(ε)``): a share 1 - ε of the blocks is not slower. Each of the K messages of a round then
        has at most an equal part of the bits that D leaves, since later rows are not known when the first is sent.
    limit_seconds_per_bit : float, optional
        None: that of the costs.

    Returns
    -------
    UserPlan
        The bound holds for all decisions of each row, for a mixture of them at random, and for all K that are tried;
        with ``round_limit_s``, for all whose messages have at most the equal part.

    Raises
    ------
    ValueError
        If a value is out of range, the shapes do not match, or no plan meets the limits; the message then names the
        nearest limit that can be met.

    Examples
    --------
    >>> from hlmtheory.policy import lower_hulls
    >>> hulls = lower_hulls([[1000.0, 8000.0]], [[0.0625, 0.0]])
    >>> costs = StageCosts(draft_s=0.0125, verify_s=0.03125, seconds_per_bit=1e-6, round_trip_s=0.015625)
    >>> plan = plan_user(hulls, costs, [0.75] * 4, risk_limit=0.25, skipping=False)
    >>> plan.draft_length, round(plan.rate, 2), round(plan.gap, 9)
    (2, 31.3, 0.0)
    """
    made, lengths, limits = checked_user(
        hulls,
        costs,
        acceptances,
        rejection=rejection,
        weight=weight,
        risk_limit=risk_limit,
        joule_limit=joule_limit,
        draft_lengths=draft_lengths,
        skipping=skipping,
        bonus=bonus,
    )
    return best_plan(made, lengths, limits, _deadline(costs, round_limit_s, limit_seconds_per_bit))[0]


def checked_user(
    hulls: Hulls,
    costs: StageCosts,
    acceptances: Array,
    *,
    rejection: Array | None,
    weight: Array | None,
    risk_limit: float | None,
    joule_limit: float | None,
    draft_lengths: Iterable[int] | None,
    skipping: bool,
    bonus: bool,
) -> tuple[Given, list[int], Limits]:
    """Check the arguments of one user."""
    instance("hulls", hulls, Hulls)
    instance("costs", costs, StageCosts)
    alpha = numbers(UNIT_INTERVAL, "acceptances", acceptances)
    if alpha.ndim != 1 or not len(alpha):
        raise DomainError(f"acceptances must have shape (K_max,); got {alpha.shape}; give one for each draft")
    rows = hulls.positions
    beta = _each_row("rejection", UNIT_INTERVAL, 1.0 - alpha[:1] if rejection is None else rejection, rows)
    weights = _each_row("weight", _WEIGHT, 1.0 if weight is None else weight, rows)
    lengths = _lengths(draft_lengths, len(alpha))
    each = costs.header_bits + lengths[-1] * (costs.token_bits + float(hulls.bits.max()))
    most = costs.round_j + max(lengths[-1], 1) * costs.draft_j + costs.joules_per_bit * each  # of any round
    limits = Limits(_limit("risk_limit", risk_limit, max(lengths[-1], 1)), _limit("joule_limit", joule_limit, most))
    made = Given(hulls, costs, alpha, beta, weights / weights.sum(), flag("skipping", skipping), flag("bonus", bonus))
    return made, lengths, limits


@dataclass(frozen=True)
class Given:
    """The checked arguments of one user."""

    hulls: Hulls
    costs: StageCosts
    acceptances: Numbers
    rejection: Numbers
    weight: Numbers
    skipping: bool
    bonus: bool

    def rounds(self, length: int, priced: Priced, hulls: Hulls, *, skipping: bool, blocked: Array = None) -> Rounds:
        """Return the model of rounds of one length."""
        given = (hulls, priced, self.costs, self.acceptances, self.rejection, length)
        return Rounds(*given, skipping=skipping, bonus=self.bonus, blocked=blocked)


class Deadline(NamedTuple):
    """D, and the seconds a bit at which rounds must keep it."""

    seconds: float
    seconds_per_bit: float


class Start(NamedTuple):
    """The draft length and the prices of a plan."""

    length: int
    prices: Prices


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


def best_plan(
    given: Given, lengths: list[int], limits: Limits, deadline: Deadline | None, *, start: Start | None = None
) -> tuple[UserPlan, Start]:
    """Solve one length after the other; a length whose value at the prices of the best so far is 0 cannot be better.

    ``start`` holds the length and the prices of a plan for another link. Those of the plan are returned, too.
    """
    models = _models(given, lengths, deadline)
    best: tuple[Column, Rounds] | None = None
    bound, prices, waiting = 0.0, Prices(0.0), list(models)
    if start is not None:
        waiting.sort(key=lambda model: model.length == start.length)
    while waiting:
        if best is not None:
            above = {model: certificate(prices.rate, model.best(prices, limits)[1], model) for model in waiting}
            beaten = [model for model in waiting if above[model] <= prices.rate * (1.0 + _FINE)]
            bound = max([bound, *(above[one] for one in beaten)])
            waiting = sorted((one for one in waiting if one not in beaten), key=above.__getitem__)
            if not waiting:
                break
        model = waiting.pop()
        found = solve(model, limits, start.prices if best is None and start else prices)
        bound = max(bound, found.bound)
        if found.column is None:
            continue
        column = exchange(model, found.column, limits)
        if best is None or _rate(column.totals) > _rate(best[0].totals):
            best, prices = (column, model), found.prices._replace(rate=_rate(column.totals))
    if best is None:
        raise _unattainable(models, limits)
    return _user_plan(best[0], best[1], limits, bound), Start(best[1].length, prices)


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
    columns += [_column(model, limits, one) for one in dict.fromkeys(start)]
    prices, bound = near, (1.0 + model.more) / model.least_seconds * (1.0 + ROUNDING)
    for _ in range(_ROUNDS):
        found = _master(columns, limits)
        if found is None:
            break
        prices = found
        made, value = model.best(prices, limits)
        bound = min(bound, certificate(prices.rate, value, model))
        column = Column(made, model.totals(made), prices)
        known = any(column.totals == one.totals for one in columns)
        columns.append(column)
        if known or bound <= prices.rate * (1.0 + _FINE):
            break
    good = [one for one in columns if _keeps(one.totals, limits)]
    best = max(reversed(good), key=lambda one: _rate(one.totals)) if good else None
    return Solved(best, prices, bound)


def _feasible(model: Rounds, limits: Limits) -> list[Column] | None:
    """Columns of which a mixture keeps the limits; None if none does, whatever is decided."""
    which = [n for n in range(2) if limits[n] < math.inf]
    columns: list[Column] = []
    share = np.full(len(which), 1.0 / max(len(which), 1))
    for _ in range(_ROUNDS if which else 0):
        each = [float(share[which.index(n)]) / _unit(limits[n]) if n in which else 0.0 for n in range(2)]
        column = _column(model, limits, Prices(0.0, each[0], each[1], 0.0))
        stale = any(column.totals == one.totals for one in columns)
        columns.append(column)
        over = np.asarray([[_over(one.totals, limits)[n] / _unit(limits[n]) for one in columns] for n in which])
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


def _column(model: Rounds, limits: Limits, prices: Prices) -> Column:
    made, _ = model.best(prices, limits)
    return Column(made, model.totals(made), prices)


def _master(columns: list[Column], limits: Limits) -> Prices | None:
    """The prices of the best mixture of the columns; None if the solver finds none."""
    which = [n for n in range(2) if limits[n] < math.inf]
    tokens = np.asarray([one.totals.tokens for one in columns])
    seconds = np.asarray([one.totals.seconds for one in columns])
    over = np.asarray([[_over(one.totals, limits)[n] / _unit(limits[n]) for one in columns] for n in which])
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


def _over(totals: Totals, limits: Limits) -> tuple[float, float]:
    """By how much a round breaks each limit, in the mean."""
    risk = totals.risk - limits.risk * totals.tokens if limits.risk < math.inf else -math.inf
    joules = totals.joules - limits.joules * totals.tokens if limits.joules < math.inf else -math.inf
    return risk, joules


def _keeps(totals: Totals, limits: Limits) -> bool:
    return max(_over(totals, limits)) <= 0.0


def _rate(totals: Totals) -> float:
    return totals.tokens / totals.seconds


def exchange(model: Rounds, found: Column, limits: Limits) -> Column:
    """Improve the decisions of a few rows: skip others, fit the messages to the limits, and change them one by one.

    With many rows the gap is smaller than one row's part, so that this is not needed.
    """
    if len(model.weight) > _SMALL or model.length == 0:
        return found
    ladder = _ladder(model)
    best, seen = _spent(model, found, limits), {found.made.skip.tobytes()}
    while True:
        tried = []
        for skip in _other_skips(model, best.made.skip):
            if skip.tobytes() not in seen and (one := _fitted(model, skip, ladder, best.prices, limits)):
                tried.append(one)
        tried = sorted(tried, key=lambda one: _rate(one.totals))[-_TRIED:]
        seen |= {one.made.skip.tobytes() for one in tried}
        top = max((_spent(model, one, limits) for one in tried), key=lambda one: _rate(one.totals), default=best)
        if _rate(top.totals) <= _rate(best.totals) * (1.0 + _FINE):
            return best
        best = top


def _ladder(model: Rounds) -> list[tuple[Integers, Integers]]:
    """The corners of all rows at each price of risk, from the fewest bits on."""
    steps = model.priced.prices()
    later = model.reached / (model.length - 1) if model.length > 1 else 0.0
    at = np.unique(np.concatenate([[0.0], steps, steps / later if later > _RARE else []])) * (1.0 + ROUNDING)
    return [(model.priced.corners(1.0, price), model.priced.corners(1.0, price * later)) for price in at.tolist()]


def _other_skips(model: Rounds, skip: Array) -> Iterable[Array]:
    """Sets of skipped rows that differ in one row, or in one that comes for another."""
    rows: list[int] = np.flatnonzero(~model.blocked).tolist() if model.may_skip else []
    for n in rows:
        one = _changed(skip, n, not skip[n])
        yield one
        yield from (_changed(one, m, not skip[m]) for m in rows if m > n and skip[m] != skip[n])


def _fitted(
    model: Rounds, skip: Array, ladder: list[tuple[Integers, Integers]], prices: Prices, limits: Limits
) -> Column | None:
    """The lowest rung of the ladder that keeps the limit on risk."""
    low, high = 0, len(ladder) - 1
    while low < high:
        middle = (low + high) // 2
        good = _over(model.totals(Decisions(skip, *ladder[middle])), limits)[0] <= 0.0
        low, high = (low, middle) if good else (middle + 1, high)
    made = Decisions(skip, *ladder[low])
    totals = model.totals(made)
    return Column(made, totals, prices) if _keeps(totals, limits) else None


def _spent(model: Rounds, found: Column, limits: Limits) -> Column:
    """Change one message after the other while the rate rises and the limits hold."""
    best = found
    while True:
        tried = [Column(made, model.totals(made), best.prices) for made in _other_messages(model, best.made)]
        good = [one for one in tried if _keeps(one.totals, limits)]
        top = max(good, key=lambda one: _rate(one.totals), default=best)
        if _rate(top.totals) <= _rate(best.totals) * (1.0 + _FINE):
            return best
        best = top


def _other_messages(model: Rounds, made: Decisions) -> Iterable[Decisions]:
    """All decisions that differ in one message."""
    for n in range(len(model.weight)):
        for corner in range(int(model.hulls.start[n]), int(model.hulls.start[n + 1])):
            if corner != made.first[n] and not made.skip[n]:
                yield made._replace(first=_changed(made.first, n, corner))
            if corner != made.later[n] and model.length > 1:
                yield made._replace(later=_changed(made.later, n, corner))


def _changed(values: Array, place: int, value: float) -> Array:
    other = values.copy()
    other[place] = value
    return other


def _models(given: Given, lengths: list[int], deadline: Deadline | None) -> list[Rounds]:
    """The rounds of each length that can keep the deadline."""
    if deadline is None:
        priced = Priced(given.hulls, given.weight)
        return [given.rounds(k, priced, given.hulls, skipping=given.skipping) for k in lengths]
    found, nearest, alone = [], math.inf, False
    for k in lengths:
        costs = given.costs
        cap = (deadline.seconds - costs.fixed_time(k)) / deadline.seconds_per_bit - costs.header_bits
        cap = cap / max(k, 1) - costs.token_bits * (k > 0)
        skipping = given.skipping and k > 0 and costs.draft_s <= deadline.seconds
        least = given.hulls.bits[given.hulls.start[:-1]]
        blocked = least > cap if k else np.zeros(len(least), dtype=bool)
        bits = costs.header_bits + k * (costs.token_bits + float(least.max()))
        nearest = min(nearest, costs.fixed_time(k) + deadline.seconds_per_bit * bits)
        if cap < 0 or (blocked.any() and (k > 1 or not skipping)):
            if alone or not skipping:
                continue
            blocked, alone = np.ones(len(least), dtype=bool), True  # no round keeps D: the device decodes alone
        hulls = _capped(given.hulls, cap) if k else given.hulls
        found.append(given.rounds(k, Priced(hulls, given.weight), hulls, skipping=skipping, blocked=blocked))
    if not found:
        raise DomainError(
            f"round_limit_s must be at least {nearest * 1.0005:.4g}, the shortest rounds that any plan has; got "
            f"{deadline.seconds:g}; allow more, or choose a link, messages or draft lengths with shorter rounds"
        )
    return found


def _capped(hulls: Hulls, cap: float) -> Hulls:
    """The corners with at most this many bits. The first corner of each row stays."""
    keep = hulls.bits <= cap
    keep[hulls.start[:-1]] = True
    start = np.concatenate(([0], np.cumsum(keep)))[hulls.start]
    entry = np.flatnonzero(keep)
    return replace(hulls, start=start, bits=hulls.bits[keep], risk=hulls.risk[keep], entry=entry, codec=None)


def _user_plan(found: Column, model: Rounds, limits: Limits, bound: float) -> UserPlan:
    made, totals, rate = found.made, found.totals, _rate(found.totals)
    first, later = made.first, made.later
    if model.length and model.capped:  # corners of the hulls that were given
        first, later = model.hulls.entry[first], model.hulls.entry[later]
    return UserPlan(
        draft_length=model.length,
        rule=model.rule(found.prices, limits),
        skip=made.skip,
        first=first,
        later=later,
        tokens=totals.tokens,
        fixed_s=totals.fixed_s,
        band_s=totals.band_s,
        bits=totals.bits / totals.tokens,
        risk=totals.risk / totals.tokens,
        joules=totals.joules / totals.tokens,
        skip_share=totals.skipped,
        rate=rate,
        upper_bound=max(bound, rate),
    )


def _unattainable(models: list[Rounds], limits: Limits) -> DomainError:
    """Name the nearest limits that can be met, each without the other."""
    told = []
    for name, n in (("risk_limit", 0), ("joule_limit", 1)):
        if limits[n] < math.inf:
            least = min(_least(model, n) for model in models)
            told.append((name, limits[n], least))
    name, given, least = next((one for one in told if one[1] < one[2]), told[0])
    alone = "" if given < least else " alone, but not together with joule_limit"
    if all(model.length and model.blocked.all() for model in models):
        alone += " (no round keeps round_limit_s, so the device decodes alone)"
    return DomainError(
        f"{name} must be at least {least * 1.0005:.4g} a token, the least that any plan keeps{alone}; got {given:g}; "
        "allow more, or other messages or draft lengths"
    )


def _least(model: Rounds, which: int) -> float:
    """The least risk, or joules, for each token: Dinkelbach on their ratio."""
    ratio = math.inf
    for _ in range(_ROUNDS):
        limit = ratio if ratio < math.inf else 0.0
        limits = Limits(joules=limit) if which else Limits(risk=limit)
        prices = Prices(0.0, 1.0 - which, float(which), 0.0)
        totals = model.totals(model.best(prices, limits)[0])
        found = (totals.risk, totals.joules)[which] / totals.tokens
        if found >= ratio:
            break
        ratio = found
    return ratio


def _each_row(name: str, domain: object, value: Array, rows: int) -> Numbers:
    found = numbers(domain, name, value)  # type: ignore[arg-type]
    if found.shape not in ((), (1,), (rows,)):
        raise DomainError(f"{name} must have shape ({rows},), one for each row of hulls; got {found.shape}")
    return np.broadcast_to(found, (rows,)).astype(np.float64)


def _limit(name: str, value: float | None, most: float) -> float:
    """The limit; infinite if no round can break it."""
    limit = math.inf if value is None else float(number(_LIMIT, name, value))
    return limit if limit < most else math.inf


def _lengths(given: Iterable[int] | None, most: int) -> list[int]:
    if given is None:
        return list(range(most + 1))
    found = np.unique(numbers(COUNT, "draft_lengths", as_list(given)))
    if not len(found) or found[-1] > most:
        raise DomainError(
            f"draft_lengths must be in 0..{most}, one or more; got {found.tolist()}; give more acceptances"
        )
    return [int(one) for one in found]


def as_list(given: Any) -> Any:
    """A range as a list; other values unchanged."""
    return list(given) if isinstance(given, range) else given


def _deadline(costs: StageCosts, seconds: float | None, slow: float | None) -> Deadline | None:
    if seconds is None:
        return None
    rate = costs.seconds_per_bit if slow is None else number(_SECONDS, "limit_seconds_per_bit", slow)
    return Deadline(number(_SECONDS, "round_limit_s", seconds), rate)
