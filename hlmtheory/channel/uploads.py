"""Drafts that are sent while the next ones are made: which drafts share a message (han2026pipesd).

A device makes a draft in t_d seconds and sends messages one after another. A message of b drafts takes o + b s seconds.
The paper's body was not at hand; two public summaries quote its recursion and its Theorem 4.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import device

from hlmtheory._array import Array, arrays, to_numpy
from hlmtheory._domains import Domain, number
from hlmtheory._quantities import not_negative
from hlmtheory.claims import Attained, Claim, Origin, Relation, Source

_COUNT = Domain("a whole number, 1 to 4,096", lambda xp, v: (v >= 1) & (v <= 4096), "drafts of a round", kind="integer")
_TIME = not_negative("give seconds")
_BINARY = Domain("0 or 1", lambda xp, v: (v == 0) | (v == 1), "mark the drafts that end a message")

# Proofs, by the last part of the id.
#
# upload_optimal. Let T_j be the least time at which the first j drafts have arrived. The last message begins when its
#   drafts are made and the message before it has arrived, and a later arrival before never helps. So T_j is the least
#   of max(T_i, j t_d) + o + (j - i) s over i < j.


@dataclass(frozen=True, slots=True)
class UploadPlan:
    """Drafts of each message, and the seconds until the last one has arrived, from the first draft's start."""

    sizes: tuple[int, ...]
    seconds: float


def upload_batches(draft_length: int, *, draft_s: float, message_s: float, token_s: float) -> UploadPlan:
    """Return the messages with which K drafts arrive first, if each is sent while later drafts are made.

    Parameters
    ----------
    draft_length : int
        K, drafts of the round.
    draft_s : float
        t_d, seconds of a draft.
    message_s, token_s : float
        o and s: a message of b drafts takes o + b s seconds, after the one before it.

    Returns
    -------
    UploadPlan
        Of equal times, the one with fewer messages at the end.

    Raises
    ------
    ValueError
        If K is out of range, or a time is negative or not finite.

    Examples
    --------
    >>> upload_batches(4, draft_s=1.0, message_s=1.5, token_s=0.25)
    UploadPlan(sizes=(2, 2), seconds=6.0)
    """
    count = int(number(_COUNT, "draft_length", draft_length))
    draft = float(number(_TIME, "draft_s", draft_s))
    start, each = float(number(_TIME, "message_s", message_s)), float(number(_TIME, "token_s", token_s))
    arrived, before = [0.0], [0]
    for last in range(1, count + 1):
        times = [max(arrived[i], last * draft) + start + (last - i) * each for i in range(last)]
        before.append(times.index(min(times)))
        arrived.append(min(times))
    sizes: list[int] = []
    while count:
        sizes.insert(0, count - before[count])
        count = before[count]
    return UploadPlan(tuple(sizes), arrived[-1])


def _arrival(sizes: list[int], draft: float, start: float, each: float) -> float:
    """Return when the last message has arrived, message by message: it waits for its drafts and for the link."""
    made = free = 0.0
    for size in sizes:
        made += size * draft
        free = max(free, made) + start + size * each
    return free


def _sizes(ends: Any) -> list[int]:
    """Return the drafts of each message, from a mask of the drafts that end one; the last draft always does."""
    places = [n + 1 for n, end in enumerate(ends[:-1]) if end] + [len(ends)]
    return [b - a for a, b in zip([0, *places], places, strict=False)]


def _side(of: Any) -> Any:
    """Return a side of a claim, computed on the host instance by instance; ``of`` takes the mask and three times."""

    def side(sent: Array, draft_s: Array, overhead_s: Array, token_s: Array) -> Array:
        xp, *given = arrays(sent=sent, draft_s=draft_s, overhead_s=overhead_s, token_s=token_s)
        given[0] = _BINARY.check(xp, "sent", given[0])
        times = [
            _TIME.check(xp, name, value)
            for name, value in zip(("draft_s", "overhead_s", "token_s"), given[1:], strict=True)
        ]
        mask, *plain = (to_numpy(value) for value in (given[0], *times))
        batch = np.broadcast_shapes(mask.shape[:-1], *(value.shape for value in plain))
        wide = np.broadcast_to(mask, (*batch, mask.shape[-1]))
        plain = [np.broadcast_to(value, batch) for value in plain]
        found = [of(wide[n], *(float(value[n]) for value in plain)) for n in np.ndindex(*batch)]
        return xp.asarray(np.asarray(found, dtype=np.float64).reshape(batch), device=device(given[0]))

    return side


def _best(ends: Any, draft: float, start: float, each: float) -> float:
    return upload_batches(len(ends), draft_s=draft, message_s=start, token_s=each).seconds


_chosen = _side(lambda ends, *times: _arrival(_sizes(ends), *times))


_SOURCE = Source("han2026pipesd", "Theorem 4.1, as two public summaries quote it")
_CASE = {"sent": [0.0, 1.0, 0.0, 1.0], "draft_s": 1.0, "overhead_s": 1.5, "token_s": 0.25}

UPLOAD_CLAIMS = (
    Claim(
        id="channel.upload_optimal",
        source=_SOURCE,
        origin=Origin.PUBLISHED,
        statement="T_K of T_j = min_{i<j} max(T_i, j t_d) + o + (j − i) s ≤ the time of K drafts in any messages",
        relation=Relation.LE,
        lhs=_side(_best),
        rhs=_chosen,
        attained=Attained(_CASE),
    ),
)
