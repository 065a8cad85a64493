"""An OpenAI-compatible door of a device: completions and chat completions, streaming and not.

What a request may ask for is what the device can do: ``prompt`` or ``messages``, ``max_tokens``, ``temperature``,
``top_p``, ``seed``, ``stop``, ``stream``. Any other parameter is refused by name, unless its value asks for nothing.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from validation.collection.collect import prompt_ids
from validation.decoding.methods.base import Method
from validation.errors import UserError
from validation.link.device import Device, RefusedError, ServerAwayError
from validation.models.chat import has_template, turn_ids
from validation.printable import printable

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

NAME = "openai"
"""The name of every text of the door: with its seed it chooses the text's random numbers."""
LONGEST_BODY, MOST_WAITING, MOST_STOPS, USUAL_TOKENS = 2**20, 8, 4, 16
NOTHING: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "logprobs": (False,),
    "echo": (False,),
    "logit_bias": ({},),
    "store": (False,),
    "tools": ([],),
}
"""Parameters that are not supported, with the values that ask for nothing; None always does."""
KNOWN = ("model", "max_tokens", "temperature", "top_p", "seed", "stop", "stream", "stream_options")


Part: TypeAlias = tuple[str, str | None, int]
"""New text, why the text ended, and the count of its tokens."""


class _RequestError(UserError):
    """A request that asks for what the door cannot do."""

    def __init__(self, message: str, name: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.name, self.status = name, status


class _EnoughError(Exception):
    """The text is complete before the device knows."""


@dataclass(slots=True)
class Asked:
    """A request that was read."""

    ids: list[int]
    new_tokens: int
    temperature: float
    top_p: float
    seed: int
    stops: list[str]
    stream: bool
    usage: bool
    chat: bool


@dataclass
class Progress:
    """A text that is being written: what may be shown of it, and why it ended."""

    decode: Callable[[list[int]], str]
    stops: list[str]
    tokens: list[int] = field(default_factory=list)
    shown: str = ""
    reason: str = "length"
    left: bool = False  # whether the client has gone

    def more(self, tokens: list[int]) -> str:
        """Add tokens; return the text that is certain by now, and was not before."""
        self.tokens += tokens
        return self._show(self.decode(self.tokens), final=False)

    def rest(self) -> str:
        """Return what was held back, after the last token."""
        return "" if self.reason == "stop" and self.stops else self._show(self.decode(self.tokens), final=True)

    def _show(self, whole: str, *, final: bool) -> str:
        found = [place for stop in self.stops if (place := whole.find(stop)) >= 0]
        if found:
            whole, self.reason = whole[: min(found)], "stop"
        elif not final:
            whole = whole.rstrip("\ufffd")  # a character whose last bytes are to come
            held = max((_overlap(whole, stop) for stop in self.stops), default=0)
            whole = whole[: len(whole) - held]
        new = whole[len(self.shown) :] if whole.startswith(self.shown) else ""
        self.shown += new
        return new


def _overlap(text: str, stop: str) -> int:
    """Return how many last characters of a text may begin a stop.

    >>> _overlap("one, tw", "two"), _overlap("one", "two")
    (2, 0)
    """
    return next((size for size in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:size])), 0)


