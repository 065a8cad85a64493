"""A server that switches between versions of its target: the record says which version wrote which token."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.validation.decoding.test_versions import VersionTable
from tests.validation.link.served import POSITIONS, Relayed, Running, device_of, ended, looped
from tests.validation.tiny_texts import nodes, quarters, table_pair
from validation.decoding.methods.base import Method
from validation.decoding.methods.multi_draft import Dssd, FixedLength, FlexSpec
from validation.decoding.methods.quantized import KSqs
from validation.decoding.methods.shared_seed import SharedSeed, SharedSeedStreamed
from validation.decoding.methods.single_draft import RandHlm
from validation.link.device_records import LinkRecord
from validation.link.engine import Engine, ServedText
from validation.link.passes import Limits
from validation.link.relay import LinkModel
from validation.models.pair import Pair
from validation.models.versions import VersionedTarget

METHODS: list[Callable[[], Method]] = [
    lambda: FixedLength(3),
    lambda: SharedSeed(3),
    lambda: RandHlm(0.5),
    lambda: Dssd(3),
    lambda: FlexSpec("exact"),
    lambda: KSqs(2),
]


@pytest.fixture(scope="module")
def pair() -> Pair:
    """A draft and the first version of the target; a cache of another version changes what a version says."""
    rng = np.random.default_rng(5)
    count = nodes(3, 5)
    made = table_pair(*(quarters(rng, count) * 0.9 + 0.1 / 3 for _ in range(2)))
    models: Any = [VersionTable(quarters(rng, count) * 0.9 + 0.1 / 3, 1, n) for n in range(2)]
    return replace(made, target=VersionedTarget(dict(zip(("target", "v2"), models, strict=True)), [(0, "target")]))


def options(pair: Pair) -> dict[str, Any]:
    models: Any = pair.target
    first, second = (replace(pair, target=model) for model in models.versions.values())
    return {"pair": first, "versions": {"v2": (Engine(second), "p2")}}


def there_and_back(running: Running, places: tuple[int, int] = (4, 10)) -> Callable[[list[int]], None]:
    """Return a function of new tokens that switches to v2 and rolls back behind that many tokens."""
    told: list[int] = []

    def take(tokens: list[int]) -> None:
        told.extend(tokens)
        wanted = "v2" if places[0] <= len(told) < places[1] else "target"
        if running.server.version.name != wanted:
            running.call(running.server.switch, wanted)

    return take


def expected(pair: Pair, make: Callable[[], Method], name: str, found: LinkRecord, pin: str) -> list[int]:
    """Return the in-process text with the switches of a record, at its rounds or its tokens."""
    switches = found.writers
    if pin == "round":
        begins = [one.position + one.skipped for one in found.rounds]
        switches = [(begins.index(place) if n else 0, who) for n, (place, who) in enumerate(found.writers)]
    models: Any = pair.target
    versioned: Any = VersionedTarget(models.versions, switches, pin=pin)
    return looped(replace(pair, target=versioned), make(), name).tokens


@pytest.mark.parametrize("make", METHODS, ids=lambda make: make().name)
def test_an_update_and_a_roll_back_give_the_text_of_the_loop(pair: Pair, make: Callable[[], Method]) -> None:
    for name in "ab":
        with Running(**options(pair)) as server, device_of(pair, server.address) as device:
            take = there_and_back(server)
            found = device.generate(make(), [0], name=name, seed=2, new_tokens=POSITIONS, on_tokens=take)
            assert server.server.metrics.value("hlm_version", version="target") == 1
        assert [who for _, who in found.writers] == ["target", "v2", "target"]
        assert found.tokens == expected(pair, make, name, found, "round")


def test_versions_differ(pair: Pair) -> None:
    """Without this the tests above could not fail."""
    records = [LinkRecord("", "a", "", 2, 1.0, 1.0, writers=[(0, name)]) for name in ("target", "v2")]
    first, second = (expected(pair, lambda: FixedLength(3), "a", record, "position") for record in records)
    assert first != second


@pytest.mark.parametrize("make", [SharedSeedStreamed, None], ids=["streamed", "server"])
def test_texts_without_rounds_switch_between_passes(pair: Pair, make: Callable[[], Method] | None) -> None:
    method = make() if make else None
    with Running(**options(pair)) as server, device_of(pair, server.address) as device:
        server.engine.stretch_s = 0.01
        take = there_and_back(server)
        found = device.generate(method, [0], name="a", seed=2, new_tokens=POSITIONS, on_tokens=take)
    assert "v2" in [who for _, who in found.writers]
    assert found.tokens == expected(pair, SharedSeedStreamed, "a", found, "position")


def test_devices_at_a_switch_and_cuts_keep_their_own_texts(pair: Pair) -> None:
    found: dict[str, LinkRecord] = {}
    cuts = np.cumsum(np.random.default_rng(7).integers(200, 1500, size=8)).tolist()
    with (
        Running(**options(pair), limits=Limits(batch=3, wait_s=0.02)) as server,
        Relayed(LinkModel(1e9, 1e9, cut_bytes=cuts), server.address) as relay,
    ):

        def write(name: str) -> None:
            with device_of(pair, relay.address) as device:
                found[name] = device.generate(SharedSeed(2), [0], name=name, seed=2, new_tokens=POSITIONS)

        server.engine.stretch_s = 0.01  # each pass sleeps, so that switches fall within the texts
        threads = [threading.Thread(target=write, args=(name,), daemon=True) for name in "abc"]
        for thread in threads:
            thread.start()
        for n in range(40):
            server.call(server.server.switch, ("v2", "target")[n % 2])
            time.sleep(0.02 * (1 + n // 10))  # on a busy machine a round takes longer than the first pauses
            if not any(thread.is_alive() for thread in threads):
                break
        for thread in threads:
            ended(thread)
    assert sum(len(one.writers) for one in found.values()) > 3
    for name in "abc":
        assert found[name].tokens == expected(pair, lambda: SharedSeed(2), name, found[name], "position")


def test_a_roll_back_finds_the_cache_of_its_version_again(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    take_cache, taken = ServedText.take_cache, list[tuple[int, int]]()

    def spy(text: ServedText, other: ServedText) -> None:
        take_cache(text, other)
        taken.append((text.cached, text.kept))

    monkeypatch.setattr(ServedText, "take_cache", spy)
    with Running(**options(pair)) as server, device_of(pair, server.address) as device:
        take = there_and_back(server)
        found = device.generate(SharedSeed(3), [0, 1, 2], name="a", seed=2, new_tokens=POSITIONS, on_tokens=take)
        assert [name for _, name in server.server.parked] == ["v2"]
    (_, (update, _), (back, _)) = found.writers
    assert taken == [(3 + update - 1, 3 + back)]  # what v2 wrote is read; the prompt and the tokens before it are not
