"""Checks of arguments: a domain validates a value, describes what is allowed, and names the value it refuses.

A bool is not accepted as a number, nor a number as a bool: True for a count, or 1 for a switch, is a mistake.
"""

import inspect
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from hlmtheory._array import Array, arrays, brief, epsilon, every, in_kind, is_kind, to_numpy
from hlmtheory._remember import remembered

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Given = ParamSpec("Given")

Test = Callable[[Any, Array], Array]


class DomainError(ValueError):
    """Error for a value outside its domain; names the argument, the place, the value and a remedy."""


@dataclass(frozen=True, slots=True)
class Domain:
    """Set of allowed values: the description completes "must be ...", the remedy says what to do.

    ``contains(xp, value)`` is True where allowed, False for NaN. An "integer" kind refuses fractions; with ``rows`` one
    value is a row, the last axis.
    """

    description: str
    contains: Test
    remedy: str
    kind: str = "real"
    rows: bool = False

    def check(self, xp: Any, name: str, value: Array) -> Array:
        """Return the value, whole numbers as int64; raise :class:`DomainError` that names the first value outside."""
        if not is_kind(xp, value.dtype, "integral" if self.kind == "integer" else ("real floating", "integral")):
            raise DomainError(f"{name} must be {self.description}; got {_first_fraction(xp, value)}; {self.remedy}")
        if self.rows and (value.ndim == 0 or value.shape[-1] == 0):
            raise DomainError(f"{name} must be {self.description}; got shape {tuple(value.shape)}; {self.remedy}")
        if self.kind == "integer":
            value = in_kind(xp, value, xp.int64)  # the type of an index; a narrower type would overflow
        good = self.contains(xp, value)
        if not every(xp, good):
            raise DomainError(f"{name} must be {self.description}; {self._first(xp, value, good)}; {self.remedy}")
        return value

    def _first(self, xp: Any, value: Array, good: Array) -> str:
        """Return the index of the first value outside, and the value."""
        flat = xp.reshape(good, (-1,))
        index = int(xp.argmin(xp.astype(flat, xp.int8)))
        place = tuple(int(i) for i in np.unravel_index(index, tuple(good.shape)))
        where = f" at index {place}" if place else ""
        if not self.rows:
            return f"got {_number(xp, xp.reshape(value, (-1,))[index])!r}{where}"
        row = xp.reshape(value, (-1, value.shape[-1]))[index, ...]
        return f"got a row{where} that {_fault(xp, row)}"


def _number(xp: Any, value: Array) -> float | int:
    return float(value) if is_kind(xp, value.dtype, "real floating") else int(value)


def _first_fraction(xp: Any, value: Array) -> str:
    """Return the first entry that is not a whole number, and its type, for the message."""
    if not is_kind(xp, value.dtype, "real floating") or 0 in value.shape:
        return f"dtype {value.dtype}"
    flat = xp.reshape(value, (-1,))
    index = int(xp.argmin(xp.astype(flat == xp.floor(flat), xp.int8)))
    return f"{_number(xp, flat[index])!r} of dtype {value.dtype}"


def _fault(xp: Any, row: Array) -> str:
    """Return why a row is not a distribution, with the offending number."""
    finite = xp.isfinite(row)
    if not bool(xp.all(finite)):
        stray = int(xp.argmin(xp.astype(finite, xp.int8)))
        return f"holds {_number(xp, row[stray])!r} at entry {stray}"
    if bool(xp.any(row < 0)):
        stray = int(xp.argmin(row))
        return f"holds {_number(xp, row[stray])!r} at entry {stray}"
    return f"sums to {float(xp.sum(xp.astype(row, xp.float64))):.10g}"


def _on_simplex(xp: Any, value: Array) -> Array:
    """Return whether each row is finite, non-negative and sums to 1, up to the rounding of a softmax of its type."""
    unit, slack = epsilon(xp, value.dtype), 1e-4  # chosen above the rounding of float32 at the vocabularies in use
    if unit > 1e-4:  # an entry rounds by half a unit of it, or half the smallest number; the softmax adds to it
        slack = 2 * unit + value.shape[-1] * float(xp.finfo(value.dtype).smallest_normal) * unit / 2
    wide = in_kind(xp, value, xp.float64)
    good = xp.isfinite(wide) & (wide >= 0)
    whole = xp.abs(xp.sum(xp.where(good, wide, xp.zeros_like(wide)), axis=-1) - 1.0) <= slack
    return whole & xp.all(good, axis=-1)


