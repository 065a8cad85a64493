"""Cuts at random bytes, a server that is killed and comes back, a device that is killed: the text stays the same."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.validation.link.served import LONGEST_S, Running, device_of, ended, relayed, served, until
from validation.collection.prompts import Prompt
from validation.decoding.loop import decode
from validation.decoding.methods.base import Method
from validation.decoding.methods.multi_draft import Dssd, FixedLength
from validation.decoding.methods.shared_seed import SharedSeed, SharedSeedStreamed
from validation.decoding.methods.single_draft import RandHlm
from validation.link.relay import LinkModel
from validation.link.remote import RefusedError, ServerAwayError
from validation.models.pair import Pair

POSITIONS = 16
METHODS: list[Callable[[], Method]] = [
    lambda: SharedSeed(3),
    lambda: FixedLength(3),
    lambda: RandHlm(0.5),
    lambda: Dssd(3),
    SharedSeedStreamed,
]


def text_of(pair: Pair, method: Method, name: str) -> list[int]:
    """Return the loop's text."""
    return decode(pair, [Prompt(name, "0", "")], method, new_tokens=POSITIONS, seed=2)[0].tokens


@pytest.mark.parametrize("make", METHODS, ids=lambda make: make().name)
def test_cuts_at_random_bytes_change_no_token(pair: Pair, make: Callable[[], Method]) -> None:
    rng = np.random.default_rng(7)
    cuts = np.cumsum(rng.integers(1, 900, size=8)).tolist()
    names = ["a", "b", "c"]
    told: dict[str, list[int]] = {name: [] for name in names}
    with (
        served(pair) as server,
        relayed(LinkModel(1e9, 1e9, cut_bytes=cuts), server.address) as relay,
        device_of(pair, relay.address) as device,
    ):
        for name in names:
            record = device.generate(make(), [0], name=name, seed=2, new_tokens=POSITIONS, on_tokens=told[name].extend)
            assert told[name] == record.tokens == text_of(pair, make(), name)
        assert relay.relay.resets >= device.remote.connections - 1 >= 3


def test_cuts_do_not_change_what_a_server_writes(pair: Pair) -> None:
    cuts = np.cumsum(np.random.default_rng(7).integers(300, 900, size=4)).tolist()
    with (
        served(pair) as server,
        relayed(LinkModel(1e9, 1e9, cut_bytes=cuts), server.address) as relay,
        device_of(pair, relay.address) as device,
    ):
        found = [device.generate(None, [0], name=name, seed=2, new_tokens=POSITIONS).tokens for name in "ab"]
        assert relay.relay.resets >= 1
    assert found == [text_of(pair, SharedSeed(3), name) for name in "ab"]


@pytest.mark.parametrize("make", METHODS[:2], ids=lambda make: make().name)
def test_a_server_that_is_killed_and_comes_back_changes_no_token(pair: Pair, make: Callable[[], Method]) -> None:
    server = Running(pair)
    port = int(server.address.rpartition(":")[2])
    told: list[int] = []

    def restart() -> None:
        nonlocal server
        server.stop()  # closes all connections and forgets all texts
        server = Running(pair, port)

    def tell(tokens: list[int]) -> None:
        told.extend(tokens)
        if len(told) % 3 == 0:
            restart()

    try:
        with device_of(pair, server.address) as device:
            record = device.generate(make(), [0], name="a", seed=2, new_tokens=POSITIONS, on_tokens=tell)
            assert device.remote.connections >= 2
    finally:
        server.stop()
    assert told == record.tokens == text_of(pair, make(), "a")


def test_a_cut_text_finds_its_cache_again(pair: Pair) -> None:
    target: Any = pair.target
    with served(pair) as server, device_of(pair, server.address) as device:

        def cut(tokens: list[int]) -> None:
            device.remote.close()
            until(lambda: not server.server.connections)
            left.append(len(server.server.parked))

        target.calls, left = 0, list[int]()
        device.generate(SharedSeed(3), [0, 1, 2], name="a", seed=2, new_tokens=9, on_tokens=cut)
        assert target.calls == server.server.metrics.value("hlm_pass_seconds_count") + 1  # the prompt was read once
        assert left == [1] * (len(left) - 1) + [0]  # a text that is complete leaves no cache


def test_a_server_that_stays_away_is_said_in_time(pair: Pair) -> None:
    with served(pair) as server, device_of(pair, server.address, patience_s=0.3) as device:
        began = time.monotonic()

        def stop(tokens: list[int]) -> None:
            nonlocal began
            server.stop()
            began = time.monotonic()

        with pytest.raises(ServerAwayError, match=r"did not answer for 0\.3 s"):
            device.generate(SharedSeed(3), [0], name="a", seed=2, new_tokens=POSITIONS, on_tokens=stop)
        assert time.monotonic() - began < LONGEST_S


def test_a_server_that_comes_back_with_another_model_is_refused(pair: Pair) -> None:
    server = Running(pair)
    port = int(server.address.rpartition(":")[2])

    def replace(tokens: list[int]) -> None:
        nonlocal server
        if server.server.version.mark == "p":
            server.stop()
            server = Running(pair, port, target="another")

    try:
        with (
            device_of(pair, server.address) as device,
            pytest.raises(RefusedError, match="came back with another"),
        ):
            device.generate(SharedSeed(3), [0], name="a", seed=2, new_tokens=POSITIONS, on_tokens=replace)
    finally:
        server.stop()


def test_two_devices_with_one_text_do_not_disturb_each_other(pair: Pair) -> None:
    expected, found = text_of(pair, FixedLength(3), "a"), []
    with served(pair) as server:

        def write() -> None:
            with device_of(pair, server.address) as device:
                found.append(device.generate(FixedLength(3), [0], name="a", seed=2, new_tokens=POSITIONS).tokens)

        threads = [threading.Thread(target=write, daemon=True) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            ended(thread)
    assert found == [expected] * 2
