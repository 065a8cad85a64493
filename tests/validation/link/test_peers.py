"""Peers that are silent, slow, do not read, or name a session that is in use."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.sync.server import serve

from tests.validation.link.hostile import opening
from tests.validation.link.served import LONGEST_S, device_of, ended, served, until
from validation.collection.prompts import Prompt
from validation.decoding.loop import decode
from validation.decoding.methods.multi_draft import FixedLength
from validation.decoding.methods.shared_seed import SharedSeed, SharedSeedStreamed
from validation.link import device as device_module
from validation.link.formats import SERVER_WRITES
from validation.link.passes import Limits
from validation.link.remote import ServerAwayError
from validation.link.wire import OPEN, PROTOCOL, Greeting, Pipe, greeting_of, to_json
from validation.models.pair import Pair

POSITIONS = 16


def text_of(pair: Pair, name: str) -> list[int]:
    """Return the loop's text."""
    return decode(pair, [Prompt(name, "0", "")], SharedSeed(3), new_tokens=POSITIONS, seed=2)[0].tokens


def closed_as_silent(socket: Any) -> None:
    """Wait until a server ends a connection whose device was silent or too slow."""
    assert '"error": "Silent"' in str(socket.recv(10))
    with pytest.raises(ConnectionClosed):
        socket.recv(10)


def test_a_device_that_opens_no_text_is_closed_in_time(pair: Pair) -> None:
    with served(pair, limits=Limits(opening_s=0.1)) as server, connect(server.address) as peer:
        peer.recv(5)
        closed_as_silent(peer)


def test_a_device_that_is_silent_within_a_text_is_closed_in_time(pair: Pair) -> None:
    with served(pair, limits=Limits(idle_s=0.1)) as server, connect(server.address) as peer:
        pipe = Pipe(greeting_of(peer.recv(5)).nonce, None, server=False)
        peer.send(pipe.seal(OPEN, to_json(opening(SharedSeed(3)))))
        peer.recv(5)
        closed_as_silent(peer)


def test_a_device_whose_frame_comes_too_slowly_is_closed_in_time(pair: Pair) -> None:
    with served(pair, limits=Limits(opening_s=0.4)) as server, connect(server.address) as peer:
        peer.recv(5)
        over = threading.Event()

        def pieces() -> Iterator[bytes]:
            while not over.wait(0.05):
                yield b"x"  # a fragment of one frame that never ends

        def send() -> None:
            with suppress(ConnectionClosed):
                peer.send(pieces())

        sending = threading.Thread(target=send, daemon=True)
        sending.start()
        try:
            closed_as_silent(peer)
        finally:
            over.set()
            ended(sending)


def test_a_connection_without_a_handshake_is_closed_in_time(pair: Pair) -> None:
    with served(pair, limits=Limits(opening_s=0.1)) as server:
        host, port = server.address.removeprefix("ws://").split(":")
        with socket.create_connection((host, int(port)), timeout=10) as raw:
            raw.sendall(b"GET / HTTP/1.1\r\n")
            while raw.recv(1000):
                pass


