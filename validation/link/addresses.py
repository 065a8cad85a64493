"""Where a server or a door listens: loopback, unless a key keeps others out."""

import contextlib
import ipaddress
import socket
import ssl
from pathlib import Path
from urllib.parse import urlsplit

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
    keys = read_keys(path)
    if keys is not None and len(keys) != 1:
        raise UserError(f"{path} holds {len(keys)} keys, and a device has one; give the device a file with its key.")
    return None if keys is None else keys[0]


def keys_of(path: Path, content: bytes) -> tuple[bytes, ...]:
    """Return the keys in the content of a file, one a line."""
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


def scheme_at(address: str, seconds: float) -> str | None:
    """Return ``ws`` or ``wss`` if the server at an address of one of them answers as the scheme says, else None."""
    place = urlsplit(address)
    where = place.hostname or "", place.port or (443 if place.scheme == "wss" else 80)
    with contextlib.suppress(OSError), socket.create_connection(where, seconds) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
        if plain.recv(4) == b"HTTP":
            return "ws"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with contextlib.suppress(OSError), socket.create_connection(where, seconds) as plain, context.wrap_socket(plain):
        return "wss"
    return None


def origin(host: str) -> str:
    """Return what one peer may be reached by: an IPv4 address, or an IPv6 network of 64 bits.

    >>> origin("192.0.2.1"), origin("2001:db8::1%eth0")
    ('192.0.2.1', '2001:db8::/64')
    """
    address = ipaddress.ip_address(host.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None) or address
    return str(ipaddress.ip_network((mapped, 64), strict=False) if mapped.version == 6 else mapped)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
