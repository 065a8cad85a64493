"""Decoding steps of a sequence, and of the slowest of a batch, when acceptance is random.

edge-sd (8) counts ⌈O_m/L⌉ steps, L the mean tokens of a step. The steps of one sequence are random, and a batch runs
until its slowest sequence is done, so (8) is neither the mean of one sequence nor the mean of the slowest.
"""

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
    """Probability that a sequence has all its tokens after n decoding steps.

    A step makes 1 + min(G, l) tokens, P(G ≥ i) = α^i, independently of the other steps: drafts are accepted with
    probability α each, as edge-sd (7) assumes. The distribution after n steps is a convolution, computed to the end.

    Parameters
    ----------
    output_tokens : int
        O, 1 to 16,384.
    acceptance : float
        α in [0, 1].
    draft_length : int
        l ≥ 0.

    Returns
    -------
    array, shape (O + 1,)
        P(N ≤ n) for n = 0..O; O steps always suffice.

    Raises
    ------
    ValueError
        If a value is outside its domain, or an array is given for a single number.

    Examples
    --------
    >>> steps_distribution(3, 0.5, 1).tolist()
    [0.0, 0.0, 0.75, 1.0]
    """
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
    """Expected number of decoding steps of a batch, which runs until its slowest sequence is done.

    E[max_k N_k] = Σ_{n ≥ 0} (1 - Π_k P(N_k ≤ n)) for independent sequences.

    Parameters
    ----------
    output_tokens : integer array, shape (b,)
        O_k of every sequence, 1 to 16,384; one number is one sequence.
    acceptance : float
        α in [0, 1].
    draft_length : int
        l ≥ 0.

    Returns
    -------
    float
        At least max_k O_k / L (claim ``serving.mean_steps``).

    Raises
    ------
    ValueError
        If there is no sequence, or a value is outside its domain.

    Examples
    --------
    >>> round(expected_steps([64] * 25, 0.8, 4), 2), round(expected_steps(64, 0.8, 4), 2)
    (24.02, 19.5)
    """
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
