"""Rounds of a device that never stops drafting under a shared seed: device, uplink and server on one clock.

The device stops only at the text's end, or to start again behind a mismatch when it learns of it. Each draft is one
message. The server begins a pass as soon as it is free and a draft waits; what arrives as a pass ends is in the next
one. For constant times the speed is :func:`hlmtheory.shared_seed.streamed_rate`, which shares no code with this.
"""

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from validation.decoding.links import Channel
from validation.decoding.records import GenerationRecord, Round

TICKS = 10**12  # ticks of the clock a second. Times are whole numbers, so that events at one time are seen to be.
DRAFTED, SENT, ARRIVED, VERIFIED, ANSWERED = range(5)  # in the order in which events of one time happen


@dataclass(frozen=True, slots=True)
class Sizes:
    """Seconds of a pass of the draft and the target model, and a draft's message and an answer."""

    draft_s: float
    target_s: float
    bits: float = 0.0  # of a draft, by formula
    bytes: int = 0  # of a draft, as sent
    down_bytes: int = 0  # of an answer


def stream(record: GenerationRecord, sequence: int, channel: Channel | None) -> tuple[list[Round], Round]:
    """Return the rounds of a text, and what follows the last one, if the device never stops drafting."""
    last = Round(len(record.tokens), mismatch=record.total("mismatch"))
    if not record.rounds:
        return [], last
    drafted = record.total("drafted")
    sizes = Sizes(
        record.total("draft_s") / record.total("draft_passes"),
        record.total("target_s") / record.total("target_passes"),
        record.total("bits") / drafted,
        int(record.total("bytes") / drafted),
        record.rounds[0].down_bytes,
    )
    return replay(matches_of(record), sizes, sequence, channel), last


def matches_of(record: GenerationRecord) -> list[bool]:
    """Return for each token of a text whether the device's draft was it."""
    matches = [match for entry in record.rounds for match in [True] * entry.accepted + [False] * entry.resampled]
    if len(matches) != len(record.tokens):
        raise ValueError(
            f"{record.method} drafted {len(matches)} of {len(record.tokens)} tokens; every one needs a draft"
        )
    return matches


def replay(matches: Sequence[bool], sizes: Sizes, sequence: int = 0, channel: Channel | None = None) -> list[Round]:
    """Return the rounds for given matches: whether the draft at each position of the text is the server's token."""
    return _Replay(list(matches), sizes, sequence, channel).run()


class _Replay:
    def __init__(self, matches: list[bool], sizes: Sizes, sequence: int, channel: Channel | None) -> None:
        self.matches, self.sizes, self.sequence, self.channel = matches, sizes, sequence, channel
        self.draft, self.verify = _ticks(sizes.draft_s), _ticks(sizes.target_s)
        way = channel.way if channel else None
        self.propagation = _ticks(way.propagation_s) if way else 0
        self.answer = _ticks(8.0 * sizes.down_bytes / way.down_bps) if way else 0
        self.events: list[tuple[int, int, int, int]] = []  # time, kind, start, position
        self.rounds: list[Round] = []
        # device and uplink: starts so far, drafts that wait for the uplink, whether it is in use
        self.start, self.outbox, self.sending = 0, deque[tuple[int, int]](), False
        self.made = self.sent_ticks = self.known = 0  # since the last answer, whose time is ``known``
        # server and downlink: mismatches so far, drafts that wait for a pass, drafts since the last pass began
        self.path, self.waiting, self.busy = 0, list[int](), False
        self.arrived = self.down_free = 0
        self.verified: deque[Round] = deque()  # passes whose answers are on their way

    def run(self) -> list[Round]:
        self._push(self.draft, DRAFTED, 0, 0)
        handlers = (self._drafted, self._sent, self._arrived, self._verified, self._answered)
        while self.events:
            now, kind, start, place = heapq.heappop(self.events)
            handlers[kind](now, start, place)
            if self.waiting and not self.busy:
                self._push(now + self.verify, VERIFIED, self.path, self.waiting[0])
                self.verified.append(Round(self.waiting[0], drafted=self.arrived))
                self.reading, self.waiting, self.arrived, self.busy = self.waiting, [], 0, True
        return self.rounds

    def _push(self, now: int, kind: int, start: int, place: int) -> None:
        heapq.heappush(self.events, (now, kind, start, place))

    def _drafted(self, now: int, start: int, place: int) -> None:
        """Queue the draft, and begin the next one; a draft of an earlier start was given up."""
        if start != self.start:
            return
        self.made += 1
        self.outbox.append((start, place))
        self._send(now)
        if place + 1 < len(self.matches):
            self._push(now + self.draft, DRAFTED, start, place + 1)

    def _send(self, now: int) -> None:
        if self.sending or not self.outbox:
            return
        takes = 0
        if self.channel:
            self.channel.rate(self.sequence)
            takes = _ticks(self.channel.transmission(np.array([self.sequence]), np.array([8.0 * self.sizes.bytes]))[0])
        self.sending = True
        self.sent_ticks += takes
        self._push(now + takes, SENT, *self.outbox.popleft())

    def _sent(self, now: int, start: int, place: int) -> None:
        self.sending = False
        self._push(now + self.propagation, ARRIVED, start, place)
        self._send(now)

    def _arrived(self, now: int, start: int, place: int) -> None:
        self.arrived += 1
        if start == self.path:
            self.waiting.append(place)

    def _verified(self, now: int, start: int, place: int) -> None:
        self.busy, entry = False, self.verified[-1]
        entry.accepted = next((i for i, at in enumerate(self.reading) if not self.matches[at]), len(self.reading))
        entry.resampled = int(entry.accepted < len(self.reading))
        if entry.resampled:
            self.path += 1
            self.waiting.clear()
        self.down_free = max(now, self.down_free) + self.answer
        self._push(self.down_free + self.propagation, ANSWERED, self.path, place + entry.accepted + entry.resampled)

    def _answered(self, now: int, start: int, place: int) -> None:
        entry, sizes = self.verified.popleft(), self.sizes
        if place == len(self.matches):
            entry.drafted += self.arrived  # what the server never read
            self.events.clear()
            self.waiting.clear()
        entry.bits, entry.bytes = entry.drafted * sizes.bits, entry.drafted * sizes.bytes
        entry.down_bytes = sizes.down_bytes
        entry.draft_passes, entry.target_passes = self.made, 1
        entry.draft_s, entry.target_s = self.made * self.draft / TICKS, self.verify / TICKS
        entry.link_s = (self.sent_ticks + 2 * self.propagation + self.answer) / TICKS
        entry.overlap_s = entry.draft_s + entry.target_s + entry.link_s - (now - self.known) / TICKS
        self.rounds.append(entry)
        self.made, self.sent_ticks, self.known = 0, 0, now
        if entry.resampled and place < len(self.matches):
            self.start = start
            self.outbox.clear()
            self._push(now + self.draft, DRAFTED, start, place)


def _ticks(seconds: float) -> int:
    return round(seconds * TICKS)
