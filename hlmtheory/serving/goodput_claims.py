"""Claims on the goodput of speculation under load, each with its proof above its record."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any, NamedTuple

import numpy as np

from hlmtheory._array import Array
from hlmtheory._domains import UNIT_INTERVAL, numbers
from hlmtheory.claims import Assumption, Attained, Claim, Origin, Relation, Source
from hlmtheory.serving.costs import tokens_per_step
from hlmtheory.serving.goodput import LOAD, crossover_batch, goodput, load_batch, round_line
from hlmtheory.serving.shapes import POSITIVE_COUNT

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
#   load (F + S)/(E - load S); for S = 0 it is Poisson with the mean load F/E. In rounds: if a share δ of the sequences
#   ends in each, the batch has over rounds the mean μ = load F/(E - load S) and the variance V from δμ(2 - δ) =
#   V (1 - (1 - δ + δp)²); over time its mean is μ + S V/(F + S μ), which tends to the same as δ → 0.
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
    given: dict[str, Any]

    @property
    def gain(self) -> tuple[Array, Array]:
        """Return u and v."""
        return self.tokens * self.alone - self.fixed, self.tokens * self.each - self.slope

    def seconds(self, batch: Array) -> Array:
        """Return T_K(B)."""
        return self.fixed + batch * self.slope

    def seconds_alone(self, batch: Array) -> Array:
        """Return T_0(B)."""
        return self.alone + batch * self.each

    def ends(self) -> tuple[Array, Array]:
        """Return the batches between which drafts pay."""
        passes = {name: value for name, value in self.given.items() if name != "acceptance"}
        return crossover_batch(self.tokens, **passes)

    def crossing(self) -> Array:
        """Return the batch B* of the crossover; 1 if there is no positive one."""
        low, high = self.ends()
        return np.where(low > 0, low, np.where((high > 0) & np.isfinite(high), high, 1.0))


def _round(**given: Array) -> _Round:
    tokens = tokens_per_step(given["acceptance"], given["draft_length"])
    passes = {name: value for name, value in given.items() if name != "acceptance"}
    line = round_line(**passes)
    alone = round_line(**(passes | {"draft_length": 0, "overhead_s": 0.0}))
    return _Round(tokens, *line, *alone, given)


def _of(*extra: str) -> Callable[[Callable[..., Array]], Callable[..., Array]]:
    """Return a decorator: the side takes the round of an instance, then these arguments of it."""

    def decorate(side: Callable[..., Array]) -> Callable[..., Array]:
        def function(**given: Array) -> Array:
            return side(_round(**{name: given[name] for name in _ROUND}), *(given[name] for name in extra))

        names = [Parameter(name, Parameter.KEYWORD_ONLY) for name in (*_ROUND, *extra)]
        function.__signature__ = Signature(names)  # type: ignore[attr-defined]
        return function

    return decorate


@_of()
def _goodput_there(one: _Round) -> Array:
    return goodput(one.tokens, one.fixed, one.slope, one.crossing())


@_of()
def _alone_there(one: _Round) -> Array:
    return goodput(1.0, one.alone, one.each, one.crossing())


@_of()
def _crosses(one: _Round) -> Array:
    low, high = one.ends()
    return (low > 0) | ((high > 0) & np.isfinite(high))


@_of("batch_size")
def _drafting_s(one: _Round, batch_size: Array) -> Array:
    return one.seconds(numbers(POSITIVE_COUNT, "batch_size", batch_size))


@_of("batch_size")
def _as_many_tokens_alone_s(one: _Round, batch_size: Array) -> Array:
    return one.tokens * one.seconds_alone(numbers(POSITIVE_COUNT, "batch_size", batch_size))


@_of()
def _pays_for_one(one: _Round) -> Array:
    return one.seconds(1.0) <= one.tokens * one.seconds_alone(1.0)


@_of()
def _cheap_sequence(one: _Round) -> Array:
    return one.slope <= one.tokens * one.each


def _has_room(one: _Round, load: Array) -> Array:
    return (load > 0) & (load * one.slope < one.tokens)


@_of("load")
def _held(one: _Round, load: Array) -> Array:
    asked = numbers(LOAD, "load", load)
    return load_batch(np.where(_has_room(one, asked), asked, 0.0), one.tokens, one.fixed, one.slope)


@_of("load")
def _held_by_balance(one: _Round, load: Array) -> Array:
    """Return the mean number of the law in which as many requests join n - 1 sequences as leave n: a sum over n."""
    number = np.arange(1.0, _MOST_HELD)
    asked = numbers(LOAD, "load", load)[..., None]
    tokens, fixed, slope = (side[..., None] for side in (one.tokens, one.fixed, one.slope))
    with np.errstate(divide="ignore"):
        log = np.cumsum(np.log(asked) + np.log(fixed + number * slope) - np.log(number * tokens), axis=-1)
    top = np.maximum(np.max(log, axis=-1, keepdims=True), 0.0)
    weight = np.exp(log - top)
    return np.sum(number * weight, axis=-1) / (np.exp(-top[..., 0]) + np.sum(weight, axis=-1))


@_of("load")
def _digits_of_the_sum(one: _Round, load: Array) -> Array:
    """Return the rounding of the logarithms, whose sums have as many terms as there are sequences."""
    asked = numbers(LOAD, "load", load)
    left = np.maximum(one.tokens - asked * one.slope, 0.1 * one.tokens)
    return 16.0 * (1.0 + asked * one.seconds(1.0) / left) ** 2


@_of("load")
def _summed(one: _Round, load: Array) -> Array:
    asked = numbers(LOAD, "load", load)
    left = one.tokens - asked * one.slope
    return (left >= 0.1 * one.tokens) & (asked * one.fixed <= 400.0 * left)


def _held_at(fewer: float, *, drafting: bool) -> Callable[..., Array]:
    """Return a side: the sequences at a part of the load (B* - fewer)/T_0(B*), if requests arrive at random."""

    @_of("mix")
    def side(one: _Round, mix: Array) -> Array:
        line = (one.tokens, one.fixed, one.slope) if drafting else (1.0, one.alone, one.each)
        return load_batch(_light(one, mix, fewer), *line)

    return side


def _light(one: _Round, mix: Array, fewer: float) -> Array:
    """Return a part of the load (B* - fewer)/T_0(B*); 0 if no B* exists."""
    batch = np.where(_upper(one), one.crossing(), 1.0)
    share = numbers(UNIT_INTERVAL, "mix", mix) * _upper(one)
    return share * (batch - fewer) / one.seconds_alone(batch)


def _upper(one: _Round) -> Array:
    start, rise = one.gain
    return (start > 0) & (rise < 0) & (start + rise >= 0)


@_of("mix")
def _digits_near_the_crossing(one: _Round, mix: Array) -> Array:
    """Return the rounding of both batches: 1/(E - load·S) magnifies it."""
    batch = one.crossing()
    lost = (one.seconds(batch) / one.seconds(1.0) + one.seconds_alone(batch) / one.seconds_alone(1.0)) * batch
    return 16.0 * lost


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

_AT_ONE = Assumption("drafts pay at batch 1", _pays_for_one)

CLAIMS = (
    Claim(
        id="serving.goodput_crossover",
        source=Source(_SMART, "from its batch time"),
        statement="at the batch B* = -u/v the goodput with K drafts is that of the target model alone",
        relation=Relation.EQ,
        lhs=_goodput_there,
        rhs=_alone_there,
        assumptions=(Assumption("the two goodputs meet at a positive batch", _crosses),),
        attained=Attained(_CASE),
    ),
    Claim(
        id="serving.goodput_everywhere",
        source=Source(_SMART, "a reading of speedups at batch 1"),
        origin=Origin.IMPLIED,
        statement="K drafts that pay at batch 1 pay at every batch: T_K(B) ≤ E T_0(B)",
        lhs=_drafting_s,
        rhs=_as_many_tokens_alone_s,
        assumptions=(_AT_ONE,),
        refuted=_CASE | {"batch_size": 8},
    ),
    Claim(
        id="serving.goodput_long",
        source=Source(_SMART, "from its batch time"),
        statement="K drafts that pay at batch 1 pay at every batch if S_K ≤ E S_0, as over a long context",
        lhs=_drafting_s,
        rhs=_as_many_tokens_alone_s,
        assumptions=(_AT_ONE, Assumption("S_K ≤ E S_0", _cheap_sequence)),
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
        lhs=_held,
        rhs=_held_by_balance,
        assumptions=(Assumption("load ≤ 0.9 E/S and few sequences: the law can be summed", _summed),),
        condition=_digits_of_the_sum,
        attained=Attained(_EQUAL | {"load": 1.25}),
    ),
    Claim(
        id="serving.goodput_light",
        source=Source(_LATENCY, "the batch by Little's law"),
        statement=(
            "up to the load (B* − 1)/T_0(B*) of requests that arrive at random (Poisson), K drafts hold no more "
            "sequences in the server than no drafts"
        ),
        lhs=_held_at(1.0, drafting=True),
        rhs=_held_at(1.0, drafting=False),
        assumptions=(Assumption("drafts pay at batch 1 and lose above B*", _of()(_upper)),),
        attained=Attained(_CASE | {"mix": 1.0}),
        condition=_digits_near_the_crossing,
    ),
    Claim(
        id="serving.goodput_light_even",
        source=Source(_LATENCY, "the batch by Little's law"),
        origin=Origin.IMPLIED,
        statement="the same up to the load B*/T_0(B*), at which requests that arrive evenly hold as many either way",
        lhs=_held_at(0.0, drafting=True),
        rhs=_held_at(0.0, drafting=False),
        assumptions=(Assumption("drafts pay at batch 1 and lose above B*", _of()(_upper)),),
        refuted=_CASE | {"mix": 1.0},
        condition=_digits_near_the_crossing,
    ),
)
