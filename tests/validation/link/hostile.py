"""Frames of a hostile peer: what a server and a device read, mutated."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from hlmtheory.policy.answers import cut_answer
from hlmtheory.wire import CertifiedAnswers, CertifiedRows, DevicePolicy, LatticeRows, SeededTokens, threshold_rule
from tests.validation.tiny_texts import nodes, quarters, table_pair
from validation.collection.prompts import Prompt
from validation.decoding.loop import decode
from validation.decoding.methods.base import Method
from validation.decoding.methods.multi_draft import BlockVerification, Dssd, DssdCertified, FixedLength
from validation.decoding.methods.planned import Planned
from validation.decoding.methods.quantized import KSqs
from validation.decoding.methods.shared_seed import SharedSeed
from validation.decoding.methods.single_draft import CuHlmOffline
from validation.link import wire
from validation.link.engine import ServedText
from validation.link.formats import REFUSED, Terms

V, CONTEXT, NONCE = 3, 64, "00" * 16
Check = Callable[[bytes], object]


def methods() -> list[Method]:
    plans = [LatticeRows(100, top_k=2), CertifiedRows(), SeededTokens(), CertifiedAnswers(0.1)]
    planned = [Planned(DevicePolicy(V, 1.0, threshold_rule(3), messages)) for messages in plans]
    more = [Dssd(3), DssdCertified(0.1, 3), KSqs(2), CuHlmOffline(0.5, k=2)]
    return [FixedLength(3), BlockVerification(3), SharedSeed(3), *more, *planned]


def opening(method: Method) -> wire.Opening:
    return wire.Opening("t", "q", [Terms.of(method).plain()], "a", 1, 1.0, 1.0, 12, [0, 1], [2], "s")


def honest_rounds(method: Method) -> list[bytes]:
    rng, sent = np.random.default_rng(1), list[bytes]()
    pair = table_pair(*(quarters(rng, nodes(V, 3)) * 0.9 + 0.1 / 3 for _ in range(2)))
    message = method.message

    def kept(drafts: Any) -> Any:
        made = message(drafts)
        sent.append(wire.round_body([0] * int(rng.integers(2)), made.payload, V))
        return made

    method.message = kept
    decode(pair, [Prompt("a", "0", "")], method, new_tokens=9, seed=1)
    del method.message
    return sent


def cases() -> list[tuple[str, Check, list[bytes]]]:
    rng = np.random.default_rng(0)
    pair = table_pair(*(quarters(rng, nodes(V, 3)) for _ in range(2)))
    found: list[tuple[str, Check, list[bytes]]] = []
    opened = []
    for method in methods():
        first, terms = opening(method), Terms.of(method)
        opened.append(wire.to_json(first))
        text = ServedText(pair, replace(first, text=[]), terms)
        found.append((f"round: {method.name}", text.received, honest_rounds(method)))
    several = [one for one in methods() if isinstance(one, Planned)]
    first = replace(opening(several[0]), terms=[Terms.of(one).plain() for one in several])
    opened.append(wire.to_json(first))
    text = ServedText(pair, replace(first, text=[]), *map(Terms.of, several))
    named = [bytes([number]) + body for number, one in enumerate(several) for body in honest_rounds(one)]
    found.append(("round: one of several messages", text.received, named))

    def read(data: bytes) -> object:
        first = wire.opening_of(data, V, CONTEXT)
        return ServedText(pair, first, *Terms.each_from_plain(first.terms, V))

    found.append(("opening", read, opened))
    sealed = [wire.Pipe(NONCE, key, server=False).seal(wire.OPEN, opened[0]) for key in (None, b"k" * 16)]
    found.append(("sealed", lambda data: wire.Pipe(NONCE, b"k" * 16, server=True).unseal(data, 1000), sealed))
    greeting = wire.to_json(wire.Greeting(wire.PROTOCOL, NONCE, V, "t", {"target": "p"}, [], CONTEXT, False))
    found.append(("greeting", wire.greeting_of, [greeting]))
    rows = quarters(rng, 2)
    answers = [
        wire.answer_body(1, 3, 2, V),
        wire.answer_body(3, 3, -1, V),
        wire.answer_body(0, 3, -1, V, torch.from_numpy(rows[0])),
    ]
    found.append(("answer", lambda data: wire.answer_of(data, 3, V), answers))
    cut = [answers[0], *(wire.answer_body(0, 3, -1, V, cut_answer(row, 1, 0.1)) for row in rows)]
    found.append(("certified answer", lambda data: wire.answer_of(data, 3, V, cut=True), cut))
    return found


def mutated(data: bytes, others: list[bytes], rng: np.random.Generator) -> bytes:
    way, changed = int(rng.integers(7)), bytearray(data)
    if way == 0 and data:
        for place in rng.integers(8 * len(data), size=int(rng.integers(1, 4))).tolist():
            changed[place // 8] ^= 1 << place % 8
    elif way == 1 and data:
        for place in rng.integers(len(data), size=int(rng.integers(1, 5))).tolist():
            changed[place] = int(rng.integers(256))
    elif way == 2:
        return data[: int(rng.integers(len(data) + 1))]
    elif way == 3:
        return data + rng.bytes(int(rng.integers(1, 50)))
    elif way == 4:
        other = others[int(rng.integers(len(others)))]
        return data[: int(rng.integers(len(data) + 1))] + other[int(rng.integers(len(other) + 1)) :]
    elif way == 5:
        return rng.bytes(int(rng.integers(0, 200)))
    else:
        return _other_json(data, rng)
    return bytes(changed)


def _other_json(data: bytes, rng: np.random.Generator) -> bytes:
    try:
        fields = json.loads(data)
        name = list(fields)[int(rng.integers(len(fields)))]
    except (ValueError, TypeError, IndexError, RecursionError):
        return data
    strange: tuple[Any, ...] = (None, True, -1, 2**70, 10**400, 1e308, float("nan"), "", "\ud800", "x" * 300)
    strange += ([], [[]], [-1], [1.5], {}, [0] * 99)
    value = strange[int(rng.integers(len(strange)))]
    if isinstance(fields[name], dict) and fields[name] and rng.random() < 0.8:
        inner = list(fields[name])[int(rng.integers(len(fields[name])))]
        fields[name][inner] = value
    else:
        fields[name] = value
    return json.dumps(fields).encode()


def tried(check: Check, data: bytes) -> str:
    try:
        check(data)
    except REFUSED as error:
        return type(error).__name__
    return "valid"
