"""A check on dask's workers gives the results of one process, or one sentence. Every process here is a real one."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import hlmtheory
from tests.validation.claims.dask_processes import (
    CLAIMS,
    LIMIT_S,
    ROOT,
    found,
    free_port,
    joined,
    killing,
    process,
    same,
    scheduler,
    with_workers,
    work_of,
    worker,
)
from tests.validation.command_line import one_sentence, run
from tests.validation.stored_traces import stored
from validation import workers
from validation.claims import check, progress
from validation.claims.check import check_trace
from validation.claims.cluster import parts_of_cluster
from validation.errors import UserError
from validation.trace.reader import Trace, open_trace

pytestmark = [
    pytest.mark.skipif(find_spec("distributed") is None, reason="dask.distributed comes with the extra scale"),
    pytest.mark.skipif(os.name != "posix", reason="sends signals"),
    # dask's client leaves tasks behind when its connection breaks
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
WITHOUT = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("validation", "hlmtheory"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Refuse())
"""


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


def test_a_scheduler_of_its_own_from_the_command_line(trace: Trace, tmp_path: Path) -> None:
    few = (
        "import hlmtheory\nfrom validation.claims import check\nfrom validation import plots\n"
        f"known, real = hlmtheory.all_claims(), check.check_trace\nfew = {{n: known[n] for n in {CLAIMS!r}}}\n"
        "check.check_trace = lambda trace, **more: real(trace, **(more | {'claims': few}))\nplots.FIGURES = {}\n"
        "from validation.cli.start import main\nif __name__ == '__main__':\n    main()\n"
    )
    (tmp_path / "few.py").write_text(few)
    words = ["validate", "--trace", str(trace.path), "--out", str(tmp_path / "run"), "--scheduler", "local", "-q"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(tmp_path / "few.py"), *words], cwd=tmp_path, env=environment, capture_output=True,
        text=True, timeout=LIMIT_S,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    known = hlmtheory.all_claims()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(check, "SCENARIO_BATCHES", 10)
        patch.setattr(check, "BLOCK_ROWS", 256)
        expected = check_trace(trace, claims={name: known[name] for name in CLAIMS})
    assert same(check.load_results(tmp_path / "run" / "claims.json"), expected)


# ---------------------------------------------------------------------------------------------- what goes wrong


def test_a_worker_killed_while_it_computes_changes_nothing(trace: Trace, address: str, folder: Path) -> None:
    with worker(folder, address), killing(folder):
        assert same(found(trace, scheduler=address), found(trace))
    assert not [*folder.glob("stall*")]  # a worker was killed


def test_a_scheduler_that_is_killed_is_named_and_the_check_goes_on_with_the_next(trace: Trace, tmp_path: Path) -> None:
    port = free_port()
    address, kept = f"tcp://127.0.0.1:{port}", tmp_path / "kept"
    with scheduler(tmp_path, port) as first, worker(tmp_path, address):
        with killing(tmp_path, first), pytest.raises(UserError, match="was lost or has restarted") as refused:
            found(trace, kept=kept, scheduler=address)
        assert "the same command continues from what is stored" in str(refused.value)
    with scheduler(tmp_path, port), worker(tmp_path, address):
        seen: list[str] = []
        assert same(found(trace, kept=kept, scheduler=address, progress=lambda *at: seen.append(at[2])), found(trace))
    assert seen


def test_a_scheduler_that_falls_silent_is_named(trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    with scheduler(tmp_path, port) as silent, worker(tmp_path, address):
        with_workers(address, 1)
        try:
            short = lambda: monkeypatch.setattr(workers, "WAIT_S", 2.0)  # noqa: E731
            with (
                killing(tmp_path, silent, by=signal.SIGSTOP, then=short),
                pytest.raises(UserError, match="was lost or has restarted"),
            ):
                found(trace, scheduler=address)
        finally:
            silent.send_signal(signal.SIGCONT)


def test_a_worker_that_runs_out_of_memory_is_named(trace: Trace, tmp_path: Path) -> None:
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    (tmp_path / "fill").touch()
    once = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"}
    with process("scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard", folder=tmp_path, **once):  # noqa: SIM117
        with worker(tmp_path, address, "--memory-limit", "700MB"), pytest.raises(UserError) as refused:
            found(trace, scheduler=address)
    said = str(refused.value)
    assert "A worker ended" in said
    assert "give each more memory (--memory-limit)" in said


def test_a_worker_without_the_package_is_refused_before_work_is_sent(trace: Trace, address: str, folder: Path) -> None:
    with joined(folder, address, preload=WITHOUT), pytest.raises(UserError, match="lacks this version of hlmtheory"):
        found(trace, scheduler=address)


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


def test_a_worker_that_reads_no_trace_is_one_sentence(trace: Trace, address: str, tmp_path: Path) -> None:
    elsewhere = replace(work_of(trace), trace=replace(trace, path=tmp_path / "nowhere"))
    with pytest.raises(UserError, match=r"There is no trace at .*nowhere|reads another trace"):
        next(parts_of_cluster(elsewhere, CLAIMS, 0, address))


def test_a_scheduler_that_does_not_answer_is_one_sentence(
    trace: Trace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(workers, "WAIT_S", 2.0)
    words = ["validate", "--trace", str(trace.path), "--out", str(tmp_path / "run"), "-q", "--scheduler"]
    one_sentence(run(*words, "tcp://127.0.0.1:1"), "does not answer within 2 s")
    with socket.socket() as silent:  # it takes the connection and says nothing
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]
        one_sentence(run(*words, f"tcp://127.0.0.1:{port}"), "does not answer within 2 s")
    one_sentence(run(*words, "http://127.0.0.1:80"), "give local, or an address such as tcp://")


def test_a_scheduler_without_workers_is_one_sentence(
    trace: Trace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    port = free_port()
    with scheduler(tmp_path, port), workers.connected(f"tcp://127.0.0.1:{port}"):
        monkeypatch.setattr(workers, "WAIT_S", 2.0)
        with pytest.raises(UserError, match="has no worker after 2 s"):
            found(trace, scheduler=f"tcp://127.0.0.1:{port}")


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
