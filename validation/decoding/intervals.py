"""Bootstrap intervals: percentiles over sets of prompts, drawn with replacement.

Sequences are independent of each other; rounds and tokens of one sequence are not. So whole sequences are drawn.
Methods with the same prompts get the same sets, so that two of them can be compared.
"""

from typing import Any

import numpy as np

from validation.arrays import Array
from validation.errors import UserError
from validation.estimates import CONFIDENCE, Estimate

DEFAULT_RESAMPLES, DEFAULT_SEED = 2000, 1


def draw_texts(texts: int, resamples: int, seed: int) -> Array:
    """Return sets of texts drawn with replacement, int array (resamples, texts): the same for every method."""
    return np.asarray(np.random.default_rng(seed).integers(0, texts, (resamples, texts)))


def ratio(
    above: Array,
    below: Array,
    *,
    confidence: float = CONFIDENCE,
    resamples: int = DEFAULT_RESAMPLES,
    seed: int = DEFAULT_SEED,
) -> Estimate:
    """Return Σ above/Σ below over texts, with the interval that the metrics use; it is a mean if ``below`` is 1."""
    check_settings(confidence, resamples)
    if not len(above):
        raise UserError("There are no texts to take a mean of; give at least one row.")
    counts = counts_of(draw_texts(len(above), resamples, seed), len(above))
    value = divide(np.asarray(above).sum(), np.asarray(below).sum())
    return estimate(value, divide(counts @ above, counts @ below), confidence)


def estimate(value: Any, draws: Array, confidence: float) -> Estimate:
    """Return a value and the percentile interval of its draws; draws without a value are left out."""
    if not np.isfinite(value):
        return Estimate(None)
    known = draws[np.isfinite(draws)]
    if not len(known):
        return Estimate(float(value))
    low, high = np.quantile(known, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Estimate(float(value), float(low), float(high))


def check_settings(confidence: float, resamples: int) -> None:
    if not 0 < confidence < 1:
        raise UserError(f"The confidence is {confidence}; it must lie between 0 and 1, such as 0.95.")
    if resamples < 1:
        raise UserError(f"resamples is {resamples}; it must be at least 1.")


def counts_of(chosen: Array, texts: int) -> Array:
    """Return how often each text is in each set, (resamples, texts), so that a matrix product sums over all sets."""
    offset = texts * np.arange(len(chosen))[:, None]
    counts = np.bincount((chosen + offset).reshape(-1), minlength=texts * len(chosen))
    return np.asarray(counts.reshape(len(chosen), texts), dtype=np.float64)


def divide(above: Array, below: Array) -> Array:
    return np.asarray(np.divide(above, below, out=np.full(np.shape(below), np.nan), where=np.asarray(below) != 0))


def median(values: Array) -> Array:
    """Return the median of each row over its finite values; NaN if there are none."""
    finite = np.isfinite(values)
    if finite.all():
        return np.asarray(np.median(values, axis=-1))  # several times faster
    some = finite.any(axis=-1)
    medians = np.full(len(values), np.nan)
    medians[some] = np.nanmedian(values[some], axis=-1)
    return medians
