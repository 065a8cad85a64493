"""docs/run.md runs as it stands: commands that serve run in threads, the other lines one after the other."""

from __future__ import annotations

import asyncio
import re
import shlex
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from click.testing import CliRunner

from tests.documents import blocks, lines_of
from validation.cli.commands import main
from validation.link import timing
from validation.link.relay import Relay
from validation.link.server import Server
from validation.models.pair import PAIRS_FOLDER

PAGE = "docs/run.md"
STAYS = re.compile(r"hlm (serve|link)\b|--openai")
TWO_MACHINES = re.compile(r"0\.0\.0\.0|SERVER|openssl")
VERSIONS = re.compile(r"version\.txt")
FEW = ["--new-tokens", "6"]


class Here:
    """The page's ports, moved to free ones, and what serves."""

    def __init__(self) -> None:
        held = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
        self.ports = dict(zip(("7070", "7071", "8000"), (str(one.getsockname()[1]) for one in held), strict=True))
        for one in held:
            one.close()
        self.started, self.stops = threading.Event(), list[Callable[[], object]]()
        self.threads: list[threading.Thread] = []

    def moved(self, text: str) -> str:
        """Return a text with this test's ports."""
        for old, new in self.ports.items():
            text = re.sub(rf":{old}\b", f":{new}", text)
        return text

    def words(self, line: str) -> list[str]:
        """Return the words of a command; defaults that name a port are written out."""
        given = shlex.split(self.moved(line))[2:]
        addresses = {"serve": "--listen 127.0.0.1:7070", "link": "--listen 127.0.0.1:7071 --to 127.0.0.1:7070"}
        addresses["device"] = "--server ws://127.0.0.1:7070"
        usual = shlex.split(self.moved(addresses.get(given[0], "")))
        more = [] if set(usual[:1]) & set(given) else usual
        return [*given, *more, *(FEW if given[0] == "device" else [])]

    def start(self, line: str) -> None:
        """Start a line that serves, in a thread, and wait until it does."""
        self.started.clear()
        options = {"args": self.words(line), "prog_name": "hlm", "standalone_mode": False}
        self.threads.append(threading.Thread(target=main.main, kwargs=options, daemon=True))
        self.threads[-1].start()
        assert self.started.wait(60), line

    def run(self, line: str) -> str:
        """Run a line; return what it prints."""
        if not line.startswith("python3 hlm "):
            done = subprocess.run(self.moved(line), shell=True, capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, (line, done.stderr)
            return done.stdout
        found = CliRunner().invoke(main, self.words(line))
        assert found.exit_code == 0, (line, found.output)
        return found.output

    def stop(self) -> None:
        """End what serves."""
        for stop in reversed(self.stops):
            stop()
        for thread in self.threads:
            thread.join(20)
            assert not thread.is_alive()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Here]:
    """A folder of its own, and ports of its own."""
    monkeypatch.chdir(tmp_path)
    small = partial(timing.measure_times, batches=(1,), widths=(1, 2), repeats=3)
    monkeypatch.setattr(timing, "measure_times", small)
    found = Here()

    for kind in (Server, Relay):
        real: Any = kind.ready

        async def ready(self: Any, real: Any = real) -> Any:
            address = await real(self)
            loop = asyncio.get_running_loop()
            found.stops.append(lambda: loop.is_closed() or loop.call_soon_threadsafe(self.stop))  # doctor's has ended
            found.started.set()
            return address

        monkeypatch.setattr(kind, "ready", ready)
    started = uvicorn.Server.startup

    async def startup(self: Any, sockets: Any = None) -> None:
        await started(self, sockets)
        found.stops.append(lambda: setattr(self, "should_exit", True))
        found.started.set()

    monkeypatch.setattr(uvicorn.Server, "startup", startup)
    try:
        yield found
    finally:
        found.stop()


def test_the_page_runs(here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    printed: dict[str, str] = {}
    for kind, content in blocks(PAGE):
        if kind == "python":
            exec(compile(here.moved(content), PAGE, "exec"), {"__name__": "page"})
        for line in lines_of(content) if kind == "bash" else ():
            if TWO_MACHINES.search(line) or VERSIONS.search(line):
                continue
            if STAYS.search(line):
                here.start(line)
            else:
                printed[line] = here.run(line)
    assert len(printed) == 11
    assert "Measured in the run" in printed["python3 hlm plan --run run.jsonl --rate 10M"]
    assert printed["python3 hlm device"].count("6 tokens in") == 4
    (completion,) = (text for line, text in printed.items() if "completions" in line)
    assert '"completion_tokens":16' in completion.replace(": ", ":")
    assert "hlm_rounds_total" in printed["curl -s http://127.0.0.1:7070/metrics"]
    assert capsys.readouterr().out


def lines_with(pattern: re.Pattern[str]) -> list[str]:
    """Return the lines of the page's bash blocks in which a pattern occurs."""
    every = [line for kind, content in blocks(PAGE) if kind == "bash" for line in lines_of(content)]
    return [line for line in every if pattern.search(line)]


def test_two_machines_share_a_key_and_a_certificate(here: Here) -> None:
    make, serve, device, certify, serve_tls, device_tls = lines_with(TWO_MACHINES)
    here.run(make)
    here.start(serve.replace("0.0.0.0", "127.0.0.1"))
    assert "6 tokens in" in here.run(device.replace("SERVER", "127.0.0.1") + " --texts 1")
    here.run(certify.replace("SERVER", "localhost"))
    here.start(serve_tls.replace("0.0.0.0:7070", "127.0.0.1:7071"))
    said = here.run(device_tls.replace("SERVER:7070", "localhost:7071") + " --texts 1")
    assert "6 tokens in" in said


def test_a_file_names_the_version(here: Here) -> None:
    target, serve, update, back = lines_with(VERSIONS)
    metrics = "curl -s http://127.0.0.1:7070/metrics"
    here.run(target)
    here.start(serve.replace("MODEL", str(PAIRS_FOLDER / "builtin" / "large")))
    for line, name in ((update, "v2"), (back, "target")):
        here.run(line)
        deadline = time.monotonic() + 20
        while f'hlm_version{{version="{name}"}} 1.0' not in here.run(metrics):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert "6 tokens in" in here.run("python3 hlm device --texts 1")
