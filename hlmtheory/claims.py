"""A theorem as a function, and the record of it: what it says, where, under which assumptions, and how it is checked.

One record serves four readers: the property tests, the check on real traces, the report, and ``hlm claims``. The
files of :mod:`hlmtheory.theorems` hold them.
"""

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from hlmtheory._array import Array, arrays, in_kind, is_kind, to_numpy
from hlmtheory._remember import recall
from hlmtheory._simplex import distributions

Instance = Mapping[str, Array]
"""Named arrays with leading batch dimensions: ``{"draft": (..., V), "target": (..., V)}``."""

PROBABILITY_ROWS = frozenset({"draft", "target"})
"""Arguments of these names are probability rows everywhere in the project."""

UNIT = 64 * float(np.finfo(np.float64).eps)
"""Rounding error allowed in a side that adds no rows, per unit of its condition number."""

COARSE = 1e-6
"""Largest rounding tolerance of a decision, per unit of the larger side where that exceeds 1.

Above it the instance is too ill-conditioned for float64.
"""


class Relation(Enum):
    """Relation between the left and the right side."""

    LE = "≤"
    EQ = "="


class Origin(Enum):
    """Who states it. MISPRINT: printed, with an evident repair; IMPLIED: a reading; SOFTWARE: a check of our code."""

    PRINTED = "printed"
    MISPRINT = "misprint"
    IMPLIED = "implied"
    CORRECTED = "corrected"
    KNOWN = "known"
    NEW = "new"
    SOFTWARE = "software"


PRINTED, MISPRINT, IMPLIED, CORRECTED, KNOWN, NEW, SOFTWARE = Origin

FALSE = {Origin.PRINTED: "refuted", Origin.MISPRINT: "misprint", Origin.IMPLIED: "false reading"}
"""The name of a false statement, by its origin. No other origin has false statements."""


class Status(Enum):
    """Outcome of checking one instance."""

    HOLDS = "holds"
    VIOLATED = "violated"
    OUT_OF_SCOPE = "out of scope"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class Source:
    """Key of ``references.bib``, and the place in that work."""

    key: str
    place: str


@dataclass(frozen=True, slots=True)
class Assumption:
    """Condition of a claim; ``holds`` takes arrays of the instance by name."""

    statement: str
    holds: Callable[..., Array]


@dataclass(frozen=True, slots=True)
class Attained:
    """Instance with the largest known lhs/rhs, and that ratio (1 for a sharp bound)."""

    instance: Instance
    ratio: float = 1.0


_RELATIONS = WeakKeyDictionary[Callable[..., Any], Relation]()
"""The relation that a claim's function returns, once it was called for it."""


class Sides(NamedTuple):
    """Relation of two arrays, or of two functions that take arrays of the instance by name: what a theorem returns."""

    relation: Relation
    lhs: Any
    rhs: Any


def le(lhs: Any, rhs: Any) -> Sides:
    """Return the sides of a bound, lhs ≤ rhs."""
    return Sides(Relation.LE, lhs, rhs)


def eq(lhs: Any, rhs: Any) -> Sides:
    """Return the sides of an identity, lhs = rhs."""
    return Sides(Relation.EQ, lhs, rhs)


