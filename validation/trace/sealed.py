"""Read and write JSON files with a checksum of their content, which detects changed or truncated files."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from validation.errors import UserError
from validation.trace.journal import write_atomically

SEAL = "sha256"


def checksum(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a JSON object, independent of key order and layout."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def write_sealed(path: Path, content: Mapping[str, Any], *, indent: int = 1) -> None:
    """Write an object and its checksum to a file atomically; on failure the file stays unchanged."""
    plain = json.loads(json.dumps(content))  # the form in which it is read: tuples become lists
    text = json.dumps({SEAL: checksum(plain), **plain}, indent=indent, ensure_ascii=False)
    write_atomically(path, text + "\n")


def read_sealed(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is damaged: it is not JSON.") from error
    if not isinstance(found, dict):
        raise UserError(f"{path} is damaged: it is not a JSON object.")
    seal = found.pop(SEAL, None)
    if seal is None:
        raise UserError(f"{path} is damaged: it has no checksum.")
    if seal != checksum(found):
        raise UserError(f"{path} is damaged: it does not match its checksum.")
    return found
