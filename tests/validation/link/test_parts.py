"""The parts without a server: passes that last a stated time, drafts that are given up, the relay."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from hlmtheory.channel import TraceLink
from hlmtheory.policy import DevicePolicy, StreamedServer, StreamedTokens, threshold_rule
from tests.validation.link.served import Relayed, relayed
from validation.decoding.kv_cache import CachedModel
from validation.link import pace
from validation.link.device_records import LinkRecord
from validation.link.loops import Pace
from validation.link.own_model import OwnModel
from validation.link.received import Streamed
from validation.link.relay import LinkModel
from validation.models.pair import load_pair


class Clock:
    """A clock whose sleeps end late by stated times."""

    def __init__(self, *late: float) -> None:
        self.now, self.late = 0.0, list(late)

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds + (self.late.pop(0) if self.late and seconds else 0.0)


def test_what_a_pass_was_late_the_next_one_is_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, made, ends = Clock(0.0, 0.5, 0.25, 0.0, 0.0), Pace(1.0), []
    monkeypatch.setattr(pace, "time", clock)
    for own in (0.0, 0.0, 0.25, 0.75, 0.25):  # what a pass takes by itself
        began = clock.now
        clock.now += own
        made.wait(began)
        ends.append(clock.now)
    assert ends == [1.0, 2.5, 3.25, 4.0, 5.0]


def test_a_pass_that_takes_longer_is_made_up_for_by_the_next_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, made, ends = Clock(), Pace(1.0), []
    monkeypatch.setattr(pace, "time", clock)
    for own in (5.0, 0.25, 0.25):
        began = clock.now
        clock.now += own
        made.wait(began)
        ends.append(clock.now)
    assert ends == [5.0, 5.25, 6.0]


POLICY = DevicePolicy(4, 1.0, threshold_rule(1), StreamedTokens(), bonus=False)
KNOWN = {"session": b"text 0001", "seed": 5, "position": 2}
TOKENS = 6


class Server:
    """A server of one text that always writes token 1; it answers a message when the device next listens."""

    nonce, key, version = KNOWN["session"], None, "target"

    def __init__(self, *, deaf: int) -> None:
        self.side = StreamedServer(POLICY, **KNOWN, used=set())
        self.sent, self.deaf, self.quiet = 0, deaf, 0

    def send(self, message: bytes) -> None:
        self.sent += 1
        self.side.receive(message)
        self.quiet = self.deaf  # how often the device listens in vain

    def receive(self, seconds: float | None) -> bytes:
        if not self.side.waiting or (seconds is not None and self.quiet > 0):
            self.quiet -= 1
            raise TimeoutError
        return self.side.verify(np.eye(4)[[1]])

    def heard(self) -> None:
        """Take no note."""


class Draft:
    """A draft model of two layers that is sure of one token."""

    def __init__(self, token: int, pace: Pace) -> None:
        self.row, self.pace, self.begun = torch.eye(4)[token] * 50, pace, 0

    def logits(self, _text: list[int], at_layer: Callable[[], None]) -> torch.Tensor:
        self.begun += 1
        for _ in range(2):
            at_layer()
        return self.row


def received(token: int, deaf: int, pace: Pace) -> tuple[Streamed, Server, Draft]:
    one, remote, own = Streamed.__new__(Streamed), Server(deaf=deaf), Draft(token, pace)
    one.remote, one.own, one.policy, one.text = remote, own, POLICY, []
    one.session = SimpleNamespace(stream_keys=[5], new_tokens=TOKENS, pair=SimpleNamespace(end_tokens=()))
    one.opening, one.record = SimpleNamespace(prompt=[0, 0]), LinkRecord("streamed", "0", "here", 1, 1.0, 1.0)
    one.on_answer = one.on_tokens = None
    return one, remote, own


@pytest.mark.parametrize("deaf", [1, 2])
def test_a_draft_behind_a_mismatch_ends_in_its_layers(deaf: int) -> None:
    one, remote, own = received(0, deaf, Pace())
    one.once()
    assert one.text == [1] * TOKENS
    assert remote.sent == TOKENS  # none of the drafts behind a mismatch was sent
    assert own.begun == 2 * TOKENS - 1  # the last answer is heard in a layer of one that is not wanted either


def test_a_pass_that_is_given_up_leaves_the_model_as_it_was() -> None:
    pair = load_pair("builtin", device="cpu")
    models = [CachedModel(pair.draft, pair.vocabulary, pair.device, 1, 12, pair.context) for _ in range(2)]
    own = [OwnModel.__new__(OwnModel) for _ in models]
    for each, model in zip(own, models, strict=True):
        each.model, each.prompt, each.tokens = model, [5, 6, 7], np.zeros((1, 12), dtype=np.int64)
        each.turn = threading.Lock()
    calls: list[int] = []

    def stop() -> None:
        calls.append(1)
        if len(calls) == 2:
            raise KeyError

    own[0].logits([8])
    with pytest.raises(KeyError):
        own[0].logits([8, 9], stop)
    assert len(calls) == 2
    assert torch.equal(own[0].logits([8, 4]), (own[1].logits([8]), own[1].logits([8, 4]))[1])


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
