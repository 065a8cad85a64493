"""What a server says and refuses: numbers, limits, keys, probes; and a device that tries again."""

import json
import threading
import time
import tracemalloc
import urllib.request
from contextlib import ExitStack
from types import SimpleNamespace

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.validation.command_line import run
from tests.validation.link.hostile import cases, mutated, tried
from tests.validation.link.served import LONGEST_S, Relayed, Running, device_of, ended, serving, write
from tests.validation.stopping import until
from validation.decoding.methods.shared_seed import SharedSeed, SharedSeedStreamed
from validation.errors import UserError
from validation.link.addresses import read_address, read_key, read_keys
from validation.link.passes import Limits
from validation.link.recording import probes
from validation.link.relay import LinkModel
from validation.link.remote import RefusedError, Remote, ServerAwayError
from validation.models import pair as pair_module
from validation.planning.from_run import measured_in
from validation.planning.run_record import RunRecord

KEY, ONE, TWO = b"0123456789abcdef", b"1" * 32, b"2" * 32


def test_the_numbers_are_those_of_the_text(pair):
    with Running(pair) as server, device_of(pair, server.address) as device:
        record = write(device, SharedSeed(3), new_tokens=8)
        with urllib.request.urlopen(server.address.replace("ws:", "http:") + "/metrics", timeout=20) as page:
            kind, lines = page.headers["Content-Type"], page.read().decode().splitlines()
    assert kind.startswith("text/plain; version=")
    assert f"hlm_rounds_total {float(len(record.rounds))}" in lines
    assert f"hlm_drafts_total {float(record.total('drafted'))}" in lines
    assert f"hlm_tokens_total {float(len(record.tokens))}" in lines
    assert "hlm_devices 1.0" in lines


def test_a_server_without_a_key_refuses_one(pair):
    with (
        Running(pair) as server,
        pytest.raises(RefusedError, match="has no key"),
        device_of(pair, server.address, key=KEY),
    ):
        pass


def test_a_full_server_says_when_to_come_again(pair):
    with Running(pair, limits=Limits(devices=1, retry_s=0.05)) as server, device_of(pair, server.address):
        with connect(server.address) as socket:
            said = json.loads(socket.recv(5))
        assert (said["error"], said["retry_s"]) == ("Busy", 0.05)
        with (
            pytest.raises(ServerAwayError, match=r"\(Busy: 1 devices are served"),
            device_of(pair, server.address, patience_s=0.2),
        ):
            pass


def test_a_frame_beyond_the_limit_is_not_read(pair):
    with Running(pair) as server, connect(server.address) as socket:
        socket.recv(5)
        socket.send(bytes(2**20 + 1))
        with pytest.raises(ConnectionClosed, match="1009"):
            socket.recv(5)


@pytest.mark.parametrize("count", [60, pytest.param(5000, marks=pytest.mark.deep)])
@pytest.mark.parametrize("case", cases(), ids=lambda case: case[0])
def test_a_mutated_frame_is_valid_or_refused_by_name(case, count):
    _, check, honest = case
    rng, names, longest, most = np.random.default_rng(2), set[str](), 0.0, 0
    assert {tried(check, data) for data in honest} >= {"valid"}
    tracemalloc.start()
    for n in range(count):
        data = mutated(honest[n % len(honest)], honest, rng)
        tracemalloc.reset_peak()
        before, began = tracemalloc.get_traced_memory()[0], time.thread_time()
        names.add(tried(check, data))
        longest = max(longest, time.thread_time() - began)
        most = max(most, tracemalloc.get_traced_memory()[1] - before)
    tracemalloc.stop()
    assert names - {"valid"}
    assert longest < 0.5
    assert most < 20e6


@pytest.mark.parametrize("text", ["localhost", "localhost:", "localhost:x", "localhost:65536", ":80", "[]:80"])
def test_an_address_is_a_host_and_a_port(text):
    with pytest.raises(UserError, match="write HOST:PORT"):
        read_address("--listen", text)


@pytest.mark.parametrize("line", ["serve --listen 0.0.0.0:7070", "link --listen 0.0.0.0:7071"])
def test_an_address_that_others_reach_needs_a_key(line):
    done = run(*line.split())
    assert done.exit_code == 2
    assert "which other machines reach" in done.output


@pytest.mark.parametrize(
    "make", [lambda: SharedSeed(3), SharedSeedStreamed, lambda: None], ids=["rounds", "streamed", "server"]
)
def test_a_key_is_withdrawn_within_a_text(pair, make):
    written = []
    with (
        Running(pair, keys=(ONE, TWO), made={"stretch_s": 0.01}) as server,
        device_of(pair, server.address, key=TWO) as other,
    ):

        def withdraw(tokens):
            if not written:
                server.call(server.server.take_keys, (TWO,))
            written.extend(tokens)

        write(other, SharedSeed(3))
        with device_of(pair, server.address, key=ONE) as device:
            for method, watched in ((make(), {"on_tokens": withdraw}), (SharedSeed(3), {})):
                with pytest.raises(RefusedError, match="WithdrawnError: the key of this device was withdrawn"):
                    device.generate(method, [0], name="a", seed=2, new_tokens=16, **watched)
        assert 0 < len(written) < 16
        write(other, SharedSeed(3))
        server.call(server.server.take_keys, (ONE, TWO))
        with device_of(pair, server.address, key=ONE) as device:
            write(device, SharedSeed(3))


