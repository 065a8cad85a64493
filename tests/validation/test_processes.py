"""Worker processes: order, losses, Ctrl-C, and the same verdicts and figures as in one process."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.validation.claims.test_unfinished import found, same, stopped
from tests.validation.stopping import PATIENCE_S, ended, until
from tests.validation.stored_traces import stored
from validation.claims import check, order
from validation.cli import figures
from validation.plots import FIGURES
from validation.processes import Processes
from validation.trace.reader import Trace

ROOT = Path(__file__).resolve().parents[2]
ONCE = "test -e {0} || {{ touch {0}; kill -9 $PPID; }}; echo done"


@pytest.fixture(scope="module")
def two():
    with Processes(2) as processes:
        yield processes


@pytest.fixture
def trace(tmp_path, monkeypatch):
    monkeypatch.setattr(check, "BLOCK_ROWS", 32)
    monkeypatch.setattr(order, "LEAST_PARTS", 0)
    monkeypatch.setattr(figures, "LEAST_VALUES", 0)
    return stored(tmp_path / "trace")


def test_the_first_call_that_fails_is_told(two):
    calls = [(int, ("1",)), (int, ("two",)), (int, ("three",))]
    found = two.in_order(calls, ahead=3)
    assert next(found) == 1
    with pytest.raises(ValueError, match="'two'"):
        next(found)


def test_a_lost_process_is_replaced_and_its_call_made_again(tmp_path):
    shell = ["sh", "-c", ONCE.format(tmp_path / "killed")]
    calls = [(divmod, (n, 7)) for n in range(6)]
    calls[3] = (subprocess.check_output, (shell,))
    with Processes(2) as processes:
        found = list(processes.in_order(calls, ahead=3))
    assert found == [divmod(0, 7), divmod(1, 7), divmod(2, 7), b"done\n", divmod(4, 7), divmod(5, 7)]


def test_ctrl_c_ends_the_processes_at_once():
    seen = []

    def press():
        raise KeyboardInterrupt

    def interrupted():
        with Processes(2) as processes:
            seen.extend(processes.in_order([(os.getpid, ())] * 4, ahead=4))
            list(processes.in_order([(signal.pause, ())] * 2, ahead=2, tick=press))  # they wait without end

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert seen
    until(lambda: all(map(ended, seen)))


def test_processes_end_with_a_parent_that_is_killed():
    code = (
        "import os, signal\n"
        "from validation.processes import Processes\n"
        "processes = Processes(1)\n"
        "print(*processes.in_order([(os.getpid, ())], ahead=1), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == -signal.SIGKILL
    until(lambda: ended(int(done.stdout)))


def test_the_check_finds_the_same_in_processes(trace, two, tmp_path):
    whole = found(trace)
    assert same(found(trace, parts=order.in_processes(two)), whole)
    stopped(trace, tmp_path / "kept", 4, parts=order.in_processes(two))
    assert same(found(trace, kept=tmp_path / "kept"), whole)  # goes on without processes


def drawn(trace: Trace, folder: Path, processes: Processes) -> tuple[dict[str, bytes], list[int]]:
    """Draw figures of two samples and two of their own, and return the files and the reported numbers."""
    folder.mkdir()
    chosen = [FIGURES[key] for key in (("cu-hlm", "4a"), ("cu-hlm", "5a"), ("ours", "7"), ("ours", "V"))]
    said: list[int] = []
    figures.draw_figures(
        chosen,
        trace,
        folder,
        command="hlm validate",
        seed=1,
        processes=processes,
        report=lambda done, text: said.append(done),
    )
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}, said


def test_figures_are_the_same_from_processes(trace, two, tmp_path):
    here, _ = drawn(trace, tmp_path / "here", Processes(1))
    there, said = drawn(trace, tmp_path / "there", two)
    assert there == here
    assert len(here) == 7  # one is a table
    assert said == sorted(said)
    assert (said[0], said[-1]) == (0, 4)


PRESSED = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a process started in the background ignores it
from validation.claims import order
from validation.cli.start import start
from validation.cli.commands import main
if __name__ == "__main__":
    order.workers_here = lambda vocabulary, limit=None: 2
    start(main)
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds the processes in /proc")
def test_ctrl_c_ends_the_command_and_its_processes(trace, tmp_path):
    script = tmp_path / "pressed.py"
    script.write_text(PRESSED)
    command = [sys.executable, str(script), "validate", "--trace", str(trace.path), "--all-claims"]
    command += ["--out", str(tmp_path / "run")]
    kept = tmp_path / "run" / ".check.json"
    process = subprocess.Popen(
        command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, text=True
    )
    with process:
        try:
            until(lambda: kept.exists() or process.poll() is not None)
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    assert process.returncode == 130
    assert re.fullmatch(r"\s*Stopped\. The same command continues from what is stored\.\s*", said)
    assert len(children) >= 2  # and multiprocessing's own that tracks resources
    until(lambda: all(ended(int(child)) for child in children))
