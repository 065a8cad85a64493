"""How the values of an argument are drawn from a numpy generator, and which values are outside of its domain.

A formula breaks at the edges of its domain. So each sampler draws them beside common values: ends, ties, powers of 2,
zeros, one-hot and subnormal rows, equal and disjoint supports, and a vocabulary of one token.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Rng = np.random.Generator
Row = np.ndarray[Any, Any]
Shape = tuple[int, ...]


class Draw:
    """A batch of instances while it is drawn; ``draw[name]`` draws an argument when it is first needed."""

    def __init__(
        self,
        rng: Rng,
        batch: Shape,
        sizes: Mapping[str, Callable[[Draw], int]],
        drawn: Callable[[Draw, str], Row],
        takes: Iterable[str] = (),
    ) -> None:
        self.rng, self.batch, self.takes = rng, batch, tuple(takes)
        self._sizes, self._drawn = sizes, drawn
        self.known: dict[str, int] = {}
        self.values: dict[str, Row] = {}

    def size(self, letter: str) -> int:
        """Return the size of a dimension; a digit stands for itself."""
        if letter.isdigit():
            return int(letter)
        if letter not in self.known:
            self.known[letter] = self._sizes[letter](self)
        return self.known[letter]

    def shape(self, axes: str) -> Shape:
        """Return the shape of a batch of arrays with these dimensions."""
        return (*self.batch, *map(self.size, axes))

    def __getitem__(self, name: str) -> Row:
        if name not in self.values:
            self.values[name] = self._drawn(self, name)
        return self.values[name]


@dataclass(frozen=True, slots=True)
class Values:
    """The domain of an argument (completes "must be ..."), how it is drawn, and values outside made from one inside."""

    words: str
    draw: Callable[[Draw, Shape], Row]
    wrong: Callable[[Row], Iterable[Any]]


def entries(*numbers: float) -> Callable[[Row], Iterable[Any]]:
    """Return wrong values: the last entry is one of these numbers."""

    def wrong(value: Row) -> Iterable[Any]:
        for number in numbers:
            other = np.array(value, dtype=np.asarray(number).dtype)
            other.reshape(-1)[-1:] = number
            yield other

    return wrong


def no_rows(value: Row) -> Iterable[Any]:
    """Yield rows that are no distributions: another sum, a NaN, a negative entry."""
    yield np.asarray(value, dtype=np.float64) * 0.97
    yield from entries(math.nan, -0.25)(value)


def pick(rng: Rng, shape: Shape, *choices: Row) -> Row:
    """Return each entry from one of the arrays, chosen at random."""
    return np.choose(rng.integers(0, len(choices), shape), [np.broadcast_to(one, shape) for one in choices])


def spread(rng: Rng, low: float, high: float, shape: Shape) -> Row:
    """Return log-uniform numbers; some are powers of 2 or of 10, so that ties occur."""
    level = rng.uniform(math.log2(low), math.log2(high), shape)
    twos, tens = 2.0 ** np.round(level), 10.0 ** np.round(level * math.log10(2.0))
    return np.clip(pick(rng, shape, 2.0**level, 2.0**level, twos, tens), low, high)


def between(low: float, high: float, *wrong: float) -> Values:
    """Log-uniform numbers; the domain is of positive numbers unless a wrong value says where else it begins."""
    words = "positive and finite"
    if wrong:
        words = {0.5: "1 or more and finite", -1.0: "0 or more and finite"}.get(wrong[0], words)
    return Values(
        words, lambda draw, shape: spread(draw.rng, low, high, shape), entries(*(wrong or (0.0, -1.0, math.nan)))
    )


def zero_or(low: float, high: float) -> Values:
    """Numbers from 0 on; a fifth of them are 0."""

    def draw(draw: Draw, shape: Shape) -> Row:
        return np.where(draw.rng.random(shape) < 0.2, 0.0, spread(draw.rng, low, high, shape))

    return Values("0 or more and finite", draw, entries(-1.0, math.nan))


def whole(low: int, high: int, least: int | None = None) -> Values:
    """Whole numbers, small ones more often; ``least`` is the domain's, if that is below ``low``."""
    lower = low if least is None else least

    def draw(draw: Draw, shape: Shape) -> Row:
        level = np.exp(draw.rng.uniform(0.0, math.log(high - low + 2), shape))
        return pick(draw.rng, shape, low + level.astype(np.int64) - 1, draw.rng.integers(low, high + 1, shape))

    return Values(f"a whole number, {lower} or more", draw, entries(lower - 1, low + 0.5))


def below(axis: str) -> Values:
    """Indices of a dimension."""
    return Values(
        "an index, 0 or more", lambda draw, shape: draw.rng.integers(0, draw.size(axis), shape), entries(-1, 0.5)
    )


def uniform(low: float, high: float, *wrong: float) -> Values:
    """Numbers between two ends."""
    return Values(
        f"in [{low}, {high}]", lambda draw, shape: draw.rng.uniform(low, high, shape), entries(*wrong, math.nan)
    )


