"""Expected counts of the rounds of a policy along texts of the target model.

Along a text y of the target model the draft of a position is y_t and accepted with probability min(p, q̂)(y_t)/p(y_t) =
min(1, q̂(y_t)/p(y_t)). So the start of each round is a Markov chain along the text, and its expected counts are sums.
They are exact for lossless policies. A policy that skips verifications leaves the target model's texts; its counts
are those of rounds that begin at the positions of these texts.

The time of a text is linear in the counts, so they are computed once and serve every link and every pass time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Counts:
    """Expected counts of texts, every array (..., texts).

    Attributes
    ----------
    tokens : array
        New tokens.
    drafts : array
        Passes of the draft model.
    passes : array
        Passes of the target model.
    exchanges : array
        Rounds with the server, each with a round trip.
    verified : array
        Tokens that the target model's passes read: drafts and one more, for each exchange.
    skipped : array
        Tokens that are kept without verification.
    server_drafts : array
        Passes of a copy of the draft model on the server.
    """

    tokens: Array
    drafts: Array
    passes: Array
    exchanges: Array
    verified: Array
    up_bits: Array
    down_bits: Array
    skipped: Array
    server_drafts: Array

    def table(self) -> Array:
        """Return all counts, (..., texts, counts)."""
        return np.stack([getattr(self, one.name) for one in fields(self)], axis=-1)


COUNTS = tuple(one.name for one in fields(Counts))
"""Names of the columns of :meth:`Counts.table`."""


@dataclass(frozen=True, slots=True)
class Wire:
    """Bits of a round besides its drafts' own: the header up, and the reply down, with or without a rejection.

    The header may be an array (T, ..., texts), for rounds that start at each position.
    """

    header: float | Array = 16.0
    reply: float = 16.0
    rejection: float = 0.0


def expected_counts(
    accepted: Array,
    bits: Array,
    length: Array,
    most: Array | int,
    *,
    first: Array | None = None,
    skip: Array | None = None,
    bonus: bool = True,
    wire: Wire | None = None,
    ratio: Array | None = None,
    by_depth: Sequence[Array] | None = None,
    read: Array | None = None,
) -> Counts:
    """Return the expected counts of texts under rounds of at most ``most`` drafts.

    Parameters
    ----------
    accepted : array, shape (T, ..., texts)
        Acceptance of the draft at each position, given that all earlier drafts of its round were accepted.
    bits : array, shape (T, ..., texts)
        Bits of the draft of each position, if it is sent.
    length : int array, shape (texts,)
        Tokens of each text, at most T.
    most : int or int array, shape (T, ..., texts)
        Drafts of a round that starts at each position; the rest of the text limits it as well. 0: the server alone.
    first : array, shape (T, ..., texts), optional
        Acceptance of the first draft of a round, given that it was sent; ``accepted`` if not given.
    skip : array, shape (T, ..., texts), optional
        Probability that the first draft of a round is kept without verification; 0 if not given.
    bonus : bool
        Whether a round whose drafts are all accepted gives one more token.
    ratio : array, shape (T, ..., texts), optional
        q̂(y_t)/p(y_t), if drafts are verified by block. The first i drafts of a round are then kept with probability
        min(1, R_1, ..., R_i), where R_i is the product of i ratios (``verification.block_text``). ``accepted`` and
        ``first`` are not read.
    by_depth : sequence of array, shape (T, ..., texts), optional
        Acceptance of the draft at each position if it is the first, second, ... of its round, in place of ``accepted``.
    read : array, shape (T, ..., texts), optional
        Tokens that the pass of a round reads which begins at each position; if not given, its drafts and one more.

    Returns
    -------
    Counts
        Arrays (..., texts).
    """
    wire = wire or Wire()
    steps = len(accepted)
    shape = np.broadcast_shapes(*(np.shape(x)[1:] for x in (accepted, bits, first, skip) if x is not None))
    deepest = int(np.max(most))
    total = np.concatenate([np.zeros((1, *np.shape(bits)[1:])), np.cumsum(bits, axis=0)])
    start = np.zeros((steps + deepest + 2, *shape))
    start[0] = 1.0
    found = {name: np.zeros(shape) for name in COUNTS}
    for t in range(steps):
        now = np.where(t < length, start[t], 0.0)
        if skip is not None:
            kept = now * skip[t]
            start[t + 1] += kept
            found["drafts"] += kept
            found["skipped"] += kept
            now = now - kept
        left = np.maximum(length - t, 0)
        wanted = most if isinstance(most, int) else most[t]
        drafts = np.broadcast_to(np.minimum(wanted, left), shape)
        found["exchanges"] += now
        found["drafts"] += now * drafts
        found["verified"] += now * (drafts + 1 if read is None else read[t])
        ends = np.minimum(t + drafts, steps)
        if isinstance(most, int) and (drafts == drafts.flat[0]).all():
            sent = total[ends.flat[0]] - total[t]
        else:
            sent = np.take_along_axis(np.broadcast_to(total, (steps + 1, *shape)), ends[None], 0)[0] - total[t]
        header = wire.header[t] if isinstance(wire.header, np.ndarray) else wire.header
        found["up_bits"] += now * (header + sent)
        found["down_bits"] += now * wire.reply
        alive, product = now, np.ones(shape)
        for j in range(deepest):
            active = j < drafts
            if not active.any():
                break
            if ratio is None:
                row = by_depth[j] if by_depth is not None else accepted if j or first is None else first
                rate = row[min(t + j, steps - 1)]
                lost = np.where(active, alive * (1.0 - rate), 0.0)
            else:
                product = product * ratio[min(t + j, steps - 1)]
                lost = np.where(active, np.maximum(alive - now * product, 0.0), 0.0)
            start[t + j + 1] += lost
            found["down_bits"] += lost * wire.rejection
            alive = alive - lost
        for count in np.unique(drafts).tolist():
            here = np.where(drafts == count, alive, 0.0)
            start[t + count + (1 if bonus or not count else 0)] += here
    found["passes"] = found["exchanges"].copy()
    found["tokens"] = np.broadcast_to(length.astype(np.float64), shape).copy()
    return Counts(**found)


def expected_streaks(accepted: Array, length: int) -> Array:
    """Return the expected cycles of a text by their accepted drafts, (T,).

    Each position has one draft that counts. It is accepted by a coin of its own, so a cycle begins at a position if the
    one before was not.

    Parameters
    ----------
    accepted : array, shape (T,)
        Acceptance of the draft at each position.
    length : int
        Tokens of the text, at most T.
    """
    alpha = accepted[:length]
    found = np.zeros(len(accepted))
    alive = np.concatenate([[1.0], 1.0 - alpha[:-1]])  # cycles that begin at each position, and go on
    for j in range(length):
        found[j] += (alive[:-1] * (1.0 - alpha[j : length - 1])).sum() + alive[-1]
        alive = alive[:-1] * alpha[j : length - 1]
    return found
