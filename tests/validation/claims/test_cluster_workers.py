"""Workers that pause, join late, end again and again, or read a store: the same results, or one sentence."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.validation.claims.dask_processes import (
    CLAIMS,
    LIMIT_S,
    another_version,
    found,
    free_port,
    joined,
    same,
    scheduler,
    until,
    with_workers,
    work_of,
    worker,
)
from tests.validation.command_line import one_sentence, run
from tests.validation.stored_traces import stored
from tests.validation.trace.store_stand_in import KEY, Bucket, access, bucket
from validation.claims import check, cluster
from validation.claims.check import Results
from validation.claims.cluster import parts_of_cluster
from validation.errors import UserError
from validation.trace import remote
from validation.trace.reader import Trace

pytestmark = [
    pytest.mark.skipif(find_spec("distributed") is None, reason="dask.distributed comes with the extra scale"),
    pytest.mark.skipif(find_spec("obstore") is None, reason="obstore comes with the extra remote"),
    pytest.mark.skipif(os.name != "posix", reason="sends signals"),
    # dask's client leaves tasks behind when its connection breaks
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
MEMORY = {
    "DASK_DISTRIBUTED__WORKER__MEMORY__PAUSE": "0.5",
    "DASK_DISTRIBUTED__WORKER__MEMORY__TARGET": "False",
    "DASK_DISTRIBUTED__WORKER__MEMORY__SPILL": "False",
    "DASK_DISTRIBUTED__WORKER__MEMORY__TERMINATE": "False",
    "DASK_DISTRIBUTED__WORKER__MEMORY__MONITOR_INTERVAL": "50ms",
}
"""A worker pauses at half of its limit, and nothing else happens for its memory."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("dask")


@pytest.fixture(scope="module")
def store() -> Iterator[Bucket]:
    with bucket() as server:
        yield server


@pytest.fixture(scope="module")
def address(folder: Path, store: Bucket) -> Iterator[str]:
    """A scheduler with two workers; a nanny starts each again. They have a key each for the store."""
    port = free_port()
    where = f"tcp://127.0.0.1:{port}"
    limit = ("--memory-limit", "800MB")
    one, other = (MEMORY | access(store.address, f"{KEY}-{number}") for number in (1, 2))
    with scheduler(folder, port), worker(folder, where, *limit, **one), worker(folder, where, *limit, **other):
        yield where


