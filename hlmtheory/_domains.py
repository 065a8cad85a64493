"""What an argument may be: one object that validates, describes and names the value it refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlmtheory._array import Array, epsilon, every, in_kind, is_kind

Test = Callable[[Any, Array], Array]


class DomainError(ValueError):
    """A value outside the domain of its argument: says which, where, what, and the remedy."""


@dataclass(frozen=True, slots=True)
class Domain:
    """A set of admissible values, with the sentence that describes it and the remedy for a stray.

    Parameters
    ----------
    description : str
        Completes "must be ...".
    contains : callable
        ``contains(xp, value) -> bool array``, True where admissible. NaN must give False.
    remedy : str
        What the caller can do.
    kind : str
        "real" or "integer": fractions are refused where whole numbers are meant, rather than rounded.
    rows : bool
        Whether one value is a row (the last axis) rather than a number.
    """

    description: str
    contains: Test
    remedy: str
    kind: str = "real"
    rows: bool = False

    def check(self, xp: Any, name: str, value: Array) -> Array:
        """Return the value, whole numbers as int64, or raise :class:`DomainError` that names the first stray."""
        if not is_kind(xp, value.dtype, "integral" if self.kind == "integer" else ("real floating", "integral")):
            raise DomainError(f"{name} must be {self.description}; got {_first_fraction(xp, value)}; {self.remedy}")
        if self.rows and (value.ndim == 0 or value.shape[-1] == 0):
            raise DomainError(f"{name} must be {self.description}; got shape {tuple(value.shape)}; {self.remedy}")
        if self.kind == "integer":
            value = in_kind(xp, value, xp.int64)  # the type of an index; a narrow one wraps
        good = self.contains(xp, value)
        if not every(xp, good):
            raise DomainError(f"{name} must be {self.description}; {self._first(xp, value, good)}; {self.remedy}")
        return value

    def _first(self, xp: Any, value: Array, good: Array) -> str:
        """Where the first stray stands and what it is."""
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
    """The first entry that is no whole number, and the type, for the message."""
    if not is_kind(xp, value.dtype, "real floating") or 0 in value.shape:
        return f"dtype {value.dtype}"
    flat = xp.reshape(value, (-1,))
    index = int(xp.argmin(xp.astype(flat == xp.floor(flat), xp.int8)))
    return f"{_number(xp, flat[index])!r} of dtype {value.dtype}"


def _fault(xp: Any, row: Array) -> str:
    """Why a row is no distribution, with the offending number."""
    finite = xp.isfinite(row)
    if not bool(xp.all(finite)):
        stray = int(xp.argmin(xp.astype(finite, xp.int8)))
        return f"holds {_number(xp, row[stray])!r} at entry {stray}"
    if bool(xp.any(row < 0)):
        stray = int(xp.argmin(row))
        return f"holds {_number(xp, row[stray])!r} at entry {stray}"
    return f"sums to {float(xp.sum(xp.astype(row, xp.float64))):.10g}"


def _on_simplex(xp: Any, value: Array) -> Array:
    """Finite, non-negative, and summing to 1 as nearly as a softmax of that type may.

    The slack is 1e-4 for float32 and wider. An entry of a half type carries half a unit in the last
    place, or half the spacing of its subnormal numbers, and a row may carry V of those.
    """
    unit, slack = epsilon(xp, value.dtype), 1e-4
    if unit > 1e-4:
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
    "rows of finite logits",
    lambda xp, value: xp.all(xp.isfinite(value), axis=-1),
    "look for an overflow where they were computed or stored (float16 ends at 65,504), cut masked entries off",
    rows=True,
)
UNIT_INTERVAL = Domain(
    "in [0, 1]",
    lambda xp, value: (value >= 0) & (value <= 1),
    "give a probability",
)
COUNT = Domain(
    "a whole number, 0 or more",
    lambda xp, value: value >= 0,
    "give a non-negative integer",
    kind="integer",
)


def size_up_to(vocabulary: int) -> Domain:
    """How many of the vocabulary's entries are kept: a whole number in 0..V."""
    return Domain(
        f"a whole number in 0..V with V = {vocabulary}",
        lambda xp, value: (value >= 0) & (value <= vocabulary),
        "k counts tokens of a row",
        kind="integer",
    )


def token_of(vocabulary: int) -> Domain:
    """A token of the vocabulary: an index in 0..V-1."""
    return Domain(
        f"a token in 0..V-1 with V = {vocabulary}",
        lambda xp, value: (value >= 0) & (value < vocabulary),
        "give the index of an entry of a row",
        kind="integer",
    )


def same_vocabulary(**rows: Array) -> None:
    """Refuse rows over vocabularies of different size."""
    sizes = {name: value.shape[-1] for name, value in rows.items()}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} rows have {size} entries" for name, size in sizes.items())
        raise DomainError(
            f"{' and '.join(sizes)} must share one vocabulary; {listed}; "
            "cut padded heads, or take models with the same tokenizer"
        )


def leading_dimensions(**shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The common batch shape, or a refusal that names every argument."""
    different = {shape for shape in shapes.values() if shape}
    if len(different) <= 1:
        return next(iter(different), ())
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError as error:
        listed = ", ".join(f"{name} has {shape}" for name, shape in shapes.items())
        raise DomainError(f"leading dimensions must broadcast; {listed}; reshape one of them") from error
