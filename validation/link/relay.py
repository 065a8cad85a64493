"""A relay in user space that repeats a link: a rate, half a round trip each way, losses, and cuts.

Each direction is one link, shared by all connections: bytes take their turn at its rate, constant or recorded, and
arrive half a round trip later, in order (mahimahi's model). A lost segment is sent again one round trip later, and
holds up the bytes behind it, as TCP does. A cut resets every connection.
"""

import asyncio
import contextlib
import selectors
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hlmtheory.channel import TraceLink
from validation.errors import UserError

SEGMENT = 1448
"""Bytes that take their turn at a time: those of a segment on Ethernet."""
AHEAD_S = 0.02
"""How much of a sender's future the relay may hold; the rest waits in the sender's own buffers. A process that is woken
later than this leaves the link idle."""
EARLY_S = 0.0001
"""Timers of :func:`precise_loop` are late by about this, if the machine has time."""


@dataclass(frozen=True)
class LinkModel:
    """What the relay repeats: rates in bit/s or recorded, and when all connections are cut: by time, or by bytes."""

    up: float | TraceLink
    down: float | TraceLink
    rtt_s: float = 0.0
    loss: float = 0.0
    cuts_s: Sequence[float] = ()
    cut_bytes: Sequence[int] = ()
    seed: int = 1

    def __post_init__(self) -> None:
        rates = [rate for rate in (self.up, self.down) if not isinstance(rate, TraceLink)]
        if not all(0 < rate < float("inf") for rate in rates):
            raise UserError(f"The rates of a link are {rates}; give bit/s above 0.")
        if not (0 <= self.rtt_s < 60 and 0 <= self.loss <= 0.9):
            raise UserError(
                f"The round trip is {self.rtt_s:g} s and the loss {self.loss:g}; give less than a minute, and a share "
                "of at most 0.9."
            )


@dataclass
class _Direction:
    rate: float | TraceLink
    model: LinkModel
    rng: np.random.Generator
    began: float
    free: float = 0.0
    last: float = 0.0

    def arrival(self, size: int, now: float) -> float:
        """Return when a segment that is ready now has arrived, and keep the link for it."""
        arrives = self._sent(size, now)
        while self.model.loss and self.rng.random() < self.model.loss:
            arrives = max(arrives + self.model.rtt_s, self._sent(size, now))
        self.last = max(self.last, arrives + self.model.rtt_s / 2)
        return self.last

    def _sent(self, size: int, now: float) -> float:
        start = max(now, self.free)
        if isinstance(self.rate, TraceLink):
            self.free = start + float(self.rate.transfer_time(8.0 * size, start - self.began))
        else:
            self.free = start + 8.0 * size / self.rate
        return self.free


def precise_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop for a relay: it waits by select, in microseconds; epoll waits whole milliseconds."""
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


@dataclass
class Relay:
    """Connections through the link; bytes and cuts so far."""

    model: LinkModel
    forwarded: int = 0
    resets: int = 0
    address: tuple[str, int] = ("", 0)
    _open: set[asyncio.StreamWriter] = field(default_factory=set)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._ready, self._stop = asyncio.Event(), asyncio.Event()
        self._cuts = sorted(self.model.cut_bytes)

    async def serve(self, host: str, port: int, to: tuple[str, int]) -> None:
        """Forward the connections to ``host`` and ``port`` to another address, until :meth:`stop`."""
        began = asyncio.get_running_loop().time()
        rngs = np.random.default_rng(self.model.seed).spawn(2)
        up, down = (
            _Direction(rate, self.model, rng, began)
            for rate, rng in zip((self.model.up, self.model.down), rngs, strict=True)
        )

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._open.add(writer)
            try:
                far_reader, far_writer = await asyncio.open_connection(*to, limit=2 * SEGMENT)
            except OSError:
                self._open.discard(writer)
                writer.transport.abort()
                return
            self._open.add(far_writer)
            for ends in ((reader, far_writer, up), (far_reader, writer, down)):
                task = asyncio.ensure_future(self._carry(*ends))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

        cutting = [asyncio.ensure_future(self._cut_at(began + after)) for after in self.model.cuts_s]
        server = await asyncio.start_server(connected, host, port, limit=2 * SEGMENT)
        try:
            self.address = server.sockets[0].getsockname()[:2]
            self._ready.set()
            await self._stop.wait()
        finally:
            server.close()
            self.cut()
            for task in [*cutting, *self._tasks]:
                task.cancel()
            await asyncio.gather(*cutting, *self._tasks, return_exceptions=True)

    async def ready(self) -> tuple[str, int]:
        await self._ready.wait()
        return self.address

    def stop(self) -> None:
        """End :meth:`serve`; call it within its event loop."""
        self._stop.set()

    def cut(self) -> None:
        """Reset every connection; what is under way is lost."""
        self.resets += 1
        for writer in self._open:
            writer.transport.abort()
        self._open.clear()

    async def _cut_at(self, moment: float) -> None:
        await _until(moment)
        self.cut()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: _Direction) -> None:
        """Forward one direction of a connection; the end of the stream takes its turn as the bytes do."""
        loop = asyncio.get_running_loop()
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        delivering = asyncio.ensure_future(self._deliver(writer, under_way))
        try:
            with contextlib.suppress(OSError):
                while data := await reader.read(SEGMENT):
                    under_way.put_nowait((way.arrival(len(data), loop.time()), data))
                    await _until(way.free - AHEAD_S)
            under_way.put_nowait((max(way.last, loop.time()), b""))
            await delivering
        finally:
            delivering.cancel()
            await asyncio.gather(delivering, return_exceptions=True)

    async def _deliver(self, writer: asyncio.StreamWriter, under_way: asyncio.Queue[tuple[float, bytes]]) -> None:
        try:
            while True:
                arrives, data = await under_way.get()
                await _until(arrives)
                if not data:
                    break
                if self._cuts and self.forwarded + len(data) >= self._cuts[0]:
                    writer.write(data[: self._cuts[0] - self.forwarded])
                    self.forwarded = self._cuts.pop(0)
                    await asyncio.sleep(0.001)  # what was forwarded before the cut still leaves
                    self.cut()
                    return
                self.forwarded += len(data)
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        self._open.discard(writer)
        writer.close()


async def _until(moment: float) -> None:
    if (left := moment - asyncio.get_running_loop().time() - EARLY_S) > 0:
        await asyncio.sleep(left)
