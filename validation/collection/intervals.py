"""Compute intervals of the acceptance rate, and certified k, from the top-k log-probabilities of two models."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory.truncation import partial_deviation, partial_distance
from validation.collection.top_k import TopK, refuse_other_texts
from validation.errors import UserError

PROMISES = (0.01, 0.05, 0.1, 0.2)
"""Limits of the Bias for which the certified number of probabilities is computed."""
BLOCK = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Certified:
    """Number of probabilities to send for a Bias of at most ``bias``.

    Attributes
    ----------
    bias : float
    covered : float
        Share of the positions at which the list is long enough to certify a k.
    mean_k : float or None
        Mean of that k over these positions.
    """

    bias: float
    covered: float
    mean_k: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """Intervals from two files of top-k lists.

    Attributes
    ----------
    places, texts, vocabulary, draft_k, target_k : int
    acceptance : (float, float)
        Interval of the mean acceptance rate over the positions: the mean of sharp intervals.
    widest : float
        Width of the widest of these intervals.
    certified : tuple of Certified
        From the draft model's lists alone.
    """

    places: int
    texts: int
    vocabulary: int
    draft_k: int
    target_k: int
    acceptance: tuple[float, float]
    widest: float
    certified: tuple[Certified, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the intervals as plain values."""
        return asdict(self)


def intervals(draft: TopK, target: TopK, vocabulary: int) -> Intervals:
    """Return the intervals from two files of top-k lists.

    Raises
    ------
    UserError
        The files have different texts, a token is outside the vocabulary, or a list cannot be the top k of a
        distribution: its mass is above 1, or leaves more than the unlisted tokens can hold.
    """
    refuse_other_texts(draft, target)
    low, high = np.empty(len(draft.texts)), np.empty(len(draft.texts))
    found: list[NDArray[np.int64]] = []
    for start in range(0, len(draft.texts), BLOCK):
        here = slice(start, start + BLOCK)
        try:
            pair = partial_distance(
                target.tokens[here],
                target.log_probabilities[here],
                draft.tokens[here],
                draft.log_probabilities[here],
                vocabulary,
            )
            found.append(_certified(draft.log_probabilities[here], vocabulary))
        except ValueError as error:
            raise UserError(f"{draft.where} and {target.where}: {error}.") from error
        low[here], high[here] = pair.acceptance.lower, pair.acceptance.upper
    sizes = np.concatenate(found)
    certified = []
    for promise, size in zip(PROMISES, sizes.T, strict=True):
        known = size >= 0
        mean = float(size[known].mean()) if known.any() else None
        certified.append(Certified(bias=promise, covered=float(known.mean()), mean_k=mean))
    return Intervals(
        places=len(draft.texts),
        texts=int(draft.texts[-1]) + 1,
        vocabulary=vocabulary,
        draft_k=draft.k,
        target_k=target.k,
        acceptance=(float(low.mean()), float(high.mean())),
        widest=float((high - low).max()),
        certified=tuple(certified),
    )


def _certified(log_probabilities: NDArray[np.float64], vocabulary: int) -> NDArray[np.int64]:
    """Return the smallest k for which the upper end of 2 Δ_k is within each limit; -1 if the list is too short.

    Shape (n, limits).
    """
    sizes = np.full((len(log_probabilities), len(PROMISES)), -1)
    for k in range(log_probabilities.shape[1], -1, -1):
        bound = 2.0 * np.asarray(partial_deviation(log_probabilities, k, vocabulary).upper)
        sizes[bound[:, None] <= np.array(PROMISES)] = k
    return sizes