SIMPLEX = Domain(
    "rows of probabilities: finite, non-negative, summing to 1",
    _on_simplex,
    "apply a softmax to logits, or divide each row by its sum",
    rows=True,
)
LOGITS = Domain(
    "rows of logits, finite or -inf where masked",
    lambda xp, value: xp.all(xp.isfinite(value), axis=-1),
    "look for an overflow where they were computed or stored (float16 ends at 65,504)",
    rows=True,
)
_UNMASKED = Domain(
    "rows of logits with a finite one",
    lambda xp, value: xp.any(xp.isfinite(value), axis=-1),
    "leave a token to draw",
    rows=True,
)
UNIT_INTERVAL = Domain("in [0, 1]", lambda xp, value: (value >= 0) & (value <= 1), "give a probability")
COUNT = Domain("a whole number, 0 or more", lambda xp, value: value >= 0, "give a non-negative integer", kind="integer")


def mask(xp: Any, name: str, value: Array) -> Array:
    """Return an array of booleans; raise if it holds anything else."""
    if is_kind(xp, value.dtype, "bool"):
        return value
    raise DomainError(f"{name} must be a mask of booleans; got dtype {value.dtype}; compare, as in values > 0")


def size_up_to(vocabulary: int) -> Domain:
    """Return the domain of k, the number of entries kept: a whole number in 0..V."""
    return Domain(
        f"a whole number in 0..V with V = {vocabulary}",
        lambda xp, value: (value >= 0) & (value <= vocabulary),
        "k counts tokens of a row",
        kind="integer",
    )


def token_of(vocabulary: int) -> Domain:
    """Return the domain of a token: an index in 0..V-1."""
    return Domain(
        f"a token in 0..V-1 with V = {vocabulary}",
        lambda xp, value: (value >= 0) & (value < vocabulary),
        "give the index of an entry of a row",
        kind="integer",
    )


def checked(domains: Mapping[str, Domain], *exact: str, **values: Any) -> tuple[Any, ...]:
    """Return the namespace and its arrays, each checked by the domain of its name; their shapes broadcast.

    The values named in ``exact`` stay float64 even if other arrays are narrower: see :func:`hlmtheory._array.arrays`.
    """
    xp, *given = arrays(*exact, **values)
    named = {name: domains[name].check(xp, name, value) for name, value in zip(values, given, strict=True)}
    broadcast(**{name: tuple(value.shape) for name, value in named.items()})
    return (xp, *named.values())


def numbers(domain: Domain, name: str, value: Any) -> np.ndarray[Any, Any]:
    """Return the checked value as a numpy array: int64 if the domain is of whole numbers, else float64."""
    xp, array = arrays(**{name: value})
    array = domain.check(xp, name, array)
    return to_numpy(array if domain.kind == "integer" else in_kind(xp, array, xp.float64))


def number(domain: Domain, name: str, value: Any) -> Any:
    """Return one checked number: a Python int if the domain is of whole numbers, else a float."""
    array = numbers(domain, name, value)
    if array.ndim:
        raise DomainError(f"{name} must be one number; got shape {array.shape}; call once for each")
    return array.item()


