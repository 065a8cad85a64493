"""The commands that measure a large check run on small ones and print one line per result; no times are compared."""

from __future__ import annotations

import re
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner

from validation.benchmarks import scale
from validation.claims.check import check_trace
from validation.claims.cluster import LOCAL, on_scheduler
from validation.trace.synthetic import SyntheticTrace


def lines(*words: str) -> list[str]:
    done = CliRunner().invoke(scale.main, list(words), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output.splitlines()


def test_memory_is_printed_at_each_doubling_and_a_stopped_stream_goes_on(tmp_path: Path) -> None:
    words = ("memory", "--positions", "5000", "--vocabulary", "30", "--kept", str(tmp_path / "kept"))
    stopped = lines(*words, "--seconds", "0")
    assert any(line.startswith("stopped after 0 s at 256 of 5,000") for line in stopped)
    found = lines(*words)
    counts = [int(line.split()[0].replace(",", "")) for line in found if line.endswith(" s")]
    assert len(counts) == 3
    assert all(2 * one <= other for one, other in pairwise(counts))
    assert all(re.search(r"peak \d+\.\d MB", line) for line in found[:-1])
    last = re.fullmatch(r"memory from 2,560 to 5,000 positions of V = 30: (.*) to (.*) times the first", found[-1])
    assert last
    assert float(last[1]) <= 1.0 <= float(last[2]) < 2.0


def test_the_cost_of_each_module_and_of_the_dearest_claims() -> None:
    found = lines("modules", "--rows", "8", "--repeats", "1", "--vocabulary", "20")
    assert [line.split()[0] for line in found[-2:]] == ["shared", "in"]
    assert {line.split()[0] for line in found[:-2]} == {name.split(".")[0] for name in scale.streamed()}
    assert len(lines("claims", "--rows", "8", "--repeats", "1", "--vocabulary", "20", "--first", "3")) == 3


@pytest.mark.skipif(find_spec("distributed") is None, reason="dask.distributed comes with the extra scale")
def test_workers_make_the_trace_that_they_check() -> None:
    few = {"verification.tokens": scale.streamed()["verification.tokens"]}
    trace = SyntheticTrace(700, 30)
    alone, sent = (check_trace(trace, claims=few, parts=parts) for parts in (None, on_scheduler(LOCAL, 1)))  # type: ignore[arg-type]
    assert alone.tallies == sent.tallies
    assert alone.summary == sent.summary
    assert SyntheticTrace.at(trace.path) == trace
