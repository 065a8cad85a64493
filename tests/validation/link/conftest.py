"""A test of the link that waits for ever fails."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from types import FrameType

import pytest

MOST_S = 240
"""More than any test takes on a busy machine."""


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    """Interrupt what a test waits for, where the system has alarms; waits of fixtures have bounds of their own."""

    def late(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"the test did not end in {MOST_S} s")

    if not hasattr(signal, "SIGALRM"):
        yield
        return
    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(MOST_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
