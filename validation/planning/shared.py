"""N users of one band and one server under any policy: the same number of users, batches and waiting for all rows.

A pass of the server has the rounds of at most B users that wait, and may wait for some of them. The rates are simulated
with the mean rounds of the option. Users have equal shares of the band, or those of our plan if they give more.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hlmtheory.policy import SharedServer, queue_rates
from hlmtheory.policy.queueing import QueueRates
from validation.arrays import Array
from validation.decoding.intervals import ratio
from validation.decoding.methods.rows import UNRUN
from validation.decoding.seconds import Times, seconds
from validation.estimates import Estimate, three_digits
from validation.planning.option import Option, error_of
from validation.planning.plan import Pool
from validation.planning.rounds import COUNTS, named
from validation.planning.setting import Setting
from validation.planning.split import Split
from validation.printable import counted

_LEAST = 1e-9  # seconds of a pass
MOST_ROUNDS, EACH = 40_000, (60, 400)
"""Rounds that are simulated for a prediction: of all users, and of each one."""
SCREENED = 8_000  # The same for each rule that is tried, at most EACH[0] of each user
SPREAD = 0.02  # Of the times away from the server: without any, users who meet in a pass would meet for ever
WAIT_WORTH = 1.01  # A server waits for company only if this makes the users faster by more than the simulation's noise
LONGER = 1.1
"""Times away that are longer by this factor tell how much a speed depends on them, and the rest on the server."""


@dataclass(frozen=True, slots=True)
class User:
    """A user: its rate on the whole band, its round trip, its device's pass time, and its weight."""

    name: str
    rate_bps: float
    round_trip_s: float
    draft_s: float
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Served:
    """Users of one server, simulated."""

    rates: Array  # (users,): tokens a second
    sends: Array  # (users,): whether the user needs the server
    queue: QueueRates | None = None  # Waits of the users who send
    company: int = 1  # How many rounds a pass waits for
    patience_s: float = 0.0  # The longest that it waits for them: the longest mean round, if passes start at once
    at_once: float = 0.0  # Tokens a second of all users together if each pass starts at once


def turns(total: Array) -> Array:
    """Return how often texts of these counts use the server: its target passes, or else its draft passes."""
    passes, drafts, tokens = (total[..., COUNTS.index(name)] for name in ("passes", "server_drafts", "tokens"))
    return np.asarray(np.where(passes > 1e-9 * tokens, passes, drafts))


def estimated(setting: Setting, total: Array, many: int) -> Array:
    """Return about the tokens a second of N equal users together, for total counts of options.

    If passes have m rounds, a user's cycle takes max(N/m S_m, Z + S_m) seconds, with S_m such a pass and Z the time
    away from the server. The best m counts.
    """
    each = turns(total)
    some = each > 0
    each = np.where(some, each, 1.0)
    away = (setting.seconds(total, setting.link.quantile(0.5)) - setting.server_seconds(total)) / each
    best = np.zeros(len(total))
    for batch in companies(min(setting.server_batch, many)):
        pass_s = batch * setting.server_seconds(total, batch) / each
        cycle = np.maximum(many / batch * pass_s, away + pass_s)
        best = np.maximum(best, many * total[:, 0] / each / np.maximum(cycle, _LEAST))
    return np.asarray(np.where(some, best, many * np.mean(setting.speeds(total), axis=-1)))


