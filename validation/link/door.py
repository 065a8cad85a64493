"""An OpenAI-compatible door of a device: completions and chat completions, streaming and not.

An answer has a field of its own, ``hlm``: ``writers`` says from which new token on which version of the target verified
the text, or that the draft wrote alone because the server was away.
"""

from __future__ import annotations

import asyncio
import json
import logging
import queue
import secrets
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from validation.decoding.methods.base import Method
from validation.errors import UserError
from validation.link import door_requests
from validation.link.device import Device
from validation.link.device_records import ALONE
from validation.link.door_requests import Asked, Reader, RequestError, body_of
from validation.link.remote import RefusedError, ServerAwayError

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

LOG = logging.getLogger("hlm.link")
NAME = "openai"
"""The name of every text of the door: with its seed it chooses the text's random numbers."""
MOST_WAITING = 8
"""Requests that wait for a device at most."""
Writers: TypeAlias = list[tuple[int, str]]


class Part(NamedTuple):  # of a text that is being written
    text: str
    reason: str | None  # why the text ended
    tokens: int  # of the whole so far
    writers: Writers


class _EnoughError(Exception):
    """The text is complete before the device knows."""


@dataclass
class Progress:
    """A text that is being written: what may be shown of it, and why it ended."""

    decode: Callable[[list[int]], str]
    stops: list[str]
    streamed: bool = True  # whether text is sent before it is whole
    tokens: list[int] = field(default_factory=list)
    shown: str = ""
    reason: str = "length"
    writers: Writers = field(default_factory=list)
    left: bool = False  # whether the client has gone

    def more(self, tokens: list[int]) -> str:
        """Add tokens; return the text that is certain by now, and was not before."""
        self.tokens += tokens
        return self._show(self.decode(self.tokens), final=False)

    def rest(self) -> str:
        return "" if self.reason == "stop" and self.stops else self._show(self.decode(self.tokens), final=True)

    def part(self, text: str, *, last: bool = False) -> Part:
        count = len(self.tokens)
        writers = [(start, name) for start, name in self.writers if start < count]
        return Part(text, self.reason if last else None, count, writers)

    def _show(self, whole: str, *, final: bool) -> str:
        if places := [whole.find(stop) for stop in self.stops if stop in whole]:
            whole, self.reason, final = whole[: min(places)], "stop", True
        elif not final:
            whole = whole.rstrip("\ufffd")  # a character whose last bytes are to come
            certain = len(whole)
            for stop in self.stops:  # the last characters may begin it
                begun = [size for size in range(1, len(stop)) if whole.endswith(stop[:size])]
                certain = min(certain, len(whole) - max(begun, default=0))
            whole = whole[:certain] if self.streamed else ""
        if not whole.startswith(self.shown):
            if final or not self.shown.startswith(whole):
                raise RequestError("The tokenizer changed text that was sent already; ask without stream.", status=500)
            return ""  # the first bytes of a character hide the one before, until its last
        new = whole[len(self.shown) :]
        self.shown += new
        return new


def _told(error: Exception, asked: Asked | None) -> tuple[str, int]:
    """Return message and status for a client; what went wrong within the device is for its own output."""
    if isinstance(error, RequestError) or asked is None:
        return str(error), getattr(error, "status", 400)
    if isinstance(error, ServerAwayError):
        return str(error), 503
    if isinstance(error, RefusedError):
        return str(error), 502
    LOG.error("A text could not be written: %s", error)
    return "The text could not be written; the output of the device says why.", 500


def headers_in_time() -> type[asyncio.Protocol]:
    """Return uvicorn's protocol that closes connections whose headers do not end in twice ``SLOWEST_S``."""
    from h11 import IDLE
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class HeadersInTime(H11Protocol):  # type: ignore[misc]
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._watch(self)

        def _watch(self, before: Any) -> None:
            awaited = self.cycle if self.conn.their_state is IDLE else object()
            if awaited is before:
                self.transport.close()
            elif not self.transport.is_closing():
                self.loop.call_later(door_requests.SLOWEST_S, self._watch, awaited)

    return HeadersInTime