def of(*choices: float, wrong: tuple[float, ...] = (-1.0,)) -> Values:
    """One of a few numbers."""
    return Values(f"such as {choices[0]}", lambda draw, shape: draw.rng.choice(choices, shape), entries(*wrong))


def unit(rng: Rng, shape: Shape) -> Row:
    """Return probabilities: eighths, any, near 0 and near 1."""
    small = 10.0 ** rng.uniform(-12.0, -1.0, shape)
    return pick(rng, shape, rng.integers(0, 9, shape) / 8, rng.random(shape), rng.random(shape), small, 1.0 - small)


def inner(rng: Rng, shape: Shape) -> Row:
    """Return numbers in (0, 1): sixteenths, and any."""
    return pick(rng, shape, rng.integers(1, 16, shape) / 16, rng.uniform(1e-3, 0.999, shape))


UNIT = Values("in [0, 1]", lambda draw, shape: unit(draw.rng, shape), entries(-0.5, 1.5, math.nan))
INNER = Values("in (0, 1)", lambda draw, shape: inner(draw.rng, shape), entries(0.0, 1.0, math.nan))
RATE = Values(
    "in (0, 1]",
    lambda draw, shape: np.where(draw.rng.random(shape) < 0.1, 1.0, inner(draw.rng, shape)),
    entries(0.0, 1.5, math.nan),
)


def derived(values: Values, draw: Callable[[Draw, Shape], Row]) -> Values:
    """Return the same domain with another way to draw, such as one that fits other arguments."""
    return Values(values.words, draw, values.wrong)


def normalised(weights: Row) -> Row:
    """Return rows divided by their sum; a row that is nearly empty gets the probability 1 for its first entry."""
    weights = np.array(weights, dtype=np.float64)
    weights[..., 0] += np.sum(weights, axis=-1) < 1e-3
    return np.asarray(weights / np.sum(weights, axis=-1, keepdims=True))


def grid(rng: Rng, shape: Shape) -> Row:
    """Return rows of multiples of 1/4, 1/16 or 1/64: exact in every type, with ties, zeros and one-hot rows."""
    lead = shape[:-1]
    unit = rng.choice([4, 16, 64], (*lead, 1))
    cuts = np.sort(np.floor(rng.random((*lead, shape[-1] - 1)) * (unit + 1)).astype(np.int64), axis=-1)
    ends = np.concatenate([np.zeros_like(unit), cuts, unit], axis=-1)
    return np.asarray(np.diff(ends, axis=-1) / unit)


def rows(rng: Rng, shape: Shape) -> Row:
    """Return distributions: on a coarse grid, of powers of ten down to subnormal numbers, flat and peaked."""
    lead = (*shape[:-1], 1)
    sharp = normalised(rng.gamma(rng.choice([0.02, 0.3, 5.0], lead), size=shape))
    scaled = normalised(10.0 ** -rng.integers(0, 324, shape).astype(np.float64))
    kind = rng.integers(0, 5, lead)
    return np.select(
        [kind == 0, kind == 1, kind == 2], [grid(rng, shape), scaled, normalised(rng.random(shape))], sharp
    )


def flattened(rng: Rng, base: Row) -> Row:
    """Return what a server reconstructs from the top k entries of each row; its residual is 0/0, or only rounding."""
    size = base.shape[-1]
    k = rng.integers(0, size + 1, (*base.shape[:-1], 1))
    rank = np.argsort(np.argsort(-base, axis=-1, kind="stable"), axis=-1, kind="stable")
    tail = np.sum(np.where(rank < k, 0.0, base), axis=-1, keepdims=True)
    return normalised(np.where(rank < k, base, tail / np.maximum(size - k, 1)))


def near(rng: Rng, base: Row) -> Row:
    """Return for each row another: any, the same, with a disjoint support, nearly the same, or flattened."""
    other = rows(rng, base.shape)
    free = np.where(base > 0, 0.0, other + 1.0)
    free = np.where(np.sum(free, axis=-1, keepdims=True) == 0, 1.0, free)
    share = 2.0 ** -rng.integers(1, 53, (*base.shape[:-1], 1)).astype(np.float64)
    kind = rng.integers(0, 7, (*base.shape[:-1], 1))
    choices = [base, normalised(free), normalised((1.0 - share) * base + share * other), flattened(rng, base)]
    return np.select([kind == 0, kind == 1, kind == 2, kind == 3], choices, other)


ROW = Values(
    "rows of probabilities: finite, non-negative, summing to 1", lambda draw, shape: rows(draw.rng, shape), no_rows
)


def beside(name: str) -> Values:
    """Rows for those of another argument: near them, far from them, the same."""
    return derived(ROW, lambda draw, shape: near(draw.rng, draw[name]))


EXACT = derived(ROW, lambda draw, shape: grid(draw.rng, shape))
"""Rows on a coarse grid, whose sums are exact."""
