"""Read counts from the parsed content of an engine's file, and refuse what is none with its place and name."""

from collections.abc import Mapping
from typing import Any

from validation.errors import UserError

GREATEST_COUNT = 2**53
"""Largest count that a double holds exactly."""
GREATEST_LENGTH = 4096
"""Longest draft that a record may have; a damaged number must not allocate a table."""


def read_count(where: str, name: str, value: Any) -> int:
    """Return a count; it may be written as a float, as in Prometheus."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and 0 <= value <= GREATEST_COUNT and value == int(value):
        return int(value)
    raise UserError(f"{where}: {name} is {str(value)[:40]!r}; a whole number from 0 to 2^53 is needed.")


def read_field(where: str, table: Mapping[str, Any], *names: str) -> int:
    """Return the count under the first of several names that the table has."""
    for name in names:
        if table.get(name) is not None:
            return read_count(where, name, table[name])
    raise UserError(f"{where} has no {names[0]}; check that the file is complete.")


def read_optional(where: str, table: Mapping[str, Any], *names: str) -> int | None:
    """Return the count under the first of several names that the table has, or None."""
    return read_field(where, table, *names) if any(table.get(name) is not None for name in names) else None


def read_counts(where: str, name: str, value: Any) -> tuple[int, ...]:
    if not isinstance(value, list | tuple):
        raise UserError(f"{where}: {name} is {type(value).__name__}; a list of counts is needed.")
    return tuple(read_count(where, f"{name}[{i}]", entry) for i, entry in enumerate(value))


def read_word(where: str, table: Mapping[str, Any], name: str) -> str | None:
    value = table.get(name)
    if value is not None and (not isinstance(value, str) or not value or len(value) > 40):
        raise UserError(f"{where}: {name} is {str(value)[:40]!r}; a short word is needed.")
    return value


def read_histogram(where: str, name: str, value: Any) -> dict[int, int]:
    """Return the positive counts of a histogram; it is a list, or a table with integer keys."""
    if isinstance(value, Mapping):
        counts = {read_length(where, name, key): read_count(where, f"{name}[{key}]", n) for key, n in value.items()}
    else:
        counts = dict(enumerate(read_counts(where, name, value)))
    return {i: count for i, count in counts.items() if count}


def read_length(where: str, name: str, key: Any) -> int:
    text = str(key)
    if not text.isdecimal() or int(text[:10]) > GREATEST_LENGTH or len(text) > 5:
        raise UserError(f"{where}: {name} has the key {key!r}; a draft length from 0 to {GREATEST_LENGTH:,} is needed.")
    return int(text)


def read_seconds(table: Mapping[str, Any], *, milliseconds: str = "", rate: str = "", count: Any = 1) -> float | None:
    """Return seconds per token, from milliseconds or from tokens per second; None if unknown."""
    number = table.get(milliseconds or rate)
    if not all(isinstance(x, int | float) and 0 < x < 1e15 for x in (number, count)) or number is None:
        return None
    return float(number) / 1e3 / count if milliseconds else 1.0 / float(number)
