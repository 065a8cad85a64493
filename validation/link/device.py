"""The device: the in-process loop, whose drafts a server verifies over a socket.

The device owns the text. After a cut it connects again, opens the text with its tokens so far, and sends the round
again; the server's answer to it is the same one.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from validation.decoding.loop import _Loop
from validation.decoding.methods.base import Method
from validation.decoding.random_streams import REPLACE, Noise
from validation.decoding.records import GenerationRecord
from validation.decoding.sampling import draw, levels, residual
from validation.decoding.session import Draft, Message, Session
from validation.decoding.verification import VerifiedDrafts
from validation.errors import UserError
from validation.link.formats import REFUSED, Terms
from validation.link.wire import (
    LONGEST_OPENING,
    OPEN,
    ROUND,
    Greeting,
    LinkError,
    Opening,
    Pipe,
    answer_of,
    greeting_of,
    round_body,
    to_json,
)

if TYPE_CHECKING:
    import ssl

    from validation.models.pair import Pair

Array = NDArray[Any]
LONGEST_PAUSE_S = 2.0
"""Between two attempts to connect."""


class ServerAwayError(UserError):
    """The server did not answer for as long as the device may wait."""


class RefusedError(UserError):
    """The server refuses what the device asks for."""


class Remote:
    """The server, as a device sees it: connected when needed, and again after a cut.

    Parameters
    ----------
    address : str
        ``ws://HOST:PORT`` or ``wss://HOST:PORT``.
    key : bytes, optional
    patience_s : float
        How long the server may be away, counted from the last answer.
    answer_s : float
        How long an answer may take, before the connection is given up.
    tls : ssl.SSLContext, optional

    Attributes
    ----------
    connections, sent_bytes, received_bytes : int
        Connections so far, and bytes of frames.
    """

    def __init__(
        self,
        address: str,
        *,
        key: bytes | None = None,
        patience_s: float = 30.0,
        answer_s: float = 30.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.address, self.key, self.patience_s, self.answer_s, self.tls = address, key, patience_s, answer_s, tls
        self.connections = self.sent_bytes = self.received_bytes = 0
        self._greeting: Greeting | None = None
        self._open = False  # whether this connection has the text
        self._socket: Any = None
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Remote:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection."""
        self._socket, self._open = None, False
        with contextlib.suppress(Exception):
            self._stack.close()

    def greeting(self) -> Greeting:
        """Return what the server says of itself; connect if need be."""
        if self._greeting is None:
            self._patiently(self._connected)
        assert self._greeting is not None
        return self._greeting

    def begin(self) -> None:
        """Say that the next round is of another text."""
        self._open = False

    def round(self, opening: Callable[[], Opening], body: bytes) -> bytes:
        """Return the answer to a round; ``opening`` makes the opening of its text, for a new connection.

        Raises
        ------
        ServerAwayError
            If no answer came within the patience.
        RefusedError
            If the server refuses the text or the round.
        """
        return bytes(self._patiently(lambda: self._round(opening, body)))

    def _round(self, opening: Callable[[], Opening], body: bytes) -> bytes:
        self._connected()
        if not self._open:
            self._exchange(OPEN, to_json(opening()))
            self._open = True
        return self._exchange(ROUND, body)

    def _exchange(self, kind: bytes, body: bytes) -> bytes:
        data = self._pipe.seal(kind, body)
        self._socket.send(data)
        answer = self._socket.recv(self.answer_s)
        self._raise_error(answer)
        self.sent_bytes, self.received_bytes = self.sent_bytes + len(data), self.received_bytes + len(answer)
        said, found = self._pipe.unseal(answer, self._longest)
        if said != kind:
            raise LinkError(f"an answer of kind {said!r} to a frame of kind {kind!r}; no server sends that")
        return found

    def _connected(self) -> None:
        """Connect, unless there is a connection, and read the greeting."""
        from websockets.sync.client import connect

        if self._socket is not None:
            return
        options: dict[str, Any] = {"compression": None, "proxy": None, "close_timeout": 0.5, "ssl": self.tls}
        times = {"open_timeout": self.answer_s, "max_size": LONGEST_OPENING}
        self._socket = self._stack.enter_context(connect(self.address, **options, **times))
        data = self._socket.recv(self.answer_s)
        self._raise_error(data)
        greeting = greeting_of(data)
        earlier = self._greeting
        if greeting.keyed != (self.key is not None):
            raise RefusedError("The server wants a key; give --key." if greeting.keyed else "The server has no key.")
        if earlier is not None and replace(greeting, nonce="") != replace(earlier, nonce=""):
            raise RefusedError("The server came back with another model or tokenizer; begin the text anew.")
        self._greeting, self._pipe = greeting, Pipe(greeting.nonce, self.key, server=False)
        self._longest = 64 + 4 * greeting.vocabulary
        self._socket.protocol.max_message_size = 128 + self._longest
        self.connections += 1

    def _raise_error(self, data: bytes | str) -> None:
        """Raise what an error frame says."""
        if isinstance(data, bytes) or '"error"' not in data:
            return
        import json

        try:
            said = json.loads(data)
            name, message, retry = str(said["error"]), str(said["message"]), said.get("retry_s")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise LinkError("the server sent a text that is no error; no server sends that") from error
        if retry is not None:
            raise _Busy(min(max(float(retry), 0.0), LONGEST_PAUSE_S))
        raise RefusedError(f"The server refused: {name}: {message}.")

    def _patiently(self, function: Callable[[], Any]) -> Any:
        """Call a function; after a cut or a damaged frame again, until the patience is over."""
        from websockets.exceptions import InvalidHandshake, WebSocketException

        began, pause = time.monotonic(), 0.02
        while True:
            try:
                return function()
            except RefusedError:
                self.close()
                raise
            except (OSError, TimeoutError, WebSocketException, InvalidHandshake, _Busy, *REFUSED) as error:
                self.close()
                wait = error.retry_s if isinstance(error, _Busy) else pause
                if time.monotonic() + wait - began > self.patience_s:
                    raise ServerAwayError(
                        f"The server at {self.address} did not answer for {self.patience_s:g} s "
                        f"({type(error).__name__}: {error}); check that it runs, or give it more time with --patience."
                    ) from error
                time.sleep(wait)
                pause = min(2 * pause, LONGEST_PAUSE_S)