@dataclass(frozen=True, slots=True)
class Proof:
    """Text that proves a claim or says why it is false, with its file in the repository and its line."""

    file: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of a check on a batch of instances; every array has the batch's shape.

    ``lhs``, ``rhs`` and ``slack`` (rhs - lhs for ≤, -|lhs - rhs| for =) are NaN out of scope. ``vacuous``: in scope
    with a right side of at least the ceiling. ``broken`` counts the instances by failed assumption.
    """

    claim: str
    status: np.ndarray[Any, Any]
    lhs: np.ndarray[Any, Any]
    rhs: np.ndarray[Any, Any]
    slack: np.ndarray[Any, Any]
    vacuous: np.ndarray[Any, Any]
    broken: Mapping[str, int] = field(default_factory=dict)

    def count(self, status: Status) -> int:
        """Return the number of instances with this status."""
        return int(np.count_nonzero(self.status == status))

    @property
    def instances(self) -> int:
        """Return the size of the batch."""
        return int(self.status.size)

    @property
    def in_scope(self) -> int:
        """Return the number of instances that meet every assumption."""
        return self.instances - self.count(Status.OUT_OF_SCOPE)

    @property
    def holds(self) -> bool:
        """Return whether at least one instance is in scope and the claim holds on all of those."""
        return self.in_scope > 0 and self.count(Status.HOLDS) == self.in_scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Statement that can be checked on instances, with a stable id ``module.name``.

    ``sides``, ``condition`` and ``error`` take arrays of the instance by name. ``attained`` is the tightest
    instance known, None only for a false claim, which has ``refuted``. ``ceiling`` bounds the left side. ``condition``
    is the factor by which the sides magnify a rounding of a probability, ``error`` the half-width of an estimated
    side's interval. ``law``: what the counterexample gives in place of the target's law, where the sides compare them.
    """

    id: str
    source: Source
    origin: Origin = Origin.NEW
    statement: str
    proof: Proof
    sides: Callable[..., Sides]
    attained: Attained | None = None
    assumptions: tuple[Assumption, ...] = ()
    ceiling: float | None = None
    condition: Callable[..., Array] | None = None
    error: Callable[..., Array] | None = None
    refuted: Instance | None = None
    law: Callable[..., Array] | None = None

    @property
    def standing(self) -> str:
        """``"true"``, ``"refuted"`` (printed), ``"misprint"`` or ``"false reading"``; raise if they do not fit."""
        if self.refuted is None and self.origin is not Origin.MISPRINT:
            return "true"
        if self.refuted is None or self.origin not in FALSE:
            remedy = "a counterexample" if self.refuted is None else "PRINTED, MISPRINT or IMPLIED as its origin"
            raise ValueError(f"origin must fit refuted: {self.id} is {self.origin.name}; it needs {remedy}")
        return FALSE[self.origin]

    @property
    def kind(self) -> str:
        """The origin of a true statement; of another one its standing."""
        return self.origin.value if self.standing == "true" else self.standing

    @property
    def conditioned(self) -> str:
        """The statement, and the assumptions that it does not name itself."""
        further = [one.statement for one in self.assumptions if one.statement not in self.statement]
        return self.statement + (f"; assumes {'; '.join(further)}" if further else "")

    @property
    def relation(self) -> Relation:
        """Return the relation of the sides; it is the same on every instance."""
        if self.sides not in _RELATIONS:
            instance = self.refuted if self.attained is None else self.attained.instance
            values = {name: _in_float64(name, value) for name, value in (instance or {}).items()}
            _RELATIONS[self.sides] = self.sides(**{name: values[name] for name in _parameters(self.sides)}).relation
        return _RELATIONS[self.sides]

    @property
    def takes(self) -> tuple[str, ...]:
        """Return the names of the arrays that an instance must hold."""
        functions = [self.sides, self.condition, self.error, *(a.holds for a in self.assumptions)]
        names = [name for f in functions if f is not None for name in _parameters(f)]
        return tuple(dict.fromkeys(names))

    def check(self, instance: Instance) -> Verdict:
        """Check the claim on every instance of a batch, which holds exactly the arrays of :attr:`takes`.

        Arrays become float64 and probability rows are divided by their sum. The only rounding allowed is
        :func:`tolerance`; an instance that needs more than ``COARSE``, relative to a larger side above 1, is
        INCONCLUSIVE.
        """
        missing = [name for name in self.takes if name not in instance]
        unknown = [name for name in instance if name not in self.takes]
        if missing or unknown:
            raise TypeError(f"{self.id} takes {', '.join(self.takes)}; missing {missing}, unknown {unknown}")
        values = {name: _in_float64(name, value) for name, value in instance.items()}
        relation, *sides = self.sides(**{name: values[name] for name in _parameters(self.sides)})
        lhs, rhs = (side.copy() for side in np.broadcast_arrays(*map(_side, sides)))
        inside, broken = self._scope(values, lhs.shape)
        condition = 1.0 if self.condition is None else _side(self._apply(self.condition, values))
        error = 0.0 if self.error is None else _side(self._apply(self.error, values))

        with np.errstate(invalid="ignore"):
            gap = np.abs(lhs - rhs) if relation is Relation.EQ else lhs - rhs
            gap = np.where(lhs == rhs, 0.0, gap)  # two infinities agree
            larger = np.maximum(np.abs(lhs), np.abs(rhs))
            larger = np.where(np.isfinite(larger), larger, 0.0)
            rounding = tolerance(_row_length(values, lhs.shape), larger + condition)
            fine = gap <= rounding + error
            certain = (fine & (error == 0) & (rounding <= COARSE * np.maximum(larger, 1.0))) | (gap <= -error)
            vacuous = inside & (rhs >= self.ceiling) if self.ceiling is not None else np.zeros_like(inside)
        status = np.full(lhs.shape, Status.VIOLATED, dtype=object)
        status[fine] = Status.INCONCLUSIVE
        status[certain] = Status.HOLDS
        status[~inside] = Status.OUT_OF_SCOPE
        lhs[~inside] = rhs[~inside] = np.nan
        return Verdict(self.id, status, lhs, rhs, np.where(inside, 0.0 - gap, np.nan), vacuous, broken)

    def inside(self, instance: Instance) -> np.ndarray[Any, Any]:
        """Return which instances of a batch meet every assumption; True if the claim has no assumption."""
        values = {name: _in_float64(name, value) for name, value in instance.items()}
        met = [np.asarray(to_numpy(self._apply(one.holds, values))) for one in self.assumptions]
        return np.asarray(np.all(np.broadcast_arrays(*met), axis=0)) if met else np.array(True)

    def plain(self) -> dict[str, Any]:
        """Return the record as values that JSON knows, each instance whole; an infinity is the word."""
        instance = self.refuted if self.attained is None else self.attained.instance
        values = {name: to_numpy(value).tolist() for name, value in (instance or {}).items()}
        values = {name: str(value) if value == np.inf else value for name, value in values.items()}
        return {
            "id": self.id,
            "statement": self.statement,
            "status": self.standing,
            "origin": self.origin.value,
            "source": {"key": self.source.key, "place": self.source.place},
            "relation": self.relation.value,
            "assumptions": [assumption.statement for assumption in self.assumptions],
            "takes": list(self.takes),
            "ceiling": self.ceiling,
            "largest_ratio_known": self.attained and self.attained.ratio,
            "tight_case": self.attained and values,
            "counterexample": self.refuted and values,
            "proof": self.proof.text,
            "proof_at": f"{self.proof.file}, line {self.proof.line}",
        }

    def _apply(self, function: Callable[..., Array], values: Instance) -> Array:
        return recall(function, (), {name: values[name] for name in _parameters(function)})

    def _scope(self, values: Instance, shape: tuple[int, ...]) -> tuple[np.ndarray[Any, Any], dict[str, int]]:
        """Return where all assumptions hold, and how often each failed."""
        inside = np.ones(shape, dtype=bool)
        broken: dict[str, int] = {}
        for assumption in self.assumptions:
            met = np.broadcast_to(to_numpy(self._apply(assumption.holds, values)), shape)
            inside &= met
            if not met.all():
                broken[assumption.statement] = int(np.count_nonzero(~met))
        return inside, broken


