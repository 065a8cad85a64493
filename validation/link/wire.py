"""The frames between a device and a server.

A greeting, a JSON frame, comes first; an error is a text frame. All others are a kind and a body, sealed with the
greeting's nonce: with a key an HMAC, else a CRC-32. Drafts that do not wait, and their answers, are those of
:mod:`hlmtheory.policy.streaming`. A frame that was lost is sent again over a new connection, behind an opening.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hlmtheory.codec.envelope import DOWN, UP, Envelope
from hlmtheory.codec.frame import Reader, varint
from hlmtheory.policy.answers import received_answer
from hlmtheory.wire import CodecError, MalformedError
from validation.arrays import Array
from validation.decoding.wire import index_bits, pack, unpack
from validation.errors import UserError
from validation.from_json import checked_fields

if TYPE_CHECKING:
    import torch

PROTOCOL = 4
HELLO, OPEN, ROUND, TEXT = b"h", b"o", b"r", b"t"
"""Kinds of a sealed frame: hello (empty; the same answer says that both have the key), an opening (answered by the name
of the version), a round or its answer, and new tokens of a text that the server writes."""
LONGEST_OPENING = 2**20
"""In bytes: the largest frame of a device that has not opened a text."""
LONGEST_NAME, LONGEST_ROUND = 256, 64
"""Bytes of a text's name, and drafts of a round."""
LEAST_TEMPERATURE, MOST_TEMPERATURE = 1e-6, 1e3
"""Below the least one but 0, logits over the temperature may be infinite in float32."""
VERSION_NAME, MOST_VERSIONS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"), 64


class LinkError(CodecError):
    """A frame that this side does not accept, or a peer that does not answer."""


class WithdrawnError(LinkError):
    """The device's key is not one of the server's any more."""


ENDED_KEY = "the key of this device was withdrawn; ask for another one"


@dataclass(frozen=True, slots=True)
class Greeting:
    protocol: int
    nonce: str  # 16 bytes, hexadecimal
    vocabulary: int
    tokenizer: str
    targets: dict[str, str]  # name of each version of the target, and the fingerprint of its weights
    end_tokens: list[int]
    context: int
    keyed: bool


@dataclass(frozen=True, slots=True)
class Opening:
    """What a device says before a text, and again after each cut: by ``session`` the server finds a text's cache."""

    tokenizer: str
    draft: str
    terms: list[Any]
    name: str
    seed: int
    temperature: float
    top_p: float
    new_tokens: int
    prompt: list[int]
    text: list[int]
    session: str


class Pipe:
    """One side of a connection: seals what it sends, and unseals what it receives, in order."""

    def __init__(self, nonce: str, key: bytes | None, *, server: bool) -> None:
        self.key = key
        self.envelope = Envelope.of(f"hlm link {PROTOCOL}", bytes.fromhex(nonce), key)
        self.out, self.into = (DOWN, UP) if server else (UP, DOWN)
        self.sent = self.received = 0

    def seal(self, kind: bytes, body: bytes) -> bytes:
        data = self.envelope.seal(kind + body, direction=self.out, place=self.sent)
        self.sent += 1
        return data

    def unseal(self, data: bytes | str, longest: int) -> tuple[bytes, bytes]:
        """Return kind and body of the next frame, or raise a CodecError; a refused frame changes nothing."""
        if isinstance(data, str):
            raise LinkError("a text frame came where a sealed one is expected; use one protocol on both sides")
        body = self.envelope.unseal(data, direction=self.into, place=self.received, longest=longest)
        if not body:
            raise MalformedError("a frame without a kind; no peer sends that")
        self.received += 1
        return body[:1], body[1:]


def to_json(value: Greeting | Opening, *, padded: bool = False) -> bytes:
    """Return the bytes of a greeting or an opening; padded, with spaces to a power of two and at least 4 KiB."""
    data = json.dumps(asdict(value), separators=(",", ":")).encode()
    return data.ljust(1 << max(12, (len(data) - 1).bit_length())) if padded else data


def greeting_of(data: bytes | str) -> Greeting:
    greeting = Greeting(**fields_of(Greeting, _json(data)))
    if greeting.protocol != PROTOCOL:
        raise LinkError(f"the server's protocol is {greeting.protocol}, and ours {PROTOCOL}; update one of the two")
    if len(greeting.nonce) != 32 or not set(greeting.nonce) <= set("0123456789abcdef"):
        raise LinkError("the server's nonce is not 32 hexadecimal digits; no server sends that")
    if not (2 <= greeting.vocabulary <= 2**24 and greeting.context >= 2):
        raise LinkError(
            f"the server's vocabulary is {greeting.vocabulary} and its context {greeting.context}; no server has that"
        )
    if not 1 <= len(greeting.targets) <= MOST_VERSIONS or any(
        not VERSION_NAME.fullmatch(name) or not isinstance(mark, str) for name, mark in greeting.targets.items()
    ):
        raise LinkError("the server's versions have no names, or too many; no server sends that")
    return greeting


