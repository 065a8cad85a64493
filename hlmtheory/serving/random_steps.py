"""Decoding steps of a sequence, and of the slowest of a batch, if acceptance is random; edge-sd (8) counts ⌈O_m/L⌉."""

from __future__ import annotations

import numpy as np

from hlmtheory._array import Array
from hlmtheory._domains import COUNT, UNIT_INTERVAL, Domain, DomainError, number, numbers

_OUTPUT = Domain(
    "a whole number, 1 to 16,384",
    lambda xp, value: (value >= 1) & (value <= 2**14),
    "give a positive integer; the time grows with its square, and the ratio of the means nears O/L",
    kind="integer",
)


def steps_distribution(output_tokens: int, acceptance: float, draft_length: int) -> Array:
    """P(N ≤ n), shape (O + 1,): a sequence has its O tokens after n steps, each draft accepted with probability α."""
    output = number(_OUTPUT, "output_tokens", output_tokens)
    alpha = number(UNIT_INTERVAL, "acceptance", acceptance)
    length = min(number(COUNT, "draft_length", draft_length), output)  # more drafts than tokens change nothing
    tokens = alpha ** np.arange(length + 1)
    tokens[:-1] -= tokens[1:]  # P(1 + i tokens), i = 0..l
    made = np.zeros(output)  # P(g tokens made so far), g < O
    made[0], reached = 1.0, np.zeros(output + 1)
    for n in range(1, output + 1):
        made = np.concatenate([[0.0], np.convolve(made, tokens)[: output - 1]])  # a step makes at least one
        reached[n] = 1.0 - made.sum() if n < output else 1.0
    return np.clip(reached, 0.0, 1.0)  # rounding of a sum of probabilities


def expected_steps(output_tokens: Array, acceptance: float, draft_length: int) -> float:
    """Expected number of decoding steps of a batch, which runs until its slowest sequence is done."""
    return float((1.0 - longest_distribution(output_tokens, acceptance, draft_length)).sum())


def longest_distribution(output_tokens: Array, acceptance: float, draft_length: int) -> Array:
    """P(max_k N_k ≤ n) for n = 0..max O_k."""
    outputs = np.atleast_1d(numbers(_OUTPUT, "output_tokens", output_tokens))
    if outputs.ndim != 1 or not outputs.size:
        raise DomainError(f"output_tokens must be a row of lengths; got shape {outputs.shape}; give one a sequence")
    below = np.ones(int(outputs.max()) + 1)
    for output, count in zip(*np.unique(outputs, return_counts=True), strict=True):
        below[: output + 1] *= steps_distribution(int(output), acceptance, draft_length) ** int(count)
    return below
