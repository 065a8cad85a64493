"""Where a server or a door listens: loopback, unless a key keeps others out."""

from __future__ import annotations

import ipaddress
from pathlib import Path

from validation.errors import UserError

KEY_BYTES, MOST_KEYS = (16, 64), 100


def read_address(option: str, text: str, *, key: bytes | None = None, needs_key: bool = True) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT``; refuse an address that others reach, unless there is a key.

    >>> read_address("--listen", "127.0.0.1:7070")
    ('127.0.0.1', 7070)
    """
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise UserError(f"{option} is {text!r}; write HOST:PORT, such as 127.0.0.1:7070.")
    if needs_key and key is None and not is_loopback(host):
        raise UserError(
            f"{option} is {text}, which other machines reach; give --key FILE, so that only devices with the key are "
            "served, or listen on 127.0.0.1."
        )
    return host, int(port)


def read_keys(path: Path | None) -> tuple[bytes, ...] | None:
    """Return the keys in a server's file, one a line, without the white space around them; None without a file."""
    return None if path is None else keys_of(path, path.read_bytes())


def read_key(path: Path | None) -> bytes | None:
    """Return the key in a device's file; None without a file."""
    keys = read_keys(path)
    if keys is not None and len(keys) != 1:
        raise UserError(f"{path} holds {len(keys)} keys, and a device has one; give the device a file with its key.")
    return None if keys is None else keys[0]


def keys_of(path: Path, content: bytes) -> tuple[bytes, ...]:
    """Return the keys in the content of a file, one a line.

    Raises
    ------
    UserError
        If the file holds no key or too many keys, or a key is too short or too long.
    """
    keys = tuple(dict.fromkeys(line.strip() for line in content.splitlines() if line.strip()))
    wrong = next((key for key in keys if not KEY_BYTES[0] <= len(key) <= KEY_BYTES[1]), None)
    if not keys or wrong is not None:
        raise UserError(
            f"A key in {path} has {len(wrong or b'')} bytes; it must have {KEY_BYTES[0]} to {KEY_BYTES[1]}: make one "
            "with `openssl rand -hex 32`."
        )
    if len(keys) > MOST_KEYS:
        raise UserError(f"{path} holds {len(keys)} keys; a server has at most {MOST_KEYS}, one a line.")
    return keys


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
