"""A check on dask's workers gives the results of one process, or one sentence. Every process here is a real one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from tests.validation.claims.dask_processes import found, free_port, killing, same, scheduler, with_workers, worker
from tests.validation.command_line import run
from tests.validation.stored_traces import stored
from validation import workers
from validation.claims import check, progress
from validation.errors import UserError
from validation.trace.reader import Trace, open_trace

pytestmark = [
    pytest.mark.skipif(find_spec("distributed") is None, reason="dask.distributed comes with the extra scale"),
    pytest.mark.skipif(os.name != "posix", reason="sends signals"),
    # dask's client leaves tasks behind when its connection breaks
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("dask")


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """A scheduler with two workers."""
    port = free_port()
    where = f"tcp://127.0.0.1:{port}"
    with scheduler(folder, port), worker(folder, where), worker(folder, where):
        with_workers(where, 2)
        yield where


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trace:
    """320 positions in ten blocks; every finished part is stored."""
    monkeypatch.setattr(check, "BLOCK_ROWS", 32)
    monkeypatch.setattr(progress, "EVERY_S", 0.0)
    return stored(tmp_path / "trace")


# ------------------------------------------------------------------------------------------------ what is found


def test_workers_find_what_one_process_finds(trace: Trace, address: str) -> None:
    seen: list[tuple[int, int, str]] = []
    assert same(found(trace, scheduler=address, progress=lambda *at: seen.append(at)), found(trace))
    assert seen[0] == (1, 3, "checking the simulated claims")
    assert seen[-1] == (320, 320, "checking the claims")


def test_a_stopped_check_goes_on_with_or_without_workers(trace: Trace, address: str, tmp_path: Path) -> None:
    def press(done: int, total: int, text: str) -> None:
        if done == 96:
            raise KeyboardInterrupt

    kept = tmp_path / "kept"
    with pytest.raises(KeyboardInterrupt):
        found(trace, kept=kept, scheduler=address, progress=press)
    seen: list[int] = []
    assert same(found(trace, kept=kept, progress=lambda done, *_: seen.append(done)), found(trace))
    assert seen[0] == 128
    assert same(found(trace, kept=kept, scheduler="tcp://127.0.0.1:1"), found(trace))  # nothing is left to ask


# ---------------------------------------------------------------------------------------------- what goes wrong


def test_a_worker_killed_while_it_computes_changes_nothing(trace: Trace, address: str, folder: Path) -> None:
    with worker(folder, address), killing(folder):
        assert same(found(trace, scheduler=address), found(trace))
    assert not [*folder.glob("stall*")]  # a worker was killed


@pytest.mark.parametrize("what", ["numpy", "processor"])
def test_a_worker_that_differs_is_refused_before_work_is_sent(
    trace: Trace, address: str, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    if what == "numpy":
        monkeypatch.setattr(workers, "version", lambda name: "1.0")
    else:
        monkeypatch.setattr(workers.platform, "machine", lambda: "another")
    with pytest.raises(UserError, match="nothing was sent") as refused:
        found(trace, scheduler=address)
    assert f"has another {what}: " in str(refused.value)
    assert (what == "processor") == ("NPY_DISABLE_CPU_FEATURES" in str(refused.value))


def test_workers_collect_what_one_process_collects(folders: tuple[Path, Path], address: str, tmp_path: Path) -> None:
    draft, target = map(str, folders)
    words = ["collect", "--draft", draft, "--target", target, "--positions", "90", "--new-tokens", "6", "-q"]
    (tmp_path / "prompts.txt").write_text("two and\nwhat is the sum of three\nit\nfour apples\n" * 20)
    words += ["--prompts", str(tmp_path / "prompts.txt"), "--out"]
    assert run(*words, str(tmp_path / "one")).exit_code == 0
    assert run(*words, str(tmp_path / "two"), "--scheduler", address).exit_code == 0
    alone, together = (open_trace(tmp_path / name) for name in ("one", "two"))
    assert together.positions == alone.positions
    for name, array in alone.arrays.items():
        assert np.array_equal(array[:], together.arrays[name][:], equal_nan=True), name
    assert not (tmp_path / "two-shards").exists()
