"""A server with a draft model of its own: what a device must beat, and how many more users it lets a server carry.

A round of K drafts takes the server K t_s + V(K) seconds and no message; a device needs K t_d + R + b/C + V(K).
"""

from dataclasses import dataclass

import numpy as np

from hlmtheory._array import Array
from hlmtheory._domains import UNIT_INTERVAL, DomainError, instance, number, numbers
from hlmtheory._quantities import positive
from hlmtheory.policy.capacity import SharedServer
from hlmtheory.policy.costs import Numbers

SERVER_DRAFT = positive("give the time of a draft token on the server in seconds")
_ROUND_UP = 1.0 + 1e-12


@dataclass(frozen=True, slots=True)
class ColocatedPlan:
    """The fastest rounds of a server that drafts for itself, in tokens a second, rounded up."""

    draft_length: int  # K; 0 if drafts do not pay
    rate: float  # E(K)/(K t_s + V(K)): the most if K is independent of what would be accepted
    ceiling: float  # of every plan of up to K_max drafts, whatever it knows of its drafts


@dataclass(frozen=True, slots=True)
class CapacityGain:
    """What a full server gains if its users' devices draft: a ratio of tokens a second, and each side's best K."""

    gain: float
    device_length: int
    server_length: int


def colocated_plan(acceptances: Array, server_draft_s: float, server: SharedServer) -> ColocatedPlan:
    """Return the fastest rounds for one user of a server that runs the draft model itself and streams.

    With t_s ≤ t_d no device that drafts, sends and waits in turn, loses nothing and draws K independently is faster
    than ``rate`` (``policy.colocated_speed``), nor one that looks at its draft model than a server that looks too
    (``policy.colocated_speed_looks``), nor either than ``ceiling``. A device that skips, or drafts on, may be.

    Parameters
    ----------
    acceptances : array, shape (K_max,)
        α_i, each in [0, 1].
    server_draft_s : float
        t_s in seconds, positive.
    server : SharedServer
        Its ``batch`` does not matter for one user.

    Returns
    -------
    ColocatedPlan
        K, and two speeds in tokens a second, rounded up.

    Raises
    ------
    ValueError
        If a value is out of range.

    Examples
    --------
    >>> colocated_plan([0.75, 0.75, 0.75], 0.125, SharedServer(0.5))
    ColocatedPlan(draft_length=3, rate=3.1250000000031255, ceiling=3.8147138964615808)
    """
    tokens, drafting, server = _checked(acceptances, server_draft_s, server)
    seconds = drafting + [server.alone_s(k) for k in range(len(tokens))]
    rates = tokens / seconds
    best = int(np.argmax(rates))
    most = tokens[-1]
    nothing_rejected = float(most / ((most - 1.0) * drafting[1] + server.pass_s + server.token_s * most))
    return ColocatedPlan(best, float(rates[best]) * _ROUND_UP, max(nothing_rejected, float(rates[0])) * _ROUND_UP)


def capacity_gain(acceptances: Array, server_draft_s: float, server: SharedServer) -> CapacityGain:
    """Return how many times as many users a full server carries if devices draft for it, each side with its own best K.

    At the same K it is 1 + K t_s/(B σ(K)) (``policy.colocated_capacity``); at least that at the server's best K.

    Parameters
    ----------
    acceptances : array, shape (K_max,)
        α_i, each in [0, 1].
    server_draft_s : float
        t_s in seconds, positive: of a pass of the draft model for up to B users.
    server : SharedServer

    Returns
    -------
    CapacityGain
        The ratio of tokens a second, and K of a round on the device and on the server.

    Raises
    ------
    ValueError
        If a value is out of range.

    Examples
    --------
    >>> capacity_gain([0.5], 0.25, SharedServer(0.5))
    CapacityGain(gain=1.5, device_length=1, server_length=0)
    """
    tokens, drafting, server = _checked(acceptances, server_draft_s, server)
    verifying = np.array([server.load_s(k) for k in range(len(tokens))])
    loads = [verifying / tokens, (verifying + drafting / server.batch) / tokens]
    device, own = (int(np.argmin(load)) for load in loads)
    return CapacityGain(float(loads[1][own] / loads[0][device]), device, own)


def _checked(acceptances: Array, server_draft_s: float, server: SharedServer) -> tuple[Numbers, Numbers, SharedServer]:
    alpha = numbers(UNIT_INTERVAL, "acceptances", acceptances)
    if alpha.ndim != 1 or not len(alpha):
        raise DomainError(
            f"acceptances must have shape (K_max,), one for each draft; got {alpha.shape}; give one or more"
        )
    draft = number(SERVER_DRAFT, "server_draft_s", server_draft_s)
    tokens = 1.0 + np.concatenate([[0.0], np.cumsum(np.cumprod(alpha))])
    return tokens, draft * np.arange(len(tokens)), instance("server", server, SharedServer)
