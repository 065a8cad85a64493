"""Claims on the goodput of speculation under load, each with its proof above its record."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from hlmtheory._array import Array
from hlmtheory._domains import COUNT, UNIT_INTERVAL
from hlmtheory._sides import Values, host_side
from hlmtheory.claims import Assumption, Attained, Claim, Origin, Relation, Source
from hlmtheory.serving.costs import tokens_per_step
from hlmtheory.serving.goodput import LOAD, crossover_batch, goodput, load_batch, round_line
from hlmtheory.serving.shapes import LENGTH, POSITIVE_COUNT, SECONDS

# Proofs, by the last part of the id. T_K(B) = F_K + B S_K, and the gain of K drafts is G(B) = E T_0(B) - T_K(B).
#
# goodput_crossover. G is affine, G(B) = u + v B, so it is 0 at B* = -u/v alone, where B/T_0 = B E/T_K.
# goodput_everywhere. False: a token of the target's pass takes b. With u > 0 > v, K drafts lose from -u/v on.
# goodput_long. G(B) = G(1) + v (B - 1), and both terms are 0 or more. With c C large, v/(c C) tends to
#   E - 1 - K c_d/c: over a long context drafts pay at every batch if a cached token is cheap for the draft model.
# load_poisson. Let requests arrive at the rate λ, with G tokens in the mean, load = λG. If an answer takes many rounds,
#   n sequences share the rate n E/T(n) evenly, and an arrival joins at once: processor sharing. Then the number in the
#   server has the law π(n) ∝ Π_{i≤n} load T(i)/(i E), whatever the law of G (kelly1979reversibility, insensitivity).
#   With p = load S/E the factors are p (F/S + i)/i: the number is negative binomial with the mean (F/S + 1) p/(1 - p) =
#   load (F + S)/(E - load S); for S = 0 it is Poisson with the mean load F/E.
# goodput_light. With T_K(1) for F + S in both means, and E T_0(B*) = T_K(B*): load (F_K + S_K)/(E - load S_K) ≤ load
#   (F_0 + S_0)/(1 - load S_0) is load (F_0 S_K - S_0 F_K) ≤ G(1) = v (1 - B*), linear in the load, and both sides are
#   B* - 1 at the load (B* - 1)/T_0(B*). By Little's law a token then waits no longer.
# goodput_light_even. False: with requests that arrive evenly B*/T_0(B*) is where both hold B*. At random drafts, whose
#   rounds take longer for each sequence, hold more from (B* - 1)/T_0(B*) on.

_SMART, _LATENCY = "liu2024goodput", "kong2026latency"
_ROUND = ("acceptance", "target_pass", "draft_pass", "draft_length", "context", "overhead_s")
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
    passes = {name: one[name] for name in _ROUND[1:]}
    alone = round_line(**(passes | {"draft_length": 0, "overhead_s": 0.0}))
    return _Round(tokens, *round_line(**passes), *alone, passes)


def _goodput_there(one: Values) -> float:
    made = _of(one)
    return float(goodput(made.tokens, made.fixed, made.slope, made.crossing()))


def _alone_there(one: Values) -> float:
    made = _of(one)
    return float(goodput(1.0, made.alone, made.each, made.crossing()))


def _crosses(one: Values) -> bool:
    low, high = _of(one).ends()
    return bool((low > 0) | ((high > 0) & np.isfinite(high)))


def _drafting_s(one: Values) -> float:
    return float(_of(one).seconds(one["batch_size"]))


def _as_many_tokens_alone_s(one: Values) -> float:
    made = _of(one)
    return float(made.tokens * made.seconds_alone(one["batch_size"]))


def _pays_for_one(one: Values) -> bool:
    made = _of(one)
    return bool(made.seconds(1.0) <= made.tokens * made.seconds_alone(1.0))


def _cheap_sequence(one: Values) -> bool:
    made = _of(one)
    return bool(made.slope <= made.tokens * made.each)


def _held(one: Values) -> float:
    made, load = _of(one), one["load"]
    room = load > 0 and load * made.slope < made.tokens
    return float(load_batch(load if room else 0.0, made.tokens, made.fixed, made.slope))


def _held_by_balance(one: Values) -> float:
    """Return the mean number of the law in which as many requests join n - 1 sequences as leave n: a sum over n."""
    made, number = _of(one), np.arange(1.0, _MOST_HELD)
    with np.errstate(divide="ignore"):
        log = np.cumsum(np.log(one["load"]) + np.log(made.seconds(number)) - np.log(number * made.tokens))
    top = max(float(log.max()), 0.0)
    weight = np.exp(log - top)
    return float(number @ weight / (np.exp(-top) + weight.sum()))


def _digits_of_the_sum(one: Values) -> float:
    """Return the rounding of the logarithms, whose sums have as many terms as there are sequences."""
    made, load = _of(one), one["load"]
    left = np.maximum(made.tokens - load * made.slope, 0.1 * made.tokens)
    return float(16.0 * (1.0 + load * made.seconds(1.0) / left) ** 2)


def _summed(one: Values) -> bool:
    made, load = _of(one), one["load"]
    left = made.tokens - load * made.slope
    return bool((left >= 0.1 * made.tokens) & (load * made.fixed <= 400.0 * left))


def _held_at(fewer: float, *, drafting: bool) -> Callable[[Values], float]:
    """Return the sequences at a part of the load (B* - fewer)/T_0(B*), 0 if no B* exists, under random arrivals."""

    def of(one: Values) -> float:
        made = _of(one)
        batch = made.crossing() if _upper(one) else 1.0
        load = one["mix"] * _upper(one) * (batch - fewer) / made.seconds_alone(batch)
        line = (made.tokens, made.fixed, made.slope) if drafting else (1.0, made.alone, made.each)
        return float(load_batch(load, *line))

    return of


def _upper(one: Values) -> bool:
    start, rise = _of(one).gain
    return bool((start > 0) & (rise < 0) & (start + rise >= 0))


def _digits_near_the_crossing(one: Values) -> float:
    """Return the rounding of both batches: 1/(E - load·S) magnifies it."""
    made = _of(one)
    batch = made.crossing()
    lost = made.seconds(batch) / made.seconds(1.0) + made.seconds_alone(batch) / made.seconds_alone(1.0)
    return float(16.0 * lost * batch)


_DOMAINS = {
    **dict.fromkeys(("acceptance", "mix"), UNIT_INTERVAL),
    **dict.fromkeys(("target_pass", "draft_pass", "overhead_s"), SECONDS),
    "draft_length": COUNT,
    "context": LENGTH,
    "batch_size": POSITIVE_COUNT,
    "load": LOAD,
}
_side = partial(host_side, _DOMAINS, {"target_pass": 1, "draft_pass": 1})
_test = partial(_side, test=True)
_CASE = {
    "acceptance": 0.5,
    "target_pass": [1.0, 0.125, 0.0],
    "draft_pass": [0.125, 0.0, 0.0],
    "draft_length": 2,
    "context": 0.0,
    "overhead_s": 0.0,
}
"""E = 1.75 and T_2 = 1.25 + 0.375 B: drafts lose from B = 0.5/0.15625 = 3.2 on."""
_EQUAL = _CASE | {"target_pass": [1.0, 0.5, 0.0], "draft_pass": [0.0, 0.0, 0.0], "draft_length": 1}
"""E = 1.5, F = S = 1: ten sequences at the load 1.25 if requests arrive at random, five if they arrive evenly."""

_AT_ONE = Assumption("drafts pay at batch 1", _test(_pays_for_one, *_ROUND))
_SUMMED = Assumption("load ≤ 0.9 E/S and few sequences: the law can be summed", _test(_summed, *_ROUND, "load"))

CLAIMS = (
    Claim(
        id="serving.goodput_crossover",
        source=Source(_SMART, "from its batch time"),
        statement="at the batch B* = -u/v the goodput with K drafts is that of the target model alone",
        relation=Relation.EQ,
        lhs=_side(_goodput_there, *_ROUND),
        rhs=_side(_alone_there, *_ROUND),
        assumptions=(Assumption("the two goodputs meet at a positive batch", _test(_crosses, *_ROUND)),),
        attained=Attained(_CASE),
    ),
    Claim(
        id="serving.goodput_everywhere",
        source=Source(_SMART, "a reading of speedups at batch 1"),
        origin=Origin.IMPLIED,
        statement="K drafts that pay at batch 1 pay at every batch: T_K(B) ≤ E T_0(B)",
        lhs=_side(_drafting_s, *_ROUND, "batch_size"),
        rhs=_side(_as_many_tokens_alone_s, *_ROUND, "batch_size"),
        assumptions=(_AT_ONE,),
        refuted=_CASE | {"batch_size": 8},
    ),
    Claim(
        id="serving.goodput_long",
        source=Source(_SMART, "from its batch time"),
        statement="K drafts that pay at batch 1 pay at every batch if S_K ≤ E S_0, as over a long context",
        lhs=_side(_drafting_s, *_ROUND, "batch_size"),
        rhs=_side(_as_many_tokens_alone_s, *_ROUND, "batch_size"),
        assumptions=(_AT_ONE, Assumption("S_K ≤ E S_0", _test(_cheap_sequence, *_ROUND))),
        attained=Attained(
            _CASE | {"acceptance": 1.0, "draft_pass": [1.0, 0.0, 0.0], "draft_length": 1, "batch_size": 3}
        ),
    ),
    Claim(
        id="serving.load_poisson",
        source=Source("kelly1979reversibility", "symmetric queues; the batch time of liu2024goodput"),
        statement=(
            "load·(F + S)/(E - load·S) = the mean number of sequences, Σ n π(n), π(n) ∝ Π_{i≤n} load·T(i)/(i E), if "
            "requests arrive at random (Poisson) and share every round"
        ),
        relation=Relation.EQ,
        lhs=_side(_held, *_ROUND, "load"),
        rhs=_side(_held_by_balance, *_ROUND, "load"),
        assumptions=(
            Assumption("load ≤ 0.9 E/S, few sequences: the law can be summed", _test(_summed, *_ROUND, "load")),
        ),
        condition=_side(_digits_of_the_sum, *_ROUND, "load"),
        attained=Attained(_EQUAL | {"load": 1.25}),
    ),
    Claim(
        id="serving.goodput_light",
        source=Source(_LATENCY, "the batch by Little's law"),
        statement=(
            "up to the load (B* − 1)/T_0(B*) of requests that arrive at random (Poisson), K drafts hold no more "
            "sequences in the server than no drafts"
        ),
        lhs=_side(_held_at(1.0, drafting=True), *_ROUND, "mix"),
        rhs=_side(_held_at(1.0, drafting=False), *_ROUND, "mix"),
        assumptions=(Assumption("drafts pay at batch 1 and lose above B*", _test(_upper, *_ROUND)),),
        attained=Attained(_CASE | {"mix": 1.0}),
        condition=_side(_digits_near_the_crossing, *_ROUND, "mix"),
    ),
    Claim(
        id="serving.goodput_light_even",
        source=Source(_LATENCY, "the batch by Little's law"),
        origin=Origin.IMPLIED,
        statement="the same up to the load B*/T_0(B*), at which requests that arrive evenly hold as many either way",
        lhs=_side(_held_at(0.0, drafting=True), *_ROUND, "mix"),
        rhs=_side(_held_at(0.0, drafting=False), *_ROUND, "mix"),
        assumptions=(Assumption("drafts pay at batch 1 and lose above B*", _test(_upper, *_ROUND)),),
        refuted=_CASE | {"mix": 1.0},
        condition=_side(_digits_near_the_crossing, *_ROUND, "mix"),
    ),
)
