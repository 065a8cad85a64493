"""What an eavesdropper learns from the sizes and times of encrypted messages, and what padding costs.

The leak I(X; T) of a text X by its trace T is at most H(T); R messages of m sizes leak at most H(R) + E[R] log₂ m bits
(``channel.leak_text``). wei2024spills identify prompts so. Of the times, only the number of messages is bounded.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hlmtheory._array import Array
from hlmtheory._domains import DomainError, finite_answer, number, numbers
from hlmtheory._quantities import checked, not_negative, whole_from_one

Numbers = NDArray[np.float64]

_SIZE = not_negative("give the size of a message, in bytes or bits")
_WEIGHT = not_negative("give how often each size is sent, in any unit")
CLASSES = whole_from_one("give the most sizes that a padded message may have")
ROUNDS = {
    "tokens": whole_from_one("give the tokens of a text"),
    "draft_length": whole_from_one("give the drafts of a round; without drafts every token is a round"),
}


@dataclass(frozen=True, slots=True)
class SizeClasses:
    """Sizes to which messages are padded, ascending, and the mean size of a padded message."""

    tops: Numbers
    mean: float


@finite_answer
def rounds_leak(tokens: Array, draft_length: Array) -> Array:
    """Return log₂(N - ⌈N/(K + 1)⌉ + 1), the most bits that messages of one size leak (``channel.leak_rounds``)."""
    xp, n, k = checked(ROUNDS, tokens=tokens, draft_length=draft_length)
    return xp.log2(n - xp.ceil(n / (k + 1.0)) + 1.0)


@finite_answer
def size_classes(sizes: Array, weights: Array, classes: int) -> SizeClasses:
    """Return at most m sizes to which messages are padded so that their mean size is smallest, by dynamic programming.

    ``sizes`` (n,) may repeat; give the largest message that can occur, with the weight 0 if it was never seen.
    """
    s, w = numbers(_SIZE, "sizes", sizes), numbers(_WEIGHT, "weights", weights)
    many = number(CLASSES, "classes", classes)
    if s.ndim != 1 or s.shape != w.shape or not s.size:
        raise DomainError(f"sizes must be a row with as many weights; got shapes {s.shape} and {w.shape}; pair them")
    if not w.sum() > 0:
        raise DomainError("weights must be positive somewhere; got none; say how often each size is sent")
    distinct, place = np.unique(s, return_inverse=True)
    shares = np.bincount(place, weights=w / w.sum()).astype(np.float64)
    return _least_mean(distinct, shares, min(many, len(distinct)))


def _least_mean(sizes: Numbers, weights: Numbers, most: int) -> SizeClasses:
    """Return the best classes of ascending sizes, by the least padding: its terms are 0 or more, so none cancels."""
    n = len(sizes)
    # best[j]: the least Σ w (top - s) over the first j sizes, with the top of the last class at size j - 1
    best, cuts = np.concatenate([[0.0], np.full(n, np.inf)]), []
    for _ in range(most):
        after, cut = np.full(n + 1, np.inf), np.zeros(n + 1, dtype=np.int64)
        for j in range(1, n + 1):
            padding = weights[:j] * (sizes[j - 1] - sizes[:j])
            costs = best[:j] + np.cumsum(padding[::-1])[::-1]
            cut[j] = int(np.argmin(costs))
            after[j] = costs[cut[j]]
        after[0] = 0.0  # a class may be left out
        best = after
        cuts.append(cut)
    tops, j = [], n
    for cut in reversed(cuts):
        if j == 0:
            break
        tops.append(float(sizes[j - 1]))
        j = int(cut[j])
    return SizeClasses(np.array(tops[::-1]), float(weights @ sizes + best[n]))