class _Busy(Exception):
    """The server has no place now."""

    def __init__(self, retry_s: float) -> None:
        super().__init__("the server is busy")
        self.retry_s = retry_s


class _RemoteLoop(_Loop):
    """One text, whose drafts are verified by a server."""

    remote: Remote
    opening: Opening
    on_tokens: Callable[[list[int]], None] | None = None

    def _target(self, shape: tuple[Any, ...]) -> Any:
        return None

    def start(self, remote: Remote, opening: Opening, terms: Terms) -> None:
        """Set the server, and the text's opening before its first token."""
        self.remote, self.opening, self.terms = remote, opening, terms
        self.known_end = int(self.kept_end[0])  # the tokens before it are known to the server
        remote.begin()

    def _begin_rounds(self) -> None:
        super()._begin_rounds()
        self.draft_length = np.minimum(self.draft_length, self.terms.most)

    def _verified(self, slots: Array, in_flight: list[list[Draft]], messages: list[Message]) -> VerifiedDrafts:
        """Send the round, and read the answer."""
        import torch

        drafts, vocabulary = in_flight[0], self.session.vocabulary
        first, kept = int(self.prompt_end[0]), int(self.kept_end[0])
        known = self.tokens[0, first : self.known_end].tolist()
        body = round_body(self.tokens[0, self.known_end : kept].tolist(), messages[0].payload, vocabulary)
        began = time.perf_counter()
        answer = self.remote.round(lambda: replace(self.opening, text=known), body)
        self.exchange_s = time.perf_counter() - began
        accepted, token, row = answer_of(answer, len(drafts), vocabulary)
        if row is not None:  # the device draws from the residual of p
            p, q = torch.from_numpy(row.copy())[None], drafts[accepted].draft_distribution
            assert q is not None
            place = np.array([min(kept - first + accepted, self.session.new_tokens)])
            numbers = self.noise.uniforms(REPLACE, self.sequences[slots], place, levels(vocabulary))
            token = int(draw(residual(p, q[None]), numbers)[0][0])
        elif (accepted < len(drafts) or not drafts) and token < 0:
            raise LinkError("an answer without the token that must follow; no server sends that")
        self.known_end = kept + accepted + (row is None and token >= 0)
        made = np.array([accepted]), np.array([accepted < len(drafts)]), np.array([token]), np.ones(1)
        return VerifiedDrafts(*made, torch.zeros((0, vocabulary)), np.array([-1]), np.array([len(drafts)]))

    def time_messages(self, slots: Array, rounds: list[Any]) -> None:
        """Write the seconds of the exchange into the round: link and target together, as the device sees them."""
        rounds[0].link_s = self.exchange_s

    def close_rounds(self, slots: Array, rounds: list[Any]) -> None:
        """Close the round, and report its tokens."""
        super().close_rounds(slots, rounds)
        self._report()

    def keep_skipped(self, slots: Array, tokens: Array, drafts: list[Draft]) -> None:
        """Keep a draft without verification, and report it."""
        super().keep_skipped(slots, tokens, drafts)
        self._report()

    reported = 0

    def _report(self) -> None:
        made = int(self.kept_end[0] - self.prompt_end[0])
        if self.on_tokens:
            first = int(self.prompt_end[0])
            self.on_tokens(self.tokens[0, first + self.reported : first + made].tolist())
        self.reported = made