@pytest.mark.parametrize("content", [TWO + b"\n", b"", b"short\n" + ONE, None], ids=["other", "empty", "short", "gone"])
def test_a_key_file_is_read_again(pair, tmp_path, caplog, content):
    file = tmp_path / "keys.txt"
    file.write_bytes(ONE + b"\n\n" + TWO)
    with Running(pair, keys=read_keys(file), key_file=file) as server:
        with device_of(pair, server.address, key=ONE) as device, connect(server.address) as unknown:
            write(device, SharedSeed(3))
            unknown.recv(5)
            if content is None:
                file.unlink()
            else:
                file.write_bytes(content)
            said = device.remote._socket.recv(LONGEST_S)  # it waits for a text; after two looks of half a second
            assert '"error": "WithdrawnError"' in str(said)
            with pytest.raises(ConnectionClosed):
                device.remote._socket.recv(5)
            unknown.send(b"x" * 40)  # it had not shown a key yet
            assert '"error": "ForeignError"' in str(unknown.recv(5))
        assert server.server.keys == ((TWO,) if content == TWO + b"\n" else ())
    assert ("No device is served" in caplog.text) == (content != TWO + b"\n")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\n", "has 0 bytes"),
        (ONE + b"\nshort\n", "has 5 bytes; it must have 16 to 64"),
        (b"x" * 65, "has 65 bytes"),
        (b"\n".join(b"%032d" % n for n in range(101)), "101 keys; a server has at most 100"),
        (ONE + b"\r\n" + TWO + b"\n", "holds 2 keys, and a device has one"),
    ],
)
def test_keys_that_cannot_be_are_refused(tmp_path, content, said):
    (tmp_path / "keys.txt").write_bytes(content)
    with pytest.raises(UserError, match=said):
        read_key(tmp_path / "keys.txt")


def test_a_probe_wakes_at_a_cut_and_is_sent_again(pair):
    with (
        Running(pair) as server,
        Relayed(LinkModel(2e5, 2e5), server.address) as relay,
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
def test_probes_fit_a_slow_link_and_tell_it(rate, trip):
    # the answers but the last one are on their way while the pings are
    link = SimpleNamespace(probe=lambda frames, size: trip + 8.0 * (frames * (size + 6) + size + 2) / rate)
    found = probes(link)
    assert sum(one["seconds"] for one in found) < 25
    told = measured_in(RunRecord({}, probes=found))
    assert told["--rate"].value == pytest.approx(rate)
    assert told["--rtt"].value == pytest.approx(trip)


@pytest.mark.parametrize("method", [SharedSeed(3), SharedSeedStreamed()], ids=["rounds", "streamed"])
@pytest.mark.parametrize("limits", [Limits(opening_s=0.1, retry_s=0.01), Limits(idle_s=0.1, retry_s=0.01)])
def test_a_device_that_was_silent_connects_again(pair, method, limits):
    slept = list[int]()

    def sleep(tokens):
        if len(slept) < 2:
            slept.append(1)
            time.sleep(0.3)

    with Running(pair, limits=limits) as server, device_of(pair, server.address) as device:
        sleep([])
        write(device, method, on_tokens=sleep)
        assert server.server.metrics.value("hlm_refused_total", reason="Silent") >= 1


def test_a_frame_that_was_damaged_is_sent_again(pair, monkeypatch):
    send, damaged = Remote.send, list[int]()

    def damage(self, data):
        damaged.append(1)
        send(self, data if len(damaged) != 3 else bytes([data[0] ^ 1]) + data[1:])

    monkeypatch.setattr(Remote, "send", damage)
    with Running(pair) as server, device_of(pair, server.address) as device:
        write(device, SharedSeed(3))
        assert device.remote.connections == 2


def test_an_address_has_few_connections_before_it_shows_a_key(pair):
    with Running(pair, keys=(KEY,), limits=Limits(unproved=2, retry_s=0.05)) as server, ExitStack() as held:
        for _ in range(4):
            held.enter_context(device_of(pair, server.address, key=KEY)).remote.hello()
        strangers = [held.enter_context(connect(server.address)) for _ in range(2)]
        until(lambda: len(server.server.connections) == 6)
        with connect(server.address) as third:
            said = json.loads(third.recv(LONGEST_S))
        assert said == {"error": "Busy", "message": "2 connections of 127.0.0.1 have shown no key", "retry_s": 0.05}
        leaving = threading.Timer(0.3, strangers[0].close)
        leaving.start()
        with device_of(pair, server.address, key=KEY) as late:
            write(late, SharedSeed(3))
        ended(leaving)


@pytest.mark.parametrize(
    ("key", "said"), [(KEY, ""), (None, "The server wants a key"), (KEY[::-1], "the HMAC does not fit")]
)
def test_the_way_is_tried_without_a_model(monkeypatch, tmp_path, key, said):
    (tmp_path / "key").write_bytes(KEY)
    (tmp_path / "own").write_bytes(key or b"")
    with serving(monkeypatch, "--key", str(tmp_path / "key")) as server:
        monkeypatch.setattr(pair_module, "load_single", pytest.fail)
        line = ["device", "--try", "--server", f"ws://127.0.0.1:{server.address[1]}", "--json"]
        done = run(*line, *(["--key", str(tmp_path / "own")] if key else []))
    assert done.exit_code == (2 if said else 0), done.output
    assert said in done.output
    if not said:
        found = json.loads(done.stdout)
        assert (found["versions"], found["keyed"]) == (["target"], True)
        assert 0 < found["rtt_s"] < LONGEST_S
