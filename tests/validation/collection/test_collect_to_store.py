"""A collection of real models into a store, killed in the middle and continued: the bytes of a folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.validation.command_line import run
from tests.validation.trace.store_stand_in import Bucket, at, files, known_bucket
from validation.errors import UserError
from validation.trace.format import MANIFEST
from validation.trace.journal import JOURNAL
from validation.trace.reader import open_trace

pytestmark = [
    pytest.mark.skipif(find_spec("obstore") is None, reason="obstore comes with the extra remote"),
    pytest.mark.skipif(os.name != "posix", reason="sends signals"),
]
ROOT = Path(__file__).resolve().parents[3]
PLACE = "s3://bucket/mine/trace"
SENTENCES = (
    "The sea was calm.",
    "Write a list of",
    "She opened the door",
    "def add(a, b):",
    "In the morning",
    "Why is",
)
COUNT = 100  # two batches of six texts of 16 tokens
LIMIT_S = 300.0  # for anything that another process has to do; the machine may be busy


@pytest.fixture
def words(tmp_path: Path) -> tuple[str, ...]:
    (tmp_path / "prompts.txt").write_text("\n".join(SENTENCES))
    prompts = ("--prompts", str(tmp_path / "prompts.txt"), "--positions", str(COUNT), "--new-tokens", "16")
    return ("collect", *prompts, "--device", "cpu", "-q", "--out")


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    with known_bucket(monkeypatch) as server:
        yield server


def kill_at_the_second_commit(served: Bucket, words: tuple[str, ...]) -> None:
    started, journals = threading.Event(), []

    def kill(method: str, key: str) -> str | None:
        if (method, key) == ("PUT", f"mine/trace/{JOURNAL}"):
            journals.append(key)
            if len(journals) == 3:  # after the header and the first batch
                started.wait()
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
                return "gone"
        return None

    served.fault = kill
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen([sys.executable, "-m", "validation", *words, PLACE], env=environment) as process:
        started.set()
        assert process.wait(LIMIT_S) == -signal.SIGKILL
    served.fault = lambda method, key: None


def plain(content: bytes) -> dict[str, object]:
    found = json.loads(content)
    return {name: value for name, value in found.items() if name not in ("created", "command", "speed")}


def test_a_collection_killed_in_the_middle_has_the_bytes_of_a_folder_in_the_end(
    served: Bucket, words: tuple[str, ...], tmp_path: Path
) -> None:
    kill_at_the_second_commit(served, words)
    with pytest.raises(UserError, match=r"is not finished: [1-9][0-9]* positions are stored"):
        open_trace(PLACE)
    assert run(*words, PLACE).exit_code == 0
    assert run(*words, tmp_path / "trace").exit_code == 0
    there, here = at(served), files(tmp_path / "trace")
    assert there.keys() == here.keys()
    assert plain(there.pop(MANIFEST)) == plain(here.pop(MANIFEST))
    assert there.pop(JOURNAL) != here.pop(JOURNAL)  # it names the parts
    assert there == here
    assert open_trace(PLACE, verify=True).positions >= COUNT
