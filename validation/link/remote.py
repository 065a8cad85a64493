"""The server, as a device sees it: connected when needed, and again after a cut."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from hlmtheory.policy.answers import longest_cut
from validation.errors import UserError
from validation.link import wire
from validation.link.addresses import scheme_at
from validation.link.formats import REFUSED

LONGEST_PAUSE_S, LOOK_S = 2.0, 5.0
"""Between two attempts to connect, and how long a look at what answers there may take."""
LOOKING = "hlm looks for its server"
"""The name of the thread of a device that goes on alone."""


class ServerAwayError(UserError):
    """The server did not answer for as long as the device may wait."""


class RefusedError(UserError):
    """The server refuses what the device asks for."""


class Remote:
    """The server, as a device sees it: connected when needed, and again after a cut.

    ``patience_s`` is how long the server may be away, counted from its last tokens: one that only opens texts is given
    up too. ``answer_s`` bounds one answer, and how long the server may not read. With ``alone`` the device may go on
    without the server, and a server that was away is then tried only once.
    """

    def __init__(
        self,
        address: str,
        *,
        key: bytes | None = None,
        patience_s: float = 30.0,
        answer_s: float = 30.0,
        tls: ssl.SSLContext | None = None,
        alone: bool = False,
    ) -> None:
        self.address, self.key, self.patience_s, self.answer_s, self.tls = address, key, patience_s, answer_s, tls
        self.alone, self.away, self.version, self.pads = alone, False, "", False
        self.connections = self.openings = self.sent_bytes = self.received_bytes = 0
        self._greeting: wire.Greeting | None = None
        self._heard = 0.0  # when the last answer came
        self.opened = self._proved = False  # whether this connection has the text, or has said hello
        self._socket: Any = None
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Remote:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket, self.opened, self._proved = None, False, False
        with contextlib.suppress(Exception):
            self._stack.close()

    def greeting(self) -> wire.Greeting:
        """Return what the server says of itself; connect if need be."""
        if self._greeting is None:
            self._patiently(self._connected)
        assert self._greeting is not None
        return self._greeting

    def beside(self) -> Remote:
        """Return another connection to the same server, which is opened when it is needed."""
        times = {"patience_s": self.patience_s, "answer_s": self.answer_s}
        other = Remote(self.address, key=self.key, tls=self.tls, alone=self.alone, **times)
        other._greeting = self._greeting
        return other

    @contextmanager
    def watched(self) -> Iterator[threading.Event]:
        """Look for the server in a thread; the event says that it greets again."""
        back, ended = threading.Event(), threading.Event()

        def look() -> None:
            pause = 0.05
            while not ended.wait(pause) and not back.is_set():
                pause = min(2 * pause, LONGEST_PAUSE_S)
                with contextlib.suppress(Exception), self._connect() as tried:
                    wire.greeting_of(tried.recv(self.answer_s))
                    back.set()

        threading.Thread(target=look, daemon=True, name=LOOKING).start()
        try:
            yield back
        finally:
            ended.set()

    def round(self, opening: Callable[[], wire.Opening], body: bytes) -> bytes:
        """Return the answer to a round; ``opening`` makes the opening of its text, for a new connection."""

        def once() -> bytes:
            self._connected()
            if not self.opened:
                self._open_text(opening())
                self.opened = True
            return self._exchange(wire.ROUND, body)

        return bytes(self._patiently(once))

    def _open_text(self, opening: wire.Opening) -> None:
        version = self._exchange(wire.OPEN, wire.to_json(opening, padded=self.pads)).decode(errors="replace")
        if version not in self.greeting().targets:
            raise wire.LinkError("the server opened the text with a version that it did not name; no server does that")
        self.version = version
        self.openings += 1

    def _exchange(self, kind: bytes, body: bytes) -> bytes:
        self.send(self._pipe.seal(kind, body))
        said, found = self._pipe.unseal(self.receive(), self._longest)
        if said != kind:
            raise wire.LinkError(f"an answer of kind {said!r} to a frame of kind {kind!r}; no server sends that")
        self._proved = True
        if kind == wire.ROUND:
            self.heard()
        return found

    def text(self, opening: Callable[[], wire.Opening], run: Callable[[], None]) -> None:
        """Open a text and call a function that sends and receives its frames; after a cut again, behind an opening."""

        def once() -> None:
            self._connected()
            self._open_text(opening())
            run()

        self._patiently(once)
        self.close()

    def hello(self) -> None:
        """Exchange a frame with the server. It then has the key, and waits longer for a text."""

        def once() -> None:
            self._connected()
            self._exchange(wire.HELLO, b"")

        self._patiently(once)

    def probe(self, frames: int, size: int) -> float:
        """Send pings at once, and return the seconds until the last answer; ``size`` is 4 to 125 bytes."""

        def once() -> float:
            self._connected()
            if not self._proved:
                self._exchange(wire.HELLO, b"")
            began, socket = time.perf_counter(), self._socket
            answers = [socket.ping(number.to_bytes(size, "big"), ack_on_close=True) for number in range(frames)]
            if not answers[-1].wait(self.answer_s):
                raise TimeoutError("no answer to a ping")
            seconds = time.perf_counter() - began
            if socket.protocol.state is not State.OPEN:
                raise ConnectionResetError("the connection ended before a ping was answered")
            return seconds

        from websockets.protocol import State

        return float(self._patiently(once))

    def send(self, data: bytes) -> None:
        self._socket.send(data)
        self.sent_bytes += len(data)

    def receive(self, timeout_s: float | None = None) -> bytes:
        """Return the next frame, in time, or raise what an error frame says."""
        data = self._socket.recv(self.answer_s if timeout_s is None else timeout_s)
        self._raise_error(data)
        self.received_bytes += len(data)
        return bytes(data) if isinstance(data, bytes) else data.encode()

    def tokens(self, vocabulary: int, most: int) -> list[int]:
        kind, body = self._pipe.unseal(self.receive(), self._longest)
        self.heard()
        tokens, rest = wire.round_of(body, vocabulary, most)
        if kind != wire.TEXT or rest or not tokens:
            raise wire.LinkError("a frame without tokens where some are expected; no server sends that")
        return tokens

    def heard(self) -> None:
        """Say that tokens came, from which the patience counts."""
        self._heard, self.away = time.monotonic(), False

    def _connected(self) -> None:
        if self._socket is not None:
            return
        self._socket = self._stack.enter_context(self._connect())
        data = self._socket.recv(self.answer_s)
        self._raise_error(data)
        greeting = wire.greeting_of(data)
        earlier = self._greeting
        if greeting.keyed != (self.key is not None):
            raise RefusedError("The server wants a key; give --key." if greeting.keyed else "The server has no key.")
        if earlier is not None and replace(greeting, nonce="") != replace(earlier, nonce=""):
            raise RefusedError("The server came back with another model or tokenizer; begin the text anew.")
        self._greeting, self._pipe = greeting, wire.Pipe(greeting.nonce, self.key, server=False)
        self._longest = 64 + max(4 * greeting.vocabulary, longest_cut(greeting.vocabulary))
        self._socket.protocol.max_message_size = 128 + self._longest
        self.connections += 1

    def _connect(self) -> Any:
        from websockets.exceptions import InvalidMessage
        from websockets.sync.client import connect

        options: dict[str, Any] = {"compression": None, "proxy": None, "close_timeout": 0.5, "ssl": self.tls}
        try:
            connected = connect(self.address, open_timeout=self.answer_s, max_size=wire.LONGEST_OPENING, **options)
            if hasattr(socket, "TCP_USER_TIMEOUT"):  # else a send waits for ever for a server that does not read
                longest_ms = max(1, int(1000 * self.answer_s))
                with contextlib.suppress(OSError):  # the server has closed: what it said before is still to be read
                    connected.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, longest_ms)
            return connected
        except ssl.SSLCertVerificationError as error:
            raise RefusedError(
                f"The certificate of {self.address} is not trusted ({error.verify_message}); give --ca with the "
                "certificate of the server, or of the authority that signed it."
            ) from error
        except (ssl.SSLError, InvalidMessage) as error:
            scheme, _, where = self.address.partition("://")
            if (other := scheme_at(self.address, min(self.answer_s, LOOK_S))) in (None, scheme):
                raise
            raise RefusedError(
                f"The server at {where} answers {'with' if other == 'wss' else 'without'} TLS; write {other}://{where}."
            ) from error

    def _raise_error(self, data: bytes | str) -> None:
        if isinstance(data, bytes) or '"error"' not in data:
            return
        try:
            said = json.loads(data)
            name, message, retry = str(said["error"]), str(said["message"]), said.get("retry_s")
            retry_s = min(max(0.0, float(retry or 0.0)), LONGEST_PAUSE_S)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise wire.LinkError("the server sent a text that is no error; no server sends that") from error
        if retry is not None:
            raise _TryAgainError(f"{name}: {message}", retry_s)
        raise RefusedError(f"The server refused: {name}: {message}.")

    def _patiently(self, function: Callable[[], Any]) -> Any:
        from websockets.exceptions import InvalidHandshake, WebSocketException

        began, pause = time.monotonic(), 0.02
        patience_s = 0.0 if self.alone and self.away else self.patience_s
        while True:
            try:
                return function()
            except RefusedError:
                self.close()
                raise
            except (OSError, TimeoutError, WebSocketException, InvalidHandshake, _TryAgainError, *REFUSED) as error:
                self.close()
                wait = error.retry_s if isinstance(error, _TryAgainError) else pause
                if time.monotonic() + wait - max(began, self._heard) > patience_s:
                    self.away = True
                    said = str(error) if isinstance(error, _TryAgainError) else f"{type(error).__name__}: {error}"
                    raise ServerAwayError(
                        f"The server at {self.address} did not answer for {self.patience_s:g} s ({said}); check that "
                        "it runs, or give it more time with --patience."
                    ) from error
                time.sleep(wait)
                pause = min(2 * pause, LONGEST_PAUSE_S) if self._heard < began else 0.02


class _TryAgainError(Exception):
    """The server refused, and may not do so in a while."""

    def __init__(self, message: str, retry_s: float) -> None:
        super().__init__(message)
        self.retry_s = retry_s