def theorem(
    id: str,
    source: Source,
    origin: Origin = Origin.NEW,
    *,
    tight: Instance | None = None,
    ratio: float = 1.0,
    false: Instance | None = None,
    assuming: tuple[Assumption, ...] = (),
    ceiling: float | None = None,
    condition: Callable[..., Array] | None = None,
    error: Callable[..., Array] | None = None,
    law: Callable[..., Array] | None = None,
) -> Callable[[Callable[..., Sides]], Claim]:
    """Return a decorator that makes a claim of a function: its docstring is the statement, and then the proof.

    ``tight`` is the attained instance and ``ratio`` its lhs/rhs; ``false`` is the counterexample of a false statement;
    the other options are those of :class:`Claim`. The function takes arrays of the instance by name and returns
    :func:`le` or :func:`eq` of two arrays. Or it takes nothing and returns them of two functions of the arrays.
    """

    def claim(function: Callable[..., Sides]) -> Claim:
        statement, _, proof = inspect.cleandoc(function.__doc__ or "").partition("\n\n")
        if not proof:
            raise ValueError(f"a theorem must have a proof; got none for {id!r}; add it below the statement")
        proof = "\n\n".join(" ".join(part.split()) for part in proof.split("\n\n"))
        code = function.__code__
        file, folders = Path(code.co_filename), (Path(__file__).parents[1], Path.cwd())  # a user's own lies elsewhere
        file = next((file.relative_to(folder) for folder in folders if file.is_relative_to(folder)), file)
        return Claim(
            id=id,
            source=source,
            origin=origin,
            statement=statement.replace("\n", " ").removesuffix("."),
            proof=Proof(file.as_posix(), code.co_firstlineno, proof),
            sides=function if _parameters(function) else _applied(function()),
            attained=None if tight is None else Attained(tight, ratio),
            assumptions=assuming,
            ceiling=ceiling,
            condition=condition,
            error=error,
            refuted=false,
            law=law,
        )

    return claim


