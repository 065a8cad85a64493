"""Users who wait for one server: simulated mean waits, and bounds that hold whatever the times are.

A user is away for Z seconds, then its round waits in the order of arrival. A free server starts a pass with at most B
rounds, once ``company`` rounds are there or the first has waited for ``patience_s``.
"""

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hlmtheory._array import Array
from hlmtheory._domains import (
    COUNT,
    UNIT_INTERVAL,
    Domain,
    DomainError,
    finite_answer,
    generator,
    instance,
    number,
    numbers,
)
from hlmtheory._quantities import not_negative, whole_from_one, whole_in
from hlmtheory.policy.capacity import SharedServer
from hlmtheory.policy.costs import Integers, Numbers

_TIME = not_negative("give a time in seconds")
_SHARE = Domain("in [0, 1)", lambda xp, value: (value >= 0) & (value < 1), "leave out users who send no rounds")
_MOST = 10**7
_ROUNDS = whole_in(1, _MOST, "simulate fewer rounds of each user")
_COMPANY = whole_from_one("give how many rounds a pass waits for; 1: it starts at once")
_DOWN, _UP = 1.0 - 2.0**-50, 1.0 + 2.0**-50  # outwards: a rate has fewer than eight roundings
_WARM = 4  # a share 1/4 of the rounds is left out at the beginning


@dataclass(frozen=True, slots=True)
class QueueRates:
    """How often each user is served, and how long its rounds wait, simulated."""

    rates: Numbers  # (U,), rounds a second
    waits_s: Numbers  # (U,), mean from the arrival of a round to the start of its pass
    busy: float  # share of the time in which the server runs a pass
    batch: float  # mean rounds of a pass
    least: Numbers  # (U,), no times away with these means and no order of users give fewer in the long run
    most: Numbers  # (U,), nor more; :func:`server_rates` bounds all users together


@finite_answer
def queue_rates(
    away_s: Array,
    draft_lengths: Array,
    server: SharedServer,
    *,
    keep_s: Array = 0.0,
    keep_share: Array = 0.0,
    spread: float = 0.0,
    rounds: int = 400,
    company: int = 1,
    patience_s: float | None = None,
    rng: np.random.Generator,
) -> QueueRates:
    """Return how often one server verifies the rounds of each user, simulated, with bounds for any times away.

    Parameters
    ----------
    away_s : array, shape (U,)
        Time of a round without its pass and its wait, in seconds.
    draft_lengths : int array, shape (U,)
        K of the rounds.
    server : SharedServer
    keep_s, keep_share : array, shape (U,) or broadcastable
        Drafts kept before a round is sent: each takes ``keep_s``, and another follows with probability ``keep_share``.
    spread : float
        In [0, 1]. Times away are uniform in their mean times 1 ± ``spread``; equal times may keep users in step.
    rounds : int
        Rounds of each user that are simulated, in the mean; the first quarter is left out.
    company : int
        A pass starts when this many rounds wait, 1 to the smaller of the batch and U.
    patience_s : float, optional
        It also starts when a round has waited this long for the others. None: no limit.
    rng : numpy Generator

    Returns
    -------
    QueueRates
        Rates and their bounds in rounds a second and waits in seconds, shape (U,); the share of busy time.

    Raises
    ------
    ValueError
        If a value is out of range, or the shapes do not match.

    Examples
    --------
    >>> found = queue_rates([0.5, 0.5], [2, 2], SharedServer(0.25), rng=np.random.default_rng(1))
    >>> found.rates.round(3).tolist(), round(found.busy, 3), found.least.round(3).tolist()
    ([1.333, 1.333], 0.667, [1.0, 1.0])
    """
    server, rng = instance("server", server, SharedServer), generator("rng", rng)
    away = numbers(_TIME, "away_s", away_s)
    if away.ndim != 1 or not len(away):
        raise DomainError(f"away_s must have shape (U,), one for each user; got {away.shape}; give one or more")
    lengths = _each("draft_lengths", COUNT, draft_lengths, len(away)).astype(np.int64)
    kept = _each("keep_share", _SHARE, keep_share, len(away))
    kept_s = _each("keep_s", _TIME, keep_s, len(away))
    count = number(_ROUNDS, "rounds", rounds)
    if count * len(away) > _MOST:
        raise DomainError(f"rounds must be at most {_MOST:,} over all users; got {count} each; simulate fewer")
    least, patience = _waiting(company, patience_s, min(server.batch, len(away)))
    wide = number(UNIT_INTERVAL, "spread", spread)
    factor = 1.0 + wide * (2.0 * rng.random((len(away), count)) - 1.0)
    drawn = away[:, None] * factor + kept_s[:, None] * (rng.geometric(1.0 - kept[:, None], (len(away), count)) - 1)
    mean = away + kept_s * kept / (1.0 - kept)
    found: list[Pass] = []
    total = 0
    begin = rng.random(len(away)) * (mean + server.alone_s(0))
    for one in passes(drawn, lengths, server, begin, company=least, patience_s=patience):
        if total >= count * len(away) // _WARM:
            found.append(one)
        total += len(one.users)
        if total >= count * len(away):
            break
    alone = np.asarray([server.alone_s(int(k)) for k in lengths])
    return QueueRates(
        *_means(found, len(away)),
        least=_DOWN / (mean + longest_response(lengths, server, patience if least > 1 else 0.0)),
        most=_UP / (mean + alone),
    )


