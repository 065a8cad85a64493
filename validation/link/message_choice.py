"""Which lossless message the next round sends, and how many drafts, from the rounds and the link so far.

The tokens of a round of k drafts have intervals at all times together (``draft_length.adaptive_depths``), its seconds
are f + k t_d + 8 (h + k b)/C: C is the rate by pings, f the median of what else it waits. What the intervals rule out
is not taken; of the rest, the fastest at its estimate, moved a tenth to its upper end (figures/studies/adapting).
"""

import statistics
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hlmtheory.draft_length import tokens_by_length
from hlmtheory.wire import DevicePolicy, SeededTokens
from validation.arrays import Array
from validation.decoding.methods.shared_seed import SharedSeed
from validation.decoding.methods.switched import Chosen, Switched, lossless_part
from validation.decoding.records import Round
from validation.decoding.seconds import Times, seconds
from validation.errors import UserError
from validation.link.device_records import Exchange
from validation.link.recording import HEADERS, LARGE, SMALL
from validation.link.remote import Remote

KEPT = 64
"""Rounds whose times count."""
CONFIDENCE, MORE = 0.95, 1.25
"""Of all intervals together, and how many more rounds before they are computed again: they take milliseconds."""
JUMP, RECENT = 0.25, 8
"""How far off the waits of the last rounds are when the link is measured again, and how many rounds these are."""
TRIED, TOWARDS_UPPER = 16, 0.1
"""Rounds that each message has first, and how far an estimate is moved to its upper end."""
STEADY, JUMPED = 0.02, 0.2
"""Share of the time that measurements of the link may take: usually, and where the waits are off."""


class _Message:
    def __init__(self, lengths: tuple[int, ...], confidence: float) -> None:
        most = max(lengths)
        self.lengths, self.confidence, self.rounds = lengths, confidence, 0
        self.counts = np.zeros((most + 1, most + 1), dtype=np.int64)
        self.sizes = deque[tuple[int, int]](maxlen=KEPT)  # drafts and bytes of a round
        self._next, self._ends = 1, (np.zeros(most), np.zeros(most), np.zeros(most))

    def add(self, drafted: int, accepted: int, frames: int) -> None:
        self.counts[drafted, accepted] += 1
        self.sizes.append((drafted, frames))
        self.rounds += 1

    def tokens(self) -> tuple[Array, Array, Array]:
        """Return lower end, estimate and upper end of a round's tokens for lengths 1, 2, ...: computed now and then."""
        if self.rounds >= self._next:
            self._next = max(self.rounds + 2, int(MORE * self.rounds))
            self._ends = round_tokens(self.counts, self.confidence)
        return self._ends

    def bytes_of(self, lengths: Array) -> Array:
        """Return the bytes of a round's frames, a line in its drafts."""
        drafted, frames = np.array(self.sizes, dtype=np.float64).T
        spread = drafted - drafted.mean()
        slope = float(spread @ frames / (spread @ spread)) if spread.any() else float((frames / (drafted + 1)).mean())
        return np.asarray(np.maximum(frames.mean() + slope * (lengths - drafted.mean()), 1.0))


