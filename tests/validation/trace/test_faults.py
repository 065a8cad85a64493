"""Killed, interrupted, locked, out of space: stored data stays, and the message gives the remedy."""

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zlib
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.validation.stored_traces import forged, random_fields
from validation.collection.fingerprint import finished_trace
from validation.errors import UserError
from validation.trace import journal, writer
from validation.trace import zarr_store as chunk_files
from validation.trace.journal import JOURNAL, LOCK, Lock, read_journal, write_atomically
from validation.trace.reader import ARRAYS, Trace, TraceWriter, open_trace

V = 5
SETTINGS = {"seed": 1}
POSIX = pytest.mark.skipif(os.name != "posix", reason="the lock and the limits are those of POSIX")


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(chunk_files, "LOGIT_ROWS", 4)
    monkeypatch.setattr(chunk_files, "INDEX_ROWS", 8)


def rows(number: int) -> dict[str, Any]:
    return random_fields(5 + 3 * (number % 4), number, V)


def collect(path: Path, batches: int = 5, **options: Any) -> None:
    with TraceWriter(path, V, {"note": "x"}, **({"settings": SETTINGS} | options)) as writer:
        for number in range(writer.state.get("batches", 0), batches):
            writer.append(**rows(number))
            writer.commit({"batches": number + 1})


def whole(trace: Trace, batches: int = 5) -> bool:
    pieces = [rows(number) for number in range(batches)]
    return all(np.array_equal(trace.arrays[name], np.concatenate([p[name] for p in pieces])) for name in ARRAYS)


def contents(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("arrays/**/*") if file.is_file()}


class Killed(BaseException):
    """Raised in place of SIGKILL if the process must go on."""


def kill_at(monkeypatch: pytest.MonkeyPatch, wanted: int, after: bool) -> list[int]:
    seen = [0]
    sync = os.fsync

    def counted(handle: int) -> None:
        seen[0] += 1
        if seen[0] > wanted or (seen[0] == wanted and not after):
            raise Killed
        sync(handle)
        if seen[0] == wanted:
            raise Killed

    monkeypatch.setattr(journal.os, "fsync", counted)
    return seen


def test_a_crash_at_every_single_step_is_survived(tmp_path, monkeypatch):
    collect(tmp_path / "whole", batches=2)
    with pytest.MonkeyPatch.context() as patch:
        seen = kill_at(patch, 10**9, after=False)
        collect(tmp_path / "counted", batches=2)
    assert whole(open_trace(tmp_path / "counted", verify=True), 2)
    monkeypatch.setattr(writer, "clear", lambda path: None)  # a killed process clears nothing
    for step in range(1, seen[0] + 1):
        path = tmp_path / "t"
        with pytest.MonkeyPatch.context() as patch:
            kill_at(patch, step, after=bool(step % 2))
            with pytest.raises(Killed):
                collect(path, batches=2)
        stored = read_journal(path).rows if path.exists() and (path / JOURNAL).stat().st_size else 0
        if stored:
            found = open_trace(path, partial=True)
            assert found.positions == stored
            assert np.array_equal(found.arrays["target_logits"][:5], rows(0)["target_logits"])
        if not (path / "manifest.json").exists() or not read_journal(path).finished:
            collect(path, batches=2)
        assert whole(open_trace(path, verify=True), 2)
        assert contents(path) == contents(tmp_path / "whole")
        shutil.rmtree(path)


KILLED = """
import sys
from pathlib import Path
from tests.validation.trace import test_faults as faults
faults.chunk_files.LOGIT_ROWS, faults.chunk_files.INDEX_ROWS = 4, 8
faults.collect(Path(sys.argv[1]), batches=60)
"""


@POSIX
def test_rounds_of_kill_9(tmp_path):
    path, rng = tmp_path / "t", np.random.default_rng(7)

    def lines():
        return (path / JOURNAL).read_bytes().count(b"\n") if (path / JOURNAL).exists() else 0

    for _ in range(3):
        before = lines()
        with subprocess.Popen([sys.executable, "-c", KILLED, str(path)], cwd=Path(__file__).parents[3]) as child:
            while child.poll() is None and lines() <= max(before, 1):
                time.sleep(0.01)
            time.sleep(rng.uniform(0, 0.1))
            child.kill()
    collect(path, batches=60)
    assert whole(open_trace(path, verify=True), 60)


