"""Stop a command in the middle and run it again: it must end with what an unbroken run stores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from validation.trace.reader import LISTS, LOGITS, open_trace

Make = Callable[..., Any]
"""Writes a trace into a folder, and takes ``progress``."""


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