class Door:
    """The application.

    Parameters
    ----------
    device : Device
    make : callable
        Makes the method of a text, as :meth:`Device.generate` takes it.
    model : str
        The name by which clients ask for the model.
    temperature : float, optional
        The only temperature, if a policy fixes it.
    """

    def __init__(
        self, device: Device, make: Callable[[], Method | None], *, model: str, temperature: float | None = None
    ) -> None:
        self.device, self.make, self.model, self.temperature = device, make, model, temperature
        self.turn, self.waiting = threading.Lock(), 0  # one text at a time: there is one draft model

    def application(self) -> Starlette:
        """Return the application, for an ASGI server that listens on loopback."""
        from starlette.applications import Starlette
        from starlette.middleware import Middleware
        from starlette.middleware.trustedhost import TrustedHostMiddleware
        from starlette.routing import Route

        hosts = ["127.0.0.1", "localhost", "[::1]"]  # a page of the web that names this machine otherwise is refused
        return Starlette(
            routes=[
                Route("/v1/models", self._models),
                Route("/v1/completions", self._completions, methods=["POST"]),
                Route("/v1/chat/completions", self._chat, methods=["POST"]),
            ],
            middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=hosts)],
        )

    async def _models(self, request: Request) -> Response:
        from starlette.responses import JSONResponse

        return JSONResponse({"object": "list", "data": [{"id": self.model, "object": "model", "owned_by": "hlm"}]})

    async def _completions(self, request: Request) -> Response:
        return await self._answer(request, chat=False)

    async def _chat(self, request: Request) -> Response:
        return await self._answer(request, chat=True)

    async def _answer(self, request: Request, *, chat: bool) -> Response:
        from starlette.responses import JSONResponse, StreamingResponse

        try:
            asked = self._read(await _body(request), chat=chat)
            if self.waiting >= MOST_WAITING:
                raise _RequestError(f"{self.waiting} requests wait, as many as may; try again later.", status=429)
            parts = self._parts(asked)
            if asked.stream:
                first = await anext(parts)  # an error before the first token has a status of its own
                return StreamingResponse(self._events(asked, first, parts), media_type="text/event-stream")
            texts = [part async for part in parts]
        except (UserError, ValueError) as error:
            status = error.status if isinstance(error, _RequestError) else 400
            status = 503 if isinstance(error, ServerAwayError) else 502 if isinstance(error, RefusedError) else status
            kind = "invalid_request_error" if status < 500 else "server_error"
            said = {"message": str(error), "type": kind, "param": getattr(error, "name", None), "code": None}
            headers = {"Retry-After": "1"} if status in (429, 503) else None
            return JSONResponse({"error": said}, status, headers)
        text, (_, reason, count) = "".join(part[0] for part in texts), texts[-1]
        whole: dict[str, Any] = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        return JSONResponse(self._object(asked, [self._choice(whole, reason)], count))

    async def _events(self, asked: Asked, first: Part, parts: AsyncGenerator[Part, None]) -> AsyncIterator[str]:
        """Yield the events of a stream; an error after the first token is an event."""
        head = {"id": f"hlm-{secrets.token_hex(8)}", "created": int(time.time())}
        began = False

        def event(choices: list[dict[str, Any]], usage: int | None = None) -> str:
            whole = self._object(asked, choices, usage, chunk=True) | head
            return f"data: {json.dumps(whole)}\n\n"

        try:
            async with aclosing(parts):
                text, reason, count = first
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
                    text, reason, count = await anext(parts)
        except (UserError, ValueError) as error:
            yield f"data: {json.dumps({'error': {'message': str(error), 'type': 'server_error'}})}\n\n"
            return
        if asked.usage:
            yield event([], count)
        yield "data: [DONE]\n\n"

    async def _parts(self, asked: Asked) -> AsyncGenerator[Part, None]:
        """Yield new text as it comes, and at its end why it ended; the count is of tokens so far."""
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[tuple[str, str | None, int] | BaseException] = asyncio.Queue()
        progress = Progress(
            lambda ids: str(self.device.pair.tokenizer.decode(ids, skip_special_tokens=True)), asked.stops
        )

        def put(value: Any) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(queue.put_nowait, value)

        def write() -> None:
            try:
                self._write(asked, progress, lambda text: put((text, None, len(progress.tokens))))
                put((progress.rest(), progress.reason, len(progress.tokens)))
            except BaseException as error:
                put(error)

        threading.Thread(target=write, daemon=True).start()
        try:
            while True:
                found = await queue.get()
                if isinstance(found, BaseException):
                    raise found
                yield found
                if found[1]:
                    return
        finally:
            progress.left = True

    def _decoded(self, ids: list[int]) -> str:
        return str(self.device.pair.tokenizer.decode(ids, skip_special_tokens=True))

    def _write(self, asked: Asked, progress: Progress, show: Callable[[str], None]) -> None:
        """Write a text when its turn comes."""

        def take(tokens: list[int]) -> None:
            if progress.left:
                raise _EnoughError
            show(progress.more(tokens))
            if progress.reason == "stop":
                raise _EnoughError

        self.waiting += 1
        try:
            with self.turn, suppress(_EnoughError):
                settings: dict[str, Any] = {"temperature": asked.temperature, "top_p": asked.top_p}
                settings |= {"new_tokens": asked.new_tokens, "seed": asked.seed}
                record = self.device.generate(self.make(), asked.ids, name=NAME, on_tokens=take, **settings)
                progress.reason = "stop" if record.ended else "length"
                if record.ended:
                    progress.stops = []  # what was held back is text
        finally:
            self.waiting -= 1

    # ------------------------------------------------------------------------------------------------- read and say

    def _read(self, given: dict[str, Any], *, chat: bool) -> Asked:
        """Return what a request asks for, or refuse it by name."""
        known = (*KNOWN, *(("messages", "max_completion_tokens") if chat else ("prompt",)))
        for name, value in given.items():
            if name not in known and value is not None and value not in NOTHING.get(name, ()):
                raise _RequestError(f"{name} is not supported; leave it out.", name)
        given = {name: value for name, value in given.items() if value is not None}
        if given.get("model", self.model) != self.model:
            raise _RequestError(f"There is no model {given['model']!r:.60}; this is {self.model}.", "model", 404)
        for name in ("stream_options", "stream"):
            _of_type(given, name, dict if name == "stream_options" else bool)
        options = given.get("stream_options", {})
        if options and (not given.get("stream") or options.keys() - {"include_usage"}):
            raise _RequestError("stream_options has include_usage alone, and needs stream.", "stream_options")
        ids = self._messages(given) if chat else self._prompt(given)
        most = given.get("max_completion_tokens", given.get("max_tokens"))
        room = self.device.pair.context - len(ids)
        usual = max(room, 1) if chat else USUAL_TOKENS
        if not ids or room < 1:
            what = f"The prompt has {len(ids)} tokens; the context is {self.device.pair.context}; write others."
            raise _RequestError(what, "messages" if chat else "prompt")
        named = {} if most is None else {"max_tokens": most}
        return Asked(
            ids=ids,
            new_tokens=int(_number(named, "max_tokens", min(usual, room), 1, room, whole=True)),
            temperature=self._temperature(given),
            top_p=_number(given, "top_p", 1.0, 1e-6, 1.0),
            seed=int(_number(given, "seed", secrets.randbits(53), 0, 2**63 - 1, whole=True)),
            stops=_stops(given.get("stop", [])),
            stream=bool(given.get("stream")),
            usage=bool(options.get("include_usage")),
            chat=chat,
        )

    def _temperature(self, given: dict[str, Any]) -> float:
        fixed = self.temperature
        found = _number(given, "temperature", 1.0 if fixed is None else fixed, 0.0, 2.0)
        if fixed is not None and found != fixed:
            raise _RequestError(f"The policy is for temperature {fixed:g}; leave temperature out.", "temperature")
        return found

    def _prompt(self, given: dict[str, Any]) -> list[int]:
        prompt = given.get("prompt")
        if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
            prompt = prompt[0]
        if isinstance(prompt, str):
            return prompt_ids(self.device.pair.tokenizer, [_text(prompt, "prompt")])[0]
        vocabulary = self.device.pair.vocabulary
        if isinstance(prompt, list) and all(type(token) is int and 0 <= token < vocabulary for token in prompt):
            return prompt
        raise _RequestError("prompt must be one text, or the tokens of one.", "prompt")

    def _messages(self, given: dict[str, Any]) -> list[int]:
        messages, tokenizer = given.get("messages"), self.device.pair.tokenizer
        if not isinstance(messages, list) or not messages:
            raise _RequestError("messages must be a list of one or more.", "messages")
        turns = []
        for one in messages:
            if not isinstance(one, dict) or set(one) != {"role", "content"} or not isinstance(one["content"], str):
                raise _RequestError("A message has a role and a text as its content, and nothing else.", "messages")
            if one["role"] not in ("system", "user", "assistant"):
                raise _RequestError("A role is system, user or assistant.", "messages")
            turns.append((one["role"], _text(one["content"], "messages")))
        if not has_template(tokenizer):
            raise _RequestError("The model has no chat template; use /v1/completions.", "messages")
        try:
            return turn_ids(tokenizer, turns, "of the request")
        except UserError as error:
            raise _RequestError(str(error), "messages") from error

    def _choice(self, said: dict[str, Any], reason: str | None) -> dict[str, Any]:
        return {"index": 0, **said, "logprobs": None, "finish_reason": reason}

    def _object(
        self, asked: Asked, choices: list[dict[str, Any]], count: int | None, *, chunk: bool = False
    ) -> dict[str, Any]:
        kind = ("chat.completion.chunk" if chunk else "chat.completion") if asked.chat else "text_completion"
        found: dict[str, Any] = {
            "id": f"hlm-{secrets.token_hex(8)}",
            "object": kind,
            "created": int(time.time()),
            "model": self.model,
            "system_fingerprint": self.device.remote.greeting().target,
            "choices": choices,
        }
        if count is not None:
            ours = len(asked.ids)
            found["usage"] = {"prompt_tokens": ours, "completion_tokens": count, "total_tokens": ours + count}
        return found


