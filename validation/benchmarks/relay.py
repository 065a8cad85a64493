"""Benchmark ``relay``: throughput and round trips through the relay of ``hlm link``, without tokens."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Sequence

from hlmtheory.channel import TraceLink
from validation.benchmarks.measurement import Measurement
from validation.link.relay import LinkModel, Relay

FAST_BPS = 1e9
RATES_BPS = (50e3, 1e6, 10e6, 50e6)
ROUND_TRIPS_S = (0.005, 0.04, 0.2)
RECORDED = TraceLink([0.0, 0.25, 0.5, 0.75], [1e6, 4e6, 0.0, 3e6])
PINGS = 20


def measure(seconds: float = 2.0, rates: Sequence[float] = RATES_BPS) -> list[Measurement]:
    """Measure bulk uploads of so many seconds against the rate, and round trips of a byte against the model's."""
    found = []
    for rate in rates:
        took = asyncio.run(_through(LinkModel(rate, FAST_BPS), round(rate * seconds / 8)))[0]
        found.append(Measurement(f"bulk at {rate / 1e6:g} Mbit/s", took, "s", "the rate", took / seconds))
    size = round(RECORDED.mean_rate() * RECORDED.period_s() / 8)
    took = asyncio.run(_through(LinkModel(RECORDED, FAST_BPS), size))[0]
    found.append(
        Measurement(
            "bulk over a recorded rate", took, "s", "the record", took / float(RECORDED.transfer_time(8.0 * size, 0.0))
        )
    )
    for trip in ROUND_TRIPS_S:
        pings = asyncio.run(_through(LinkModel(FAST_BPS, FAST_BPS, rtt_s=trip), 1, PINGS))
        typical = statistics.median(pings)
        what = f"round trip of {1e3 * trip:g} ms, median of {PINGS}"
        found.append(Measurement(what, 1e3 * typical, "ms", "the model", typical / trip))
    return found


async def _through(model: LinkModel, size: int, times: int = 1) -> list[float]:
    """Return the seconds from the first byte sent to the answer, which a peer sends when all bytes have come."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                await reader.readexactly(size)
                writer.write(b"!")
        except (asyncio.IncompleteReadError, OSError):
            writer.close()

    peer = await asyncio.start_server(answer, "127.0.0.1", 0, limit=max(2 * size, 2**16))
    relay = Relay(model)
    serving = asyncio.ensure_future(relay.serve("127.0.0.1", 0, peer.sockets[0].getsockname()[:2]))
    reader, writer = await asyncio.open_connection(*await relay.ready())
    found = []
    for _ in range(times):
        began = time.perf_counter()
        writer.write(bytes(size))
        await reader.readexactly(1)
        found.append(time.perf_counter() - began)
    writer.close()
    relay.stop()
    await serving
    peer.close()
    return found
