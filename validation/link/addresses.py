"""Where a server or a door listens: loopback, unless a key keeps others out."""

from __future__ import annotations

import ipaddress
from pathlib import Path

from validation.errors import UserError

KEY_BYTES = (16, 64)


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


def read_key(path: Path | None) -> bytes | None:
    """Return the key in a file, without the white space around it; None without a file."""
    if path is None:
        return None
    key = path.read_bytes().strip()
    if not KEY_BYTES[0] <= len(key) <= KEY_BYTES[1]:
        raise UserError(
            f"The key in {path} has {len(key)} bytes; it must have {KEY_BYTES[0]} to {KEY_BYTES[1]}: make one with "
            "`openssl rand -hex 32`."
        )
    return key


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
