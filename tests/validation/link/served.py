"""A server in a thread, for tests of the link."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tests.validation.tiny_texts import nodes, quarters, table_pair
from validation.link.device import Device
from validation.link.engine import Engine
from validation.link.relay import LinkModel, Relay, precise_loop
from validation.link.remote import Remote
from validation.link.server import Server
from validation.models.pair import Pair

LONGEST_S = 30
"""What a test waits for takes less, also on a busy machine; nothing in these tests waits longer."""


def small_pair(positions: int) -> Pair:
    """Return two tables over three tokens, without zeros, that differ at this many positions."""
    rng, count = np.random.default_rng(5), nodes(3, positions)
    return table_pair(*(quarters(rng, count) * 0.9 + 0.1 / 3 for _ in range(2)))


def ended(thread: threading.Thread) -> None:
    """Wait for a thread, or fail."""
    thread.join(LONGEST_S)
    assert not thread.is_alive(), f"{thread.name} did not end in {LONGEST_S} s"


def until(condition: Callable[[], object]) -> None:
    """Wait until a condition holds, or fail."""
    deadline = time.monotonic() + LONGEST_S
    while not condition():
        assert time.monotonic() < deadline, f"not so after {LONGEST_S} s"
        time.sleep(0.005)


class Running:
    """A server that runs in a thread of its own."""

    def __init__(
        self,
        pair: Pair,
        port: int = 0,
        draft_length: int = 0,
        key_file: Path | None = None,
        stretch_s: float = 0.0,
        **options: Any,
    ) -> None:
        self.loop = asyncio.new_event_loop()
        self.engine = Engine(pair, draft_length=draft_length, stretch_s=stretch_s)
        self.server = Server(self.engine, **{"tokenizer": "t", "target": "p"} | options)
        if key_file is not None:
            self.server.follow_keys(key_file)
        self.thread = threading.Thread(target=self._run, args=(port,), daemon=True)
        self.thread.start()
        ready = asyncio.run_coroutine_threadsafe(self.server.ready(), self.loop)
        self.address = "ws://{}:{}".format(*ready.result(LONGEST_S))

    def _run(self, port: int) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self.server.serve("127.0.0.1", port))
        self.loop.close()

    def stop(self) -> None:
        """End the server, and wait for its thread."""
        if self.thread.is_alive():
            self.loop.call_soon_threadsafe(self.server.stop)
            ended(self.thread)


@contextmanager
def served(pair: Pair, **options: Any) -> Iterator[Running]:
    """Run a server of the pair's target."""
    running = Running(pair, **options)
    try:
        yield running
    finally:
        running.stop()


@contextmanager
def device_of(pair: Pair, address: str, **options: Any) -> Iterator[Device]:
    """Return a device with the pair's draft."""
    with Remote(address, **{"patience_s": 20.0, "answer_s": 20.0} | options) as remote:
        yield Device(pair, remote, tokenizer="t", draft="q")


class Relayed:
    """A relay that runs in a thread of its own."""

    def __init__(self, model: LinkModel, to: str) -> None:
        host, port = to.removeprefix("ws://").split(":")
        self.loop, self.relay = precise_loop(), Relay(model)
        self.thread = threading.Thread(target=self._run, args=((host, int(port)),), daemon=True)
        self.thread.start()
        ready = asyncio.run_coroutine_threadsafe(self.relay.ready(), self.loop)
        self.host, self.port = ready.result(LONGEST_S)
        self.address = f"ws://{self.host}:{self.port}"

    def _run(self, to: tuple[str, int]) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self.relay.serve("127.0.0.1", 0, to))
        self.loop.close()

    def stop(self) -> None:
        """End the relay, and wait for its thread."""
        self.loop.call_soon_threadsafe(self.relay.stop)
        ended(self.thread)


@contextmanager
def relayed(model: LinkModel, to: str) -> Iterator[Relayed]:
    """Run a relay to an address."""
    running = Relayed(model, to)
    try:
        yield running
    finally:
        running.stop()
