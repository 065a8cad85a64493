"""Benchmark ``relay``: throughput and round trips through the relay of ``hlm link``, without tokens."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import time
from collections.abc import Sequence

from hlmtheory.channel import TraceLink
from validation.benchmarks.measurement import Measurement
from validation.link.relay import LinkModel, Relay, precise_loop

FAST_BPS = 1e9
RATES_BPS = (50e3, 1e6, 10e6, 50e6)
ROUND_TRIPS_S = (0.005, 0.04, 0.2)
RECORDED = TraceLink([0.0, 0.25, 0.5, 0.75], [1e6, 4e6, 0.0, 3e6])
PINGS = 20
PART = 2**16
"""Bytes that are written and read at a time: a large buffer takes time of its own."""


def measure(seconds: float = 2.0, rates: Sequence[float] = RATES_BPS) -> list[Measurement]:
    """Measure bulk uploads that take ``seconds`` at the rate, and round trips of a byte against the model's."""
    found = []
    for rate in rates:
        took = _run(LinkModel(rate, FAST_BPS), round(rate * seconds / 8))[0]
        found.append(Measurement(f"bulk at {rate / 1e6:g} Mbit/s", took, "s", "the rate", took / seconds))
    size = round(RECORDED.mean_rate() * RECORDED.period_s() / 8)
    took = _run(LinkModel(RECORDED, FAST_BPS), size)[0]
    found.append(
        Measurement(
            "bulk over a recorded rate", took, "s", "the record", took / float(RECORDED.transfer_time(8.0 * size, 0.0))
        )
    )
    for trip in ROUND_TRIPS_S:
        pings = _run(LinkModel(FAST_BPS, FAST_BPS, rtt_s=trip), 1, PINGS)
        typical = statistics.median(pings)
        what = f"round trip of {1e3 * trip:g} ms, median of {PINGS}"
        found.append(Measurement(what, 1e3 * typical, "ms", "the model", typical / trip))
    return found


def _run(model: LinkModel, size: int, times: int = 1) -> list[float]:
    with asyncio.Runner(loop_factory=precise_loop) as runner:
        return runner.run(_through(model, size, times))


async def _through(model: LinkModel, size: int, times: int = 1) -> list[float]:
    """Return the seconds from the first byte sent to the answer, which a peer sends when all bytes have come."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left = size
        with contextlib.suppress(OSError):
            while data := await reader.read(PART):
                left -= len(data)
                if not left:
                    writer.write(b"!")
                    left = size
        writer.close()

    peer = await asyncio.start_server(answer, "127.0.0.1", 0)
    relay = Relay(model)
    serving = asyncio.ensure_future(relay.serve("127.0.0.1", 0, peer.sockets[0].getsockname()[:2]))
    reader, writer = await asyncio.open_connection(*await relay.ready())
    found = []
    for _ in range(times):
        began = time.perf_counter()
        for first in range(0, size, PART):
            writer.write(bytes(min(PART, size - first)))
            await writer.drain()
        await reader.readexactly(1)
        found.append(time.perf_counter() - began)
    writer.close()
    relay.stop()
    await serving
    peer.close()
    return found