def ahead_from(pool: Pool, texts: Array, shared: "Shared | None" = None) -> int | None:
    """Return from about how many users on devices stay faster together than any server, by more than plans erred.

    Each user has the pool's link, or all equal ones share it as those of ``shared`` do. Numbers up to 2^19 are tried
    without waits; from the first on that stays ahead, up to twice as many, the devices are simulated on ``texts``. None
    if devices are faster at all of them, or not at the last, or if users or limits differ by share.
    """

    def setting(many: int) -> Setting:
        return pool.setting if shared is None else replace(pool.setting, link=pool.setting.link.part(many))

    def ahead(many: int) -> bool:
        _, device, server = _best_sides(pool, setting(many), many)
        return device > server

    def simulated_ahead(many: int) -> bool:
        place, _, server = _best_sides(pool, at := setting(many), many)
        users = [User("", at.link.quantile(0.5), at.link.round_trip_s, at.draft_s)] * many
        option = pool.options[place]
        return Shared(users, at, False, [np.ones(many)]).value(option, texts) / (1.0 + error_of(option.family)) > server

    unlike = shared and (pool.setting.energy_j or len({replace(user, name="") for user in shared.users}) > 1)
    numbers = companies(1 << 19)
    behind = [] if unlike else [place for place, many in enumerate(numbers) if not ahead(many)]
    if not behind or behind[-1] == len(numbers) - 1:  # on a share that is too small devices lose again
        return None
    last, next_one = numbers[behind[-1] : behind[-1] + 2]
    first = bisect_left(range(next_one), True, lo=last + 1, key=ahead)
    tried = range(first, 2 * first + 2, max(first // 20, 1))
    place = bisect_left(tried, True, key=simulated_ahead)
    return tried[place] if place < len(tried) else None


def ahead_until(pool: Pool, shared: "Shared") -> float | None:
    """Return about the seconds of each token of a pass up to which devices are the answer of these users.

    Draft lengths follow the time. Nothing waits for a server that is free. None if devices are not ahead at 0, or still
    are where a token takes as long as a pass.
    """

    def behind(token_s: float) -> bool:
        _, device, server = _best_sides(pool, replace(shared.setting, verify_token_s=token_s), len(shared.users))
        return device <= server

    steps = range(1 << 12)  # of a pass's time
    step = bisect_left(steps, True, key=lambda n: behind(shared.setting.verify_s * n / len(steps)))
    return shared.setting.verify_s * step / len(steps) if 0 < step < len(steps) else None


def _best_sides(pool: Pool, setting: Setting, many: int) -> tuple[int, float, float]:
    """Return the place of the best device that runs, and about its sure tokens a second and those of any server."""
    runs = np.concatenate([places for family, places in pool.places.items() if family not in UNRUN])
    kept = runs[pool.kept[runs]]
    error = np.array([error_of(pool.options[place].family) for place in kept])
    speeds = estimated(setting, pool.test[kept], many) / (1.0 + error)
    device = np.where(error > 0, speeds, -1.0)
    server = speeds[error == 0].max(initial=0.0)
    return int(kept[device.argmax()]), float(device.max()), float(server)


@dataclass(slots=True)
class Shared:
    """The users, and the setting of one of them at an equal share of the band."""

    users: list[User]
    setting: Setting
    fair: bool  # Maximise the geometric mean of the speeds, weighted; else their weighted sum
    shares: list[Array]  # Shares of the band that are tried for every policy
    estimated: dict[Option, Estimate] = field(default_factory=dict)
    seconds: dict[Option, Array] = field(default_factory=dict)  # of each prompt, by which estimates are their tokens

    @property
    def name(self) -> str:
        return counted(len(self.users), "user")

    def estimates(self, pool: Pool) -> Array:
        """Return about the tokens a second of all users together, for every option of a pool."""
        return estimated(self.setting, pool.train, len(self.users))

    def best_served(self, option: Option, texts: Array, longer: float = 1.0) -> Served:
        """Return the users under an option, with the best of the shares; their times away are ``longer`` times."""
        options = option.by_user or (option,) * len(self.users)
        tried = (self.served(options, shares, texts, longer) for shares in self.shares)
        return max(tried, key=lambda served: self.made_of(served.rates))

    def value(self, option: Option, texts: Array, longer: float = 1.0) -> float:
        """Return what all users make of the objective under an option: their tokens a second on some texts."""
        return self.made_of(self.best_served(option, texts, longer).rates)

    def estimate(self, option: Option, split: Split) -> Estimate:
        """Return the value on the test prompts, and its interval if it is linear in each prompt's seconds.

        If all times double, the value halves. So its elasticities in the times away and in those on the server, at most
        0, add up to −1, and weigh a prompt's share of each.
        """
        if option not in self.estimated:
            counts, batch = split.sums(option.counts, split.test), min(self.setting.server_batch, len(self.users))
            at_server, server = self.setting.server_seconds(counts), self.setting.server_seconds(counts, batch)
            away = self.setting.seconds(counts, self.setting.link.quantile(0.5)) - at_server
            value, slower = (self.value(option, split.test, longer) for longer in (1.0, LONGER))
            weight = float(np.clip(math.log(value / slower) / math.log(LONGER), 0.0, 1.0)) if server.any() else 1.0
            parts = zip((weight, 1.0 - weight), (away, server), strict=True)
            shares = sum(part * each / max(each.sum(), _LEAST) for part, each in parts)
            self.seconds[option] = shares * counts[:, 0].sum() / value
            self.estimated[option] = ratio(counts[:, 0], self.seconds[option])
        return self.estimated[option]

    def times(self, option: Option, other: Option) -> Estimate:
        """Return the value of an option over that of another by the same prompts; both have been estimated."""
        return ratio(self.seconds[other], self.seconds[option])

    def said(self, option: Option, texts: Array) -> tuple[list[str], list[str]]:
        """Say what each user gets of the texts under an option, and how busy the server is if it is needed."""
        served = self.best_served(option, texts)
        ends = dict.fromkeys(map(three_digits, (served.rates.min(), served.rates.max())))
        each, queue = f"{' to '.join(ends)} each", served.queue
        if queue is None:
            return [each], []
        most, wait = counted(self.setting.server_batch, "text"), 1e3 * queue.waits_s.mean()
        server = (
            f"With the answer the server is busy {queue.busy:.0%} of the time; a pass has {queue.batch:.3g} of at most "
            f"{most}, and a text waits {wait:.0f} ms for it."
        )
        return [f"{each}, simulated with rounds of mean length"], [server]

    def plain(self, option: Option, texts: Array) -> dict[str, Any]:
        """Return what each user gets of the texts under an option."""
        rates = self.best_served(option, texts).rates.tolist()
        each = [{"name": user.name, "tokens_per_s": rate} for user, rate in zip(self.users, rates, strict=True)]
        return {"users": each, "total_tokens_per_s": sum(rates), "least_tokens_per_s": min(rates)}

    def made_of(self, rates: Array) -> float:
        weights = np.array([user.weight for user in self.users])
        if self.fair:
            return float(np.exp(weights @ np.log(np.maximum(rates, 1e-300)) / weights.sum()))
        return float(weights @ rates)

    def served(self, options: Sequence[Option], shares: Array, texts: Array, longer: float = 1.0) -> Served:
        """Return the simulated speeds of the users, with an option and a share of the band each.

        Their times away are ``longer`` times those of the option.
        """
        setting, batch = self.setting, min(self.setting.server_batch, len(self.users))
        known = {option: option.counts[texts].sum(axis=0) for option in options}
        totals = np.stack([known[option] for option in options])
        c = named(totals)
        each = turns(totals)
        sends = each > 0
        each = np.where(sends, each, 1.0)
        draft, trip, rate, weights = (
            np.array([getattr(user, name) for user in self.users])
            for name in ("draft_s", "round_trip_s", "rate_bps", "weight")
        )
        rates = c["tokens"] / np.maximum(c["drafts"] * draft, 1e-300)
        if not sends.any():
            return Served(rates, sends)
        kept = np.where(c["drafts"] > 0, c["skipped"], 0.0)
        times = Times(draft, round_trip_s=trip, up_bps=rate * shares, down_bps=setting.link.down_bps)
        away = longer * seconds({**c, "drafts": c["drafts"] - kept}, times) / each
        alone, full = (n * setting.server_seconds(totals, n) / each for n in (1, batch))
        added = np.maximum(full - alone, 0.0) / max(batch - 1, 1)  # by each further round; rounding may fall below 0
        held = (alone - added)[sends]
        server = SharedServer(max(float(held.mean()), _LEAST), float(np.mean(added[sends])), batch)
        keeps = {"keep_s": longer * draft[sends], "keep_share": (kept / (kept + each))[sends]}
        tokens = (c["tokens"] / each)[sends]
        at_once, best, company, patience = self._queued(server, away[sends], tokens, weights[sends], keeps)
        once = float(rates[~sends].sum() + at_once.rates @ tokens)
        rates[sends] = best.rates * tokens
        return Served(rates, sends, best, company, patience, once)

    def _queued(
        self, server: SharedServer, away_s: Array, tokens: Array, weights: Array, keeps: dict[str, Array]
    ) -> tuple[QueueRates, QueueRates, int, float]:
        """Return the queue if passes start at once, the best one, for how many rounds its passes wait, and how long."""
        count = len(away_s)

        def queue(rounds: int, **waits: Any) -> QueueRates:
            more, lengths = {**keeps, "spread": SPREAD, **waits}, np.zeros(count, dtype=np.int64)
            drawn = queue_rates(away_s, lengths, server, rounds=rounds, rng=np.random.default_rng(1), **more)
            return replace(drawn, rates=np.minimum(drawn.rates, drawn.most))  # few rounds with long skips are noisy

        def score(simulated: QueueRates) -> float:
            speeds = np.maximum(simulated.rates * tokens, 1e-300)
            return float(weights @ np.log(speeds) / weights.sum() if self.fair else np.log(weights @ speeds))

        most, screened = int(np.clip(MOST_ROUNDS // count, *EACH)), max(min(SCREENED // count, EACH[0]), 1)
        at_once = best = queue(most)
        patience = float(1.0 / at_once.rates.min())
        tried = companies(min(server.batch, count))
        company = max(tried, key=lambda n: score(queue(screened, company=n, patience_s=patience))) if tried[1:] else 1
        if company > 1:
            best = queue(most, company=company, patience_s=patience)
            if score(best) - score(at_once) <= math.log(WAIT_WORTH):
                best, company = at_once, 1
        return at_once, best, company, patience


def companies(most: int) -> list[int]:
    """Return the numbers of rounds that are tried: all up to 8, then each a quarter larger than the one before."""
    numbers = list(range(1, min(most, 8) + 1))
    while numbers[-1] < most:
        numbers.append(min(math.ceil(numbers[-1] * 1.25), most))
    return numbers
