"""Measure the times of :mod:`validation.planning.times` with the code that a device and a server run."""

import asyncio
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from validation.decoding.methods.base import Method
from validation.decoding.methods.multi_draft import FixedLength
from validation.decoding.methods.shared_seed import SharedSeed
from validation.decoding.records import GenerationRecord, Round
from validation.decoding.session import Draft
from validation.errors import UserError
from validation.link.device import Device
from validation.link.device_records import Exchange
from validation.link.engine import Engine, ReceivedRound, ServedText
from validation.link.formats import Terms
from validation.link.loops import OneText, session_of
from validation.link.remote import Remote
from validation.link.server import Server
from validation.link.wire import ROUND, Opening, Pipe, answer_body, answer_of, round_body
from validation.models.machine import machine
from validation.models.pair import Pair
from validation.planning.times import PassTiming, RoundTiming, Serialisation, Times, Timing
from validation.provenance import now

BATCHES, WIDTHS = (1, 2, 4), (1, 2, 3, 5, 9)
"""Texts of a pass, and tokens of each: one more than its drafts."""
BEFORE, REPEATS, WARM_UP, DRAFTS = 64, 21, 3, 4
MARK = "timed"
"""Stands for the fingerprints of tokenizer and models: both sides have the same pair."""
ROUND_TOKENS, MOST_TEXTS = 32, 20
"""New tokens of a text whose rounds are timed, and such texts for each round: few have one in a short context."""
METHODS: tuple[Callable[[int], Method], ...] = (SharedSeed, FixedLength)
"""One for each format of messages whose serialisation is timed."""


class _Drafting(OneText):
    """Drafts for ever: no round is verified."""

    target_here = False

    def _verify(self) -> None:
        pass


def measure_times(
    pair: Pair, *, batches: Sequence[int] = BATCHES, widths: Sequence[int] = WIDTHS, repeats: int = REPEATS
) -> Times:
    """Time drafts, passes, serialisation, a socket, whole rounds and written tokens on this machine."""
    before = min(BEFORE, pair.context - max(widths) - repeats - WARM_UP - 2)
    if before < 1:
        raise UserError(
            f"A context of {pair.context} tokens is too short to time passes; use models with a longer one."
        )
    endless = replace(pair, end_tokens=())
    draft = Timing.of(_drafts(endless, before, repeats))
    passes = _passes(endless, [(batch, width) for batch in batches for width in widths], before, repeats)
    written = tuple(_serialised(endless, make(DRAFTS), before, repeats) for make in METHODS)
    socket, rounds, token = time_rounds(endless, _text(pair, before), DRAFTS, repeats, WARM_UP)
    described: dict[str, Any] = pair.describe()
    names = ("small_name", "large_name", "small_commit", "large_commit", "device", "dtype")
    models = {name: str(described[name]) for name in names if name in described}
    return Times(draft, passes, written, socket, rounds, token, before, repeats, models, machine(), now())


def _text(pair: Pair, before: int) -> list[int]:
    ids: list[int] = np.random.default_rng(1).integers(0, pair.vocabulary, before).tolist()
    return ids


def _drafts(pair: Pair, before: int, repeats: int) -> list[float]:
    count, prompt = WARM_UP + repeats, _text(pair, before)
    session = session_of(pair, prompt, MARK, 1, 1.0, 1.0, count)
    loop = _Drafting(session, SharedSeed(count), prompt, GenerationRecord(MARK, MARK, "none", 1, 1.0, 1.0))
    loop.read()
    return list(_timed(loop.step, repeats))


def _timed(function: Callable[[], object], repeats: int) -> Iterator[float]:
    for number in range(WARM_UP + repeats):
        began = time.perf_counter()
        function()
        if number >= WARM_UP:
            yield time.perf_counter() - began


def _served(pair: Pair, terms: Terms, before: int, new_tokens: int) -> ServedText:
    sampling = (1.0, 1.0, new_tokens)
    opening = Opening("", "", [terms.plain()], "timed", 1, *sampling, _text(pair, before), [], secrets.token_hex(16))
    return ServedText(pair, opening, terms)


