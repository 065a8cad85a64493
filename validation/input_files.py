"""Read files that users give: JSON, JSON lines, CSV and text, plain or with gzip; each value comes with its place."""

import csv
import gzip
import json
import math
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from validation.errors import UserError

LARGEST_FILE = 2**30
"""Largest number of characters of a file that is read as a whole, after decompression."""
LONGEST_LINE = 2**26
"""Largest number of characters of a line: enough for a prompt and an answer of a million tokens."""
UNREADABLE = (OSError, EOFError, UnicodeDecodeError, zlib.error)


def parse(where: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where} is not JSON ({error}); check that it is complete.") from error


def read_text(path: Path, characters: int | None = None) -> str:
    with _opened(path) as file:
        try:
            text = file.read(LARGEST_FILE + 1 if characters is None else characters)
        except UNREADABLE as error:
            raise _unreadable(str(path), error) from error
    if len(text) > LARGEST_FILE:
        raise UserError(f"{path} has more than {LARGEST_FILE:,} characters; give a JSONL file, which is read in parts.")
    return text


def text_lines(path: Path, longest: int = LONGEST_LINE) -> Iterator[tuple[str, str]]:
    with _opened(path) as file:
        number = 0
        while True:
            try:
                line = file.readline(longest + 2)
            except UNREADABLE as error:
                raise _unreadable(f"{path}, after line {number}:", error) from error
            if not line:
                return
            number += 1
            if len(line.rstrip("\r\n")) > longest:
                raise UserError(f"{path}, line {number}: it is longer than {longest:,} characters; shorten it.")
            yield f"{path}, line {number}", line.rstrip("\r\n")


def read_json(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the place and value of each line of a JSONL file, each entry of a JSON list, or the value of a file."""
    if path.name.endswith((".jsonl", ".jsonl.gz")):
        yield from ((where, parse(where, line)) for where, line in text_lines(path) if line.strip())
        return
    content = parse(str(path), read_text(path))
    if isinstance(content, list):
        yield from ((f"{path}[{number}]", one) for number, one in enumerate(content))
    else:
        yield str(path), content


def read_csv(path: Path, columns: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the place and the cells of each row of a CSV file with these columns; a cell that is not there is empty."""
    rows = csv.reader(line for _, line in text_lines(path))
    try:
        head = next(rows, [])
        if missing := [name for name in columns if name not in head]:
            raise UserError(f"{path} has no column {missing[0]}; it needs {', '.join(columns)}.")
        if double := [name for name in columns if head.count(name) > 1]:
            raise UserError(f"{path} has two columns {double[0]}; keep one.")
        for row in filter(None, rows):
            where = f"{path}, line {rows.line_num}"
            if any(row[len(head) :]):
                raise UserError(f"{where} has {len(row)} cells, but the head has {len(head)}; name every column.")
            yield where, dict.fromkeys(head, "") | dict(zip(head, row, strict=False))
    except csv.Error as error:
        raise _unreadable(f"{path}, line {rows.line_num}", error) from error


def read_number(
    where: str, name: str, text: str, least: float, most: float = math.inf, *, above: bool = False, whole: bool = False
) -> float:
    """Return the number of a cell, from the least, or ``above`` it, to the most."""
    try:
        value = float(int(text)) if whole else float(text)
    except ValueError:
        value = math.nan
    if math.isfinite(value) and least <= value <= most and not (above and value == least):
        return value
    ends = f" above {least:g}" if above else f" from {least:g}" if least > -math.inf else ""
    ends += f" to {most:,}" if most < math.inf else ""
    raise UserError(f"{where}: {name} is {text!r}; give a {'whole' if whole else 'finite'} number{ends}.")


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    if not path.is_file():
        shipped = Path("examples", path)
        instead = f"{shipped} is there" if shipped.is_file() else "check the path"
        raise UserError(f"There is no file {path}; {instead}.")
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8-sig") as file:
        yield file


def _unreadable(where: str, error: Exception) -> UserError:
    return UserError(f"{where} cannot be read ({error}); copy it again, as text in UTF-8.")