def test_an_unfinished_trace_says_so_and_can_be_read_in_part(tmp_path):
    interrupted(tmp_path / "t", batches=2)
    message = r"The trace at .*t is not finished: 13 positions are stored; run the command that wrote it again"
    with pytest.raises(UserError, match=message):
        open_trace(tmp_path / "t")
    trace = open_trace(tmp_path / "t", partial=True, verify=True)
    assert (trace.positions, trace.finished) == (13, False)
    assert whole(trace, 2)
    assert np.array_equal(
        trace.arrays["tokens"][[12, 0]], np.concatenate([rows(0)["tokens"], rows(1)["tokens"]])[[12, 0]]
    )
    assert sum(len(chunk.tokens) for chunk in trace.chunks(3)) == 13
    collect(tmp_path / "t")
    assert whole(open_trace(tmp_path / "t", verify=True))


def interrupted(path: Path, batches: int) -> None:
    with suppress(KeyboardInterrupt), TraceWriter(path, V, settings=SETTINGS) as writer:
        for number in range(batches):
            writer.append(**rows(number))
            writer.commit({"batches": number + 1})
        writer.append(**rows(batches))
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    "garbage", [b'{"n":3,"rows"', b"\0" * 700, b"not a line\n", b'{"n":3,"rows":9,"crc":"00000000"}\n']
)
def test_a_torn_line_of_the_journal_is_cut(tmp_path, garbage):
    interrupted(tmp_path / "t", batches=2)
    with (tmp_path / "t" / JOURNAL).open("ab") as file:
        file.write(garbage)
    with pytest.raises(UserError, match=r"not finished \(line 4 of its journal is torn or damaged\): 13 positions"):
        open_trace(tmp_path / "t")
    collect(tmp_path / "t")
    assert whole(open_trace(tmp_path / "t", verify=True))
    assert read_journal(tmp_path / "t").dropped is None


def test_the_last_commit_is_dropped_when_its_line_is_damaged(tmp_path):
    interrupted(tmp_path / "t", batches=2)
    file = tmp_path / "t" / JOURNAL
    file.write_bytes(file.read_bytes()[:-9] + b"x" + file.read_bytes()[-8:])
    with pytest.raises(
        UserError, match=r"tail-1\.npz is missing \(tail-1\.npz\); restore it from a copy, or .* --fresh"
    ):
        collect(tmp_path / "t")
    collect(tmp_path / "t", fresh=True)
    assert whole(open_trace(tmp_path / "t", verify=True))


def test_a_committed_file_that_is_damaged_is_not_continued(tmp_path):
    interrupted(tmp_path / "t", batches=2)
    tail = tmp_path / "t" / "tail-2.npz"
    tail.write_bytes(tail.read_bytes()[:-1] + b"?")
    with pytest.raises(UserError, match=r"tail-2\.npz is damaged: the rows after the last whole chunk does not match"):
        collect(tmp_path / "t")
    (tmp_path / "t" / "arrays" / "draft_logits" / "c.1.0").unlink()
    with pytest.raises(UserError, match=r"c\.1\.0 is missing \(chunk 1 of draft_logits\)"):
        collect(tmp_path / "t")
    assert read_journal(tmp_path / "t").rows == 13


def test_other_settings_are_refused(tmp_path):
    interrupted(tmp_path / "t", batches=2)
    message = r"unfinished trace of other settings lies at .* \(seed: 1 there, 2 now\); use those, .* with --fresh"
    with pytest.raises(UserError, match=message):
        collect(tmp_path / "t", settings={"seed": 2})
    with pytest.raises(UserError, match=r"\(dtype: float16 there, float32 now\)"):
        collect(tmp_path / "t", dtype="float32")
    with pytest.raises(UserError, match=r"An unfinished trace lies at .*; remove it or choose another path"):
        collect(tmp_path / "t", settings=None)
    assert read_journal(tmp_path / "t").rows == 13
    collect(tmp_path / "t", settings={"seed": 2}, fresh=True)
    assert open_trace(tmp_path / "t").manifest["settings"] == {"seed": 2}


def test_what_is_no_trace_is_left_alone(tmp_path):
    (tmp_path / "diary.txt").write_text("mine")
    for fresh in (False, True):
        with pytest.raises(UserError, match="Something other than a trace lies at"):
            collect(tmp_path, fresh=fresh)
    assert [file.name for file in tmp_path.iterdir()] == ["diary.txt"]
    with pytest.raises(UserError, match=r"diary\.txt.* cannot be made"):
        collect(tmp_path / "diary.txt" / "t")
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "manifest.json").write_text('{"format": "hlm-trace", "version": 1}')
    message = (
        r"A trace without a journal lies at .*old, which cannot be continued; choose another path, .* with --fresh"
    )
    with pytest.raises(UserError, match=message):
        collect(tmp_path / "old")


