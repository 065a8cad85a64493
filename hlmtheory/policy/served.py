"""Several users of one band and one server: drafts, messages, shares and rates together, and a bound on all plans.

At a price ν′ of the server's time a sent round pays the toll ν′ σ_K/ω in tokens. For any prices ν and ν′
Σ ω X ≤ ν + ν′ + Σ_u max_w [ω_u Y_u(w) - ν w], Y the best rate less tolls; a concave utility is bounded by its tangents.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from hlmtheory._domains import DomainError, instance, instances, option
from hlmtheory.policy.band import BandUser, Bounded, Toll, curves_of, plan_at, planned_users
from hlmtheory.policy.band_shares import improved_shares, priced_shares
from hlmtheory.policy.capacity import UTILITIES, SharedServer, server_rates
from hlmtheory.policy.columns import ROUNDING
from hlmtheory.policy.costs import Numbers, UserPlan

_FEW = 8  # users whose plans are found at their own shares
_PRICES, _TANGENTS = 12, 8  # of the server that are tried at most, and weights of a logarithm
_CLOSE = 1e-3  # relative: no further price is tried if none can lower the bound by more
_MIXTURES = 64
_UPDATES = 400  # of the parts of mixed rates


@dataclass(frozen=True, slots=True)
class ServedPlan(Bounded):
    """Plans and shares of several users of one server, their rates, and a bound that no others exceed, rounded up."""

    users: tuple[UserPlan, ...]  # each at its share; its rate is that with a free server
    shares: Numbers  # (U,), of the band; their sum is 1
    rates: Numbers  # (U,), tokens a second that the server can serve: Σ X d ≤ 1
    busy: float  # Σ X d; 1 if the server binds
    wanted: float  # the same for the rates with a free server
    server_price: float  # ν′: the worth of another server, to first order; 0 if it does not bind
    value: float  # Σ ω X, or Σ ω log X
    upper_bound: float
    utility: str


def plan_served(users: Sequence[BandUser], server: SharedServer, *, utility: str = "linear") -> ServedPlan:
    """Return plans of several users of one band and one server with much utility, and a bound that none exceeds.

    Parameters
    ----------
    users : sequence of BandUser
        At least one. The costs of each are those with a free server: ``verify_s`` is the time of its own pass.
    server : SharedServer
    utility : {"linear", "log"}
        Σ ω X, or Σ ω log X, with X in tokens a second.

    Returns
    -------
    ServedPlan
        Its rates can be reached if the server's time is divided among users. Waits are not in them: see
        :func:`queue_rates`.

    Raises
    ------
    ValueError
        If there is no user, the utility has another name, or a user's limits cannot be met.

    Examples
    --------
    >>> from hlmtheory.policy import StageCosts, lower_hulls
    >>> hulls = lower_hulls([[1000.0, 8000.0]], [[0.0625, 0.0]])
    >>> user = BandUser(hulls, StageCosts(0.0125, 0.03125, 1e-6), [0.75] * 4, risk_limit=1.0, skipping=False)
    >>> few, many = (plan_served([user] * count, SharedServer(0.03125)) for count in (1, 8))
    >>> [one.users[0].draft_length for one in (few, many)], round(float(many.rates.sum()), 1), round(many.busy, 3)
    ([2, 4], 97.6, 1.0)
    """
    given = instances("users", users, BandUser)
    server = instance("server", server, SharedServer)
    option("utility", utility, UTILITIES)
    if not given:
        raise DomainError("users must hold a BandUser, one or more; got none; give one")
    weights = np.asarray([one.utility_weight for one in given])
    free, curves = planned_users(given, utility)
    best = _served(free.users, free.shares, server, weights, utility)
    if best.wanted <= 1.0:
        return best.plan(0.0, max(free.upper_bound, best.value), utility)
    bound, price, anchor = free.upper_bound, 0.0, best.rates
    tried = [_tried(0.0, math.inf, best.users, best.shares, server)]
    corners: list[Numbers] = []
    for _ in range(_TANGENTS if utility == "log" else 1):
        slope, level = tangent(anchor, weights, utility)
        found, above, at, mixed = _search(given, server, slope, tried)
        best = max(
            [best, *(_served(one.users, one.shares, server, weights, utility) for one in found)],
            key=attrgetter("value"),
        )
        if level + above < bound:
            bound, price = level + above, at
        if utility == "linear":
            break
        # The bound is least at the best mixture of rates, which may be of other plans at other times
        corners.append(mixed)
        anchor = _mixture(np.asarray([*corners, best.rates]), weights)
        if bound - float(weights @ np.log(anchor)) <= _CLOSE * float(weights.sum()):
            break
    bounds = (float(one.bound(np.asarray(w))) for one, w in zip(curves, best.shares.tolist(), strict=True))
    plans = tuple(
        replace(one, rate=one.tokens / (one.fixed_s + one.band_s), upper_bound=max(one.rate, bound))
        for one, bound in zip(best.users, bounds, strict=True)
    )
    return best._replace(users=plans).plan(price, max(bound, best.value), utility)


class Served(NamedTuple):
    """Plans and shares with the best rates that the server can serve."""

    users: tuple[UserPlan, ...]
    shares: Numbers
    rates: Numbers
    busy: float
    wanted: float
    value: float

    def plan(self, price: float, bound: float, utility: str) -> ServedPlan:
        """The same with a bound, as the answer."""
        return ServedPlan(*self[:5], server_price=price, value=self.value, upper_bound=bound, utility=utility)


def _served(
    users: tuple[UserPlan, ...], shares: Numbers, server: SharedServer, weights: Numbers, utility: str
) -> Served:
    tokens, fixed, air = (np.asarray([getattr(one, name) for one in users]) for name in ("tokens", "fixed_s", "band_s"))
    load = np.asarray([server_seconds(one, server) for one in users]) / tokens
    most = tokens / (fixed + air)
    rates = np.asarray(server_rates(most, load, weights, utility=utility))
    with np.errstate(divide="ignore"):
        value = float(weights @ (np.log(rates) if utility == "log" else rates))
    return Served(users, shares, rates, float(rates @ load), float(most @ load), value)


def server_seconds(plan: UserPlan, server: SharedServer) -> float:
    """Mean seconds of the server for a round: its time for a round is linear in K, so the mean drafts are enough."""
    return _sent(plan) * server.load_s(0) + plan.sent_drafts * server.token_s


def _sent(plan: UserPlan) -> float:
    """The share of the rounds that are sent; that of the others, a sum of weights, may exceed 1 by a rounding."""
    return max(1.0 - plan.skip_share, 0.0)


def tangent(rates: Numbers, weights: Numbers, utility: str) -> tuple[Numbers, float]:
    """The weights ω U'(a) of the tangent at rates a, and its level Σ ω (U(a) - U'(a) a)."""
    if utility == "linear":
        return weights, 0.0
    return weights / rates, float(weights @ (np.log(rates) - 1.0))


def _mixture(corners: Numbers, weights: Numbers) -> Numbers:
    """The mixture of rates, (n, U), with the most Σ ω log X: each part is multiplied by what it gains at the margin."""
    parts = np.full(len(corners), 1.0 / len(corners))
    for _ in range(_UPDATES):
        parts *= corners @ (weights / (parts @ corners)) / weights.sum()
    return np.asarray(parts @ corners)


class _Try(NamedTuple):
    price: float
    bound: float
    slope: float  # of the bound in the price: 1 less what the plans want of the server
    rates: Numbers  # with a free server, of the users who are worth the price
    users: tuple[UserPlan, ...]
    shares: Numbers


class _Lowest(NamedTuple):
    """Where the highest line over the price is lowest, its value, and the plans of the lines left and right of it."""

    price: float
    value: float
    left: _Try
    right: _Try | None  # None: the line ν′ itself, of users who get nothing
    part: float  # of the left plans, so that both together fill the server

    @classmethod
    def of(cls, tried: list[_Try], weights: Numbers) -> _Lowest:
        """Each plan gives a line Σ ω X + ν′ (1 - Σ X d), and g is nowhere below it."""
        level = np.asarray([*(float(weights @ one.rates) for one in tried), 0.0])
        slope = np.asarray([*(one.slope for one in tried), 1.0])
        falling, rising = np.flatnonzero(slope < 0.0), np.flatnonzero(slope >= 0.0)
        first, second = (part.ravel() for part in np.meshgrid(falling, rising))
        price = np.maximum((level[first] - level[second]) / (slope[second] - slope[first]), 0.0)
        price = np.append(price, 0.0)
        height = (level + price[:, None] * slope).max(axis=1)
        best = int(np.argmin(height[::-1])) if not len(first) else int(np.argmin(height))
        top = int(np.argmax(level[:-1]))
        if best == len(first):
            return cls(0.0, float(height[best]), tried[top], tried[top], 1.0)
        a, b = int(first[best]), int(second[best])
        part = float(slope[b] / (slope[b] - slope[a]))
        return cls(float(price[best]), float(height[best]), tried[a], tried[b] if b < len(tried) else None, part)

    def rates(self) -> Numbers:
        return np.asarray(
            self.part * self.left.rates + (0.0 if self.right is None else (1.0 - self.part) * self.right.rates)
        )


def _search(
    users: tuple[BandUser, ...], server: SharedServer, weights: Numbers, tried: list[_Try]
) -> tuple[list[Served], float, float, Numbers]:
    """Minimise g over the price of the server by cutting planes; the last answer are rates that fill the server."""
    found, bound, at, seen = [], math.inf, 0.0, set()
    for _ in range(_PRICES):
        lowest = _Lowest.of(tried, weights)
        if bound <= lowest.value * (1.0 + _CLOSE) or lowest.price in seen:
            break
        seen.add(lowest.price)
        one = _at_price(users, server, weights, lowest.price)
        tried.append(one)
        found.append(_served(one.users, one.shares, server, weights, "linear"))
        bound, at = min((bound, at), (one.bound, lowest.price))
    lowest = _Lowest.of(tried, weights)
    low, last = lowest.left, lowest.right or lowest.left
    for count in np.unique(np.linspace(0, len(users), _MIXTURES).astype(int)).tolist():
        mixed, shares = (*last.users[:count], *low.users[count:]), np.r_[last.shares[:count], low.shares[count:]]
        found.append(_served(*_rescaled(mixed, shares), server, weights, "linear"))
    return found, bound, at, lowest.rates()


def _rescaled(users: tuple[UserPlan, ...], shares: Numbers) -> tuple[tuple[UserPlan, ...], Numbers]:
    total = float(shares.sum())
    if total == 1.0:
        return users, shares
    return tuple(replace(one, band_s=one.band_s * total) for one in users), shares / total


def _at_price(users: tuple[BandUser, ...], server: SharedServer, weights: Numbers, price: float) -> _Try:
    worth = [price / weight for weight in weights.tolist()]  # tokens for a second of the server
    tolls = [(each * server.load_s(0), each * server.token_s) for each in worth]  # of a round, and of each draft
    curves = curves_of(users, tolls)
    shares, above = priced_shares(curves, weights, "linear")
    shares = improved_shares(curves, weights, shares, "linear")
    exact = len(users) <= _FEW
    plans = tuple(
        _free(plan_at(user, curve, float(share), exact=exact, toll=toll))
        for user, curve, share, toll in zip(users, curves, shares, tolls, strict=True)
    )
    return _tried(price, (above + price) * (1.0 + ROUNDING), plans, shares, server, tolls)


def _tried(
    price: float,
    bound: float,
    plans: tuple[UserPlan, ...],
    shares: Numbers,
    server: SharedServer,
    tolls: Sequence[Toll] | None = None,
) -> _Try:
    """The rates of plans, and what they want of the server; a user whose round costs all its tokens gets nothing."""
    given = tolls if tolls is not None else [(0.0, 0.0)] * len(plans)
    worth = [
        one.tokens > _sent(one) * toll[0] + one.sent_drafts * toll[1] for one, toll in zip(plans, given, strict=True)
    ]
    rates = np.where(worth, [one.tokens / (one.fixed_s + one.band_s) for one in plans], 0.0)
    load = [server_seconds(one, server) / one.tokens for one in plans]
    return _Try(price, bound, 1.0 - float(rates @ load), rates, plans, shares)


def _free(plan: UserPlan) -> UserPlan:
    """The plan with its own rate, not that of its worth; the bound on other plans follows at the end."""
    return replace(plan, rate=plan.tokens / (plan.fixed_s + plan.band_s), upper_bound=math.inf)
