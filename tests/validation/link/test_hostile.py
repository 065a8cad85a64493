"""Peers that are silent, slow, do not read, or send anything: they are closed by name, and change no other text."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.sync.server import serve

from tests.validation.link.hostile import CONTEXT, V, opening
from tests.validation.link.served import LONGEST_S, Running, device_of, ended, until
from validation.collection.prompts import Prompt
from validation.decoding.loop import decode
from validation.decoding.methods.base import Method
from validation.decoding.methods.multi_draft import BlockVerification, Dssd, FixedLength
from validation.decoding.methods.quantized import KSqs
from validation.decoding.methods.shared_seed import SharedSeed, SharedSeedStreamed
from validation.decoding.session import Draft
from validation.decoding.wire import index_bits, pack
from validation.errors import UserError
from validation.link import device as device_module
from validation.link import engine as engine_module
from validation.link.engine import Engine, ReceivedRound, ServedText
from validation.link.formats import SERVER_WRITES, Terms
from validation.link.passes import Limits
from validation.link.remote import ServerAwayError
from validation.link.wire import (
    LEAST_TEMPERATURE,
    OPEN,
    PROTOCOL,
    ROUND,
    Greeting,
    Opening,
    Pipe,
    greeting_of,
    round_body,
    to_json,
)
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
    with Running(pair, limits=Limits(opening_s=0.1)) as server, connect(server.address) as peer:
        peer.recv(5)
        closed_as_silent(peer)


def test_a_device_that_is_silent_within_a_text_is_closed_in_time(pair: Pair) -> None:
    with Running(pair, limits=Limits(idle_s=0.1)) as server, connect(server.address) as peer:
        pipe = Pipe(greeting_of(peer.recv(5)).nonce, None, server=False)
        peer.send(pipe.seal(OPEN, to_json(opening(SharedSeed(3)))))
        peer.recv(5)
        closed_as_silent(peer)


def test_a_device_whose_frame_comes_too_slowly_is_closed_in_time(pair: Pair) -> None:
    with Running(pair, limits=Limits(opening_s=0.4)) as server, connect(server.address) as peer:
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
    with Running(pair, limits=Limits(opening_s=0.1)) as server:
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

    with Running(pair, limits=Limits(idle_s=0.3)) as server, connect(server.address) as peer:
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


def test_a_device_that_names_a_session_in_use_gets_its_own_text(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server cannot tell it from a device whose cut connection it has not seen end, so it serves both."""
    monkeypatch.setattr(device_module.secrets, "token_hex", lambda size: "ab" * size)
    with (
        Running(pair) as server,
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


ROUNDS, LENGTHS = 20, {"a": 12, "b": 16, "c": 20}
TINY = float(np.float32(1e-45))


def tokens(*drafts: int) -> bytes:
    """Return a message of token ids alone."""
    return pack([(np.array([len(drafts)]), 16), (np.array(drafts), index_bits(V))])


def known(*drafts: tuple[int, float]) -> bytes:
    """Return a message of tokens with their probabilities."""
    bits = [int(np.float32(probability).view(np.uint32)) for _, probability in drafts]
    each = [part for (token, _), one in zip(drafts, bits, strict=True) for part in ((token, index_bits(V)), (one, 32))]
    return pack([(len(drafts), 16), *each])


def rows(*drafts: tuple[int, list[float]]) -> bytes:
    """Return a message of tokens with their distributions."""
    return tokens(*(token for token, _ in drafts)) + np.array([row for _, row in drafts], dtype="<f4").tobytes()


HOSTILE: list[tuple[Method, dict[str, Any], bytes]] = [
    *((SharedSeed(3), {"temperature": each}, tokens(0, 2, 1)) for each in (5e-324, 1e-300, 1e-38, 1e-7, 10**400, 999)),
    (SharedSeed(3), {"temperature": LEAST_TEMPERATURE}, tokens(0, 2, 1)),
    (FixedLength(3), {"temperature": 0}, tokens(2, 2, 2)),
    (FixedLength(3), {"temperature": LEAST_TEMPERATURE}, rows((0, [1.0, 0.0, 0.0]), (2, [1 - TINY, 0.0, TINY]))),
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
    """Open a text and send one round again and again, until the server ends the connection or the text."""
    method, changed, message = which
    with connect(address) as socket, suppress(ConnectionClosed, TimeoutError):
        pipe = Pipe(greeting_of(socket.recv(5)).nonce, None, server=False)
        socket.send(pipe.seal(OPEN, to_json(replace(opening(method), **changed))))
        answer = socket.recv(20)
        for _ in range(ROUNDS):
            if isinstance(answer, str):
                said.append(answer)
                return
            socket.send(pipe.seal(ROUND, round_body([], message, V)))
            answer = socket.recv(20)


def beside(pair: Pair, others: Callable[[str], None]) -> None:
    """Write three texts in shared passes, as the loop does, while others do what they like."""
    methods: dict[str, Method] = {"a": FixedLength(2), "b": SharedSeed(3), "c": BlockVerification(3)}
    found: dict[str, list[int]] = {}

    def write(name: str) -> None:
        with device_of(pair, server.address) as device:
            found[name] = device.generate(methods[name], [0], name=name, seed=2, new_tokens=LENGTHS[name]).tokens

    with Running(pair, limits=Limits(batch=8, wait_s=0.05)) as server:
        threads = [threading.Thread(target=write, args=(name,), daemon=True) for name in methods]
        threads.append(threading.Thread(target=others, args=(server.address,), daemon=True))
        for thread in threads:
            thread.start()
        for thread in threads:
            ended(thread)
        passes, rounds = (server.server.metrics.value(n) for n in ("hlm_pass_seconds_count", "hlm_rounds_total"))
    assert passes < rounds
    assert found == {
        name: decode(pair, [Prompt(name, "0", "")], method, new_tokens=LENGTHS[name], seed=2)[0].tokens
        for name, method in methods.items()
    }


def test_hostile_openings_and_drafts_change_no_other_text(pair: Pair) -> None:
    said: list[str] = []

    def attacks(address: str) -> None:
        crowd = [threading.Thread(target=attack, args=(address, one, said), daemon=True) for one in HOSTILE]
        for thread in crowd:
            thread.start()
        for thread in crowd:
            ended(thread)

    beside(pair, attacks)
    assert len(said) > 12
    assert not [one for one in said if "could not serve" in one]
    assert sum("The temperature is" in one for one in said) == 7


def served_text(pair: Pair, name: str, prompt: list[int]) -> ServedText:
    terms = Terms.of(SharedSeed(3))
    given = Opening("t", "q", [terms.plain()], name, 1, 1.0, 1.0, 12, prompt, [], "s")
    return ServedText(pair, given, terms)


def passed(pair: Pair, names: dict[str, list[int]]) -> dict[str, Any]:
    """Return the answers of one pass over a round of each text."""
    texts = [served_text(pair, name, prompt) for name, prompt in names.items()]
    rounds = [ReceivedRound([], [Draft(0), Draft(1)]) for _ in texts]
    return dict(zip(names, Engine(pair).run(texts, rounds), strict=True))


def test_an_error_in_the_answer_to_one_text_is_its_own(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = {name: passed(pair, {name: [0]})[name] for name in ("a", "b")}
    verify = engine_module.verify

    def failing(method: Any, session: Any, *given: Any) -> Any:
        if session.noise.names == ["bad"]:
            raise KeyError("bad")
        return verify(method, session, *given)

    monkeypatch.setattr(engine_module, "verify", failing)
    found = passed(pair, {"a": [0], "bad": [0], "b": [0]})
    assert isinstance(found.pop("bad"), KeyError)
    assert found == alone


def test_a_pass_that_fails_together_is_repeated_alone(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model whose local attention counts back needs positions for the longest text with the most drafts."""
    alone = {name: passed(pair, {name: [0]})[name] for name in ("a", "b")}
    read = Engine._read

    def failing(self: Engine, texts: Any, until: Any, rows: Any) -> Any:
        if any(len(text.opening.prompt) > 5 for text in texts):
            raise UserError("too many positions")
        return read(self, texts, until, rows)

    monkeypatch.setattr(Engine, "_read", failing)
    found = passed(pair, {"a": [0], "long": [0] * 6, "b": [0]})
    assert isinstance(found.pop("long"), UserError)
    assert found == alone