def test_a_device_that_does_not_read_is_closed_in_time(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    send, sent = ServerConnection.send, list[int]()

    async def stuck(self: Any, data: Any, *given: Any) -> None:
        if self.remote_address[1] == port:
            sent.append(1)
            if len(sent) == 3:
                await asyncio.sleep(60)  # as a send does whose buffers are full
        await send(self, data, *given)

    with served(pair, limits=Limits(idle_s=0.3)) as server, connect(server.address) as peer:
        port = peer.socket.getsockname()[1]
        monkeypatch.setattr(ServerConnection, "send", stuck)
        pipe = Pipe(greeting_of(peer.recv(5)).nonce, None, server=False)
        written = replace(opening(SharedSeed(3)), terms=[SERVER_WRITES.plain()])
        peer.send(pipe.seal(OPEN, to_json(written)))
        with device_of(pair, server.address) as device:
            found = device.generate(SharedSeed(3), [0], name="a", seed=2, new_tokens=POSITIONS)
        assert found.tokens == text_of(pair, "a")
        until(lambda: server.server.metrics.value("hlm_refused_total", reason="Silent") >= 1)


@contextmanager
def mute_server(*, opens: bool = False, reads: bool = True) -> Iterator[tuple[str, list[int]]]:
    """A server that greets and then answers nothing, except perhaps openings; its address, and its connections."""
    connections, over = list[int](), threading.Event()

    def greet(peer: Any) -> None:
        connections.append(1)
        peer.send(to_json(Greeting(PROTOCOL, "00" * 16, 3, "t", {"target": "p"}, [], 64, False)))
        pipe = Pipe("00" * 16, None, server=True)
        if not reads:
            over.wait(20)
            return
        for number, data in enumerate(peer):
            if opens and number == 0 and pipe.unseal(data, 10_000)[0] == OPEN:
                peer.send(pipe.seal(OPEN, b"target"))

    with serve(greet, "127.0.0.1", 0, max_queue=1, max_size=2**25, close_timeout=0.2) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield "ws://{}:{}".format(*server.socket.getsockname()), connections
        finally:
            over.set()
            server.shutdown()
            ended(thread)


@pytest.mark.parametrize("method", [SharedSeed(3), SharedSeedStreamed(), None], ids=["rounds", "streamed", "server"])
def test_a_server_that_opens_every_text_and_is_then_silent_is_said_in_time(pair: Pair, method: Any) -> None:
    began = time.monotonic()
    with (
        mute_server(opens=True) as (address, connections),
        device_of(pair, address, patience_s=0.5, answer_s=0.2) as device,
        pytest.raises(ServerAwayError, match=r"did not answer for 0\.5 s \(TimeoutError"),
    ):
        device.generate(method, [0], name="a", seed=2, new_tokens=POSITIONS)
    assert len(connections) >= 2
    assert time.monotonic() - began < LONGEST_S


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this system bounds no send")
def test_a_server_that_does_not_read_is_given_up_in_time(pair: Pair) -> None:
    with mute_server(reads=False) as (address, _), device_of(pair, address, answer_s=0.3) as device:
        began = time.monotonic()
        with pytest.raises(ConnectionClosed):
            list(map(device.remote.send, [bytes(2**22)] * 12))  # the buffers of both sides hold less
        assert time.monotonic() - began < LONGEST_S


def test_a_server_that_greets_and_is_silent_is_said_in_time(pair: Pair) -> None:
    began = time.monotonic()
    with (
        mute_server() as (address, connections),
        device_of(pair, address, patience_s=0.5, answer_s=0.2) as device,
        pytest.raises(ServerAwayError, match=r"did not answer for 0\.5 s \(TimeoutError"),
    ):
        device.generate(SharedSeed(3), [0], name="a", seed=2, new_tokens=POSITIONS)
    assert len(connections) >= 2
    assert time.monotonic() - began < LONGEST_S


def test_a_server_that_says_nothing_at_all_is_said_in_time(pair: Pair) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"ws://127.0.0.1:{listening.getsockname()[1]}"
        with (
            pytest.raises(ServerAwayError, match=r"did not answer for 0\.3 s"),
            device_of(pair, address, patience_s=0.3, answer_s=0.1),
        ):
            pass


def test_a_device_that_names_a_session_in_use_gets_its_own_text(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server cannot tell it from a device whose cut connection it has not seen end, so it serves both."""
    monkeypatch.setattr(device_module.secrets, "token_hex", lambda size: "ab" * size)
    with (
        served(pair) as server,
        device_of(pair, server.address) as first,
        device_of(pair, server.address) as second,
        device_of(pair, server.address) as third,
    ):
        other: list[list[int]] = []

        def intrude(tokens: list[int]) -> None:
            for device, name, method in ((second, "b", SharedSeed(3)), (third, "a", FixedLength(2))):
                found = device.generate(method, [0], name=name, seed=2, new_tokens=POSITIONS)
                other.append(found.tokens)
                device.remote.close()  # its cache stays under the name of the session

        cut: list[int] = []

        def cut_and_intrude(tokens: list[int]) -> None:
            if not cut:
                intrude(tokens)
                first.remote.close()
            cut.extend(tokens)

        found = first.generate(SharedSeed(3), [0], name="a", seed=2, new_tokens=POSITIONS, on_tokens=cut_and_intrude)
        assert len(server.server.parked) <= 1
    assert found.tokens == cut == text_of(pair, "a")
    (loop,) = decode(pair, [Prompt("a", "0", "")], FixedLength(2), new_tokens=POSITIONS, seed=2)
    assert other == [text_of(pair, "b"), loop.tokens]
