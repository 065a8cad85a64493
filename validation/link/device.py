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

from hlmtheory.policy import StreamedDevice
from validation.decoding.kv_cache import CachedModel
from validation.decoding.methods.base import Method
from validation.decoding.random_streams import REPLACE, Noise
from validation.decoding.records import GenerationRecord, Round
from validation.decoding.sampling import draw, levels, residual
from validation.decoding.session import Draft, Message, Session
from validation.decoding.verification import VerifiedDrafts
from validation.errors import UserError
from validation.link.formats import REFUSED, SERVER_WRITES, Terms
from validation.link.loops import OneText
from validation.link.wire import (
    LONGEST_OPENING,
    OPEN,
    ROUND,
    TEXT,
    Greeting,
    LinkError,
    Opening,
    Pipe,
    answer_of,
    greeting_of,
    round_body,
    round_of,
    to_json,
)

if TYPE_CHECKING:
    import ssl

    from validation.models.pair import Pair

Array = NDArray[Any]
LONGEST_PAUSE_S = 2.0
"""Between two attempts to connect."""
MOST_WAITING = 256
"""Drafts that a device sends ahead of the answers."""


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
        self._heard = 0.0  # when the last answer came
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
        self.send(self._pipe.seal(kind, body))
        said, found = self._pipe.unseal(self.receive(), self._longest)
        self.heard()
        if said != kind:
            raise LinkError(f"an answer of kind {said!r} to a frame of kind {kind!r}; no server sends that")
        return found

    def text(self, opening: Callable[[], Opening], run: Callable[[], None]) -> None:
        """Open a text and call a function that sends and receives its frames; after a cut again, behind an opening."""

        def once() -> None:
            self._connected()
            self._exchange(OPEN, to_json(opening()))
            run()

        self._patiently(once)
        self.close()

    def send(self, data: bytes) -> None:
        """Send a frame."""
        self._socket.send(data)
        self.sent_bytes += len(data)

    def receive(self, timeout_s: float | None = None) -> bytes:
        """Return the next frame; raise a TimeoutError if none comes in time, and what an error frame says."""
        data = self._socket.recv(self.answer_s if timeout_s is None else timeout_s)
        self._raise_error(data)
        self.received_bytes += len(data)
        return bytes(data) if isinstance(data, bytes) else data.encode()

    def tokens(self, vocabulary: int, most: int) -> list[int]:
        """Return the next tokens of a text that the server writes."""
        kind, body = self._pipe.unseal(self.receive(), self._longest)
        self.heard()
        tokens, rest = round_of(body, vocabulary, most)
        if kind != TEXT or rest or not tokens:
            raise LinkError("a frame without tokens where some are expected; no server sends that")
        return tokens

    @property
    def nonce(self) -> bytes:
        """The nonce of this connection."""
        return bytes.fromhex(self.greeting().nonce)

    def heard(self) -> None:
        """Say that a valid answer came, from which the patience counts."""
        self._heard = time.monotonic()

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
                if time.monotonic() + wait - max(began, self._heard) > self.patience_s:
                    raise ServerAwayError(
                        f"The server at {self.address} did not answer for {self.patience_s:g} s "
                        f"({type(error).__name__}: {error}); check that it runs, or give it more time with --patience."
                    ) from error
                time.sleep(wait)
                pause = min(2 * pause, LONGEST_PAUSE_S) if self._heard < began else 0.02


class _Busy(Exception):
    """The server has no place now."""

    def __init__(self, retry_s: float) -> None:
        super().__init__("the server is busy")
        self.retry_s = retry_s


class _RemoteLoop(OneText):
    """One text, whose drafts are verified by a server."""

    remote: Remote
    opening: Opening

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
        method: Method | None,
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
        method : Method or None
            None: the server writes the text, alone or with a draft model of its own.
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
        terms = SERVER_WRITES if method is None else Terms.of(method)
        sampling = (float(temperature), float(top_p), new_tokens)
        opening = Opening(
            *(self.tokenizer, self.draft, terms.plain(), name, seed, *sampling, prompt, [], secrets.token_hex(16))
        )
        lengths = np.array([len(prompt)], dtype=np.int64)
        session = Session(self.pair, 1, Noise(seed, [name], new_tokens), None, *sampling, prompt_lengths=lengths)
        label = "server" if method is None else method.name
        record = GenerationRecord(label, name, self.remote.address, seed, *sampling[:2])
        began = time.perf_counter()
        try:
            if method is None or terms.streamed:
                way = _Written if method is None else _Streamed
                way(self.remote, opening, terms, session, record, on_tokens).run()
            else:
                loop = _RemoteLoop(session, method, [prompt], [record], None, False, None)
                loop.start(self.remote, opening, terms)
                loop.on_tokens = on_tokens
                loop.run()
        except BaseException:
            self.remote.close()  # it is in the middle of a text
            raise
        session.clock.total = time.perf_counter() - began
        return record


