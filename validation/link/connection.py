"""What the devices of a server share, and one of them: its greeting, its texts, and the frames of their rounds."""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hlmtheory.codec.envelope import AuthenticationError
from hlmtheory.wire import StreamedServer
from validation.errors import UserError, nearest
from validation.link import wire
from validation.link.addresses import origin
from validation.link.engine import Engine, ServedText, Version, WaitingDrafts
from validation.link.formats import SERVER, Terms
from validation.link.passes import Limits, Metrics, SharedPasses

if TYPE_CHECKING:
    from websockets.asyncio.server import ServerConnection

TARGET = "target"
"""The name of the first version."""


class Shared:
    """The models of a server, and what its devices share.

    ``version`` of ``versions`` is in use, the first of them is ``TARGET``; without ``keys`` no device needs one;
    ``parked`` are the caches of texts that were cut.
    """

    version: Version
    passes: SharedPasses

    def __init__(
        self,
        engine: Engine,
        *,
        tokenizer: str,
        target: str,
        keys: tuple[bytes, ...] | None = None,
        limits: Limits | None = None,
        versions: Mapping[str, tuple[Engine, str]] | None = None,
    ) -> None:
        self.keys, self.limits, self.tokenizer = keys, limits or Limits(), tokenizer
        self.versions = {TARGET: Version(TARGET, engine, target)}
        for name, (other, mark) in (versions or {}).items():
            if name in self.versions or not wire.VERSION_NAME.fullmatch(name):
                raise UserError(
                    f"A version cannot be called {name!r}; give it a name of its own, of letters, digits, dots, dashes "
                    f"and underscores; {TARGET} is the model of --target."
                )
            self.versions[name] = Version(name, other, mark)
        self.withdrawn: tuple[bytes, ...] = ()  # keys that were taken back, the newest first
        self.connections: set[Any] = set()
        self.metrics = Metrics(lambda: len(self.connections))
        self.parked: OrderedDict[tuple[str, str], ServedText] = OrderedDict()  # by session and version
        self.switch(TARGET)

    @property
    def engine(self) -> Engine:
        return self.version.engine

    def switch(self, name: str) -> None:
        """Use another version from the next round of every text on; call it within the event loop."""
        if name not in self.versions:
            near = nearest(name, self.versions) or list(self.versions)
            raise UserError(f"There is no version {name!r} of the target; the server has {', '.join(near)}.")
        self.version = self.versions[name]
        for other in self.versions:
            self.metrics.versions.labels(other).set(other == name)

    def pipe(self, nonce: str, data: bytes | str) -> wire.Pipe:
        """Return a pipe with the key that sealed a device's first frame."""
        if self.keys is None:
            return wire.Pipe(nonce, None, server=True)
        for key in (*self.keys, *self.withdrawn):
            try:
                wire.Pipe(nonce, key, server=True).unseal(data, wire.LONGEST_OPENING)
            except AuthenticationError:
                continue
            if key in self.withdrawn:
                raise wire.WithdrawnError(wire.ENDED_KEY)
            return wire.Pipe(nonce, key, server=True)
        raise AuthenticationError(
            "the HMAC does not fit; the device has none of the server's keys, or its frame was changed"
        )

    def park(self, text: ServedText, version: Version) -> None:
        """Keep the cache of a text whose device left, for its return; forget the oldest beyond the limit."""
        place = (text.opening.session, version.name)
        self.parked[place] = text
        self.parked.move_to_end(place)
        while len(self.parked) > self.limits.parked:
            self.parked.popitem(last=False)[1].close()


class AwayError(TimeoutError):
    """What verifies a text does not answer; it may do so later."""


class SwitchedError(Exception):
    """Another version of the target is in use than the one that the text was opened with."""


