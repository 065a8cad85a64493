"""The server: greets devices, opens their texts, verifies their rounds in shared passes, and answers.

A connection that does not say what is expected is told why, and closed; the others go on. What a peer may send is
bounded before it is read: frames by the opened text, texts by ``limits``, and every wait by a time.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hlmtheory.policy import StreamedServer
from validation.link.addresses import is_loopback
from validation.link.engine import Engine, ReceivedRound, ServedText, WaitingDrafts
from validation.link.formats import REFUSED, SERVER, Terms
from validation.link.wire import (
    LONGEST_OPENING,
    LONGEST_ROUND,
    OPEN,
    PROTOCOL,
    ROUND,
    TEXT,
    Greeting,
    LinkError,
    Opening,
    Pipe,
    error_frame,
    opening_of,
    round_body,
    to_json,
)

if TYPE_CHECKING:
    from websockets.asyncio.server import ServerConnection
    from websockets.http11 import Request, Response

LOG = logging.getLogger("hlm.link")
REFUSAL, TRY_AGAIN = 1008, 1013
"""Close codes of RFC 6455 and its registry."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a server allows.

    Attributes
    ----------
    batch : int
        Rounds of a pass at most.
    wait_s : float
        How long a pass waits for further rounds.
    devices : int
        Connections at a time; a further one is told to try again.
    parked : int
        Caches of texts that were cut, kept for their devices to come back.
    opening_s, idle_s : float
        How long a device may take to open a text, and be silent within one.
    retry_s : float
        When a device that was turned away may try again.
    """

    batch: int = 4
    wait_s: float = 0.0
    devices: int = 64
    parked: int = 16
    opening_s: float = 10.0
    idle_s: float = 300.0
    retry_s: float = 1.0


class Metrics:
    """What a server counts, in the format of Prometheus."""

    def __init__(self, devices: Callable[[], int]) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self.registry = CollectorRegistry()
        to = {"registry": self.registry}
        bounds = tuple(0.001 * 2.0**step for step in range(14))
        self.passes = Histogram("hlm_pass_seconds", "Time of a pass of the target model.", buckets=bounds, **to)
        self.rounds = Counter("hlm_rounds", "Rounds that were verified.", **to)
        self.drafts = Counter("hlm_drafts", "Drafts that were verified.", **to)
        self.tokens = Counter("hlm_tokens", "New tokens, skipped ones too.", **to)
        self.refused = Counter("hlm_refused", "Connections that were refused, by reason.", ["reason"], **to)
        Gauge("hlm_devices", "Devices that are connected.", **to).set_function(devices)

    def page(self) -> tuple[str, str]:
        """Return the type of the page, and the page."""
        from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

        return CONTENT_TYPE_LATEST, generate_latest(self.registry).decode()

    def value(self, name: str, **labels: str) -> float:
        """Return a number of the page."""
        return float(self.registry.get_sample_value(name, labels) or 0.0)


class SharedPasses:
    """Rounds that wait, and the one thread that runs the model."""

    def __init__(self, engine: Engine, limits: Limits, metrics: Metrics) -> None:
        self.engine, self.limits, self.metrics = engine, limits, metrics
        self.waiting: list[tuple[ServedText, ReceivedRound | WaitingDrafts, asyncio.Future[Any]]] = []
        self.open = 0  # texts
        self.thread = ThreadPoolExecutor(1, "passes")
        self.arrived = asyncio.Event()

    async def verify(self, text: ServedText, one: ReceivedRound | WaitingDrafts) -> Any:
        """Return the answer to a round, from a pass that it may share."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.waiting.append((text, one, future))
        self.arrived.set()
        return await future

    async def call(self, function: Any, *arguments: Any) -> Any:
        """Run a function between two passes."""
        return await asyncio.get_running_loop().run_in_executor(self.thread, function, *arguments)

    async def run(self) -> None:
        """Run passes until cancelled: each takes the rounds that came first."""
        while True:
            await self._company()
            taken, self.waiting = self.waiting[: self.limits.batch], self.waiting[self.limits.batch :]
            texts, rounds, futures = zip(*taken, strict=True)
            try:
                answers: Sequence[Any] = await self.call(self.engine.run, texts, rounds)
            except Exception as error:
                answers = [error] * len(taken)
            self.metrics.passes.observe(self.engine.pass_s)
            self.metrics.rounds.inc(len(taken))
            for future, answer in zip(futures, answers, strict=True):
                if not future.done():
                    (future.set_exception if isinstance(answer, Exception) else future.set_result)(answer)

    async def _company(self) -> None:
        """Wait for a round, then for others, until the pass is full, nobody else can come, or the time is over."""
        loop, deadline = asyncio.get_running_loop(), None
        while True:
            self.arrived.clear()
            if self.waiting and deadline is None:
                deadline = loop.time() + self.limits.wait_s
            left = None if deadline is None else deadline - loop.time()
            if left is not None and (left <= 0 or len(self.waiting) >= min(self.limits.batch, self.open)):
                return
            try:
                await asyncio.wait_for(self.arrived.wait(), left)
            except TimeoutError:
                return


