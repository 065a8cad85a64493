"""Files that a running server reads again: its keys, and the name of the version in use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

LOOK_S = 0.5
"""Seconds between two looks at a file."""
LONGEST_FILE = 2**16
"""Bytes of such a file that are read."""


async def follow(path: Path, take: Callable[[bytes | None], None], *, every_s: float = LOOK_S) -> None:
    """Call a function with the content of a file whenever it has changed, until cancelled.

    Parameters
    ----------
    path : Path
    take : callable
        Gets the content, or None if the file cannot be read. A content counts once it was the same at two looks, so
        that a file that is being written is not taken.
    every_s : float
        Seconds between two looks. A change is taken after 2 ``every_s`` at most.
    """
    taken: object = _NOTHING
    last = _content(path)
    while True:
        await asyncio.sleep(every_s)
        now = _content(path)
        if now == last and now != taken:
            taken = now
            take(now)
        last = now


_NOTHING = object()


def _content(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            return file.read(LONGEST_FILE)
    except OSError:
        return None
