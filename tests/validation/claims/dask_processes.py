"""Schedulers and workers of dask as real processes, and orders that a test gives them by files in a folder."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import hlmtheory
from validation import workers
from validation.claims.check import Results, check_trace
from validation.claims.cluster import on_scheduler
from validation.trace.reader import Trace

ROOT = Path(__file__).resolve().parents[3]
CLAIMS = ("verification.tokens", "truncation.softplus", "codec.round_trip", "draft_length.regret", "skipping.sequence")
LIMIT_S = 300.0  # for anything that another process has to do; the machine may be busy

PRELOAD = """
import os, time
from pathlib import Path
import numpy as np
from validation.claims import check
folder, me = Path(os.environ["TEST_ORDERS"]), os.getpid()
real = getattr(check._check_block, "real", check._check_block)

def ordered(*given):
    if (folder / "fill").exists():
        kept = [np.ones(2**22) for _ in range(2**10)]
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


def until(done: Callable[[], Any], what: str) -> Any:
    """Wait for another process."""
    end = time.monotonic() + LIMIT_S
    while not (found := done()):
        assert time.monotonic() < end, what
        time.sleep(0.1)
    return found


@contextmanager
def process(*words: str, folder: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run ``dask`` until the block ends."""
    settings = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1"}
    base = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "TEST_ORDERS": str(folder)}
    said = (folder / "said").open("ab")
    started = subprocess.Popen(
        [sys.executable, "-m", "dask", *words], cwd=folder, stdout=said, stderr=said,
        env={**os.environ, **settings, **base, **environment},
    )  # fmt: skip
    try:
        yield started
    finally:
        started.terminate()  # a nanny ends its worker
        try:
            started.wait(20)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()
        said.close()


def free_port() -> int:
    """Return a port that nobody uses and that the system gives to nobody, so that it stays free while none listens."""
    while True:
        port = random.SystemRandom().randrange(15_000, 32_000)  # Linux gives from 32,768 on, other systems from 49,152
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


@contextmanager
def scheduler(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    words = ("scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard")
    with process(*words, folder=folder) as one:
        yield one


@contextmanager
def worker(
    folder: Path, address: str, *more: str, preload: str = PRELOAD, **environment: str
) -> Iterator[subprocess.Popen[bytes]]:
    """One worker of one thread."""
    file = folder / f"preload{abs(hash(preload))}.py"
    file.write_text(preload)
    words = ("worker", address, "--nthreads", "1", "--host", "127.0.0.1", "--no-dashboard", "--preload", str(file))
    nanny = () if "--memory-limit" in more else ("--no-nanny", "--memory-limit", "0")
    with process(*words, *nanny, *more, folder=folder, **environment) as one:
        yield one


def with_workers(address: str, count: int) -> None:
    """Wait until this many workers can compute."""

    def ready() -> bool:
        found = workers.workers_of(client)
        return len(found) == count and all(one["status"] == "running" for one in found.values())

    with workers.connected(address) as client:
        until(ready, f"{count} workers")


@contextmanager
def killing(
    folder: Path,
    ends: subprocess.Popen[bytes] | None = None,
    by: int = signal.SIGKILL,
    then: Callable[[], None] | None = None,
) -> Iterator[None]:
    """Send a signal to the worker that takes the order while it computes, or to another process at that moment."""
    (folder / "stall").touch()

    def kill() -> None:
        taken = until(lambda: [*folder.glob("stall-*")], "a worker that computes")[0]
        os.kill(ends.pid if ends else int(taken.name.rpartition("-")[2]), by)
        if then:
            then()
        taken.unlink()  # a worker that lives goes on

    watcher = threading.Thread(target=kill)
    watcher.start()
    try:
        yield
    finally:
        watcher.join()


def found(trace: Trace, scheduler: str | None = None, **more: Any) -> Results:
    """Check a few claims, in this process or on workers."""
    known = hlmtheory.all_claims()
    return check_trace(
        trace, claims={name: known[name] for name in CLAIMS}, parts=scheduler and on_scheduler(scheduler), **more
    )


def same(one: Results, other: Results) -> bool:
    """Compare two results without their times."""
    return asdict(one) | {"seconds": 0} == asdict(other) | {"seconds": 0}
