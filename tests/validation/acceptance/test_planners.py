"""What other planners take: acceptance length with an interval, ``nextn_accepted``, SGLang's configuration."""

from __future__ import annotations

import numpy as np
import pytest

from validation.acceptance.planners import acceptance_length, adaptive_config, mean_over, nextn_of
from validation.acceptance.record import AcceptanceRecord
from validation.acceptance.summary import RoundTimes, summarise

TIMES = RoundTimes(verify=0.02, verify_token=0.002, draft=0.003)


def record(table: dict[int, tuple[int, ...]], **more: object) -> AcceptanceRecord:
    """The record of steps by draft length and accepted drafts."""
    steps = sum(map(sum, table.values()))
    accepted = sum(i * count for row in table.values() for i, count in enumerate(row))
    return AcceptanceRecord(
        engine="vllm",
        source="a",
        num_spec_steps=steps,
        num_accepted_draft_tokens=accepted,
        by_draft_length=table or None,
        **more,  # type: ignore[arg-type]
    )


def test_the_interval_of_the_acceptance_length_is_that_of_its_draft_length():
    records = [record({3: (270, 260, 170, 300)})]
    summary = summarise(records)
    found = acceptance_length(records, summary, 0.95)
    assert (found.value, found.low, found.high) == (2.5, summary.lengths[2].low, summary.lengths[2].high)


def test_lengths_that_vary_are_weighed_by_their_steps():
    """A quarter of the steps drafted nothing, and emitted one token each."""
    records = [record({0: (100,), 1: (150, 150)})]
    summary = summarise(records)
    found = acceptance_length(records, summary, 0.95)
    assert found.value == 1.375
    assert found.low == pytest.approx(0.25 + 0.75 * summary.lengths[0].low)
    assert found.high == pytest.approx(0.25 + 0.75 * summary.lengths[0].high)


def test_the_interval_over_requests_covers_the_mean():
    """300 samples of 40 requests whose acceptance differs: 95% of the intervals hold it, up to chance."""
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(300):
        steps = rng.integers(20, 60, size=40)
        accepted = rng.binomial(steps, rng.beta(4, 4, size=40))
        found = mean_over(accepted, steps, 0.95)
        inside += found.low <= 0.5 <= found.high
    assert inside >= 273  # P(fewer | 95%) < 0.2%


def test_nextn_accepted_is_the_length_less_the_targets_token():
    records = [record({3: (270, 260, 170, 300)})]
    summary = summarise(records)
    rows = nextn_of(summary, acceptance_length(records, summary, 0.95))
    assert [row.nextn for row in rows] == [1, 2, 3]
    assert rows[2].nextn_accepted.value == pytest.approx(1.5)
    assert all(0 <= row.nextn_accepted.low <= row.nextn_accepted.value <= row.nextn for row in rows)
    copied = [record({3: (270, 260, 170, 300)}, copied=True, draft_sampling="greedy")]
    (row,) = nextn_of(summarise(copied), acceptance_length(copied, summarise(copied), 0.95))
    assert (row.nextn, row.nextn_accepted.value) == (3, 1.5)


def test_the_adaptive_configuration_holds_the_best_lengths_of_the_counts_and_of_their_ends():
    summary = summarise([record({3: (270, 260, 170, 300)})], times=TIMES, largest_batch=40)
    found = adaptive_config(summary, TIMES)
    starts = sorted(map(int, found))
    assert starts[0] == 1
    for first, _, length in summary.schedule:
        key = max(start for start in starts if start <= first)
        assert length in found[str(key)]["candidate_steps"]
    assert found[str(starts[-1])] == {"candidate_steps": [0]}  # drafting loses at the largest batches
    assert max(len(one["candidate_steps"]) for one in found.values()) > 1  # the counts leave some open
