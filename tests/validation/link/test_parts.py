"""The parts without a server: passes that last a stated time, a pass that is given up, the relay."""

import socket
import socketserver
import threading
import time
from contextlib import suppress

import pytest
import torch

from hlmtheory.channel import TraceLink
from tests.validation.link.served import Relayed
from validation.errors import UserError
from validation.link import loops
from validation.link.loops import Pace, session_of
from validation.link.received import OwnModel
from validation.link.relay import LinkModel
from validation.models.pair import load_pair


class Clock:
    def __init__(self, *late: float) -> None:
        self.now, self.late = 0.0, list(late)

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds + (self.late.pop(0) if self.late and seconds else 0.0)


def test_what_a_pass_was_late_the_next_one_is_shorter(monkeypatch):
    clock, pace, ends = Clock(0.0, 0.5, 0.25), Pace(1.0), []
    monkeypatch.setattr(loops, "time", clock)
    for seconds in (0.0, 0.0, 0.25, 0.75, 0.25, 5.0, 0.25, 0.25):  # what a pass takes by itself
        began = clock.now
        clock.now += seconds
        pace.wait(began)
        ends.append(clock.now)
    assert ends == [1.0, 2.5, 3.25, 4.0, 5.0, 10.0, 10.25, 11.0]


def test_a_pass_that_is_given_up_leaves_the_model_as_it_was():
    pair, calls = load_pair("builtin", device="cpu"), list[int]()
    session = session_of(pair, [5, 6, 7], "a", 1, 1.0, 1.0, 7)
    stopped, own = (OwnModel(session, [5, 6, 7], threading.Lock(), Pace()) for _ in range(2))

    def stop():
        calls.append(1)
        if len(calls) == 2:
            raise KeyError

    stopped.logits([8])
    with pytest.raises(KeyError):
        stopped.logits([8, 9], stop)
    assert len(calls) == 2
    own.logits([8])
    assert torch.equal(stopped.logits([8, 4]), own.logits([8, 4]))


FAST, LATE_S = 1e9, 10.0  # a busy machine may be late; nothing may be early


class Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        with suppress(OSError):
            while data := self.request.recv(65536):
                self.request.sendall(data)


@pytest.fixture(scope="module")
def address():
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield "ws://{}:{}".format(*server.server_address)
        server.shutdown()


def through(relay: Relayed, data: bytes) -> tuple[bytes, float]:
    with socket.create_connection(relay.place, timeout=20) as connection:

        def send() -> None:
            with suppress(OSError):  # the peer may reset the connection before their end
                connection.sendall(data)

        began = time.perf_counter()
        threading.Thread(target=send, daemon=True).start()
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
def test_bytes_take_the_time_of_the_link(address, model, expected):
    data = bytes(range(250)) * 200  # 400,000 bits
    with Relayed(LinkModel(**model), address) as relay:
        found, seconds = through(relay, data)
    assert found == data
    assert 0.98 * expected - 0.003 <= seconds <= expected + LATE_S


def test_a_lost_segment_comes_one_round_trip_later_and_in_order(address):
    data = bytes(range(256)) * 100
    with Relayed(LinkModel(FAST, FAST, rtt_s=0.02, loss=0.5, seed=3), address) as relay:
        found, seconds = through(relay, data)
    assert found == data
    assert seconds > 0.04


def test_a_relay_counts_both_ways_and_stops_before_a_later_cut(address):
    with Relayed(LinkModel(FAST, FAST, cuts_s=[3600.0]), address) as relay:
        through(relay, b"five!")
    assert relay.relay.forwarded == 10


def test_a_round_trip_takes_less_than_a_minute():
    assert LinkModel(FAST, FAST, rtt_s=59.9).rtt_s == 59.9
    with pytest.raises(UserError, match="round trip is 60 s"):
        LinkModel(FAST, FAST, rtt_s=60.0)


@pytest.mark.parametrize("cuts", [{"cut_bytes": [1000]}, {"cuts_s": [0.1]}], ids=["bytes", "time"])
def test_a_cut_resets_the_connection(address, cuts):
    with Relayed(LinkModel(80e3, FAST, **cuts), address) as relay:
        try:
            found, _ = through(relay, bytes(100_000))
        except OSError:
            found = b""
        assert len(found) <= 5000
        assert relay.relay.resets == 1
        again, _ = through(relay, b"again")
    assert again == b"again"
