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
from hlmtheory.policy.columns import FINE, ROUNDS, Column, certificate, rate_of, solve
from hlmtheory.policy.costs import Numbers, StageCosts, UserPlan
from hlmtheory.policy.exchange import exchange
from hlmtheory.policy.hulls import Hulls, Priced
from hlmtheory.policy.rounds import Limits, Prices, Rounds

_WEIGHT = positive("leave out rows without a weight")
_LIMIT = not_negative("give a limit for each emitted token, or None")
_SECONDS = positive("give a time in seconds")


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
    toll: tuple[float, float] = (0.0, 0.0)
    """Tokens that a round which is sent pays to the server, and that each of its drafts pays besides."""

    def rounds(self, length: int, priced: Priced, hulls: Hulls, *, skipping: bool, blocked: Array = None) -> Rounds:
        """Return the model of rounds of one length."""
        given = (hulls, priced, self.costs, self.acceptances, self.rejection, length)
        toll = self.toll[0] + length * self.toll[1]
        return Rounds(*given, skipping=skipping, bonus=self.bonus, blocked=blocked, toll=toll)


class Deadline(NamedTuple):
    """D, and the seconds a bit at which rounds must keep it."""

    seconds: float
    seconds_per_bit: float


class Start(NamedTuple):
    """The draft length and the prices of a plan."""

    length: int
    prices: Prices


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
            beaten = [model for model in waiting if above[model] <= prices.rate * (1.0 + FINE)]
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
        if best is None or rate_of(column.totals) > rate_of(best[0].totals):
            best, prices = (column, model), found.prices._replace(rate=max(rate_of(column.totals), 0.0))
    if best is None:
        raise _unattainable(models, limits)
    return _user_plan(best[0], best[1], limits, bound), Start(best[1].length, prices)


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
    made, totals, rate = found.made, found.totals, rate_of(found.totals)
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
    for _ in range(ROUNDS):
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
