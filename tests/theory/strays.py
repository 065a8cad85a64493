"""Wrong values that a caller may give for an argument, made from the kind of its valid value."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlmtheory import serving
from hlmtheory.serving.goodput import DeviceFit

DISTRIBUTIONS = {
    "p",
    "q",
    "target",
    "draft",
    "residual",
    "decoded",
    "probabilities",
    "draft_rows",
    "cell_probabilities",
    "mass",
}
"""Arguments that are rows of probabilities, where they are arrays."""


@dataclass(frozen=True)
class Stray:
    """A wrong value for an argument; ``hopeless`` if only a refusal is right."""

    label: str
    value: Any
    hopeless: bool = True


def is_number(value: Any) -> bool:
    """Return whether an argument takes numbers; the shapes of such arguments must agree."""
    return not isinstance(value, (bool, str, bytes)) and np.asarray(value).dtype.kind in "iufb"


def strays(name: str, value: Any) -> Iterator[Stray]:
    yield Stray("object()", object())
    if isinstance(value, bool):
        yield from _no_flags()
    elif is_number(value):
        yield from _no_numbers(value)
        yield from _wrong_shapes(value)
        yield from _extremes(value)
        if name in DISTRIBUTIONS and np.ndim(value):
            yield from _no_distributions(np.asarray(value, dtype=np.float64))
        elif np.asarray(value).dtype.kind == "i":
            yield from _no_integers(value)
    elif isinstance(value, str):
        yield from (Stray(repr(stray), stray) for stray in ("", "no such option", None, 3, [value], True, b"x"))
    elif isinstance(value, (list, tuple)):
        yield from _no_sequences(value)
    else:
        yield from _no_objects(value)


def _no_flags() -> Iterator[Stray]:
    for stray in (None, "no", 1, 0.0, math.nan, [True], np.array([True, False]), 1j):
        yield Stray(repr(stray), stray)


def _no_numbers(value: Any) -> Iterator[Stray]:
    plain = np.asarray(value)
    whole = np.zeros(plain.shape)
    yield Stray("None", None)
    yield Stray("'2'", "2")
    yield Stray("b'2'", b"2")
    yield Stray("{}", {})
    yield Stray("complex", 1j)
    yield Stray("a complex array", plain * (1 + 1j))
    yield Stray("an array of strings", plain.astype(str))
    yield Stray("an array of objects", plain.astype(object))
    yield Stray("ragged", [[1.0], [1.0, 2.0]])
    yield Stray("masked", np.ma.array(plain, mask=whole == 0))
    yield Stray("masked in part", np.ma.array(plain, mask=False))
    yield Stray("a date", np.datetime64("2026-01-01"))
    if plain.dtype.kind != "b":
        yield Stray("True", True)
        yield Stray("an array of bools", np.ones(plain.shape, dtype=bool))
    if plain.ndim:
        for label, entry in (("None", None), ("'2'", "2"), ("1j", 1j), ("[1, 2]", [1, 2])):
            yield Stray(f"an entry {label}", _with_last(value, entry))


def _wrong_shapes(value: Any) -> Iterator[Stray]:
    kind, shape = np.asarray(value).dtype, np.shape(value)
    yield Stray("[]", [], hopeless=False)
    yield Stray("no instances", np.zeros((0, *shape), dtype=kind), hopeless=False)
    yield Stray("V = 0", np.zeros((*shape[:-1], 0), dtype=kind), hopeless=False)
    yield Stray("one entry", np.asarray(value).reshape(-1)[:1], hopeless=False)
    yield Stray("a scalar", np.asarray(value).reshape(-1)[-1].item(), hopeless=False)
    yield Stray("ten dimensions", np.ones((1,) * 10, dtype=kind) * np.asarray(value), hopeless=False)


def _extremes(value: Any) -> Iterator[Stray]:
    numbers: list[tuple[Any, bool]] = [(math.nan, True), (math.inf, True), (-math.inf, True)]
    numbers += [(n, False) for n in (-1, -1.5, 0, 1e-310, 1e300, -1e300, 10**9, -(10**9), 2**63 - 1, 10**30, -(10**30))]
    for number, hopeless in numbers:
        yield Stray(repr(number), number, hopeless)
        if np.ndim(value):
            yield Stray(f"an entry {number!r}", _with_last(value, number), hopeless)
            yield Stray(f"all {number!r}", np.full(np.shape(value), number, dtype=object).tolist(), hopeless)
    yield Stray("float32", np.asarray(value, dtype=np.float32), hopeless=False)


def _no_distributions(rows: Any) -> Iterator[Stray]:
    yield Stray("a sum of 0.9", rows * 0.9)
    yield Stray("a sum of 1.01", rows * 1.01)
    yield Stray("zeros", rows * 0.0)
    yield Stray("a negative entry", np.concatenate([rows[..., :-2], rows[..., -2:-1] - 2.0, rows[..., -1:] + 2.0], -1))
    yield Stray("a NaN in the last", np.where(np.arange(rows.size).reshape(rows.shape) < rows.size - 1, rows, np.nan))


def _no_integers(value: Any) -> Iterator[Stray]:
    for number in (2.5, 2.0, 1e-310):
        yield Stray(repr(number), number)
        if np.ndim(value):
            yield Stray(f"an entry {number!r}", _with_last(value, number))


def _no_sequences(value: Any) -> Iterator[Stray]:
    yield from (Stray(repr(stray), stray) for stray in (None, 3, "ab", b"ab", {}, math.nan))
    yield Stray("[]", [], hopeless=False)
    if isinstance(value[0], serving.Task):
        for task in (serving.Task(10**9, 1), serving.Task(1, 10**9), serving.Task(10**9, 10**9)):
            yield Stray(f"an entry {task}", [*value[:-1], task], hopeless=False)
    for entry in (None, "2", 3.5, object(), math.nan, [[]], serving.Device(0.0, 0.0)):
        yield Stray(f"an entry {type(entry).__name__}", [*value[:-1], entry])


def _no_objects(value: Any) -> Iterator[Stray]:
    other = DeviceFit(0.0, 0.0, 1.0)
    for stray in (None, "2", 3, math.nan, [value], {}, [], 1j, type(value)):
        yield Stray(repr(stray), stray)
    yield Stray("another object", other)


def _with_last(value: Any, entry: Any) -> Any:
    rows = np.asarray(value).tolist()
    inner = rows
    while isinstance(inner[-1], list):
        inner = inner[-1]
    inner[-1] = entry
    return rows
