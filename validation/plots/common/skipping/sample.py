"""Estimate rates and risks over the drafts of a trace (:mod:`validation.decoding.trace_drafts`).

Every estimate over tokens has an interval that is clustered by prompt.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from validation.decoding.trace_drafts import POINTS, Index, Tokens

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class ClusteredEstimate:
    """Hold a mean with its interval; all NaN without data, NaN ends for a single prompt."""

    value: float
    low: float
    high: float


def ratio(numerator: Any, denominator: Any, groups: Index) -> ClusteredEstimate:
    """Return Σ numerator / Σ denominator over tokens, with a 95% interval clustered by prompt."""
    from scipy.special import stdtrit

    index = np.unique(groups, return_inverse=True)[1]
    above, below = (np.bincount(index, np.broadcast_to(part, groups.shape)) for part in (numerator, denominator))
    above, below = above[below > 0], below[below > 0]  # prompts without such tokens carry no information
    count = len(below)
    if not count:
        return ClusteredEstimate(np.nan, np.nan, np.nan)
    value = float(above.sum() / below.sum())
    if count == 1:
        return ClusteredEstimate(value, np.nan, np.nan)
    variance = count / (count - 1) * np.sum((above - value * below) ** 2) / below.sum() ** 2
    half = float(stdtrit(count - 1, (1.0 + CONFIDENCE) / 2.0) * np.sqrt(variance))
    return ClusteredEstimate(value, value - half, value + half)


def mean(values: Any, groups: Index) -> ClusteredEstimate:
    """Return the mean over tokens; see :func:`ratio`."""
    return ratio(values, 1.0, groups)


def transmission_rate(tokens: Tokens, threshold: float) -> ClusteredEstimate:
    """Return the share of the drafts that are sent."""
    return mean(~tokens.skipped(threshold), tokens.prompt)


def one_step(tokens: Tokens, threshold: float) -> ClusteredEstimate:
    """Return the mean one-step total variation E[β_d 1{u ≤ u_th}], the share of drafts skipped and rejected."""
    return mean(tokens.rejection * tokens.skipped(threshold), tokens.prompt)


def accepted_if_skipped(tokens: Tokens, threshold: float) -> ClusteredEstimate:
    """Return P(accepted | skipped), the true skip rate of cu-hlm V-A; a draft counts with its probability 1 - β."""
    skipped = tokens.skipped(threshold)
    return ratio(skipped * (1.0 - tokens.rejection), skipped, tokens.prompt)


def skipped_if_accepted(tokens: Tokens, threshold: float) -> ClusteredEstimate:
    """Return P(skipped | accepted), the true skip rate of u-hlm IV."""
    accepted = 1.0 - tokens.rejection
    return ratio(tokens.skipped(threshold) * accepted, accepted, tokens.prompt)


def thresholds_over(tokens: Tokens) -> Iterator[tuple[float, ClusteredEstimate, ClusteredEstimate, ClusteredEstimate]]:
    """Return the thresholds 0, .05, …, 1, with the transmission rate and both true skip rates at each."""
    for threshold in POINTS.tolist():
        sent = transmission_rate(tokens, threshold)
        yield threshold, sent, accepted_if_skipped(tokens, threshold), skipped_if_accepted(tokens, threshold)
