"""Time whole rounds, and tokens of a text that the server writes, over a loopback socket.

A server and a device run in one process, each in a thread of its own, with the code of ``hlm serve`` and ``hlm
device``. While one works the other waits. Two processes on one machine do the same, but share no interpreter.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from validation.decoding.methods.shared_seed import SharedSeed
from validation.errors import UserError
from validation.link.device import Device
from validation.link.device_records import Exchange
from validation.link.engine import Engine
from validation.link.remote import Remote
from validation.link.server import Server
from validation.planning.times import RoundTiming, Timing

if TYPE_CHECKING:
    from validation.decoding.records import Round
    from validation.models.pair import Pair

MARK = "timed"
"""Stands for the fingerprints of tokenizer and models: both sides have the same pair."""
TEXT = 32
"""New tokens of a text whose rounds are timed; fewer in a short context."""
MOST_TEXTS = 20
"""Texts for each round that is timed, at most: in a short context few texts have a whole round behind their first."""


def time_rounds(
    pair: Pair, prompt: list[int], drafts: int, repeats: int, warm_up: int
) -> tuple[Timing, RoundTiming, Timing]:
    """Return the times of a frame and its answer, of rounds of a shared seed, and of a token that the server writes.

    Parameters
    ----------
    pair : Pair
        Its texts should not end early.
    prompt : list of int
    drafts : int
        Drafts of each round. Rounds with fewer, at the end of a text, and those that opened a text do not count.
    repeats, warm_up : int
        Measured rounds and tokens, after others that are not.

    Raises
    ------
    UserError
        If nothing could listen on the loopback address, or the context has no room for a round.
    """
    new_tokens = min(TEXT, pair.context - len(prompt) - 1)
    if new_tokens < drafts + 2:
        raise UserError(f"No round of {drafts} drafts fits behind {len(prompt)} tokens; use a longer context.")
    found = list[tuple[float, float, float]]()
    with _served(pair) as (engine, address), Remote(address) as remote:
        device = Device(pair, remote, tokenizer=MARK, draft=MARK)
        sent = [time.perf_counter()]
        for _ in range(warm_up + repeats):
            remote.hello()
            sent.append(time.perf_counter())

        def note(one: Round, spent: Exchange) -> None:
            if one.drafted == drafts and not spent.opened:
                found.append((spent.draft_s, spent.wait_s, engine.pass_s))

        settings: dict[str, Any] = {"name": MARK, "new_tokens": new_tokens}
        most, gaps, came = warm_up + MOST_TEXTS * repeats, list[float](), list[float]()
        for seed in range(most):
            device.generate(SharedSeed(drafts), prompt, seed=seed, on_exchange=note, **settings)
            came.clear()
            device.generate(None, prompt, seed=seed, on_tokens=lambda _: came.append(time.perf_counter()), **settings)
            gaps += [later - earlier for earlier, later in pairwise(came[1:])]
            if len(found) >= warm_up + repeats and len(gaps) >= repeats:
                break
    if len(found) < warm_up + repeats or len(gaps) < repeats:
        raise UserError(
            f"{most} texts of {new_tokens} tokens had {len(found)} rounds of {drafts} drafts; use a longer context."
        )
    frames = Timing.of([later - earlier for earlier, later in pairwise(sent[warm_up:])])
    columns = zip(*found[warm_up : warm_up + repeats], strict=True)
    return frames, RoundTiming(drafts, *(Timing.of(list(column)) for column in columns)), Timing.of(gaps)


@contextmanager
def _served(pair: Pair) -> Iterator[tuple[Engine, str]]:
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