def _passes(pair: Pair, shapes: list[tuple[int, int]], before: int, repeats: int) -> tuple[PassTiming, ...]:
    """Time passes over the same positions by batch and width, in turn: a slow while is then one of all."""
    engine, seconds = Engine(pair), {shape: list[float]() for shape in shapes}
    texts = {
        (batch, width): [
            _served(pair, Terms.of(SharedSeed(max(width - 1, 1))), before, width + 1) for _ in range(batch)
        ]
        for batch, width in shapes
    }
    for number in range(WARM_UP + repeats):
        for (batch, width), own in texts.items():
            for text in own:
                engine.prefill(text)
                text.kept, text.left, text.cached = before, width + 1, before - 1
            drafts = [Draft(token) for token in _text(pair, width - 1)]
            for answer in engine.run(own, [ReceivedRound([], drafts)] * batch):
                if isinstance(answer, Exception):
                    raise answer
            if number >= WARM_UP:
                seconds[batch, width].append(engine.pass_s)
    return tuple(PassTiming(*shape, Timing.of(spent)) for shape, spent in seconds.items())


def _serialised(pair: Pair, method: Method, before: int, repeats: int) -> Serialisation:
    import torch

    terms, vocabulary = Terms.of(method), pair.vocabulary
    row = torch.full((vocabulary,), 1.0 / vocabulary)
    drafts = [Draft(token, 1.0 / vocabulary, row, row) for token in _text(pair, DRAFTS)]
    text, nonce = _served(pair, terms, before, DRAFTS + 1), secrets.token_hex(16)
    method.begin(text.session)
    here, there = Pipe(nonce, None, server=False), Pipe(nonce, None, server=True)
    sizes = list[int]()

    def once() -> None:
        frame = here.seal(ROUND, round_body([], method.message(drafts).payload, vocabulary))
        sizes.append(len(frame))
        one = text.received(there.unseal(frame, len(frame))[1])
        answer = there.seal(ROUND, answer_body(len(one.drafts), len(drafts), 0, vocabulary))
        answer_of(here.unseal(answer, len(answer))[1], len(drafts), vocabulary)

    seconds = list(_timed(once, repeats))
    return Serialisation(terms.format, len(drafts), max(sizes), Timing.of(seconds))


def time_rounds(
    pair: Pair, prompt: list[int], drafts: int, repeats: int, warm_up: int
) -> tuple[Timing, RoundTiming, Timing]:
    """Return the times of a frame and its answer, of rounds of a shared seed, and of a token that the server writes."""
    new_tokens = min(ROUND_TOKENS, pair.context - len(prompt) - 1)
    if new_tokens < drafts + 2:
        raise UserError(f"No round of {drafts} drafts fits behind {len(prompt)} tokens; use a longer context.")
    timed = list[tuple[float, float, float]]()
    with _listening(pair) as (engine, address), Remote(address) as remote:
        device = Device(pair, remote, tokenizer=MARK, draft=MARK)
        sent = [time.perf_counter()]
        for _ in range(warm_up + repeats):
            remote.hello()
            sent.append(time.perf_counter())

        def note(one: Round, spent: Exchange) -> None:
            if one.drafted == drafts and not spent.opened:
                timed.append((spent.draft_s, spent.wait_s, engine.pass_s))

        settings: dict[str, Any] = {"name": MARK, "new_tokens": new_tokens}
        most, gaps, came = warm_up + MOST_TEXTS * repeats, list[float](), list[float]()
        for seed in range(most):
            device.generate(SharedSeed(drafts), prompt, seed=seed, on_exchange=note, **settings)
            came.clear()
            device.generate(None, prompt, seed=seed, on_tokens=lambda _: came.append(time.perf_counter()), **settings)
            gaps += [later - earlier for earlier, later in pairwise(came[1:])]
            if len(timed) >= warm_up + repeats and len(gaps) >= repeats:
                break
    if len(timed) < warm_up + repeats or len(gaps) < repeats:
        raise UserError(
            f"{most} texts of {new_tokens} tokens had {len(timed)} rounds of {drafts} drafts; use a longer context."
        )
    frames = Timing.of([later - earlier for earlier, later in pairwise(sent[warm_up:])])
    columns = zip(*timed[warm_up : warm_up + repeats], strict=True)
    return frames, RoundTiming(drafts, *(Timing.of(list(column)) for column in columns)), Timing.of(gaps)


@contextmanager
def _listening(pair: Pair) -> Iterator[tuple[Engine, str]]:
    loop, engine = asyncio.new_event_loop(), Engine(pair)
    server = Server(engine, tokenizer=MARK, target=MARK)
    thread = threading.Thread(target=lambda: loop.run_until_complete(server.serve("127.0.0.1", 0)), daemon=True)
    thread.start()
    try:
        try:
            host, port = asyncio.run_coroutine_threadsafe(server.ready(), loop).result(10)
        except TimeoutError as error:
            raise UserError("No socket of this machine could be opened in 10 s; let it listen on 127.0.0.1.") from error
        yield engine, f"ws://{host}:{port}"
    finally:
        loop.call_soon_threadsafe(server.stop)
        thread.join(10)
        loop.close()
