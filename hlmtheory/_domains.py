"""What an argument may be: one object that validates, describes and names the value it refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hlmtheory._array import Array, epsilon

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
        "real" or "integer": integers are refused elsewhere than silently rounded.
    rows : bool
        Whether one value is a row (the last axis) rather than a number.
    """

    description: str
    contains: Test
    remedy: str
    kind: str = "real"
    rows: bool = False

    def check(self, xp: Any, name: str, value: Array) -> Array:
        """Return the value unchanged, or raise :class:`DomainError` that names the first stray."""
        if self.kind == "integer" and not xp.isdtype(value.dtype, "integral"):
            raise DomainError(f"{name} must be {self.description}; got dtype {value.dtype}; {self.remedy}")
        if self.rows and (value.ndim == 0 or value.shape[-1] == 0):
            raise DomainError(f"{name} must be {self.description}; got shape {tuple(value.shape)}; {self.remedy}")
        good = self.contains(xp, value)
        if not bool(xp.all(good)):
            raise DomainError(f"{name} must be {self.description}; {self._first(xp, value, good)}; {self.remedy}")
        return value

    def _first(self, xp: Any, value: Array, good: Array) -> str:
        """Where the first stray stands and what it is."""
        flat = xp.reshape(good, (-1,))
        index = int(xp.argmin(xp.astype(flat, xp.int8)))
        place = _unravel(index, tuple(good.shape))
        where = f" at index {place}" if place else ""
        if not self.rows:
            return f"got {xp.reshape(value, (-1,))[index].item()!r}{where}"
        row = xp.reshape(value, (-1, value.shape[-1]))[index, ...]
        return f"got a row{where} that {_fault(xp, row)}"


def _unravel(index: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    place: list[int] = []
    for length in reversed(shape):
        index, here = divmod(index, length)
        place.insert(0, here)
    return tuple(place)


def _fault(xp: Any, row: Array) -> str:
    """Why a row is no distribution, with the offending number."""
    if not bool(xp.all(xp.isfinite(row))):
        stray = int(xp.argmin(xp.astype(xp.isfinite(row), xp.int8)))
        return f"holds {row[stray].item()} at entry {stray}"
    if bool(xp.any(row < 0)):
        stray = int(xp.argmin(row))
        return f"holds {row[stray].item()!r} at entry {stray}"
    return f"sums to {xp.sum(xp.astype(row, xp.float64)).item():.6g}"


def _on_simplex(xp: Any, value: Array) -> Array:
    """Finite, non-negative, and summing to 1 as nearly as a softmax of that type does.

    The slack is 100 units in the last place for float32 and wider, and 2 for the half types, whose
    entries each carry half a unit (a row of bfloat16 sums to 1 within 1/256).
    """
    unit = epsilon(xp, value.dtype)
    slack = max((2 if unit > 1e-4 else 100) * unit, 1e-9)
    wide = xp.astype(value, xp.float64)
    whole = xp.abs(xp.sum(wide, axis=-1) - 1.0) <= slack
    return whole & xp.all(xp.isfinite(value) & (value >= 0), axis=-1)


SIMPLEX = Domain(
    "rows of probabilities: finite, non-negative, summing to 1",
    _on_simplex,
    "apply a softmax to logits, or divide each row by its sum",
    rows=True,
)
LOGITS = Domain(
    "rows of finite logits",
    lambda xp, value: xp.all(xp.isfinite(value), axis=-1),
    "look for an overflow where they were computed or stored (float16 ends at 65,504)",
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
        "k counts tokens, so it cannot exceed the length of a row",
        kind="integer",
    )


def same_vocabulary(target: Array, draft: Array) -> None:
    """Refuse two rows over vocabularies of different size."""
    if target.shape[-1] != draft.shape[-1]:
        raise DomainError(
            f"target and draft must share one vocabulary; target rows have {target.shape[-1]} entries, draft rows "
            f"{draft.shape[-1]}; cut padded heads, or take models with the same tokenizer"
        )
