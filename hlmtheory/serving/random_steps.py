"""Decoding steps of a sequence, and of the slowest of a batch, when acceptance is random.

edge-sd (8) counts ⌈O_m/L⌉ steps, L the mean tokens of a step. The steps of one sequence are random, and a batch runs
until its slowest sequence is done, so (8) is neither the mean of one sequence nor the mean of the slowest.
"""

from __future__ import annotations

from hlmtheory._domains import Domain

_OUTPUT = Domain(
    "a whole number, 1 to 16,384",
    lambda xp, value: (value >= 1) & (value <= 2**14),
    "give a positive integer; the time grows with its square, and the ratio of the means nears O/L",
    kind="integer",
)
