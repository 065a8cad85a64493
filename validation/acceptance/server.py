"""Read the counters of a running server: two scrapes of its ``/metrics``, a stated time apart.

The format is Prometheus's text format. Both scrapes have the same address, so their difference is what the server did
between them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from http.client import HTTPException, IncompleteRead
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from validation.acceptance.vllm import is_scrape, without_counters
from validation.errors import UserError

MOST_BYTES = 2**26
"""Largest answer that is read."""
SWITCHES = {
    404: "vLLM has its counters at /metrics; llama.cpp's server needs --metrics, and SGLang --enable-metrics",
    401: "the server wants a key, and none is sent: save two scrapes with curl and give the files",
    403: "the server refuses this address: save two scrapes with curl and give the files",
}
"""What an answer without counters means, by its status."""


def is_address(text: str) -> bool:
    """Return whether a word is the address of a server, and not a path."""
    return text.startswith(("http://", "https://"))


def fetch(address: str, patience_s: float) -> str:
    """Return what a server answers at an address, checked to hold counters of drafts."""
    if not _host_of(address):
        raise UserError(f"{address} names no host; give an address such as http://localhost:8000/metrics.")
    try:
        with urlopen(Request(address, headers={"Accept": "text/plain"}), timeout=patience_s) as answer:
            content = answer.read(MOST_BYTES + 1)
            announced = answer.headers.get("Content-Length", "")
    except HTTPError as error:
        why = SWITCHES.get(error.code, "check the address and the server's log")
        raise UserError(f"{address} answers with the status {error.code}; {why}.") from error
    except IncompleteRead as error:
        raise UserError(f"The answer of {address} is cut off after {len(error.partial):,} bytes; try again.") from error
    except TimeoutError as error:
        raise _late(address, patience_s) from error
    except URLError as error:
        if isinstance(error.reason, TimeoutError):
            raise _late(address, patience_s) from error
        raise UserError(f"No server answers at {address} ({error.reason}); check host and port.") from error
    except (OSError, HTTPException, ValueError) as error:
        said = str(error) or type(error).__name__
        raise UserError(f"No metrics come from {address} ({said}); check host and port.") from error
    if len(content) > MOST_BYTES:
        raise UserError(f"{address} answers with more than {MOST_BYTES:,} bytes; give the address of /metrics.")
    if announced.isdecimal() and len(content) < int(announced):
        raise UserError(f"The answer of {address} is cut off after {len(content):,} bytes; try again.")
    return _counters_in(address, content)


def _host_of(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:  # brackets that do not match
        return None


def _late(address: str, patience_s: float) -> UserError:
    return UserError(f"{address} does not answer within {patience_s:g} s; wait longer with --timeout.")


def _counters_in(address: str, content: bytes) -> str:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{address} answers with bytes that are no text; give the address of /metrics.") from error
    if not is_scrape(text):
        raise without_counters(address, text)
    return text


def two_scrapes(
    address: str, wait_s: float, patience_s: float, sleep: Callable[[float], None] = time.sleep
) -> tuple[list[str], list[str]]:
    """Return the names and the texts of two scrapes of a server, ``wait_s`` seconds apart; raise as :func:`fetch`."""
    before = fetch(address, patience_s)
    sleep(wait_s)
    return [address, f"{address} {wait_s:g} s later"], [before, fetch(address, patience_s)]
