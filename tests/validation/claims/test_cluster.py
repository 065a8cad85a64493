"""A check on dask's workers gives the results of one process, or one sentence. Every process here is a real one."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.validation.claims import test_unfinished
from tests.validation.claims.test_unfinished import same
from tests.validation.command_line import run
from tests.validation.stopping import PATIENCE_S, until
from validation import provenance, workers
from validation.claims.check import Results
from validation.claims.cluster import on_scheduler
from validation.errors import UserError
from validation.trace.reader import Trace, open_trace

pytestmark = [
    pytest.mark.skipif(find_spec("distributed") is None, reason="dask.distributed comes with the extra scale"),
    pytest.mark.skipif(os.name != "posix", reason="sends signals"),
    # dask's client leaves tasks behind when its connection breaks
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

ROOT = Path(__file__).resolve().parents[3]
PRELOAD = """
import os, time
from pathlib import Path
from validation.claims import check
folder, me = Path(os.environ["TEST_ORDERS"]), os.getpid()
real = getattr(check._check_block, "real", check._check_block)

def ordered(*given):
    try:
        os.rename(folder / "stall", folder / f"stall-{me}")  # one worker takes it
    except OSError:
        return real(*given)
    while (folder / f"stall-{me}").exists():
        time.sleep(0.02)
    return real(*given)

ordered.real = real  # dask runs this file twice
check._check_block = ordered
"""


@contextmanager
def dask(folder: Path, *words: str) -> Iterator[None]:
    settings = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1", "TEST_ORDERS": str(folder)}
    settings |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "dask", *words, "--host", "127.0.0.1", "--no-dashboard"]
    with (folder / "said").open("ab") as said:
        started = subprocess.Popen(command, cwd=folder, stdout=said, stderr=said, env=os.environ | settings)
        try:
            yield
        finally:
            started.terminate()
            try:
                started.wait(20)
            except subprocess.TimeoutExpired:
                started.kill()
                started.wait()


@contextmanager
def worker(folder: Path, address: str) -> Iterator[None]:
    (folder / "preload.py").write_text(PRELOAD)
    more = ("--nthreads", "1", "--preload", str(folder / "preload.py"), "--no-nanny", "--memory-limit", "0")
    with dask(folder, "worker", address, *more):
        yield


@contextmanager
def killing(folder: Path) -> Iterator[None]:
    (folder / "stall").touch()

    def kill() -> None:
        taken = until(lambda: [*folder.glob("stall-*")])[0]
        os.kill(int(taken.name.rpartition("-")[2]), signal.SIGKILL)
        taken.unlink()

    watcher = threading.Thread(target=kill)
    watcher.start()
    try:
        yield
    finally:
        watcher.join()


@pytest.fixture(autouse=True, scope="module")
def patient():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "WAIT_S", PATIENCE_S)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("dask")


@pytest.fixture(scope="module")
def address(folder, patient):
    with ExitStack() as running:
        running.enter_context(dask(folder, "scheduler", "--port", "0"))
        where = until(lambda: re.search(r"Scheduler at: +(tcp://\S+)\n", (folder / "said").read_text()))[1]
        for _ in range(2):
            running.enter_context(worker(folder, where))
        with workers.connected(where) as client:
            until(lambda: [one["status"] for one in workers.workers_of(client).values()] == ["running"] * 2)
        yield where


trace = test_unfinished.trace


def found(trace: Trace, scheduler: str | None = None, **more: Any) -> Results:
    return test_unfinished.found(trace, parts=scheduler and on_scheduler(scheduler), **more)


def test_workers_find_what_one_process_finds(trace, address):
    seen = []
    assert same(found(trace, scheduler=address, progress=lambda *at: seen.append(at)), found(trace))
    assert seen[0] == (1, 3, "checking the simulated claims")
    assert seen[-1] == (320, 320, "checking the claims")


def test_a_stopped_check_goes_on_with_or_without_workers(trace, address, tmp_path):
    def press(done, total, text):
        if done == 96:
            raise KeyboardInterrupt

    kept = tmp_path / "kept"
    with pytest.raises(KeyboardInterrupt):
        found(trace, kept=kept, scheduler=address, progress=press)
    seen = []
    assert same(found(trace, kept=kept, progress=lambda done, *_: seen.append(done)), found(trace))
    assert seen[0] == 128
    assert same(found(trace, kept=kept, scheduler="tcp://127.0.0.1:1"), found(trace))  # nothing is left to ask


def test_a_worker_killed_while_it_computes_changes_nothing(trace, address, folder):
    with worker(folder, address), killing(folder):
        assert same(found(trace, scheduler=address), found(trace))
    assert not [*folder.glob("stall*")]  # a worker was killed


@pytest.mark.parametrize("what", ["numpy", "processor"])
def test_a_worker_that_differs_is_refused_before_work_is_sent(trace, address, monkeypatch, what):
    if what == "numpy":
        monkeypatch.setattr(provenance, "version", lambda name: "1.0")
    else:
        monkeypatch.setattr(workers.platform, "machine", lambda: "another")
    with pytest.raises(UserError, match="nothing was sent") as refused:
        found(trace, scheduler=address)
    assert f"has another {what}: " in str(refused.value)
    assert (what == "processor") == ("NPY_DISABLE_CPU_FEATURES" in str(refused.value))


def test_workers_collect_what_one_process_collects(folders, address, tmp_path):
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
