"""Several users of one band: drafts, messages and shares together, and a bound that no plan exceeds.

At z = s/w seconds a bit the best rate X*(z) is convex, so chords bound it. For a price ν of the band
Σ_u ω_u U(X_u) ≤ g(ν) = ν + Σ_u max_w [ω_u U(X*_u(s_u/w)) - ν w]. Few users have a second bound, by a grid of shares.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from hlmtheory._array import Array
from hlmtheory._domains import COUNT, DomainError, instances, number, numbers, option
from hlmtheory._quantities import positive
from hlmtheory.policy.band_shares import FEW, Curve, improved_shares, priced_shares, utility_of
from hlmtheory.policy.capacity import UTILITIES
from hlmtheory.policy.costs import Numbers, StageCosts, UserPlan
from hlmtheory.policy.hulls import Hulls
from hlmtheory.policy.rounds import Prices
from hlmtheory.policy.user import Given, as_list, best_plan, checked_user

_WEIGHT = positive("leave out users without a weight")

_RATIO, _COARSE = 1.15, 1.4  # of a value of z to the one before, for a few users and for many
_NOTHING = 1e-9  # of its tokens: what a plan that is worth nothing counts, so that shares stay positive

Toll = tuple[float, float]
"""Tokens that a round which is sent pays to a server, and that each of its drafts pays besides."""


@dataclass(frozen=True)
class BandUser:
    """One user of a shared band: what :func:`plan_user` takes, and its weight.

    Parameters
    ----------
    hulls, costs, acceptances, rejection, weight, risk_limit, draft_lengths, skipping, bonus
        See :func:`plan_user`. ``costs.seconds_per_bit`` is that of the whole band.
    utility_weight : float
        ω, positive.

    Raises
    ------
    ValueError
        If a value is out of range, or the shapes do not match.

    Examples
    --------
    >>> from hlmtheory.policy import StageCosts, lower_hulls
    >>> hulls = lower_hulls([[1000.0, 8000.0]], [[0.0625, 0.0]])
    >>> BandUser(hulls, StageCosts(0.0125, 0.03125, seconds_per_bit=1e-6), [0.75] * 4).utility_weight
    1.0
    """

    hulls: Hulls
    costs: StageCosts
    acceptances: Array
    rejection: Array | None = None
    weight: Array | None = None
    risk_limit: float = 0.0
    draft_lengths: Iterable[int] | None = None
    skipping: bool = True
    bonus: bool = True
    utility_weight: float = 1.0

    def __post_init__(self) -> None:
        """Check the values."""
        object.__setattr__(self, "utility_weight", number(_WEIGHT, "utility_weight", self.utility_weight))
        if self.draft_lengths is not None:
            found = numbers(COUNT, "draft_lengths", as_list(self.draft_lengths)).ravel().tolist()
            object.__setattr__(self, "draft_lengths", tuple(found))
        _ = self._checked  # refuses what cannot be planned

    @cached_property
    def _checked(self) -> tuple[Given, list[int], float]:
        return checked_user(*(getattr(self, field.name) for field in fields(self)[:-1]))

    def _kind(self) -> tuple[Any, ...]:
        """What two users must have in common to share a curve: all but the link's rate and the weight."""
        plain = (self.risk_limit, self.draft_lengths, self.skipping, self.bonus)
        arrays = (np.asarray(one).tobytes() if one is not None else None for one in (self.acceptances, self.rejection))
        other = np.asarray(self.weight).tobytes() if self.weight is not None else None
        return (id(self.hulls), self.costs._on_link(1.0), *plain, *arrays, other)


class Bounded:
    """A plan of several users with a value and an upper bound on that of others."""

    __slots__ = ()
    value: float
    upper_bound: float
    utility: str

    @property
    def gap(self) -> float:
        """How far the value can be from the optimum: a share of it, but for "log" a difference."""
        if self.utility == "log":
            return max(self.upper_bound - self.value, 0.0)
        return max(self.upper_bound / self.value - 1.0, 0.0)


@dataclass(frozen=True, slots=True)
class SharedPlan(Bounded):
    """Plans and shares of several users, and an upper bound on the value of any plans and shares, rounded up."""

    users: tuple[UserPlan, ...]  # each at its share, as are its rate and its air time
    shares: Numbers  # (U,), of the band; their sum is 1
    value: float  # Σ ω X, or Σ ω log X
    upper_bound: float
    utility: str

    @property
    def rates(self) -> Numbers:
        """Tokens a second of each user."""
        return np.asarray([one.rate for one in self.users])


