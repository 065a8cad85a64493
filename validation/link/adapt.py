"""A draft length that follows from the rounds so far.

The expected tokens of a round of each length are known from the rounds so far by an interval that holds at all times
together, for lengths that are chosen from earlier rounds (``draft_length.adaptive_depths``). A length that the
intervals rule out is not taken: at its upper end it is slower than another one at its lower end. Of the others, that
one is taken which gives the most tokens a second at its estimate, moved a quarter of the way to its upper end, so that
depths with few rounds are tried. A depth that no round examined counts as always accepted. Seconds are medians of the
rounds so far.

The quarter is a choice: of five rules it had the best worst case in the one simulation that compared them. In six
settings (acceptance 0.2 to 0.9, lengths up to 8; 30 runs of 150 rounds) it gave 91% to 100% of the speed of the best
length, the upper end alone 63% to 98%. There is no guarantee on its speed. The intervals took 45 ms on a busy machine,
so they are computed again only after a quarter more rounds.

The text does not change: a shared seed's text depends on no length.
"""

from __future__ import annotations

import statistics
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory.draft_length import tokens_by_length
from validation.decoding.methods.shared_seed import SharedSeed
from validation.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from validation.decoding.records import Round
    from validation.link.device_records import Exchange

Array = NDArray[Any]
KEPT = 64
"""Rounds whose times count."""
CONFIDENCE, TOWARDS_UPPER, MORE = 0.95, 0.25, 1.25


class LengthChoice:
    """The draft length of the next round.

    Parameters
    ----------
    begin, most : int
        The length before anything is known, and the largest.
    confidence : float
        Of the intervals of all lengths and all times together.

    Attributes
    ----------
    counts : int array, shape (most + 1, most + 1)
        n[k][i], rounds that drafted k and accepted i.
    length : int
        Of the next round.
    """

    def __init__(self, begin: int, most: int, confidence: float = CONFIDENCE) -> None:
        if not 1 <= begin <= most:
            raise UserError(f"A draft length of {begin} is not in 1..{most}; begin with one of these.")
        self.length, self.most, self.confidence = begin, most, confidence
        self.counts = np.zeros((most + 1, most + 1), dtype=np.int64)
        self.draft_s, self.fixed_s = deque[float](maxlen=KEPT), deque[float](maxlen=KEPT)
        self._next = 1  # rounds at which the length is chosen again

    def learn(self, drafted: int, accepted: int, draft_s: float, fixed_s: float) -> None:
        """Add a round, and choose the next length.

        Parameters
        ----------
        drafted, accepted : int
        draft_s : float
            Seconds of all its drafts.
        fixed_s : float
            Seconds that the device waited.
        """
        self.counts[drafted, accepted] += 1
        if drafted:
            self.draft_s.append(draft_s / drafted)
        self.fixed_s.append(fixed_s)
        rounds = int(self.counts.sum())
        if self.draft_s and rounds >= self._next:
            self._next = max(rounds + 2, int(MORE * rounds))
            low, estimate, high = self.speeds()
            wanted = estimate + TOWARDS_UPPER * (high - estimate)
            self.length = int(np.argmax(np.where(high >= low.max(), wanted, 0.0))) + 1

    def speeds(self) -> tuple[Array, Array, Array]:
        """Return lower end, estimate and upper end of the tokens a second, each (most,), for the times so far."""
        low, tokens, high = round_tokens(self.counts, self.confidence)
        lengths = np.arange(1, self.most + 1)
        seconds = statistics.median(self.fixed_s) + lengths * statistics.median(self.draft_s)
        return low / seconds, tokens / seconds, high / seconds


def round_tokens(counts: Array, confidence: float) -> tuple[Array, Array, Array]:
    """Return lower end, estimate and upper end of a round's tokens for lengths 1, 2, ... from n[k][i], at all times."""
    found = tokens_by_length(counts, confidence=confidence, method="anytime")
    tokens = np.concatenate([[1.0], np.asarray(found.tokens)])
    for length in np.flatnonzero(np.isnan(tokens)):  # a depth that no round examined
        tokens[length] = tokens[length - 1] + (tokens[length - 1] - tokens[length - 2] if length > 1 else 1.0)
    return np.asarray(found.low), tokens[1:], np.asarray(found.high)


class AdaptiveSeed(SharedSeed):
    """A shared seed in rounds whose length is that of a choice, which several texts may share."""

    def __init__(self, choice: LengthChoice) -> None:
        super().__init__(choice.most)
        self.choice, self.name = choice, f"shared seed (K ≤ {choice.most}, adapts)"

    def lengths(self, sequences: Array, rates: Sequence[float | None]) -> Array:
        """Return the chosen length."""
        return np.full(len(sequences), self.choice.length)

    def exchange(self, one: Round, spent: Exchange) -> None:
        """Learn from a round; the times of one that opened its text are those of the opening too, and do not count."""
        if spent.opened:
            self.choice.counts[one.drafted, one.accepted] += 1
        else:
            self.choice.learn(one.drafted, one.accepted, spent.draft_s, spent.wait_s)
