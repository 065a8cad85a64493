"""N users of one band and one server under any policy: the same number of users, batches and waiting for all rows.

Every user has the same option. A pass of the server has the rounds of at most B users that wait, and may wait for some
of them (:mod:`validation.planning.waits`). A server that drafts for itself drafts for all texts of a pass at once, so a
batch shares its draft passes too. The rates are simulated with the mean rounds of the option. Users have equal shares
of the band, or those of our plan if they give more. Ours may also have an option for each user.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory.policy import SharedServer
from validation.planning.menu import Option
from validation.planning.plan import Pool
from validation.planning.rounds import COUNTS
from validation.planning.setting import Setting
from validation.planning.waits import Flow, served

Array = NDArray[Any]
_LEAST = 1e-9  # seconds of a pass


@dataclass(frozen=True, slots=True)
class User:
    """A user: its rate on the whole band, its round trip, its device's pass time, and its weight."""

    name: str
    rate_bps: float
    round_trip_s: float
    draft_s: float
    weight: float = 1.0


def turns(total: Array) -> Array:
    """Return how often texts of these counts use the server: its target passes, or else its draft passes."""
    passes, own, tokens = (total[..., COUNTS.index(name)] for name in ("passes", "server_drafts", "tokens"))
    return np.asarray(np.where(passes > 1e-9 * tokens, passes, own))


@dataclass(slots=True)
class Shared:
    """The users, and the setting of one of them at an equal share of the band.

    Attributes
    ----------
    fair : bool
        Maximise the geometric mean of the speeds, weighted; else their weighted sum.
    shares : list of array
        Shares of the band that are tried for every policy.
    own : dict
        By the id of an option: the option of each user that it stands for.
    """

    users: list[User]
    setting: Setting
    fair: bool
    shares: list[Array]
    own: dict[int, list[Option]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return the name of the aim."""
        return f"{len(self.users)} users"

    def estimates(self, pool: Pool) -> Array:
        """Return about the tokens a second of all users together, for every option of a pool.

        Groups of m users take turns at the server, and each group is away while the others are served: a cycle takes
        max(⌈N/m⌉ S_m, Z + S_m) seconds, with S_m a pass of m rounds and Z the time away. The best m counts.
        """
        setting, total, many = self.setting, pool.train, len(self.users)
        each = turns(total)
        some = each > 0
        each = np.where(some, each, 1.0)
        away = (setting.seconds(total, setting.link.quantile(0.5)) - setting.server_seconds(total)) / each
        best = np.zeros(len(total))
        most = min(setting.server_batch, many)
        for batch in {most, *(1 << n for n in range(most.bit_length()))}:
            seconds = batch * setting.server_seconds(total, batch) / each
            cycle = np.maximum(-(-many // batch) * seconds, away + seconds)
            best = np.maximum(best, many * total[:, 0] / each / np.maximum(cycle, _LEAST))
        return np.asarray(np.where(some, best, many * np.mean(setting.speeds(total), axis=-1)))

    def value(self, option: Option, texts: Array) -> float:
        """Return what all users make of the objective under an option: their tokens a second on some texts."""
        options = self.own.get(id(option), [option] * len(self.users))
        return max(self._made_of(self.rates(options, shares, texts)) for shares in self.shares)

    def _made_of(self, rates: Array) -> float:
        weights = np.array([user.weight for user in self.users])
        if self.fair:
            return float(np.exp(weights @ np.log(np.maximum(rates, 1e-300)) / weights.sum()))
        return float(weights @ rates)

    def rates(self, options: Sequence[Option], shares: Array, texts: Array) -> Array:
        """Return the simulated tokens a second of each user, with an option each."""
        setting, batch = self.setting, min(self.setting.server_batch, len(self.users))
        known = {id(one): one.counts[texts].sum(axis=0) for one in options}
        totals = np.stack([known[id(one)] for one in options])
        c = {name: totals[:, column] for column, name in enumerate(COUNTS)}
        each = turns(totals)
        sends = each > 0
        each = np.where(sends, each, 1.0)
        draft, trip, rate = (
            np.array([getattr(user, name) for user in self.users]) for name in ("draft_s", "round_trip_s", "rate_bps")
        )
        rates = c["tokens"] / np.maximum(c["drafts"] * draft, 1e-300)
        if not sends.any():
            return np.asarray(rates)
        kept = np.where(c["drafts"] > 0, c["skipped"], 0.0)
        away = (
            (c["drafts"] - kept) * draft
            + c["exchanges"] * trip
            + c["up_bits"] / (rate * shares)
            + c["down_bits"] / setting.link.down_bps
        ) / each
        alone, full = (setting.pass_seconds(totals, n) for n in (1, batch))
        added = (full - alone) / (batch - 1) if batch > 1 else np.zeros(len(full))  # by each further round
        own = c["server_drafts"] * setting.own_draft_s + (c["passes"] - c["exchanges"]) * setting.between_s
        held = (alone - added + own / each)[sends]
        part = Flow(
            sends,
            away[sends],
            np.zeros(int(sends.sum()), dtype=np.int64),
            draft[sends],
            (kept / (kept + each))[sends],
            (c["tokens"] / each)[sends],
        )
        weights = np.array([user.weight for user in self.users])[sends]
        server = SharedServer(max(float(held.mean()), _LEAST), float(np.mean(added[sends])), batch)

        def score(found: Array) -> float:
            made = np.maximum(found * part.tokens, 1e-300)
            return float(weights @ np.log(made) / weights.sum() if self.fair else np.log(weights @ made))

        queue, *_ = served(part, server, score)
        rates[sends] = queue.rates * part.tokens
        return np.asarray(rates)