def flag(name: str, value: Any) -> bool:
    """Return True or False; raise for every other value, even one that Python treats as true."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise TypeError(f"{name} must be True or False; got {brief(value)}; give a bool")


def option(name: str, value: Any, choices: Collection[str]) -> str:
    """Return the value if it is one of the choices; raise otherwise."""
    if isinstance(value, str) and value in choices:
        return value
    raise DomainError(f"{name} must be one of {', '.join(choices)}; got {brief(value)}; choose one of them")


def instance(name: str, value: Any, kind: type[Item]) -> Item:
    """Return an object of a class; raise if it is not one."""
    if isinstance(value, kind):
        return value
    raise TypeError(f"{name} must be a {kind.__name__}; got {brief(value)}; make one with {kind.__name__}(...)")


def instances(name: str, value: Any, kind: type[Item]) -> tuple[Item, ...]:
    """Return a sequence of objects of a class as a tuple; raise if it is not one."""
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise TypeError(f"{name} must be a sequence of {kind.__name__}; got {brief(value)}; put them in a list")
    found = tuple(value)
    for place, one in enumerate(found):
        if not isinstance(one, kind):
            raise TypeError(
                f"{name} must hold objects of {kind.__name__}; got {brief(one)} at {place}; make one with "
                f"{kind.__name__}(...)"
            )
    return found


def generator(name: str, value: Any) -> np.random.Generator:
    """Return a numpy generator; raise for anything else, also for the class itself."""
    if isinstance(value, np.random.Generator):
        return value
    raise TypeError(
        f"{name} must be a numpy.random.Generator; got {brief(value)}; make one with numpy.random.default_rng(seed)"
    )


@remembered
def check_logits(xp: Any, logits: Array) -> Array:
    """Return the logits; raise on NaN, +inf and rows with masked entries (-inf, probability 0) only."""
    masked = logits == -np.inf
    LOGITS.check(xp, "logits", xp.where(masked, xp.zeros_like(logits), logits) if logits.ndim else logits)
    return _UNMASKED.check(xp, "logits", logits)


def finite_answer(function: Callable[Given, Answer]) -> Callable[Given, Answer]:
    """Decorate a function so that it raises where float64 cannot hold its result or a number on the way."""

    @wraps(function)
    def guarded(*args: Given.args, **kwargs: Given.kwargs) -> Answer:
        try:
            with np.errstate(over="raise", divide="raise", invalid="raise"):
                answer = function(*args, **kwargs)
            good = all(_is_finite(part) for part in (answer if isinstance(answer, tuple) else (answer,)))
        except (FloatingPointError, OverflowError, ZeroDivisionError):
            good = False
        if not good:
            given = inspect.signature(function).bind(*args, **kwargs).arguments
            listed = ", ".join(f"{name} = {brief(value)}" for name, value in given.items() if name != "self")
            raise DomainError(
                f"the answer must be one that float64 holds; got {listed}; "
                "give numbers nearer to 1, and none by which a division overflows"
            )
        return answer

    return guarded


def _is_finite(value: Any) -> bool:
    if isinstance(value, (float, int)):
        return math.isfinite(value)
    if is_dataclass(value):
        return all(_is_finite(getattr(value, field.name)) for field in fields(value))
    if value is None or isinstance(value, tuple):
        return all(map(_is_finite, value or ()))
    xp, array = arrays(value=value)
    return not is_kind(xp, array.dtype, "real floating") or every(xp, xp.isfinite(array))


def same_vocabulary(**rows: Array) -> None:
    """Raise if rows have different vocabulary sizes."""
    sizes = {name: value.shape[-1] for name, value in rows.items()}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} rows have {size} entries" for name, size in sizes.items())
        raise DomainError(
            f"{' and '.join(sizes)} must share one vocabulary; {listed}; "
            "cut padded heads, or take models with the same tokenizer"
        )


def entry_for_each(unit: str, **shapes: tuple[int, ...]) -> None:
    """Raise if an array has no last axis or an empty one; ``unit`` says what one entry represents."""
    for name, shape in shapes.items():
        if not shape or shape[-1] == 0:
            raise DomainError(f"{name} must have an entry for each {unit}; got shape {shape}; give one or more")


def leading_dimensions(**shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the common batch shape; if no common shape exists, raise with the shape of every argument."""
    return broadcast("leading dimensions", **shapes)


def broadcast(what: str = "shapes", /, **shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the common shape; if no common shape exists, raise with the shape of every argument."""
    different = {shape for shape in shapes.values() if shape}
    if len(different) <= 1:
        return next(iter(different), ())
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError as error:
        listed = ", ".join(f"{name} has {shape}" for name, shape in shapes.items())
        raise DomainError(f"{what} must broadcast; {listed}; reshape one of them") from error


def tree_levels(name: str, rows: Array) -> list[slice]:
    """Return the slice of the rows of each position in a tree (..., N, V)."""
    vocabulary, count = rows.shape[-1], rows.shape[-2] if rows.ndim > 1 else 0
    found, start, size = [], 0, 1
    while start + size <= count:
        found.append(slice(start, start + size))
        start, size = start + size, size * vocabulary
    if start != count or not found:
        raise DomainError(
            f"{name} must be a whole tree of rows; got shape {tuple(rows.shape)}; "
            "give 1 + V + V² + … rows, one for each prefix"
        )
    return found