@pytest.fixture(autouse=True)
def ready(folder: Path, address: str) -> Iterator[None]:
    """Let both workers be there, and take all orders back afterwards."""
    with_workers(address, 2)
    yield
    for pattern in ("hold", "together", "die-*", "died-*", "did-*", "began-*", "pause*"):
        for file in folder.glob(pattern):
            file.unlink()  # a worker that has paused frees its memory


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trace]:
    """320 positions in ten blocks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(check, "BLOCK_ROWS", 32)
        yield stored(tmp_path_factory.mktemp("traces") / "trace")


@pytest.fixture(scope="module")
def expected(trace: Trace) -> Results:
    return found(trace)


# --------------------------------------------------------------------------------------------- workers that pause


def test_a_worker_that_pauses_while_another_works_changes_nothing(
    trace: Trace, expected: Results, address: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "together").touch()  # both have a part
    (folder / "pause-one").touch()
    (folder / "pause-first").touch()  # the other has work until one has paused with a part that it has not begun
    parts = parts_of_cluster(work_of(trace), CLAIMS, 0, address)
    next(parts)
    monkeypatch.setattr(cluster, "STALLED_S", 1.0)
    assert len([*parts]) == len(work_of(trace)) - 1
    assert len([*folder.glob("paused-*")]) == 1
    assert same(found(trace, scheduler=address), expected)


def test_workers_that_have_all_paused_are_one_sentence(
    trace: Trace, address: str, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (folder / "pause").touch()
    parts = parts_of_cluster(work_of(trace), CLAIMS, 0, address)
    next(parts)
    until(lambda: len([*folder.glob("paused-*")]) == 2, "both pauses")
    monkeypatch.setattr(cluster, "STALLED_S", 1.0)
    said = (
        "All 2 workers of .* have paused for 1 s, because their memory is nearly full; give each more memory "
        r"\(--memory-limit\) or fewer threads, and the same command continues from what is stored."
    )
    with pytest.raises(UserError, match=said):
        list(parts)
    words = ("validate", "--trace", trace.path, "--out", tmp_path / "run", "-q", "--scheduler", address)
    one_sentence(run(*words), "All 2 workers of", "have paused for 1 s")


# ----------------------------------------------------------------------------------------- workers that join late


def late_part(folder: Path, first: set[str]) -> bool:
    """Return whether a worker has a part done that is not one of the first."""
    return bool({file.name.split("-")[1] for file in folder.glob("did-*")} - first)


@contextmanager
def checked_by_two_at_first(trace: Trace, address: str, folder: Path, **late: str) -> Iterator[Future[Results]]:
    """A check whose two workers wait until a third, which joins late, has done a part."""
    (folder / "hold").touch()
    with ThreadPoolExecutor(1) as thread:
        try:
            checked = thread.submit(found, trace, scheduler=address)
            until(lambda: len([*folder.glob("began-*")]) == 2, "parts on both workers")
            first = {file.name.split("-")[1] for file in folder.glob("began-*")}
            with joined(folder, address, TEST_LATE="1", **late):
                until(lambda: late_part(folder, first), "a part of the late worker")
                (folder / "hold").unlink()
                yield checked
        finally:
            (folder / "hold").unlink(missing_ok=True)


def test_a_worker_that_joins_late_is_used(trace: Trace, expected: Results, address: str, folder: Path) -> None:
    with checked_by_two_at_first(trace, address, folder) as checked:
        assert same(checked.result(LIMIT_S), expected)


def test_a_late_worker_with_another_version_is_refused_at_its_first_block(
    trace: Trace, address: str, folder: Path, tmp_path: Path
) -> None:
    another_version(tmp_path)
    with (
        checked_by_two_at_first(trace, address, folder, PYTHONPATH=str(tmp_path)) as checked,
        pytest.raises(UserError) as refused,
    ):
        checked.result(LIMIT_S)
    assert str(refused.value) == (
        "A worker that joined later has another source of hlmtheory; update it, and the same command continues from "
        "what is stored."
    )


# ----------------------------------------------------------------------------------------------- workers that end


def test_parts_that_a_worker_had_done_when_it_was_killed_are_computed_again(
    trace: Trace, expected: Results, address: str, folder: Path
) -> None:
    (folder / "together").touch()  # both have a part
    killed = []

    def kill(done: int, total: int, text: str) -> None:
        if not killed:
            until(lambda: len([*folder.glob("did-*")]) >= 5, "the parts in flight")  # one is taken, four are not
            last = max(folder.glob("did-*"), key=lambda file: int(file.name.split("-")[2]))
            killed.append(last)
            os.kill(int(last.name.split("-")[1]), signal.SIGKILL)

    assert same(found(trace, scheduler=address, progress=kill), expected)
    assert killed


def test_workers_that_end_more_than_once_on_one_part_are_named(trace: Trace, address: str, folder: Path) -> None:
    (folder / "die-1").touch()
    with pytest.raises(UserError) as refused:
        found(trace, scheduler=address)
    assert len([*folder.glob("died-*")]) == 2
    assert re.match(rf"2 workers of {address} ended while computing part \d, as workers do that", str(refused.value))
    assert "give each more memory (--memory-limit) or fewer threads, and the same command" in str(refused.value)


# ------------------------------------------------------------------------------------------------ traces in a store


def test_each_worker_reads_the_store(
    trace: Trace, expected: Results, address: str, folder: Path, store: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in access(store.address, KEY).items():
        monkeypatch.setenv(name, value)
    remote._store.cache_clear()
    there = stored("s3://bucket/mine/trace")  # type: ignore[arg-type]
    (folder / "together").touch()
    store.readers.clear()
    assert same(found(there, scheduler=address), expected)
    chunks = {who: {path for path in paths if "/c." in path} for who, paths in store.readers.items()}
    assert chunks.pop(KEY, set()) == set()  # the client reads no row
    assert chunks.keys() == {f"{KEY}-1", f"{KEY}-2"}
    assert all(chunks.values())
    remote._store.cache_clear()
