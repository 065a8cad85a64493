"""JSON files with a checksum of what they hold, so that a changed digit or a cut file is noticed when they are read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from validation.errors import UserError
from validation.trace.journal import write_atomically

SEAL = "sha256"


def checksum(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a JSON object; it does not depend on the order of keys or on the layout.

    >>> checksum({"a": 1, "b": [2.5]}) == checksum({"b": [2.5], "a": 1})
    True
    """
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def write_sealed(path: Path, content: Mapping[str, Any], *, indent: int = 1) -> None:
    """Replace a file by an object and its checksum, or leave it as it was."""
    plain = json.loads(json.dumps(content))  # as it will be read: tuples are lists
    text = json.dumps({SEAL: checksum(plain), **plain}, indent=indent, ensure_ascii=False)
    write_atomically(path, text + "\n")


def read_sealed(path: Path) -> dict[str, Any]:
    """Return the object of a file that :func:`write_sealed` wrote.

    Parameters
    ----------
    path : Path

    Raises
    ------
    UserError
        It is cut, empty, no object of JSON, has no checksum, or does not match it.
    FileNotFoundError
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is damaged: it is no JSON.") from error
    if not isinstance(found, dict):
        raise UserError(f"{path} is damaged: it is no JSON object.")
    seal = found.pop(SEAL, None)
    if seal is None:
        raise UserError(f"{path} is damaged: it has no checksum.")
    if seal != checksum(found):
        raise UserError(f"{path} is damaged: it does not match its checksum.")
    return found
