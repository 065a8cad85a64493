"""Read JSON, JSONL and text files, plain or compressed with gzip, up to a largest size."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from validation.errors import UserError

LARGEST_FILE = 2**30
"""Largest number of characters of a file that is read as a whole, after decompression."""
LONGEST_LINE = 2**26
"""Largest number of characters of a line of a JSONL file: enough for a prompt and an answer of a million tokens."""


def parse(where: str, text: str) -> Any:
    """Return the value of a JSON text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where} is not JSON ({error}); check that it is complete.") from error


def read_text(path: Path, characters: int | None = None) -> str:
    """Return the first characters of a file, or all of it."""
    with _opened(path) as file:
        text = str(file.read(LARGEST_FILE + 1 if characters is None else characters))
    if len(text) > LARGEST_FILE:
        raise UserError(f"{path} has more than {LARGEST_FILE:,} characters; give a JSONL file, which is read in parts.")
    return text


def read_lines(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the place and the value of each non-empty line of a JSONL file."""
    with _opened(path) as file:
        number = 0
        while line := file.readline(LONGEST_LINE + 1):
            number += 1
            where = f"{path}, line {number}"
            if len(line) > LONGEST_LINE:
                raise UserError(f"{where} is longer than {LONGEST_LINE:,} characters.")
            if line.strip():
                yield where, parse(where, line)


def read_json(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the place and value of each line of a JSONL file, each entry of a JSON list, or the value of a file."""
    if path.name.endswith((".jsonl", ".jsonl.gz")):
        yield from read_lines(path)
        return
    content = parse(str(path), read_text(path))
    if isinstance(content, list):
        yield from ((f"{path}[{number}]", one) for number, one in enumerate(content))
    else:
        yield str(path), content


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    if not path.is_file():
        raise UserError(f"There is no file {path}; check the path.")
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8-sig") as file:
            yield file
    except (UnicodeDecodeError, EOFError, gzip.BadGzipFile) as error:
        raise UserError(f"{path} cannot be read ({error}); text in UTF-8 is needed.") from error
