"""What other planners take: acceptance length with an interval, ``nextn_accepted``, SGLang's configuration."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from validation.acceptance.planners import acceptance_length, adaptive_config, mean_over, nextn_of
from validation.acceptance.record import AcceptanceRecord
from validation.acceptance.summary import RoundTimes, summarise
from validation.cli.commands import main
from validation.errors import UserError

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


def test_totals_of_one_record_have_no_interval():
    totals = AcceptanceRecord(engine="llama.cpp", source="a", num_spec_steps=10, num_accepted_draft_tokens=5)
    length = acceptance_length([totals], summary := summarise([totals]), 0.95)
    assert (length.value, length.low, nextn_of(summary, length)) == (1.5, None, ())
    many = acceptance_length([totals] * 20, summarise([totals] * 20), 0.95)
    assert many.low == many.value == many.high  # twenty equal requests


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


def test_the_adaptive_configuration_needs_times_and_a_gain():
    with pytest.raises(UserError, match="needs the times of a round"):
        adaptive_config(summarise([record({1: (5, 5)})]), None)
    slow = RoundTimes(verify=0.02, draft=3.0)
    with pytest.raises(UserError, match="does not pay for any batch size"):
        adaptive_config(summarise([record({1: (5, 5)})], times=slow, largest_batch=4), slow)


def test_what_the_command_prints(tmp_path):
    path, file = tmp_path / "a.json", tmp_path / "adaptive.json"
    content = {"num_spec_steps": 1000, "num_accepted_draft_tokens": 1500, "num_draft_tokens": 3000}
    content["acceptance_histogram_by_draft_length"] = {"3": [270, 260, 170, 300]}
    path.write_text(json.dumps({"metrics": {"speculative_decoding": content}}))
    times = ("--verify-ms", "20", "--draft-ms", "3", "--verify-us-per-token", "2000", "--batch", "40")
    result = CliRunner().invoke(main, ["acceptance", str(path), *times, "--sglang", str(file)])
    assert "Acceptance length of the recorded steps: 2.5000 (2.27" in result.output
    assert "For AIConfigurator and AISimulate: nextn = 3, nextn_accepted = 1.5000 (1.27" in result.output
    assert "1" in json.loads(file.read_text())
    found = json.loads(CliRunner().invoke(main, ["acceptance", str(path), "--json"]).stdout)["nextn"]
    assert [one["nextn"] for one in found] == [1, 2, 3]
