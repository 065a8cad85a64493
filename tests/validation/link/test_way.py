"""The way to a server: probes of the link, keys before a text, and refusals after which a device tries again."""

from __future__ import annotations

import json
import threading
import time
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from websockets.sync.client import connect

from tests.validation.link.commands import serving
from tests.validation.link.served import LONGEST_S, device_of, ended, relayed, served, until
from validation.cli.commands import main
from validation.collection.prompts import Prompt
from validation.decoding.loop import decode
from validation.decoding.methods.base import Method
from validation.decoding.methods.shared_seed import SharedSeed, SharedSeedStreamed
from validation.link.passes import Limits
from validation.link.recording import probes
from validation.link.relay import LinkModel
from validation.link.remote import Remote
from validation.models import pair as pair_module
from validation.models.pair import Pair
from validation.planning.from_run import measured_in
from validation.planning.run_record import RunRecord

KEY, POSITIONS = b"0123456789abcdef", 12


def written(device: Any, method: Method, **options: Any) -> None:
    """Write a text that is the loop's."""
    found = device.generate(method, [0], name="a", seed=2, new_tokens=POSITIONS, **options)
    (expected,) = decode(device.pair, [Prompt("a", "0", "")], method, new_tokens=POSITIONS, seed=2)
    assert found.tokens == expected.tokens


def test_a_probe_wakes_at_a_cut_and_is_sent_again(pair: Pair) -> None:
    with (
        served(pair) as server,
        relayed(LinkModel(2e5, 2e5), server.address) as relay,
        device_of(pair, relay.address, answer_s=60.0) as device,
    ):
        device.remote.hello()
        cutting = threading.Timer(0.2, lambda: relay.loop.call_soon_threadsafe(relay.relay.cut))
        cutting.start()
        began = time.monotonic()
        seconds = device.remote.probe(128, 125)
        ended(cutting)
        assert device.remote.connections == 2
        assert seconds > 8 * 128 * 131 / 2e5
        assert time.monotonic() - began < LONGEST_S


@pytest.mark.parametrize("rate", [8e3, 64e3, 1e6, 1e7])
@pytest.mark.parametrize("trip", [0.002, 0.04, 2.0])
def test_probes_fit_a_slow_link_and_tell_it(rate: float, trip: float) -> None:
    # the answers but the last one are on their way while the pings are
    link: Any = SimpleNamespace(probe=lambda frames, size: trip + 8.0 * (frames * (size + 6) + size + 2) / rate)
    found = probes(link)
    assert sum(one["seconds"] for one in found) < 25
    told = measured_in(RunRecord({}, probes=found))
    assert told["--rate"].value == pytest.approx(rate)
    assert told["--rtt"].value == pytest.approx(trip)


@pytest.mark.parametrize("method", [SharedSeed(3), SharedSeedStreamed()], ids=["rounds", "streamed"])
@pytest.mark.parametrize("limits", [Limits(opening_s=0.1, retry_s=0.01), Limits(idle_s=0.1, retry_s=0.01)])
def test_a_device_that_was_silent_connects_again(pair: Pair, method: Method, limits: Limits) -> None:
    slept = list[int]()

    def sleep(tokens: list[int]) -> None:
        if len(slept) < 2:
            slept.append(1)
            time.sleep(0.3)

    with served(pair, limits=limits) as server, device_of(pair, server.address) as device:
        sleep([])
        written(device, method, on_tokens=sleep)
        assert server.server.metrics.value("hlm_refused_total", reason="Silent") >= 1


def test_a_frame_that_was_damaged_is_sent_again(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    send, damaged = Remote.send, list[int]()

    def damage(self: Remote, data: bytes) -> None:
        damaged.append(1)
        send(self, data if len(damaged) != 3 else bytes([data[0] ^ 1]) + data[1:])

    monkeypatch.setattr(Remote, "send", damage)
    with served(pair) as server, device_of(pair, server.address) as device:
        written(device, SharedSeed(3))
        assert device.remote.connections == 2


def test_an_address_has_few_connections_before_it_shows_a_key(pair: Pair) -> None:
    limits = Limits(unproved=2, retry_s=0.05)
    with served(pair, keys=(KEY,), limits=limits) as server, ExitStack() as held:
        devices = [held.enter_context(device_of(pair, server.address, key=KEY)) for _ in range(1)]
        for device in (*devices, *(held.enter_context(device_of(pair, server.address, key=KEY)) for _ in range(3))):
            device.remote.hello()
        strangers = [held.enter_context(connect(server.address)) for _ in range(2)]
        until(lambda: len(server.server.connections) == 6)
        with connect(server.address) as third:
            said = json.loads(third.recv(LONGEST_S))
        assert said == {"error": "Busy", "message": "2 connections of 127.0.0.1 have shown no key", "retry_s": 0.05}
        leaving = threading.Timer(0.3, strangers[0].close)
        leaving.start()
        with device_of(pair, server.address, key=KEY) as late:
            written(late, SharedSeed(3))
        ended(leaving)


def test_the_way_is_tried_without_a_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / "key").write_bytes(KEY)
    (tmp_path / "other").write_bytes(KEY[::-1])
    with serving(monkeypatch, "--key", str(tmp_path / "key")) as server:
        monkeypatch.setattr(pair_module, "load_single", pytest.fail)
        line = ["device", "--try", "--server", f"ws://127.0.0.1:{server.address[1]}"]
        done = CliRunner().invoke(main, [*line, "--key", str(tmp_path / "key"), "--json"])
        assert done.exit_code == 0, done.output
        found = json.loads(done.stdout)
        assert (found["versions"], found["keyed"]) == (["target"], True)
        assert 0 < found["rtt_s"] < LONGEST_S
        assert "both sides have the key" in CliRunner().invoke(main, [*line, "--key", str(tmp_path / "key")]).stdout
        for words, said in (
            ([], "The server wants a key"),
            (["--key", str(tmp_path / "other")], "the HMAC does not fit"),
        ):
            done = CliRunner().invoke(main, [*line, *words])
            assert done.exit_code == 2
            assert said in done.output
    began = time.monotonic()
    assert "did not answer for 1 s (ConnectionRefusedError" in CliRunner().invoke(main, line).output
    assert time.monotonic() - began < LONGEST_S