def opening_of(data: bytes, vocabulary: int, context: int) -> Opening:
    """Return an opening whose numbers are in range, or raise a LinkError."""
    opening = Opening(**fields_of(Opening, _json(data)))
    tokens = [*opening.prompt, *opening.text]
    if not opening.prompt or any(type(token) is not int or not 0 <= token < vocabulary for token in tokens):
        raise LinkError(f"prompt and text must be tokens in 0..{vocabulary - 1}, one or more; got others")
    if not len(opening.text) <= opening.new_tokens <= context - len(opening.prompt):
        raise LinkError(
            f"{len(opening.prompt)} tokens of a prompt and {opening.new_tokens} new ones do not fit the context of "
            f"{context}, or {len(opening.text)} are there already; ask for fewer"
        )
    require_temperature(opening.temperature)
    if not (0 < opening.top_p <= 1 and 0 <= opening.seed < 2**63):
        raise LinkError(f"top-p {opening.top_p} or seed {opening.seed} is out of range")
    if not opening.name.isprintable() or max(len(opening.name.encode()), len(opening.session)) > LONGEST_NAME:
        raise LinkError(f"names are printable and have at most {LONGEST_NAME} bytes; change it")
    return opening


def require_temperature(value: float) -> None:
    """Refuse a temperature at which a model's distribution cannot be computed."""
    if value != 0 and not LEAST_TEMPERATURE <= value <= MOST_TEMPERATURE:
        raise UserError(f"The temperature is {value!s:.40}; give 0, or {LEAST_TEMPERATURE:g} to {MOST_TEMPERATURE:,g}.")


def _json(data: bytes | str) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise LinkError("what came is not JSON; no peer sends that") from error


def fields_of(kind: type, given: Any) -> dict[str, Any]:
    """Return the fields of a dataclass from plain values, each of its type."""
    try:
        return checked_fields(kind, given)
    except ValueError as error:
        raise LinkError(f"{error}; use one protocol on both sides") from error


def error_frame(name: str, message: str, retry_s: float | None = None) -> str:
    return json.dumps({"error": name, "message": message[:500]} | ({} if retry_s is None else {"retry_s": retry_s}))


# ------------------------------------------------------------------------------------------------ rounds and answers


def round_body(skipped: Iterable[int], payload: bytes, vocabulary: int) -> bytes:
    """Return the body of a round: the tokens that were kept without verification, then the method's message."""
    tokens = np.array(list(skipped), dtype=np.int64)
    return varint(len(tokens)) + pack([(tokens, index_bits(vocabulary))] if len(tokens) else []) + payload


def round_of(body: bytes, vocabulary: int, most: int) -> tuple[list[int], bytes]:
    """Return skipped tokens, at most ``most``, and the method's message."""
    count = Reader(body[:6]).varint("the number of skipped tokens", 0, most)
    head, width = len(varint(count)), index_bits(vocabulary)
    size = -(-count * width // 8)
    if len(body) < head + size:
        raise MalformedError("the round ends within its skipped tokens; no device sends that")
    tokens: list[int] = unpack(body[head : head + size], [width] * count)
    if any(token >= vocabulary for token in tokens):
        raise MalformedError("a skipped token is outside the vocabulary; no device sends that")
    return tokens, body[head + size :]


def answer_size(drafts: int, vocabulary: int) -> int:
    """Return the bytes of the body of an answer without p."""
    return -(-(drafts.bit_length() + index_bits(vocabulary + 1)) // 8)


def answer_body(
    accepted: int,
    drafts: int,
    token: int,
    vocabulary: int,
    target: torch.Tensor | bytes | None = None,
    *,
    least: int = 0,
) -> bytes:
    """Return the body of an answer: ``token`` is -1 if the server draws none, ``target`` p (V,), or p̂ in bytes."""
    head = pack([(accepted, drafts.bit_length()), (token + 1, index_bits(vocabulary + 1))]).ljust(least, b"\0")
    if target is None or isinstance(target, bytes):
        return head + (target or b"")
    row: bytes = target.float().cpu().numpy().tobytes()
    return head + row


def answer_of(
    body: bytes, drafts: int, vocabulary: int, *, least: int = 0, cut: bool = False
) -> tuple[int, int, Array | None]:
    """Return accepted drafts, the server's token or -1, and p (V,) if it was sent (with ``cut``: p̂)."""
    widths, own = [drafts.bit_length(), index_bits(vocabulary + 1)], answer_size(drafts, vocabulary)
    size = max(own, least)
    fits = len(body) >= size if cut else len(body) in (size, size + 4 * vocabulary)
    if not fits or body[own:size].strip(b"\0"):
        raise MalformedError(f"{len(body)} bytes are no answer to {drafts} drafts; no server writes that")
    accepted, token = unpack(body[:own], widths)
    if accepted > drafts or token > vocabulary:
        raise MalformedError(
            "the answer accepts more drafts than were sent, or its token is outside the vocabulary; no server does that"
        )
    if len(body) == size:
        return accepted, token - 1, None
    row = received_answer(body[size:], vocabulary) if cut else np.frombuffer(body[size:], dtype="<f4")
    whole = np.where(np.isfinite(row) & (row >= 0), row, 2.0).sum(dtype=np.float64)
    if accepted == drafts or not 0.99 < whole < 1.01:
        raise MalformedError("the answer's probabilities are no distribution, or not wanted; no server writes that")
    return accepted, token - 1, row
