"""Several keys of a server, and keys that are withdrawn while devices are served."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.validation.link.served import LONGEST_S, Running, device_of, served
from validation.decoding.methods.base import Method
from validation.decoding.methods.shared_seed import SharedSeed, SharedSeedStreamed
from validation.errors import UserError
from validation.link.addresses import keys_of, read_key, read_keys
from validation.link.remote import RefusedError
from validation.link.wire import OPEN, Pipe, greeting_of
from validation.models.pair import Pair

ONE, TWO, THREE = (letter * 32 for letter in (b"1", b"2", b"3"))


@pytest.fixture
def server(pair: Pair) -> Iterator[Running]:
    with served(pair, keys=(ONE, TWO)) as running:
        yield running


def take_keys(running: Running, *keys: bytes) -> None:
    """Give a running server other keys, and wait until it has them."""

    async def now() -> None:
        running.server.take_keys(keys)

    asyncio.run_coroutine_threadsafe(now(), running.loop).result(LONGEST_S)


def write(device: Any, method: Method | None = None, **options: Any) -> list[int]:
    """Write a text of 16 tokens."""
    return list(device.generate(method or SharedSeed(3), [0], name="a", seed=2, new_tokens=16, **options).tokens)


def test_each_device_has_a_key_of_its_own(pair: Pair, server: Running) -> None:
    with device_of(pair, server.address, key=ONE) as one, device_of(pair, server.address, key=TWO) as two:
        assert write(one) == write(two)
        assert write(one, SharedSeedStreamed()) == write(two, SharedSeedStreamed())
    with (
        device_of(pair, server.address, key=THREE) as other,
        pytest.raises(RefusedError, match="AuthenticationError: the HMAC does not fit"),
    ):
        write(other)


@pytest.mark.parametrize(
    "make", [lambda: SharedSeed(3), SharedSeedStreamed, lambda: None], ids=["rounds", "streamed", "server"]
)
def test_a_key_is_withdrawn_within_a_text(pair: Pair, server: Running, make: Callable[[], Method | None]) -> None:
    server.engine.stretch_s = 0.01
    written: list[int] = []
    with device_of(pair, server.address, key=TWO) as other:
        before = write(other)

        def withdraw(tokens: list[int]) -> None:
            if not written:
                take_keys(server, TWO)
            written.extend(tokens)

        with (
            device_of(pair, server.address, key=ONE) as device,
            pytest.raises(RefusedError, match="WithdrawnError: the key of this device was withdrawn"),
        ):
            device.generate(make(), [0], name="a", seed=2, new_tokens=16, on_tokens=withdraw)
        assert 0 < len(written) < 16
        assert write(other) == before
    with (
        device_of(pair, server.address, key=ONE) as device,
        pytest.raises(RefusedError, match="WithdrawnError"),
    ):
        write(device)
    take_keys(server, ONE, TWO)
    with device_of(pair, server.address, key=ONE) as device:
        assert write(device) == before


def test_a_connection_that_waits_ends_too(pair: Pair, server: Running) -> None:
    with device_of(pair, server.address, key=ONE) as device, connect(server.address) as unknown:
        write(device)
        unknown.recv(5)
        take_keys(server, TWO)
        said = device.remote._socket.recv(5)
        assert '"error": "WithdrawnError"' in str(said)
        with pytest.raises(ConnectionClosed):
            device.remote._socket.recv(5)
        unknown.send(b"x" * 40)  # it had not shown a key yet
        assert '"error": "ForeignError"' in str(unknown.recv(5))


def test_a_withdrawn_key_does_not_open_a_connection_that_was_greeted_before(pair: Pair, server: Running) -> None:
    with connect(server.address) as socket:
        pipe = Pipe(greeting_of(socket.recv(5)).nonce, ONE, server=False)
        take_keys(server, TWO)
        socket.send(pipe.seal(OPEN, b"{}"))
        assert '"error": "WithdrawnError"' in str(socket.recv(5))


@pytest.mark.parametrize("content", [TWO + b"\n", b"", b"short\n" + ONE, None], ids=["other", "empty", "short", "gone"])
def test_a_key_file_is_read_again(
    pair: Pair, tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes | None
) -> None:
    file = tmp_path / "keys.txt"
    file.write_bytes(ONE + b"\n\n" + TWO)
    with served(pair, keys=read_keys(file), key_file=file) as server:
        with device_of(pair, server.address, key=ONE) as device:
            write(device)
            if content is None:
                file.unlink()
            else:
                file.write_bytes(content)
            began = time.monotonic()
            said = device.remote._socket.recv(LONGEST_S)
            assert time.monotonic() - began < LONGEST_S  # two looks of half a second
            assert '"error": "WithdrawnError"' in str(said)
        assert server.server.keys == ((TWO,) if content == TWO + b"\n" else ())
    assert ("No device is served" in caplog.text) == (content != TWO + b"\n")


def test_keys_that_cannot_be_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "keys.txt"
    for content, said in (
        (b"\n", "has 0 bytes"),
        (ONE + b"\nshort\n", "has 5 bytes"),
        (b"x" * 65, "has 65 bytes"),
        (b"\n".join(b"%032d" % n for n in range(101)), "101 keys; a server has at most 100"),
    ):
        with pytest.raises(UserError, match=said):
            keys_of(file, content)
    file.write_bytes(ONE + b"\r\n" + TWO + b"\n")
    assert read_keys(file) == (ONE, TWO)
    with pytest.raises(UserError, match="holds 2 keys, and a device has one"):
        read_key(file)
