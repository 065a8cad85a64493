"""Times of decoded rounds over many links at once: texts one after the other in one session on each link.

The rounds are those of `validation.decoding`; the time of a message is that of `hlmtheory.channel.TraceLink`. All links
advance together, round by round, so that a session over 518 links takes about as long as over one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory.channel import TraceLink
from validation.decoding.records import GenerationRecord

Array = NDArray[Any]


@dataclass(frozen=True)
class Rounds:
    """Rounds of texts in order: passes before the message, its bits, and the bits of the reply; arrays (rounds,)."""

    drafts: Array
    passes: Array
    up_bits: Array
    down_bits: Array
    text: Array
    tokens: Array  # (texts,)
    streams: bool = False
    """Whether the server sends its tokens as they come, without a round trip a round."""

    def streamed(self, draft_share: float, width: int) -> Rounds:
        """Return the same rounds on a server that drafts itself, its pass a share of the device's, and streams."""
        down = 8.0 * -(-width // 8) * self.tokens / np.bincount(self.text, minlength=len(self.tokens))
        drafts = self.drafts * draft_share
        return replace(self, drafts=drafts, up_bits=0 * self.up_bits, down_bits=down[self.text], streams=True)

    @classmethod
    def of(cls, records: Sequence[GenerationRecord], *, real_bytes: bool) -> Rounds:
        """Return the rounds of records; what follows a text's last exchange is a round without a message."""
        rows, text = [], []
        for number, record in enumerate(records):
            for one in record.rounds:
                bits = 8.0 * one.bytes if real_bytes else one.bits
                rows.append((one.draft_passes, one.target_passes, bits, 8.0 * one.down_bytes))
                text.append(number)
            if record.last.draft_passes or record.last.target_passes:
                rows.append((record.last.draft_passes, record.last.target_passes, 0.0, 0.0))
                text.append(number)
        drafts, passes, up, down = np.array(rows, dtype=np.float64).reshape(-1, 4).T
        tokens = np.array([float(len(record.tokens)) for record in records])
        return cls(drafts, passes, up, down, np.array(text), tokens)

    @classmethod
    def alone(cls, tokens: Array, *, server: bool, width: int) -> Rounds:
        """Return the rounds of one model alone: the server with one exchange a token, or the device without any."""
        text = np.repeat(np.arange(len(tokens)), tokens.astype(int))
        one = np.ones(len(text))
        if server:
            return cls(0 * one, one, 8.0 * one, 8.0 * -(-width // 8) * one, text, tokens)
        return cls(one, 0 * one, 0 * one, 0 * one, text, tokens)


class Links:
    """Recorded links, side by side."""

    def __init__(self, links: Mapping[str, TraceLink]) -> None:
        self.names = list(links)
        edges, totals = [], []
        for link in links.values():
            times, rates = (np.asarray(x, dtype=np.float64) for x in (link.time_s, link.throughput_bps))
            spans = np.diff(times, append=2.0 * times[-1] - times[-2])
            edges.append(np.concatenate([[0.0], np.cumsum(spans)]))
            totals.append(np.concatenate([[0.0], np.cumsum(spans * rates)]))
        self.period, self.total = (np.array([row[-1] for row in rows]) for rows in (edges, totals))
        self.edges, self.totals = (np.concatenate(rows) for rows in (edges, totals))
        self.first = np.concatenate([[0], np.cumsum([len(row) for row in edges])[:-1]])
        self.last = np.append(self.first[1:], len(self.edges)) - 1
        owner = np.repeat(np.arange(len(edges)), [len(row) for row in edges])
        self.gap = 2.0 * np.array([self.period.max(), self.total.max()])  # so that one search serves all links
        self._times, self._bits = self.edges + owner * self.gap[0], self.totals + owner * self.gap[1]

    def __len__(self) -> int:
        return len(self.names)

    def transfer(self, bits: float, start: Array) -> Array:
        """Return the seconds that each link takes for some bits from its own start on, (links,)."""
        own = np.arange(len(self))
        begin = np.mod(start, self.period)
        at = np.clip(
            np.searchsorted(self._times, begin + own * self.gap[0], side="right") - 1, self.first, self.last - 1
        )
        step = self.edges[at + 1] - self.edges[at]
        rate = (self.totals[at + 1] - self.totals[at]) / step
        goal = self.totals[at] + rate * (begin - self.edges[at]) + bits
        cycles = np.maximum(np.ceil(goal / self.total) - 1.0, 0.0)
        rest = np.clip(goal - cycles * self.total, 0.0, self.total)
        after = np.clip(np.searchsorted(self._bits, rest + own * self.gap[1], side="left"), self.first + 1, self.last)
        grown = self.totals[after] - self.totals[after - 1]
        share = np.where(grown > 0, (rest - self.totals[after - 1]) / np.where(grown > 0, grown, 1.0), 0.0)
        end = self.edges[after - 1] + share * (self.edges[after] - self.edges[after - 1])
        return np.asarray(cycles * self.period + end - begin)


def streamed_seconds(
    texts: Sequence[Sequence[bool]],
    links: Links,
    times: tuple[float, float],
    round_trip_s: float,
    sizes: tuple[float, float],
    down_bps: Array,
) -> tuple[Array, float]:
    """Return the seconds of texts over each link, (links,), from a device that drafts on, and the passes of a token."""
    clock, passes = np.zeros(len(links)), np.zeros(len(links))
    for matches in texts:
        place = 0
        while place < len(matches):
            wrong = next((n for n in range(place, len(matches)) if not matches[n]), len(matches) - 1)
            count, sent, arrived = wrong - place + 1, clock, []
            for draft in range(count):
                start = np.maximum(clock + (draft + 1) * times[0], sent)
                sent = start + links.transfer(sizes[0], start)
                arrived.append(sent + round_trip_s / 2)
            table, read, now = np.stack(arrived), np.zeros(len(links), dtype=int), np.full(len(links), -np.inf)
            while (busy := read < count).any():
                first = table[np.minimum(read, count - 1), np.arange(len(links))]
                begin = np.maximum(now, first)
                here = (table <= begin + 1e-12).sum(axis=0)
                read, now = np.where(busy, here, read), np.where(busy, begin + times[1], now)
                passes += busy
            clock, place = now + sizes[1] / down_bps + round_trip_s / 2, wrong + 1
    return clock, float(passes.mean()) / sum(map(len, texts))


def session_seconds(
    rounds: Rounds, links: Links, times: tuple[float, float], round_trip_s: float, down_bps: Array
) -> tuple[Array, Array]:
    """Return the seconds of each text over each link, and of each exchange, (links, texts) and (links, rounds)."""
    clock = np.zeros(len(links))
    each = np.zeros((len(links), len(rounds.text)))
    before = rounds.drafts * times[0] + rounds.passes * times[1]
    for number in range(len(rounds.text)):
        spent = np.full(len(links), before[number])
        if rounds.up_bits[number] > 0:
            spent = spent + links.transfer(rounds.up_bits[number], clock + before[number])
        if rounds.up_bits[number] > 0 or rounds.down_bits[number] > 0:
            spent = spent + (0.0 if rounds.streams else round_trip_s) + rounds.down_bits[number] / down_bps
        each[:, number] = spent
        clock = clock + spent
    texts = np.zeros((len(links), len(rounds.tokens)))
    np.add.at(texts.T, rounds.text, each.T)
    return texts, each
