"""Texts of one pass: what one device opens and sends changes no text of another."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.validation.link.hostile import CONTEXT, V, opening
from tests.validation.link.served import device_of, ended, served
from validation.collection.prompts import Prompt
from validation.decoding.loop import decode
from validation.decoding.methods.base import Method
from validation.decoding.methods.multi_draft import BlockVerification, Dssd, FixedLength
from validation.decoding.methods.quantized import KSqs
from validation.decoding.methods.shared_seed import SharedSeed, SharedSeedStreamed
from validation.decoding.session import Draft
from validation.decoding.wire import index_bits, pack
from validation.errors import UserError
from validation.link import engine as engine_module
from validation.link.engine import Engine, ReceivedRound, ServedText
from validation.link.formats import Terms
from validation.link.passes import Limits
from validation.link.wire import LEAST_TEMPERATURE, OPEN, ROUND, Opening, Pipe, greeting_of, round_body, to_json
from validation.models.pair import Pair

ROUNDS, LENGTHS = 20, {"a": 12, "b": 16, "c": 20}
TINY = float(np.float32(1e-45))


def tokens(*drafts: int) -> bytes:
    """Return a message of token ids alone."""
    return pack([(np.array([len(drafts)]), 16), (np.array(drafts), index_bits(V))])


def known(*drafts: tuple[int, float]) -> bytes:
    """Return a message of tokens with their probabilities."""
    bits = [int(np.float32(probability).view(np.uint32)) for _, probability in drafts]
    each = [part for (token, _), one in zip(drafts, bits, strict=True) for part in ((token, index_bits(V)), (one, 32))]
    return pack([(len(drafts), 16), *each])


def rows(*drafts: tuple[int, list[float]]) -> bytes:
    """Return a message of tokens with their distributions."""
    return tokens(*(token for token, _ in drafts)) + np.array([row for _, row in drafts], dtype="<f4").tobytes()


HOSTILE: list[tuple[Method, dict[str, Any], bytes]] = [
    *((SharedSeed(3), {"temperature": each}, tokens(0, 2, 1)) for each in (5e-324, 1e-300, 1e-38, 1e-7, 10**400, 999)),
    (SharedSeed(3), {"temperature": LEAST_TEMPERATURE}, tokens(0, 2, 1)),
    (FixedLength(3), {"temperature": 0}, tokens(2, 2, 2)),
    (FixedLength(3), {"temperature": LEAST_TEMPERATURE}, rows((0, [1.0, 0.0, 0.0]), (2, [1 - TINY, 0.0, TINY]))),
    (FixedLength(3), {"top_p": 5e-324}, rows((1, [0.0005, 0.9995, 0.0005]))),
    (BlockVerification(3), {"top_p": 1e-17}, rows((0, [TINY, 1.0, 0.0]), (0, [TINY, 0.0, 1.0]))),
    (BlockVerification(64), {"temperature": 1e-6}, rows(*[(2, [0.0, 0.0, 1.0])] * 8)),
    (Dssd(3), {"temperature": 1e-6}, known((0, TINY), (1, 1.000001), (2, TINY))),
    (Dssd(3), {"temperature": 999.0, "top_p": 5e-324}, known((2, 1.0))),
    (KSqs(2), {"temperature": 1e-6}, b"\0"),
    (SharedSeed(3), {"seed": 2**63 - 1}, tokens(0)),
    (SharedSeed(64), {"seed": 0, "new_tokens": CONTEXT - 2}, tokens(*[V - 1] * (CONTEXT - 4))),
    (SharedSeed(3), {"new_tokens": 0, "text": []}, tokens()),
    (SharedSeed(3), {"prompt": [V - 1] * (CONTEXT - 12)}, tokens(V - 1, V - 1)),
    (SharedSeed(1), {"name": "", "session": "", "new_tokens": 1, "text": []}, tokens(0)),
    (SharedSeed(3), {"name": "\U0001f600" * 64, "temperature": 1}, tokens(0, 1, 2)),
    (SharedSeedStreamed(), {"temperature": 1e-300}, b""),
    (SharedSeed(3), {"temperature": 1e-6, "text": [0] * 11}, tokens(0)),
    (Dssd(3), {"temperature": 1e-300}, known((0, TINY))),
    (FixedLength(3), {"text": []}, b"\0"),
]


def attack(address: str, which: tuple[Method, dict[str, Any], bytes], said: list[str]) -> None:
    """Open a text and send one round again and again, until the server ends the connection or the text."""
    method, changed, message = which
    with connect(address) as socket, suppress(ConnectionClosed, TimeoutError):
        pipe = Pipe(greeting_of(socket.recv(5)).nonce, None, server=False)
        socket.send(pipe.seal(OPEN, to_json(replace(opening(method), **changed))))
        answer = socket.recv(20)
        for _ in range(ROUNDS):
            if isinstance(answer, str):
                said.append(answer)
                return
            socket.send(pipe.seal(ROUND, round_body([], message, V)))
            answer = socket.recv(20)


def beside(pair: Pair, others: Callable[[str], None]) -> None:
    """Write three texts in shared passes, as the loop does, while others do what they like."""
    methods: dict[str, Method] = {"a": FixedLength(2), "b": SharedSeed(3), "c": BlockVerification(3)}
    found: dict[str, list[int]] = {}

    def write(name: str) -> None:
        with device_of(pair, server.address) as device:
            found[name] = device.generate(methods[name], [0], name=name, seed=2, new_tokens=LENGTHS[name]).tokens

    with served(pair, limits=Limits(batch=8, wait_s=0.05)) as server:
        threads = [threading.Thread(target=write, args=(name,), daemon=True) for name in methods]
        threads.append(threading.Thread(target=others, args=(server.address,), daemon=True))
        for thread in threads:
            thread.start()
        for thread in threads:
            ended(thread)
        passes, rounds = (server.server.metrics.value(n) for n in ("hlm_pass_seconds_count", "hlm_rounds_total"))
    assert passes < rounds
    assert found == {
        name: decode(pair, [Prompt(name, "0", "")], method, new_tokens=LENGTHS[name], seed=2)[0].tokens
        for name, method in methods.items()
    }


def test_hostile_openings_and_drafts_change_no_other_text(pair: Pair) -> None:
    said: list[str] = []

    def attacks(address: str) -> None:
        crowd = [threading.Thread(target=attack, args=(address, one, said), daemon=True) for one in HOSTILE]
        for thread in crowd:
            thread.start()
        for thread in crowd:
            ended(thread)

    beside(pair, attacks)
    assert len(said) > 12
    assert not [one for one in said if "could not serve" in one]
    print(said)
    assert sum("The temperature is" in one for one in said) == 7


def served_text(pair: Pair, name: str, prompt: list[int]) -> ServedText:
    terms = Terms.of(SharedSeed(3))
    given = Opening("t", "q", [terms.plain()], name, 1, 1.0, 1.0, 12, prompt, [], "s")
    return ServedText(pair, given, terms)


def passed(pair: Pair, names: dict[str, list[int]]) -> dict[str, Any]:
    """Return the answers of one pass over a round of each text."""
    texts = [served_text(pair, name, prompt) for name, prompt in names.items()]
    rounds = [ReceivedRound([], [Draft(0), Draft(1)]) for _ in texts]
    return dict(zip(names, Engine(pair).run(texts, rounds), strict=True))


def test_an_error_in_the_answer_to_one_text_is_its_own(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = {name: passed(pair, {name: [0]})[name] for name in ("a", "b")}
    verify = engine_module.verify

    def failing(method: Any, session: Any, *given: Any) -> Any:
        if session.noise.names == ["bad"]:
            raise KeyError("bad")
        return verify(method, session, *given)

    monkeypatch.setattr(engine_module, "verify", failing)
    found = passed(pair, {"a": [0], "bad": [0], "b": [0]})
    assert isinstance(found.pop("bad"), KeyError)
    assert found == alone


def test_a_pass_that_fails_together_is_repeated_alone(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model whose local attention counts back needs positions for the longest text with the most drafts."""
    alone = {name: passed(pair, {name: [0]})[name] for name in ("a", "b")}
    read = Engine._read

    def failing(self: Engine, texts: Any, until: Any, rows: Any) -> Any:
        if any(len(text.opening.prompt) > 5 for text in texts):
            raise UserError("too many positions")
        return read(self, texts, until, rows)

    monkeypatch.setattr(Engine, "_read", failing)
    found = passed(pair, {"a": [0], "long": [0] * 6, "b": [0]})
    assert isinstance(found.pop("long"), UserError)
    assert found == alone