class Door:
    """The application; each of the ``at_once`` texts that are written at the same time has its own connection."""

    def __init__(
        self,
        device: Device,
        make: Callable[[], Method | None],
        *,
        model: str,
        temperature: float | None = None,
        at_once: int = 1,
    ) -> None:
        self.device, self.make, self.model = device, make, model
        self.reader = Reader(device.pair, model, temperature)
        self.devices = [device, *(device.beside() for _ in range(at_once - 1))]
        self.free: queue.SimpleQueue[Device] = queue.SimpleQueue()
        for own in self.devices:
            self.free.put(own)
        self.taken = 0  # requests that are served or wait

    def application(self) -> Starlette:
        from starlette.applications import Starlette
        from starlette.middleware import Middleware
        from starlette.middleware.trustedhost import TrustedHostMiddleware
        from starlette.routing import Route

        hosts = ["127.0.0.1", "localhost", "[::1]"]  # a page of the web that names this machine otherwise is refused
        return Starlette(
            routes=[
                Route("/v1/models", self._models),
                Route("/v1/completions", partial(self._answer, chat=False), methods=["POST"]),
                Route("/v1/chat/completions", partial(self._answer, chat=True), methods=["POST"]),
            ],
            middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=hosts)],
        )

    def close(self) -> None:
        for device in self.devices:
            device.remote.close()

    async def _models(self, request: Request) -> Response:
        from starlette.responses import JSONResponse

        return JSONResponse({"object": "list", "data": [{"id": self.model, "object": "model", "owned_by": "hlm"}]})

    async def _answer(self, request: Request, *, chat: bool) -> Response:
        from starlette.responses import JSONResponse, StreamingResponse

        asked = None
        try:
            asked = self.reader.read(await body_of(request), chat=chat)
            if self.taken >= len(self.devices) + MOST_WAITING:
                raise RequestError(f"{self.taken} requests are served or wait, and no more may; try later.", status=429)
            parts = self._parts(asked)
            if asked.stream:
                first = await anext(parts)  # an error before the first token has a status of its own
                return StreamingResponse(self._events(asked, first, parts), media_type="text/event-stream")
            texts = [part async for part in parts]
        except (UserError, ValueError) as error:
            message, status = _told(error, asked)
            kind = "invalid_request_error" if status < 500 else "server_error"
            name, headers = getattr(error, "name", None), {}
            if status in (429, 503):
                headers = {"Retry-After": "1"}
            elif asked is None and name is None:  # the request was not read to its end
                headers = {"Connection": "close"}
            return JSONResponse({"error": {"message": message, "type": kind, "param": name}}, status, headers)
        text, last = "".join(part.text for part in texts), texts[-1]
        whole: dict[str, Any] = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        return JSONResponse(self._object(asked, [self._choice(whole, last.reason)], last.tokens, last.writers))

    async def _events(self, asked: Asked, first: Part, parts: AsyncGenerator[Part, None]) -> AsyncIterator[str]:
        """Yield the events of a stream; an error after the first token is an event."""
        head = {"id": f"hlm-{secrets.token_hex(8)}", "created": int(time.time())}
        began = False

        def event(choices: list[dict[str, Any]], usage: int | None = None) -> str:
            whole = self._object(asked, choices, usage, writers, chunk=True) | head
            return f"data: {json.dumps(whole)}\n\n"

        try:
            async with aclosing(parts):
                text, reason, count, writers = first
                while True:
                    if text or reason:
                        said: dict[str, Any] = {"text": text}
                        if asked.chat:
                            delta = {} if began else {"role": "assistant"}
                            said = {"delta": delta | ({"content": text} if text else {})}
                        began = True
                        yield event([self._choice(said, reason)])
                    if reason:
                        break
                    text, reason, count, writers = await anext(parts)
        except (UserError, ValueError) as error:
            yield f"data: {json.dumps({'error': {'message': _told(error, asked)[0], 'type': 'server_error'}})}\n\n"
            return
        if asked.usage:
            yield event([], count)
        yield "data: [DONE]\n\n"

    async def _parts(self, asked: Asked) -> AsyncGenerator[Part, None]:
        loop = asyncio.get_running_loop()
        ready: asyncio.Queue[Part | BaseException] = asyncio.Queue()
        decode = partial(
            self.device.pair.tokenizer.decode, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        progress = Progress(decode, asked.stops, asked.stream)

        def put(value: Any) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(ready.put_nowait, value)

        def write() -> None:
            try:
                self._write(asked, progress, lambda text: put(progress.part(text)))
                put(progress.part(progress.rest(), last=True))
            except BaseException as error:
                put(error)
            finally:
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(self._done)

        self.taken += 1
        threading.Thread(target=write, daemon=True).start()
        try:
            while True:
                found = await ready.get()
                if isinstance(found, BaseException):
                    raise found
                yield found
                if found.reason:
                    return
        finally:
            progress.left = True

    def _done(self) -> None:
        self.taken -= 1

    def _write(self, asked: Asked, progress: Progress, show: Callable[[str], None]) -> None:
        def take(tokens: list[int]) -> None:
            if progress.left:
                raise _EnoughError
            progress.writers = list(device.record.writers)
            show(progress.more(tokens))
            if progress.reason == "stop":
                raise _EnoughError

        device = self.free.get()
        try:
            if progress.left:
                return
            with suppress(_EnoughError):
                settings: dict[str, Any] = {"temperature": asked.temperature, "top_p": asked.top_p}
                settings |= {"new_tokens": asked.new_tokens, "seed": asked.seed}
                record = device.generate(self.make(), asked.ids, name=NAME, on_tokens=take, **settings)
                progress.reason = "stop" if record.ended else "length"
                if record.ended:
                    progress.stops = []  # what was held back is text
        finally:
            self.free.put(device)

    def _choice(self, said: dict[str, Any], reason: str | None) -> dict[str, Any]:
        return {"index": 0, **said, "logprobs": None, "finish_reason": reason}

    def _object(
        self, asked: Asked, choices: list[dict[str, Any]], count: int | None, writers: Writers, *, chunk: bool = False
    ) -> dict[str, Any]:
        versions = [name for _, name in writers if name != ALONE]
        targets = self.device.remote.greeting().targets
        version = versions[-1] if versions else self.device.remote.version or next(iter(targets))
        kind = "text_completion"
        if asked.chat:
            kind = "chat.completion.chunk" if chunk else "chat.completion"
        found: dict[str, Any] = {
            "id": f"hlm-{secrets.token_hex(8)}",
            "object": kind,
            "created": int(time.time()),
            "model": self.model,
            "system_fingerprint": targets[version],
            "choices": choices,
        }
        if writers and (not choices or choices[0]["finish_reason"]):
            found["hlm"] = {"writers": writers}
        if count is not None:
            ours = len(asked.ids)
            found["usage"] = {"prompt_tokens": ours, "completion_tokens": count, "total_tokens": ours + count}
        return found
