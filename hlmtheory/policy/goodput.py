"""Goodput over a fading link: tokens a second times the share of the blocks in which every round is in time.

A plan gives up the share ε of the blocks with the lowest rates. In the others every round must end within D seconds,
at the slowest of their rates too. With more blocks given up, messages may be longer and a bit takes less time: the best
rate X*(ε) never falls in ε. So no outage between a and b has more than (1 - a) X*(b). Intervals are halved, the one of
the largest bound first, until no interval can be better than the best plan found by more than the tolerance.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace

import numpy as np

from hlmtheory._domains import DomainError, instance, number
from hlmtheory._quantities import open_unit, positive
from hlmtheory.channel import Rician
from hlmtheory.policy.band import BandUser
from hlmtheory.policy.columns import ROUNDING
from hlmtheory.policy.costs import UserPlan
from hlmtheory.policy.user import Deadline, Start, best_plan

_BAND = positive("give the band of the uplink in Hz")
_SECONDS = positive("give the longest round in seconds")
_TOLERANCE = open_unit("give a relative gap, such as 0.005")

_FASTEST = 1e-30  # seconds a bit takes at the rates that no block exceeds
_SPLITS = 2000


@dataclass(frozen=True, slots=True)
class GoodputPlan:
    """The outage and the plan with the most tokens in time, and a bound that no other exceeds.

    Attributes
    ----------
    plan : UserPlan
        Its rate and its air time are means over the blocks that are not given up; its own bound holds at this outage.
    outage : float
        ε, the share of the blocks that are given up.
    goodput : float
        (1 - ε) times the rate, in tokens a second.
    upper_bound : float
        No plan with any outage has a higher goodput; rounded up.
    """

    plan: UserPlan
    outage: float
    goodput: float
    upper_bound: float

    @property
    def gap(self) -> float:
        """How much higher the goodput of another plan could be, relative to this one's."""
        return max(self.upper_bound / self.goodput - 1.0, 0.0)


def plan_goodput(
    user: BandUser, link: Rician, bandwidth_hz: float, round_limit_s: float, *, tolerance: float = 0.005
) -> GoodputPlan:
    """Return the outage and the decisions with the most tokens in time per second, and a bound that no others exceed.

    Parameters
    ----------
    user : BandUser
        What :func:`plan_user` takes. The link stands for ``costs.seconds_per_bit``.
    link : Rician or Rayleigh
        The law of the SNR of a block, one link. A round lies within a block.
    bandwidth_hz : float
        W in Hz.
    round_limit_s : float
        D: a round is in time if it ends within D seconds. In the blocks that are not given up every round does.
    tolerance : float
        The relative gap at which the search ends, in (0, 1). The gap stays larger if skipped drafts under a limit on
        risk leave one at a given outage, see :func:`plan_user`.

    Returns
    -------
    GoodputPlan
        The rate is E/(A + bits E[1/R given R ≥ R_ε]) with R = W log₂(1 + S) and R_ε its ε-quantile. Each draft of a
        round may have the same number of bits at most, so that the longest round takes D at R_ε. The bound holds for
        every ε, not for a grid alone, and for mixtures of lengths and messages. Shorter rounds that would be in time in
        a block below R_ε do not count.

    Raises
    ------
    ValueError
        If a value is out of range, the link is not one, or no plan meets the limits.

    Examples
    --------
    >>> from hlmtheory.channel import Rayleigh
    >>> from hlmtheory.policy import StageCosts, lower_hulls
    >>> hulls = lower_hulls([[20000.0, 80000.0]], [[0.0625, 0.0]])
    >>> user = BandUser(hulls, StageCosts(0.0125, 0.03125, 1e-6), [0.75] * 4, risk_limit=1.0, skipping=False)
    >>> found = plan_goodput(user, Rayleigh(10.0), bandwidth_hz=1e6, round_limit_s=0.1)
    >>> found.plan.draft_length, round(found.outage, 2), round(found.goodput, 1), found.gap < 0.01
    (1, 0.03, 32.2, True)
    """
    instance("user", user, BandUser)
    band, limit = number(_BAND, "bandwidth_hz", bandwidth_hz), number(_SECONDS, "round_limit_s", round_limit_s)
    allowed = number(_TOLERANCE, "tolerance", tolerance)
    shape = np.shape(instance("link", link, Rician).capacity())
    if shape != ():
        raise DomainError(f"link must be one link; got the shape {shape}; make one for each")
    given, lengths, limits = user._checked()

    def best(outage: float, start: Start | None) -> tuple[UserPlan, Start]:
        slow, mean = _seconds_per_bit(link, band, outage)
        there = replace(given, costs=replace(given.costs, seconds_per_bit=mean))
        return best_plan(there, lengths, limits, Deadline(limit, slow), start=start)

    top, start = best(1.0, None)  # refuses limits that no rate meets
    found: tuple[float, float, UserPlan] | None = None
    waiting = [(-top.upper_bound, 0.0, 1.0, top.upper_bound)]
    for _ in range(_SPLITS):
        value, low, high, _ = waiting[0]
        narrow = 1.0 - low <= (1.0 - high) * (1.0 + 0.5 * allowed)  # what is left is the gap of a plan
        if found is not None and (narrow or -value <= found[0] * (1.0 + allowed)):
            break
        _, low, high, above = heapq.heappop(waiting)
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        bound = 0.0
        try:
            plan, start = best(middle, start)
        except DomainError:  # no plan keeps D with so few blocks given up
            pass
        else:
            bound = plan.upper_bound
            if found is None or (1.0 - middle) * plan.rate > found[0]:
                found = ((1.0 - middle) * plan.rate, middle, plan)
        if bound:
            heapq.heappush(waiting, (-(1.0 - low) * bound, low, middle, bound))
        heapq.heappush(waiting, (-(1.0 - middle) * above, middle, high, above))
    if found is None:
        best(0.5, None)
        raise DomainError(f"round_limit_s must leave time for a message; got {limit:g}; allow more")
    goodput, outage, plan = found
    return GoodputPlan(plan, outage, goodput, max(-waiting[0][0] * (1.0 + ROUNDING), goodput))


def _seconds_per_bit(link: Rician, band: float, outage: float) -> tuple[float, float]:
    """Seconds that a bit takes at the slowest rate that is not given up, and in the mean over those rates."""
    if outage == 1.0:
        return _FASTEST, _FASTEST
    mean = float(link.mean_latency(1.0, band, outage=outage).value)
    return max(1.0 / (band * float(link.rate_quantile(outage))), _FASTEST), max(mean, _FASTEST)