def tree(path: Path) -> dict[str, str]:
    found = {str(file.relative_to(path)): file for file in path.rglob("*")}
    return {name: os.readlink(f) if f.is_symlink() else f.read_text() for name, f in found.items() if not f.is_dir()}


@pytest.mark.parametrize("manifest", ["{}", "{", '{"name": "my app", "version": 1}', '["hlm-trace"]', "hlm-trace"])
def test_fresh_deletes_nothing_where_the_manifest_is_anothers(tmp_path, manifest):
    for name in ("manifest.json", "tokens.npy", "tail-1.npz", "arrays/tokens/c.0", "arrays/mine.txt"):
        (tmp_path / "t" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "t" / name).write_text(manifest if name == "manifest.json" else "mine")
    before = tree(tmp_path)
    for fresh in (False, True):
        message = r"Something other than a trace lies at .*t \(manifest\.json is not that of a trace\)"
        with pytest.raises(UserError, match=message):
            collect(tmp_path / "t", fresh=fresh)
    (tmp_path / "t" / JOURNAL).write_text('{"level": "info"}\n')
    with pytest.raises(UserError, match=r"Something other .*journal\.jsonl is not that of a trace"):
        collect(tmp_path / "t", fresh=True)
    assert tree(tmp_path) == before | {"t/journal.jsonl": '{"level": "info"}\n'}


FOREIGN = ("notes.md", "tail-of-the-comet.npz", "tokens.npy", "figures/a.svg", "arrays/mine.txt", "arrays/tokens/b")


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("fresh", [True, False])
def test_other_files_in_the_folder_of_a_trace_stay(tmp_path, finished, fresh):
    path = tmp_path / "t"
    if finished:
        collect(path, settings={"seed": 0})
    else:
        interrupted(path, batches=2)
    for name in FOREIGN:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text("mine")
    if finished and not fresh:
        with pytest.raises(UserError, match="finished trace"):
            collect(path)
        assert finished_trace(path, {"seed": 0}) is not None
    else:
        collect(path, fresh=fresh)
        assert whole(open_trace(path, verify=True))
    assert all((path / name).read_text() == "mine" for name in FOREIGN)
    writer.clear(path)
    assert sorted(tree(path)) == sorted(FOREIGN)


@POSIX
def test_a_file_called_lock_that_is_anothers_stays(tmp_path):
    (tmp_path / "lock").write_text("combination: 7-15-22")
    with pytest.raises(UserError, match="lock is not a lock of this program and would be overwritten"):
        collect(tmp_path)
    assert tree(tmp_path) == {"lock": "combination: 7-15-22"}


@pytest.mark.parametrize("name", ["../victim.npz", "../../victim.npz", "/tmp/victim.npz", "arrays/../../victim.npz", 7])
@pytest.mark.parametrize("field", ["tail", "files"])
def test_a_journal_that_names_files_outside_the_trace_is_refused(tmp_path, field, name):
    path = tmp_path / "a" / "t"
    interrupted(path, batches=2)
    victims = [tmp_path / "victim.npz", tmp_path / "a" / "victim.npz"]
    for victim in victims:
        shutil.copy(path / "tail-2.npz", victim)
    content = victims[0].read_bytes()
    files = {str(name): (len(content), zlib.crc32(content))}
    forged(path, files=files, **({"tail": name} if field == "tail" else {}))
    for action in (open_trace, partial(open_trace, partial=True), collect, partial(finished_trace, settings=SETTINGS)):
        with pytest.raises(UserError, match=r"names .*, which no trace holds; do not use this trace"):
            action(path)
    collect(path, fresh=True)
    assert whole(open_trace(path, verify=True))
    assert [victim.read_bytes() for victim in victims] == [content] * 2


@POSIX
@pytest.mark.parametrize(
    "name", ["arrays", "arrays/tokens", "arrays/tokens/c.9", "tail-3.npz", "tail-2.npz", "lock", "journal.jsonl"]
)
@pytest.mark.parametrize("fresh", [True, False])
def test_a_link_in_a_trace_is_not_followed(tmp_path, name, fresh):
    path, outside = tmp_path / "t", tmp_path / "outside"
    interrupted(path, batches=2)
    if (path / name).exists():
        (path / name).rename(outside)
    else:
        outside.write_text("mine")
    (path / name).symlink_to(outside)
    before = {str(f): f.read_bytes() for f in (outside, *outside.rglob("*")) if f.is_file()}
    with pytest.raises(UserError, match=rf"{re.escape(name)} is a link to .*outside, which is never followed"):
        collect(path, fresh=fresh)
    if name != "lock":
        with pytest.raises(UserError, match="is never followed"):
            open_trace(path, partial=True)
    assert {str(f): f.read_bytes() for f in (outside, *outside.rglob("*")) if f.is_file()} == before


