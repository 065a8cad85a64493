"""Several devices in shared passes, keys, limits, numbers, and peers that send anything."""

from __future__ import annotations

import json
import time
import urllib.request
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.validation.link.hostile import cases, mutated, opening, tried
from tests.validation.link.served import LONGEST_S, device_of, served
from validation.cli.commands import main
from validation.collection.prompts import Prompt
from validation.decoding.loop import decode
from validation.decoding.methods.shared_seed import SharedSeed
from validation.errors import UserError
from validation.link.addresses import read_address, read_key
from validation.link.passes import Limits
from validation.link.remote import RefusedError, ServerAwayError
from validation.link.wire import OPEN, ROUND, Pipe, greeting_of, to_json
from validation.models.pair import Pair

KEY = b"0123456789abcdef"


def test_the_numbers_are_those_of_the_text(pair: Pair) -> None:
    with served(pair) as server, device_of(pair, server.address) as device:
        record = device.generate(SharedSeed(3), [0], name="a", seed=2, new_tokens=8)
        with urllib.request.urlopen(server.address.replace("ws:", "http:") + "/metrics", timeout=20) as page:
            kind, lines = page.headers["Content-Type"], page.read().decode().splitlines()
    assert kind.startswith("text/plain; version=")
    assert f"hlm_rounds_total {float(len(record.rounds))}" in lines
    assert f"hlm_drafts_total {float(record.total('drafted'))}" in lines
    assert f"hlm_tokens_total {float(len(record.tokens))}" in lines
    assert "hlm_devices 1.0" in lines


@pytest.mark.parametrize("key", [KEY, None])
def test_both_sides_need_the_same_key(pair: Pair, key: bytes | None) -> None:
    with served(pair, keys=(KEY,)) as server:
        with device_of(pair, server.address, key=KEY) as device:
            assert len(device.generate(SharedSeed(3), [0], name="a", seed=2, new_tokens=3).tokens) == 3
        wrong = None if key is None else key[::-1]
        assert refusal(pair, server.address, wrong).startswith(
            "The server wants a key" if wrong is None else "The server refused: AuthenticationError"
        )
    with served(pair) as server:
        assert refusal(pair, server.address, KEY).startswith("The server has no key")


def refusal(pair: Pair, address: str, key: bytes | None) -> str:
    """Return why a device with a key is refused."""
    try:
        with device_of(pair, address, key=key) as device:
            device.generate(SharedSeed(3), [0], name="a", seed=2, new_tokens=3)
    except RefusedError as error:
        return str(error)
    return ""


def test_a_full_server_says_when_to_come_again(pair: Pair) -> None:
    limits = Limits(devices=1, retry_s=0.05)
    with served(pair, limits=limits) as server, device_of(pair, server.address):
        with connect(server.address) as socket:
            said = json.loads(socket.recv(5))
        assert (said["error"], said["retry_s"]) == ("Busy", 0.05)
        with (
            pytest.raises(ServerAwayError, match=r"\(Busy: 1 devices are served"),
            device_of(pair, server.address, patience_s=0.2),
        ):
            pass


def test_hostile_frames_are_refused_by_name_and_others_go_on(pair: Pair) -> None:
    rng, said = np.random.default_rng(3), list[str]()
    first = to_json(opening(SharedSeed(3)))
    with served(pair) as server, device_of(pair, server.address) as device:

        def attack(tokens: list[int]) -> None:
            with connect(server.address) as socket:
                pipe = Pipe(greeting_of(socket.recv(5)).nonce, None, server=False)
                if rng.random() < 0.5:
                    socket.send(pipe.seal(OPEN, first))
                    socket.recv(5)
                    socket.send(pipe.seal(ROUND, rng.bytes(30)))
                else:
                    socket.send(mutated(pipe.seal(OPEN, first), [first], rng) + b"\0")
                said.append(str(socket.recv(5)))

        record = device.generate(SharedSeed(3), [0], name="a", seed=2, new_tokens=16, on_tokens=attack)
    (expected,) = decode(pair, [Prompt("a", "0", "")], SharedSeed(3), new_tokens=16, seed=2)
    assert record.tokens == expected.tokens
    assert len(said) >= 4
    assert all('"error"' in one and "could not serve" not in one for one in said)


def test_a_frame_beyond_the_limit_is_not_read(pair: Pair) -> None:
    with served(pair) as server, connect(server.address) as socket:
        socket.recv(5)
        socket.send(bytes(2**20 + 1))
        with pytest.raises(ConnectionClosed, match="1009"):
            socket.recv(5)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case[0])
def test_a_mutated_frame_is_valid_or_refused_by_name(case: tuple[str, Any, list[bytes]]) -> None:
    _, check, honest = case
    rng = np.random.default_rng(2)
    assert {tried(check, data) for data in honest} >= {"valid"}
    began = time.perf_counter()
    names = {tried(check, mutated(honest[n % len(honest)], honest, rng)) for n in range(60)}
    assert names - {"valid"}
    assert time.perf_counter() - began < LONGEST_S


@pytest.mark.parametrize("text", ["0.0.0.0:7070", "[::]:7070", "192.0.2.1:7070", "example.org:80"])
def test_other_machines_are_served_only_with_a_key(text: str) -> None:
    with pytest.raises(UserError, match="give --key FILE"):
        read_address("--listen", text)
    assert read_address("--listen", text, key=KEY)[1] in (7070, 80)


@pytest.mark.parametrize("text", ["7070", "127.0.0.1:x", ":1", "127.0.0.1:70000"])
def test_an_address_without_host_or_port_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="write HOST:PORT"):
        read_address("--listen", text)


def test_a_short_key_is_refused(tmp_path: Any) -> None:
    (tmp_path / "key").write_bytes(b"short\n")
    with pytest.raises(UserError, match="has 5 bytes"):
        read_key(tmp_path / "key")
    (tmp_path / "key").write_bytes(KEY + b"\n")
    assert read_key(tmp_path / "key") == KEY


def test_the_commands_refuse_with_code_2() -> None:
    for words in (
        ["serve", "--listen", "0.0.0.0:7070"],
        ["link", "--listen", "0.0.0.0:7071"],
        ["link", "--rate", "0"],
        ["device", "--method", "small only"],
        ["device", "--server", "localhost:7070"],
    ):
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 2, (words, done.output)
        assert done.output.count("\n") == 1, done.output
