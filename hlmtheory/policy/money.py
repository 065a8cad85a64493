"""The cheapest plan: money for seconds, for the server's seconds and for joules, for each emitted token."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hlmtheory._domains import instance, number
from hlmtheory._quantities import not_negative, positive
from hlmtheory.policy.band import BandUser
from hlmtheory.policy.costs import StageCosts, Totals, UserPlan
from hlmtheory.policy.hulls import Priced
from hlmtheory.policy.rounds import Decisions
from hlmtheory.policy.user import Given, best_plan

_SECOND = positive("give the price of a second of waiting; without one only energy or the server would count")
_PRICE = not_negative("give a price")


@dataclass(frozen=True, slots=True)
class CostPlan:
    """The cheapest decisions of one user, what they cost, and a bound below which no others do.

    Attributes
    ----------
    plan : UserPlan
        In seconds and joules, as of :func:`plan_user`; its gap is the speed that the cheapest plan gives up, at most.
    cost : float
        Money for each emitted token.
    lower_bound : float
        No plan within the limits costs less for each token, mixtures of draft lengths included; rounded down.
    """

    plan: UserPlan
    cost: float
    lower_bound: float

    @property
    def gap(self) -> float:
        """How much more than the cheapest plan this one can cost, relative to it."""
        return max(self.cost / self.lower_bound - 1.0, 0.0)


def plan_cost(user: BandUser, second_price: float, *, server_price: float = 0.0, joule_price: float = 0.0) -> CostPlan:
    """Return the decisions of one user that cost least for each emitted token, and a bound below which no others do.

    Parameters
    ----------
    user : BandUser
        What :func:`plan_user` takes, with its limits on risk and joules.
    second_price : float
        Money for a second of any round, positive.
    server_price : float
        Money for a second of the server, ``verify_s`` and ``verify_token_s``, besides ``second_price``.
    joule_price : float
        Money for a joule of the device.

    Returns
    -------
    CostPlan

    Raises
    ------
    ValueError
        If a value is out of range, or no plan meets the limits.

    Examples
    --------
    >>> from hlmtheory.policy import lower_hulls
    >>> costs = StageCosts(0.0125, 0.03125, 1e-6, round_trip_s=0.02, draft_j=0.05, round_j=0.125)
    >>> user = BandUser(lower_hulls([[1000.0]], [[0.0]]), costs, [0.75] * 4, risk_limit=1.0, skipping=False)
    >>> found = [plan_cost(user, 1.0, joule_price=price) for price in (0.0, 10.0)]
    >>> [(one.plan.draft_length, round(one.cost, 4)) for one in found]
    [(3, 0.0336), (2, 1.0068)]
    """
    given, lengths, limits = instance("user", user, BandUser)._checked()
    second = number(_SECOND, "second_price", second_price)
    server = number(_PRICE, "server_price", server_price)
    joule = number(_PRICE, "joule_price", joule_price)
    money = replace(given, costs=_priced(given.costs, second, server, joule))
    found, _ = best_plan(money, lengths, limits, None)
    fastest, _ = best_plan(given, lengths, limits, None)
    totals = _means(given, found)
    rate = totals.tokens / totals.seconds
    plan = replace(
        found,
        fixed_s=totals.fixed_s,
        band_s=totals.band_s,
        rate=rate,
        upper_bound=max(fastest.upper_bound, rate),
    )
    return CostPlan(plan, 1.0 / found.rate, 1.0 / found.upper_bound)


def _means(given: Given, plan: UserPlan) -> Totals:
    """The means over rounds in seconds."""
    priced = Priced(given.hulls, given.weight)
    means = []
    for part in plan.parts:
        model = given.rounds(part.draft_length, priced, given.hulls, skipping=given.skipping)
        means.append(np.asarray(model.totals(Decisions(part.skip, part.first, part.later))) * part.share)
    return Totals(*np.sum(means, axis=0).tolist())


def _priced(costs: StageCosts, second: float, server: float, joule: float) -> StageCosts:
    """The same rounds with money for seconds. Their joules stay, for the limit on them."""
    return replace(
        costs,
        draft_s=second * costs.draft_s + joule * costs.draft_j,
        verify_s=(second + server) * costs.verify_s,
        verify_token_s=(second + server) * costs.verify_token_s,
        round_trip_s=second * costs.round_trip_s,
        fixed_s=second * costs.fixed_s + joule * costs.round_j,
        seconds_per_bit=second * costs.seconds_per_bit + joule * costs.joules_per_bit,
    )