@POSIX
def test_a_second_writer_is_refused_and_told_who_writes(tmp_path):
    message = rf"Another process \(pid {os.getpid()}\) is writing .*t; wait for it, stop it, or choose another folder"
    with TraceWriter(tmp_path / "t", V, settings=SETTINGS) as writer:
        for fresh in (False, True):
            with pytest.raises(UserError, match=message):
                collect(tmp_path / "t", fresh=fresh)
        writer.append(**rows(0))
    assert open_trace(tmp_path / "t", verify=True).positions == 5


@POSIX
def test_a_lock_whose_file_its_holder_has_just_removed_is_taken_anew(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")
    real, between = fcntl.flock, iter([(tmp_path / LOCK).unlink])
    monkeypatch.setattr(fcntl, "flock", lambda *given: next(between, lambda: None)() or real(*given))
    with Lock(tmp_path):
        assert (tmp_path / LOCK).read_text() == f"{os.getpid()}\n"


@POSIX
def test_the_lock_dies_with_its_holder(tmp_path):
    code = f"import time, pathlib; from validation.trace.journal import Lock\nLock(pathlib.Path({str(tmp_path)!r}))"
    code += ".__enter__(); print('held', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(UserError, match=rf"pid {holder.pid}\)"), Lock(tmp_path):
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    with Lock(tmp_path):
        assert (tmp_path / LOCK).read_text() == f"{os.getpid()}\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            errno.ENOSPC,
            r"The disk is full while writing .*t; what was stored before \(13 positions\) is safe; free some",
        ),
        (errno.EDQUOT, r"The disk is full while writing .*t; what was stored before \(13 positions\) is safe"),
        (errno.EFBIG, r"A file of .*t would be larger than is allowed here; what .* raise the limit \(ulimit -f\)"),
        (
            errno.EIO,
            r"Writing .*t failed \(Input/output error\); what was stored before \(13 positions\) is safe; choose",
        ),
    ],
)
@pytest.mark.parametrize("place", ["chunk", "journal"])
def test_a_failed_write(tmp_path, monkeypatch, code, message, place):
    interrupted(tmp_path / "t", batches=2)
    before = (tmp_path / "t" / JOURNAL).read_bytes()
    sync = os.fsync

    def fail(handle):
        name = os.path.basename(os.readlink(f"/proc/self/fd/{handle}")) if Path("/proc/self/fd").exists() else JOURNAL
        if (name == JOURNAL) == (place == "journal"):
            raise OSError(code, os.strerror(code))
        sync(handle)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal.os, "fsync", fail)
        with pytest.raises(UserError, match=message):
            collect(tmp_path / "t")
    assert (tmp_path / "t" / JOURNAL).read_bytes() == before
    assert open_trace(tmp_path / "t", partial=True, verify=True).positions == 13
    collect(tmp_path / "t")
    assert whole(open_trace(tmp_path / "t", verify=True))


def test_nothing_is_committed_after_a_failed_write(tmp_path):
    def fail(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    with TraceWriter(tmp_path / "t", V, settings=SETTINGS, finish=False) as writer:
        writer.append(**rows(0))
        writer.commit({"batches": 1})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(chunk_files, "write_durably", fail)
            with pytest.raises(UserError, match="disk is full"):
                writer.append(**rows(1))
        with pytest.raises(UserError, match="disk is full"):
            writer.commit({"batches": 2})
    assert read_journal(tmp_path / "t").rows == 5
    collect(tmp_path / "t")
    assert whole(open_trace(tmp_path / "t", verify=True))


def test_a_text_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    file = tmp_path / "report.html"
    write_atomically(file, "old")
    with pytest.MonkeyPatch.context() as patch:
        kill_at(patch, 1, after=False)
        with pytest.raises(Killed):
            write_atomically(file, "new")
    assert file.read_text() == "old"
    write_atomically(file, "new")
    assert file.read_text() == "new"
    assert [found.name for found in tmp_path.iterdir()] == ["report.html"]
