"""Expected counts of the rounds of a policy along texts of the target model.

Along a text y the draft of a position is y_t and accepted with probability min(1, q̂(y_t)/p(y_t)). So the start of each
round is a Markov chain along the text, and its expected counts are exact sums; a policy that skips leaves these texts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from validation.arrays import Array

COUNTS = (
    "tokens",  # New tokens
    "drafts",  # Passes of the draft model
    "passes",  # Passes of the target model
    "exchanges",  # Rounds with the server, each with a round trip
    "verified",  # Tokens that the target model's passes read: drafts and one more, for each exchange
    "up_bits",
    "down_bits",
    "skipped",  # Tokens that are kept without verification
    "server_drafts",  # Passes of a copy of the draft model on the server, each over one token
)


def count_table(**columns: Any) -> Array:
    """Return counts, (..., texts, counts), from some columns; the others are 0."""
    known = np.broadcast_arrays(*(np.asarray(values, dtype=np.float64) for values in columns.values()))
    table = np.zeros((*known[0].shape, len(COUNTS)))
    for name, values in zip(columns, known, strict=True):
        table[..., COUNTS.index(name)] = values
    return table


def named(counts: Array) -> dict[str, Array]:
    return {name: counts[..., column] for column, name in enumerate(COUNTS)}


@dataclass(frozen=True, slots=True)
class Wire:
    """Bits of a round besides its drafts' own: the header up, and the reply down, with or without a rejection."""

    header: float | Array = 16.0
    reply: float = 16.0
    rejection: float = 0.0


def expected_counts(
    accepted: Array,  # (T, ..., texts), as all others: of a draft, given that the earlier ones of its round were
    bits: Array,  # Of the draft of each position, if it is sent
    length: Array,  # (texts,)
    most: Array | int,  # Drafts of a round that starts at each position; 0: the server alone
    *,
    first: Array | None = None,  # Acceptance of a round's first draft, given that it was sent
    skip: Array | None = None,  # Probability that a round's first draft is kept without verification
    bonus: bool = True,  # Whether a round whose drafts are all accepted gives one more token
    wire: Wire | None = None,
    ratio: Array | None = None,  # q̂(y_t)/p(y_t): i drafts are kept with min(1, R_1, ..., R_i), ``block_text``
    by_depth: Sequence[Array] | None = None,  # In place of ``accepted``: of the first, second, ... draft of a round
    read: Array | None = None,  # Tokens that a pass reads; if not given, its drafts and one more
) -> Array:
    """Return the expected counts of texts under rounds of at most ``most`` drafts, (..., texts, counts)."""
    wire = wire or Wire()
    steps = len(accepted)
    shape = np.broadcast_shapes(*(np.shape(x)[1:] for x in (accepted, bits, first, skip) if x is not None))
    deepest = int(np.max(most))
    total = np.concatenate([np.zeros((1, *np.shape(bits)[1:])), np.cumsum(bits, axis=0)])
    start = np.zeros((steps + deepest + 2, *shape))
    start[0] = 1.0
    sums = {name: np.zeros(shape) for name in COUNTS}
    for t in range(steps):
        now = np.where(t < length, start[t], 0.0)
        if skip is not None:
            kept = now * skip[t]
            start[t + 1] += kept
            sums["drafts"] += kept
            sums["skipped"] += kept
            now = now - kept
        left = np.maximum(length - t, 0)
        wanted = most if isinstance(most, int) else most[t]
        drafts = np.minimum(wanted, left)  # (texts,), or of the shape of ``most``
        fewest = int(drafts.min())
        sums["exchanges"] += now
        sums["drafts"] += now * drafts
        sums["verified"] += now * (drafts + 1 if read is None else read[t])
        ends = np.minimum(t + drafts, steps)
        if isinstance(most, int) and (drafts == fewest).all():
            sent = total[ends.flat[0]] - total[t]
        else:
            ends = np.broadcast_to(ends, (1, *shape))
            sent = np.take_along_axis(np.broadcast_to(total, (steps + 1, *shape)), ends, 0)[0] - total[t]
        header = wire.header[t] if isinstance(wire.header, np.ndarray) else wire.header
        sums["up_bits"] += now * (header + sent)
        sums["down_bits"] += now * wire.reply
        alive, product = now, np.ones(shape)
        for j in range(deepest):
            active = j < drafts
            if not active.any():
                break
            if ratio is None:
                row = by_depth[j] if by_depth is not None else accepted if j or first is None else first
                lost = alive * (1.0 - row[min(t + j, steps - 1)])
            else:
                product = product * ratio[min(t + j, steps - 1)]
                lost = np.maximum(alive - now * product, 0.0)
            lost = lost if j < fewest else np.where(active, lost, 0.0)
            start[t + j + 1] += lost
            if wire.rejection:
                sums["down_bits"] += lost * wire.rejection
            alive = alive - lost
        for count in np.unique(drafts).tolist():
            here = np.where(drafts == count, alive, 0.0)
            start[t + count + (1 if bonus or not count else 0)] += here
    return count_table(**sums | {"passes": sums["exchanges"], "tokens": length})


def expected_streaks(accepted: Array, length: int) -> Array:
    """Return the expected cycles of a text by their accepted drafts, (T,)."""
    alpha = accepted[:length]
    streaks = np.zeros(len(accepted))
    alive = np.concatenate([[1.0], 1.0 - alpha[:-1]])  # cycles that begin at each position, and go on
    for j in range(length):
        streaks[j] += (alive[:-1] * (1.0 - alpha[j : length - 1])).sum() + alive[-1]
        alive = alive[:-1] * alpha[j : length - 1]
    return streaks
