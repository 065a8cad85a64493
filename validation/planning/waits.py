"""The server that users share: how fast it verifies their rounds, what a pass waits for, and what binds.

A pass has the rounds that wait when it starts. If it starts at once, it may have few, and the others wait a whole pass.
So a server may be faster if a pass waits for some rounds, though never longer than a user's round takes: then a user
has left. Which number is best depends on the times of the rounds; all are simulated, with the mean rounds of the plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory.policy import BandUser, QueueRates, ServedPlan, SharedServer, queue_rates

Array = NDArray[Any]
MOST_ROUNDS, EACH = 40_000, (60, 400)
"""Rounds that are simulated for a prediction: of all users, and of each one."""
SCREENED = 8_000
"""The same for each rule that is tried, at most ``EACH[0]`` of each user."""
SPREAD = 0.02
"""Of the times away from the server: without any, users who meet in a pass would meet for ever."""
WORTH = 1.01
"""A server waits for company only if this makes the users faster by more than the simulation's noise."""
SENDS = 1.0 - 1e-9
"""A user with a larger share of kept rounds sends none."""


@dataclass(frozen=True, slots=True)
class Band:
    """Users of one band and one server, planned.

    Attributes
    ----------
    plan : ServedPlan
        Plans and shares, and the bound on all others.
    queue : QueueRates or None
        Waits at the server; None if nobody sends a round.
    rates : array, shape (users,)
        Predicted tokens a second.
    value : float
        The objective at these rates.
    company : int
        How many rounds a pass waits for.
    patience_s : float
        The longest that it waits for them: the longest mean round of a user, if passes start at once.
    at_once : float
        The tokens a second of all users together if each pass starts at once.
    """

    plan: ServedPlan
    queue: QueueRates | None
    rates: Array
    value: float
    company: int
    patience_s: float
    at_once: float


@dataclass(frozen=True, slots=True)
class Flow:
    """The users who send rounds: what :func:`queue_rates` takes of them, and the tokens of a round that is sent."""

    sends: Array
    away_s: Array
    lengths: Array
    keep_s: Array
    keep_share: Array
    tokens: Array

    @classmethod
    def of(cls, plan: ServedPlan, members: list[BandUser], server: SharedServer) -> Flow:
        """Return the mean rounds of a plan."""
        kept = np.array([one.skip_share for one in plan.users])
        sends = kept < SENDS
        own = [(one, member) for one, member, some in zip(plan.users, members, sends, strict=True) if some]
        share = kept[sends]
        mean = [one.sent_drafts / (1.0 - one.skip_share) for one, _ in own]
        lengths = np.rint(mean).astype(np.int64)  # of a mixture the nearest length
        drafts = np.array([member.costs.draft_s for _, member in own])
        seconds = np.array([one.fixed_s + one.band_s for one, _ in own]) / (1.0 - share)
        alone = np.array([server.alone_s(int(k)) for k in lengths])
        away = np.maximum(seconds - alone - drafts * share / (1.0 - share), 0.0)
        return cls(sends, away, lengths, drafts, share, np.array([one.tokens for one, _ in own]) / (1.0 - share))

    def queue(self, server: SharedServer, each: int, company: int = 1, patience_s: float | None = None) -> QueueRates:
        """Return the simulated waits if a pass waits for ``each`` rounds, for at most ``patience_s``."""
        return queue_rates(
            self.away_s,
            self.lengths,
            server,
            keep_s=self.keep_s,
            keep_share=self.keep_share,
            spread=SPREAD,
            rounds=each,
            company=company,
            patience_s=patience_s,
            rng=np.random.default_rng(1),
        )


def served(
    flow: Flow, server: SharedServer, score: Callable[[Array], float]
) -> tuple[QueueRates, int, float, QueueRates]:
    """Return the waits, how many rounds a pass waits for, for how long at most, and the waits if it starts at once.

    ``score`` rates the rounds a second of the users; a server waits for company only if this raises it noticeably.
    """
    count = len(flow.lengths)
    most, screened = int(np.clip(MOST_ROUNDS // count, *EACH)), max(min(SCREENED // count, EACH[0]), 1)
    at_once = flow.queue(server, most)
    patience = float(1.0 / at_once.rates.min())
    tried = companies(min(server.batch, count))
    if len(tried) == 1:
        return at_once, 1, patience, at_once
    best = max(tried, key=lambda company: score(flow.queue(server, screened, company, patience).rates))
    if best == 1:
        return at_once, 1, patience, at_once
    queue = flow.queue(server, most, best, patience)
    if score(queue.rates) - score(at_once.rates) > math.log(WORTH):
        return queue, best, patience, at_once
    return at_once, 1, patience, at_once


def predicted(plan: ServedPlan, members: list[BandUser], server: SharedServer, utility: str) -> Band:
    """Return the plan with the waits at the server, and the number of rounds that a pass should wait for."""
    flow = Flow.of(plan, members, server)
    weights = np.array([one.utility_weight for one in members])

    def made(rounds: Array | None) -> Array:
        rates = np.array([one.rate for one in plan.users])
        if rounds is not None:
            rates[flow.sends] = rounds * flow.tokens
        return rates

    def value(rounds: Array | None) -> float:
        rates = made(rounds)
        return float(weights @ (np.log(rates) if utility == "log" else rates))

    if not len(flow.lengths):
        return Band(plan, None, made(None), value(None), 1, 0.0, float(made(None).sum()))
    score = (lambda x: value(x) / weights.sum()) if utility == "log" else (lambda x: math.log(value(x)))
    queue, company, patience, at_once = served(flow, server, score)
    once = float(made(at_once.rates).sum())
    return Band(plan, queue, made(queue.rates), value(queue.rates), company, patience, once)


def companies(most: int) -> list[int]:
    """Return the numbers of rounds that are tried: all up to 8, then each a quarter larger than the one before."""
    found = list(range(1, min(most, 8) + 1))
    while found[-1] < most:
        found.append(min(math.ceil(found[-1] * 1.25), most))
    return found
