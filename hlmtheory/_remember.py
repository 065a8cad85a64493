"""Remember results of pure helpers inside :func:`remembering`, while many claims are checked on the same rows.

A large array is recognised by its place in memory, so only if nobody can change it; a small one by its values. What a
:func:`remembered` helper returns becomes read-only. Arrays of other libraries than numpy are never remembered.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import ModuleType
from typing import Any, TypeVar

import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])
SMALL = 4096
"""Bytes up to which an array is recognised by its values."""
HELD = 80
"""Number of results that a thread keeps; the oldest unused one is dropped first."""

_here = threading.local()


class _Unknown(Exception):
    """An argument cannot be recognised."""


@contextmanager
def remembering() -> Iterator[None]:
    """Remember results in this thread while the body runs."""
    before = getattr(_here, "results", None)
    _here.results = OrderedDict()
    try:
        yield
    finally:
        _here.results = before


def remembered(function: Function) -> Function:
    """Mark a function whose result depends on its arguments alone, and which changes none of them."""

    @wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        results = getattr(_here, "results", None)
        return function(*args, **named) if results is None else recall(function, args, named)

    return call  # type: ignore[return-value]


def recall(function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Return the function's result, remembered if :func:`remembering` is on and the arguments are recognised."""
    results = getattr(_here, "results", None)
    if results is None:
        return function(*args, **named)
    try:
        key = (function, _key(args), *((name, _key(value)) for name, value in named.items()))
    except _Unknown:
        return function(*args, **named)
    if key in results:
        results.move_to_end(key)
        return results[key][0]
    found = freeze(function(*args, **named))
    results[key] = found, args, named  # the arguments too: their places in memory must not be used again
    if len(results) > HELD:
        results.popitem(last=False)
    return found


def freeze(value: Any) -> Any:
    """Make an array read-only, or the arrays of a tuple, and return it."""
    if isinstance(value, tuple):
        for part in value:
            freeze(part)
    elif isinstance(value, np.ndarray):
        value.flags.writeable = False
    return value


def _key(value: Any) -> Hashable:
    if isinstance(value, np.ndarray):
        if value.nbytes <= SMALL:
            return value.dtype.str, value.shape, value.tobytes()
        if not _is_frozen(value):
            raise _Unknown
        return value.__array_interface__["data"][0], value.dtype.str, value.shape, value.strides
    if isinstance(value, tuple):
        return type(value), tuple(map(_key, value))
    if value is None or isinstance(value, str | int | float | ModuleType | np.generic):
        return type(value), value
    raise _Unknown


def _is_frozen(value: Any) -> bool:
    """Return whether nobody can change the array: it and all that it views are read-only."""
    while isinstance(value, np.ndarray):
        if value.flags.writeable:
            return False
        value = value.base
    return value is None