def lemmas(claim: Claim, known: Collection[str]) -> list[str]:
    """Return the ids of the claims that a proof names, with their module or, within the module, without it."""
    module, _, own = claim.id.partition(".")
    words = re.findall(r"(?<![\w.])[a-z][a-z_0-9]*(?:\.[a-z_0-9]+)?", claim.proof.text)
    full = [word if "." in word else f"{module}.{word}" for word in words if "." in word or "_" in word]
    return [name for name in dict.fromkeys(full) if name in known and name != f"{module}.{own}"]


def repaired(claim: Claim, known: Collection[str]) -> tuple[str, list[str], list[str]]:
    """Return a proof without its label and its sentence "Instead: ID.", what else it names, and what this names."""
    text, _, instead = claim.proof.text.removeprefix("False: ").partition("Instead: ")
    better = re.findall(r"[a-z_]+\.\w+", instead) if claim.standing != "true" else []
    return text.rstrip(), [name for name in lemmas(claim, known) if name not in better], better


def _applied(sides: Sides) -> Callable[..., Sides]:
    """Return the function of the arrays whose sides are those of two functions, each remembered."""
    takes = {side: _parameters(side) for side in sides[1:]}

    def apply(**values: Array) -> Sides:
        lhs, rhs = (recall(f, (), {name: values[name] for name in takes[f]}) for f in sides[1:])
        return Sides(sides.relation, lhs, rhs)

    names = dict.fromkeys(name for side in takes.values() for name in side)
    parameters = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names]
    apply.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return apply


def tolerance(terms: int, scale: Any) -> Any:
    """Return the rounding error allowed between two sides: ε (64 + 2n) times a scale, ε = 2^-52.

    A sum of n numbers misses by at most n ε/2 times their magnitudes (Higham (4.4)); no side has more than four sums
    over a row one inside the other, and fewer than 128 further roundings. The scale is the larger side plus the
    condition.
    """
    return UNIT * (1.0 + terms / 32.0) * scale


def _row_length(values: Instance, batch: tuple[int, ...]) -> int:
    """Return the entries of the longest row; an array that broadcasts to the batch has a number for each instance."""
    shapes = [tuple(value.shape) for value in values.values()]
    rows = [shape for shape in shapes if not _broadcasts(shape, batch)]
    return max((shape[-1] for shape in rows), default=0)


def _broadcasts(shape: tuple[int, ...], batch: tuple[int, ...]) -> bool:
    same_end = batch[len(batch) - len(shape) :]
    return len(shape) <= len(batch) and all(size in (1, whole) for size, whole in zip(shape, same_end, strict=True))


@cache
def _parameters(function: Callable[..., Array]) -> tuple[str, ...]:
    """Return the names of the arrays that a side takes; cached, because every check needs them."""
    return tuple(inspect.signature(function).parameters)


def _in_float64(name: str, value: Any) -> Array:
    """Return real floating arrays in float64, probability rows normalised there, and integers unchanged."""
    if name in PROBABILITY_ROWS:
        return distributions(**{name: value})[2]
    xp, value = arrays(value=value)
    return in_kind(xp, value, xp.float64) if is_kind(xp, value.dtype, "real floating") else value


def _side(value: Any) -> np.ndarray[Any, Any]:
    return np.array(to_numpy(value), dtype=np.float64)
