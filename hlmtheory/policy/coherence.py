"""Rounds whose messages last for several coherence blocks: costs that are too small, and costs that are too large.

Over blocks of T_c seconds with independent SNRs the mean time m(B) of a message of B bits is not linear in B. But it
lies between B/C and B/C + T_c, C = W E[log₂(1 + S)] (claims ``channel.transfer_floor``, ``channel.transfer_ceiling``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from hlmtheory._domains import DomainError, instance, number
from hlmtheory._quantities import positive
from hlmtheory.channel import Rician
from hlmtheory.policy.costs import StageCosts

_BAND = positive("give the band of the uplink in Hz")
_COHERENCE = positive("give the time in seconds after which the fading changes")


class CoherentCosts(NamedTuple):
    """Costs of rounds over coherence blocks.

    Attributes
    ----------
    floor : StageCosts
        No round takes less time in the mean: for bounds on what any plan reaches.
    ceiling : StageCosts
        No round takes more time in the mean: for the rate that a plan promises.
    """

    floor: StageCosts
    ceiling: StageCosts


def coherent_costs(costs: StageCosts, link: Rician, bandwidth_hz: float, coherence_s: float) -> CoherentCosts:
    """Return costs between which the mean rounds lie, if each message begins with a block and may last for several.

    A plan made with ``ceiling`` keeps its rate, and ``upper_bound`` of one made with ``floor`` bounds every plan. The
    exact time of a message of the plan is :func:`hlmtheory.channel.mean_transfer_time`.

    Parameters
    ----------
    costs : StageCosts
        The link stands for ``seconds_per_bit``.
    link : Rician or Rayleigh
        The law of the SNR of a block, one link.
    bandwidth_hz, coherence_s : float
        W in Hz; T_c, the length of a block, in seconds.

    Returns
    -------
    CoherentCosts
        Both with 1/(W E[log₂(1 + S)]) seconds a bit; the ceiling has T_c more in each round that is sent.

    Raises
    ------
    ValueError
        If a value is out of range, or the link is not one.

    Examples
    --------
    >>> from hlmtheory.channel import Rayleigh
    >>> from hlmtheory.policy import lower_hulls, plan_user
    >>> hulls = lower_hulls([[1000.0, 8000.0]], [[0.0625, 0.0]])
    >>> costs = StageCosts(0.0125, 0.03125, seconds_per_bit=1e-6, round_trip_s=0.015625)
    >>> floor, ceiling = coherent_costs(costs, Rayleigh(10.0), bandwidth_hz=1e6, coherence_s=0.001)
    >>> made = plan_user(hulls, ceiling, [0.75] * 4, risk_limit=1.0, skipping=False)
    >>> bound = plan_user(hulls, floor, [0.75] * 4, risk_limit=1.0, skipping=False).upper_bound
    >>> made.draft_length, round(made.rate, 2), round(bound, 2)
    (3, 31.65, 32.02)
    """
    instance("costs", costs, StageCosts)
    band, block = number(_BAND, "bandwidth_hz", bandwidth_hz), number(_COHERENCE, "coherence_s", coherence_s)
    capacity = np.asarray(instance("link", link, Rician).capacity())
    if capacity.shape != ():
        raise DomainError(f"link must be one link; got the shape {capacity.shape}; make one for each")
    slow = float(1.0 / capacity) / band
    floor = replace(costs, seconds_per_bit=slow)
    return CoherentCosts(floor, replace(floor, fixed_s=costs.fixed_s + block))