class Server:
    """A target model behind a socket.

    Parameters
    ----------
    engine : Engine
    tokenizer, target : str
        Fingerprints of the tokenizer and of the target's weights.
    key : bytes, optional
        The secret that devices must have.
    limits : Limits
    """

    def __init__(
        self, engine: Engine, *, tokenizer: str, target: str, key: bytes | None = None, limits: Limits | None = None
    ) -> None:
        self.engine, self.key, self.limits = engine, key, limits or Limits()
        self.tokenizer, self.target = tokenizer, target
        self.devices = 0
        self.metrics = Metrics(lambda: self.devices)
        self.parked: OrderedDict[str, ServedText] = OrderedDict()
        self.address: tuple[str, int] = ("", 0)
        self._ready, self._stop = asyncio.Event(), asyncio.Event()

    async def serve(self, host: str, port: int, *, tls: ssl.SSLContext | None = None) -> None:
        """Serve until :meth:`stop`; port 0 takes a free one, which :attr:`address` names."""
        from websockets.asyncio.server import serve

        self.passes = SharedPasses(self.engine, self.limits, self.metrics)
        passes = asyncio.create_task(self.passes.run())
        options: dict[str, Any] = {
            "ssl": tls,
            "compression": None,
            "max_size": LONGEST_OPENING,
            "max_queue": 4,
            "logger": LOG,
        }
        times = {"open_timeout": self.limits.opening_s, "close_timeout": 1.0}
        try:
            async with serve(self._connection, host, port, process_request=self._metrics, **options, **times) as server:
                self.address = server.sockets[0].getsockname()[:2]
                self._ready.set()
                await self._stop.wait()
        finally:
            passes.cancel()
            self.passes.thread.shutdown(wait=True)

    async def ready(self) -> tuple[str, int]:
        """Wait until the server listens; return its address."""
        await self._ready.wait()
        return self.address

    def stop(self) -> None:
        """End :meth:`serve`; call it within its event loop."""
        self._stop.set()

    async def _connection(self, socket: ServerConnection) -> None:
        """Serve one device, and tell it what it did wrong."""
        from websockets.exceptions import ConnectionClosed

        if self.devices >= self.limits.devices:
            await self._refuse(socket, "Busy", f"{self.devices} devices are served, as many as may be", TRY_AGAIN)
            return
        self.devices += 1
        try:
            await self._device(socket)
        except ConnectionClosed:
            pass
        except TimeoutError:
            await self._refuse(socket, "Silent", "nothing came in time; connect again", REFUSAL)
        except REFUSED as error:
            await self._refuse(socket, type(error).__name__, str(error), REFUSAL)
        except Exception as error:
            LOG.exception("a text could not be served")
            await self._refuse(socket, type(error).__name__, "the server could not serve the text", REFUSAL)
        finally:
            self.devices -= 1

    def _metrics(self, socket: ServerConnection, request: Request) -> Response | None:
        """Answer a request for ``/metrics`` from this machine; let others become a WebSocket."""
        if request.path != "/metrics":
            return None
        if not is_loopback(socket.remote_address[0]):
            return socket.respond(403, "The numbers are for this machine.\n")
        kind, text = self.metrics.page()
        response = socket.respond(200, text)
        del response.headers["Content-Type"]
        response.headers["Content-Type"] = kind
        return response

    async def _refuse(self, socket: ServerConnection, name: str, message: str, code: int) -> None:
        from websockets.exceptions import ConnectionClosed

        self.metrics.refused.labels(name).inc()
        retry = self.limits.retry_s if code == TRY_AGAIN else None
        try:
            await asyncio.wait_for(socket.send(error_frame(name, message, retry)), self.limits.opening_s)
            await socket.close(code, name)
        except (ConnectionClosed, TimeoutError):
            pass

    async def _device(self, socket: ServerConnection) -> None:
        """Greet a device, then serve its texts one after the other."""
        pair, nonce = self.engine.pair, secrets.token_hex(16)
        described = (pair.vocabulary, self.tokenizer, self.target, list(pair.end_tokens), pair.context)
        await socket.send(to_json(Greeting(PROTOCOL, nonce, *described, self.key is not None)))
        pipe, text = Pipe(nonce, self.key, server=True), None
        data = await asyncio.wait_for(socket.recv(), self.limits.opening_s)
        self.passes.open += 1
        try:
            while True:
                longest = text.terms.longest(pair.vocabulary, text.left) if text else 0
                kind, body = pipe.unseal(data, max(longest, LONGEST_OPENING if text is None else 2**16) + 1)
                if kind == OPEN:
                    text = await self._open(body)
                    socket.protocol.max_message_size = LONGEST_OPENING + text.terms.longest(pair.vocabulary, text.left)
                    await socket.send(pipe.seal(OPEN, b""))
                    if text.terms.format == SERVER:
                        await self._write(socket, pipe, text)
                    elif text.terms.streamed:
                        await self._stream(socket, nonce, text)
                elif kind == ROUND and text is not None:
                    before, one = text.kept, text.received(body)
                    answer = await self.passes.verify(text, one)
                    self.metrics.drafts.inc(len(one.drafts))
                    self.metrics.tokens.inc(text.kept - before)
                    await socket.send(pipe.seal(ROUND, answer))
                else:
                    raise LinkError(f"a frame of kind {kind!r} is not expected here; open a text first")
                data = await asyncio.wait_for(socket.recv(), self.limits.idle_s)
        finally:
            self.passes.open -= 1
            if text is not None:
                self._park(text)

    async def _write(self, socket: ServerConnection, pipe: Pipe, text: ServedText) -> None:
        """Write a text, a step between two passes at a time, and send its tokens."""
        written = await self.passes.call(self.engine.writing, text)
        while not written.finished:
            if tokens := await self.passes.call(written.step):
                self.metrics.tokens.inc(len(tokens))
                await socket.send(pipe.seal(TEXT, round_body(tokens, b"", self.engine.pair.vocabulary)))
        text.left = 0

    async def _stream(self, socket: ServerConnection, nonce: str, text: ServedText) -> None:
        """Verify the drafts of a device that drafts on; each pass takes those that have arrived."""
        opening, vocabulary = text.opening, self.engine.pair.vocabulary
        side = StreamedServer(
            text.terms.streamed_policy(vocabulary, opening.temperature),
            session=bytes.fromhex(nonce),
            key=self.key,
            seed=int(text.session.stream_keys[0]),
            used=set(),
            position=text.kept,
        )
        arrived = asyncio.Event()

        async def receive() -> None:
            while True:
                message = await asyncio.wait_for(socket.recv(), self.limits.idle_s)
                if isinstance(message, str):
                    raise LinkError("a text frame came where a draft is expected; no device sends that")
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
                    tokens = list(side.waiting[: min(LONGEST_ROUND, text.left)])
                    rows = await self.passes.verify(text, WaitingDrafts(tokens))
                    before = len(side.text)
                    answer = side.verify(rows)
                    new = list(side.text[before:])
                    text.extend(new)
                    self.metrics.drafts.inc(len(tokens))
                    self.metrics.tokens.inc(len(new))
                    await socket.send(answer)
            await receiving
        finally:
            receiving.cancel()
            await asyncio.gather(receiving, return_exceptions=True)

    async def _open(self, body: bytes) -> ServedText:
        """Return the text of an opening, read up to its last token."""
        pair = self.engine.pair
        opening = opening_of(body, pair.vocabulary, pair.context)
        terms = Terms.from_plain(opening.terms, pair.vocabulary)
        self._check(opening, terms)
        text = ServedText(pair, opening, terms)
        if (earlier := self.parked.pop(opening.session, None)) is not None:
            text.take_cache(earlier)
        await self.passes.call(self.engine.prefill, text)
        return text

    def _check(self, opening: Opening, terms: Terms) -> None:
        """Refuse another tokenizer, and a policy for other models or another temperature."""
        if opening.tokenizer != self.tokenizer:
            raise LinkError(
                f"the device's tokenizer is {opening.tokenizer!r:.40}, and the server's {self.tokenizer!r}; use models "
                "with one tokenizer"
            )
        if terms.streamed and opening.top_p < 1:
            raise LinkError(f"a device that drafts on has top-p 1; got {opening.top_p:g}; leave it out")
        if terms.policy:
            policy = terms.known.policy
            mark = f"{self.engine.pair.vocabulary} {opening.draft} {self.target}"
            if policy.planned_for not in (None, mark):
                raise LinkError(
                    f"the policy was planned for other models ({policy.planned_for!r}) than these "
                    f"({mark!r:.100}); plan for these"
                )
            if (opening.temperature, opening.top_p) != (policy.temperature, 1.0):
                raise LinkError(
                    f"the policy is for temperature {policy.temperature:g} and top-p 1; got {opening.temperature:g} "
                    f"and {opening.top_p:g}; plan for these"
                )

    def _park(self, text: ServedText) -> None:
        """Keep the cache of a text whose device left, for its return; forget the oldest beyond the limit."""
        self.parked[text.opening.session] = text
        self.parked.move_to_end(text.opening.session)
        while len(self.parked) > self.limits.parked:
            self.parked.popitem(last=False)