class Connection:
    pipe: wire.Pipe

    def __init__(self, server: Shared, socket: ServerConnection) -> None:
        self.server, self.socket, self.nonce = server, socket, secrets.token_hex(16)
        self.place = origin(socket.remote_address[0])
        self.proved = False  # whether the device's first frame came, with its key

    async def serve(self) -> None:
        """Greet the device, then serve its texts one after the other."""
        server, pair = self.server, self.server.engine.pair
        targets = {name: version.mark for name, version in server.versions.items()}
        described = (pair.vocabulary, server.tokenizer, targets, list(pair.end_tokens), pair.context)
        await self._send(wire.to_json(wire.Greeting(wire.PROTOCOL, self.nonce, *described, server.keys is not None)))
        data = await _received(self.socket, server.limits.opening_s)
        self.pipe = pipe = server.pipe(self.nonce, data)
        self.proved = True
        text: ServedText | None = None
        version = server.version
        try:
            while True:
                longest = text.longest if text else 0
                kind, body = pipe.unseal(data, max(longest, wire.LONGEST_OPENING if text is None else 2**16) + 1)
                if kind == wire.HELLO and not body:
                    await self._send(pipe.seal(wire.HELLO, b""))
                elif kind == wire.OPEN:
                    opened, first = server.version, text is None
                    if text is not None and not text.complete:
                        text.close()
                    text, version = await self._open(body, opened), opened
                    server.passes.open += first
                    self.socket.protocol.max_message_size = wire.LONGEST_OPENING + text.longest
                    await self._send(pipe.seal(wire.OPEN, version.name.encode()))
                    if text.terms.format == SERVER:
                        await self._write(text, version)
                    elif text.terms.streamed:
                        await self._stream(text, version)
                elif kind == wire.ROUND and text is not None:
                    self._require(version)
                    before, one = text.kept, text.received(body)
                    answer = await server.passes.verify(version.engine, text, one)
                    server.metrics.drafts.inc(len(one.drafts))
                    server.metrics.tokens.inc(text.kept - before)
                    await self._send(pipe.seal(wire.ROUND, answer))
                else:
                    raise wire.LinkError(f"a frame of kind {kind!r} is not expected here; open a text first")
                data = await _received(self.socket, server.limits.idle_s)
        finally:
            if text is not None:
                server.passes.open -= 1
                if not text.complete:
                    server.park(text, version)

    async def _send(self, data: bytes) -> None:
        async with asyncio.timeout(self.server.limits.idle_s):
            await self.socket.send(data)

    def _require(self, version: Version) -> None:
        keys = self.server.keys
        if keys is not None and self.pipe.key not in keys:
            raise wire.WithdrawnError(wire.ENDED_KEY)
        if version is not self.server.version:
            raise SwitchedError

    async def _write(self, text: ServedText, version: Version) -> None:
        steps = version.engine.write(text)
        while text.left:
            self._require(version)
            if tokens := await self.server.passes.call(next, steps):
                self.server.metrics.tokens.inc(len(tokens))
                body = wire.round_body(tokens, b"", version.engine.pair.vocabulary)
                await self._send(self.pipe.seal(wire.TEXT, body))

    async def _stream(self, text: ServedText, version: Version) -> None:
        opening, vocabulary = text.opening, version.engine.pair.vocabulary
        side = StreamedServer(
            text.terms.streamed_policy(vocabulary, opening.temperature),
            session=bytes.fromhex(self.nonce),
            key=self.pipe.key,
            seed=int(text.session.stream_keys[0]),
            used=set(),
            position=text.kept,
        )
        arrived = asyncio.Event()

        async def receive() -> None:
            while True:
                message = await _received(self.socket, self.server.limits.idle_s)
                if isinstance(message, str):
                    raise wire.LinkError("a text frame came where a draft is expected; no device sends that")
                if side.receive(message):
                    arrived.set()

        receiving = asyncio.create_task(receive())
        receiving.add_done_callback(lambda task: arrived.set())
        try:
            while text.left:
                await arrived.wait()
                if receiving.done():
                    receiving.result()
                arrived.clear()
                while text.left and side.waiting:
                    tokens = list(side.waiting[: min(wire.LONGEST_ROUND, text.left)])
                    self._require(version)
                    rows = await self.server.passes.verify(version.engine, text, WaitingDrafts(tokens))
                    before = len(side.text)
                    answer = side.verify(rows)
                    new = list(side.text[before:])
                    text.extend(new)
                    self.server.metrics.drafts.inc(len(tokens))
                    self.server.metrics.tokens.inc(len(new))
                    await self._send(answer)
            await receiving
        finally:
            receiving.cancel()
            await asyncio.gather(receiving, return_exceptions=True)

    async def _open(self, body: bytes, version: Version) -> ServedText:
        pair = version.engine.pair
        opening = wire.opening_of(body, pair.vocabulary, pair.context)
        each = Terms.each_from_plain(opening.terms, pair.vocabulary)
        for terms in each:
            self._check(opening, terms, version)
        text = version.engine.open(opening, each)
        if (earlier := self.server.parked.pop((opening.session, version.name), None)) is not None:
            text.take_cache(earlier)
        await self.server.passes.call(version.engine.prefill, text)
        return text

    def _check(self, opening: wire.Opening, terms: Terms, version: Version) -> None:
        if opening.tokenizer != self.server.tokenizer:
            raise wire.LinkError(
                f"the device's tokenizer is {opening.tokenizer!r:.40}, and the server's {self.server.tokenizer!r}; use "
                "models with one tokenizer, or `hlm decode common` on one machine"
            )
        if terms.streamed and opening.top_p < 1:
            raise wire.LinkError(f"a device that drafts on has top-p 1; got {opening.top_p:g}; leave it out")
        if terms.policy:
            policy = terms.known.policy
            mark = f"{version.engine.pair.vocabulary} {opening.draft} {version.mark}"
            if policy.planned_for not in (None, mark):
                raise wire.LinkError(
                    f"the policy was planned for other models ({policy.planned_for!r}) than these "
                    f"({mark!r:.100}); plan for these"
                )
            if (opening.temperature, opening.top_p) != (policy.temperature, 1.0):
                raise wire.LinkError(
                    f"the policy is for temperature {policy.temperature:g} and top-p 1; got {opening.temperature:g} "
                    f"and {opening.top_p:g}; plan for these"
                )


async def _received(socket: ServerConnection, seconds: float) -> bytes | str:
    """Return the next frame in time; ``asyncio.wait_for`` may lose a cancellation as a frame comes (Python 3.11)."""
    async with asyncio.timeout(seconds):
        data: bytes | str = await socket.recv()
    return data