def plan_users(users: Sequence[BandUser], *, utility: str = "linear") -> SharedPlan:
    """Return plans of several users and their shares of one band with much utility, and a bound that none exceeds.

    Parameters
    ----------
    users : sequence of BandUser
        At least one. Users with the same hulls object and the same other arguments are computed together.
    utility : {"linear", "log"}
        Σ ω X, or Σ ω log X, with X in tokens a second.

    Returns
    -------
    SharedPlan
        A plan of each user, shares (U,) whose sum is 1, the value, and a bound on that of any plans, rounded up.

    Raises
    ------
    ValueError
        If there is no user, the utility has another name, or a user's limits cannot be met.

    Examples
    --------
    >>> from hlmtheory.policy import StageCosts, lower_hulls
    >>> hulls = lower_hulls([[1000.0, 8000.0]], [[0.0625, 0.0]])
    >>> near, far = (StageCosts(0.0125, 0.03125, seconds_per_bit=slow) for slow in (1e-6, 4e-6))
    >>> given = {"acceptances": [0.75] * 4, "risk_limit": 1.0, "skipping": False}
    >>> found = plan_users([BandUser(hulls, costs, **given) for costs in (near, far)])
    >>> [plan.draft_length for plan in found.users], found.shares.round(2).tolist(), found.gap < 0.01
    ([1, 1], [0.35, 0.65], True)
    """
    given = instances("users", users, BandUser)
    option("utility", utility, UTILITIES)
    if not given:
        raise DomainError("users must hold a BandUser, one or more; got none; give one")
    return planned_users(given, utility)[0]


def planned_users(given: tuple[BandUser, ...], utility: str) -> tuple[SharedPlan, list[Curve]]:
    """The plans of users who were checked, and their curves."""
    curves = curves_of(given)
    weights = np.asarray([one.utility_weight for one in given])
    shares, bound = priced_shares(curves, weights, utility)
    shares = improved_shares(curves, weights, shares, utility)
    exact = len(given) <= FEW
    plans = [plan_at(user, curve, float(w), exact=exact) for user, curve, w in zip(given, curves, shares, strict=True)]
    value = utility_of(np.asarray([one.rate for one in plans]), weights, utility)
    return SharedPlan(tuple(plans), shares, value, max(bound, value), utility), curves


def curves_of(users: tuple[BandUser, ...], tolls: Sequence[Toll] | None = None) -> list[Curve]:
    """One curve for all users that differ in the rate of the link and the weight alone, and have the same toll.

    With a toll, ``tokens`` and ``upper`` are of the worth: tokens less the toll of a round that is sent; 0 at least.
    """
    given = tolls if tolls is not None else [(0.0, 0.0)] * len(users)
    kinds: dict[tuple[Any, ...], list[BandUser]] = {}
    for user, toll in zip(users, given, strict=True):
        kinds.setdefault((toll, user._kind()), []).append(user)
    found = {}
    for kind, members in kinds.items():
        slow = [one.costs.seconds_per_bit for one in members]
        found[kind] = _curve(members[0], _grid(min(slow), max(slow), len(users)), kind[0])
    return [
        found[toll, user._kind()]._replace(slow=user.costs.seconds_per_bit)
        for user, toll in zip(users, given, strict=True)
    ]


def _grid(low: float, high: float, users: int) -> Numbers:
    """Values of z: close together where the shares of most users will be, and farther apart elsewhere."""
    ratio = _RATIO if users <= FEW else _COARSE
    first, last = max(low, low * users / 8.0), high * users * 8.0
    fine = first * (last / first) ** np.linspace(0.0, 1.0, 1 + math.ceil(math.log(last / first) / math.log(ratio)))
    before = low * (first / low) ** np.linspace(0.0, 1.0, 1 + math.ceil(math.log(first / low) / math.log(2.5)))
    after = last * 4.0 ** np.arange(1, 6)
    return np.concatenate([before[:-1], fine, after])


def _curve(user: BandUser, z: Numbers, toll: Toll) -> Curve:
    given, lengths, limit = user._checked
    plans: list[UserPlan] = []
    starts: list[Prices] = []
    for one in z.tolist():
        there = replace(given, costs=given.costs._on_link(one), toll=toll)
        plan, start = best_plan(there, lengths, limit, start=starts[-1] if starts else None)
        plans.append(plan)
        starts.append(start)
    upper = np.maximum(np.asarray([one.upper_bound for one in plans]), 0.0)
    tokens, fixed, band = (np.asarray([getattr(p, name) for p in plans]) for name in ("tokens", "fixed_s", "band_s"))
    if toll != (0.0, 0.0):  # the rates of the plans are those of their worth
        tokens = np.maximum(np.asarray([one.rate for one in plans]) * (fixed + band), _NOTHING * tokens)
    # X* falls in z, so an upper bound further to the left holds to the right
    return Curve(z, np.minimum.accumulate(upper), tokens, fixed, band / z, tuple(plans), tuple(starts), float(z[0]))


def plan_at(user: BandUser, curve: Curve, share: float, *, exact: bool, toll: Toll = (0.0, 0.0)) -> UserPlan:
    """The plan of a user at its share: the best there, or the best of those found elsewhere."""
    n, z = curve.choice(share), curve.slow / share
    if exact:
        given, lengths, limit = user._checked
        there = replace(given, toll=toll, costs=given.costs._on_link(z))
        return best_plan(there, lengths, limit, start=curve.starts[n])[0]
    air = float(curve.bits[n]) * z
    rate = float(curve.tokens[n]) / (float(curve.fixed[n]) + air)
    return replace(curve.plans[n], band_s=air, rate=rate, upper_bound=max(rate, float(curve.bound(np.asarray(share)))))