class Pass(NamedTuple):
    """A pass: its start and end, the users whose rounds it verifies, and when these arrived."""

    start: float
    end: float
    users: list[int]
    arrived: list[float]


def passes(
    away: Numbers,
    lengths: Integers,
    server: SharedServer,
    begin: Array = 0.0,
    *,
    company: int = 1,
    patience_s: float = math.inf,
) -> Iterator[Pass]:
    """Yield the passes of the server, without end; the times away of each user, (U, n), are repeated.

    A pass waits for ``company`` rounds, at most the users and the batch, but not after a round waited ``patience_s``.
    """
    many = away.shape[1]
    count = [0] * len(away)
    table, tokens = away.tolist(), (lengths + 1).tolist()
    starts = np.broadcast_to(np.asarray(begin, dtype=np.float64), (len(away),)).tolist()
    waiting = [(starts[user] + table[user][0], user) for user in range(len(away))]
    heapq.heapify(waiting)
    free = 0.0
    while True:
        ahead = [heapq.heappop(waiting) for _ in range(company)]
        start = max(free, min(ahead[-1][0], ahead[0][0] + patience_s))
        while ahead[-1][0] > start:  # patience ended before these came
            heapq.heappush(waiting, ahead.pop())
        while len(ahead) < server.batch and waiting and waiting[0][0] <= start:
            ahead.append(heapq.heappop(waiting))
        at, users = [one[0] for one in ahead], [one[1] for one in ahead]
        free = start + server.pass_s + server.token_s * sum(tokens[user] for user in users)
        yield Pass(start, free, users, at)
        for user in users:
            count[user] += 1
            heapq.heappush(waiting, (free + table[user][count[user] % many], user))


def longest_response(lengths: Integers, server: SharedServer, patience_s: float = 0.0) -> float:
    """Bound on the time from a round's arrival to the end of its pass, rounded up (``policy.server_response``)."""
    tokens = np.sort(lengths + 1)[::-1]
    again = int(tokens[: server.batch - 1].sum()) if len(tokens) > 1 else 0
    runs = 2 + (len(tokens) - 2) // server.batch
    queued = runs * server.pass_s + (int(tokens.sum()) + again) * server.token_s
    alone = patience_s + server.pass_s + int(tokens[: server.batch].sum()) * server.token_s
    return max(queued, alone) * (1.0 + 1e-12)


def _means(passes: list[Pass], users: int) -> tuple[Numbers, Numbers, float, float]:
    """Rounds a second between a user's first and last pass, mean waits, the busy share, and rounds of a pass."""
    first, last, wait = np.full(users, math.nan), np.full(users, math.nan), np.zeros(users)
    for one in passes:
        first[one.users] = np.where(np.isnan(first[one.users]), one.end, first[one.users])
        last[one.users] = one.end
        wait[one.users] += one.start - np.asarray(one.arrived)
    rounds = np.bincount([user for one in passes for user in one.users], minlength=users).astype(np.float64)
    span, between = passes[-1].end - passes[0].start, last - first
    long = between > 0.5 * span
    rates = np.where(long, (rounds - 1) / np.where(long, between, 1.0), rounds / span)
    busy = min(sum(one.end - one.start for one in passes) / span, 1.0)
    return rates, wait / np.maximum(rounds, 1.0), busy, float(rounds.sum()) / len(passes)


def _waiting(company: int, patience_s: float | None, most: int) -> tuple[int, float]:
    least = int(number(_COMPANY, "company", company))
    if least > most:
        raise DomainError(
            f"company must be at most {most}, the smaller of the users and the batch; got {least}; wait for fewer"
        )
    return least, math.inf if patience_s is None else float(number(_TIME, "patience_s", patience_s))


def _each(name: str, domain: Domain, value: Array, users: int) -> Numbers:
    found = numbers(domain, name, value)
    if found.shape not in ((), (1,), (users,)):
        raise DomainError(f"{name} must have shape ({users},), one for each user; got {found.shape}; give as many")
    return np.broadcast_to(found, (users,)).astype(np.float64)