class MessageChoice:
    """The message and the draft length of the next round, for the lengths that each message may have."""

    def __init__(self, lengths: dict[str, tuple[int, ...]]) -> None:
        each = 1.0 - (1.0 - CONFIDENCE) / len(lengths)
        self.messages = {name: _Message(own, each) for name, own in lengths.items()}
        self.draft_s, self.fixed_s = deque[float](maxlen=KEPT), deque[float](maxlen=KEPT)
        self.rate_bps = np.inf
        self._off = deque[float](maxlen=RECENT)  # waits of the last rounds, over what was expected
        self._since, self._probe_s = 0.0, 0.0  # seconds since the link was measured, and that this took

    def wants_link(self) -> bool:
        return self._since * (JUMPED if self._jumped() else STEADY) >= self._probe_s

    def link(self, rate_bps: float, seconds: float) -> None:
        """Take the rate that was measured now, in so many seconds."""
        same, jumped = rate_bps == self.rate_bps or _near(rate_bps / self.rate_bps), self._jumped()
        if same and jumped:  # so it is the other seconds that changed
            self.fixed_s = deque(list(self.fixed_s)[-RECENT:], KEPT)
        if jumped or not same:
            self._off.clear()
        self.rate_bps, self._since, self._probe_s = rate_bps, 0.0, seconds

    def learn(self, message: str, drafted: int, accepted: int, draft_s: float, wait_s: float, frames: int) -> None:
        """Add a round: its drafts, the seconds of them and of the wait, and the bytes of its frames both ways."""
        self.messages[message].add(drafted, accepted, frames)
        self._since += draft_s + wait_s
        if drafted:
            self.draft_s.append(draft_s / drafted)
        bytes_s = 8.0 * frames / self.rate_bps
        if self.fixed_s:
            self._off.append(wait_s / (statistics.median(self.fixed_s) + bytes_s))
        self.fixed_s.append(max(wait_s - bytes_s, 0.0))

    def choose(self) -> Chosen:
        for name, message in self.messages.items():
            if message.rounds < TRIED:
                return Chosen(name, sorted(message.lengths)[len(message.lengths) // 2])
        speeds = [(name, *self._speeds(message)) for name, message in self.messages.items()]
        least = max(float(low.max()) for _, _, low, _, _ in speeds)
        wanted = [
            (float(value), name, int(length))
            for name, lengths, _, estimate, high in speeds
            for length, value, most in zip(lengths, estimate + TOWARDS_UPPER * (high - estimate), high, strict=True)
            if most >= least
        ]
        _, name, length = max(wanted)
        return Chosen(name, length)

    def _jumped(self) -> bool:
        return len(self._off) > RECENT // 2 and not _near(statistics.median(self._off))

    def _speeds(self, one: _Message) -> tuple[Array, Array, Array, Array]:
        """Return the lengths of a message, and lower end, estimate and upper end of its tokens a second."""
        lengths = np.array(one.lengths)
        drafting = statistics.median(self.draft_s) if self.draft_s else 0.0
        counts = {"drafts": lengths, "exchanges": 1, "up_bits": 8.0 * one.bytes_of(lengths)}
        spent = seconds(counts, Times(drafting, round_trip_s=statistics.median(self.fixed_s), up_bps=self.rate_bps))
        low, estimate, high = (np.asarray(ends)[lengths - 1] / spent for ends in one.tokens())
        return lengths, low, estimate, high


def _near(ratio: float) -> bool:
    return 1.0 / (1.0 + JUMP) <= ratio <= 1.0 + JUMP


PING, TRAIN, HEADER = LARGE, 8, HEADERS[0]
"""Bytes of a ping in a train, pings of a train, and what a WebSocket adds to each."""
OWN, SEEDED = "policy", "shared seed"


class Following:
    """A device that chooses between a lossless policy's message and a shared seed, with 1 to ``most`` drafts."""

    def __init__(self, policy: DevicePolicy, most: int) -> None:
        if policy.message_sizes:
            raise UserError("The messages of this policy are padded, and others would not be; leave --adapt out.")
        own = lossless_part(policy, most)
        self.temperature, self.alone = policy.temperature, policy.alone
        self.policies = {} if isinstance(own.messages, SeededTokens) else {OWN: own}
        self.policies[SEEDED] = replace(own, messages=SeededTokens())
        self.choice = MessageChoice(dict.fromkeys(self.policies, tuple(range(1, most + 1))))
        self.remote: Remote | None = None

    def method(self) -> "FollowingText":
        return FollowingText(self)

    def next(self) -> Chosen:
        """Return the message and length of the next round; with a server, now and then after a look at its link."""
        if self.remote is not None and self.choice.wants_link():
            began = time.perf_counter()
            self.choice.link(rate_of(self.remote), time.perf_counter() - began)
        return self.choice.choose()


class FollowingText(Switched):
    """One text, whose rounds follow from those before them, and are learnt."""

    def __init__(self, following: Following) -> None:
        super().__init__(following.policies, following.next)
        self.choice = following.choice

    def exchange(self, one: Round, spent: Exchange) -> None:
        """Learn from a round; the times of one that opened its text are those of the opening too, and do not count."""
        if not spent.opened:
            numbers = (one.drafted, one.accepted, spent.draft_s, spent.wait_s, spent.up_bytes + spent.down_bytes)
            self.choice.learn(self.choices[-1].message, *numbers)


class AdaptiveSeed(SharedSeed):
    """A shared seed in rounds whose length follows from those before, of all texts that share a choice."""

    def __init__(self, choice: MessageChoice) -> None:
        most = max(choice.messages[SEEDED].lengths)
        super().__init__(most)
        self.choice, self.name = choice, f"shared seed (K ≤ {most}, adapts)"

    def lengths(self, sequences: Array, rates: Sequence[float | None]) -> Array:
        return np.full(len(sequences), self.choice.choose().length)

    def exchange(self, one: Round, spent: Exchange) -> None:
        """Learn from a round, as :meth:`FollowingText.exchange`; token ids are few bytes."""
        if not spent.opened:
            self.choice.learn(SEEDED, one.drafted, one.accepted, spent.draft_s, spent.wait_s, 0)


def round_tokens(counts: Array, confidence: float) -> tuple[Array, Array, Array]:
    """Return lower end, estimate and upper end of a round's tokens for lengths 1, 2, ... from n[k][i], at all times."""
    by_length = tokens_by_length(counts, error=1.0 - confidence, method="anytime")
    tokens = np.concatenate([[1.0], np.asarray(by_length.tokens)])
    for length in np.flatnonzero(np.isnan(tokens)):  # a depth that no round examined counts as always accepted
        tokens[length] = tokens[length - 1] + (tokens[length - 1] - tokens[length - 2] if length > 1 else 1.0)
    return np.asarray(by_length.low), tokens[1:], np.asarray(by_length.high)


def rate_of(remote: Remote) -> float:
    """Return the rate of the slower direction in bit/s, from pings alone and a train of them; inf if it is not told."""
    single = min(remote.probe(1, SMALL) for _ in range(2))
    train = remote.probe(TRAIN, PING)
    return 8.0 * (TRAIN * (PING + HEADER) - SMALL - HEADER) / (train - single) if train > single else np.inf
