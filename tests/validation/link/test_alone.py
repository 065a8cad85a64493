"""A device that goes on with its own model while the server is away, and returns to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from tests.validation.link.served import LONGEST_S, Running, device_of, until
from validation.decoding.methods.base import Method
from validation.decoding.methods.multi_draft import FixedLength, PromptLookup
from validation.decoding.methods.shared_seed import SharedSeed, SharedSeedStreamed
from validation.decoding.methods.single_draft import DraftOnly, RandHlm
from validation.decoding.random_streams import Noise
from validation.decoding.records import GenerationRecord
from validation.decoding.session import Session
from validation.link.device import Device
from validation.link.device_records import ALONE, LinkRecord
from validation.link.loops import OneText
from validation.link.remote import LOOKING, ServerAwayError
from validation.models.pair import Pair

POSITIONS = 16
METHODS: list[Callable[[], Method] | None] = [
    lambda: FixedLength(3),
    lambda: RandHlm(0.5),
    PromptLookup,
    SharedSeedStreamed,
    None,
]


def looking() -> bool:
    """Return whether a device looks for its server."""
    return any(thread.name == LOOKING for thread in threading.enumerate())


class Away:
    """A server that is stopped behind some tokens of a text, and comes back behind others."""

    def __init__(self, pair: Pair, leaves: int, returns: int) -> None:
        self.pair, self.leaves, self.returns = pair, leaves, returns
        self.running, self.told = Running(pair), list[int]()
        self.port = int(self.running.address.rpartition(":")[2])

    def take(self, device: Device) -> Callable[[list[int]], None]:
        """Return a function of new tokens."""

        def take(tokens: list[int]) -> None:
            before, _ = len(self.told), self.told.extend(tokens)
            if before < self.leaves <= len(self.told):
                self.running.stop()
            if before < self.returns <= len(self.told):
                self.running = Running(self.pair, self.port)
                until(lambda: not looking())  # the device has found it

        return take


def drafted_alone(pair: Pair, text: list[int], count: int) -> list[int]:
    """Return the tokens that the in-process loop's draft model writes alone behind a text."""
    prompt, record = [0], GenerationRecord("", "a", "none", 2, 1.0, 1.0)
    lengths = np.array([1], dtype=np.int64)
    session = Session(pair, 1, Noise(2, ["a"], POSITIONS), None, 1.0, 1.0, POSITIONS, prompt_lengths=lengths)
    loop = OneText(session, DraftOnly(), [prompt], [record], None, False, None)
    loop.resume(text)
    loop.run()
    return record.tokens[len(text) : len(text) + count]


@pytest.mark.parametrize("make", METHODS, ids=lambda make: make().name if make else "server")
def test_a_device_goes_on_alone_and_returns(pair: Pair, make: Callable[[], Method] | None) -> None:
    away = Away(pair, 3, 8)
    away.running.engine.stretch_s = 0.02
    try:
        with device_of(pair, away.running.address, patience_s=0.2, alone=True) as device:
            take, method = away.take(device), make() if make else None
            found = device.generate(method, [0], name="a", seed=2, new_tokens=POSITIONS, on_tokens=take)
            assert not device.remote.away
    finally:
        away.running.stop()
    assert [who for _, who in found.writers] == ["target", ALONE, "target"]
    ((first, end),) = found.alone()
    assert 3 <= first < 8 <= end < POSITIONS
    assert away.told == found.tokens
    assert found.tokens[first:end] == drafted_alone(pair, found.tokens[:first], end - first)
    assert found.total("skipped") >= end - first


def test_what_is_written_with_the_server_has_its_law_again(pair: Pair) -> None:
    """By a shared seed the server's tokens depend on the text before them alone."""
    away = Away(pair, 3, 8)
    try:
        with device_of(pair, away.running.address, patience_s=0.2, alone=True) as device:
            take = away.take(device)
            found = device.generate(SharedSeed(3), [0], name="a", seed=2, new_tokens=POSITIONS, on_tokens=take)
            end = found.alone()[0][1]
        record = server_alone(pair, found.tokens[:end])
    finally:
        away.running.stop()
    assert found.tokens[end:] == record[end:]


def server_alone(pair: Pair, text: list[int]) -> list[int]:
    """Return the in-process loop's text by the shared seed behind these tokens."""
    record, lengths = GenerationRecord("", "a", "none", 2, 1.0, 1.0), np.array([1], dtype=np.int64)
    session = Session(pair, 1, Noise(2, ["a"], POSITIONS), None, 1.0, 1.0, POSITIONS, prompt_lengths=lengths)
    loop = OneText(session, SharedSeed(3), [[0]], [record], None, False, None)
    loop.resume(text)
    loop.run()
    return record.tokens


@pytest.mark.parametrize("alone", [True, False])
def test_a_server_that_stays_away_ends_the_text_only_without_alone(pair: Pair, alone: bool) -> None:
    server = Running(pair)
    with device_of(pair, server.address, patience_s=0.3, alone=alone) as device:

        def write() -> LinkRecord:
            return device.generate(SharedSeed(3), [0], name="a", seed=2, new_tokens=POSITIONS)

        assert write().alone() == []
        server.stop()
        if not alone:
            with pytest.raises(ServerAwayError, match=r"did not answer for 0\.3 s"):
                write()
            return
        assert write().writers == [(0, ALONE)]
        device.remote.patience_s, began = 60.0, time.monotonic()
        assert write().alone() == [(0, POSITIONS)]
        assert time.monotonic() - began < LONGEST_S  # a server that was away is not waited for again


def test_a_device_alone_looks_for_the_server_in_one_thread(pair: Pair) -> None:
    server = Running(pair)
    with device_of(pair, server.address, patience_s=0.1, alone=True) as device:
        server.stop()
        before = threading.active_count()
        for _ in range(3):
            device.generate(SharedSeed(3), [0], name="a", seed=2, new_tokens=4)
        until(lambda: threading.active_count() <= before + 1)
