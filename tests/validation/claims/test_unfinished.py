"""A stopped check continues where it stopped, and Ctrl-C does not wait for workers."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.validation.stored_traces import stored
from validation import provenance
from validation.claims import check, progress
from validation.claims.check import Results, check_trace
from validation.trace.reader import Trace

ROOT = Path(__file__).resolve().parents[3]
CLAIMS = ("verification.tokens", "truncation.softplus", "codec.round_trip", "draft_length.regret", "skipping.sequence")


@pytest.fixture
def trace(tmp_path, monkeypatch):
    monkeypatch.setattr(check, "BLOCK_ROWS", 32)
    monkeypatch.setattr(progress, "EVERY_S", 0.0)
    return stored(tmp_path / "trace")


def found(trace: Trace, **more: Any) -> Results:
    known = check.hlmtheory.all_claims()
    return check_trace(trace, claims={name: known[name] for name in CLAIMS if name in known}, **more)


def stopped(trace: Trace, kept: Path, after: int, **more: Any) -> None:
    seen = [0]

    def press(done: int, total: int, text: str) -> None:
        seen[0] += 1
        if seen[0] == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        found(trace, kept=kept, progress=press, **more)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    done: list[str] = []
    for name in ("_check_scenario", "_check_block"):
        real = getattr(check, name)
        monkeypatch.setattr(check, name, lambda *given, real=real, name=name: done.append(name) or real(*given))
    return done


def same(one: Results, other: Results) -> bool:
    return asdict(one) | {"seconds": 0} == asdict(other) | {"seconds": 0}


@pytest.mark.parametrize("after", [1, 4, 9])
def test_a_stopped_check_goes_on_and_finds_the_same(trace, tmp_path, monkeypatch, after):
    whole = found(trace)
    stopped(trace, tmp_path / "kept", after)
    done = counted(monkeypatch)
    assert same(found(trace, kept=tmp_path / "kept"), whole)
    again = len(done)
    done.clear()
    assert same(found(trace), whole)
    assert again == len(done) - after
    done.clear()
    assert same(found(trace, kept=tmp_path / "kept"), whole)  # a finished check is not repeated
    assert done == []


def test_ctrl_c_in_the_middle_of_a_part_counts_nothing_twice(trace, tmp_path):
    seen, real = [0], check.Tally.add

    def press(self, verdict):
        seen[0] += 1
        if seen[0] == 8:
            raise KeyboardInterrupt
        real(self, verdict)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(check.Tally, "add", press)
        with pytest.raises(KeyboardInterrupt):
            found(trace, kept=tmp_path / "kept")
    assert same(found(trace, kept=tmp_path / "kept"), found(trace))


def test_another_seed_trace_or_code_starts_from_the_beginning(trace, tmp_path, monkeypatch):
    kept = tmp_path / "kept"
    assert same(found(trace, kept=kept, seed=2), found(trace, seed=2))
    assert same(found(trace, kept=kept), found(trace))
    other = stored(tmp_path / "other", seed=5)
    assert same(found(other, kept=kept), found(other))
    source = tmp_path / "source"
    for name in ("hlmtheory/a.py", "validation/b.py"):
        (source / name).parent.mkdir(parents=True)
        (source / name).write_text("x = 1\n")
    marks = [progress.mark_of(trace, CLAIMS, {})]
    monkeypatch.setattr(provenance, "SOURCE", source)
    marks.append(progress.mark_of(trace, CLAIMS, {}))
    (source / "hlmtheory" / "a.py").write_text("x = 2\n")
    marks += [progress.mark_of(trace, CLAIMS, {}), progress.mark_of(trace, CLAIMS[1:], {})]
    marks.append(progress.mark_of(trace, CLAIMS, {"seed": 2}))
    assert len(set(marks)) == len(marks)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"mark": 1}', "[" * 100_000])
def test_a_file_that_cannot_be_read_is_none(trace, tmp_path, content):
    (tmp_path / "kept").write_text(content)
    assert same(found(trace, kept=tmp_path / "kept"), found(trace))
    assert json.loads((tmp_path / "kept").read_text())["parts"] > 0