async def _body(request: Request) -> dict[str, Any]:
    """Return the JSON object of a request, of bounded size."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise _RequestError("The content type must be application/json.", status=415)
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > LONGEST_BODY:
            raise _RequestError(f"A request has at most {LONGEST_BODY:,} bytes.", status=413)
    try:
        given = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _RequestError("The request is not JSON.") from error
    if not isinstance(given, dict):
        raise _RequestError("The request is no JSON object.")
    return given


def _of_type(given: dict[str, Any], name: str, kind: type) -> None:
    if name in given and type(given[name]) is not kind:
        raise _RequestError(f"{name} is of another type; see the API of OpenAI.", name)


def _number(given: dict[str, Any], name: str, usual: float, least: float, most: float, *, whole: bool = False) -> float:
    value = given.get(name, usual)
    kinds = (int,) if whole else (int, float)
    if type(value) not in kinds or not least <= value <= most:
        raise _RequestError(f"{name} must be {least:g} to {most:g}; got {value!r:.40}.", name)
    return int(value) if whole else float(value)


def _stops(given: Any) -> list[str]:
    stops = [given] if isinstance(given, str) else given
    if not isinstance(stops, list) or len(stops) > MOST_STOPS or any(not isinstance(s, str) or not s for s in stops):
        raise _RequestError(f"stop must be a text, or up to {MOST_STOPS}.", "stop")
    return [_text(stop, "stop") for stop in stops]


def _text(value: str, name: str) -> str:
    """Return a text that is UTF-8."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise _RequestError(f"{name} holds half of a surrogate pair: {printable(value):.40}.", name) from error
    return value