class Device:
    """A draft model, and the server that verifies its drafts.

    Parameters
    ----------
    pair : Pair
        Its draft is run; its target is not.
    remote : Remote
    tokenizer, draft : str
        Fingerprints of the tokenizer and of the draft's weights.
    """

    def __init__(self, pair: Pair, remote: Remote, *, tokenizer: str, draft: str) -> None:
        self.remote, self.tokenizer, self.draft = remote, tokenizer, draft
        greeting = remote.greeting()
        if (greeting.tokenizer, greeting.vocabulary) != (tokenizer, pair.vocabulary):
            raise RefusedError(
                f"The server's tokenizer has {greeting.vocabulary:,} tokens and the fingerprint {greeting.tokenizer}, "
                f"the device's {pair.vocabulary:,} and {tokenizer}; use models with one tokenizer."
            )
        ends, context = tuple(greeting.end_tokens), min(pair.context, greeting.context)
        self.pair = replace(pair, end_tokens=ends, context=context)

    def generate(
        self,
        method: Method,
        prompt: list[int],
        *,
        name: str,
        seed: int,
        new_tokens: int,
        temperature: float = 1.0,
        top_p: float = 1.0,
        on_tokens: Callable[[list[int]], None] | None = None,
    ) -> GenerationRecord:
        """Continue a prompt by a method whose drafts the server verifies.

        Parameters
        ----------
        method : Method
        prompt : list of int
            Token ids.
        name, seed
            They choose the random numbers: with the same two :func:`validation.decoding.loop.decode` gives this text.
        new_tokens, temperature, top_p
            As for :func:`validation.decoding.loop.decode`.
        on_tokens : callable, optional
            Called with new tokens as soon as they are certain.

        Returns
        -------
        GenerationRecord

        Raises
        ------
        UserError
            If the method does not run over a link, the prompt does not fit, or the server refuses or stays away.
        """
        if not 0 < len(prompt) <= self.pair.context - new_tokens:
            raise UserError(
                f"The prompt {name!r} has {len(prompt)} tokens, and {self.pair.context - new_tokens} fit before "
                f"{new_tokens} new ones; shorten it, or ask for fewer."
            )
        terms, lengths = Terms.of(method), np.array([len(prompt)], dtype=np.int64)
        sampling = (temperature, top_p, new_tokens)
        opening = Opening(
            *(self.tokenizer, self.draft, terms.plain(), name, seed, float(temperature), float(top_p), new_tokens),
            *(prompt, [], secrets.token_hex(16)),
        )
        session = Session(self.pair, 1, Noise(seed, [name], new_tokens), None, *sampling, prompt_lengths=lengths)
        record = GenerationRecord(method.name, name, self.remote.address, seed, temperature, top_p)
        loop = _RemoteLoop(session, method, [prompt], [record], None, False, None)
        loop.start(self.remote, opening, terms)
        loop.on_tokens = on_tokens
        began = time.perf_counter()
        loop.run()
        session.clock.total = time.perf_counter() - began
        return record
