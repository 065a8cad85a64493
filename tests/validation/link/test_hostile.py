"""Peers that are silent, slow, do not read, or send anything: they are closed by name, and change no other text."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.sync.server import serve

from tests.validation.link.hostile import CONTEXT, V, mutated, opening
from tests.validation.link.served import LONGEST_S, POSITIONS, Running, device_of, ended, write
from tests.validation.stopping import until
from validation.decoding.methods.base import Method
from validation.decoding.methods.multi_draft import BlockVerification, Dssd, FixedLength
from validation.decoding.methods.quantized import KSqs
from validation.decoding.methods.shared_seed import SharedSeed, SharedSeedStreamed
from validation.decoding.session import Draft
from validation.decoding.wire import index_bits, pack
from validation.link import device as device_module
from validation.link import engine as engine_module
from validation.link import wire
from validation.link.device_records import LinkRecord
from validation.link.engine import Engine, ReceivedRound, ServedText
from validation.link.formats import SERVER_WRITES, Terms
from validation.link.passes import Limits
from validation.link.remote import ServerAwayError
from validation.models.pair import Pair


@pytest.mark.parametrize("way", ["opens no text", "is silent within a text", "is too slow"])
def test_a_device_that_is_silent_or_slow_is_closed_in_time(pair, way):
    within, over = way == "is silent within a text", threading.Event()
    limits = Limits(idle_s=0.1) if within else Limits(opening_s=0.3)
    with Running(pair, limits=limits) as server, connect(server.address) as peer:
        pipe = wire.Pipe(wire.greeting_of(peer.recv(5)).nonce, None, server=False)

        def send():
            with suppress(ConnectionClosed):  # fragments of one frame that never ends
                peer.send(iter(lambda: b"x" * (not over.wait(0.05)), b""))

        sending = threading.Thread(target=send, daemon=True)
        if within:
            peer.send(pipe.seal(wire.OPEN, wire.to_json(opening(SharedSeed(3)))))
            peer.recv(5)
        if way == "is too slow":
            sending.start()
        assert '"error": "Silent"' in str(peer.recv(10))
        with pytest.raises(ConnectionClosed):
            peer.recv(10)
        over.set()


def test_a_connection_without_a_handshake_is_closed_in_time(pair):
    limits = Limits(opening_s=0.1)
    with Running(pair, limits=limits) as server, socket.create_connection(server.place, timeout=10) as raw:
        raw.sendall(b"GET / HTTP/1.1\r\n")
        with pytest.raises(ConnectionError):
            until(lambda: not raw.send(b"x"))  # a header without an end


def test_a_device_that_does_not_read_is_closed_in_time(pair, monkeypatch):
    send, sent = ServerConnection.send, list[int]()

    async def stuck(self, data, *given):
        if self.remote_address[1] == port:
            sent.append(1)
            if len(sent) == 3:
                await asyncio.sleep(60)  # as a send does whose buffers are full
        await send(self, data, *given)

    with Running(pair, limits=Limits(idle_s=0.3)) as server, connect(server.address) as peer:
        port = peer.socket.getsockname()[1]
        monkeypatch.setattr(ServerConnection, "send", stuck)
        pipe = wire.Pipe(wire.greeting_of(peer.recv(5)).nonce, None, server=False)
        written = replace(opening(SharedSeed(3)), terms=[SERVER_WRITES.plain()])
        peer.send(pipe.seal(wire.OPEN, wire.to_json(written)))
        with device_of(pair, server.address) as device:
            write(device, SharedSeed(3))
        until(lambda: server.server.metrics.value("hlm_refused_total", reason="Silent") >= 1)


@contextmanager
def mute_server(*, reads: bool = True) -> Iterator[tuple[str, list[int]]]:
    """A server that greets and then answers nothing but openings; its address, and its connections."""
    connections, over = list[int](), threading.Event()

    def greet(peer: Any) -> None:
        connections.append(1)
        peer.send(wire.to_json(wire.Greeting(wire.PROTOCOL, "00" * 16, 3, "t", {"target": "p"}, [], 64, False)))
        pipe = wire.Pipe("00" * 16, None, server=True)
        if not reads:
            over.wait(20)
            return
        for number, data in enumerate(peer):
            if number == 0 and pipe.unseal(data, 10_000)[0] == wire.OPEN:
                peer.send(pipe.seal(wire.OPEN, b"target"))

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
def test_a_server_that_opens_every_text_and_is_then_silent_is_said_in_time(pair, method):
    began = time.monotonic()
    with (
        mute_server() as (address, connections),
        device_of(pair, address, patience_s=0.5, answer_s=0.2) as device,
        pytest.raises(ServerAwayError, match=r"did not answer for 0\.5 s \(TimeoutError"),
    ):
        device.generate(method, [0], name="a", seed=2, new_tokens=POSITIONS)
    assert len(connections) >= 2
    assert time.monotonic() - began < LONGEST_S


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this system bounds no send")
def test_a_server_that_does_not_read_is_given_up_in_time(pair):
    with mute_server(reads=False) as (address, _), device_of(pair, address, answer_s=0.3) as device:
        began = time.monotonic()
        with pytest.raises(ConnectionClosed):
            list(map(device.remote.send, [bytes(2**22)] * 12))  # the buffers of both sides hold less
        assert time.monotonic() - began < LONGEST_S


def test_a_device_that_names_a_session_in_use_gets_its_own_text(pair, monkeypatch):
    """The server cannot tell it from a device whose cut connection it has not seen end, so it serves both."""
    monkeypatch.setattr(device_module.secrets, "token_hex", lambda size: "ab" * size)
    with (
        Running(pair) as server,
        device_of(pair, server.address) as first,
        device_of(pair, server.address) as second,
        device_of(pair, server.address) as third,
    ):
        cut = []

        def cut_and_intrude(tokens):
            if not cut:
                for device, name, method in ((second, "b", SharedSeed(3)), (third, "a", FixedLength(2))):
                    write(device, method, name)
                    device.remote.close()  # its cache stays under the name of the session
                first.remote.close()
            cut.extend(tokens)

        assert write(first, SharedSeed(3), on_tokens=cut_and_intrude).tokens == cut
        assert len(server.server.parked) <= 1


ROUNDS, LENGTHS = 20, {"a": 12, "b": 16, "c": 20}
TINY = float(np.float32(1e-45))


def tokens(*drafts: int) -> bytes:
    return pack([(np.array([len(drafts)]), 16), (np.array(drafts), index_bits(V))])


def known(*drafts: tuple[int, float]) -> bytes:
    bits = [int(np.float32(probability).view(np.uint32)) for _, probability in drafts]
    each = [part for (token, _), one in zip(drafts, bits, strict=True) for part in ((token, index_bits(V)), (one, 32))]
    return pack([(len(drafts), 16), *each])


def rows(*drafts: tuple[int, list[float]]) -> bytes:
    return tokens(*(token for token, _ in drafts)) + np.array([row for _, row in drafts], dtype="<f4").tobytes()


HOSTILE: list[tuple[Method, dict[str, Any], bytes]] = [
    *((SharedSeed(3), {"temperature": each}, tokens(0, 2, 1)) for each in (5e-324, 1e-300, 1e-38, 1e-7, 10**400, 999)),
    (SharedSeed(3), {"temperature": wire.LEAST_TEMPERATURE}, tokens(0, 2, 1)),
    (FixedLength(3), {"temperature": 0}, tokens(2, 2, 2)),
    (FixedLength(3), {"temperature": wire.LEAST_TEMPERATURE}, rows((0, [1.0, 0.0, 0.0]), (2, [1 - TINY, 0.0, TINY]))),
    (FixedLength(3), {"top_p": 5e-324}, rows((1, [0.0005, 0.9995, 0.0005]))),
    (BlockVerification(3), {"top_p": 1e-17}, rows((0, [TINY, 1.0, 0.0]), (0, [TINY, 0.0, 1.0]))),
    (BlockVerification(64), {"temperature": 1e-6}, rows(*[(2, [0.0, 0.0, 1.0])] * 8)),
    (Dssd(3), {"temperature": 1e-6}, known((0, TINY), (1, 1.000001), (2, TINY))),
    (Dssd(3), {"temperature": 999.0, "top_p": 5e-324}, known((2, 1.0))),
    (KSqs(2), {"temperature": 1e-6}, b"\0"),
    (SharedSeed(3), {"seed": 2**63 - 1}, tokens(0)),
    (SharedSeed(64), {"seed": 0, "new_tokens": CONTEXT - 2}, tokens(*[V - 1] * (CONTEXT - 4))),
    (SharedSeed(3), {"new_tokens": 0, "text": []}, tokens()),
    (SharedSeed(3), {"prompt": [V - 1] * (CONTEXT - 12)}, tokens(V - 1, V - 1)),
    (SharedSeed(1), {"name": "", "session": "", "new_tokens": 1, "text": []}, tokens(0)),
    (SharedSeed(3), {"name": "\U0001f600" * 64, "temperature": 1}, tokens(0, 1, 2)),
    (SharedSeedStreamed(), {"temperature": 1e-300}, b""),
    (SharedSeed(3), {"temperature": 1e-6, "text": [0] * 11}, tokens(0)),
    (Dssd(3), {"temperature": 1e-300}, known((0, TINY))),
    (FixedLength(3), {"text": []}, b"\0"),
]


def attack(address: str, which: tuple[Method, dict[str, Any], bytes], said: list[str]) -> None:
    method, changed, message = which
    with connect(address) as socket, suppress(ConnectionClosed, TimeoutError):
        pipe = wire.Pipe(wire.greeting_of(socket.recv(5)).nonce, None, server=False)
        frame = pipe.seal(wire.OPEN, wire.to_json(replace(opening(method), **changed)))
        for _ in range(ROUNDS + 1):
            socket.send(frame)
            if isinstance(answer := socket.recv(20), str):
                said.append(answer)
                return
            frame = pipe.seal(wire.ROUND, wire.round_body([], message, V))


def garble(address: str, said: list[str]) -> None:
    rng = np.random.default_rng(3)
    for _ in range(4):
        with connect(address) as socket:
            frame = wire.Pipe(wire.greeting_of(socket.recv(5)).nonce, None, server=False).seal(
                wire.OPEN, wire.to_json(opening(SharedSeed(3)))
            )
            socket.send(mutated(frame, [frame], rng) + b"\0")
            said.append(str(socket.recv(5)))


def test_hostile_openings_drafts_and_frames_change_no_other_text(pair):
    methods = {"a": FixedLength(2), "b": SharedSeed(3), "c": BlockVerification(3)}
    found, said = list[LinkRecord](), list[str]()

    def honest(name):
        with device_of(pair, server.address) as device:
            found.append(write(device, methods[name], name, LENGTHS[name]))

    with Running(pair, limits=Limits(batch=8, wait_s=0.05)) as server:
        crowd = [partial(honest, name) for name in methods]
        crowd += [partial(attack, server.address, one, said) for one in HOSTILE]
        threads = [threading.Thread(target=one, daemon=True) for one in (*crowd, partial(garble, server.address, said))]
        for thread in threads:
            thread.start()
        for thread in threads:
            ended(thread)
        passes, rounds = (server.server.metrics.value(n) for n in ("hlm_pass_seconds_count", "hlm_rounds_total"))
    assert passes < rounds
    assert len(found) == 3
    assert len(said) > 16
    assert all('"error"' in one and "could not serve" not in one for one in said)
    assert sum("The temperature is" in one for one in said) == 7


def passed(pair: Pair, *names: str) -> dict[str, Any]:
    terms = Terms.of(SharedSeed(3))
    given = [wire.Opening("t", "q", [terms.plain()], name, 1, 1.0, 1.0, 12, [0], [], "s") for name in names]
    rounds = [ReceivedRound([], [Draft(0), Draft(1)]) for _ in names]
    return dict(zip(names, Engine(pair).run([ServedText(pair, one, terms) for one in given], rounds), strict=True))


@pytest.mark.parametrize("where", ["answer", "pass"])
def test_an_error_of_one_text_is_its_own(pair, monkeypatch, where):
    """A pass that fails together is repeated for each text alone."""
    alone = passed(pair, "a") | passed(pair, "b")
    verify, read = engine_module.verify, Engine._read

    def bad_answer(method, session, *given):
        if session.noise.names == ["bad"]:
            raise KeyError("bad")
        return verify(method, session, *given)

    def bad_pass(self, texts, *given):
        if any(text.opening.name == "bad" for text in texts):
            raise KeyError("too many positions")
        return read(self, texts, *given)

    if where == "answer":
        monkeypatch.setattr(engine_module, "verify", bad_answer)
    else:
        monkeypatch.setattr(Engine, "_read", bad_pass)
    found = passed(pair, "a", "bad", "b")
    assert isinstance(found.pop("bad"), KeyError)
    assert found == alone
