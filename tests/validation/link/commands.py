"""``hlm serve`` in a thread, for tests of the commands."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.validation.link.served import ended
from validation.cli.commands import main
from validation.link.server import Server


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
