"""Read the requests of the OpenAI-compatible door, and refuse by name what it does not support."""

from __future__ import annotations

import asyncio
import json
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from validation.collection.collect import prompt_ids
from validation.errors import UserError
from validation.link.wire import require_temperature
from validation.models.chat import has_template, turn_ids
from validation.printable import printable

if TYPE_CHECKING:
    from starlette.requests import Request

    from validation.models.pair import Pair

LONGEST_BODY, MOST_STOPS, USUAL_TOKENS = 2**20, 4, 16
SLOWEST_S = 30.0
"""A request that takes longer to arrive is refused."""
NOTHING: dict[str, Any] = {"n": 1, "best_of": 1, "frequency_penalty": 0, "presence_penalty": 0}
NOTHING |= {"logprobs": False, "echo": False, "store": False, "logit_bias": {}, "tools": []}
"""Parameters that are not supported, with the value that asks for nothing; None always does."""
KNOWN = ("model", "max_tokens", "temperature", "top_p", "seed", "stop", "stream", "stream_options")


class RequestError(UserError):
    """A request that asks for what the door cannot do."""

    def __init__(self, message: str, name: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.name, self.status = name, status


@dataclass(slots=True)
class Asked:
    ids: list[int]
    new_tokens: int
    temperature: float
    top_p: float
    seed: int
    stops: list[str]
    stream: bool
    usage: bool
    chat: bool


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads requests for a model; ``temperature`` is the only one, if a policy fixes it."""

    pair: Pair
    model: str
    temperature: float | None

    def read(self, given: dict[str, Any], *, chat: bool) -> Asked:
        known = (*KNOWN, *(("messages", "max_completion_tokens") if chat else ("prompt",)))
        for name, value in given.items():
            if name not in known and value is not None and not _asks_nothing(name, value):
                raise RequestError(f"{name} is not supported; leave it out.", name)
        given = {name: value for name, value in given.items() if value is not None}
        if given.get("model", self.model) != self.model:
            raise RequestError(f"There is no model {given['model']!r:.60}; this is {self.model}.", "model", 404)
        for name in ("stream_options", "stream"):
            if name in given and type(given[name]) is not (dict if name == "stream_options" else bool):
                raise RequestError(f"{name} is of another type; see the API of OpenAI.", name)
        options = given.get("stream_options", {})
        if options and (not given.get("stream") or options.keys() - {"include_usage"}):
            raise RequestError("stream_options has include_usage alone, and needs stream.", "stream_options")
        ids = self._messages(given) if chat else self._prompt(given)
        most = given.get("max_completion_tokens", given.get("max_tokens"))
        room = self.pair.context - len(ids)
        usual = max(room, 1) if chat else USUAL_TOKENS
        if not ids or room < 1:
            what = f"The prompt has {len(ids)} tokens; the context is {self.pair.context}; write others."
            raise RequestError(what, "messages" if chat else "prompt")
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
        try:
            require_temperature(found)
        except UserError as error:
            raise RequestError(str(error), "temperature") from error
        if fixed is not None and found != fixed:
            raise RequestError(f"The policy is for temperature {fixed:g}; leave temperature out.", "temperature")
        return found

    def _prompt(self, given: dict[str, Any]) -> list[int]:
        prompt = given.get("prompt")
        if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
            prompt = prompt[0]
        if isinstance(prompt, str):
            return prompt_ids(self.pair.tokenizer, [_text(prompt, "prompt")])[0]
        vocabulary = self.pair.vocabulary
        if isinstance(prompt, list) and all(type(token) is int and 0 <= token < vocabulary for token in prompt):
            return prompt
        raise RequestError("prompt must be one text, or the tokens of one.", "prompt")

    def _messages(self, given: dict[str, Any]) -> list[int]:
        messages, tokenizer = given.get("messages"), self.pair.tokenizer
        if not isinstance(messages, list) or not messages:
            raise RequestError("messages must be a list of one or more.", "messages")
        turns = []
        for one in messages:
            if not isinstance(one, dict) or set(one) != {"role", "content"} or not isinstance(one["content"], str):
                raise RequestError("A message has a role and a text as its content, and nothing else.", "messages")
            if one["role"] not in ("system", "user", "assistant"):
                raise RequestError("A role is system, user or assistant.", "messages")
            turns.append((one["role"], _text(one["content"], "messages")))
        if not has_template(tokenizer):
            raise RequestError("The model has no chat template; use /v1/completions.", "messages")
        try:
            return turn_ids(tokenizer, turns, "of the request")
        except UserError as error:
            raise RequestError(str(error), "messages") from error


async def body_of(request: Request) -> dict[str, Any]:
    """Return the JSON object of a request, of bounded size and time."""
    from starlette.requests import ClientDisconnect

    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise RequestError("The content type must be application/json.", status=415)
    if {"content-length", "transfer-encoding"} <= set(request.headers):
        raise RequestError("A request has a Content-Length or a Transfer-Encoding, not both.")
    data = b""
    try:
        async with asyncio.timeout(SLOWEST_S):
            async for part in request.stream():
                data += part
                if len(data) > LONGEST_BODY:
                    raise RequestError(f"A request has at most {LONGEST_BODY:,} bytes.", status=413)
    except ClientDisconnect as error:
        raise RequestError("The client left before its request was whole.") from error
    except TimeoutError as error:
        raise RequestError(f"The request did not come within {SLOWEST_S:g} s; send it again.", status=408) from error
    try:
        given = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RequestError("The request is not JSON.") from error
    if not isinstance(given, dict):
        raise RequestError("The request is no JSON object.")
    return given


def _asks_nothing(name: str, value: Any) -> bool:
    """Return whether a parameter that is not supported asks for nothing; 0 is not False."""
    none = NOTHING.get(name)  # no parameter is None here
    return bool(value == none) and isinstance(value, bool) == isinstance(none, bool)


def _number(given: dict[str, Any], name: str, usual: float, least: float, most: float, *, whole: bool = False) -> float:
    value = given.get(name, usual)
    kinds = (int,) if whole else (int, float)
    if type(value) not in kinds or not least <= value <= most:
        raise RequestError(f"{name} must be {least:g} to {most:g}; got {value!r:.40}.", name)
    return int(value) if whole else float(value)


def _stops(given: Any) -> list[str]:
    stops = [given] if isinstance(given, str) else given
    if not isinstance(stops, list) or len(stops) > MOST_STOPS or any(not isinstance(s, str) or not s for s in stops):
        raise RequestError(f"stop must be a text, or up to {MOST_STOPS}.", "stop")
    return [_text(stop, "stop") for stop in stops]


def _text(value: str, name: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise RequestError(f"{name} holds half of a surrogate pair: {printable(value):.40}.", name) from error
    return value
