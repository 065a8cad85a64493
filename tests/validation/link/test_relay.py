"""The relay by itself: rate, round trip, losses, cuts."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from hlmtheory.channel import TraceLink
from tests.validation.link.served import Relayed, relayed
from validation.errors import UserError
from validation.link.relay import LinkModel

FAST = 1e9
LATE_S = 10.0
"""A busy machine may be late; nothing may be early."""


@contextmanager
def echo() -> Iterator[str]:
    """An address that sends back what it gets, until the stream ends."""
    listening = socket.create_server(("127.0.0.1", 0))
    listening.settimeout(20)

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(20)
                try:
                    while data := connection.recv(65536):
                        connection.sendall(data)
                except OSError:
                    continue

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"ws://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.close()


def send(connection: socket.socket, data: bytes) -> None:
    """Send bytes; the peer may reset the connection before their end."""
    with suppress(OSError):
        connection.sendall(data)


def through(relay: Relayed, data: bytes) -> tuple[bytes, float]:
    """Send bytes and read them back; return them, and the seconds."""
    with socket.create_connection((relay.host, relay.port), timeout=20) as connection:
        began = time.perf_counter()
        threading.Thread(target=send, args=(connection, data), daemon=True).start()
        found = b""
        while len(found) < len(data) and (part := connection.recv(65536)):
            found += part
        return found, time.perf_counter() - began


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ({"up": 2e6, "down": FAST}, 0.2),
        ({"up": FAST, "down": 2e6}, 0.2),
        ({"up": FAST, "down": FAST, "rtt_s": 0.2}, 0.2),
        ({"up": TraceLink([0.0, 0.1, 0.2], [0.0, 4e6, 4e6]), "down": FAST}, 0.1),
    ],
    ids=["up", "down", "round trip", "recorded"],
)
def test_bytes_take_the_time_of_the_link(model: dict[str, Any], expected: float) -> None:
    data = bytes(range(250)) * 200  # 400,000 bits
    with echo() as address, relayed(LinkModel(**model), address) as relay:
        found, seconds = through(relay, data)
    assert found == data
    assert 0.98 * expected - 0.003 <= seconds <= expected + LATE_S


def test_a_lost_segment_comes_one_round_trip_later_and_in_order() -> None:
    data = bytes(range(256)) * 100
    model = LinkModel(FAST, FAST, rtt_s=0.02, loss=0.5, seed=3)
    with echo() as address, relayed(model, address) as relay:
        found, seconds = through(relay, data)
    assert found == data
    assert seconds > 0.04


@pytest.mark.parametrize("cuts", [{"cut_bytes": [1000]}, {"cuts_s": [0.1]}], ids=["bytes", "time"])
def test_a_cut_resets_the_connection(cuts: dict[str, Any]) -> None:
    with echo() as address, relayed(LinkModel(80e3, FAST, **cuts), address) as relay:
        try:
            found, _ = through(relay, bytes(100_000))
        except OSError:
            found = b""
        assert len(found) <= 5000
        assert relay.relay.resets == 1
        again, _ = through(relay, b"again")
    assert again == b"again"


def test_a_server_that_is_away_resets_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with relayed(LinkModel(FAST, FAST), f"ws://127.0.0.1:{port}") as relay:
        try:
            found, _ = through(relay, b"hello")
        except OSError:
            found = b""
    assert found == b""


@pytest.mark.parametrize("wrong", [{"up": 0.0}, {"rtt_s": -1.0}, {"loss": 1.0}])
def test_a_link_out_of_range_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UserError, match="give"):
        LinkModel(**{"up": 1e6, "down": 1e6} | wrong)  # type: ignore[arg-type]