class _Received:
    """A text whose tokens come as the server sends them."""

    def __init__(
        self,
        remote: Remote,
        opening: Opening,
        terms: Terms,
        session: Session,
        record: GenerationRecord,
        on_tokens: Callable[[list[int]], None] | None,
    ) -> None:
        self.remote, self.opening, self.terms, self.session = remote, opening, terms, session
        self.record, self.on_tokens = record, on_tokens
        self.text: list[int] = []

    def run(self) -> None:
        """Receive the text."""
        if self.left:
            self.remote.text(lambda: replace(self.opening, text=self.text), self.once)
        self.record.tokens = self.text
        self.record.last = Round(len(self.text))

    def once(self) -> None:
        """Receive the rest of the text over one connection."""
        raise NotImplementedError

    @property
    def left(self) -> int:
        """How many tokens may follow."""
        return 0 if self.record.ended else self.session.new_tokens - len(self.text)

    def take(self, tokens: list[int]) -> None:
        """Add tokens to the text."""
        ends = self.session.pair.end_tokens
        if len(tokens) > self.left or any(token in ends for token in tokens[:-1]):
            raise LinkError("the server sent tokens behind the end of the text; no server does that")
        self.text += tokens
        self.record.ended = bool(tokens) and tokens[-1] in ends
        if self.on_tokens and tokens:
            self.on_tokens(tokens)


class _Written(_Received):
    """A text that the server writes."""

    def once(self) -> None:
        while self.left:
            self.take(self.remote.tokens(self.session.vocabulary, self.left))


class _Streamed(_Received):
    """A text whose drafts do not wait for answers."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        pair, capacity = self.session.pair, len(self.opening.prompt) + self.session.new_tokens + 2
        self.model = CachedModel(pair.draft, pair.vocabulary, pair.device, 1, capacity, pair.context)
        self.tokens = np.zeros((1, capacity), dtype=np.int64)
        self.policy = self.terms.streamed_policy(pair.vocabulary, self.session.temperature)

    def once(self) -> None:
        """Draft, send, and read the answers that have come, until the text is complete."""
        prompt, remote = self.opening.prompt, self.remote
        first, key = len(self.text), int(self.session.stream_keys[0])
        side = StreamedDevice(self.policy, session=remote.nonce, key=remote.key, seed=key, position=len(prompt) + first)
        while self.left:
            ahead = list(side.waiting)
            ended = bool(ahead) and ahead[-1] in self.session.pair.end_tokens
            full = len(ahead) >= min(self.left, MOST_WAITING) or ended
            if not full:
                _, message = side.draft(self._logits([*prompt, *self.text, *ahead]))
                remote.send(message)
            try:
                answer = remote.receive(None if full else 0.0)
            except TimeoutError:
                if full:
                    raise
                continue
            sent = list(side.waiting)
            tokens = side.tokens(answer)
            remote.heard()
            missed = tokens != sent[: len(tokens)]  # the last one is the server's, in place of a draft
            counts = {"drafted": len(tokens), "accepted": len(tokens) - missed, "resampled": int(missed)}
            self.record.rounds.append(Round(len(self.text), **counts))
            self.take(tokens)

    def _logits(self, tokens: list[int]) -> Any:
        """Return the draft model's logits (V,) behind these tokens."""
        import torch

        known = min(int(self.model.cached[0]), len(tokens) - 1)
        other = np.flatnonzero(self.tokens[0, :known] != tokens[:known])
        self.model.cached = np.array([other[0] if len(other) else known])
        self.tokens[0, : len(tokens)] = tokens
        with torch.inference_mode():
            (rows,) = self.model.read(self.tokens, np.array([len(tokens)]), rows=1)
        return rows[-1].double().cpu().numpy()
