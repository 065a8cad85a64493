"""Stop a command in the middle and run it again, and damage a file: what must hold then for any command or reader."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from validation.errors import UserError
from validation.trace.reader import LISTS, LOGITS, open_trace

Make = Callable[..., Any]
"""Writes a trace into a folder, and takes ``progress``."""
PATIENCE_S = 300.0
"""After which a test gives up, on the busiest machine."""


def until(done: Callable[[], Any]) -> Any:
    """Wait for what another thread or process has to do, and return it."""
    end = time.monotonic() + PATIENCE_S
    while not (found := done()):
        assert time.monotonic() < end, f"not done within {PATIENCE_S:.0f} s"
        time.sleep(0.01)
    return found


def ended(process: int) -> bool:
    """Return whether a process is gone, by its number; a zombie has ended too."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def stopped(
    make: Make, path: Path, after: int, kind: type[BaseException] = KeyboardInterrupt, during: str = ""
) -> None:
    def stop(done: int, total: int, text: str) -> None:
        if during in text and done >= after:
            raise kind

    with pytest.raises(kind):
        make(path, progress=stop)


def stopped_and_resumed(make: Make, folder: Path, *after: int, during: str = "") -> list[int]:
    kinds = (LOGITS, LISTS)
    make(folder / "whole")
    for number, one in enumerate(after):
        stopped(make, folder / "part", one, (KeyboardInterrupt, RuntimeError)[number % 2], during)
    reported: list[int] = []
    make(folder / "part", progress=lambda done, total, text: reported.append(done) if during in text else None)
    expected, found = (open_trace(folder / name, kinds=kinds, verify=True) for name in ("whole", "part"))
    for name, array in expected.arrays.items():
        assert np.array_equal(found.arrays[name][:], array[:], equal_nan=True), name
    own = {"created", "speed", "command"}
    assert {**found.manifest, **dict.fromkeys(own)} == {**expected.manifest, **dict.fromkeys(own)}
    return reported


def damaged(content: bytes, cut: int, flip: int) -> Iterator[bytes]:
    """Yield the content cut at every ``cut``-th byte, and with a bit of every ``flip``-th byte turned."""
    for end in range(0, len(content), cut):
        yield content[:end]
    for at in range(0, len(content), flip):
        yield content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :]


def damage(read: Callable[[], Any], file: Path, cut: int, flip: int) -> list[Any]:
    """Return what is still read of each damaged content of a file; every refusal must name the file in one line."""
    found, refusals = list[Any](), list[str]()
    for content in damaged(file.read_bytes(), cut, flip):
        file.write_bytes(content)
        try:
            found.append(read())
        except UserError as error:
            refusals.append(str(error))
    assert all(file.name in one and "\n" not in one for one in refusals)
    return found
