"""Sides of the theorems on the goodput of speculation under load."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hlmtheory._array import Array
from hlmtheory.serving.costs import tokens_per_step
from hlmtheory.serving.goodput import crossover_batch, goodput, load_batch, round_line
from hlmtheory.sides.host import Values

# T_K(B) = F_K + B S_K, and the gain of K drafts is G(B) = E T_0(B) - T_K(B).

ROUND = ("acceptance", "target_pass", "draft_pass", "draft_length", "context", "overhead_s")
_MOST_HELD = 4096
"""Sequences over which the law of their number is summed; beyond it has less than a rounding where it is in scope."""


class _Round(NamedTuple):
    """E, F_K, S_K, F_0, S_0 and the arguments of an instance."""

    tokens: Array
    fixed: Array
    slope: Array
    alone: Array
    each: Array
    passes: Values

    @property
    def gain(self) -> tuple[Array, Array]:
        return self.tokens * self.alone - self.fixed, self.tokens * self.each - self.slope

    def seconds(self, batch: Array) -> Array:
        return self.fixed + batch * self.slope

    def seconds_alone(self, batch: Array) -> Array:
        return self.alone + batch * self.each

    def ends(self) -> tuple[Array, Array]:
        return crossover_batch(self.tokens, **self.passes)

    def crossing(self) -> Array:
        """Return the batch B* of the crossover; 1 if there is no positive one."""
        low, high = self.ends()
        return np.where(low > 0, low, np.where((high > 0) & np.isfinite(high), high, 1.0))


def _of(one: Values) -> _Round:
    tokens = tokens_per_step(one["acceptance"], one["draft_length"])
    passes = {name: one[name] for name in ROUND[1:]}
    alone = round_line(**(passes | {"draft_length": 0, "overhead_s": 0.0}))
    return _Round(tokens, *round_line(**passes), *alone, passes)


def goodput_there(one: Values) -> float:
    made = _of(one)
    return float(goodput(made.tokens, made.fixed, made.slope, made.crossing()))


def alone_there(one: Values) -> float:
    made = _of(one)
    return float(goodput(1.0, made.alone, made.each, made.crossing()))


def crosses(one: Values) -> bool:
    low, high = _of(one).ends()
    return bool((low > 0) | ((high > 0) & np.isfinite(high)))


def drafting_s(one: Values) -> float:
    return float(_of(one).seconds(one["batch_size"]))


def as_many_tokens_alone_s(one: Values) -> float:
    made = _of(one)
    return float(made.tokens * made.seconds_alone(one["batch_size"]))


def pays_for_one(one: Values) -> bool:
    made = _of(one)
    return bool(made.seconds(1.0) <= made.tokens * made.seconds_alone(1.0))


def cheap_sequence(one: Values) -> bool:
    made = _of(one)
    return bool(made.slope <= made.tokens * made.each)


def held(one: Values) -> float:
    made, load = _of(one), one["load"]
    room = load > 0 and load * made.slope < made.tokens
    return float(load_batch(load if room else 0.0, made.tokens, made.fixed, made.slope))


def held_by_balance(one: Values) -> float:
    """Return the mean number of the law in which as many requests join n - 1 sequences as leave n: a sum over n."""
    made, number = _of(one), np.arange(1.0, _MOST_HELD)
    with np.errstate(divide="ignore"):
        log = np.cumsum(np.log(one["load"]) + np.log(made.seconds(number)) - np.log(number * made.tokens))
    top = max(float(log.max()), 0.0)
    weight = np.exp(log - top)
    return float(number @ weight / (np.exp(-top) + weight.sum()))


def digits_of_the_sum(one: Values) -> float:
    """Return the rounding of the logarithms, whose sums have as many terms as there are sequences."""
    made, load = _of(one), one["load"]
    left = np.maximum(made.tokens - load * made.slope, 0.1 * made.tokens)
    return float(16.0 * (1.0 + load * made.seconds(1.0) / left) ** 2)


def summed_side(one: Values) -> bool:
    made, load = _of(one), one["load"]
    left = made.tokens - load * made.slope
    return bool((left >= 0.1 * made.tokens) & (load * made.fixed <= 400.0 * left))


def held_at(fewer: float, *, drafting: bool) -> Callable[[Values], float]:
    """Return the sequences at a part of the load (B* - fewer)/T_0(B*), 0 if no B* exists, under random arrivals."""

    def of(one: Values) -> float:
        made = _of(one)
        batch = made.crossing() if upper(one) else 1.0
        load = one["mix"] * upper(one) * (batch - fewer) / made.seconds_alone(batch)
        line = (made.tokens, made.fixed, made.slope) if drafting else (1.0, made.alone, made.each)
        return float(load_batch(load, *line))

    return of


def upper(one: Values) -> bool:
    start, rise = _of(one).gain
    return bool((start > 0) & (rise < 0) & (start + rise >= 0))


def digits_near_the_crossing(one: Values) -> float:
    """Return the rounding of both batches: 1/(E - load·S) magnifies it."""
    made = _of(one)
    batch = made.crossing()
    lost = made.seconds(batch) / made.seconds(1.0) + made.seconds_alone(batch) / made.seconds_alone(1.0)
    return float(16.0 * lost * batch)
