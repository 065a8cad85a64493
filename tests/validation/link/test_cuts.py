"""Cuts, kills, switches of the version, and a server that is away: the text stays the loop's, or the device says so."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.fuzz import link_kills, link_soak
from tests.validation.decoding.test_versions import VersionTable
from tests.validation.link.served import LONGEST_S, POSITIONS, Relayed, Running, device_of, ended, looped, write
from tests.validation.stopping import until
from tests.validation.tiny_texts import nodes, quarters, table_pair
from validation.decoding.methods.base import Method
from validation.decoding.methods.multi_draft import Dssd, FixedLength, FlexSpec, PromptLookup
from validation.decoding.methods.quantized import KSqs
from validation.decoding.methods.shared_seed import SharedSeed, SharedSeedStreamed
from validation.decoding.methods.single_draft import DraftOnly, RandHlm
from validation.decoding.records import GenerationRecord
from validation.link.device_records import ALONE, LinkRecord
from validation.link.engine import Engine, ServedText
from validation.link.loops import OneText, session_of
from validation.link.passes import Limits
from validation.link.relay import LinkModel
from validation.link.remote import LOOKING, RefusedError, ServerAwayError
from validation.models.pair import Pair
from validation.models.versions import VersionedTarget

METHODS: list[Callable[[], Method]] = [partial(SharedSeed, 3), partial(FixedLength, 3), partial(RandHlm, 0.5)]
METHODS += [partial(Dssd, 3), SharedSeedStreamed]


@pytest.mark.parametrize("cuts", [3, pytest.param(40, marks=pytest.mark.deep)])
@pytest.mark.parametrize("make", METHODS, ids=lambda make: make().name)
def test_cuts_at_random_bytes_change_no_token(pair, make, cuts):
    # A connection carries about 1,000 bytes before its first token. If every gap were shorter, no text could go on, and
    # the device would rightly give up; so a third of the gaps are shorter, and the others leave room for progress.
    places = np.cumsum(np.random.default_rng(7).integers(1, 3000, size=3 * cuts)).tolist()
    with (
        Running(pair) as server,
        Relayed(LinkModel(1e9, 1e9, cut_bytes=places), server.address) as relay,
        device_of(pair, relay.address) as device,
    ):
        for number in range(5 * cuts):
            told = list[int]()
            assert write(device, make(), f"text {number}", on_tokens=told.extend).tokens == told
            again = device.remote.connections - (number + 1 if make().streamed else 1)
            if again >= cuts:
                break
        assert relay.relay.resets >= again >= cuts


@pytest.mark.deep
@pytest.mark.parametrize("run", [partial(link_kills.main, 4), partial(link_soak.main, 120.0)], ids=["kills", "soak"])
def test_kills_change_no_token_and_long_use_needs_no_more_memory(run):
    run()


class Away:
    """A server that is stopped behind some tokens of a text, and comes back behind others."""

    def __init__(self, pair: Pair, leaves: tuple[int, ...], returns: tuple[int, ...], **options: Any) -> None:
        self.pair, self.leaves, self.returns, self.options = pair, leaves, returns, options
        self.running, self.told = Running(pair, made={"stretch_s": 0.02}), list[int]()
        self.address, self.port = self.running.address, self.running.place[1]

    def __enter__(self):
        return self

    def __exit__(self, *error: object) -> None:
        self.running.stop()

    def take(self, tokens: list[int]) -> None:
        before, _ = len(self.told), self.told.extend(tokens)
        if any(before < place <= len(self.told) for place in self.leaves):
            self.running.stop()  # closes all connections and forgets all texts
        if any(before < place <= len(self.told) for place in self.returns):
            self.running = Running(self.pair, self.port, **self.options)
            until(lambda: all(one.name != LOOKING for one in threading.enumerate()))  # the device has found it


@pytest.mark.parametrize("make", METHODS[:2], ids=lambda make: make().name)
def test_a_server_that_is_killed_and_comes_back_changes_no_token(pair, make):
    often = (3, 6, 9, 12)
    with Away(pair, often, often) as away, device_of(pair, away.address) as device:
        assert write(device, make(), on_tokens=away.take).tokens == away.told
        assert device.remote.connections >= 2


def test_a_server_that_comes_back_with_another_model_is_refused(pair):
    with (
        Away(pair, (3,), (3,), target="another") as away,
        device_of(pair, away.address) as device,
        pytest.raises(RefusedError, match="came back with another"),
    ):
        write(device, SharedSeed(3), on_tokens=away.take)


def behind(pair: Pair, text: list[int], method: Method) -> list[int]:
    session = session_of(pair, [0], "a", 2, 1.0, 1.0, POSITIONS)
    loop = OneText(session, method, [0], GenerationRecord("", "a", "none", 2, 1.0, 1.0))
    loop.resume(text)
    loop.run()
    return loop.records[0].tokens[len(text) :]


@pytest.mark.parametrize("make", [*METHODS[:2], PromptLookup, SharedSeedStreamed, lambda: None])
def test_a_device_goes_on_alone_and_returns(pair, make):
    with Away(pair, (3,), (8,)) as away, device_of(pair, away.address, patience_s=0.2, alone=True) as device:
        method = make()
        found = device.generate(method, [0], name="a", seed=2, new_tokens=POSITIONS, on_tokens=away.take)
        assert not device.remote.away
    assert [who for _, who in found.writers] == ["target", ALONE, "target"]
    ((first, end),) = found.alone()
    assert 3 <= first < 8 <= end < POSITIONS
    assert away.told == found.tokens
    assert found.tokens[first:end] == behind(pair, found.tokens[:first], DraftOnly())[: end - first]
    if isinstance(method, SharedSeed):  # the server's tokens depend on the text before them alone: its law again
        assert found.tokens[end:] == behind(pair, found.tokens[:end], SharedSeed(3))
    assert found.total("skipped") >= end - first


@pytest.mark.parametrize("alone", [True, False])
def test_a_server_that_stays_away_ends_the_text_only_without_alone(pair, alone):
    server = Running(pair)
    with device_of(pair, server.address, patience_s=0.3, alone=alone) as device:

        def write():
            return device.generate(SharedSeed(3), [0], name="a", seed=2, new_tokens=POSITIONS)

        assert write().alone() == []
        server.stop()
        if not alone:
            with pytest.raises(ServerAwayError, match=r"did not answer for 0\.3 s"):
                write()
            return
        assert write().writers == [(0, ALONE)]
        device.remote.patience_s, began, before = 60.0, time.monotonic(), threading.active_count()
        for _ in range(3):  # a server that was away is not waited for again, and looked for in one thread
            assert write().alone() == [(0, POSITIONS)]
        assert time.monotonic() - began < LONGEST_S
        until(lambda: threading.active_count() <= before + 1)


@pytest.fixture(scope="module")
def versions():
    """A draft and the first version of the target; a cache of another version changes what a version says."""
    rng = np.random.default_rng(5)
    count = nodes(3, 5)
    made = table_pair(*(quarters(rng, count) * 0.9 + 0.1 / 3 for _ in range(2)))
    models = [VersionTable(quarters(rng, count) * 0.9 + 0.1 / 3, 1, n) for n in range(2)]
    return replace(made, target=VersionedTarget(dict(zip(("target", "v2"), models, strict=True)), [(0, "target")]))


def options(versions: Pair) -> dict[str, Any]:
    models: Any = versions.target
    first, second = (replace(versions, target=model) for model in models.versions.values())
    return {"pair": first, "versions": {"v2": (Engine(second), "p2")}}


def there_and_back(running: Running) -> Callable[[list[int]], None]:
    """Return a function of new tokens that switches to v2 behind 4 of them, and rolls back behind 10."""
    told: list[int] = []

    def take(tokens: list[int]) -> None:
        told.extend(tokens)
        wanted = "v2" if 4 <= len(told) < 10 else "target"
        if running.server.version.name != wanted:
            running.call(running.server.switch, wanted)

    return take


def expected(versions: Pair, method: Method, name: str, found: LinkRecord, pin: str) -> list[int]:
    switches = found.writers
    if pin == "round":
        begins = [one.position + one.skipped for one in found.rounds]
        switches = [(begins.index(place) if n else 0, who) for n, (place, who) in enumerate(found.writers)]
    models: Any = versions.target
    versioned: Any = VersionedTarget(models.versions, switches, pin=pin)
    return looped(replace(versions, target=versioned), method, name).tokens


@pytest.mark.parametrize("make", [*METHODS, partial(FlexSpec, "exact"), partial(KSqs, 2), lambda: None])
def test_an_update_and_a_roll_back_give_the_text_of_the_loop(versions, make):
    for name in "ab":
        with (
            Running(**options(versions), made={"stretch_s": 0.01}) as server,
            device_of(versions, server.address) as device,
        ):
            method, take = make(), there_and_back(server)
            found = device.generate(method, [0], name=name, seed=2, new_tokens=POSITIONS, on_tokens=take)
            assert server.server.metrics.value("hlm_version", version="target") == 1
        if method is None or method.streamed:  # they switch between passes
            assert "v2" in [who for _, who in found.writers]
            assert found.tokens == expected(versions, SharedSeedStreamed(), name, found, "position")
        else:
            assert [who for _, who in found.writers] == ["target", "v2", "target"]
            assert found.tokens == expected(versions, method, name, found, "round")


def test_versions_differ(versions):
    """Without this the tests above could not fail."""
    records = [LinkRecord("", "a", "", 2, 1.0, 1.0, writers=[(0, name)]) for name in ("target", "v2")]
    first, second = (expected(versions, FixedLength(3), "a", record, "position") for record in records)
    assert first != second


def test_devices_at_a_switch_and_cuts_keep_their_own_texts(versions):
    found = {}
    cuts = np.cumsum(np.random.default_rng(7).integers(200, 1500, size=8)).tolist()
    with (
        Running(**options(versions), limits=Limits(batch=3, wait_s=0.02), made={"stretch_s": 0.01}) as server,
        Relayed(LinkModel(1e9, 1e9, cut_bytes=cuts), server.address) as relay,
    ):

        def write(name):
            with device_of(versions, relay.address) as device:
                found[name] = device.generate(SharedSeed(2), [0], name=name, seed=2, new_tokens=POSITIONS)

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
        assert found[name].tokens == expected(versions, SharedSeed(2), name, found[name], "position")


def test_a_roll_back_finds_the_cache_of_its_version_again(versions, monkeypatch):
    take_cache, taken = ServedText.take_cache, list[tuple[int, int]]()

    def spy(text, other):
        take_cache(text, other)
        taken.append((text.cached, text.kept))

    monkeypatch.setattr(ServedText, "take_cache", spy)
    with Running(**options(versions)) as server, device_of(versions, server.address) as device:
        take = there_and_back(server)
        found = device.generate(SharedSeed(3), [0, 1, 2], name="a", seed=2, new_tokens=POSITIONS, on_tokens=take)
        assert [name for _, name in server.server.parked] == ["v2"]
    (_, (update, _), (back, _)) = found.writers
    assert taken == [(3 + update - 1, 3 + back)]  # what v2 wrote is read; the prompt and the tokens before it are not
