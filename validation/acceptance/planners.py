"""Write acceptance as other planners and engines ask for it.

AIConfigurator and AISimulate take ``nextn``, the drafts of a step, and ``nextn_accepted``, the mean number of them that
are accepted; a step then emits 1 + nextn_accepted tokens (AIConfigurator pull request 1383).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from validation.acceptance.record import AcceptanceRecord
from validation.acceptance.summary import FEWEST_CLUSTERS, Summary
from validation.estimates import Estimate, clustered

Values = Sequence[float] | NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class NextN:
    """What AIConfigurator and AISimulate ask for, at one draft length."""

    nextn: int
    nextn_accepted: Estimate


def mean_over(above: Values, below: Values, confidence: float, counts: Values | None = None) -> Estimate:
    """Return Σ above/Σ below over requests, with an interval if there are enough requests."""
    each = np.ones(len(above)) if counts is None else np.asarray(counts)
    mean = clustered(above, below, confidence=confidence, counts=each)
    if each.sum() < FEWEST_CLUSTERS or mean.low is None:
        return Estimate(mean.value)
    return replace(mean, low=max(mean.low, 0.0))


def acceptance_length(records: Sequence[AcceptanceRecord], summary: Summary, confidence: float) -> Estimate:
    mean = summary.mean_acceptance_length
    histograms = [record.histogram for record in records]
    if summary.counts is None and len(records) < FEWEST_CLUSTERS and None not in histograms:
        units = np.array([entry for table in histograms for entry in (table or {}).items()]).T
        return mean_over(units[0], np.ones(units.shape[1]), confidence, units[1]) + 1.0
    if summary.counts is None:
        steps = [record.num_spec_steps for record in records]
        return mean_over([record.num_accepted_draft_tokens for record in records], steps, confidence) + 1.0
    ends = {0: (1.0, 1.0)} | {entry.draft_length: (entry.low, entry.high) for entry in summary.lengths}
    last = max(ends)
    rows = [(sum(row), ends[min(length, last)]) for length, row in summary.counts.items()]
    low, high = (sum(count * end[side] for count, end in rows) / summary.steps for side in (0, 1))
    return Estimate(mean, min(low, mean), max(high, mean))


def nextn_of(summary: Summary, length: Estimate) -> tuple[NextN, ...]:
    """Return ``nextn`` and ``nextn_accepted`` by draft length; empty where the draft length is not known."""
    if summary.counts is None:
        return ()
    if summary.copied:
        (recorded, *others) = [k for k in summary.counts if k]
        return () if others else (NextN(nextn=recorded, nextn_accepted=length + -1.0),)
    return tuple(
        NextN(nextn=entry.draft_length, nextn_accepted=Estimate(entry.tokens, entry.low, entry.high) + -1.0)
        for entry in summary.lengths
    )
