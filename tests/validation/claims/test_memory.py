"""The check's memory does not grow with the trace, measured on a trace that is generated while it is read."""

import tracemalloc

import hlmtheory
from validation.claims import check
from validation.claims.check import check_trace
from validation.trace.reader import SyntheticTrace

FIRST = {"verification.overlap", "truncation.certificate"}
NARROW = 1000


def peak(positions: int) -> int:
    claims = {name: claim for name, claim in hlmtheory.all_claims().items() if name in FIRST}
    tracemalloc.start()
    try:
        check_trace(SyntheticTrace(positions, NARROW), claims=claims)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_eight_times_the_positions_take_no_more(monkeypatch):
    monkeypatch.setattr(check, "workers_in_memory", lambda vocabulary: 2)
    short = 4 * check.block_rows(NARROW)  # the largest number of blocks in flight
    peak(short)  # what is made once, such as imports
    most = max(peak(short) for _ in range(3))  # how many are in flight depends on the machine
    assert peak(8 * short) < 1.25 * most + 2**20
