"""A server in a thread, for tests of the link."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest

from tests.validation.tiny_texts import nodes, quarters, table_pair
from validation.cli.commands import main
from validation.collection.prompts import Prompt
from validation.decoding.loop import decode
from validation.decoding.methods.base import Method
from validation.decoding.records import GenerationRecord
from validation.link.device import Device
from validation.link.device_records import LinkRecord
from validation.link.engine import Engine
from validation.link.relay import LinkModel, Relay, precise_loop
from validation.link.remote import Remote
from validation.link.server import Server
from validation.models.pair import Pair

LONGEST_S, POSITIONS = 30, 16
"""What a test waits for takes less, also on a busy machine; nothing in these tests waits longer."""


def small_pair(positions: int) -> Pair:
    """Return two tables over three tokens, without zeros, that differ at this many positions."""
    rng, count = np.random.default_rng(5), nodes(3, positions)
    return table_pair(*(quarters(rng, count) * 0.9 + 0.1 / 3 for _ in range(2)))


def ended(thread: threading.Thread) -> None:
    thread.join(LONGEST_S)
    assert not thread.is_alive(), f"{thread.name} did not end in {LONGEST_S} s"


def looped(
    pair: Pair, method: Method, name: str = "a", new_tokens: int = POSITIONS, **options: Any
) -> GenerationRecord:
    return decode(pair, [Prompt(name, "0", "")], method, new_tokens=new_tokens, **{"seed": 2} | options)[0]


def write(device: Device, method: Method, name: str = "a", new_tokens: int = POSITIONS, **options: Any) -> LinkRecord:
    found = device.generate(method, [0], name=name, seed=2, new_tokens=new_tokens, **options)
    assert found.tokens == looped(device.pair, method, name, new_tokens).tokens
    return found


class InThread:
    def __init__(self, loop: asyncio.AbstractEventLoop, one: Server | Relay, *serving: Any) -> None:
        self.loop, self.one = loop, one
        self.thread = threading.Thread(target=self._run, args=serving, daemon=True)
        self.thread.start()
        self.place = asyncio.run_coroutine_threadsafe(one.ready(), loop).result(LONGEST_S)
        self.address = "ws://{}:{}".format(*self.place)

    def _run(self, *serving: Any) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self.one.serve("127.0.0.1", *serving))
        self.loop.close()

    def call(self, function: Callable[..., object], *given: Any) -> None:
        async def now() -> None:
            function(*given)

        asyncio.run_coroutine_threadsafe(now(), self.loop).result(LONGEST_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        if self.thread.is_alive():
            self.loop.call_soon_threadsafe(self.one.stop)
            ended(self.thread)


class Running(InThread):
    def __init__(
        self, pair: Pair, port: int = 0, key_file: Path | None = None, made: Any = None, **options: Any
    ) -> None:
        self.engine = Engine(pair, **(made or {}))
        self.server = Server(self.engine, **{"tokenizer": "t", "target": "p"} | options)
        if key_file is not None:
            self.server.follow_keys(key_file)
        super().__init__(asyncio.new_event_loop(), self.server, port)


@contextmanager
def device_of(pair: Pair, address: str, **options: Any) -> Iterator[Device]:
    with Remote(address, **{"patience_s": 20.0, "answer_s": 20.0} | options) as remote:
        yield Device(pair, remote, tokenizer="t", draft="q")


class Relayed(InThread):
    def __init__(self, model: LinkModel, to: str) -> None:
        host, port = to.removeprefix("ws://").split(":")
        self.relay = Relay(model)
        super().__init__(precise_loop(), self.relay, 0, (host, int(port)))


@contextmanager
def serving(monkeypatch: pytest.MonkeyPatch, *words: str) -> Iterator[Server]:
    """Run ``hlm serve`` on a free port of this machine; return its server, which has the address."""
    started, found = threading.Event(), list[Any]()
    real: Any = Server.ready

    async def ready(self: Any) -> Any:
        address = await real(self)
        found.append((self, asyncio.get_running_loop()))
        started.set()
        return address

    monkeypatch.setattr(Server, "ready", ready)
    options = {"args": ["serve", "--listen", "127.0.0.1:0", "--quiet", *words], "prog_name": "hlm"}
    thread = threading.Thread(target=main.main, kwargs=options | {"standalone_mode": False}, daemon=True)
    thread.start()
    assert started.wait(60)
    server, loop = found[0]
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(server.stop)
        ended(thread)
