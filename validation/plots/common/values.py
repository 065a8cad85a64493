"""Write the numbers of a figure or table as CSV, with one line for each value."""

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Any

HEADS = ("part", "name", "field", "index", "value")


def as_csv(numbers: Mapping[str, Any]) -> str:
    """Return the drawn numbers as CSV, with the ``statistics`` and the cells of the tables.

    >>> print(as_csv({"series": [{"name": "ours", "x": [1, 2]}]}), end="")
    part,name,field,index,value
    series,ours,x,0,1
    series,ours,x,1,2
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADS)
    for part, value in numbers.items():
        if part == "tables":
            writer.writerows(_cells(value))
        elif part != "axes":
            named = isinstance(value, list) and all(isinstance(one, Mapping) and "name" in one for one in value)
            for name, one in ((one["name"], one) for one in value) if named else (("", value),):
                inner = {key: field for key, field in one.items() if key != "name"} if named else one
                writer.writerows((part, name, *leaf) for leaf in _leaves(inner))
    return text.getvalue()


def _cells(tables: list[Mapping[str, Any]]) -> Iterator[tuple[Any, ...]]:
    for table in tables:
        for number, row in enumerate(table["rows"]):
            for head, cell in zip(table["heads"], row, strict=True):
                yield "tables", table["title"], head, number, cell


def _leaves(value: Any, field: str = "", index: str = "") -> Iterator[tuple[str, str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{field}.{key}" if field else str(key), index)
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from _leaves(inner, field, f"{index}.{number}" if index else str(number))
    else:
        yield field, index, value
