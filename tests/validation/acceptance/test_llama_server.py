"""Three outputs of one llama.cpp server for the same 20 requests: its answers, its log and its metrics."""

from __future__ import annotations

from pathlib import Path

import pytest

from validation.acceptance.engines import Reading, read_acceptance

FOLDER = Path(__file__).parent / "llama_server"


@pytest.fixture(scope="module")
def read() -> dict[str, Reading]:
    return {name: read_acceptance(FOLDER / name) for name in ("answers.json", "log.txt", "metrics.txt")}


def total(reading: Reading, field: str) -> int:
    return sum(getattr(record, field) for record in reading.records)


def test_each_request_is_read_or_named_and_all_count_the_same_accepted_drafts(read):
    assert {total(reading, "num_accepted_draft_tokens") for reading in read.values()} == {119}
    assert [len(reading.records) + len(reading.left_out) for reading in read.values()] == [20, 17, 1]
    assert ["nothing was drafted" in one.reason for one in read["answers.json"].left_out] == [True] * 3
    (silent,) = read["log.txt"].left_out
    assert "0 of 18 drafts were accepted" in silent.reason


def test_the_log_and_the_metrics_agree_by_position_and_the_log_lacks_one_request(read):
    (metrics,) = read["metrics.txt"].records
    log = [record.accepted_per_position for record in read["log.txt"].records]
    assert tuple(map(sum, zip(*log, strict=True))) == metrics.accepted_per_position == (75, 28, 16)
    assert metrics.num_draft_tokens == total(read["log.txt"], "num_draft_tokens") + 18
    # 18 drafts of at most three: the request that accepted none took six steps or more
    assert metrics.num_spec_steps - total(read["log.txt"], "num_spec_steps") == 6
    assert 75 / total(read["log.txt"], "num_spec_steps") > 75 / metrics.num_spec_steps + 0.009

    # the answers count the steps that drafted nothing too: at most one a request, where one token is left to emit
    assert 0 <= total(read["answers.json"], "num_spec_steps") - metrics.num_spec_steps <= 17
